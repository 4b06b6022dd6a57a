"""The exact (ε, δ) curve of a plan fixed in advance: direct sums, the library made for it, and the golden budget."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer

from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Spend,
)
from populace.privacy.accounting.privacy_loss import Currency, epsilon_for, price
from populace.privacy.accounting.privacy_loss_distribution import (
    composed_delta,
    composed_epsilon,
    gaussian_variances,
)

CENSUS_RHO = Fraction("2.556")
CENSUS_DELTA = Fraction("1e-10")
# Shares of the levels of the 2020 redistricting product, nation to block, and of some queries.
LEVELS = [Fraction(n, 999) for n in (25, 351, 109, 168, 306, 40)]
QUERIES = [Fraction(n, 100) for n in (2, 5, 10, 3, 10, 10, 10, 10, 10, 10, 20)]


def _pmf(variance: float) -> tuple[np.ndarray, np.ndarray]:
    z = np.arange(-60 * math.ceil(math.sqrt(variance)), 60 * math.ceil(math.sqrt(variance)) + 1)
    weights = np.exp(-(z**2) / (2 * variance))
    return z, weights / weights.sum()


def _direct_delta(variances: list[float], epsilon: float) -> float:
    """Sum over all outcomes of one or two answers."""
    losses, masses = np.zeros(1), np.ones(1)
    for variance in variances:
        z, p = _pmf(variance)
        losses = (losses[:, None] + (2 * z + 1) / (2 * variance)).ravel()
        masses = (masses[:, None] * p).ravel()
    above = losses > epsilon
    return float((masses[above] * -np.expm1(epsilon - losses[above])).sum())


@pytest.mark.parametrize("variances", [[1.0], [0.25], [9.0], [1.0, 4.0], [0.5, 0.5]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_delta_is_the_direct_sum_over_outcomes(variances: list[float], epsilon: float) -> None:
    found = composed_delta([Fraction(v) for v in variances], epsilon=Fraction(epsilon))
    exact = _direct_delta(variances, epsilon)
    assert exact <= found <= exact * (1 + 1e-5)


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(2)])
def test_half_or_twice_the_variance_has_another_delta(factor: Fraction) -> None:
    exact = _direct_delta([1.0, 4.0], 1.0)
    found = composed_delta([factor, 4 * factor], epsilon=Fraction(1))
    assert not exact <= found <= exact * (1 + 1e-5)


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-10"])
def test_epsilon_agrees_with_dp_accounting(delta: str) -> None:
    variances = [Fraction(100)] * 3 + [Fraction(4)] * 10 + [Fraction(1, 2)]
    whole = None
    for variance in variances:
        one = peer.from_discrete_gaussian_mechanism(math.sqrt(variance), value_discretization_interval=1e-4)
        whole = one if whole is None else whole.compose(one)
    expected = whole.get_epsilon_for_delta(float(delta))
    assert float(composed_epsilon(variances, delta=Fraction(delta))) == pytest.approx(expected, abs=2e-4)


def test_the_census_budget_costs_no_more_than_its_continuous_curve() -> None:
    """The continuous curve gives 16.464, a filter of Gaussian DP a little more; the distribution is never above it."""
    variances = [1 / (2 * CENSUS_RHO * level * query) for level in LEVELS for query in QUERIES]
    spends = [
        Spend(verb="measure", what="x", mechanism=DiscreteGaussian(v), answers=1, l1=1, l2_squared=1)
        for v in variances
    ]
    continuous = epsilon_for(2 * CENSUS_RHO, currency=Currency.GDP, delta=CENSUS_DELTA)
    filtered = epsilon_for(
        sum((price(s, currency=Currency.GDP) for s in spends), Fraction(0)),
        currency=Currency.GDP,
        delta=CENSUS_DELTA,
    )
    found = composed_epsilon(gaussian_variances(spends) or (), delta=CENSUS_DELTA)
    assert float(continuous) == pytest.approx(16.464, abs=1e-3)
    assert continuous - Fraction(1, 1000) < found <= filtered
    assert composed_delta(variances, epsilon=found) <= CENSUS_DELTA
    assert composed_delta(variances, epsilon=found - Fraction(1, 1000)) > CENSUS_DELTA


def test_only_counts_with_plain_gaussian_noise_have_this_distribution() -> None:
    gaussian = DiscreteGaussian(Fraction(4))

    def spend(mechanism: object, **given: object) -> Spend:
        fields = {"verb": "measure", "what": "x", "answers": 1, "l1": 1, "l2_squared": 1} | given
        return Spend(mechanism=mechanism, **fields)  # type: ignore[arg-type]

    assert gaussian_variances([spend(gaussian, answers=3)]) == (4, 4, 4)
    assert gaussian_variances([spend(gaussian, l1=2, l2_squared=2)]) == (4, 4)
    for other in (
        spend(DiscreteLaplace(Fraction(4))),
        spend(EpsilonDeltaGaussian(Fraction(4), Fraction("1e-9"))),
        spend(gaussian, l1=2, l2_squared=4),
        spend(gaussian, l1=3, l2_squared=3),
        spend(gaussian, verb="score"),
        spend(DiscreteGaussian(Fraction(1, 2000))),
    ):
        assert gaussian_variances([spend(gaussian), other]) is None
    assert gaussian_variances([]) is None
