"""Vega-Lite specifications of the charts of an evaluation, as plain JSON: bars are synthetic, diamonds real."""

from __future__ import annotations

from populace.core.number_format import format_percent
from populace.evaluation.evaluation_result import ColumnResult, Evaluation
from populace.release.report.charts import (
    ACCENT,
    BAR,
    BAR_EDGE,
    CONFIG,
    INK,
    Spec,
    diamond,
    label_rows,
    make_spec,
    make_tooltip,
    percent_axis,
    quantity,
    row_axis,
    shorten_labels,
)
from populace.release.report.heat_maps import heat_map

MAX_HEAT_COLUMNS, PHONE_LETTERS = 40, 12


def chart_sample_size(evaluation: Evaluation) -> Spec:
    """Return the curve of the distance that samples of each size would have, with the synthetic file on it."""
    found = next(score for score in evaluation.scores if score.name == "equivalent_sample_size")
    distance = next(score for score in evaluation.scores if score.name == "tv_pairs").value
    curve = [{"rows": rows, "distance": float(f"{value:.6g}")} for rows, value in evaluation.expected]
    largest = evaluation.expected[-1][0]
    low, high = (min(max(end, 10.0), largest) for end in found.interval or (found.value, found.value))
    point = {"rows": min(max(found.value, 10.0), largest), "low": low, "high": high, "distance": distance}
    x = {
        "field": "rows",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False},
        "title": "rows of a random sample",
        "axis": {"format": "~s", "tickCount": 5},
    }
    y = quantity("distance") | {
        "title": "mean total variation of pairs",
        "axis": percent_axis(4),
        "scale": {"zero": True},
    }
    return {
        "description": "Expected distance of random samples by size, and the size that the synthetic rows are worth.",
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": 220,
        "layer": [
            {
                "data": {"values": curve},
                "mark": {"type": "line", "color": ACCENT},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [point]},
                "mark": {"type": "rule", "color": INK, "strokeWidth": 2},
                "encoding": {"x": quantity("low") | {"title": None}, "x2": {"field": "high"}, "y": y},
            },
            {"data": {"values": [point]}, "mark": diamond(110), "encoding": {"x": x, "y": y}},
        ],
        "config": CONFIG,
    }


def chart_pairs(evaluation: Evaluation) -> Spec:
    """Return the heat map of pairs: the darker, the farther. Of very many columns it shows those of the worst pairs."""
    total: dict[str, float] = {}
    for pair in evaluation.pairs:
        for name in pair.columns:
            total[name] = total.get(name, 0.0) + pair.distance
    names = sorted(total, key=lambda name: (-total[name], name))[:MAX_HEAT_COLUMNS]
    short = dict(zip(names, shorten_labels(names, PHONE_LETTERS), strict=True))
    values = [
        {
            "first": short[one],
            "second": short[other],
            "distance": float(f"{pair.distance:.4g}"),
            "shown": format_percent(pair.distance),
            "pair": " × ".join(pair.columns),
        }
        for pair in evaluation.pairs
        for one, other in (pair.columns, pair.columns[::-1])
        if one in short and other in short
    ]
    return heat_map(
        "Heat map of the total variation of every pair of columns.",
        values,
        names=list(short.values()),
        field="distance",
        titles={"pair": "pair", "shown": "total variation"},
    )


def chart_column(column: ColumnResult) -> Spec:
    """Return the shares of one column: bars are synthetic, diamonds real."""
    values = [
        {
            "place": place,
            "label": bar.label,
            "synthetic": float(f"{bar.synthetic:.5g}"),
            "real": float(f"{bar.real:.5g}"),
            "shown_synthetic": format_percent(bar.synthetic),
            "shown_real": format_percent(bar.real),
        }
        for place, bar in zip(label_rows([bar.label for bar in column.bars]), column.bars, strict=True)
    ]
    titles = {"label": column.name, "shown_real": "real", "shown_synthetic": "synthetic"}
    share = {"title": None, "axis": percent_axis(4)}
    return make_spec(
        f"Shares of the values of {column.name}: synthetic as bars, real as diamonds.",
        values,
        height=max(40, 15 * len(values)),
        encoding={"y": row_axis(), "tooltip": make_tooltip(titles)},
        layers=[
            {
                "mark": {"type": "bar", "fill": BAR, "stroke": BAR_EDGE, "strokeWidth": 0.75},
                "encoding": {"x": quantity("synthetic") | share},
            },
            {"mark": diamond(30), "encoding": {"x": quantity("real")}},
        ],
    )
