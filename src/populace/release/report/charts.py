"""Vega-Lite specifications of the report's charts, as plain JSON.

Shape and position carry the meaning, colour only helps: a bar is synthetic, a diamond with whiskers is estimated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from populace.core.number_format import format_percent, format_percent_bound
from populace.release.report.bars import Bar
from populace.release.report.palette import colour
from populace.release.report.report_data import ColumnSummary, PairSummary
from populace.release.statement.cost import BudgetStage

Spec = dict[str, Any]

INK = colour("ink")
BAR, BAR_EDGE = colour("bar"), colour("bar-edge")
ACCENT = colour("accent")
BOUND, BOUND_EDGE = colour("bound"), colour("bound-edge")
# Slanted labels of more bars than this would touch.
MAX_LABELS = 16
# Letters of a label: below a bar, beside a row on a wide page and on a phone, above a stage of the budget.
BAR_LETTERS, ROW_LETTERS, PHONE_LETTERS, STAGE_LETTERS = 15, 44, 17, 58
# A page narrower than this many pixels is a phone's.
PHONE_WIDTH = 480
# Shares beyond the whole say no more than shares at its ends.
MAX_SHARE = 1.0
# Percentages on axes and in tooltips, as the tables have them.
PERCENT_EXPR = "replace(format(datum.value, '.2~%'), '%', ' %')"
# Labels of an axis are told apart by their place in order; behind it come the wide and the narrow spelling.
_BREAK, _LINE = "\ue000", "\ue001"
LABEL_EXPR = f"split(split(slice(datum.label, 3), '{_BREAK}')[width < {PHONE_WIDTH} ? 1 : 0], '{_LINE}')"

CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    "view": {"stroke": None},
    "title": {"color": INK},
    "legend": {"labelColor": INK, "titleColor": INK},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "gridColor": colour("grid"),
        "domainColor": colour("axis"),
        "tickColor": colour("axis"),
    },
}


def budget_chart(stages: Sequence[BudgetStage]) -> Spec:
    """Return the waterfall of the budget: each stage starts where the one before ended."""
    rows: list[Spec] = []
    start = 0.0
    for stage in stages:
        noise = f"{stage.noise} ({stage.mechanism})" if stage.mechanism else stage.noise
        rows.append({"stage": stage.label, "start": start, "end": start + stage.share, "noise": noise})
        start += stage.share
    if start < 0.9995:
        rows.append({"stage": "not used", "start": start, "end": 1.0, "noise": "–"})
    for place, row in enumerate(rows):
        share = format_percent(row["end"] - row["start"])
        row |= {
            "place": place,
            "text": share,
            "line": f"{share}  ·  {row['stage']}",
            "short": f"{share}  ·  {cut_middle(row['stage'], STAGE_LETTERS)}",
        }
    unused = "datum.stage === 'not used'"
    share_axis = {
        "scale": {"domain": [0, 1]},
        "title": "share of the privacy budget",
        "axis": percent_axis(5),
    }
    bars = {
        "mark": {"type": "bar", "height": 14, "yOffset": 7, "stroke": ACCENT, "strokeWidth": 1},
        "encoding": {
            "x": quantity("start") | share_axis,
            "x2": {"field": "end"},
            "fill": {"condition": {"test": unused, "value": colour("paper")}, "value": ACCENT},
            "strokeDash": {"condition": {"test": unused, "value": [3, 3]}, "value": [1, 0]},
            "tooltip": make_tooltip({"stage": "question", "text": "share", "noise": "noise"}),
        },
    }
    size = {"expr": f"width < {PHONE_WIDTH} ? 10.5 : 12"}
    text = {"type": "text", "align": "left", "baseline": "middle", "dy": -10, "x": 0, "color": INK}
    shown = {"calculate": f"width < {PHONE_WIDTH} ? datum.short : datum.line", "as": "shown"}
    labels = {
        "mark": {**text, "fontSize": size},
        "transform": [shown],
        "encoding": {"text": {"field": "shown"}},
    }
    return make_spec(
        f"Waterfall of the privacy budget over {len(stages)} stages.",
        rows,
        height=44 * len(rows),
        encoding={"y": {"field": "place", "type": "ordinal", "axis": None}},
        layers=[bars, labels],
    )


def column_chart(shown: ColumnSummary) -> Spec:
    """Return one small multiple: bars of synthetic shares, diamonds of estimated ones with their intervals."""
    names = shorten_labels([bar.label for bar in shown.bars], BAR_LETTERS)
    places = [_order_key(place, name) for place, name in enumerate(names)]
    values = [
        {
            "place": place,
            "label": bar.label,
            "synthetic": round_digits(bar.synthetic),
            "measured": round_digits(bar.measured),
            "low": round_digits(bar.measured - bar.margin),
            "high": round_digits(bar.measured + bar.margin),
            "synthetic_text": format_percent(bar.synthetic),
            "measured_text": f"{format_percent(bar.measured)} ± {format_percent_bound(bar.margin)}",
        }
        for place, bar in zip(places, shown.bars, strict=True)
    ]
    titles = {
        "label": shown.name,
        "synthetic_text": "synthetic",
        "measured_text": "estimated, 95 % margin of error",
    }
    scale = {"domain": [-MAX_SHARE, MAX_SHARE], "clamp": True} if is_clipped(shown) else {}
    share_axis = {"title": None, "scale": scale, "axis": percent_axis(4)}
    upright = shown.kind == "categorical" and len(values) > MAX_LABELS
    labels = {
        "labelExpr": LABEL_EXPR,
        "values": None if upright else [places[place] for place in choose_labels(shown.bars)],
        "labelAngle": -90 if upright else -40,
        "labelLimit": 0,
        "labelFontSize": 9 if upright else 10,
        "labelOverlap": False,
        "grid": False,
    }
    return make_spec(
        f"Shares of the values of {shown.name}: synthetic as bars, estimated with intervals.",
        values,
        height=150,
        encoding={
            "x": {"field": "place", "type": "nominal", "sort": None, "title": None, "axis": labels},
            "tooltip": make_tooltip(titles),
        },
        layers=[
            {
                "mark": {"type": "bar", "fill": BAR, "stroke": BAR_EDGE, "strokeWidth": 0.75},
                "encoding": {"y": quantity("synthetic") | share_axis},
            },
            {
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.25},
                "encoding": {"y": quantity("low"), "y2": {"field": "high"}},
            },
            {
                # What lies beyond the axis is not drawn at its end, where it would look like a value.
                "transform": [{"filter": f"abs(datum.measured) <= {MAX_SHARE}"}],
                "mark": diamond(26),
                "encoding": {"y": quantity("measured")},
            },
        ],
    )


def is_clipped(shown: ColumnSummary) -> bool:
    """Say whether the intervals of a column go beyond all of the rows, where its axis is cut."""
    return any(abs(bar.measured) + bar.margin > MAX_SHARE for bar in shown.bars)


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
    """Return a row per pair: a band up to the error bound, a dot at the distance, a tick at noise alone.

    A diamond is the bootstrap estimate of the error.
    """
    values = [
        {
            "place": place,
            "pair": pair.name,
            "distance": round_digits(pair.comparison.distance),
            "noise": round_digits(pair.comparison.noise_alone),
            "bound": round_digits(pair.comparison.error_bound),
            "likely": None if pair.comparison.likely is None else round_digits(pair.comparison.likely),
            "distance_text": format_percent(pair.comparison.distance),
            "noise_text": format_percent(pair.comparison.noise_alone),
            "bound_text": format_percent_bound(pair.comparison.error_bound),
            "likely_text": "–" if pair.comparison.likely is None else format_percent(pair.comparison.likely),
            "quality": pair.comparison.quality,
        }
        for place, pair in zip(_label_pairs(shown), shown, strict=True)
    ]
    farthest = max(pair.comparison.error_bound for pair in shown)
    share_axis = {
        "title": "total variation, share of rows",
        "scale": {"domain": [0, min(MAX_SHARE, 1.05 * farthest)], "clamp": True},
        "axis": percent_axis(4),
    }
    titles = {
        "pair": "pair",
        "bound_text": "error bound",
        "likely_text": "bootstrap estimate",
        "distance_text": "distance from noisy counts",
        "noise_text": "expected from noise alone",
        "quality": "quality",
    }
    tick = {"type": "tick", "color": INK, "thickness": 2, "size": 18}
    return make_spec(
        f"Error bounds of {len(shown)} pairs, beside their distances from noisy counts and those of noise alone.",
        values,
        height=30 * len(values),
        encoding={"y": row_axis(lines=2), "tooltip": make_tooltip(titles)},
        layers=[
            {"mark": interval_band(18), "encoding": {"x": quantity("bound") | share_axis}},
            {"mark": tick, "encoding": {"x": quantity("noise")}},
            {"mark": dot(70), "encoding": {"x": quantity("distance")}},
            {
                "transform": [{"filter": "datum.likely !== null"}],
                "mark": {**diamond(90), "filled": False},
                "encoding": {"x": quantity("likely")},
            },
        ],
    )


def diamond(size: int) -> Spec:
    """Return the mark of an estimate."""
    return {"type": "point", "shape": "diamond", "filled": True, "size": size, "color": INK, "opacity": 1}


def dot(size: int) -> Spec:
    """Return the mark of a number beside others."""
    return {"type": "point", "filled": True, "size": size, "color": ACCENT, "opacity": 1}


def row_axis(*, lines: int = 1) -> Spec:
    """Return the vertical axis of a chart with a named row for each value, which takes so many lines on a phone."""
    return {
        "field": "place",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {
            "labelExpr": LABEL_EXPR,
            "labelLimit": 0,
            "labelOffset": {"expr": f"width < {PHONE_WIDTH} ? {6 - 6 * lines} : 0"},
            "ticks": False,
            "domain": False,
            "labelPadding": 8,
            "grid": False,
        },
    }


def label_rows(names: Sequence[str]) -> list[str]:
    """Return the values of `row_axis`: every name cut to a wide and to a narrow page, in their order."""
    wide, narrow = shorten_labels(names, ROW_LETTERS), shorten_labels(names, PHONE_LETTERS)
    return [_order_key(place, *both) for place, both in enumerate(zip(wide, narrow, strict=True))]


def label_lines(names: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Return the values of `row_axis` for rows with their own spelling on a phone: a wide line, and narrow lines."""
    return [_order_key(place, wide, _LINE.join(narrow)) for place, (wide, narrow) in enumerate(names)]


