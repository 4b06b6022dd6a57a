"""Privacy loss: what a spend costs in each currency, and what a total of it promises.

===========  ================================  ===============================
currency     one number                        the filter that is kept
===========  ================================  ===============================
``gdp``      μ² of Gaussian DP                 Σμ² ≤ cap
``pure``     ε of pure DP                      Σε ≤ cap
===========  ================================  ===============================

Prices are rounded up and caps down, with proven bounds. Each filter is valid when every next question is
chosen after seeing all earlier answers. Proof: docs/proofs/filters.md.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from populace.core.errors import UsageError
from populace.privacy.accounting.gaussian_dp import (
    discrete_gaussian_mu_squared,
    gaussian_cap,
    gaussian_epsilon,
    pure_mu_squared,
)
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


class Currency(Enum):
    """The unit in which the spends of one run are added up."""

    GDP = "gdp"
    PURE = "pure"


def price(spend: Spend, *, currency: Currency) -> Fraction:
    """Return what a spend costs, never too little.

    Keys told above a threshold cost what their noise costs; the rest of their price is a part of δ (`key_delta`).
    So is a part of the price of Gaussian noise among pure questions. Proof: docs/proofs/filters.md.
    Proof: docs/proofs/discrete-gaussian-gdp.md, docs/proofs/exponential-gdp.md, docs/proofs/exponential-histogram.md,
    docs/proofs/discover.md, docs/proofs/smooth.md and, for units of several rows, docs/proofs/rows-per-unit.md.

    >>> mechanism = DiscreteGaussian(Fraction(50))
    >>> spend = Spend(verb="measure", what="sex", mechanism=mechanism, answers=1, l1=1, l2_squared=1)
    >>> round(float(price(spend, currency=Currency.GDP)), 4)
    0.02
    """
    return _gdp_price(spend) if currency is Currency.GDP else _pure_price(spend)


def _gdp_price(spend: Spend) -> Fraction:
    """Return Σμ². Shifts by more than one: group privacy in each cell, and squares add over cells."""
    mechanism = spend.mechanism.noise if isinstance(spend.mechanism, PartitionSelection) else spend.mechanism
    if isinstance(mechanism, DiscreteGaussian):
        return spend.answers * spend.l2_squared * discrete_gaussian_mu_squared(mechanism.variance)
    if isinstance(mechanism, Exponential):
        return spend.answers * pure_mu_squared(mechanism.epsilon / 2)
    if isinstance(mechanism, SmoothNoise):
        # Each of l1 rows is a step from a table to a neighbour.
        return spend.answers * pure_mu_squared(spend.l1 * mechanism.price)
    # Log-ratios span 2·l1/scale, whether the noise is confined to a range or not.
    return spend.answers * pure_mu_squared(spend.l1 / mechanism.scale)


def _pure_price(spend: Spend) -> Fraction:
    mechanism = spend.mechanism.noise if isinstance(spend.mechanism, PartitionSelection) else spend.mechanism
    if isinstance(mechanism, EpsilonDeltaGaussian):
        return gaussian_epsilon(_gdp_price(spend), delta=mechanism.delta)
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
        return spend.answers * spend.l1 * mechanism.price
    return spend.answers * mechanism.epsilon


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
