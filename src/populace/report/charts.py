"""Vega-Lite specifications of the report's charts, as plain JSON.

Shape and position carry the meaning, colour only helps: a bar is synthetic, a diamond with whiskers is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from populace.release.statement import Stage
from populace.report.document import Column, Pair

Spec = dict[str, Any]

INK = "#1f2933"
GRID = "#e4e7eb"
SYNTHETIC = "#9fb8d6"
SYNTHETIC_EDGE = "#3f6797"
SPENT = "#3f6797"
LEFT = "#ffffff"
# Slanted labels of more bars than this would touch.
ALL_LABELS = 14

CONFIG: Spec = {
    "background": "#ffffff",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "gridColor": GRID,
        "domainColor": "#9aa5b1",
        "tickColor": "#9aa5b1",
    },
}


def budget(stages: Sequence[Stage]) -> Spec:
    """Return the waterfall of the budget: each stage starts where the one before ended."""
    rows: list[Spec] = []
    start = 0.0
    for stage in stages:
        end = start + stage.share
        rows.append(
            {"stage": stage.label, "start": start, "end": end, "text": percent(stage.share), "law": stage.law}
        )
        start = end
    if start < 0.9995:
        rows.append({"stage": "not used", "start": start, "end": 1.0, "text": percent(1 - start), "law": "–"})
    place = {"field": "stage", "type": "nominal", "sort": None, "axis": None}
    share = {"type": "quantitative", "scale": {"domain": [0, 1]}, "title": "share of the privacy budget"}
    tooltip = [
        {"field": "stage", "title": "for"},
        {"field": "text", "title": "share"},
        {"field": "law", "title": "noise"},
    ]
    unused = "datum.stage === 'not used'"
    return _spec(
        f"Waterfall of the privacy budget over {len(stages)} stages.",
        height=44 * len(rows),
        data={"values": rows},
        encoding={"y": place},
        layer=[
            {
                "mark": {"type": "bar", "height": 14, "yOffset": 7, "stroke": SPENT, "strokeWidth": 1},
                "encoding": {
                    "x": {"field": "start", **share, "axis": {"format": "%", "tickCount": 5}},
                    "x2": {"field": "end"},
                    "fill": {"condition": {"test": unused, "value": LEFT}, "value": SPENT},
                    "strokeDash": {"condition": {"test": unused, "value": [3, 3]}, "value": [1, 0]},
                    "tooltip": tooltip,
                },
            },
            {
                "mark": {
                    "type": "text",
                    "align": "left",
                    "baseline": "middle",
                    "dy": -10,
                    "x": 0,
                    "color": INK,
                },
                "transform": [{"calculate": "datum.stage + '  ·  ' + datum.text", "as": "line"}],
                "encoding": {"text": {"field": "line"}, "size": {"value": 12}},
            },
        ],
    )


def column(shown: Column) -> Spec:
    """Return one small multiple: bars of synthetic shares, diamonds with whiskers of measured ones."""
    values = [
        {
            "label": bar.label,
            "synthetic": _short(bar.synthetic),
            "measured": _short(bar.measured),
            "low": _short(bar.measured - bar.reach),
            "high": _short(bar.measured + bar.reach),
        }
        for bar in shown.bars
    ]
    tooltip = [
        {"field": "label", "title": shown.name},
        {"field": "synthetic", "title": "synthetic", "format": ".2%"},
        {"field": "measured", "title": "measured", "format": ".2%"},
        {"field": "low", "title": "noise from", "format": ".2%"},
        {"field": "high", "title": "noise to", "format": ".2%"},
    ]
    return _spec(
        f"Shares of the values of {shown.name}: synthetic as bars, measured with noise intervals.",
        height=150,
        data={"values": values},
        encoding={
            "x": {
                "field": "label",
                "type": "nominal",
                "sort": None,
                "title": None,
                "axis": {
                    "labelAngle": -40,
                    "labelLimit": 84,
                    "labelFontSize": 10,
                    "labelOverlap": len(values) > ALL_LABELS,
                    "grid": False,
                },
            },
            "tooltip": tooltip,
        },
        layer=[
            {
                "mark": {"type": "bar", "fill": SYNTHETIC, "stroke": SYNTHETIC_EDGE, "strokeWidth": 0.75},
                "encoding": {
                    "y": {
                        "field": "synthetic",
                        "type": "quantitative",
                        "title": None,
                        "axis": {"format": "%", "tickCount": 4},
                    }
                },
            },
            {
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.25},
                "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
            },
            {
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "filled": True,
                    "size": 26,
                    "color": INK,
                    "opacity": 1,
                },
                "encoding": {"y": {"field": "measured", "type": "quantitative"}},
            },
        ],
    )


def pairs(shown: Sequence[Pair]) -> Spec:
    """Return a row per pair: a dot at its distance, a bracketed tick where noise alone would put it."""
    values = [
        {
            "pair": " × ".join(pair.columns),
            "distance": _short(pair.comparison.distance),
            "noise": _short(pair.comparison.noise_alone),
            "told": percent(pair.comparison.distance),
            "told_noise": percent(pair.comparison.noise_alone),
            "reading": pair.comparison.reading,
        }
        for pair in shown
    ]
    farthest = max(max(pair.comparison.distance, pair.comparison.noise_alone) for pair in shown)
    tooltip = [
        {"field": "pair", "title": "pair"},
        {"field": "told", "title": "measured to synthetic"},
        {"field": "told_noise", "title": "noise alone"},
        {"field": "reading", "title": "reading"},
    ]
    return _spec(
        f"Total variation between measured and synthetic shares for {len(shown)} pairs, beside that of noise alone.",
        height=34 * len(values),
        data={"values": values},
        encoding={"y": {"field": "pair", "type": "nominal", "sort": None, "axis": None}, "tooltip": tooltip},
        layer=[
            {
                "mark": {"type": "rule", "color": "#9aa5b1", "strokeWidth": 2, "yOffset": 7},
                "encoding": {
                    "x": {
                        "field": "noise",
                        "type": "quantitative",
                        "title": "total variation",
                        "scale": {"domain": [0, min(1.0, 1.05 * farthest)], "clamp": True},
                        "axis": {"format": ".1~%", "tickCount": 5},
                    },
                    "x2": {"field": "distance"},
                },
            },
            {
                "mark": {"type": "tick", "color": INK, "thickness": 2, "size": 14, "yOffset": 7},
                "encoding": {"x": {"field": "noise", "type": "quantitative"}},
            },
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 70,
                    "color": SPENT,
                    "opacity": 1,
                    "yOffset": 7,
                },
                "encoding": {"x": {"field": "distance", "type": "quantitative"}},
            },
            {
                "mark": {
                    "type": "text",
                    "align": "left",
                    "baseline": "middle",
                    "dy": -8,
                    "x": 0,
                    "color": INK,
                },
                "encoding": {"text": {"field": "pair"}, "size": {"value": 12}},
            },
        ],
    )


def percent(share: float) -> str:
    """Return a share as a short percentage, never rounded to nothing; noise can push distances beyond the whole.

    >>> percent(0.1234), percent(0.00004), percent(0.0), percent(7.0)
    ('12.3 %', '< 0.1 %', '0 %', '> 100 %')
    """
    if share > 1:
        return "> 100 %"
    if 0 < abs(share) < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def _spec(description: str, **parts: Any) -> Spec:
    return {
        "description": description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        **parts,
        "config": CONFIG,
    }


def _short(share: float) -> float:
    return float(f"{share:.5g}")
