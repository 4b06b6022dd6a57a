"""Train on synthetic, test on real: what predictions lose when they are learnt from the synthetic rows.

Each column in turn is the target: whether a row has its most frequent value, predicted by logistic regression from all
other columns. Both models are tested on the same real rows, which neither was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Domain
from populace.evaluation.scores.feature_matrix import build_features, choose_features
from populace.evaluation.scores.logistic_regression import area_under_curve, fit_logistic
from populace.evaluation.scores.marginal_distance import CodeArrays, Weights, scale_to_rows
from populace.evaluation.scores.score import NORMAL_95, Direction, Score

MAX_TARGETS, MAX_TRAINING_ROWS, MAX_TEST_ROWS, MAX_CODES = 16, 5000, 10_000, 5
TEST_SHARE = 0.3
# Targets that hardly vary teach nothing.
MIN_TARGET_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPrediction:
    """One target: the area under the ROC curve on real rows, trained on real and trained on synthetic rows."""

    column: str
    real: float
    synthetic: float


def predict_targets(
    real: CodeArrays,
    synthetic: CodeArrays,
    numbers: tuple[Mapping[str, Floats], Mapping[str, Floats]],
    *,
    domain: Domain,
    weights: Weights | None = None,
) -> list[TargetPrediction]:
    """Return how well each target is predicted by both models; with weights, fitted and tested by them."""
    sizes = [len(next(iter(each.values()))) for each in (real, synthetic)]
    # Rows are in one order, so equal files are split alike.
    orders = [np.random.default_rng(2).permutation(size) for size in sizes]
    tested = min(int(sizes[0] * TEST_SHARE), MAX_TEST_ROWS)
    test = orders[0][:tested]
    if not tested:
        return []
    train = [order[int(len(order) * TEST_SHARE) :][:MAX_TRAINING_ROWS] for order in orders]
    features = choose_features(real, numbers[0], domain, max_codes=MAX_CODES)
    matrices = [build_features(features, real, numbers[0], test)]
    matrices += [
        build_features(features, codes, values, rows)
        for codes, values, rows in zip((real, synthetic), numbers, train, strict=True)
    ]
    held: tuple[Floats | None, ...] = (None, None, None)
    if weights is not None:
        parts = (weights.real[test], weights.real[train[0]], weights.synthetic[train[1]])
        held = tuple(scale_to_rows(part) for part in parts)
    found: list[TargetPrediction] = []
    for name, size in domain.items():
        code = int(np.argmax(np.bincount(real[name], minlength=size)))
        outcomes = [
            (codes[name][rows] == code).astype(np.float64)
            for codes, rows in ((real, test), (real, train[0]), (synthetic, train[1]))
        ]
        if not MIN_TARGET_SHARE <= outcomes[0].mean() <= 1 - MIN_TARGET_SHARE or len(found) == MAX_TARGETS:
            continue
        others = [place for place, feature in enumerate(features) if feature.column != name]
        if not others:
            continue
        areas = [
            area_under_curve(
                fit_logistic(matrix[:, others], outcome, weights=some).predict(matrices[0][:, others]),
                outcomes[0],
                weights=held[0],
            )
            for matrix, outcome, some in zip(matrices[1:], outcomes[1:], held[1:], strict=True)
        ]
        found.append(TargetPrediction(column=name, real=areas[0], synthetic=areas[1]))
    return found


def score_predictions(found: list[TargetPrediction]) -> list[Score]:
    """Return the mean loss of area under the curve over all targets; a gain counts as none."""
    if not found:
        return []
    # Learning more from synthetic rows than from real ones is chance.
    losses = np.array([max(each.real - each.synthetic, 0.0) for each in found])
    value = math.fsum(losses) / len(losses)
    margin = NORMAL_95 * float(losses.std(ddof=1)) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
    return [
        Score(
            name="prediction_loss",
            title="Train on synthetic, test on real: mean loss of area under the ROC curve",
            value=value,
            interval=(max(value - margin, 0.0), value + margin),
            interval_of="95 %, for the mean over columns as targets",
            direction=Direction.LOWER,
            scale="0 (as good as trained on real rows) to about 0.5 (no better than guessing)",
            blind_to="interactions of columns, which the regression does not have, and how well chances are calibrated",
            note=f"{len(found)} targets, each its most frequent value, from all other columns",
        )
    ]
