"""A spend is booked for as far as one unit can move its answers, whatever is asked."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from populace.core.errors import LedgerError
from populace.core.marginals import Marginal
from populace.privacy.accounting.fixed_point import LOG_STEPS, SCORE_STEPS, STEPS
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    PartitionSelection,
    Spend,
)
from populace.privacy.accounting.partition_selection import delta_price
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.accounting.spend_record import SpendRecord
from populace.private.question_checks import describe
from populace.schema.unit import Neighbours
from populace.survey.sums import Sum, SumFactor
from tests.helpers.privacy_units import make_unit

WIDE = DiscreteGaussian(Fraction(400))
# What is asked, under which law, and how far r rows move it: in L1, and in squared L2.
QUESTIONS = {
    "measure": ("measure", WIDE, False),
    "score": ("score", WIDE, True),
    "choose": ("choose", Exponential(Fraction(1, 10)), True),
    "values": ("discover", PartitionSelection(DiscreteGaussian(Fraction(400)), 200), False),
    "bins": ("discover", WIDE, False),
}


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("verb", "mechanism", "score"), QUESTIONS.values(), ids=QUESTIONS)
def test_less_than_a_unit_can_move_is_refused(verb, mechanism, score, neighbours, rows):
    unit = make_unit(neighbours, name="person", rows=rows, id="p")
    rows = unit.rows
    twice = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    l1 = twice * rows
    l2_squared = l1**2 if score else twice * rows**2

    def check(spend: Spend) -> None:
        SpendRecord(
            spend=spend, price=price(spend, currency=Currency.GDP), delta=delta_price(mechanism, unit=unit)
        ).check(unit=unit, currency=Currency.GDP, run="r")

    right = Spend(verb=verb, what="x", mechanism=mechanism, answers=1, l1=l1, l2_squared=l2_squared)
    check(right)
    if l2_squared > 1:
        with pytest.raises(LedgerError, match="for less than one person can move"):
            check(replace(right, l2_squared=l2_squared - 1))
    if (l1 - 1) ** 2 >= l2_squared:
        with pytest.raises(LedgerError, match="for less than one person can move"):
            check(replace(right, l1=l1 - 1))


INCOME = Sum(factors=(SumFactor(column="INC", low=Fraction(0), high=Fraction(9)),), where='NAME == "a\nb"')
STEPPED = {
    "a sum": ("measure", describe([INCOME], many="sums"), DiscreteLaplace(Fraction(9)), STEPS),
    "sums": ("measure", describe([INCOME, INCOME], many="sums"), WIDE, STEPS),
    "the size of a bound": (
        "score",
        f"size of the bound on {INCOME}",
        DiscreteLaplace(Fraction(9)),
        LOG_STEPS,
    ),
    "a choice of bins": ("choose", "1 of 12 sets of bins", Exponential(Fraction(1)), SCORE_STEPS),
}


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("verb", "what", "mechanism", "steps"), STEPPED.values(), ids=STEPPED)
def test_what_is_told_in_steps_is_booked_in_steps(verb, what, mechanism, steps, neighbours):
    """A sum booked as if it were a count would cost a 16-millionth of what it tells."""
    unit = make_unit(neighbours, name="person", rows=2, id="p")
    full = steps * unit.marginal_l1
    for l1, l2_squared in ((full, full**2), (unit.marginal_l1, unit.marginal_l1**2), (full, full**2 - 1)):
        spend = Spend(verb=verb, what=what, mechanism=mechanism, answers=1, l1=l1, l2_squared=l2_squared)
        record = SpendRecord(spend=spend, price=price(spend, currency=Currency.GDP))
        assert SpendRecord.from_event(record.to_json()) == record
        if (l1, l2_squared) == (full, full**2):
            record.check(unit=unit, currency=Currency.GDP, run="r")
        else:
            with pytest.raises(LedgerError, match="for less than one person can move"):
                record.check(unit=unit, currency=Currency.GDP, run="r")


@pytest.mark.parametrize("name", ["sum of INC", "3 sums"])
def test_a_column_is_never_taken_for_a_sum(name):
    what = describe([Marginal((name,))])
    assert Spend(verb="measure", what=what, mechanism=WIDE, answers=1, l1=1, l2_squared=1).steps == 1
