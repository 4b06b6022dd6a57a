"""Numbers with brackets: what rehearsals came to on average, and from where to where the truth may lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

# What happened on real tables, as multiples of what was predicted: the least and the most. The number of pairs as well.
# bench/plan.py, tables on which constants were chosen and others; docs/decisions/plan.md.
COLUMNS_BETWEEN, PAIRS_BETWEEN, NUMBERS_BETWEEN = (0.75, 1.65), (0.7, 2.9), (0.35, 1.8)
# The same for one pair, of which most lie inside: its noise is drawn once, and its columns are its own.
PAIR_BETWEEN = (0.4, 2.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The mean of several rehearsals, and from where to where the truth may lie: the least and the most of them."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of some numbers."""
        return cls(mean=float(np.mean(values)), low=min(values), high=max(values))

    def between(self, factors: tuple[float, float], *, most: float = 1.0) -> Spread:
        """Return the spread made wider by how real tables differ from invented ones.

        >>> Spread.of([0.2, 0.4]).between((0.5, 2.0))
        Spread(mean=0.30000000000000004, low=0.1, high=0.8)
        """
        low, high = self.low * factors[0], max(self.mean, min(most, self.high * factors[1]))
        return replace(self, low=low, high=high)

    def to_json(self) -> dict[str, float]:
        """Return it for a machine, to four digits."""
        return {name: float(f"{getattr(self, name):.4g}") for name in ("mean", "low", "high")}
