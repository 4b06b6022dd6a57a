"""The bias that non-negativity causes: differences of published counts, averaged in classes of their size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats
from populace.core.number_format import THIN_SPACE

# Ends of the classes; beyond the last ones the classes are open.
CLASS_ENDS = (-300, -100, -30, -10, -3, 0, 3, 10, 30, 100, 300, 1000, 10_000)
# True counts are whole and never negative, and those of 0 are of most interest.
TRUE_CLASS_ENDS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)
# Least squares hold exact totals to within this.
_SAME = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasClass:
    """The counts of one class: how many, their mean difference, and how one-sided their differences are.

    `low` ≤ count < `high`, and None stands for no bound. `asymmetry` is B = (σ₊² − σ₋²)/(σ₊² + σ₋²), with σ₊² and σ₋²
    the sums of squares of differences above and below 0: 1 where all are above, −1 where all are below, 0 where they
    are as large on both sides, None where there are none. The source is JASON 2020, figure on the bias of the
    TopDown algorithm.
    """

    low: int | None
    high: int | None
    counts: int
    mean: float
    asymmetry: float | None

    @property
    def label(self) -> str:
        """The class in words.

        >>> BiasClass(low=-3, high=0, counts=1, mean=0.0, asymmetry=None).label
        '−3 to 0'
        """
        if self.low is None:
            return f"below {_format_end(self.high or 0)}"
        if self.high is None:
            return f"{_format_end(self.low)} or more"
        if self.high == self.low + 1:
            return _format_end(self.low)
        return f"{_format_end(self.low)} to {_format_end(self.high)}"


def classify_bias(
    difference: Floats, *, by: Floats, ends: tuple[int, ...] = CLASS_ENDS
) -> tuple[BiasClass, ...]:
    """Return the mean difference and the asymmetry of every class of `by` that has counts, the smallest first.

    >>> found = classify_bias(np.array([2.0, 1.0, -1.0]), by=np.array([-2.0, -1.0, 5.0]))
    >>> [(each.label, each.counts, each.mean, each.asymmetry) for each in found]
    [('−3 to 0', 2, 1.5, 1.0), ('3 to 10', 1, -1.0, -1.0)]
    """
    moved = np.where(np.abs(difference) > _SAME, difference, 0.0).ravel()
    near = np.rint(by)
    places = np.searchsorted(ends, np.where(np.abs(by - near) < _SAME, near, by).ravel(), side="right")
    classes = len(ends) + 1
    counts = np.bincount(places, minlength=classes)
    sums = np.bincount(places, weights=moved, minlength=classes)
    above = np.bincount(places, weights=np.maximum(moved, 0) ** 2, minlength=classes)
    below = np.bincount(places, weights=np.minimum(moved, 0) ** 2, minlength=classes)
    return tuple(
        BiasClass(
            low=ends[place - 1] if place else None,
            high=ends[place] if place < len(ends) else None,
            counts=int(counts[place]),
            mean=float(sums[place] / counts[place]),
            asymmetry=float((above[place] - below[place]) / (above[place] + below[place]))
            if above[place] + below[place]
            else None,
        )
        for place in np.flatnonzero(counts).tolist()
    )


def _format_end(value: int) -> str:
    return f"{value:,}".replace(",", THIN_SPACE).replace("-", "\N{MINUS SIGN}")
