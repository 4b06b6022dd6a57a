"""Vega-Lite specifications of the report's charts, as plain JSON.

Shape and position carry the meaning, colour only helps: a bar is synthetic, a diamond with whiskers is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from populace.core.number_format import format_percent
from populace.release.report.bars import Bar
from populace.release.report.document import ColumnSummary, PairSummary
from populace.release.statement.cost import BudgetStage

Spec = dict[str, Any]

INK = "#1f2933"
GRID = "#e4e7eb"
SYNTHETIC = "#9fb8d6"
SYNTHETIC_EDGE = "#3f6797"
SPENT_FILL = "#3f6797"
UNSPENT_FILL = "#ffffff"
ERROR_BOUND_FILL = "#dfe7f1"
# Slanted labels of more bars than this would touch.
MAX_LABELS = 16
# Shares beyond the whole say no more than shares at its ends.
MAX_SHARE = 1.0
# A place in order stands before every name on an axis, so that equal names stay apart; this cuts it off again.
NAME_ONLY = "slice(datum.label, 4)"

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


def budget_chart(stages: Sequence[BudgetStage]) -> Spec:
    """Return the waterfall of the budget: each stage starts where the one before ended."""
    rows: list[Spec] = []
    start = 0.0
    for stage in stages:
        end = start + stage.share
        told = f"{stage.noise} ({stage.mechanism})"
        rows.append(
            {
                "stage": stage.label,
                "start": start,
                "end": end,
                "text": format_percent(stage.share),
                "noise": told,
            }
        )
        start = end
    if start < 0.9995:
        rows.append(
            {"stage": "not used", "start": start, "end": 1.0, "text": format_percent(1 - start), "noise": "–"}
        )
    for place, row in enumerate(rows):
        row["place"] = place
    share = {"type": "quantitative", "scale": {"domain": [0, 1]}, "title": "share of the privacy budget"}
    tooltip = [
        {"field": "stage", "title": "for"},
        {"field": "text", "title": "share"},
        {"field": "noise", "title": "noise"},
    ]
    unused = "datum.stage === 'not used'"
    return _spec(
        f"Waterfall of the privacy budget over {len(stages)} stages.",
        height=44 * len(rows),
        data={"values": rows},
        encoding={"y": {"field": "place", "type": "ordinal", "axis": None}},
        layer=[
            {
                "mark": {"type": "bar", "height": 14, "yOffset": 7, "stroke": SPENT_FILL, "strokeWidth": 1},
                "encoding": {
                    "x": {"field": "start", **share, "axis": {"format": "%", "tickCount": 5}},
                    "x2": {"field": "end"},
                    "fill": {"condition": {"test": unused, "value": UNSPENT_FILL}, "value": SPENT_FILL},
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
                    # A phone is just wide enough for the longest of our labels in small print.
                    "fontSize": {"expr": "width < 420 ? 10.5 : 12"},
                },
                "transform": [{"calculate": "datum.text + '  ·  ' + datum.stage", "as": "line"}],
                "encoding": {"text": {"field": "line"}},
            },
        ],
    )


def column_chart(shown: ColumnSummary) -> Spec:
    """Return one small multiple: bars of synthetic shares, diamonds of estimated ones with their intervals."""
    values = [
        {
            "place": _order_key(place, bar.label),
            "label": bar.label,
            "synthetic": _round_digits(bar.synthetic),
            "measured": _round_digits(bar.measured),
            "low": _round_digits(bar.measured - bar.reach),
            "high": _round_digits(bar.measured + bar.reach),
        }
        for place, bar in enumerate(shown.bars)
    ]
    tooltip = [
        {"field": "label", "title": shown.name},
        {"field": "synthetic", "title": "synthetic", "format": ".2%"},
        {"field": "measured", "title": "estimated", "format": ".2%"},
        {"field": "low", "title": "19 of 20 from", "format": ".2%"},
        {"field": "high", "title": "19 of 20 to", "format": ".2%"},
    ]
    scale = {"domain": [-MAX_SHARE, MAX_SHARE], "clamp": True} if is_clipped(shown) else {}
    upright = shown.kind == "categorical" and len(values) > MAX_LABELS
    return _spec(
        f"Shares of the values of {shown.name}: synthetic as bars, estimated with intervals.",
        height=150,
        data={"values": values},
        encoding={
            "x": {
                "field": "place",
                "type": "nominal",
                "sort": None,
                "title": None,
                "axis": {
                    "labelExpr": NAME_ONLY,
                    "values": [
                        _order_key(place, shown.bars[place].label) for place in choose_labels(shown.bars)
                    ]
                    if not upright
                    else None,
                    "labelAngle": -90 if upright else -40,
                    "labelLimit": 84,
                    "labelFontSize": 9 if upright else 10,
                    "labelOverlap": False,
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
                        "scale": scale,
                        "axis": {"format": "%", "tickCount": 4},
                    }
                },
            },
            {
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.25},
                "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
            },
            {
                # What lies beyond the axis is not drawn at its end, where it would look like a value.
                "transform": [{"filter": f"abs(datum.measured) <= {MAX_SHARE}"}],
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


def is_clipped(shown: ColumnSummary) -> bool:
    """Say whether the noise of a column reaches beyond all of the rows, where its axis is cut."""
    return any(abs(bar.measured) + bar.reach > MAX_SHARE for bar in shown.bars)


def choose_labels(bars: Sequence[Bar]) -> list[int]:
    """Return the places of the bars that get a label: all, or every so many; special codes always."""
    special = [place for place, bar in enumerate(bars) if bar.special]
    plain = [place for place, bar in enumerate(bars) if not bar.special]
    if len(bars) <= MAX_LABELS:
        return [*plain, *special]
    step = -(-len(plain) // max(MAX_LABELS - 2 - len(special), 1))
    shown = plain[::step]
    if special and len(plain) - shown[-1] < step:
        # It would touch the label of the special bar beside it.
        shown = shown[:-1]
    return [*shown, *special]


def pairs_chart(shown: Sequence[PairSummary]) -> Spec:
    """Return a row per pair: a band as far as the truth may be, a dot at its distance, a tick at noise alone.

    A diamond is where the truth likely is.
    """
    values = [
        {
            "place": _order_key(place, " × ".join(pair.columns)),
            "pair": " × ".join(pair.columns),
            "distance": _round_digits(pair.comparison.distance),
            "noise": _round_digits(pair.comparison.noise_alone),
            "truth": _round_digits(pair.comparison.truth_within),
            "told": format_percent(pair.comparison.distance),
            "told_noise": format_percent(pair.comparison.noise_alone),
            "told_truth": format_percent(pair.comparison.truth_within),
            "likely": None if pair.comparison.likely is None else _round_digits(pair.comparison.likely),
            "told_likely": "–" if pair.comparison.likely is None else format_percent(pair.comparison.likely),
            "reading": pair.comparison.reading,
        }
        for place, pair in enumerate(shown)
    ]
    farthest = max(pair.comparison.truth_within for pair in shown)
    tooltip = [
        {"field": "pair", "title": "pair"},
        {"field": "told_truth", "title": "truth within"},
        {"field": "told_likely", "title": "likely"},
        {"field": "told", "title": "measured to synthetic"},
        {"field": "told_noise", "title": "noise alone"},
        {"field": "reading", "title": "reading"},
    ]
    return _spec(
        f"How far measured and synthetic shares are apart for {len(shown)} pairs, beside noise alone.",
        height=30 * len(values),
        data={"values": values},
        encoding={
            "y": {
                "field": "place",
                "type": "nominal",
                "sort": None,
                "title": None,
                "axis": {
                    # On a phone a pair takes two lines, one for each column.
                    "labelExpr": f"width < 480 ? split({NAME_ONLY}, ' × ') : {NAME_ONLY}",
                    "labelOffset": {"expr": "width < 480 ? -6 : 0"},
                    "labelLimit": 300,
                    "ticks": False,
                    "domain": False,
                    "labelPadding": 8,
                    "grid": False,
                },
            },
            "tooltip": tooltip,
        },
        layer=[
            {
                "mark": {"type": "bar", "color": ERROR_BOUND_FILL, "height": 18},
                "encoding": {
                    "x": {
                        "field": "truth",
                        "type": "quantitative",
                        "title": "share of rows that would have to change",
                        "scale": {"domain": [0, min(MAX_SHARE, 1.05 * farthest)], "clamp": True},
                        "axis": {"format": ".1~%", "tickCount": 4},
                    },
                },
            },
            {
                "mark": {"type": "tick", "color": INK, "thickness": 2, "size": 18},
                "encoding": {"x": {"field": "noise", "type": "quantitative"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "color": SPENT_FILL, "opacity": 1},
                "encoding": {"x": {"field": "distance", "type": "quantitative"}},
            },
            {
                "transform": [{"filter": "datum.likely !== null"}],
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "filled": False,
                    "size": 90,
                    "color": INK,
                    "opacity": 1,
                },
                "encoding": {"x": {"field": "likely", "type": "quantitative"}},
            },
        ],
    )


def _spec(description: str, **parts: Any) -> Spec:
    return make_spec(description, parts)


def make_spec(description: str, parts: Spec) -> Spec:
    """Return a specification that is as wide as its place on the page."""
    return {
        "description": description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        **parts,
        "config": CONFIG,
    }


def _order_key(place: int, name: str) -> str:
    return f"{place:03d} {name}"


def _round_digits(share: float) -> float:
    return float(f"{share:.5g}")
