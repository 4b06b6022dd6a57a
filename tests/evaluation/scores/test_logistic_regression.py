"""Logistic regression against the equations that its maximum solves."""

from __future__ import annotations

import numpy as np
import pytest

from populace.evaluation.scores import logistic_regression as logistic


def test_the_gradient_vanishes_and_coefficients_are_those_that_made_the_rows() -> None:
    # 20,000 rows: each coefficient is within 4 standard errors (about 0.02) but for 6 of 100,000 seeds.
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20_000, 2))
    chance = 1 / (1 + np.exp(-(0.5 + features @ np.array([1.0, -2.0]))))
    outcome = (rng.random(20_000) < chance).astype(float)
    model = logistic.fit_logistic(features, outcome)
    assert model.coefficients == pytest.approx([0.5, 1.0, -2.0], abs=0.1)
    gradient = features.T @ (model.predict(features) - outcome) + logistic.RIDGE * model.coefficients[1:]
    assert np.abs(gradient).max() < 1e-2
    assert model.parameters == pytest.approx(3.0, abs=0.01)


def test_separated_classes_and_constant_outcomes_end() -> None:
    features = np.array([[0.0], [0], [1], [1]])
    model = logistic.fit_logistic(features, np.array([0.0, 0, 1, 1]))
    assert np.isfinite(model.coefficients).all()
    assert logistic.fit_logistic(features, np.zeros(4)).predict(features).max() < 1e-6


def test_area_under_curve_counts_pairs() -> None:
    rng = np.random.default_rng(2)
    score, outcome = rng.integers(0, 5, 60).astype(float), rng.integers(0, 2, 60).astype(float)
    wins = [float(a > b) + 0.5 * float(a == b) for a in score[outcome == 1] for b in score[outcome == 0]]
    assert logistic.area_under_curve(score, outcome) == pytest.approx(np.mean(wins))
    assert logistic.area_under_curve(score, np.zeros(60)) == 0.5
