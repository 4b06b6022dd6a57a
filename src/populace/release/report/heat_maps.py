"""Maps of all pairs of columns: the larger a figure, the darker its cell, in either colour scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from populace.core.number_format import format_percent, format_percent_bound
from populace.release.report.charts import (
    ACCENT,
    MAX_SHARE,
    PHONE_LETTERS,
    Spec,
    make_spec,
    make_tooltip,
    quantity,
    round_digits,
    shorten_labels,
)
from populace.release.report.palette import colour
from populace.release.report.report_data import PairSummary


def pair_heat_map(shown: Sequence[PairSummary]) -> Spec:
    """Return a map of measured pairs: the darker, the larger the error bound. Cells of other pairs are empty."""
    bounds: dict[tuple[str, str], PairSummary] = {}
    for pair in shown:
        if len(pair.columns) == 2:
            bounds.setdefault((pair.columns[0], pair.columns[1]), pair)
    names = sorted({name for pair in bounds for name in pair})
    short = dict(zip(names, shorten_labels(names, PHONE_LETTERS), strict=True))
    values = [
        {
            "first": short[one],
            "second": short[other],
            "pair": pair.name,
            "bound": round_digits(min(pair.comparison.error_bound, MAX_SHARE)),
            "shown_bound": format_percent_bound(pair.comparison.error_bound),
            "shown_distance": format_percent(pair.comparison.distance),
            "quality": pair.comparison.quality,
        }
        for key, pair in bounds.items()
        for one, other in (key, key[::-1])
    ]
    titles = {
        "pair": "pair",
        "shown_bound": "error bound",
        "shown_distance": "distance from noisy counts",
        "quality": "quality",
    }
    return heat_map(
        "Error bounds of the measured pairs, by column.",
        values,
        names=list(short.values()),
        field="bound",
        titles=titles,
    )


def heat_map(
    description: str, values: Sequence[Spec], *, names: Sequence[str], field: str, titles: Mapping[str, str]
) -> Spec:
    """Return a map of `first` × `second`: the larger a field, the darker its cell, in either colour scheme."""
    axis = {"labelFontSize": 10, "labelOverlap": False, "grid": False, "ticks": False, "domain": False}
    place = {"type": "nominal", "sort": list(names), "title": None, "scale": {"domain": list(names)}}
    opacity = {"scale": {"domainMin": 0, "range": [0.05, 1]}, "legend": None}
    return make_spec(
        description,
        values,
        height=max(120, 18 * len(names)),
        encoding={
            "x": {"field": "first", **place, "axis": axis | {"labelAngle": -90}},
            "y": {"field": "second", **place, "axis": axis},
            "tooltip": make_tooltip(titles),
        },
        layers=[
            {
                "mark": {"type": "rect", "fill": ACCENT, "stroke": colour("grid"), "strokeWidth": 0.5},
                "encoding": {"fillOpacity": quantity(field) | opacity},
            }
        ],
    )
