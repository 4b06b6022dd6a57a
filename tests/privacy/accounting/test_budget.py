"""Budgets: how ε and δ are read, and shares that become the least noise they can pay for."""

from __future__ import annotations

import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from populace.core.errors import UsageError
from populace.privacy.accounting.budget import Budget, parse_delta, parse_epsilon
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, Exponential, Spend
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.budgets import measure_share, zcdp_cap

UNITS = [
    PrivacyUnit(),
    PrivacyUnit(name="person", rows=3, id="who"),
    PrivacyUnit(neighbours=Neighbours.REPLACE_ONE),
    PrivacyUnit(name="person", rows=5, id="who", neighbours=Neighbours.REPLACE_ONE),
]


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        ("1", Fraction(1)),
        (" 0.1 ", Fraction(1, 10)),
        ("1e-3", Fraction(1, 1000)),
        ("1/3", Fraction(1, 3)),
        (2, Fraction(2)),
        (0.1, Fraction(1, 10)),
        (1e-9, Fraction(1, 10**9)),
        (Fraction(3, 7), Fraction(3, 7)),
        (Decimal("0.25"), Fraction(1, 4)),
    ],
)
def test_epsilon_is_read_as_it_is_written(value, exact):
    assert parse_epsilon(value) == exact


NOT_NUMBERS = [
    None,
    True,
    False,
    "abc",
    "",
    "nan",
    "inf",
    "1,5",
    "1/0",
    "1//2",
    "0x10",
    [],
    b"1",
    1j,
    "1" * 500,
]
NOT_NUMBERS += [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity")]


@pytest.mark.parametrize(
    "value", [*NOT_NUMBERS, 0, "0", -1, "-0.5", 0.0, "1e-10", "1e7", Fraction(-1, 3)], ids=repr
)
def test_bad_epsilons_are_refused(value):
    with pytest.raises(UsageError, match=r"epsilon .*\nhint: ") as refusal:
        parse_epsilon(value)
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    "value", [*NOT_NUMBERS, 1, "1", -1, "-1e-9", 1.5, "2", "1e-301", Fraction(1)], ids=repr
)
def test_bad_deltas_are_refused(value):
    with pytest.raises(UsageError, match=r"delta .*\nhint: "):
        parse_delta(value)


@pytest.mark.parametrize("value", [0, "0", 0.0, "1e-300", 0.999, "1/1000"])
def test_deltas_from_zero_to_below_one_are_read(value):
    assert 0 <= parse_delta(value) < 1


def test_a_monstrous_exponent_is_refused_at_once():
    begun = time.monotonic()
    for text in ("1e999999999", "1e-999999999", "1/1e999999999"):
        with pytest.raises(UsageError):
            parse_epsilon(text)
        with pytest.raises(UsageError):
            parse_delta(text)
    assert time.monotonic() - begun < 5


def spend(budget, mechanism, answers, *, verb):
    unit = budget.unit
    l1, l2_squared = (
        (unit.marginal_l1, unit.marginal_l2_squared)
        if verb == "measure"
        else (unit.score_shift, unit.score_shift**2)
    )
    return Spend(verb=verb, what="test", mechanism=mechanism, answers=answers, l1=l1, l2_squared=l2_squared)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0.1", "1e-5"), ("1", "1e-9"), ("10", "1e-9"), ("1", "0"), ("1000", "1e-9")]
)
@pytest.mark.parametrize("answers", [1, 14, 5000])
def test_noise_is_the_least_that_a_share_pays_for(unit, epsilon, delta, answers):
    budget = Budget.of(Fraction(epsilon), Fraction(delta), unit=unit)
    share = Fraction(3, 10)
    for verb, noise in (
        ("measure", budget.measure_noise(share, marginals=answers)),
        ("score", budget.score_noise(share, scores=answers)),
    ):
        assert isinstance(noise, DiscreteLaplace if delta == "0" else DiscreteGaussian)
        less = (
            DiscreteGaussian(noise.variance * Fraction(999, 1000))
            if isinstance(noise, DiscreteGaussian)
            else DiscreteLaplace(noise.scale * Fraction(999, 1000))
        )
        cost, too_much = (
            price(spend(budget, mechanism, answers, verb=verb), currency=budget.currency)
            for mechanism in (noise, less)
        )
        assert cost <= share * budget.cap < too_much
        assert budget.share(spend(budget, noise, answers, verb=verb)) <= share
    assert measure_share(budget, budget.measure_noise(share, marginals=answers), marginals=answers) <= share


@pytest.mark.parametrize("unit", UNITS[::3], ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-5"), ("10", "1e-9"), ("1", "0")])
@pytest.mark.parametrize("answers", [1, 13])
def test_choices_are_the_sharpest_that_a_share_pays_for(unit, epsilon, delta, answers):
    budget = Budget.of(Fraction(epsilon), Fraction(delta), unit=unit)
    share = Fraction(1, 10)
    mechanism = budget.choice(share, choices=answers)
    sharper = Exponential(mechanism.epsilon * Fraction(1001, 1000))
    cost, too_much = (
        price(spend(budget, x, answers, verb="choose"), currency=budget.currency)
        for x in (mechanism, sharper)
    )
    assert cost <= share * budget.cap < too_much


def test_zcdp_budgets_work_the_same_way():
    budget = Budget(currency=Currency.ZCDP, cap=zcdp_cap(Fraction(1), Fraction("1e-9")), unit=UNITS[3])
    noise, mechanism = (
        budget.measure_noise(Fraction(1, 3), marginals=7),
        budget.choice(Fraction(1, 3), choices=7),
    )
    for verb, found in (("measure", noise), ("choose", mechanism)):
        assert Fraction(999, 3000) < budget.share(spend(budget, found, 7, verb=verb)) <= Fraction(1, 3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=8), st.sampled_from(["0", "1e-9"]), st.integers(1, 40)
)
def test_shares_of_one_never_exceed_the_cap(weights, delta, answers):
    budget = Budget.of(Fraction(1), Fraction(delta), unit=PrivacyUnit())
    total = Fraction(0)
    for number, weight in enumerate(weights):
        share = Fraction(weight, sum(weights))
        if number % 2:
            total += price(
                spend(budget, budget.choice(share, choices=answers), answers, verb="choose"),
                currency=budget.currency,
            )
        else:
            total += price(
                spend(budget, budget.measure_noise(share, marginals=answers), answers, verb="measure"),
                currency=budget.currency,
            )
    assert Fraction(99999, 100000) * budget.cap < total <= budget.cap


def test_pure_shares_are_exact():
    budget = Budget.of(Fraction(1), Fraction(0), unit=PrivacyUnit())
    assert budget.measure_noise(Fraction(1, 3), marginals=7) == DiscreteLaplace(Fraction(21))
    assert budget.choice(Fraction(1, 10), choices=3) == Exponential(Fraction(1, 30))


@pytest.mark.parametrize("share", [0, -1, Fraction(11, 10), 0.5, None, "1/2"], ids=repr)
def test_bad_shares_are_refused(share):
    budget = Budget.of(Fraction(1), Fraction("1e-9"), unit=PrivacyUnit())
    with pytest.raises(UsageError, match="hint"):
        budget.measure_noise(share, marginals=1)


@pytest.mark.parametrize("answers", [0, -1, 1.0, True, None], ids=repr)
def test_bad_numbers_of_answers_are_refused(answers):
    budget = Budget.of(Fraction(1), Fraction("1e-9"), unit=PrivacyUnit())
    with pytest.raises(UsageError, match="hint"):
        budget.choice(Fraction(1), choices=answers)
