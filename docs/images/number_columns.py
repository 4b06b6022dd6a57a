"""Draw docs/images/number_columns.png: an income and its releases around round numbers.

Real rows are PINCP of national2019, an excerpt of the American Community Survey that is expected in `shared/data`
beside the checkout; without it the picture stays as it is. Its noise is that of a rehearsal, so that it changes only
when the software does.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import vl_convert

from populace.api.synthesize import synthesize
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.report.charts import CONFIG
from populace.release.report.palette import fill_colours
from populace.release.synthetic_rows import draw_table
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.schema import Schema

PICTURE = Path(__file__).with_suffix(".png")
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "nist-acs" / "national2019.csv"
COLUMN, EPSILON = "PINCP", "10"
FIRST, LAST, STEP = 0, 62_000, 500


def incomes() -> dict[str, np.ndarray]:
    """Return the real incomes, those of a release, and those of the same release drawn evenly inside bins."""
    sys.path.insert(0, str(ROOT / "bench"))
    from codebooks import imported
    from number_columns import learning, numbers_of

    with tempfile.TemporaryDirectory() as place:
        words = [str(DATA.with_suffix(".json")), "--dictionary", str(DATA.with_name("data_dictionary.json"))]
        plain = imported(*words, "--overlay", "nist-acs", out=Path(place) / "plain.toml")
        release = synthesize(
            DATA,
            schema=Schema.parse(learning(plain.read_text(encoding="utf-8"))),
            epsilon=EPSILON,
            delta="1e-5",
            seed=1,
            ledger=Path(place) / "ledger.db",
            dataset="docs",
            noise=ExactNoise(RehearsalEntropy(1)),
        )
    schema = release.measurements.schema
    column = schema.columns[COLUMN]
    if not isinstance(column, RangeColumn):
        raise SystemExit("the income is no range")
    even = schema.replace_columns({COLUMN: replace(column, density=None)})
    found = {"real rows": numbers_of(DATA)}
    for name, way in ((f"release, ε = {EPSILON}", schema), ("the same, drawn evenly inside bins", even)):
        table = draw_table(
            way, release.model, rows=release.synthetic.num_rows, rng=np.random.default_rng(1)
        ).table
        found[name] = pd.to_numeric(pd.Series(table[COLUMN].to_pylist()), errors="coerce").dropna().to_numpy()
    return found


def picture(found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return one Vega-Lite specification: counts of incomes in steps, one strip for each table."""
    strips = []
    for name, values in found.items():
        counts = np.bincount((values[(values >= FIRST) & (values < LAST)] // STEP).astype(np.int64))
        cells = [
            {"from": int(k * STEP), "to": int((k + 1) * STEP), "rows": int(n)} for k, n in enumerate(counts)
        ]
        zeros, round_ones = np.mean(values == 0), np.mean(values % 1000 == 0)
        strips.append(
            {
                "width": 860,
                "height": 110,
                "title": {
                    "text": f"{name}: {100 * zeros:.1f} % are 0, {100 * round_ones:.1f} % are multiples of 1,000",
                    "anchor": "start",
                    "fontSize": 12,
                },
                "data": {"values": cells},
                "mark": {"type": "bar", "binSpacing": 0},
                "encoding": {
                    "x": {
                        "field": "from",
                        "type": "quantitative",
                        "bin": "binned",
                        "title": "income in steps of $500" if len(strips) == 2 else None,
                        "axis": {"values": list(range(FIRST, LAST, 5000)), "format": ",d"},
                    },
                    "x2": {"field": "to"},
                    "y": {
                        "field": "rows",
                        "type": "quantitative",
                        "title": "rows",
                        "scale": {"domain": [0, 450], "clamp": True},
                    },
                },
            }
        )
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": {**CONFIG, "padding": 12, "background": "#ffffff"},
        "vconcat": strips,
        "spacing": 14,
    }


if __name__ == "__main__":
    if DATA.exists():
        PICTURE.write_bytes(vl_convert.vegalite_to_png(fill_colours(picture(incomes())), scale=1.25))
        print(PICTURE)
