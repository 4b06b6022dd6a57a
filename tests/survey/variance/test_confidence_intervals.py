"""Intervals from noisy spreads between units: as often right as they say, whatever the noise hides."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from populace.core.errors import SchemaError
from populace.survey.design.design import Design
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance, half_width
from tests.helpers.survey_oracle import FakeSurvey, answer_directly, plan_queries
from tests.survey.test_answer_queries import SCHEMA, TABLE, asked

MEDIAN = '[[query]]\nstatistic = "quantile"\ncolumn = "income"\np = [0.25, 0.5]\nby = ["sex"]'


def held(*, degrees: float, bias: float, noise: float, points: int, stretch: float = 1.0) -> float:
    """How often the interval holds the truth where the variance is 1, by integration over what may be found."""
    parts = (np.arange(points) + 0.5) / points
    values = (1 + bias) * special.gammaincinv(degrees / 2, parts) * 2 / degrees
    reaches = [
        half_width(
            SamplingVariance(value=float(value), degrees=degrees, bias=bias, bias_degrees=degrees),
            noise=NoiseTerms(gaussian=noise),
        )
        for value in values
    ]
    return float((2 * special.ndtr(stretch * np.array(reaches) / np.sqrt(1 + noise)) - 1).mean())


@pytest.mark.parametrize("degrees", [4.0, 10.0])
def test_almost_without_noise_it_is_students_t(degrees: float) -> None:
    spread = SamplingVariance(value=1.0 + 1e-6, degrees=degrees, bias=1e-6, bias_degrees=degrees)
    assert half_width(spread, noise=NoiseTerms()) == pytest.approx(special.stdtrit(degrees, 0.975), rel=3e-3)


@pytest.mark.parametrize(
    ("degrees", "bias"),
    [
        (30.0, 1.5),
        *(
            pytest.param(degrees, bias, marks=pytest.mark.slow)
            for degrees in (3.0, 14.0, 29.0, 116.0)
            for bias in (0.01, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 40.0)
        ),
    ],
)
def test_intervals_hold_the_truth_however_much_noise_hides(degrees: float, bias: float) -> None:
    points = 60 if (degrees, bias) == (30.0, 1.5) else 150
    assert held(degrees=degrees, bias=bias, noise=0.0, points=points) > 0.948
    assert held(degrees=degrees, bias=bias, noise=bias / degrees, points=points) > 0.948


@pytest.mark.slow
def test_they_are_no_wider_than_they_must_be_where_units_stand_out() -> None:
    for degrees in (14.0, 30.0, 116.0):
        assert held(degrees=degrees, bias=0.1, noise=0.0, points=150) < 0.955
        assert held(degrees=degrees, bias=0.1, noise=0.0, points=150, stretch=0.9) < 0.93


def test_a_declared_design_effect_holds_intervals_down() -> None:
    design, queries = asked("psus", '[[query]]\nstatistic = "mean"\ncolumn = "income"')
    bounded = replace(design, max_design_effect=Fraction(2))
    found = [
        answer_directly(FakeSurvey(TABLE, schema=SCHEMA, epsilon="1"), design=each, queries=queries)[0]
        for each in (design, bounded)
    ]
    assert found[1].high - found[1].low < 0.8 * (found[0].high - found[0].low)
    assert sum(plan_queries(bounded, queries).sums.shares.values()) == 1


def test_a_design_effect_needs_units() -> None:
    with pytest.raises(SchemaError, match="no psus"):
        Design.parse("[design]\nmax_design_effect = 3", schema=SCHEMA)
    with pytest.raises(SchemaError, match="max_design_effect is 0"):
        Design.parse('[design]\npsu = "psu"\nmax_design_effect = 0', schema=SCHEMA)


def test_quantiles_of_clusters_are_located_first() -> None:
    """The second question holds one number for each psu and group in place of all bins, and takes the rest."""
    design, queries = asked("psus", MEDIAN)
    plan = plan_queries(design, queries).sums
    assert sum(plan.shares.values()) + sum(plan.second_shares) == 1
    assert all(each > 0 for each in plan.second_shares)
    assert not plan_queries(design, queries).fixed
    assert plan_queries(*asked("rows", MEDIAN)).fixed
    batches = []

    class Listening(FakeSurvey):
        def sum_batches(self, asked_for):  # type: ignore[no-untyped-def]
            batches.append(asked_for)
            return super().sum_batches(asked_for)

    answer_directly(
        Listening(TABLE, schema=SCHEMA, epsilon="20", delta="1e-6"), design=design, queries=queries
    )
    (sums, _), *others = batches[1]
    assert (len(batches), len(others), len(sums)) == (2, 0, 2)
    assert all("income" not in each.by.clique and "income" in each.known for each in sums)
    # What is below less the share of all: below 0 where a row lies above the quantile.
    lower, upper = (np.array([float(value) for value in each.weights.values]) for each in sums)
    assert (lower > 0).sum() < (upper > 0).sum()
    assert min(lower.min(), upper.min()) < 0
