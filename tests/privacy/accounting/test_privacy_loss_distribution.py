"""The exact (ε, δ) curve of a plan fixed in advance: direct sums, the library made for it, and the golden budget."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer

from populace.core.errors import UsageError
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Spend,
)
from populace.privacy.accounting.privacy_loss import Currency, epsilon_for, price
from populace.privacy.accounting.privacy_loss_distribution import (
    EPSILON_SLACK,
    calibrate_variances,
    composed_delta,
    composed_epsilon,
    gaussian_variances,
)
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.sampled_cases import sample_cases

CENSUS_RHO = Fraction("2.556")
CENSUS_DELTA = Fraction("1e-10")
# Shares of the levels of the 2020 redistricting product, nation to block, and of some queries.
LEVELS = [Fraction(n, 999) for n in (25, 351, 109, 168, 306, 40)]
QUERIES = [Fraction(n, 100) for n in (2, 5, 10, 3, 10, 10, 10, 10, 10, 10, 20)]


def _pmf(variance: float) -> tuple[np.ndarray, np.ndarray]:
    far = math.ceil(20 * math.sqrt(variance)) + 20
    z = np.arange(-far, far + 1)
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


@pytest.mark.sampled(5)
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


@pytest.mark.parametrize("delta", sample_cases(["1e-6", "1e-3", "1e-10"], to=1))
def test_epsilon_agrees_with_dp_accounting(delta: str) -> None:
    variances = [Fraction(100)] * 3 + [Fraction(4)] * 10 + [Fraction(1, 2)]
    whole = None
    for variance in variances:
        one = peer.from_discrete_gaussian_mechanism(math.sqrt(variance), value_discretization_interval=1e-4)
        whole = one if whole is None else whole.compose(one)
    expected = whole.get_epsilon_for_delta(float(delta))
    assert float(composed_epsilon(variances, delta=Fraction(delta))) == pytest.approx(expected, abs=2e-4)


@pytest.mark.slow
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


CENSUS_SHARES = tuple(level * query for level in LEVELS for query in QUERIES)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_census_budget_is_drawn_when_its_epsilon_is_asked(cells: int) -> None:
    """ε of the continuous curve at ρ = 2.556 gives that ρ back, where the filter draws 2.4."""
    asked = Fraction("16.464")
    variances = calibrate_variances(CENSUS_SHARES, cells=cells, epsilon=asked, delta=CENSUS_DELTA)
    assert variances is not None
    assert float(sum(cells / (2 * v) for v in variances)) == pytest.approx(float(CENSUS_RHO), abs=2e-4)
    needed = composed_epsilon(variances * cells, delta=CENSUS_DELTA)
    assert asked - Fraction(1, 1000) < needed <= asked / (1 + EPSILON_SLACK)
    # In proportion to shares, and short enough for an exact sampler.
    for share, variance in zip(CENSUS_SHARES, variances, strict=True):
        assert float(variance * share) == pytest.approx(float(variances[0] * CENSUS_SHARES[0]), rel=1e-9)
        assert variance.numerator.bit_length() <= 64 >= variance.denominator.bit_length()
    # A thousandth less variance is not enough, and a thousandth more wastes some: so do half and twice as much.
    less, more = (
        [v * factor for v in variances] * cells for factor in (Fraction(999, 1000), Fraction(1001, 1000))
    )
    assert composed_delta(less, epsilon=asked) > CENSUS_DELTA
    assert composed_delta(more, epsilon=asked) < CENSUS_DELTA * Fraction(99, 100)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.05", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-2", "1e-9"])
@pytest.mark.parametrize("cells", [1, 2])
def test_one_calibrated_answer_uses_all_of_delta_by_the_direct_sum(
    epsilon: str, delta: str, cells: int
) -> None:
    """No code of the library in the sum over outcomes; half or twice the variance is far off."""
    (variance,) = (
        calibrate_variances((Fraction(1),), cells=cells, epsilon=Fraction(epsilon), delta=Fraction(delta))
        or ()
    )
    most = float(delta)

    def direct(factor: float) -> float:
        # Losses of cells with the same noise add up to one of the sum of their noises.
        z, p = _pmf(float(variance) * factor)
        sums, masses = (z, p) if cells == 1 else (np.arange(2 * z[0], 2 * z[-1] + 1), np.convolve(p, p))
        losses = (2 * sums + cells) / (2 * float(variance) * factor)
        above = losses > float(epsilon)
        return float((masses[above] * -np.expm1(float(epsilon) - losses[above])).sum())

    assert most * 0.99 < direct(1.0) <= most
    assert direct(0.5) > 1.05 * most
    assert direct(2.0) < 0.95 * most


def test_what_takes_too_long_is_not_calibrated() -> None:
    one = (Fraction(1),)
    assert calibrate_variances(one, cells=1, epsilon=Fraction(200), delta=CENSUS_DELTA) is None
    assert calibrate_variances(one, cells=1, epsilon=Fraction(1), delta=Fraction("1e-50")) is None
    many = tuple(Fraction(2 * n, 300 * 301) for n in range(1, 301))
    assert calibrate_variances(many, cells=1, epsilon=Fraction(1), delta=CENSUS_DELTA) is None


@pytest.mark.parametrize("unit", [PrivacyUnit(), PrivacyUnit(neighbours=Neighbours.REPLACE_ONE)], ids=str)
def test_laplace_noise_of_a_fixed_plan_adds_up_exactly(unit: PrivacyUnit) -> None:
    budget = Budget.of(Fraction(1), Fraction(0), unit=unit)
    noise = budget.plan_noise(CENSUS_SHARES)
    assert all(isinstance(each, DiscreteLaplace) for each in noise)
    total = sum(unit.marginal_l1 / each.scale for each in noise)
    assert 1 - Fraction(1, 10**9) < total <= 1


@pytest.mark.parametrize("delta", ["0", "1e-9"])
@pytest.mark.parametrize("shares", [("1/2",), ("1/2", "1/3"), ("1/2", "2/3"), ()])
def test_a_plan_shares_out_the_whole_budget(delta: str, shares: tuple[str, ...]) -> None:
    budget = Budget.of(Fraction(1), Fraction(delta), unit=PrivacyUnit())
    with pytest.raises(UsageError, match="shares of a plan add up to"):
        budget.plan_noise([Fraction(share) for share in shares])


def test_a_budget_that_is_not_whole_is_calibrated_by_prices() -> None:
    """What is left of a run, and units of several rows, have no distribution to calibrate by."""
    whole = Budget.of(Fraction(8), Fraction("1e-9"), unit=PrivacyUnit())
    priced = whole.measure_noise(Fraction(1), marginals=1)
    assert whole.plan_noise([Fraction(1)])[0].variance < priced.variance
    assert replace(whole, promise=None).plan_noise([Fraction(1)]) == (priced,)
    several = Budget.of(Fraction(8), Fraction("1e-9"), unit=PrivacyUnit(rows=2, id="id"))
    assert several.plan_noise([Fraction(1)]) == (several.measure_noise(Fraction(1), marginals=1),)


@pytest.mark.parametrize(
    ("variance", "cells", "least"), [(1, 400, 290), pytest.param(10**5, 60_000, 3.6, marks=pytest.mark.slow)]
)
def test_sums_that_are_longer_than_the_grid_are_read_where_their_mean_is(variance, cells, least) -> None:
    """Continuous noise with the same Σ1/σ² needs about as much: 294 and 3.7."""
    assert composed_epsilon([Fraction(variance)] * cells, delta=Fraction("1e-6")) >= least
