"""Draw docs/images/truth.png: an invented population beside what populace and mbi release of it. Run by `make docs`.

    python docs/images/truth.py                  draw the picture from truth.json, which is kept beside it
    python docs/images/truth.py --run            make the numbers anew (make bench-env first; 15 minutes), then draw

The population is invented, so its true counts may be shown. All programs read the same codes at the same ε and δ.
Seconds are those of a whole run of populace, and of fitting alone with mbi.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import vl_convert

PICTURE = Path(__file__).with_suffix(".png")
NUMBERS = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).resolve().parents[2]
PEER = ROOT / ".bench" / "mbi" / "bin" / "python"
EPSILON, DELTA = "1", "1e-9"
COLUMNS = ("income", "education", "work")
# Of crosstabs that people ask for, one whose errors are to each other about as the means over all pairs are.
CROSSTAB = ("age", "relationship")
PEERS = {"mbi AIM": "aim", "mbi MST": "mst"}
SERIES = ["truth", "populace", *PEERS]

INK, GRID = "#1f2933", "#e4e7eb"
COLOURS = {"truth": "#c9d1db", "populace": "#2f6fb0", "mbi AIM": "#d9a441", "mbi MST": "#c2571a"}
CONFIG = {
    "background": "#ffffff",
    "padding": 14,
    "font": "DejaVu Sans, Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {"labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": "#9aa5b1", "tickColor": "#9aa5b1",
             "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 12, "labelColor": INK, "symbolSize": 110},
    "title": {"color": INK, "anchor": "start", "fontSize": 13, "subtitleColor": "#52606d", "subtitleFontSize": 11},
}  # fmt: skip


def run() -> dict[str, Any]:
    """Return the counts of the truth and of one release of each program, and the errors of all pairs of columns."""
    import populace as pp
    from populace.private.read.rows_to_codes import open_source, read_codes
    from populace.release.report.bars import join_labels, label_bins
    from populace.simulation.population import simulate_population

    table, schema = simulate_population()
    domain = {name: int(size) for name, size in schema.domain.items()}
    codes, seconds = {"truth": read_codes(open_source(table), schema)}, {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        begun = time.process_time()
        release = pp.synthesize(
            table, schema=schema, epsilon=EPSILON, delta=DELTA, ledger=folder / "ledger.db", seed=1
        )
        seconds["populace"] = time.process_time() - begun
        codes["populace"] = read_codes(open_source(release.table), schema)
        pq.write_table(pa.table(codes["truth"]), folder / "codes.parquet")
        (folder / "domain.json").write_text(json.dumps(domain), encoding="utf-8")
        for name, method in PEERS.items():
            words = [
                PEER,
                ROOT / "bench/peers/mbi_synth.py",
                folder / "codes.parquet",
                folder / "domain.json",
            ]
            said = _ask([*map(str, words), EPSILON, DELTA, method, str(folder / "rows.parquet")])
            seconds[name] = float(said.split("fitting took ")[1].split()[0])
            rows = pq.read_table(folder / "rows.parquet")
            codes[name] = {column: rows[column].to_numpy() for column in domain}

    def count(series: str, *columns: str) -> Any:
        shape = [domain[name] for name in columns]
        cells = np.ravel_multi_index([codes[series][name] for name in columns], shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)

    def error(series: str, *columns: str) -> float:
        found, truth = (count(name, *columns) for name in (series, "truth"))
        return float(f"{0.5 * np.abs(found / found.sum() - truth / truth.sum()).sum():.4g}")

    peer = _ask([str(PEER), "-c", "from importlib.metadata import version; print(version('mbi'))"]).strip()
    shown = sorted({*COLUMNS, *CROSSTAB})
    return {
        "rows": table.num_rows,
        "epsilon": EPSILON,
        "delta": DELTA,
        "versions": {"populace": version("populace"), "mbi": peer},
        "seconds": {name: round(spent, 1) for name, spent in seconds.items()},
        "labels": {
            name: [join_labels(ends, ends) for ends in label_bins(schema.columns[name])] for name in shown
        },
        "columns": {name: {series: count(series, name).tolist() for series in SERIES} for name in COLUMNS},
        "crosstab": {series: count(series, *CROSSTAB).tolist() for series in SERIES},
        "pairs": [
            {"columns": list(pair), **{series: error(series, *pair) for series in SERIES[1:]}}
            for pair in combinations(domain, 2)
        ],
    }


def _ask(words: list[str]) -> str:
    """Return what a program prints."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def picture(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return one Vega-Lite specification: columns and the errors of all pairs above, one crosstab below."""
    apart = {"resolve": {"scale": {"color": "independent"}}}
    above = [*(_column(name, numbers) for name in COLUMNS), _errors(numbers)]
    below = [_crosstab(series, numbers) for series in SERIES]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": CONFIG,
        "vconcat": [{"hconcat": above, "spacing": 24, **apart}, {"hconcat": below, "spacing": 24}],
        "spacing": 18,
        **apart,
    }


