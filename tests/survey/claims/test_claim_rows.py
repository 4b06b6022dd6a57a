"""Claims decided on rows, against arithmetic by hand and by NumPy."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from populace.survey.claims.claim_parser import parse_claim
from populace.survey.claims.claim_rows import ClaimRows, Moments, decide, decide_claim, evaluate_combination
from populace.survey.claims.claim_syntax import Combination
from populace.survey.claims.claims import Claims
from tests.helpers.small_claims import SCHEMA, make_rows

TABLE = pa.table(
    {
        "sex": ["f", "f", "m", "m", "m"],
        "age": [20, 40, 30, 70, 99],
        "work": ["employed", "?", "employed", "inactive", "inactive"],
        "income": ["100", "refused", "300", "500", "1200"],
    }
)
ROWS = ClaimRows.of(TABLE, schema=SCHEMA, people=2.0)


def value(text: str, rows: ClaimRows = ROWS) -> float:
    says = parse_claim(text, schema=SCHEMA)
    assert isinstance(says, Combination)
    return evaluate_combination(says, rows)


BY_HAND = {
    "count()": 10,
    "count(age >= 65)": 4,
    "mean(income)": (100 + 300 + 500 + 1000) / 4,  # 1200 is held to the range
    "mean(income | sex == 'm') - mean(income | sex == 'f')": 600 - 100,
    "total(income | age < 50)": 2 * 400,
    "share(work == 'employed')": 2 / 4,  # without an answer a row does not count
    "share(work is missing)": 1 / 5,
    "median(income)": 400,
    "min(age)": 20,
    "max(income)": 1000,
    "coefficient(income ~ age | sex == 'm')": np.polyfit([30, 70, 99], [300, 500, 1000], 1)[0],
    "correlation(age, income | sex == 'm')": np.corrcoef([30, 70, 99], [300, 500, 1000])[0, 1],
}


@pytest.mark.parametrize("text", BY_HAND)
def test_statistics_are_those_of_a_hand_calculation(text: str) -> None:
    assert value(text) == pytest.approx(BY_HAND[text], rel=1e-12)


def test_a_coefficient_is_that_of_least_squares() -> None:
    table = make_rows(400)
    rows = ClaimRows.of(table, schema=SCHEMA)
    pay, age = rows.numbers["income"], rows.numbers["age"]
    known = ~np.isnan(pay)
    design = np.column_stack([np.ones(400), age, rows.codes["sex"] == 1])[known]
    expected = np.linalg.lstsq(design, pay[known], rcond=None)[0]
    assert value("coefficient(income ~ age + (sex == 'm'))", rows) == pytest.approx(expected[1])
    assert value("coefficient(income ~ (sex == 'm') + age)", rows) == pytest.approx(expected[2])


def test_what_has_no_rows_has_no_value() -> None:
    nobody = ClaimRows.of(TABLE.slice(0, 0), schema=SCHEMA)
    assert math.isnan(value("mean(income)", nobody))
    assert math.isnan(value("median(income)", nobody))
    assert value("count() + total(income)", nobody) == 0
    for text in ("mean(age) < 3", "largest(work) == 'employed'"):
        assert decide(parse_claim(text, schema=SCHEMA), nobody) is None
    assert math.isnan(value("correlation(age, income | sex == 'f')")), "one row has no spread"


def test_claims_hold_or_do_not() -> None:
    holds = {
        "mean(income | sex == 'f') < mean(income | sex == 'm')": True,
        "count() >= 10": True,
        "count() > 10": False,
        "largest(work | age < 50) == 'employed'": True,
        "largest(work) == 'employed'": False,  # as frequent as another
        "smallest(work) == 'unemployed'": True,
    }
    assert {text: decide(parse_claim(text, schema=SCHEMA), ROWS) for text in holds} == holds


@pytest.mark.parametrize(
    ("within", "given", "expected"), [("'10 %'", 440, True), (30, 440, False), ("'8 %'", 440, True)]
)
def test_an_estimate_is_close_or_not(within: str, given: float, expected: bool) -> None:
    text = f"[[claims]]\nclaim = 'mean(income)'\nwithin = {within}\nvalue = {given}"
    (claim,) = Claims.parse(text, schema=SCHEMA)
    assert decide_claim(claim, ROWS) is expected
    (claim,) = Claims.parse(text.rpartition("\n")[0], schema=SCHEMA)
    assert decide_claim(claim, ROWS, estimate=given) is expected
    assert decide_claim(claim, ROWS) is None


def test_moments_come_back_from_their_totals() -> None:
    products = [(0, 0), (0, 1), (1, 1)]
    first = Moments(count=7.0, means=(3.0, -1.0), covariance=((4.0, 1.5), (1.5, 2.0)))
    totals = first.totals(centres=(2.5, 9.0), products=products)
    again = Moments.from_totals(totals, centres=(2.5, 9.0), products=products)
    assert np.allclose(again.covariance, first.covariance)
    assert np.allclose(again.means, first.means)
    assert Moments.from_json(first.to_json()) == first
