"""The unbiased estimates of a whole hierarchy: which filter gives them, and what can be asked of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique
from populace.inference.factor import sum_onto
from populace.inference.hierarchy.area_estimates import AreaEstimate, check_members, estimate_area
from populace.inference.hierarchy.dense_filter import DenseFilter
from populace.inference.hierarchy.dense_matrices import count_matrix_bytes, possible_cells
from populace.inference.hierarchy.effect_filter import EffectFilter
from populace.inference.hierarchy.hierarchy_plan import (
    HierarchyPlan,
    KnownMarginals,
    NoisyCounts,
    Totals,
)
from populace.inference.hierarchy.two_pass import HierarchyFilter, Subtree, estimate_subtrees


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HierarchyEstimates:
    """The best linear unbiased estimates of all units: `cells[level]` is (units, *shape of the cells).

    Children add up to their parents, exact totals hold, impossible cells are 0. Estimates may be negative.
    """

    form: HierarchyFilter
    cells: tuple[Floats, ...]

    def marginal(self, clique: Clique, *, level: int) -> Floats:
        """Return the estimates of a marginal of every unit of a level: (units, *shape)."""
        plan = self.form.plan
        wanted = ("", *plan.clique(clique))
        return sum_onto(self.cells[level], ("", *plan.columns), wanted)

    def variance(self, clique: Clique, *, level: int) -> Floats:
        """Return the exact variance of every cell of `marginal`."""
        plan = self.form.plan
        return self.form.variance(plan.clique(clique), level=level, units=slice(0, plan.spine.units(level)))

    def standard_deviation(self, clique: Clique, *, level: int) -> Floats:
        """Return the standard deviation of every cell of `marginal`."""
        return np.sqrt(np.maximum(self.variance(clique, level=level), 0.0))

    def area(self, members: Truth, *, clique: Clique) -> AreaEstimate:
        """Return the estimate of a marginal of any set of smallest units."""
        check_members(members, plan=self.form.plan)
        return estimate_area(self.form, self.cells[-1][members], members=members, clique=clique)


def choose_filter(plan: HierarchyPlan) -> HierarchyFilter:
    """Return the filter that gives a plan's estimates, and their variances before anything is measured.

    Effects separate where all queries are marginals of one product domain (`EffectFilter`). Structural zeros and
    grouped columns mix them: there the filter is dense (`DenseFilter`), up to `max_dense_cells` possible cells and
    `max_dense_bytes` of matrices. Above, zeros are set aside until the end (see `EffectFilter`), and groupings are
    refused.
    """
    if (plan.possible is None and not plan.has_groupings) or plan.has_weights:
        return EffectFilter.of(plan)
    possible = len(possible_cells(plan))
    if possible <= LIMITS.max_dense_cells and count_matrix_bytes(plan) <= LIMITS.max_dense_bytes:
        return DenseFilter.of(plan)
    if plan.has_groupings:
        raise UsageError(
            f"a query groups a column, and {plan.spine.leaves} units with {possible} possible cells each are too many "
            f"to estimate with groupings: at most {LIMITS.max_dense_cells} cells, and matrices of "
            f"{LIMITS.max_dense_bytes >> 20} MiB.",
            hint="measure ungrouped columns, or group these columns in the schema",
        )
    if any(level.known for level in plan.levels):
        raise UsageError(
            f"totals by columns are public, and {possible} possible cells are too many to estimate with both these and "
            f"structural zeros: at most {LIMITS.max_dense_cells}.",
            hint="leave out the [[totals]] by columns, or the structural zeros, or coarsen columns",
        )
    return EffectFilter.of(plan)


def estimate_hierarchy(
    plan: HierarchyPlan,
    noisy: NoisyCounts,
    *,
    totals: Totals | None = None,
    known: KnownMarginals | None = None,
) -> HierarchyEstimates:
    """Return the best linear unbiased estimates of every unit from the noisy counts of all levels.

    >>> from populace.core.marginals import Domain, Marginal
    >>> from populace.core.spine import Spine
    >>> from populace.inference.hierarchy.hierarchy_plan import LevelQueries, MeasuredQuery
    >>> detailed = MeasuredQuery(marginal=Marginal(("sex",)), variance=4)
    >>> plan = HierarchyPlan(
    ...     spine=Spine(("all", "county"), (np.array([0, 0]),)),
    ...     domain=Domain({"sex": 2}),
    ...     levels=(LevelQueries(has_exact_total=True), LevelQueries(queries=(detailed,))),
    ... )
    >>> noisy = [[], [np.array([[10, 12], [4, 2]])]]
    >>> estimates = estimate_hierarchy(plan, noisy, totals={0: np.array([32])})
    >>> estimates.cells[1].round(9).tolist(), estimates.variance((), level=1).round(9).tolist()
    ([[11.0, 13.0], [5.0, 3.0]], [4.0, 4.0])
    >>> estimates.area(np.array([True, True]), clique=()).variance.item()
    0.0
    """
    if len(noisy) != plan.spine.depth:
        raise UsageError(
            f"noisy counts of {len(noisy)} levels came; the spine has {plan.spine.depth}.",
            hint="give a list for every level, the root first; a list may be empty",
        )

    def give_all(subtree: Subtree) -> NoisyCounts:
        return [noisy[level] for level in subtree.levels]

    form = choose_filter(plan)
    (found,) = estimate_subtrees(form, give_all, totals=totals, known=known)
    return HierarchyEstimates(form=form, cells=found.cells)
