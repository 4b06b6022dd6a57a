"""Whether the ids of the data seem to fit the spine, from noisy totals that were paid for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.measurements.measurements import Measurements

# All but so small a share of the people in the first units of their parents is no population, but rows off the spine.
MAX_SHARE_OF_OTHERS = 0.01
# Below so many standard deviations, nothing is said.
MIN_DEVIATIONS = 20.0


def find_spine_mismatch(measurements: Measurements) -> Iterator[str]:
    """Yield a warning where nearly everybody is counted in the first unit of its parent, as rows off the spine are."""
    if measurements.schema.geography is None:
        return
    hierarchy = MeasuredHierarchy.of(measurements.schema, measurements.items)
    estimates, spine = hierarchy.estimates, hierarchy.plan.spine
    for level in range(1, spine.depth):
        others = np.ones(spine.units(level), dtype=np.bool_)
        others[spine.first_children(level)] = False
        totals = estimates.marginal((), level=level)
        deviation = float(np.sqrt(estimates.variance((), level=level).sum()))
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
