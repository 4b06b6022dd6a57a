"""Estimates of any set of smallest units, on or off the spine, from what a release holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.core.marginals import Clique
from populace.inference.factor import sum_onto
from populace.inference.hierarchy.two_pass import HierarchyFilter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AreaEstimate:
    """The unbiased estimate of a marginal of an area, and the exact variance of each of its cells."""

    estimate: Floats
    variance: Floats

    @property
    def standard_deviation(self) -> Floats:
        """The standard deviation of each cell."""
        return np.sqrt(np.maximum(self.variance, 0.0))


def estimate_area(form: HierarchyFilter, cells: Floats, *, members: Truth, clique: Clique) -> AreaEstimate:
    """Return the estimate of a marginal of a set of smallest units, given the estimates of these units' cells.

    `form` is the filter of the plan: variances follow from the plan alone, so no noisy counts are needed. The area
    need not be a unit: errors of units that share a parent are dependent, which the variance takes into account.
    """
    plan = form.plan
    if members.shape != (plan.spine.leaves,) or members.dtype != np.bool_:
        raise UsageError(
            f"the members of an area have shape {members.shape} and type {members.dtype}.",
            hint=f"give a truth value for each of the {plan.spine.leaves} smallest units",
        )
    if cells.shape != (plan.spine.leaves, *plan.shape):
        raise UsageError(
            f"the estimates of the smallest units have shape {cells.shape}.",
            hint=f"give all of them: {(plan.spine.leaves, *plan.shape)}",
        )
    summed = members.astype(np.float64) @ cells.reshape(len(cells), -1)
    estimate = sum_onto(summed.reshape(plan.shape), plan.columns, plan.clique(clique))
    return AreaEstimate(estimate=estimate, variance=form.area_variance(clique, members=members))
