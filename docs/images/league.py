"""Draw docs/images/league.png: the error of every method on four tables, from bench/results/league.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import vl_convert

from populace.release.report.charts import CONFIG
from populace.release.report.palette import fill_colours

PICTURE = Path(__file__).with_suffix(".png")
STANDINGS = Path(__file__).resolve().parents[2] / "bench" / "results" / "league.txt"
TABLES = {
    "nltcs": "nltcs: 16 columns, 21,574 rows",
    "adult": "adult: 14 columns, 48,842 rows",
    "ma2019": "ma2019: 24 columns, 7,634 rows",
    "nist2020-acs": "nist2020-acs, 2016–2018: 35 columns, 73,325 rows",
}


def standings(text: str) -> list[dict[str, Any]]:
    """Return the runs that ended with a release: table, ε, method and mean error over pairs."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 4 and words[0] in TABLES and words[3].isdigit() and words[4].startswith("0."):
            data, epsilon, method, _, pairs = words[:5]
            found.append({"data": data, "epsilon": epsilon, "method": method, "pairs": float(pairs)})
    return found


def picture(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one Vega-Lite specification: a panel for each table, a line for each method, a mark for each ε."""
    panels = []
    for data, title in TABLES.items():
        here = [run | {"pairs": max(run["pairs"], 2e-4)} for run in found if run["data"] == data]
        order = {run["method"]: run["pairs"] for run in here if run["epsilon"] == "1"}
        methods = sorted({run["method"] for run in here}, key=lambda name: order.get(name, 9.0))
        y = {"field": "method", "type": "nominal", "sort": methods, "title": None}
        x = {
            "field": "pairs",
            "type": "quantitative",
            "scale": {"type": "log", "domain": [2e-4, 1]},
            "title": "mean total variation over all pairs of columns (left is better)",
            "axis": {"values": [0.001, 0.01, 0.1, 1], "format": "~r"},
        }
        panels.append(
            {
                "width": 380,
                "height": {"step": 19},
                "title": {"text": title, "anchor": "start", "fontSize": 12},
                "data": {"values": here},
                "layer": [
                    {"mark": {"type": "rule", "color": "#bbbbbb"}, "encoding": {
                        "y": y,
                        "x": {"aggregate": "min", **x},
                        "x2": {"aggregate": "max", "field": "pairs"},
                    }},
                    {"mark": {"type": "point", "filled": True, "size": 70, "opacity": 1}, "encoding": {
                        "y": y,
                        "x": x,
                        "shape": {
                            "field": "epsilon",
                            "type": "nominal",
                            "title": "ε",
                            "sort": ["0.1", "1", "10"],
                            "scale": {"domain": ["0.1", "1", "10"], "range": ["circle", "diamond", "triangle-up"]},
                        },
                        "color": {
                            "field": "epsilon",
                            "type": "nominal",
                            "title": "ε",
                            "sort": ["0.1", "1", "10"],
                            "scale": {"domain": ["0.1", "1", "10"], "range": ["#b4601f", "#3b6ea8", "#1c1c1c"]},
                        },
                    }},
                ],
            }
        )  # fmt: skip
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": {**CONFIG, "padding": 12, "background": "#ffffff"},
        "vconcat": [{"hconcat": panels[:2], "spacing": 24}, {"hconcat": panels[2:], "spacing": 24}],
        "spacing": 20,
    }


if __name__ == "__main__":
    found = standings(STANDINGS.read_text(encoding="utf-8"))
    PICTURE.write_bytes(vl_convert.vegalite_to_png(fill_colours(picture(found)), scale=1.25))
    print(PICTURE)