def _label_pairs(pairs: Sequence[PairSummary]) -> list[str]:
    """Return the values of `row_axis` for pairs: on a phone each column has its own line."""
    wide = shorten_labels([pair.name for pair in pairs], ROW_LETTERS)
    names = sorted({name for pair in pairs for name in pair.columns})
    narrow = dict(zip(names, shorten_labels(names, PHONE_LETTERS), strict=True))
    return [
        _order_key(place, name, f" ×{_LINE}".join(narrow[column] for column in pair.columns))
        for place, (name, pair) in enumerate(zip(wide, pairs, strict=True))
    ]


def make_spec(
    description: str,
    values: Sequence[Spec],
    *,
    height: int,
    encoding: Spec,
    layers: Sequence[Spec],
    title: str = "",
) -> Spec:
    """Return a specification that is as wide as its place on the page."""
    heading = (
        {"title": {"text": title, "anchor": "start", "fontSize": 13, "fontWeight": 600}} if title else {}
    )
    return {
        **heading,
        "description": description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": height,
        "data": {"values": values},
        "encoding": encoding,
        "layer": layers,
        "config": CONFIG,
    }


def quantity(field: str) -> Spec:
    """Return the encoding of a number."""
    return {"field": field, "type": "quantitative"}


def percent_axis(ticks: int) -> Spec:
    """Return the axis of shares, in per cent."""
    return {"labelExpr": PERCENT_EXPR, "tickCount": ticks}


