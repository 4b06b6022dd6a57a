"""Charts of a hierarchical release, as Vega-Lite specifications: precision, intervals, bias and budget by level.

Levels differ in shape as well as in colour, and kinds of tables stand in rows of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from populace.core.number_format import format_number, format_with_error
from populace.release.report import charts
from populace.release.report.charts import Spec
from populace.release.report.hierarchy.hierarchy_document import (
    ErrorPoint,
    QueryPrecision,
    RankedUnits,
    SimulatedTotal,
    UnitInterval,
)
from populace.release.report.hierarchy.hierarchy_report import format_margin
from populace.release.report.hierarchy.level_axes import (
    COUNT_EXPR,
    count_axis,
    level_marks,
    log_axis,
    log_ticks,
    named_rows,
    spaced_labels,
)
from populace.release.report.palette import colour

# More rows than these are not drawn: tables of single columns are left to the page's table.
MAX_PRECISION_ROWS = 64
# Letters of a unit's id on a wide page and on a phone.
UNIT_LETTERS, UNIT_PHONE_LETTERS = 24, 18
# Counts of 0 stand here on an axis of logarithms.
ZERO_PLACE = 0.5
ZERO_COUNT_EXPR = f"datum.value < 1 ? '0' : {COUNT_EXPR}"


def precision_chart(found: Sequence[QueryPrecision], *, plural: str) -> Spec:
    """Return a row for each level and table: a dot at the median margin of error, a tick at the 95th percentile."""
    if len(found) > MAX_PRECISION_ROWS:
        widest = max(len(each.columns) for each in found)
        found = [each for each in found if len(each.columns) in (0, widest)]
    names: list[tuple[str, QueryPrecision | None]] = []
    for level, rows in groupby(found, key=lambda each: each.level):
        names += [(level, None), *((each.name, each) for each in rows)]
    places = charts.label_rows([name for name, _ in names])
    values = [
        {
            "place": place,
            "level": each.level,
            "table": each.name,
            "margin": charts.round_digits(each.margin),
            "high": charts.round_digits(each.margin_high),
            "text": f"± {format_margin(each.margin)} {plural}",
            "high_text": f"± {format_margin(each.margin_high)} {plural}",
            "kind": "total" if not each.columns else "cells",
        }
        for place, (_, each) in zip(places, names, strict=True)
        if each is not None and each.margin_high > 0
    ]
    heads = [place for place, (_, each) in zip(places, names, strict=True) if each is None]
    titles = {"level": "level", "table": "counts of", "text": "median margin", "high_text": "95th percentile"}
    ends = [end for each in found for end in (each.margin, each.margin_high) if end > 0] or [1.0]
    return charts.make_spec(
        f"95 % margins of error of counts, in {plural}, by level and table: median and 95th percentile over units.",
        values,
        height=21 * len(places) + 6,
        encoding={"y": named_rows(places, bold=heads), "tooltip": charts.make_tooltip(titles)},
        layers=[
            {
                "mark": {"type": "rule", "color": charts.BAR_EDGE, "strokeWidth": 2},
                "encoding": {
                    "x": charts.quantity("margin") | log_axis(f"95 % margin of error, {plural}", ends),
                    "x2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "tick", "color": charts.INK, "thickness": 2, "size": 13},
                "encoding": {"x": charts.quantity("high")},
            },
            {
                "mark": charts.dot(60),
                "encoding": {
                    "x": charts.quantity("margin"),
                    "shape": {
                        "condition": {"test": "datum.kind === 'total'", "value": "diamond"},
                        "value": "circle",
                    },
                },
            },
        ],
        title="Median and 95th percentile over units",
    )


def error_chart(points: Sequence[ErrorPoint], *, levels: Sequence[str], plural: str) -> Spec:
    """Return expected absolute errors against published totals, with lines of equal relative error."""
    values = [
        {
            "level": point.level,
            "place": max(ZERO_PLACE, point.published),
            "error": charts.round_digits(point.error),
            "text": format_number(point.published),
            "error_text": format_number(point.error),
        }
        for point in points
    ]
    errors = [point.error for point in points] or [1.0]
    right = 2.0 * max([1, *(point.published for point in points)])
    bottom, top = min(errors) / 2, max(errors) * 3
    lines = [
        line
        for share in (1.0, 0.1, 0.01, 0.001)
        if (line := _relative_line(share, right=right, bottom=bottom, top=top)) is not None
    ]
    ticks = [ZERO_PLACE, *(10.0**power for power in range(1 + math.floor(math.log10(right))))]
    x = {
        "title": f"published total, {plural}",
        "scale": {"type": "log", "domain": [ZERO_PLACE * 0.8, right], "nice": False},
        "axis": spaced_labels(ticks, text=ZERO_COUNT_EXPR) | {"grid": False},
    }
    y = {
        "title": f"expected absolute error, {plural}",
        "scale": {
            "type": "log",
            "domain": [charts.round_digits(bottom), charts.round_digits(top)],
            "nice": False,
        },
        "axis": {"values": log_ticks(bottom, top), "labelExpr": COUNT_EXPR},
    }
    titles = {"level": "level", "text": "published total", "error_text": "expected absolute error"}
    dashed = {"type": "line", "color": charts.BOUND_EDGE, "strokeDash": [4, 3], "strokeWidth": 1}
    return charts.make_spec(
        f"Expected absolute error of unit totals, in {plural}, against the published total, by level.",
        values,
        height=320,
        encoding={},
        layers=[
            {
                "data": {"values": [point for line in lines for point in line]},
                "mark": {**dashed, "clip": True},
                "encoding": {
                    "x": charts.quantity("place") | x,
                    "y": charts.quantity("error") | y,
                    "detail": {"field": "share"},
                },
            },
            {
                "data": {"values": [line[-1] for line in lines]},
                "mark": {
                    "type": "text",
                    "align": "right",
                    "dx": -4,
                    "dy": -6,
                    "fontSize": {"expr": f"width < {charts.PHONE_WIDTH} ? 0 : 10"},
                    "color": colour("soft"),
                },
                "encoding": {
                    "x": charts.quantity("place"),
                    "y": charts.quantity("error"),
                    "text": {"field": "share"},
                },
            },
            {
                "mark": {"type": "point", "filled": False, "size": 34, "opacity": 0.85},
                "encoding": {
                    "x": charts.quantity("place"),
                    "y": charts.quantity("error"),
                    **level_marks(levels),
                    "tooltip": charts.make_tooltip(titles),
                },
            },
        ],
        title="Expected absolute error of a unit’s total",
    )


def interval_chart(ranked: RankedUnits, *, plural: str) -> Spec:
    """Return units by size: a diamond for the published total, a band for unbiased estimate ± margin of error."""
    rows: list[UnitInterval | None] = []
    for unit in ranked.shown:
        if rows and (last := rows[-1]) is not None and unit.rank > last.rank + 1:
            rows.append(None)
        rows.append(unit)
    left = f"… {format_number(ranked.units - len(ranked.shown))} more"
    labels = _label_units(ranked)
    places = charts.label_lines([(left, (left,)) if unit is None else labels[unit] for unit in rows])
    values = [
        _interval_value(unit, place=place, ranked=ranked)
        for place, unit in zip(places, rows, strict=True)
        if unit is not None
    ]
    ends = [float(value[end]) for value in values for end in ("low", "high", "published")]
    margins = [unit.margin for unit in ranked.shown]
    return _draw_intervals(
        f"Published totals, in {plural}, of units of level {ranked.level} with their 95 % confidence intervals.",
        values,
        places,
        axis=count_axis(f"total, {plural}", ends, near_zero=margins),
        level=ranked.level,
        title=f"Totals and 95 % confidence intervals, {ranked.level}",
    )


def offset_chart(ranked: RankedUnits, *, plural: str) -> Spec:
    """Return units by size, each with its interval as seen from the published total, which stands at 0."""
    places = charts.label_lines([*_label_units(ranked).values()])
    values = [
        _interval_value(unit, place=place, ranked=ranked, origin=unit.published)
        for place, unit in zip(places, ranked.shown, strict=True)
    ]
    return _draw_intervals(
        f"95 % confidence intervals of totals of units of level {ranked.level}, in {plural}, from the published "
        "total on.",
        values,
        places,
        axis=_distance_axis(f"distance from the published total, {plural}"),
        level=ranked.level,
        title=f"User: intervals around published totals, {ranked.level}",
    )


def producer_chart(simulated: Sequence[SimulatedTotal], *, level: str, units: int, plural: str) -> Spec:
    """Return units by size in a simulated release: the noise around the truth, which stands at 0."""
    names = charts.shorten_labels([each.unit for each in simulated], UNIT_PHONE_LETTERS)
    texts = [format_number(each.total) for each in simulated]
    lines = [(f"{name}  ·  {text}", (name, text)) for name, text in zip(names, texts, strict=True)]
    places = charts.label_lines(lines)
    values: list[Spec] = [
        {
            "place": place,
            "unit": each.unit,
            "published": each.published,
            "unbiased": round(each.unbiased, 2),
            "low": round(-each.margin, 2),
            "high": round(each.margin, 2),
            "text": f"{each.published:+d} from the truth",
            "interval": f"± {format_margin(each.margin)} around the truth" if each.margin else "exact",
            "rank": f"{format_number(each.rank)} of {format_number(units)}",
        }
        for place, each in zip(places, simulated, strict=True)
    ]
    return _draw_intervals(
        f"Simulated totals of units of level {level}, in {plural}, as far from the truth as noise puts them.",
        values,
        places,
        axis=_distance_axis(f"distance from the true total, {plural}"),
        level=level,
        title=f"Producer: noise around the truth, {level}",
    )


def _distance_axis(title: str) -> Spec:
    ticks = {"tickCount": {"expr": f"width < {charts.PHONE_WIDTH} ? 3 : 7"}, "labelExpr": COUNT_EXPR}
    return {"title": title, "scale": {"nice": True}, "axis": ticks}


def _interval_value(unit: UnitInterval, *, place: str, ranked: RankedUnits, origin: int = 0) -> Spec:
    return {
        "place": place,
        "unit": unit.unit,
        "published": unit.published - origin,
        "unbiased": round(unit.unbiased - origin, 2),
        "low": round(unit.unbiased - unit.margin - origin, 2),
        "high": round(unit.unbiased + unit.margin - origin, 2),
        "text": format_number(unit.published),
        "interval": _describe_interval(unit),
        "rank": f"{format_number(unit.rank)} of {format_number(ranked.units)}",
    }


def _draw_intervals(
    description: str, values: Sequence[Spec], places: Sequence[str], *, axis: Spec, level: str, title: str
) -> Spec:
    titles = {"unit": level, "rank": "rank", "text": "published", "interval": "95 % confidence interval"}
    tick = {"type": "tick", "color": charts.ACCENT, "thickness": 2, "size": 12}
    return charts.make_spec(
        description,
        values,
        title=title,
        height=32 * len(places) + 6,
        encoding={"y": named_rows(places, lines=2), "tooltip": charts.make_tooltip(titles)},
        layers=[
            {
                "mark": charts.interval_band(12),
                "encoding": {"x": charts.quantity("low") | axis, "x2": {"field": "high"}},
            },
            {"mark": tick, "encoding": {"x": charts.quantity("unbiased")}},
            {"mark": charts.diamond(44), "encoding": {"x": charts.quantity("published")}},
        ],
    )


def _relative_line(share: float, *, right: float, bottom: float, top: float) -> list[Spec] | None:
    """Return the ends of the line of a relative error that lie in a chart, if it crosses it."""
    first, last = max(ZERO_PLACE, bottom / share), min(right, top / share)
    if first * 2 > last:
        return None
    return [
        {"place": place, "error": share * place, "share": f"{100 * share:g} % of the total"}
        for place in (first, last)
    ]


def _label_units(ranked: RankedUnits) -> dict[UnitInterval, tuple[str, tuple[str, ...]]]:
    """Return the labels of units: their ids, cut where they are long, with the published total and its margin."""
    names = [unit.unit for unit in ranked.shown]
    wide, narrow = (
        charts.shorten_labels(names, UNIT_LETTERS),
        charts.shorten_labels(names, UNIT_PHONE_LETTERS),
    )
    found: dict[UnitInterval, tuple[str, tuple[str, ...]]] = {}
    for unit, long, short in zip(ranked.shown, wide, narrow, strict=True):
        margin = f" ± {format_margin(unit.margin)}" if unit.margin else ""
        text = f"{format_number(unit.published)}{margin}"
        found[unit] = (f"{long}  ·  {text}", (short, text))
    return found


def _describe_interval(unit: UnitInterval) -> str:
    if not unit.margin:
        return "exact"
    low, high = (format_with_error(unit.unbiased + sign * unit.margin, unit.margin) for sign in (-1, 1))
    return f"{low} to {high}"
