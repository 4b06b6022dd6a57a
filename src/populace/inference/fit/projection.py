"""The nearest non-negative table with a given total, and shares of groups that follow from it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from populace._native.kernels import compiled, project_onto_simplex
from populace.core.marginals import Counts
from populace.inference.factor import Table


def project_to_simplex(table: Table, *, total: float) -> Table:
    """Return the non-negative table with this total that is nearest in the Euclidean norm.

    One constant is subtracted from every cell and what falls below 0 is cut to 0; the constant makes the total right.
    Source: the projection onto a simplex by sorting (Held, Wolfe and Crowder 1974).

    >>> project_to_simplex(np.array([5.0, 2.0, -3.0]), total=6.0)
    array([4.5, 1.5, 0. ])
    """
    if table.size == 0 or total <= 0:
        return np.zeros(table.shape)
    return project_onto_simplex(table, total=total) if compiled() else _project_by_sorting(table, total=total)


def _project_by_sorting(table: Table, *, total: float) -> Table:
    falling = np.sort(table, axis=None)[::-1]
    # What each prefix of the largest cells must give up, if it alone stays above 0.
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = int(np.flatnonzero(falling > excess)[-1]) if falling[0] > excess[0] else 0
    cut = np.maximum(table - excess[kept], 0.0)
    # Cells much larger than the total lose digits in the subtraction; rescaling restores the total.
    return (
        np.asarray(cut * (total / cut.sum())) if cut.sum() > 0 else np.full(table.shape, total / table.size)
    )


def project_to_simplex_weighted(table: Table, variance: Table, *, total: float) -> Table:
    """Return the non-negative table with this total that is nearest when cells count as 1 / variance.

    Every cell gives up the same times its variance, and what falls below 0 is cut: the uncertain cells move most.

    >>> project_to_simplex_weighted(np.array([5.0, 2.0, -3.0]), np.array([1.0, 3.0, 1.0]), total=6.0)
    array([4.75, 1.25, 0.  ])
    """
    kept = np.ones(table.shape, dtype=np.bool_)
    while True:
        excess = (float(table[kept].sum()) - total) / float(variance[kept].sum())
        found = np.where(kept, table - excess * variance, 0.0)
        below = found < 0
        if not below.any():
            return found
        kept &= ~below


def share_by_group(counts: Table, groups: Iterable[Counts], *, totals: Iterable[float]) -> Table:
    """Return the share of every code in its group, from noisy counts made to have the group's rows.

    >>> share_by_group(np.array([3.0, -1.0, 2.0]), [np.array([0, 1]), np.array([2])], totals=[3.0, 2.0])
    array([1., 0., 1.])
    """
    shares = np.empty(counts.shape)
    for members, total in zip(groups, totals, strict=True):
        kept = project_to_simplex(counts[members], total=float(total))
        shares[members] = kept / kept.sum() if kept.sum() > 0 else 1 / len(members)
    return shares
