"""Noisy scores of pairs that are alike, such as one pair of columns in every place of linked tables, pooled."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from populace.core.array_types import Floats


def pool_scores(
    scores: Floats, deviations: Floats, *, rows: Floats, kinds: Sequence[Hashable]
) -> tuple[Floats, Floats]:
    """Return scores and their deviations after those of one kind have learnt from each other.

    A score over the rows that it is about is a rate. Rates of one kind vary about a mean of their own, all kinds by the
    same variance, which is estimated by moments (DerSimonian and Laird 1986); each becomes its posterior mean. A score
    that is the only one of its kind stays as it is. It follows from paid answers alone.

    >>> found, left = pool_scores(
    ...     np.array([100.0, 20.0, 90.0]), np.full(3, 10.0), rows=np.array([100.0, 10.0, 100.0]), kinds=["a", "a", "b"]
    ... )
    >>> found.round(1).tolist(), left.round(1).tolist()
    ([101.0, 10.1, 90.0], [10.0, 1.0, 10.0])
    """
    names = list(dict.fromkeys(kinds))
    number = {kind: i for i, kind in enumerate(names)}
    of = np.array([number[kind] for kind in kinds], dtype=np.int64)
    count = np.bincount(of, minlength=len(names))
    rows = np.maximum(rows, 1.0)
    rates, variances = scores / rows, (deviations / rows) ** 2

    def total(values: Floats) -> Floats:
        return np.bincount(of, weights=values, minlength=len(names)).astype(np.float64, copy=False)

    weights = total(1 / variances)
    means = total(rates / variances) / weights
    excess = float(((rates - means[of]) ** 2 / variances).sum()) - int((count - 1).sum())
    scale = float((weights - total(variances**-2) / weights).sum())
    spread = max(0.0, excess / scale) if scale > 0 else 0.0
    weights = total(1 / (variances + spread))
    means = total(rates / (variances + spread)) / weights
    kept = spread / (variances + spread)
    pooled = means[of] + kept * (rates - means[of])
    left = kept * variances + (1 - kept) ** 2 / weights[of]
    alone = count[of] == 1
    return np.where(alone, scores, rows * pooled), np.where(alone, deviations, rows * np.sqrt(left))
