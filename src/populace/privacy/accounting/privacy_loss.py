"""Privacy loss: what a spend costs in each currency, and what a total of it promises.

===========  ================================  ===============================
currency     one number                        the filter that is kept
===========  ================================  ===============================
``gdp``      μ² of Gaussian DP                 Σμ² ≤ cap
``zcdp``     ρ of zero-concentrated DP         Σρ ≤ cap
``pure``     ε of pure DP                      Σε ≤ cap
===========  ================================  ===============================

Prices are rounded up and caps down, with proven bounds. Each filter is valid when every next question is
chosen after seeing all earlier answers. Proof: docs/proofs/filters.md.
"""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from functools import lru_cache

from flint import arb

from populace.core.errors import UsageError
from populace.privacy.accounting.gaussian_dp import (
    discrete_gaussian_mu_squared,
    gaussian_cap,
    gaussian_delta,
    pure_mu_squared,
)
from populace.privacy.accounting.interval_arithmetic import ball, bounds, find_greatest, round_up
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Exponential,
    ExponentialCount,
    PartitionSelection,
    Spend,
)
from populace.privacy.smooth.smooth_noise import SmoothNoise

_EPSILON_BITS = 40


class Currency(Enum):
    """The unit in which the spends of one run are added up."""

    GDP = "gdp"
    ZCDP = "zcdp"
    PURE = "pure"


def price(spend: Spend, *, currency: Currency) -> Fraction:
    """Return what a spend costs, never too little.

    Keys released above a threshold cost what their noise costs; the rest of their price is a part of δ (`key_delta`).
    So is a part of the price of Gaussian noise among pure questions. Proof: docs/proofs/filters.md.
    Proof: docs/proofs/discrete-gaussian-gdp.md, docs/proofs/exponential-gdp.md, docs/proofs/exponential-histogram.md,
    docs/proofs/discover.md, docs/proofs/smooth.md and, for units of several rows, docs/proofs/rows-per-unit.md.

    >>> mechanism = DiscreteGaussian(Fraction(50))
    >>> spend = Spend(verb="measure", what="sex", mechanism=mechanism, answers=1, l1=1, l2_squared=1)
    >>> price(spend, currency=Currency.ZCDP)
    Fraction(1, 100)
    """
    if currency is Currency.GDP:
        return _gdp_price(spend)
    if currency is Currency.ZCDP:
        return _zcdp_price(spend)
    return _pure_price(spend)


def _gdp_price(spend: Spend) -> Fraction:
    """Return Σμ². Shifts by more than one: group privacy in each cell, and squares add over cells."""
    mechanism = spend.mechanism.noise if isinstance(spend.mechanism, PartitionSelection) else spend.mechanism
    if isinstance(mechanism, DiscreteGaussian):
        return spend.answers * spend.l2_squared * discrete_gaussian_mu_squared(mechanism.variance)
    if isinstance(mechanism, Exponential):
        return spend.answers * pure_mu_squared(mechanism.epsilon / 2)
    if isinstance(mechanism, SmoothNoise):
        return spend.answers * pure_mu_squared(_group_epsilon(mechanism, rows=spend.l1))
    # Log-ratios span 2·l1/scale, whether the noise is confined to a range or not.
    return spend.answers * pure_mu_squared(spend.l1 / mechanism.scale)


def _zcdp_price(spend: Spend) -> Fraction:
    """Return Σρ: Δ²/2σ² for Gaussian noise, ε²/2 for a pure mechanism, ε²/8 for an exponential choice.

    Sources: Canonne, Kamath and Steinke 2020; Bun and Steinke 2016; Cesar and Rogers 2021.
    """
    mechanism = spend.mechanism.noise if isinstance(spend.mechanism, PartitionSelection) else spend.mechanism
    if isinstance(mechanism, DiscreteGaussian):
        return spend.answers * spend.l2_squared / (2 * mechanism.variance)
    if isinstance(mechanism, Exponential):
        return spend.answers * mechanism.epsilon**2 / 8
    if isinstance(mechanism, SmoothNoise):
        # ρ of a group grows with its square; a pure ε is ε²/2.
        rho = (
            mechanism.price * spend.l1**2
            if not mechanism.pure
            else _group_epsilon(mechanism, rows=spend.l1) ** 2 / 2
        )
        return spend.answers * rho
    return spend.answers * (spend.l1 / mechanism.scale) ** 2 / 2


def _pure_price(spend: Spend) -> Fraction:
    mechanism = spend.mechanism.noise if isinstance(spend.mechanism, PartitionSelection) else spend.mechanism
    if isinstance(mechanism, EpsilonDeltaGaussian):
        return epsilon_for(_gdp_price(spend), currency=Currency.GDP, delta=mechanism.delta)
    if isinstance(mechanism, DiscreteGaussian):
        raise UsageError(
            "Gaussian noise has no price in pure differential privacy.",
            hint="give a delta above 0, or use Laplace noise",
        )
    if isinstance(mechanism, DiscreteLaplace):
        return spend.answers * spend.l1 / mechanism.scale
    if isinstance(mechanism, ExponentialCount):
        # Twice the price of the same noise without a range: where the range cuts it depends on the count.
        return spend.answers * 2 * spend.l1 / mechanism.scale
    if isinstance(mechanism, SmoothNoise):
        return spend.answers * _group_epsilon(mechanism, rows=spend.l1)
    return spend.answers * mechanism.epsilon


