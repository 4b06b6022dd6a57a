"""Shares of a budget as noise of sums and of smooth answers: never dearer than the share, and not much cheaper."""

from __future__ import annotations

from fractions import Fraction

import pytest

from populace.core.errors import UsageError
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.fixed_point import LOG_STEPS, STEPS
from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.accounting.privacy_loss import Currency
from populace.privacy.smooth.smooth_distributions import PolyPlace
from populace.privacy.smooth.smooth_noise import LN_2, calibrate
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.budgets import zcdp_cap

UNITS = [
    PrivacyUnit(),
    PrivacyUnit(rows=3, id="who"),
    PrivacyUnit(rows=2, id="who", neighbours=Neighbours.REPLACE_ONE),
]


def budgets(epsilon="6"):
    for unit in UNITS:
        for delta in ("0", "1e-6"):
            yield Budget.of(Fraction(epsilon), Fraction(delta), unit=unit)
        rho = zcdp_cap(Fraction(epsilon), Fraction("1e-6"))
        yield Budget(currency=Currency.ZCDP, cap=rho, unit=unit)


def taken(budget, *, verb, mechanism, shift, answers=1):
    return budget.share(
        Spend(verb=verb, what="it", mechanism=mechanism, answers=answers, l1=shift, l2_squared=shift**2)
    )


@pytest.mark.parametrize("budget", list(budgets()), ids=lambda b: f"{b.currency.value}-{b.unit.marginal_l1}")
def test_a_share_buys_just_what_it_pays_for(budget):
    share, group = Fraction(1, 3), budget.unit.marginal_l1
    sums = budget.sum_noise(share, sums=5)
    size = budget.bound_noise(share)
    for spent in (
        taken(budget, verb="measure", mechanism=sums, shift=STEPS * group, answers=5),
        taken(budget, verb="score", mechanism=size, shift=LOG_STEPS * group),
    ):
        assert 0.999 * share < spent <= share


@pytest.mark.parametrize(
    "budget", list(budgets("40")), ids=lambda b: f"{b.currency.value}-{b.unit.marginal_l1}"
)
def test_smooth_answers_cost_their_share_for_the_whole_unit(budget):
    share = Fraction(1, 2)
    epsilon = budget.smooth_epsilon(share, answers=2)
    mechanism = calibrate(PolyPlace(Fraction(2)), cost=epsilon, t=(epsilon / 4).limit_denominator(1000))
    spent = taken(budget, verb="smooth", mechanism=mechanism, shift=budget.unit.marginal_l1, answers=2)
    assert 0.99 * share < spent <= share


@pytest.mark.slow
def test_the_smallest_noise_costs_its_share():
    for budget in (Budget.of(Fraction(40), Fraction(delta), unit=UNITS[1]) for delta in ("0", "1e-6")):
        mechanism = budget.smooth_noise(Fraction(1, 2), t=Fraction(1, 6), answers=2)
        spent = taken(budget, verb="smooth", mechanism=mechanism, shift=3, answers=2)
        assert Fraction(99, 200) < spent <= Fraction(1, 2)


def test_too_little_for_a_smooth_answer_is_refused():
    budget = Budget.of(Fraction(1), Fraction(0), unit=UNITS[1])
    assert budget.smooth_epsilon(Fraction(1)) == Fraction(1, 3)
    with pytest.raises(UsageError, match="impute from a model"):
        budget.smooth_noise(Fraction(1), t=LN_2)
