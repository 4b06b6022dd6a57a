"""Quantiles and tails against sorted rows."""

from __future__ import annotations

import numpy as np
import pytest

from populace.evaluation.scores import quantile_difference as quantiles


def test_quantiles_are_those_of_the_inverse_distribution() -> None:
    values, levels = np.random.default_rng(1).normal(size=101), np.array([0.01, 0.5, 0.9])
    expected = np.quantile(values, levels, method="inverted_cdf")
    assert quantiles.find_quantiles(values, levels).tolist() == expected.tolist()
    times = np.random.default_rng(2).integers(1, 5, 101)
    expected = np.quantile(np.repeat(values, times), levels, method="inverted_cdf")
    assert quantiles.find_quantiles(values, levels, weights=times.astype(float)).tolist() == expected.tolist()


def test_a_shift_is_found_in_inter_quartile_distances() -> None:
    real = np.arange(1.0, 1001)
    found = quantiles.compare_numbers(real, real + 250, column="x")
    assert found.quantiles == pytest.approx(0.5)
    assert found.tails == pytest.approx(0.5 * (0.01 + 0.25))


def test_constants_and_missing_numbers_are_compared_too() -> None:
    found = quantiles.compare_numbers(np.array([3.0, np.nan]), np.array([5.0, 5.0]), column="x")
    assert found.quantiles == 2.0
    assert quantiles.compare_numbers(np.array([np.nan]), np.array([1.0]), column="x") is None
    assert quantiles.score_quantiles({}, {}) == ([], [])
