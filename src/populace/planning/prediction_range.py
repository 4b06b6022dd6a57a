"""Predictions with a plausible range: the mean of simulations, and from where to where the truth may lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

# Of what is drawn once, one case in twenty lies beyond so many standard deviations on either side.
NORMAL_QUANTILE = 1.64
# The coefficient of variation of |x| for normal x.
HALF_NORMAL_CV = 0.756


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRange:
    """The mean of several simulations, and from where to where the truth may lie."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        *,
        weights: Sequence[float] | None = None,
        chance: float = 0.0,
        most: float = math.inf,
    ) -> PredictionRange:
        """Return the range of some numbers: from the smallest to the largest, widened by chance.

        `chance` is the coefficient of variation of what is drawn once.

        >>> PredictionRange.of([0.2, 0.4]).high, PredictionRange.of([0.2, 0.4], weights=[3, 1]).mean
        (0.4, 0.25)
        """
        mean = float(np.average(values, weights=weights))
        wider = math.exp(NORMAL_QUANTILE * chance)
        return cls(mean=mean, low=min(values) / wider, high=max(mean, min(most, max(values) * wider)))

    @classmethod
    def of_counts(cls, counts: Sequence[float], *, weights: Sequence[float], most: float) -> PredictionRange:
        """Return the range of how often something happens, widened by the square root of it.

        >>> found = PredictionRange.of_counts([4, 15], weights=[1, 1], most=20)
        >>> round(found.low, 1), found.mean, found.high
        (0.7, 9.5, 20)
        """
        smallest, largest = min(counts), max(counts)
        mean = float(np.average(counts, weights=weights))
        if smallest == largest == most:
            return cls(mean=mean, low=mean, high=mean)
        high = min(most, largest + NORMAL_QUANTILE * math.sqrt(largest + 1))
        return cls(mean=mean, low=max(0.0, smallest - NORMAL_QUANTILE * math.sqrt(smallest)), high=high)

    def to_json(self) -> dict[str, float]:
        """Return it for a machine, to four digits."""
        return {name: float(f"{getattr(self, name):.4g}") for name in ("mean", "low", "high")}


def compute_noise_cv(errors: Iterable[float], *, cells: Iterable[int]) -> float:
    """Return the coefficient of variation of a run's mean error of tables.

    The error of a table of k cells is about the mean of k - 1 absolute values of normal numbers.

    >>> round(compute_noise_cv([0.1], cells=[2]), 3), round(compute_noise_cv([0.1] * 4, cells=[2] * 4), 3)
    (0.756, 0.378)
    """
    parts = np.fromiter(errors, dtype=np.float64)
    each = HALF_NORMAL_CV / np.sqrt(np.maximum(np.fromiter(cells, dtype=np.float64) - 1, 1))
    return (
        float(np.sqrt((parts**2 * each**2).sum()) / max(float(parts.sum()), 1e-300)) if parts.any() else 0.0
    )


def compute_selection_cv(errors: Iterable[float], *, possible: float) -> float:
    """Return the coefficient of variation of the mean error of some tables, since others might have been chosen.

    The more of the possible tables are chosen, the less depends on which.

    >>> round(compute_selection_cv([0.1, 0.3], possible=8), 3), compute_selection_cv([0.1, 0.3], possible=2)
    (0.306, 0.0)
    """
    each = np.fromiter(errors, dtype=np.float64)
    rest = max(0.0, 1 - len(each) / possible)
    return float(each.std() / max(float(each.mean()), 1e-300)) * math.sqrt(rest / len(each))