def _column(name: str, numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the distribution of one column: bars are the truth, marks what was released."""
    truth = numbers["columns"][name]["truth"]
    rows = [
        {"label": _short(label), "share": counts[place] / sum(counts), "of": series}
        for series, counts in numbers["columns"][name].items()
        for place, label in enumerate(numbers["labels"][name])
        if truth[place]
    ]
    x = {"field": "label", "type": "nominal", "sort": None, "title": None,
         "axis": {"labelAngle": -45, "labelOverlap": True, "labelLimit": 80}}  # fmt: skip
    y = {"field": "share", "type": "quantitative", "title": None, "axis": {"format": ".0%", "tickCount": 4}}
    colours = {"domain": SERIES, "range": [COLOURS[series] for series in SERIES]}
    colour = {"field": "of", "type": "nominal", "scale": colours, "legend": None}
    return {
        "title": {
            "text": name,
            "subtitle": [
                "share of people; bars are the truth, dots the releases,",
                "from left: populace, mbi AIM, mbi MST",
            ],
        },
        "width": 255,
        "height": 140,
        "data": {"values": rows},
        "layer": [
            {
                "transform": [{"filter": "datum.of == 'truth'"}],
                "mark": {"type": "bar", "width": {"band": 0.9}},
                "encoding": {"x": x, "y": y, "color": colour},
            },
            *(
                {
                    "transform": [{"filter": f"datum.of == '{series}'"}],
                    "mark": {
                        "type": "point",
                        "filled": True,
                        "size": 24,
                        "opacity": 1,
                        "xOffset": 6 * place - 6,
                    },
                    "encoding": {"x": x, "y": y, "color": colour},
                }
                for place, series in enumerate(SERIES[1:])
            ),
        ],
    }


def _errors(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the errors of all pairs of columns: a dot for each pair, a bar for the mean."""
    dots, means = [], []
    for series in SERIES[1:]:
        errors = [pair[series] for pair in numbers["pairs"]]
        mean, spent = float(np.mean(errors)), numbers["seconds"][series]
        time = f"{spent:.0f} s" if spent < 120 else f"{spent / 60:.0f} min"
        means.append({"of": series, "mean": mean, "text": f"{series}: mean {_percent(mean)}, {time}"})
        dots += [{"of": series, "error": error} for error in errors]
    y = {"field": "of", "type": "nominal", "sort": None, "axis": None}
    colours = {"domain": SERIES, "range": [COLOURS[series] for series in SERIES]}
    colour = {"field": "of", "type": "nominal", "scale": colours, "legend": None}
    x = {"type": "quantitative", "title": None, "axis": {"format": ".0%", "tickCount": 5}}
    return {
        "title": {
            "text": f"error of all {len(numbers['pairs'])} pairs of columns",
            "subtitle": "total variation; a dot for each pair",
        },
        "width": 255,
        "height": 140,
        "layer": [
            {
                "data": {"values": dots},
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.45, "yOffset": 6},
                "encoding": {"x": {"field": "error", **x}, "y": y, "color": colour},
            },
            {
                "data": {"values": means},
                "mark": {"type": "tick", "thickness": 3, "height": 18, "yOffset": 6, "color": INK},
                "encoding": {"x": {"field": "mean", **x}, "y": y},
            },
            {
                "data": {"values": means},
                "mark": {"type": "text", "align": "left", "dy": -13, "x": 4, "fontSize": 11, "color": INK},
                "encoding": {"y": y, "text": {"field": "text"}},
            },
        ],
    }


def _crosstab(series: str, numbers: dict[str, Any]) -> dict[str, Any]:
    """Return one crosstab as stacked bars: the shares of one column within every code of the other."""
    across, stacked = CROSSTAB
    table = np.array(numbers["crosstab"][series], dtype=float)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    values = [
        {across: first, stacked: second, "share": float(shares[i, j]), "place": j}
        for i, first in enumerate(numbers["labels"][across])
        for j, second in enumerate(numbers["labels"][stacked])
    ]
    (pair,) = (pair for pair in numbers["pairs"] if {*pair["columns"]} == {*CROSSTAB})
    below = (
        f"{stacked} within {across}" if series == "truth" else f"error of the table {_percent(pair[series])}"
    )
    return {
        "title": {"text": f"{across} × {stacked}: {series}", "subtitle": below},
        "width": 250,
        "height": 170,
        "data": {"values": values},
        "mark": {"type": "bar", "width": {"band": 0.96}},
        "encoding": {
            "x": {"field": across, "type": "nominal", "sort": None, "title": None,
                  "axis": {"labelAngle": -45, "labelOverlap": True}},
            "y": {"field": "share", "type": "quantitative", "title": None, "stack": True,
                  "scale": {"domain": [0, 1]}, "axis": {"format": ".0%", "tickCount": 4}},
            "color": {"field": stacked, "type": "nominal", "legend": {"title": None, "orient": "bottom"},
                      "scale": {"domain": numbers["labels"][stacked], "scheme": "tableau10"}},
            "order": {"field": "place"},
        },
    }  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _short(label: str) -> str:
    return label if len(label) <= 14 else f"{label[:7]}…{label[-6:]}"


if __name__ == "__main__":
    if "--run" in sys.argv[1:]:
        NUMBERS.write_text(json.dumps(run(), ensure_ascii=False) + "\n", encoding="utf-8")
    PICTURE.write_bytes(
        vl_convert.vegalite_to_png(picture(json.loads(NUMBERS.read_text(encoding="utf-8"))), scale=1)
    )
    print(PICTURE)
