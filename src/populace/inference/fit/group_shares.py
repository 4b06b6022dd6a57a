"""How the codes of a group share the group's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from populace.core.marginals import Counts, Grouping
from populace.inference.factor import Table
from populace.inference.fit.projection import project_to_simplex
from populace.measurements.measurements import Measurement


def estimate_group_shares(
    measurements: Sequence[Measurement], grouping: Grouping, *, totals: Table, known: Table | None = None
) -> Table:
    """Return, for every code of a column, its share of its group's rows; the shares of a group sum to 1.

    Uses every measurement that saw the column's codes themselves, averaged with weights 1 / variance, and takes in
    each group the nearest non-negative counts with the group's total. Without such a measurement shares are equal.
    Counts of all codes that are `known` decide alone.
    """
    column = grouping.column
    values, precisions = [], []
    for measurement in measurements:
        clique = measurement.marginal.clique
        if column in clique and measurement.marginal.grouping(column) is None:
            others = tuple(axis for axis, name in enumerate(clique) if name != column)
            seen = measurement.counts.sum(axis=others)
            precision = len(grouping.groups) / (float(measurement.variance) * measurement.counts.size)
            values.append(precision * seen)
            precisions.append(precision)
    # Sorted sums: the order of the measurements must not matter.
    counts = (
        np.sort(values, axis=0).sum(axis=0) / np.sum(np.sort(precisions))
        if values
        else np.zeros(len(grouping.groups))
    )
    return share_by_group(counts if known is None else known, grouping.members, totals=totals)


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