def make_tooltip(titles: Mapping[str, str]) -> list[Spec]:
    """Return what is shown beside a mark: some fields, under titles."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def _order_key(place: int, wide: str, narrow: str | None = None) -> str:
    return f"{place:03d}{wide}{_BREAK}{wide if narrow is None else narrow}"


def round_digits(value: float) -> float:
    """Return a number to five significant digits: no chart shows more."""
    return float(f"{value:.5g}")


def interval_band(height: int) -> Spec:
    """Return the mark of an interval, or of what an error is bounded by."""
    return {"type": "bar", "color": BOUND, "height": height, "stroke": BOUND_EDGE, "strokeWidth": 0.75}


def cut_middle(text: str, letters: int) -> str:
    """Return a text of at most so many letters: its beginning and its end where it is longer.

    >>> cut_middle("not in the labour force", 15), cut_middle("employed", 15)
    ('not in …r force', 'employed')
    """
    if len(text) <= letters:
        return text
    head = letters // 2
    return f"{text[:head]}…{text[len(text) - (letters - head - 1) :]}"


def shorten_labels(labels: Sequence[str], letters: int) -> list[str]:
    """Return labels of about so many letters; those that would look alike keep more of theirs.

    >>> shorten_labels(["income from work, 2019", "income from rent, 2019"], 14)
    ['income …k, 2019', 'income …t, 2019']
    """
    found = [cut_middle(label, letters) for label in labels]
    longest = max(map(len, labels), default=0)
    while letters < longest:
        letters += 1
        alike = Counter(dict(zip(labels, found, strict=True)).values())
        if max(alike.values()) == 1:
            break
        found = [
            cut_middle(label, letters) if alike[cut] > 1 else cut
            for label, cut in zip(labels, found, strict=True)
        ]
    return found
