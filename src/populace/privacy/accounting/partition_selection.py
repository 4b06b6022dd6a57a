"""Keys released by a stability threshold: how likely a key that only one unit has is released at all.

A key of count c is released when c + Z exceeds the threshold T. Keys that occur on one side of two neighbours only
are the one thing that noise does not cover; the probability that any of them is released is set aside of δ.
Proof: docs/proofs/discover.md
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from flint import arb

from populace.core.errors import UsageError
from populace.privacy.accounting.gaussian_dp import theta
from populace.privacy.accounting.interval_arithmetic import ball, bounds, round_up
from populace.privacy.accounting.mechanisms import (
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Mechanism,
    Noise,
    PartitionSelection,
)
from populace.schema.unit import Neighbours, PrivacyUnit

# Terms of a tail that are added up one by one; what comes after them is bounded by its integral.
_TERMS = 4096
_NEGLIGIBLE = Fraction(1, 2**120)
# Smaller probabilities are booked as this one, so that books stay short; no δ is as small.
_MIN_PROBABILITY = Fraction(1, 2**1024)
# A little above ln 2.
_LN_2_ABOVE = Fraction(7, 10)


def delta_price(mechanism: Mechanism, *, unit: PrivacyUnit) -> Fraction:
    """Return the part of δ that a spend under this mechanism takes, rounded up: 0 for most mechanisms.

    Gaussian noise among pure questions takes the part that it names. Proof: docs/proofs/filters.md.
    Where a unit is replaced, both neighbours may have keys of their own, so the probability counts twice.
    Proof: docs/proofs/discover.md

    >>> from populace.privacy.accounting.mechanisms import DiscreteGaussian
    >>> delta_price(PartitionSelection(DiscreteGaussian(Fraction(4)), 8), unit=PrivacyUnit()) < Fraction(1, 1000)
    True
    """
    if isinstance(mechanism, EpsilonDeltaGaussian):
        return mechanism.delta
    if not isinstance(mechanism, PartitionSelection):
        return Fraction(0)
    once = reveal_probability(mechanism, rows=unit.rows)
    return 2 * once if unit.neighbours is not Neighbours.ADD_REMOVE else once


@lru_cache(maxsize=4096)
def reveal_probability(mechanism: PartitionSelection, *, rows: int) -> Fraction:
    """Return the most likely that some key is released when all its rows belong to one unit, rounded up.

    The maximum over all ways to spread at most r rows over new keys is reached at one of two ends: r keys of one
    row each, 1 − (1 − P[1 + Z > T])^r, or one key of r rows, P[r + Z > T]. Proof: docs/proofs/discover.md
    """
    if mechanism.threshold < rows:
        return Fraction(1)
    # exp(−0.7·b) < 2^−b: nothing so small needs to be computed.
    if _log_tail_bound(mechanism.noise, mechanism.threshold - rows) >= _LN_2_ABOVE * (
        1024 + rows.bit_length()
    ):
        return _MIN_PROBABILITY
    apart = bounds(lambda: -(rows * (-_tail(mechanism.noise, mechanism.threshold - 1)).log1p()).expm1())[1]
    together = bounds(lambda: _tail(mechanism.noise, mechanism.threshold - rows))[1]
    return min(Fraction(1), round_up(max(apart, together, _MIN_PROBABILITY)))


@lru_cache(maxsize=4096)
def min_threshold(noise: Noise, *, delta: Fraction, unit: PrivacyUnit) -> int:
    """Return the least threshold, from the rows of one unit on, whose part of δ is at most `delta`.

    >>> from populace.privacy.accounting.mechanisms import DiscreteGaussian
    >>> min_threshold(DiscreteGaussian(Fraction(4)), delta=Fraction(1, 1000), unit=PrivacyUnit())
    7
    """
    if not delta > 0:
        raise UsageError(
            f"no threshold hides keys with delta {delta}.", hint="set a part of delta aside for keys"
        )

    def fits(threshold: int) -> bool:
        return delta_price(PartitionSelection(noise, threshold), unit=unit) <= delta

    step = 1
    while not fits(unit.rows - 1 + step):
        step *= 2
    high = unit.rows - 1 + step
    while step > 1:
        step //= 2
        if high - step >= unit.rows and fits(high - step):
            high -= step
    return high


def _log_tail_bound(noise: Noise, above: int) -> Fraction:
    """Return x with P[Z > above] ≤ exp(−x): the exponent of the first term."""
    if isinstance(noise, DiscreteLaplace):
        return (above + 1) / noise.scale
    return (above + 1) ** 2 / (2 * noise.variance)


def _tail(noise: Noise, above: int) -> arb:
    """Enclose a bound on P[Z > above] for above ≥ 0 that is the probability itself up to the rest of a long sum.

    Laplace noise: q^(above + 1)/(1 + q) with q = exp(−1/scale).
    """
    if isinstance(noise, DiscreteLaplace):
        return (-ball((above + 1) / noise.scale)).exp() / (1 + (-ball(1 / noise.scale)).exp())
    return _gaussian_tail(noise.variance, above)


def _gaussian_tail(variance: Fraction, above: int) -> arb:
    """Enclose a bound on P[Z > above] of Gaussian noise.

    Σ exp(−k²/2σ²) over k > above, term by term; the terms fall, so those after the n-th are together at most
    ∫ exp(−x²/2σ²) from n on, σ·√(π/2)·erfc(n/σ√2).
    """
    double = 2 * ball(variance)
    k = above + 1
    term, ratio, step = ((-ball(power) / double).exp() for power in (k * k, 2 * k + 1, 2))
    total, least = term, term * ball(_NEGLIGIBLE)
    # Until the last term itself is negligible: the integral from it on is then negligible too.
    while k <= above + _TERMS and not term < least:
        k += 1
        term *= ratio
        ratio *= step
        total += term
    rest = (arb.pi() * double).sqrt() / 2 * (ball(k) / double.sqrt()).erfc()
    return (total + rest) / theta(variance)
