"""Axes and marks that the charts of a hierarchy share: levels, counts of any size, and named rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from populace.core.number_format import THIN_SPACE
from populace.release.report import charts
from populace.release.report.charts import Spec
from populace.release.report.palette import colour

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "wedge")
COLOURS = tuple(map(colour, ("accent", "noise", "ink", "bad", "imputation", "weak", "link", "bar-edge")))
# Counts whose largest is less than so many times the smallest are drawn on a linear axis.
MAX_LINEAR_RATIO = 10
# Whole numbers on an axis, thousands apart; small ones with their decimals.
COUNT_EXPR = f"replace(replace(format(datum.value, ',~r'), /,/g, '{THIN_SPACE}'), '-', '\\u2212')"


def level_marks(levels: Sequence[str]) -> Spec:
    """Return the encoding of levels: a shape and a colour each, with one legend above the chart."""
    count = len(levels)
    legend = {
        "orient": "top",
        "title": None,
        "symbolSize": 70,
        "symbolStrokeWidth": 1.5,
        "columns": 3,
    }
    shapes = [SHAPES[place % len(SHAPES)] for place in range(count)]
    colours = [COLOURS[place % len(COLOURS)] for place in range(count)]
    field = {"field": "level", "type": "nominal", "legend": legend}
    return {
        "shape": {**field, "scale": {"domain": list(levels), "range": shapes}},
        "stroke": {**field, "scale": {"domain": list(levels), "range": colours}},
    }


def named_rows(places: Sequence[str], *, bold: Sequence[str] = (), lines: int = 1) -> Spec:
    """Return the axis of named rows, of which some are headings."""
    found = charts.row_axis(lines=lines)
    found["scale"] = {"domain": list(places)}
    if bold:
        test = f"indexof({json.dumps(list(bold))}, datum.value) >= 0"
        found["axis"] |= {
            "labelFontWeight": {"condition": {"test": test, "value": "bold"}, "value": "normal"}
        }
    return found


def log_axis(title: str, ends: Sequence[float]) -> Spec:
    """Return an axis of logarithms that holds all of some positive numbers."""
    low, high = min(ends) / 1.4, max(ends) * 1.4
    return {
        "title": title,
        "scale": {
            "type": "log",
            "domain": [charts.round_digits(low), charts.round_digits(high)],
            "nice": False,
        },
        "axis": spaced_labels(log_ticks(low, high)),
    }


def spaced_labels(values: Sequence[float], *, text: str = COUNT_EXPR) -> Spec:
    """Return an axis with labels at some values, as far as there is room for them."""
    return {"values": values, "labelExpr": text, "labelOverlap": "greedy", "labelSeparation": 5}


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers for an axis of logarithms: the more powers of ten, the fewer in each.

    >>> log_ticks(0.7, 12), log_ticks(3, 20_000), log_ticks(5, 9)
    ([1.0, 2.0, 5.0, 10.0], [10.0, 100.0, 1000.0, 10000.0], [5.0, 6.0, 8.0])
    """
    steps = (1, 1.5, 2, 3, 4, 5, 6, 8) if high / low < 8 else (1, 2, 5) if high / low < 500 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in found if low <= tick <= high]


def count_axis(title: str, ends: Sequence[float], *, near_zero: Sequence[float]) -> Spec:
    """Return an axis of counts of any sign and size: linear near 0, logarithmic beyond the typical margin.

    Counts of about one size have a linear axis, which need not begin at 0.
    """
    if ends and 0 < max(ends) < MAX_LINEAR_RATIO * min(ends):
        return {
            "title": title,
            "scale": {"zero": False, "nice": True},
            "axis": {"tickCount": {"expr": f"width < {charts.PHONE_WIDTH} ? 3 : 6"}, "labelExpr": COUNT_EXPR},
        }
    low, high = min([0.0, *ends]), max([0.0, *ends])
    known = sorted(size for size in near_zero if size > 0)
    constant = max(1.0, known[len(known) // 2] if known else 1.0)
    powers = range(max(0, math.floor(math.log10(constant))), 1 + math.ceil(math.log10(max(10.0, high, -low))))
    values = [0, *(sign * 10**power for power in powers for sign in (-1, 1))]
    return {
        "title": title,
        "scale": {
            "type": "symlog",
            "constant": charts.round_digits(constant),
            "domain": [1.1 * low, 1.1 * high or 1],
            "nice": False,
        },
        "axis": spaced_labels(sorted(value for value in values if 1.1 * low <= value <= 1.1 * high)),
    }
