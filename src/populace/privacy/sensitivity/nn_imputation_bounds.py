"""Smooth bounds on answers about imputed rows.

L₁ (`NearestNeighbours.max_changed`) at most doubles from one table to a neighbour, so each bound here is ln 2-smooth:
`LN_2` of privacy/smooth/smooth_noise.py is its t. Every such answer needs an ε of its own, above ln 2.
Proof: docs/proofs/nearest.md
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

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
