"""Draw docs/images/release.png: one run of the demo's job, as the report shows it. Run by `make docs`.

Its noise is that of a rehearsal, so that the picture changes only when the software does. The numbers that must not
go stale are kept in release.json beside it, and a test compares them with a new run.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import vl_convert

from populace.api.synthesize import synthesize
from populace.cli.demo import DELTA, EPSILON
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.report.charts import CONFIG, budget_chart, column_chart, pairs_chart
from populace.release.report.report_data import ReportDocument
from populace.release.report.palette import fill_colours
from populace.simulation.sample_survey import simulate_survey

PICTURE = Path(__file__).with_suffix(".png")
NUMBERS = Path(__file__).with_suffix(".json")
COLUMNS = ("age", "income", "education", "work")


def document() -> ReportDocument:
    """Return the report of one rehearsed run."""
    table, schema = simulate_survey()
    with tempfile.TemporaryDirectory() as folder:
        release = synthesize(
            table,
            schema=schema,
            epsilon=EPSILON,
            delta=DELTA,
            seed=1,
            ledger=Path(folder) / "ledger.db",
            noise=ExactNoise(RehearsalEntropy(1)),
        )
    return release.document()


def numbers(shown: ReportDocument) -> dict[str, Any]:
    """Return what the picture says about the budget: the stages of the run and their shares."""
    return {
        "epsilon": EPSILON,
        "delta": DELTA,
        "stages": [{"what": stage.label, "percent": round(100 * stage.share)} for stage in shown.stages],
    }


def picture(shown: ReportDocument) -> dict[str, Any]:
    """Return one Vega-Lite specification: the budget and some pairs on the left, some columns on the right."""
    columns = {part.name: part for part in shown.columns}
    plots = [_panel(name, column_chart(columns[name]), 300) for name in COLUMNS]
    spent = _panel(f"where the budget went: ε = {EPSILON}, δ = {DELTA}", budget_chart(shown.stages), 300)
    apart = _panel(
        "pairs: rows from noisy counts (dot), likely from the truth (diamond)",
        pairs_chart([pair for pair in shown.pairs if pair.comparison.likely is not None][:5]),
        300,
    )
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": {**CONFIG, "padding": 12, "background": "#ffffff"},
        "hconcat": [
            {"vconcat": [spent, apart], "spacing": 24},
            {"vconcat": plots[:2], "spacing": 18},
            {"vconcat": plots[2:], "spacing": 18},
        ],
        "spacing": 34,
    }


def _panel(title: str, spec: dict[str, Any], width: int) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in ("config", "autosize", "width")}
    heading = {"text": title, "anchor": "start", "fontSize": 12, "fontWeight": "bold"}
    return {**kept, "width": width, "title": heading}


if __name__ == "__main__":
    shown = document()
    PICTURE.write_bytes(vl_convert.vegalite_to_png(fill_colours(picture(shown)), scale=1.25))
    NUMBERS.write_text(json.dumps(numbers(shown), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(PICTURE)
