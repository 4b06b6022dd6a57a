"""Estimates of any set of smallest units, on or off the spine, from what a release holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.core.marginals import Clique
from populace.inference.factor import sum_onto
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan
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
    """Return the estimate of a marginal of a set of smallest units, given the estimates of their cells.

    `members` says of every smallest unit whether it is in the area, and `cells` are those of the members, in order.
    `form` is the filter of the plan: variances follow from the plan alone, so no noisy counts are needed. The area
    need not be a unit: errors of units that share a parent are dependent, which the variance takes into account.
    """
    plan = form.plan
    check_members(members, plan=plan)
    if cells.shape != (wanted := (int(members.sum()), *plan.shape)):
        raise UsageError(
            f"the estimates of the members of an area have shape {cells.shape}.",
            hint=f"give those of all members and no other unit: {wanted}",
        )
    estimate = sum_onto(cells.sum(axis=0), plan.columns, plan.clique(clique))
    return AreaEstimate(estimate=estimate, variance=form.area_variance(clique, members=members))


def check_members(members: Truth, *, plan: HierarchyPlan) -> None:
    """Refuse what does not say of every smallest unit whether it is in an area."""
    if members.shape != (plan.spine.leaves,) or members.dtype != np.bool_:
        raise UsageError(
            f"the members of an area have shape {members.shape} and type {members.dtype}.",
            hint=f"give a truth value for each of the {plan.spine.leaves} smallest units",
        )
