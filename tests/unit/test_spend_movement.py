"""A spend is booked for as far as one unit can move its answers, whatever is asked."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from populace.errors import LedgerError
from populace.privacy.loss import Currency, price
from populace.privacy.mechanisms import DiscreteGaussian, Exponential, Spend, Stability
from populace.privacy.spends import SpendRecord
from populace.privacy.stability import key_delta
from populace.schema.unit import Neighbours, Unit

WIDE = DiscreteGaussian(Fraction(400))
# What is asked, under which law, and how far r rows move it: in L1, and in squared L2.
QUESTIONS = {
    "measure": ("measure", WIDE, False),
    "score": ("score", WIDE, True),
    "choose": ("choose", Exponential(Fraction(1, 10)), True),
    "values": ("discover", Stability(DiscreteGaussian(Fraction(400)), 200), False),
    "bins": ("discover", WIDE, False),
}


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("verb", "law", "score"), QUESTIONS.values(), ids=QUESTIONS)
def test_less_than_a_unit_can_move_is_refused(verb, law, score, neighbours, rows):
    unit = Unit(name="person", rows=rows, id="p", neighbours=neighbours)
    twice = 2 if neighbours is Neighbours.REPLACE_ONE else 1
    l1 = twice * rows
    l2_squared = l1**2 if score else twice * rows**2

    def check(spend: Spend) -> None:
        SpendRecord(
            spend=spend, price=price(spend, currency=Currency.GDP), delta=key_delta(law, unit=unit)
        ).check(unit=unit, currency=Currency.GDP, run="r")

    right = Spend(verb=verb, what="x", law=law, answers=1, l1=l1, l2_squared=l2_squared)
    check(right)
    if l2_squared > 1:
        with pytest.raises(LedgerError, match="for less than one person can move"):
            check(replace(right, l2_squared=l2_squared - 1))
    if (l1 - 1) ** 2 >= l2_squared:
        with pytest.raises(LedgerError, match="for less than one person can move"):
            check(replace(right, l1=l1 - 1))
