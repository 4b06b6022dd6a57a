"""Whether data and schema of a geography seem to fit each other, from noisy counts that were paid for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Clique
from populace.core.number_format import format_number
from populace.inference.factor import sum_onto
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.measurements.measurements import Measurements
from populace.schema.level_totals import describe_level_totals
from populace.schema.schema import Schema

# All but so small a share of the people in the first units of their parents is no population, but rows off the spine.
MAX_SHARE_OF_OTHERS = 0.01
# Below so many standard deviations, nothing is said.
MIN_DEVIATIONS = 20.0
# Fewer people than so many standard deviations of their noisy number cannot be told from none: by chance, 1 in 700.
MIN_PEOPLE_DEVIATIONS = 3.0
# Public totals further away than this are wrong: by chance, less than 1 in 10⁹ even of a million totals.
MAX_TOTALS_DEVIATIONS = 8.0


def find_spine_mismatch(measurements: Measurements) -> Iterator[str]:
    """Yield warnings, from noisy counts alone, where data and schema of a geography do not seem to fit each other."""
    if measurements.schema.geography is None:
        return
    hierarchy = MeasuredHierarchy.of(measurements.schema, measurements.items)
    yield from _find_nobody(hierarchy, measurements.schema)
    yield from _find_unknown_ids(hierarchy)
    yield from _find_wrong_totals(hierarchy, measurements.schema)


def _find_nobody(hierarchy: MeasuredHierarchy, schema: Schema) -> Iterator[str]:
    """Yield a warning where the noisy number of people cannot be told from 0."""
    counted, deviation = _sum_smallest(hierarchy, level=0, clique=())
    if float(counted.sum()) < MIN_PEOPLE_DEVIATIONS * deviation:
        column = "" if schema.frequency is None else f", or “{schema.frequency}” may hold no whole numbers"
        yield (
            f"The number of {schema.unit.word} records cannot be told from 0 by the noisy counts: the table may be "
            f"empty or small{column}. A cell that is no whole number of 0 or more counts nobody."
        )


def _find_wrong_totals(hierarchy: MeasuredHierarchy, schema: Schema) -> Iterator[str]:
    """Yield a warning where public totals are far from what was counted with noise."""
    for each in schema.level_totals:
        counted, deviation = _sum_smallest(hierarchy, level=each.level, clique=each.clique)
        gap = float(np.abs(counted - each.counts).max())
        if gap > MAX_TOTALS_DEVIATIONS * deviation:
            what = describe_level_totals(each, layout=schema.layout)
            yield (
                f"The public totals of “{what}” differ from the noisy counts by up to {format_number(gap)}, "
                f"{gap / deviation:.0f} standard deviations of the noise: they may be of another population. The "
                "release follows the totals."
            )


def _sum_smallest(hierarchy: MeasuredHierarchy, *, level: int, clique: Clique) -> tuple[Floats, float]:
    """Return a marginal of the units of a level as the noisy cells of the smallest units add up, and its deviation.

    The deviation is that of the unit with most of them.
    """
    plan = hierarchy.plan
    queries = zip(plan.levels[-1].queries, hierarchy.noisy[-1], strict=True)
    detailed, counts = next(
        (query, noisy)
        for query, noisy in queries
        if set(query.marginal.clique) == set(plan.columns) and not query.marginal.groupings
    )
    cells = sum_onto(counts.astype(np.float64), ("", *detailed.marginal.clique), ("", *clique))
    units = plan.spine.ancestors(level)
    found = np.zeros((plan.spine.units(level), *cells.shape[1:]))
    np.add.at(found, units, cells)
    added = np.bincount(units).max() * plan.cells / plan.domain.cells(clique)
    return found, float(np.sqrt(added * float(detailed.variance)))


def _find_unknown_ids(hierarchy: MeasuredHierarchy) -> Iterator[str]:
    """Yield a warning where nearly everybody is counted in the first unit of its parent, as rows off the spine are."""
    estimates, spine = hierarchy.estimates, hierarchy.plan.spine
    for level in range(1, spine.depth):
        others = np.ones(spine.units(level), dtype=np.bool_)
        others[spine.first_children(level)] = False
        totals = estimates.marginal((), level=level)
        deviation = float(np.sqrt(max(0.0, estimates.variance((), level=level).sum())))
        whole, rest = float(totals.sum()), float(totals[others].sum())
        if (
            others.any()
            and whole > MIN_DEVIATIONS * deviation
            and rest < MAX_SHARE_OF_OTHERS * whole + deviation
        ):
            name = spine.levels[level]
            yield (
                f"Nearly everybody is counted in the first {name} of its parent, where rows off the spine are put: the "
                f"ids of {name} in the data may be written otherwise than in the file of units."
            )
            return
