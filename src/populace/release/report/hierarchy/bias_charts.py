"""Charts of the bias that non-negativity causes: by unbiased counts for everybody, by true counts in simulations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from populace.core.array_types import Floats, Ints
from populace.core.number_format import format_number, format_with_error
from populace.release.report import charts
from populace.release.report.charts import Spec
from populace.release.report.hierarchy.hierarchy_report import LevelBias
from populace.release.report.hierarchy.level_axes import (
    COUNT_EXPR,
    add_title,
    count_axis,
    level_marks,
    named_rows,
    round_digits,
)
from populace.release.report.hierarchy.nonnegativity_bias import TRUE_CLASS_ENDS, classify_bias
from populace.release.report.palette import colour


def bias_chart(bias: Sequence[LevelBias], *, plural: str) -> Spec:
    """Return mean differences in classes of the unbiased count, a mark for each level."""
    values, places = _bias_values(bias)
    ends = [value["mean"] for value in values]
    axis = count_axis(f"published \N{MINUS SIGN} unbiased, mean, {plural}", ends, near_zero=[1.0])
    return add_title(
        _class_chart(
            f"Mean of published minus unbiased counts of cells, in {plural}, by level and class of the unbiased count.",
            values,
            places,
            levels=[each.level for each in bias],
            x=charts.quantity("mean") | axis,
        ),
        "Mean shift by unbiased count",
    )


def asymmetry_chart(bias: Sequence[LevelBias], *, of: str = "unbiased") -> Spec:
    """Return B in classes of the unbiased count, or of the true count of a simulation, a mark for each level."""
    values, places = _bias_values(bias)
    axis = {
        "title": "B (no unit)",
        "scale": {"domain": [-1, 1]},
        "axis": {"values": [-1, -0.5, 0, 0.5, 1], "labelExpr": COUNT_EXPR},
    }
    return add_title(
        _class_chart(
            "B = (σ₊² \N{MINUS SIGN} σ₋²)/(σ₊² + σ₋²) of published minus "
            f"{of} counts of cells, without unit, by level and class of the {of} count.",
            [value for value in values if value["asymmetry"] is not None],
            places,
            levels=[each.level for each in bias],
            x=charts.quantity("asymmetry") | axis,
        ),
        f"One-sidedness B by {of} count",
    )


def bias_against_truth(
    published: Mapping[str, Ints], *, truth: Mapping[str, Ints]
) -> tuple[tuple[LevelBias, ...], Spec]:
    """Return the bias of published counts in classes of the true count, by level, and the chart of B against it.

    True counts are private: this is for simulations and the INTERNAL report, and never part of a release. Both
    mappings have an array for each level, with counts in the same order.

    >>> import numpy as np
    >>> found, _ = bias_against_truth({"block": np.array([1, 2, 9])}, truth={"block": np.array([0, 0, 10])})
    >>> [(each.label, each.mean, each.asymmetry) for each in found[0].classes]
    [('0', 1.5, 1.0), ('10 to 20', -1.0, -1.0)]
    """
    found = []
    for level, counts in published.items():
        true: Floats = truth[level].astype(float)
        classes = classify_bias(counts - true, by=true, ends=TRUE_CLASS_ENDS)
        found.append(LevelBias(level=level, classes=classes))
    return tuple(found), asymmetry_chart(found, of="true")


def _class_chart(
    description: str, values: Sequence[Spec], places: Sequence[str], *, levels: Sequence[str], x: Spec
) -> Spec:
    titles = {
        "level": "level",
        "class": "unbiased count",
        "counts": "counts",
        "told": "mean shift",
        "b": "B",
    }
    point = {"type": "point", "filled": False, "size": 55, "opacity": 1, "strokeWidth": 1.75}
    return charts.make_spec(
        description,
        values,
        height=24 * len(places) + 6,
        encoding={"y": named_rows(places), "tooltip": charts.make_tooltip(titles)},
        layers=[
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "color": colour("axis")},
                "encoding": {
                    "x": {"datum": 0},
                    "y": {"value": 0},
                    "y2": {"value": "height"},
                    "tooltip": None,
                },
            },
            {"mark": point, "encoding": {"x": x, **level_marks(levels)}},
        ],
    )


def _bias_values(bias: Sequence[LevelBias]) -> tuple[list[Spec], list[str]]:
    classes = {each.label: each for level in bias for each in level.classes}
    ordered = sorted(classes.values(), key=lambda each: -math.inf if each.low is None else each.low)
    names = [each.label for each in ordered]
    places = charts.label_rows(names)
    values = [
        {
            "place": places[names.index(each.label)],
            "level": level.level,
            "class": each.label,
            "counts": format_number(each.counts),
            "mean": round_digits(each.mean),
            "asymmetry": None if each.asymmetry is None else round_digits(each.asymmetry),
            "told": format_with_error(each.mean, 0.1),
            "b": "–" if each.asymmetry is None else format_with_error(each.asymmetry, 0.1),
        }
        for level in bias
        for each in level.classes
    ]
    return values, places
