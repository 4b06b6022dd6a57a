"""Logistic regression by Newton's method, with a small ridge; as much of it as scores need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats

# A pull towards 0, as of this many rows: separated classes keep finite coefficients.
RIDGE = 0.5
MAX_STEPS, TOLERANCE = 30, 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class LogisticModel:
    """Coefficients, the first of them the intercept, and the effective number of parameters: that of squared fits."""

    coefficients: Floats
    parameters: float

    def predict(self, features: Floats) -> Floats:
        """Return the probability of a success for each row."""
        return _sigmoid(_with_intercept(features) @ self.coefficients)


def fit_logistic(features: Floats, outcome: Floats, *, weights: Floats | None = None) -> LogisticModel:
    """Fit a logistic regression with an intercept; features should be of the order of 1, weights 1 on average.

    >>> model = fit_logistic(np.array([[0.0], [0], [1], [1]] * 50), np.array([0.0, 0, 1, 0] * 50))
    >>> model.predict(np.array([[0.0], [1.0]])).round(1).tolist()
    [0.0, 0.5]
    """
    design = _with_intercept(features)
    share = np.ones(len(outcome)) if weights is None else weights
    ridge = np.full(design.shape[1], RIDGE)
    ridge[0] = 0.0
    coefficients = np.zeros(design.shape[1])
    start = float(share @ outcome / share.sum())
    if not 0 < start < 1:
        coefficients[0] = 30.0 if start else -30.0
        return LogisticModel(coefficients, 1.0)
    coefficients[0] = np.log(start / (1 - start))
    loss = _loss(design @ coefficients, outcome, share) + _penalty(coefficients, ridge)
    for _ in range(MAX_STEPS):
        probability = _sigmoid(design @ coefficients)
        gradient = design.T @ (share * (probability - outcome)) + ridge * coefficients
        hessian = _information(design, probability, share)
        step = np.linalg.solve(hessian + np.diag(ridge + 1e-9), gradient)
        scale = 1.0
        while scale > 1e-6:
            tried = coefficients - scale * step
            better = _loss(design @ tried, outcome, share) + _penalty(tried, ridge)
            if better <= loss:
                break
            scale /= 2
        if scale <= 1e-6 or loss - better <= TOLERANCE * abs(loss):
            break
        coefficients, loss = tried, better
    hessian = _information(design, _sigmoid(design @ coefficients), share)
    shrinkage = np.linalg.solve(hessian + np.diag(ridge + 1e-9), hessian)
    parameters = float((shrinkage * shrinkage.T).sum())
    return LogisticModel(coefficients, parameters)


def area_under_curve(score: Floats, outcome: Floats, *, weights: Floats | None = None) -> float:
    """Return the probability that a success scores higher than a failure, ties counting half.

    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0.0, 0, 1, 1]))
    0.875
    """
    from populace.evaluation.scores.correlation_difference import rank_values

    share = np.ones(len(outcome)) if weights is None else weights
    successes = float(share @ outcome)
    failures = float(share.sum()) - successes
    if not successes or not failures:
        return 0.5
    total = float((share * outcome) @ (rank_values(score, weights=weights) - 0.5))
    return (total - successes**2 / 2) / (successes * failures)


def _with_intercept(features: Floats) -> Floats:
    return np.column_stack([np.ones(len(features)), features])


def _information(design: Floats, probability: Floats, share: Floats) -> Floats:
    half = design * np.sqrt(share * probability * (1 - probability))[:, None]
    found: Floats = half.T @ half
    return found


def _sigmoid(values: Floats) -> Floats:
    from scipy.special import expit

    found: Floats = expit(values)
    return found


def _loss(values: Floats, outcome: Floats, share: Floats) -> float:
    return float((share * (np.logaddexp(0.0, values) - outcome * values)).sum())


def _penalty(coefficients: Floats, ridge: Floats) -> float:
    return 0.5 * float((ridge * coefficients**2).sum())
