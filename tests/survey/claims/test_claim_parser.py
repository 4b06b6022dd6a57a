"""The language of claims: what is read, what is written again, and where a caret points."""

from __future__ import annotations

import pytest

from populace.core.errors import SchemaError
from populace.survey.claims.claim_parser import parse_claim
from populace.survey.claims.claim_syntax import Combination, Inequality, Rank
from tests.helpers.small_claims import SCHEMA

CANONICAL = {
    "mean(income|sex='f')<mean( income | sex = m )": "mean(income | sex == 'f') < mean(income | sex == 'm')",
    "count() > 10": "count() > 10",
    "count(age>=65)-2*count(age<10)>=5 %": "count(age >= 65) - 2 * count(age < 10) >= 0.05",
    "share(work == 'employed' | age >= 65) < 0.2": "share(work == 'employed' | age >= 65) < 0.2",
    "-mean(age) + 3 > -1e2": "-mean(age) + 3 > -100",
    "correlation(age, income)": "correlation(age, income)",
    "coefficient(income ~ age + (sex == 'm' or work in ['employed', '?']))": (
        "coefficient(income ~ age + (sex == 'm' or work in ['employed', '?']))"
    ),
    "largest(work | age < 30) == 'employed'": "largest(work | age < 30) == 'employed'",
    "smallest(`work`) = 'employed'": "smallest(work) == 'employed'",
    "median(income) < max(income) - min(income)": "median(income) < max(income) - min(income)",
}


@pytest.mark.parametrize("text", CANONICAL)
def test_a_claim_is_written_in_one_form_and_read_again(text: str) -> None:
    found = parse_claim(text, schema=SCHEMA)
    assert str(found) == CANONICAL[text]
    assert str(parse_claim(str(found), schema=SCHEMA)) == str(found)


def test_what_is_above_nought_where_a_claim_holds() -> None:
    below = parse_claim("count(age < 3) < 10", schema=SCHEMA)
    above = parse_claim("10 > count(age < 3)", schema=SCHEMA)
    assert isinstance(below, Inequality)
    assert isinstance(above, Inequality)
    assert below.excess == above.excess
    assert str(below.excess) == "-count(age < 3) + 10"
    assert isinstance(parse_claim("count()", schema=SCHEMA), Combination)
    assert isinstance(parse_claim("largest(work) == '?'", schema=SCHEMA), Rank)


# What is wrong, the place of the caret, and a part of the hint.
WRONG = [
    ("mean(income", 0, "close it"),
    ("mean(incom)", 0, "income"),
    ("avg(income) < 3", 0, "choose one of"),
    ("mean(income) == 3", 13, "within"),
    ("3 < 4", 2, "mean(income"),
    ("mean(income) < 3 < 4", 17, "a claim reads"),
    ("mean(income | age | sex) < 3", 18, "write or"),
    ("share(work) < 0.1", 0, "share(work =="),
    ("mean() < 3", 0, "mean(income)"),
    ("count(age > 3 | sex == 'f') > 2", 0, "one condition|count(age"),
    ("correlation(age) > 0", 0, "correlation(age, income)"),
    ("correlation(age, age) > 0", 0, "once"),
    ("coefficient(income) > 0", 0, "coefficient(income ~ age"),
    ("largest(work) > 3", 14, "employed"),
    ("3 + largest(work) > 3", 4, "stands alone"),
    ("mean(income) < ", 15, "a claim reads"),
    ("mean(income) ? 3", 13, "a claim reads"),
    ("2 * 3 < mean(income)", 4, "a claim reads"),
    ("1e999 < mean(income)", 0, "finite"),
    ("", 0, "a claim reads"),
]


@pytest.mark.parametrize(("text", "place", "hint"), WRONG, ids=[case[0] for case in WRONG])
def test_a_caret_points_at_what_is_wrong(text: str, place: int, hint: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        parse_claim(text, schema=SCHEMA, place="[[claims]] 3: ")
    message = refusal.value.message
    assert message.startswith("[[claims]] 3: ")
    assert message.splitlines()[-1].index("^") - 2 == place
    assert any(part in refusal.value.hint for part in hint.split("|"))


@pytest.mark.parametrize(
    "text", ["mean(income | age >) < 3", "mean(income | sex == f g) < 3", "count(age & 3) > 2"]
)
def test_errors_in_a_condition_show_the_condition(text: str) -> None:
    with pytest.raises(SchemaError, match=r"\^"):
        parse_claim(text, schema=SCHEMA)


def test_a_claim_has_a_length_that_somebody_may_write() -> None:
    with pytest.raises(SchemaError, match="characters"):
        parse_claim("1 + " * 40_000 + "count() > 3", schema=SCHEMA)
