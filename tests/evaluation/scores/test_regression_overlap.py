"""Regression coefficients against least squares, and overlaps computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.evaluation.scores import regression_overlap as regression


def test_overlap_is_the_mean_share_of_both_intervals() -> None:
    def overlap(other, error):
        found = regression.Coefficient(
            outcome="y", feature="x", real=0.0, real_error=1.0, synthetic=other, synthetic_error=error
        )
        return found.overlap

    assert overlap(0.0, 1.0) == 1.0
    assert overlap(0.0, 0.5) == pytest.approx(0.75)
    assert overlap(10.0, 1.0) == 0.0
    assert overlap(1.959963984540054, 1.0) == pytest.approx(0.5)


def test_coefficients_and_errors_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    x, group = rng.normal(size=500), rng.integers(0, 2, 500)
    y = 2 * x + 3 * group + rng.normal(size=500)
    numbers = {"x": x, "y": y}
    codes = {"x": np.zeros(500, int), "y": np.zeros(500, int), "g": group}
    found = regression.fit_coefficients(
        codes, codes, (numbers, numbers), domain=Domain({"x": 1, "y": 1, "g": 2})
    )
    ours = {(each.outcome, each.feature): each for each in found}
    reference = 1 - int(group.mean() > 0.5)
    design = np.column_stack([np.ones(500), (x - x.mean()) / x.std(), group == reference])
    target = (y - y.mean()) / y.std()
    expected, residual, *_ = np.linalg.lstsq(design, target, rcond=None)
    errors = np.sqrt(residual[0] / (500 - 3) * np.diag(np.linalg.inv(design.T @ design)))
    coefficient = ours["y", "x"]
    assert coefficient.real == coefficient.synthetic == pytest.approx(expected[1])
    assert coefficient.real_error == pytest.approx(errors[1])
    assert all(each.overlap == 1.0 for each in found)
    assert regression.score_regressions([]) == []
