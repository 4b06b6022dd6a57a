"""Files of claims: what they may say under a schema, and what is refused before anything is spent."""

from __future__ import annotations

from fractions import Fraction

import pytest

from populace.core.errors import PopulaceError, UsageError
from populace.schema.schema import Schema
from populace.survey.claims.claims import Claim, Claims, refuse_unbounded
from tests.helpers.small_claims import CLAIMS, SCHEMA


def test_a_file_is_read_and_its_claims_survive_json() -> None:
    claims = Claims.parse(CLAIMS, schema=SCHEMA)
    assert len(claims) == 8
    assert sum(claims.shares) == 1
    assert claims.shares[5] == Fraction(2, 9)
    assert [Claim.from_json(claim.to_json(), schema=SCHEMA) for claim in claims] == list(claims)
    assert [claim.words for claim in claims][2:4] == [
        "mean(income | sex == 'f') within 20 % of the release's",
        "count(age >= 65) within 300 of the release's",
    ]


WRONG = {
    "": "no claims",
    "[[claims]]": "there is no claim",
    "[[claims]]\nclaim = 'count()'": "is an estimate",
    "[[claims]]\nclaim = 'count() > 3'\nwithin = 3": "do not go with",
    "[[claims]]\nclaim = 'count() > 3'\nvalue = 3": "do not go with",
    "[[claims]]\nclaim = 'count()'\nwithin = '-5 %'": "within is",
    "[[claims]]\nclaim = 'count()'\nwithin = 'near'": "within is",
    "[[claims]]\nclaim = '3'\nwithin = 3": "is a number",
    "[[claims]]\nclaim = 'count() > 3'\nweight = 0": "weight is",
    "[[claims]]\nclaim = 'count() > 3'\nsize = 0": "unknown key",
    "[[claims]]\nclaim = 'count() > 3'\n[[claims]]\nclaim = 'count() > 3'": "two claims",
    "[[claims]]\nclaim = 'mean(work) > 3'": "no numbers",
    "[[claims]]\nclaim = 'mean(income | age > 99) > 3'": "no row can meet",
    "[[claims]]\nclaim = \"largest(work) == 'retired'\"": "not a value",
    "[claims]\nclaim = 'count() > 3'": "claims",
    "claims = 3 4": "not valid TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_fit_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(PopulaceError, match=WRONG[text]) as refusal:
        Claims.parse(text, schema=SCHEMA)
    assert refusal.value.hint


@pytest.mark.parametrize("statistic", ["median", "min", "max"])
def test_statistics_without_a_bounded_sensitivity_are_refused(statistic: str) -> None:
    claims = Claims.parse(f"[[claims]]\nclaim = '{statistic}(income) < 300'", schema=SCHEMA)
    with pytest.raises(UsageError, match="no bounded sensitivity") as refusal:
        refuse_unbounded(claims)
    assert "share(" in refusal.value.hint or "mean" in refusal.value.hint


def test_numbers_need_public_ends() -> None:
    schema = Schema.parse("[columns.pay]\nkind = 'numeric'\nbins = 'learn'\nmin = 0\nmax = 9")
    with pytest.raises(PopulaceError) as refusal:
        Claims.parse("[[claims]]\nclaim = 'mean(pay) < 3'", schema=schema)
    assert "min and max" in refusal.value.hint
