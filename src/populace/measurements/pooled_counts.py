"""Several measurements of the same counts, pooled by their precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from populace.core.marginals import Marginal
from populace.measurements.measurements import Measurement, Numbers


def group_repeats(items: Iterable[Measurement]) -> list[list[Measurement]]:
    """Return the measurements of each marginal together, in the order of the first of its kind."""
    same: dict[Marginal, list[Measurement]] = {}
    for item in items:
        same.setdefault(item.marginal, []).append(item)
    return list(same.values())


def mean_counts(same: Sequence[Measurement]) -> tuple[Numbers, Fraction]:
    """Return the mean of several measurements of one marginal, weighted by precision, and its variance.

    >>> first, second = (Measurement(Marginal(()), np.array(n), Fraction(v)) for n, v in [(10, 3), (14, 1)])
    >>> [float(found) for found in mean_counts([first, second])]
    [13.0, 0.75]
    """
    variance = 1 / sum((1 / item.variance for item in same), Fraction(0))
    mean = np.zeros(same[0].counts.shape)
    # In an order that does not depend on who came first.
    for item in sorted(same, key=lambda item: item.variance):
        mean += float(variance / item.variance) * item.counts
    return mean, variance


def combine_repeats(same: Sequence[Measurement]) -> Measurement:
    """Return one measurement for several of the same marginal: their mean, to the nearest row."""
    mean, variance = mean_counts(same)
    return Measurement(same[0].marginal, np.rint(mean).astype(np.int64), variance)


def estimate_rows(items: Iterable[Measurement]) -> tuple[float, float]:
    """Return the number of rows that tables sum to, weighted by their precision, and its variance.

    >>> one, other = (Measurement(Marginal((n,)), np.array([4, 6]), Fraction(v)) for n, v in [("a", 1), ("b", 3)])
    >>> estimate_rows([one, other])
    (10.0, 1.5)
    """
    known = list(items)
    weights = [1 / (float(item.variance) * item.counts.size) for item in known]
    return float(np.average([item.counts.sum() for item in known], weights=weights)), 1 / sum(weights)
