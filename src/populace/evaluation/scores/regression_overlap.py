"""Linear regressions in both files: coefficients with their intervals, and how far the intervals overlap.

Every column of numbers in turn is regressed on all other columns; without any, the share of each column's most frequent
value is. Overlap as in Karr et al. 2006: the mean of the common part as a share of either interval, here 0 where they
do not meet. With weights, standard errors are those of linearization (Binder 1983), rows as clusters of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Domain
from populace.evaluation.scores.feature_matrix import Feature, build_features, choose_features, choose_rows
from populace.evaluation.scores.marginal_distance import CodeArrays, Weights, scale_to_rows
from populace.evaluation.scores.score import NORMAL_95, Direction, Score

MAX_OUTCOMES, MAX_ROWS, MAX_CODES = 8, 100_000, 4
# Rare codes, and features that the others determine but for this share, have no coefficient worth comparing.
MIN_FEATURE_SHARE, MIN_OWN_VARIANCE = 0.05, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """One coefficient in both files, with standard errors, per standard deviation of the real outcome."""

    outcome: str
    feature: str
    real: float
    real_error: float
    synthetic: float
    synthetic_error: float

    @property
    def overlap(self) -> float:
        """How far the 95 % intervals overlap: 1 for the same interval, 0 where they do not meet."""
        first = _interval(self.real, self.real_error)
        second = _interval(self.synthetic, self.synthetic_error)
        common = max(0.0, min(first[1], second[1]) - max(first[0], second[0]))
        widths = first[1] - first[0], second[1] - second[0]
        return 0.5 * sum(common / width if width else float(first == second) for width in widths)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RegressionRows:
    """The features of a file as sums of products; with weights, rows and weights as well."""

    gram: Floats
    rows: int
    weighted: tuple[Floats, Floats] | None

    @classmethod
    def of(cls, matrix: Floats, weights: Floats | None) -> _RegressionRows:
        if weights is None:
            return cls(gram=matrix.T @ matrix, rows=len(matrix), weighted=None)
        return cls(gram=matrix.T @ (matrix * weights[:, None]), rows=len(matrix), weighted=(matrix, weights))

    def variance(self, place: int) -> float:
        """Return the variance of a feature."""
        return float(self.gram[place, place] / self.rows - (self.gram[0, place] / self.rows) ** 2)


def fit_coefficients(
    real: CodeArrays,
    synthetic: CodeArrays,
    numbers: tuple[Mapping[str, Floats], Mapping[str, Floats]],
    *,
    domain: Domain,
    weights: Weights | None = None,
) -> list[Coefficient]:
    """Return the coefficients of all regressions in both files."""
    features = choose_features(real, numbers[0], domain, max_codes=MAX_CODES, min_share=MIN_FEATURE_SHARE)
    held = (None, None) if weights is None else (weights.real, weights.synthetic)
    files = []
    for codes, values, some in zip((real, synthetic), numbers, held, strict=True):
        rows = choose_rows(len(next(iter(codes.values()))), MAX_ROWS, seed=3)
        matrix = np.column_stack([np.ones(len(rows)), build_features(features, codes, values, rows)])
        files.append(_RegressionRows.of(matrix, None if some is None else scale_to_rows(some[rows])))
    kept = _independent_features(files[0].gram / files[0].rows)
    outcomes = [k for k in kept if features[k - 1].code is None]
    outcomes = (outcomes or [k for k in kept if domain[features[k - 1].column] == 2] or kept)[:MAX_OUTCOMES]
    found = []
    for outcome in outcomes:
        own = features[outcome - 1].column
        used = [0, *(k for k in kept if features[k - 1].column != own)]
        if len(used) < 2:
            continue
        first, second = (_regress(each, outcome=outcome, used=used) for each in files)
        scale = math.sqrt(max(files[0].variance(outcome), 1e-300))
        for place, k in enumerate(used[1:], start=1):
            parts = [float(each[place]) / scale for pair in (first, second) for each in pair]
            if all(map(math.isfinite, parts)):
                found.append(
                    Coefficient(
                        outcome=own,
                        feature=_describe(features[k - 1]),
                        real=parts[0],
                        real_error=parts[1],
                        synthetic=parts[2],
                        synthetic_error=parts[3],
                    )
                )
    return found


def _independent_features(gram: Floats) -> list[int]:
    """Return features that keep some variance of their own beside those before them; the intercept is the first."""
    kept = [0]
    for place in range(1, len(gram)):
        inner = gram[np.ix_(kept, kept)]
        against = gram[kept, place]
        variance = gram[place, place] - gram[0, place] ** 2
        own = gram[place, place] - against @ np.linalg.solve(inner, against)
        if variance > 0 and own > MIN_OWN_VARIANCE * variance:
            kept.append(place)
    return kept[1:]


def _regress(file: _RegressionRows, *, outcome: int, used: list[int]) -> tuple[Floats, Floats]:
    """Return coefficients and standard errors of least squares; 0 where a feature is constant."""
    gram, rows = file.gram, file.rows
    inner, against = gram[np.ix_(used, used)], gram[used, outcome]
    scale = np.sqrt(np.maximum(np.diag(inner), 1e-300))
    # A feature that is constant in one file has no coefficient there.
    inverse = np.linalg.pinv(inner / np.outer(scale, scale), rcond=1e-9, hermitian=True) / np.outer(
        scale, scale
    )
    coefficients = inverse @ against
    residual = max(gram[outcome, outcome] - against @ coefficients, 0.0) / max(rows - len(used), 1)
    errors = np.sqrt(np.maximum(residual * np.diag(inverse), 0.0))
    if file.weighted is not None:
        matrix, share = file.weighted
        left = share * (matrix[:, outcome] - matrix[:, used] @ coefficients)
        influence = (matrix[:, used] * left[:, None]) @ inverse
        errors = np.sqrt((influence**2).sum(axis=0) * rows / max(rows - len(used), 1))
    constant = np.diag(inner) - inner[0] ** 2 / rows <= 1e-9 * rows
    constant[0] = False
    return np.where(constant, 0.0, coefficients), np.where(constant, 0.0, errors)


def _describe(feature: Feature) -> str:
    return feature.column if feature.code is None else f"{feature.column} = code {feature.code}"


def _interval(value: float, error: float) -> tuple[float, float]:
    return value - NORMAL_95 * error, value + NORMAL_95 * error


def score_regressions(found: list[Coefficient]) -> list[Score]:
    """Return the mean overlap of intervals, and the mean difference of coefficients."""
    if not found:
        return []
    overlaps = np.array([each.overlap for each in found])
    gaps = np.array([abs(each.real - each.synthetic) for each in found])
    used = f"{len(found)} coefficients of {len({each.outcome for each in found})} regressions"
    blind = "interactions of columns, and everything that no linear regression asks about"
    return [
        Score(
            name="regression_overlap",
            title="Regression coefficients: mean overlap of 95 % confidence intervals",
            value=math.fsum(overlaps) / len(overlaps),
            interval=_mean_interval(overlaps, most=1.0),
            interval_of="95 %, for the mean over coefficients",
            direction=Direction.HIGHER,
            scale="0 (no interval meets its own) to 1 (the same intervals)",
            blind_to=blind,
            note=used,
        ),
        Score(
            name="regression_coefficients",
            title="Regression coefficients: mean absolute difference",
            value=math.fsum(gaps) / len(gaps),
            interval=_mean_interval(gaps, most=math.inf),
            interval_of="95 %, for the mean over coefficients",
            direction=Direction.LOWER,
            scale="0 (the same coefficients) upwards, in standard deviations of the real outcome",
            blind_to=blind,
            note=used,
        ),
    ]


def _mean_interval(values: Floats, *, most: float) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    margin = NORMAL_95 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return max(mean - margin, 0.0), min(mean + margin, most)
