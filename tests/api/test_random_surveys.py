"""Random surveys, tiny samples among them: every number that is told is a number, and every folder verifies."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, sqrt

import numpy as np
import pyarrow as pa
import pytest

from populace.api.estimate import estimate
from populace.privacy.accounting.budget import MAX_EPSILON, Budget
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from populace.survey import answer_queries as survey_estimate
from populace.survey.calibration.calibrated_counts import SMOOTHNESS_GRID
from populace.survey.design.design import Design
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Queries
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance, half_width
from tests.helpers.random_surveys import SIZES, Survey, check_numbers, draw_survey, run_survey

# One for each kind of design, sizes from 0 to 50, with and without δ, and one that chooses among sets of bins.
SOME = (1, 7, 16, 17, 23, 60, 64, 66, 123)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SOME)
def test_a_random_survey_is_told_saved_and_verified(seed, tmp_path):
    run_survey(draw_survey(seed), folder=tmp_path, seed=seed, report=False)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_many_random_surveys_are_told_saved_and_verified(first, tmp_path):
    found = [
        run_survey(draw_survey(seed), folder=tmp_path, seed=seed, report=seed % 4 == 0)
        for seed in range(first + 100, first + 120)
    ]
    assert sum(each is not None for each in found) > 10


def test_random_surveys_are_of_all_sizes_and_kinds():
    found = [draw_survey(seed) for seed in range(300)]
    assert {len(each.rows["age"]) for each in found} == set(SIZES)
    for word in (
        "replicates",
        "psu =",
        "fpc",
        "base",
        "[[totals]]",
        "impute",
        '"model"',
        "max_design_effect",
    ):
        assert sum(word in each.design for each in found) > 3, word
    for word in ("quantile", "correlation", "ratio", "by =", "where"):
        assert sum(word in each.queries for each in found) > 10, word


TINY = """
[design]
weights = "weight"
strata = "stratum"
"""
TOTAL = """
[[query]]
name = "rents"
statistic = "total"
column = "rent"
where = "rent < 0"

[[query]]
name = "children"
statistic = "count"
where = "age < 18"
by = ["area"]
"""


@pytest.mark.parametrize("rows", [0, 2])
def test_totals_and_counts_of_hardly_any_rows_have_an_interval(rows, tmp_path):
    """Squares less the square of a noisy mean may lie far below 0, and so does their bias."""
    held = draw_survey(36)
    few = {name: (values * 2)[:rows] for name, values in held.rows.items()}
    told = 0
    for seed in range(4):
        survey = Survey(held.schema, TINY, TOTAL, few, epsilon="8", delta="0")
        found = run_survey(survey, folder=tmp_path, seed=seed, report=False)
        told += sum(row.low is not None for row in found.rows)
    assert told >= 8


@pytest.mark.sampled(5)
@pytest.mark.parametrize("degrees", [1.0, 2.95, 575.9])
@pytest.mark.parametrize("bias", [-1e15, -75_309.0, -1e-9, 0.0, 3.0])
def test_whatever_is_found_of_a_variance_it_is_not_below_nought(bias, degrees):
    """Values from far below the bias to far above, with and without noise."""
    for value in (-5e15, -4.6e6, bias, 0.0, 1.0, 1e12):
        for noise in (NoiseTerms(), NoiseTerms(gaussian=1e12), NoiseTerms(laplace=(1.5e6,))):
            spread = SamplingVariance(value=value, degrees=degrees, bias=bias, noise=noise)
            assert (spread.draws() >= 0).all()
            assert isfinite(sqrt(spread.variance))
            assert isfinite(half_width(spread, noise=NoiseTerms(gaussian=1.0)))


def test_a_variance_that_its_own_bias_makes_is_not_clear():
    """A value of 0 beside a bias of −10 may come of noise alone: the draws tell, not the difference."""
    spread = SamplingVariance(value=0.0, degrees=5.0, bias=-10.0, noise=NoiseTerms(gaussian=1.0))
    assert spread.variance == float(np.median(spread.draws()))


@pytest.mark.parametrize("epsilon", [MAX_EPSILON, pytest.param(Fraction(1000), marks=pytest.mark.slow)])
def test_smooth_noise_is_found_for_every_epsilon(epsilon):
    """Weighted counts choose t as a part of ε: before it was held, laws were searched for where floats end."""
    budget = Budget.of(epsilon, Fraction(0), unit=PrivacyUnit())
    held = budget.smooth_epsilon(Fraction(1))
    assert held < epsilon
    for part in SMOOTHNESS_GRID[-1:] if epsilon == MAX_EPSILON else SMOOTHNESS_GRID:
        noise = budget.smooth_noise(Fraction(1), t=Fraction(round(held * part)))
        assert noise.price <= held
        assert noise.standard_deviation < 1e-6


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_run_that_was_paid_for_is_told_without_numbers_that_no_file_holds(wrong, tmp_path, monkeypatch):
    """Whatever the next fault of an interval is: its row says nothing, and the files are written."""
    monkeypatch.setattr(survey_estimate, "half_width", lambda *_, **__: wrong)
    queries = TOTAL.replace('by = ["area"]', "")
    held = draw_survey(36)
    found = estimate(
        pa.table(held.rows),
        schema=Schema.parse(held.schema),
        design=Design.parse(TINY, schema=Schema.parse(held.schema)),
        queries=Queries.parse(queries, schema=Schema.parse(held.schema)),
        epsilon=8,
        ledger=tmp_path / "ledger.db",
    )
    assert [(row.estimate, row.low, row.high) for row in found.rows] == [(None, None, None)] * 2
    found.save(tmp_path / "out", report=False)


@pytest.mark.parametrize(
    "numbers",
    [
        {"estimate": float("nan")},
        {"estimate": 1.0, "low": float("-inf"), "high": 2.0},
        {"estimate": 3.0, "low": 1.0, "high": 2.0},
        {"estimate": None, "low": 0.0},
        {"estimate": 1.0, "low": 0.0, "high": 2.0, "privacy_error": -1.0},
    ],
    ids=str,
)
def test_numbers_that_are_none_are_seen(numbers):
    with pytest.raises(AssertionError):
        check_numbers(Estimate(query="q", **numbers))
