"""Margins of error of the unbiased estimates of a hierarchy."""

from __future__ import annotations

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Clique
from populace.inference.gls.interval_half_width import interval_half_width
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates

# What rounding leaves of the variance of an exact total.
_EXACT = 1e-9


def margin_of_error(
    estimates: HierarchyEstimates, clique: Clique, *, level: int, laplace: bool = False
) -> Floats:
    """Return the 95 % margin of error of every cell of a marginal of the units of a level: (units, *shape).

    For errors that are sums of many it is 1.96 standard deviations. Where one noisy count decides, of whole numbers or
    with Laplace noise, it is the margin of that noise (`interval_half_width`). Exact totals have margin 0.
    """
    variance = estimates.variance(clique, level=level)
    plan = estimates.form.plan
    own = [
        float(query.variance)
        for query in plan.levels[level].queries
        if query.marginal.clique == clique and not query.marginal.groupings
    ]
    # Of several counts of the same cell none decides alone.
    noise = own[0] if len(own) == 1 else float("inf")
    # Cells of a unit often have one variance: it is looked up once.
    alike = variance.size > 0 and all(stride == 0 for stride in variance.strides[1:])
    distinct = variance[(slice(None), *(slice(1) for _ in variance.shape[1:]))] if alike else variance
    margin = interval_half_width(np.where(distinct > _EXACT, distinct, 0.0), noise=noise, laplace=laplace)
    return np.broadcast_to(np.where(distinct > _EXACT, margin, 0.0), variance.shape)
