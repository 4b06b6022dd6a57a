"""Certified arithmetic of Gaussian differential privacy: what a mechanism costs, and what a cost promises.

A mechanism is μ-GDP when telling two neighbours apart from its answer is at least as hard as telling N(0, 1)
from N(μ, 1). Everything here returns fractions that are proven to lie on the safe side.
Source: Dong, Roth and Su 2022.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from flint import arb

from populace.privacy.accounting.interval_arithmetic import (
    ball,
    bounds,
    find_greatest,
    precision,
    round_down,
    round_up,
)

_SHORT_BITS = 24
_MAX_STEPS = 100


@lru_cache(maxsize=65536)
def discrete_gaussian_mu_squared(variance: Fraction) -> Fraction:
    """Return μ² of integer Gaussian noise on an integer that moves by one, rounded up.

    μ = 2Φ⁻¹((1 + P[Z = 0])/2) = 2√2·erf⁻¹(P[Z = 0]). Proof: docs/proofs/discrete-gaussian-gdp.md.

    >>> round(float(discrete_gaussian_mu_squared(Fraction(100))) * 100, 6)  # the continuous Gaussian: 1
    1.000834
    """
    return round_up(bounds(lambda: 8 * _inverse_centre(variance) ** 2)[1])


def _inverse_centre(variance: Fraction) -> arb:
    """Return erf⁻¹(P[Z = 0]). For narrow noise 1 − P[Z = 0] is tiny: it is computed by itself, not as a difference."""
    if variance < 1:
        tail = _theta_minus_one(variance)
        return (tail / (1 + tail)).erfcinv()
    return (1 / theta(variance)).erfinv()


def theta(variance: Fraction) -> arb:
    """Enclose θ = Σ exp(−k²/2σ²) over all whole numbers k, at the working precision: P[Z = z] = exp(−z²/2σ²)/θ.

    Poisson summation gives θ = √(2πσ²)·Σ exp(−2π²σ²k²), which converges at once for wide noise.
    """
    if variance < 1:
        return 1 + _theta_minus_one(variance)
    circle = 2 * arb.pi() * ball(variance)
    return circle.sqrt() * (1 + 2 * _squares((-arb.pi() * circle).exp()))


def _theta_minus_one(variance: Fraction) -> arb:
    """Enclose θ − 1 for narrow noise: the weight of everything but 0."""
    return 2 * _squares((-1 / (2 * ball(variance))).exp())


def _squares(ratio: arb) -> arb:
    """Enclose Σ_{k ≥ 1} q^(k²) for 0 < q < 0.61.

    Each term is less than half of the one before, so what is left out is below twice its first term.
    """
    total, term, k = arb(0), ratio, 1
    while True:
        total += term
        k += 1
        following = ratio ** (k * k)
        # A remainder far below the sum's own rounding error is added as a radius.
        if (following * 2) < total * arb(2) ** -400:
            return total + arb(0, (2 * following).upper())
        term = following


@lru_cache(maxsize=65536)
def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """Return μ² of a mechanism whose log-ratios span a range of 2ε, such as any ε-DP one, rounded up.

    μ = 2Φ⁻¹(e^ε/(1 + e^ε)) = 2√2·erfc⁻¹(2/(1 + e^ε)). An exponential choice at ε spans only ε: ask with ε/2.
    Proof: docs/proofs/exponential-gdp.md.

    >>> round(float(pure_mu_squared(Fraction(1))), 4)
    1.5179
    """
    return round_up(bounds(lambda: 8 * (2 / (1 + ball(epsilon).exp())).erfcinv() ** 2)[1])


def gaussian_delta(mu_squared: Fraction, *, epsilon: Fraction) -> Fraction:
    """Return the δ at which μ-GDP implies (ε, δ)-DP, rounded up: Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ).

    Source: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022.
    """

    def curve() -> arb:
        mu = ball(mu_squared).sqrt()
        half, shift, root = mu / 2, ball(epsilon) / mu, arb(2).sqrt()
        above = ((shift - half) / root).erfc()
        below = ((shift + half) / root).erfc()
        return (above - ball(epsilon).exp() * below) / 2

    return round_up(bounds(curve)[1])


@lru_cache(maxsize=4096)
def gaussian_cap(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the greatest μ² that still implies (ε, δ)-DP, rounded down."""
    return find_greatest(
        lambda mu_squared: gaussian_delta(mu_squared, epsilon=epsilon) <= delta, start=epsilon
    )


@lru_cache(maxsize=4096)
def min_variance(mu_squared: Fraction) -> Fraction:
    """Return the least variance, to seven digits, whose integer Gaussian noise costs at most this μ².

    The cost is close to 1/variance, so multiplying by (cost / target) is nearly Newton's step.
    """
    finer = 2 * _SHORT_BITS
    variance = round_up(1 / mu_squared, bits=finer)
    for _ in range(_MAX_STEPS):
        change = discrete_gaussian_mu_squared(variance) / mu_squared
        variance = round_up(variance * change, bits=finer)
        if abs(change - 1) < Fraction(1, 2 ** (_SHORT_BITS + 2)):
            break
    variance = round_up(variance, bits=_SHORT_BITS)
    while discrete_gaussian_mu_squared(variance) > mu_squared:
        variance = round_up(variance * (1 + Fraction(1, 2**_SHORT_BITS)), bits=_SHORT_BITS)
    return variance


@lru_cache(maxsize=4096)
def max_pure_epsilon(mu_squared: Fraction) -> Fraction:
    """Return the greatest ε, to seven digits, at which an ε-DP mechanism costs at most this μ².

    The inverse of `pure_mu_squared`: ε = ln((1 + a)/(1 − a)) with a = erf(μ/2√2).
    """
    with precision(160):
        argument = (ball(mu_squared) / 8).sqrt()
        logarithm = ((1 + argument.erf()) / argument.erfc()).log()
        guess = Fraction(float(logarithm.mid()))
    epsilon = round_down(guess, bits=_SHORT_BITS)
    while pure_mu_squared(epsilon) > mu_squared:
        epsilon = round_down(epsilon * (1 - Fraction(1, 2**_SHORT_BITS)), bits=_SHORT_BITS)
    return epsilon
