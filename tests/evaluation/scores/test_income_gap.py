"""Gini indices and pay gaps computed by hand, as the scorer of the challenge does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.evaluation.scores.income_gap import gini, score_income_gap


def test_gini_is_the_mean_difference_over_twice_the_mean_less_one_row() -> None:
    values = np.random.default_rng(1).exponential(size=50)
    expected = np.abs(values[:, None] - values[None, :]).mean() / (2 * values.mean())
    assert gini(values) == pytest.approx(expected - 1 / 50)
    assert gini(np.zeros(3)) == 1.0


def rows(gaps):
    """One area for each gap, in which men earn 10, and women less by the gap."""
    area = np.repeat(np.arange(len(gaps)), 40)
    group = np.tile([0, 1], 20 * len(gaps))
    income = 10.0 - np.where(group == 1, np.array(gaps)[area], 0)
    return income, group, area


def score(real, drawn, **more):
    return score_income_gap(*zip(real, drawn, strict=True), codes=(0, 1), **more)[0].value


def test_the_score_is_the_formula_of_the_challenge() -> None:
    real, turned = rows([1, 2, 4]), rows([2, 1, 4])
    indices = [gini(np.repeat([10.0, 10.0 - gap], 20)) for gap in (1, 2)]
    apart = (1 - abs(indices[0] - indices[1])) ** 2
    expected = 500 * math.sqrt((2 * apart + 1) / 3) + 500 * math.sqrt((2 * 0.5**2 + 1) / 3)
    assert score(real, turned) == pytest.approx(expected)
    assert score(real, real) == 1000.0


def test_an_area_that_is_gone_adds_nothing() -> None:
    real = rows([4, 2, 1])
    left = [part[:80] for part in real]
    assert score(real, left) == pytest.approx(1000 * math.sqrt(2 / 3))
    assert score_income_gap(*zip([part[:0] for part in real], real, strict=True), codes=(0, 1)) == []


def test_a_row_of_weight_two_earns_as_two_rows_do() -> None:
    rng = np.random.default_rng(2)
    real, other = rows([1, 2, 4]), rows([2, 3, 1])
    weights = rng.integers(0, 3, 120)
    twice = [np.repeat(part, weights) for part in other]
    weighted = score(real, other, weights=(None, weights.astype(float)))
    # The index of a file of n rows is 1/n below the usual one in the challenge, and weights leave that alone.
    assert weighted == pytest.approx(score(real, twice), rel=0.02)
