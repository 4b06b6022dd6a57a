"""Gini indices and pay gaps computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from populace.evaluation.scores.income_gap import gini, score_income_gap


def test_gini_is_the_mean_difference_over_twice_the_mean() -> None:
    values = np.random.default_rng(1).exponential(size=50)
    expected = np.abs(values[:, None] - values[None, :]).mean() / (2 * values.mean())
    assert gini(values) == pytest.approx(expected)
    assert gini(np.zeros(3)) == 0.0


def rows(gaps):
    """Two areas: men earn 10, and women less by the gap of the area."""
    area = np.repeat([0, 1], 40)
    group = np.tile([0, 1], 40)
    income = 10.0 - np.where(group == 1, np.array(gaps)[area], 0)
    return income, group, area


def test_areas_in_the_opposite_order_lose_half_and_equal_files_nothing() -> None:
    real, turned = rows([1, 3]), rows([3, 1])
    pairs = [(real[k], turned[k]) for k in range(3)]
    score = score_income_gap(*pairs, codes=(0, 1))[0]
    indices = [gini(np.repeat([10.0, 10.0 - gap], 20)) for gap in (1, 3)]
    assert score.value == pytest.approx(1 - (abs(indices[0] - indices[1]) + 1) / 2)
    assert score_income_gap(*((part, part) for part in real), codes=(0, 1))[0].value == 1.0


def test_areas_of_few_incomes_are_left_out() -> None:
    income, group, area = rows([1, 3])
    few = (income[:10], income), (group[:10], group), (area[:10], area)
    assert score_income_gap(*few, codes=(0, 1)) == []
