"""Claims that the ranges of the schema decide: refused, and only those."""

from __future__ import annotations

import pytest

from populace.core.errors import UsageError
from populace.survey.claims.claim_bounds import refuse_decided
from populace.survey.claims.claims import Claims
from tests.helpers.small_claims import CLAIMS, SCHEMA

# Incomes are 0 to 1000 and ages 0 to 99 by the schema.
DECIDED = {
    "claim = 'share(age >= 65) < 40'": "share(age >= 65) lies between 0 and 1",
    "claim = 'mean(income) > 9000'": "mean(income) lies between 0 and 1000 by the schema: the claim needs no data",
    "claim = 'mean(income) > 1000'": "lies between 0 and 1000",
    "claim = 'mean(income) >= 0'": "lies between 0 and 1000",
    "claim = '9000 > 2 * mean(income)'": "mean(income) lies between 0 and 1000",
    "claim = 'mean(income) - mean(age) < 1001'": "lies between 1 and 1100",
    "claim = 'correlation(age, income) < 2'": "lies between -1 and 1",
    "claim = 'count() >= 0'": "is at least 0",
    "claim = 'total(income) < 0'": "is at least 0",
    "claim = 'share(age >= 65)'\nwithin = 1": "lies between 0 and 1",
    "claim = 'share(age >= 65)'\nwithin = '5 %'\nvalue = 40": "lies between 0 and 1",
    "claim = 'mean(income)'\nwithin = 600\nvalue = 500": "lies between 0 and 1000",
}
OPEN = (
    "claim = 'share(age >= 65) < 0.4'",
    "claim = 'mean(income) > 0'",
    "claim = 'mean(income) >= 1000'",
    "claim = 'mean(income) - mean(age) < 999'",
    "claim = 'count() > 0'",
    "claim = 'count() - count(age > 3) > 1'",
    "claim = 'coefficient(income ~ age) > -1e9'",
    "claim = 'share(age >= 65)'\nwithin = 0.99",
    "claim = 'share(age >= 65)'\nwithin = 1\nvalue = 1.9",
    "claim = 'mean(income)'\nwithin = 400\nvalue = 500",
)


@pytest.mark.parametrize("text", DECIDED)
def test_a_claim_that_every_table_decides_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        refuse_decided(Claims.parse(f"[[claims]]\n{text}", schema=SCHEMA))
    assert DECIDED[text] in refusal.value.message
    assert refusal.value.hint


@pytest.mark.parametrize("text", OPEN)
def test_a_claim_that_rows_decide_is_asked(text: str) -> None:
    refuse_decided(Claims.parse(f"[[claims]]\n{text}", schema=SCHEMA))


def test_all_kinds_of_claims_are_asked() -> None:
    refuse_decided(Claims.parse(CLAIMS, schema=SCHEMA))


def test_a_percentage_is_read_as_one_in_the_hint() -> None:
    with pytest.raises(UsageError) as refusal:
        refuse_decided(Claims.parse("[[claims]]\nclaim = 'share(age >= 65) < 40'", schema=SCHEMA))
    assert refusal.value.hint == "a share lies between 0 and 1; did you mean 0.4 (40 %)?"
