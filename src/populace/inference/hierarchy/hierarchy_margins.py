"""Margins of error of the unbiased estimates of a hierarchy: one definition, for units and for areas.

An estimate's error is a sum of many independent noises, and nearly normal unless one of them is large. Which may be
large is known: those of the noisy counts of a query that add up to what is estimated. A best linear unbiased estimate
of variance V has covariance V with the sum of m such counts of variance σ², so their mean weight in it is V/mσ²,
and they give its error a fourth cumulant of at least m(V/mσ²)⁴κ₄. The margin is that of one large noise and a normal
rest with the same variance and fourth cumulant (`interval_half_width`): exact for a count by itself, and 1.96
standard deviations where no noise is large.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.core.marginals import Clique
from populace.inference.gls.interval_half_width import interval_half_width
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, MeasuredQuery

# What rounding leaves of the variance of an exact total.
_EXACT = 1e-9


def unit_margins(
    estimates: HierarchyEstimates, clique: Clique, *, level: int, units: slice | None = None, laplace: bool
) -> Floats:
    """Return the 95 % margin of error of every cell of a marginal of units of a level: (units, *shape).

    Exact totals have margin 0.
    """
    plan = estimates.form.plan
    wanted = slice(0, plan.spine.units(level)) if units is None else units
    variance = estimates.form.variance(plan.clique(clique), level=level, units=wanted)
    # Cells of a unit often have one variance: it is looked up once.
    alike = variance.size > 0 and all(stride == 0 for stride in variance.strides[1:])
    distinct = variance[(slice(None), *(slice(1) for _ in variance.shape[1:]))] if alike else variance
    parts = [part[wanted] for part in _count_unit_parts(plan, level=level)]
    return np.broadcast_to(
        _find_margins(plan, clique, distinct, parts=parts, laplace=laplace), variance.shape
    )


def area_margins(
    estimates: HierarchyEstimates, clique: Clique, *, members: Truth, variance: Floats, laplace: bool
) -> Floats:
    """Return the 95 % margin of error of every cell of a marginal of an area, given their variances."""
    plan, parts = estimates.form.plan, []
    for level in range(plan.spine.depth):
        above = plan.spine.ancestors(level)
        held = np.bincount(above, weights=members, minlength=plan.spine.units(level))
        whole = held == np.bincount(above, minlength=plan.spine.units(level))
        # Units that lie partly in the area do not add up to it.
        parts.append(np.array([int(whole.sum()) if (whole | (held == 0)).all() else 0]))
    (found,) = _find_margins(plan, clique, variance[np.newaxis], parts=parts, laplace=laplace)
    return np.asarray(found)


def _count_unit_parts(plan: HierarchyPlan, *, level: int) -> list[Ints]:
    """Return for each level how many of its units each unit of a level is made of; 0 where it lies in a larger one."""
    spine, smallest = plan.spine, plan.spine.depth - 1
    leaves = np.bincount(spine.ancestors(level), minlength=spine.units(level))
    found = []
    for other in range(spine.depth):
        if other >= level:
            inside = spine.ancestors(level, of_level=other)
            found.append(np.bincount(inside, minlength=spine.units(level)))
        else:
            size = np.bincount(spine.ancestors(other, of_level=smallest), minlength=spine.units(other))
            found.append((size[spine.ancestors(other, of_level=level)] == leaves).astype(np.int64))
    return found


def _find_margins(
    plan: HierarchyPlan, clique: Clique, variance: Floats, *, parts: Sequence[Ints], laplace: bool
) -> Floats:
    """Return the margins of targets with these variances, (targets, *shape), made of so many units of each level."""
    known = np.where(variance > _EXACT, variance, 0.0)
    # Per target: the sum of 1/m³σ⁴ times the excess kurtosis of a noise, and the noise that has most of it.
    kurtosis, most, noise = np.zeros((3, len(variance)))
    noise[:] = np.inf
    for units, queries in zip(parts, plan.levels, strict=True):
        for query in queries.queries:
            counts = units * _count_cells(query, clique, plan=plan)
            own = float(query.variance)
            # Sums of several whole numbers have no steps left that count, and Gaussian ones are as good as normal.
            large = counts > 0 if laplace else counts == 1
            part = np.zeros(len(variance))
            part[large] = (3 + 1 / own) / (counts[large] ** 3.0 * own**2)
            kurtosis += part
            noise = np.where(part > most, own, noise)
            most = np.maximum(most, part)
    if not laplace:
        kurtosis = most
    shape = (-1, *(1 for _ in variance.shape[1:]))
    found = np.empty(variance.shape)
    for own in np.unique(noise):
        some = noise == own
        if np.isinf(own):
            found[some] = interval_half_width(known[some], noise=own)
            continue
        # Noise of variance σ², times r, and a normal rest have variance rσ² and excess kurtosis r²(3 + 1/σ²).
        ratio = np.minimum(known[some] * np.sqrt(kurtosis[some] / (3 + 1 / own)).reshape(shape), 1.0)
        half_width = interval_half_width(ratio * own, noise=own, laplace=laplace)
        scale = np.divide(known[some], ratio * own, out=np.zeros(ratio.shape), where=ratio > 0)
        found[some] = half_width * np.sqrt(scale)
    return found


def _count_cells(query: MeasuredQuery, clique: Clique, *, plan: HierarchyPlan) -> int:
    """Return how many cells of a query add up to a cell of a marginal; 0 where none do."""
    marginal = query.marginal
    if not set(clique) <= set(marginal.clique) or any(each.column in clique for each in marginal.groupings):
        return 0
    return int(np.prod(marginal.shape(plan.domain), dtype=np.int64)) // plan.domain.cells(clique)
