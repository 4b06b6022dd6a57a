"""Values of imputed rows, and smooth bounds on answers about them.

L₁ (`NearestNeighbours.max_changed`) at most doubles from one table to a neighbour, so each bound here is ln 2-smooth:
`LN_2` of privacy/smooth/smooth_noise.py is its t. Every such answer needs an ε of its own, above ln 2.
Proof: docs/proofs/nearest.md
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from fractions import Fraction

from populace.core.array_types import Ints
from populace.core.errors import UsageError


class DonorValue(Enum):
    """What an incomplete row takes from its donors."""

    COPY = "copy"
    MEAN = "mean"
    MAJORITY = "majority"  # the lowest of the most frequent


class Membership(Enum):
    """Whether imputed columns decide who belongs to a subpopulation."""

    KNOWN = "known"
    IMPUTED = "imputed"


def impute_values(donors: Ints, *, values: Ints, take: DonorValue, default: Fraction) -> list[Fraction]:
    """Return the value of each incomplete row from its donors; without any, the public default.

    >>> import numpy as np
    >>> donors, values = np.array([[0, 2], [1, -1], [-1, -1]]), np.array([4, 5, 7])
    >>> [str(value) for value in impute_values(donors, values=values, take=DonorValue.MEAN, default=Fraction(3))]
    ['11/2', '5', '3']
    """
    if take is DonorValue.COPY and donors.shape[1] != 1:
        raise UsageError(
            f"one of {donors.shape[1]} donors cannot be copied.",
            hint="copy with k = 1, or take the mean or majority",
        )
    found = []
    for row in donors.tolist():
        taken = [int(values[one]) for one in row if one >= 0]
        if not taken:
            found.append(default)
        elif take is DonorValue.MAJORITY:
            counts = Counter(taken)
            often = max(counts.values())
            found.append(Fraction(min(value for value, count in counts.items() if count == often)))
        else:
            found.append(Fraction(sum(taken), len(taken)))
    return found


def frequency_bound(max_changed: int) -> Fraction:
    """Return 1 + L₁: a count moves by the row that comes or leaves, and by those imputed anew.

    >>> frequency_bound(3)
    Fraction(4, 1)
    """
    return Fraction(1 + max_changed)


def mean_bound(
    max_changed: int, *, low: Fraction, high: Fraction, size: Fraction, membership: Membership
) -> Fraction:
    """Return a bound on a sum of values from `low` to `high`, divided by a fixed size.

    With M = max(|low|, |high|): (M + L₁·(high − low))/size, and where membership is imputed as well
    (M + L₁·max(M, high − low))/size, since a row may come into the subpopulation with all its value.

    >>> mean_bound(3, low=Fraction(-1), high=Fraction(4), size=Fraction(10), membership=Membership.KNOWN)
    Fraction(19, 10)
    """
    _check_range(low, high)
    if not size >= 1:
        raise UsageError(f"a mean over {float(size)} rows is asked for.", hint="give a size of 1 or more")
    largest, width = max(abs(low), abs(high)), high - low
    moved = width if membership is Membership.KNOWN else max(largest, width)
    return (largest + max_changed * moved) / size


def variance_bound(
    max_changed: int, *, low: Fraction, high: Fraction, centre: Fraction, size: Fraction
) -> Fraction:
    """Return a bound on Σ (value − centre)²/(size − 1) for a fixed centre and size: m·(1 + L₁)/(size − 1).

    m = max((low − centre)², (high − centre)²), whether membership is imputed or not.

    >>> variance_bound(1, low=Fraction(0), high=Fraction(4), centre=Fraction(1), size=Fraction(10))
    Fraction(2, 1)
    """
    _check_range(low, high)
    if not size >= 2:
        raise UsageError(f"a variance over {float(size)} rows is asked for.", hint="give a size of 2 or more")
    furthest = max((low - centre) ** 2, (high - centre) ** 2)
    return furthest * (1 + max_changed) / (size - 1)


def _check_range(low: Fraction, high: Fraction) -> None:
    if not low <= high:
        raise UsageError(f"values from {low} to {high} are no range.", hint="give the lower end first")