def _group_epsilon(mechanism: SmoothNoise, *, rows: int) -> Fraction:
    """Return the ε of one answer for tables that differ by some rows: each is a step from a table to a neighbour."""
    if not mechanism.pure:
        raise UsageError(
            f"{mechanism} has a price in zCDP alone.",
            hint="use Cauchy, Student or PolyPlace noise",
        )
    return rows * mechanism.price


def cap(epsilon: Fraction, delta: Fraction) -> tuple[Currency, Fraction]:
    """Return the currency of a run with this guarantee, and the most it may spend, rounded down.

    >>> cap(Fraction(1), Fraction(0))
    (<Currency.PURE: 'pure'>, Fraction(1, 1))
    >>> currency, most = cap(Fraction(1), Fraction("1e-9"))
    >>> currency.value, round(float(most) / 2, 4)
    ('gdp', 0.0166)
    """
    if delta == 0:
        return Currency.PURE, epsilon
    return Currency.GDP, gaussian_cap(epsilon, delta)


def gdp_delta(mu_squared: Fraction, *, epsilon: Fraction) -> Fraction:
    """Return the δ at which a total of μ² implies (ε, δ)-DP, rounded up.

    The exact Gaussian curve, Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ). Source: Balle and Wang 2018, Theorem 8.
    """
    return gaussian_delta(mu_squared, epsilon=epsilon) if mu_squared else Fraction(0)


def zcdp_delta(rho: Fraction, *, epsilon: Fraction) -> Fraction:
    """Return the δ at which ρ-zCDP implies (ε, δ)-DP, rounded up.

    The least over α > 1 of exp((α−1)(αρ−ε))·(1 − 1/α)^α/(α − 1). Any α gives a valid bound, so the best one
    may be found in floating point. Source: Canonne, Kamath and Steinke 2020, section 2.3.
    """
    if not rho:
        return Fraction(0)
    order = _best_order(float(rho), float(epsilon))

    def bound() -> arb:
        alpha, above_one = ball(1 + order), ball(order)
        exponent = above_one * (alpha * ball(rho) - ball(epsilon)) + alpha * (above_one / alpha).log()
        return exponent.exp() / above_one

    return min(Fraction(1), round_up(bounds(bound)[1]))


def _best_order(rho: float, epsilon: float) -> Fraction:
    """Return α − 1 near the minimum: the derivative (2α−1)ρ − ε + ln(1 − 1/α) grows with α."""
    low, high = 1e-12, max(4.0, 2 * epsilon / rho)
    for _ in range(200):
        middle = math.sqrt(low * high)
        if (2 * middle + 1) * rho - epsilon - math.log1p(1 / middle) < 0:
            low = middle
        else:
            high = middle
    return Fraction(low)


@lru_cache(maxsize=1024)
def epsilon_for(total: Fraction, *, currency: Currency, delta: Fraction) -> Fraction:
    """Return the least ε for which a total implies (ε, δ)-DP, rounded up.

    >>> most = cap(Fraction(1), Fraction("1e-9"))[1]
    >>> round(float(epsilon_for(most, currency=Currency.GDP, delta=Fraction("1e-9"))), 6)
    1.0
    """
    if currency is Currency.PURE or total == 0:
        return total
    if delta <= 0:
        raise UsageError(
            f"a {currency.value} total has no finite epsilon at delta 0.",
            hint="ask with the delta of the run",
        )
    curve = gdp_delta if currency is Currency.GDP else zcdp_delta
    if curve(total, epsilon=Fraction(0)) <= delta:
        return Fraction(0)
    too_small = find_greatest(
        lambda epsilon: curve(total, epsilon=epsilon) > delta, start=total, bits=_EPSILON_BITS
    )
    return round_up(too_small * (1 + Fraction(1, 2**_EPSILON_BITS)), bits=_EPSILON_BITS)


def is_covered(used: Fraction, *, currency: Currency, epsilon: Fraction, delta: Fraction) -> bool:
    """Say whether a total is covered by (ε, δ): one point of the currency's curve, not a search for the cap.

    >>> is_covered(Fraction(1), currency=Currency.PURE, epsilon=Fraction(1), delta=Fraction(0))
    True
    >>> is_covered(Fraction(1), currency=Currency.GDP, epsilon=Fraction(1), delta=Fraction(0))
    False
    """
    if used == 0:
        return True
    if used < 0 or epsilon <= 0 or delta < 0:
        return False
    if currency is Currency.PURE:
        return delta == 0 and used <= epsilon
    # ZCDP is a currency for comparisons; no run is booked in it.
    return currency is Currency.GDP and delta > 0 and gdp_delta(used, epsilon=epsilon) <= delta
