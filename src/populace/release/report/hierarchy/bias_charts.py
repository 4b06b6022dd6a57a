"""Charts of the bias that non-negativity causes: by unbiased counts for everybody, by true counts in simulations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from populace.core.number_format import format_number, format_with_error
from populace.release.report import charts
from populace.release.report.charts import Spec
from populace.release.report.hierarchy.hierarchy_document import LevelBias
from populace.release.report.hierarchy.level_axes import (
    COUNT_EXPR,
    count_axis,
    level_marks,
    named_rows,
)
from populace.release.report.palette import colour


def bias_chart(bias: Sequence[LevelBias], *, plural: str) -> Spec:
    """Return mean differences in classes of the unbiased count, a mark for each level."""
    values, places = _bias_values(bias)
    ends = [value["mean"] for value in values]
    axis = count_axis(f"published \N{MINUS SIGN} unbiased, mean, {plural}", ends, near_zero=[1.0])
    return _class_chart(
        f"Mean of published minus unbiased counts of cells, in {plural}, by level and class of the unbiased count.",
        values,
        places,
        levels=[each.level for each in bias],
        x=charts.quantity("mean") | axis,
        title="Mean shift by unbiased count",
    )


def asymmetry_chart(bias: Sequence[LevelBias], *, of: str = "unbiased") -> Spec:
    """Return B in classes of the unbiased count, or of the true count of a simulation, a mark for each level."""
    values, places = _bias_values(bias)
    axis = {
        "title": "B (no unit)",
        "scale": {"domain": [-1, 1]},
        "axis": {"values": [-1, -0.5, 0, 0.5, 1], "labelExpr": COUNT_EXPR},
    }
    return _class_chart(
        "B = (σ₊² \N{MINUS SIGN} σ₋²)/(σ₊² + σ₋²) of published minus "
        f"{of} counts of cells, without unit, by level and class of the {of} count.",
        [value for value in values if value["asymmetry"] is not None],
        places,
        levels=[each.level for each in bias],
        x=charts.quantity("asymmetry") | axis,
        title=f"One-sidedness B by {of} count",
        of=of,
    )


def _class_chart(
    description: str,
    values: Sequence[Spec],
    places: Sequence[str],
    *,
    levels: Sequence[str],
    x: Spec,
    title: str,
    of: str = "unbiased",
) -> Spec:
    titles = {
        "level": "level",
        "class": f"{of} count",
        "counts": "counts",
        "text": "mean shift",
        "b": "B",
    }
    point = {"type": "point", "filled": False, "size": 55, "opacity": 1, "strokeWidth": 1.75}
    return charts.make_spec(
        description,
        values,
        title=title,
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
            "mean": charts.round_digits(each.mean),
            "asymmetry": None if each.asymmetry is None else charts.round_digits(each.asymmetry),
            "text": format_with_error(each.mean, 0.1),
            "b": "–" if each.asymmetry is None else format_with_error(each.asymmetry, 0.1),
        }
        for level in bias
        for each in level.classes
    ]
    return values, places
