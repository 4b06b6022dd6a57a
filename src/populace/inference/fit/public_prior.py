"""What a public table says of single columns, weighed against what was measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from populace.core.marginals import Counts, Marginal
from populace.inference.factor import Table
from populace.measurements.measurements import Measurement
from populace.measurements.pooled_counts import estimate_rows, mean_counts
from populace.measurements.public_marginals import PublicMarginals

# A code that is further from the public table than so many deviations is taken as measured.
_OUTLIER_DEVIATIONS = 3.0


def shrink_to_public(items: Sequence[Measurement], public: PublicMarginals | None) -> tuple[Measurement, ...]:
    """Return measurements in which each column that is public too is shrunk towards its public shares.

    How far is decided by the noisy counts: the more a column differs from the public one beyond its noise, the less.
    Measurements of one column become one, with the mean variance of what is left; others stay as they are. A public
    column that was not measured at all is taken as it is, for as many rows as there are.
    """
    alone: dict[str, list[Measurement]] = {}
    for item in items:
        if len(item.marginal.clique) == 1 and not item.marginal.groupings:
            alone.setdefault(item.marginal.clique[0], []).append(item)
    known = {
        clique[0]: table for clique, table in (public.tables if public else {}).items() if len(clique) == 1
    }
    if not known:
        return tuple(items)
    merged = {name: mean_counts(same) for name, same in alone.items() if name in known}
    total = max(1.0, estimate_rows(items)[0])
    found = [
        item
        for item in items
        if item.marginal.groupings or item.marginal.clique not in {(name,) for name in merged}
    ]
    for name, table in known.items():
        counts, variance = merged.get(name, (np.zeros(table.shape), np.inf))
        values, left = shrink_counts_to_public(counts, variance=float(variance), public=table, total=total)
        rounded = np.rint(values).astype(np.int64)
        found.append(Measurement(Marginal((name,)), rounded, Fraction(float(left.mean()))))
    return tuple(found)


def shrink_counts_to_public(
    counts: Table, *, variance: float, public: Counts, total: float
) -> tuple[Table, Table]:
    """Return noisy counts of a column shrunk towards its public shares, and the variances that are left.

    A code that makes up p of n public rows is expected N·p times, with variance κ·N·(p + 1/n). Both tables are at least
    random samples, so κ is at least 1 + N/n; otherwise it is what the noisy counts show beyond their noise. A code
    that is far off for all that is left as it was measured.

    >>> values, left = shrink_counts_to_public(np.array([95.0, 0.0, 12.0]), variance=100.0,
    ... public=np.array([100, 4, 4]), total=108.0)
    >>> values.round(1), left.round(1)
    (array([96.7,  3.6,  4.7]), array([66.9,  9.1,  9.1]))
    """
    rows = float(public.sum())
    expected = total * public / rows
    sampled = total * (public + 1) / rows
    least = 1 + total / rows
    if variance == np.inf:
        return np.asarray(expected, np.float64), np.asarray(least * sampled, np.float64)
    weights = 1 / (variance + least * sampled)
    beyond = (counts - expected) ** 2 - variance
    spread = max(least, float((weights * beyond).sum() / (weights * sampled).sum())) * sampled
    far = np.abs(counts - expected) > _OUTLIER_DEVIATIONS * np.sqrt(variance + spread)
    trust = np.where(far, 1.0, spread / (spread + variance))
    return expected + trust * (counts - expected), np.maximum(trust * variance, 1e-6)
