"""Correlations against NumPy and against cases computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.evaluation.scores import correlation_difference as correlations


def test_pearson_is_that_of_numpy_and_weights_repeat_rows() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=200), rng.normal(size=200)
    assert correlations.correlate(first, second) == pytest.approx(np.corrcoef(first, second)[0, 1], abs=1e-12)
    times = rng.integers(1, 4, 200)
    weighted = correlations.correlate(first, second, weights=times.astype(float))
    assert weighted == pytest.approx(
        np.corrcoef(np.repeat(first, times), np.repeat(second, times))[0, 1], abs=1e-12
    )


def test_spearman_sees_monotone_dependence_and_ties_share_ranks() -> None:
    numbers = {"x": np.array([1.0, 2, 3, 4]), "y": np.exp(np.array([1.0, 2, 3, 4]))}
    assert correlations.correlate_pairs(numbers, ranks=True) == {("x", "y"): pytest.approx(1.0)}
    assert correlations.correlate_pairs(numbers, ranks=False)["x", "y"] < 0.95
    assert correlations.rank_values(np.array([5.0, 5, 1])).tolist() == [2.5, 2.5, 1]


def test_rows_without_one_of_the_numbers_are_left_out() -> None:
    numbers = {"x": np.array([1.0, 2, 3, math.nan]), "y": np.array([1.0, 2, 3, -50])}
    assert correlations.correlate_pairs(numbers, ranks=False)["x", "y"] == pytest.approx(1.0)


def test_scores_are_mean_differences() -> None:
    real = {"x": np.array([1.0, 2, 3]), "y": np.array([1.0, 2, 3])}
    turned = {"x": np.array([1.0, 2, 3]), "y": np.array([3.0, 2, 1])}
    assert [score.value for score in correlations.score_correlations(real, turned)] == pytest.approx(
        [2.0, 2.0]
    )
    assert correlations.score_correlations({"x": np.ones(3)}, {"x": np.ones(3)}) == []
    tables = np.array([[5, 0], [0, 5]]), np.array([[5, 5], [5, 5]])
    found = [{("a", "b"): correlations.associate(table)} for table in tables]
    assert correlations.score_associations(*found)[0].value == pytest.approx(1.0)
    assert math.isnan(correlations.associate(np.array([3, 4])))
