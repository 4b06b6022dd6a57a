"""Numbers with brackets: what rehearsals came to on average, and from where to where the truth may lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

# Of what is drawn once, one case in twenty lies beyond so many deviations on either side.
RARE = 1.64
# The deviation of |x| for normal x, as part of its mean.
HALF_NORMAL = 0.756


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The mean of several rehearsals, and from where to where the truth may lie."""

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
    ) -> Spread:
        """Return the spread of some numbers: from the least to the most, by chance of what is drawn once beyond.

        >>> Spread.of([0.2, 0.4]).high, Spread.of([0.2, 0.4], weights=[3, 1]).mean
        (0.4, 0.25)
        """
        mean = float(np.average(values, weights=weights))
        wider = math.exp(RARE * chance)
        return cls(mean=mean, low=min(values) / wider, high=max(mean, min(most, max(values) * wider)))

    @classmethod
    def of_factors(cls, values: Sequence[float], *, weights: Sequence[float], chance: float) -> Spread:
        """Return the spread of shares whose logarithms are averaged.

        >>> round(Spread.of_factors([0.1, 0.4], weights=[1, 1], chance=0.0).mean, 3)
        0.2
        """
        mean = float(np.exp(np.average(np.log(np.maximum(values, 1e-12)), weights=weights)))
        return replace(cls.of(values, chance=chance, most=1.0), mean=mean)

    def to_json(self) -> dict[str, float]:
        """Return it for a machine, to four digits."""
        return {name: float(f"{getattr(self, name):.4g}") for name in ("mean", "low", "high")}


def by_chance(errors: Iterable[float], *, cells: Iterable[int]) -> float:
    """Return how far a run's mean error of tables lies from its expectation by chance, as part of it.

    The error of a table of k cells is about the mean of k - 1 absolute values of normal numbers.

    >>> round(by_chance([0.1], cells=[2]), 3), round(by_chance([0.1] * 4, cells=[2] * 4), 3)
    (0.756, 0.378)
    """
    parts = np.fromiter(errors, dtype=np.float64)
    each = HALF_NORMAL / np.sqrt(np.maximum(np.fromiter(cells, dtype=np.float64) - 1, 1))
    return (
        float(np.sqrt((parts**2 * each**2).sum()) / max(float(parts.sum()), 1e-300)) if parts.any() else 0.0
    )
