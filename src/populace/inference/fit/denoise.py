"""Noisy tables of several columns, cleaned: what stands out of the noise is kept, the rest follows a baseline.

A measured pair has a cell for every combination of codes, most of it noise. What columns have to do with each other is
simpler: a few smooth patterns (a table of low rank beside the baseline) or a few full cells (a table that is nearly
a function). Neither is right for every table, so several estimators try, and each gets the weight that it earns on a
part of the evidence that it has not seen. All of it follows from paid answers and public random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from populace._native.kernels import compiled, weight_estimators
from populace.inference.factor import Table, centre
from populace.inference.fit.projection import project_to_simplex
from populace.schema.conditions.rules import Allowed

# How evidence is halved: one part has 1.25 times the noise's variance, the other, for judging, five times.
_SPLIT_RATIO = 0.5
# The temperature of the weights, in variances of the noise: what theory asks for (Leung and Barron 2006).
_TEMPERATURE = 4.0
_ROUNDS, _CLOSE = 100, 1e-6
# The part of the largest error that sums of such errors lose to rounding.
_LOST_DIGITS = 1e-13
# Cells this many standard deviations out are taken as they are.
_OUTLIER_DEVIATIONS = 4.0
_CUTS = (3.0, 4.0)
_MIN_WEIGHT = 0.01
# Multiplications for the patterns of one table: about a second.
_MAX_SVD_WORK = 2**29


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _NoisyTable:
    """A residual beside a baseline, as matrices, with the deviation of its noise and its degrees of freedom."""

    baseline: Table
    residual: Table
    deviation: float
    total: float
    free: int

    def project(self, residual: Table) -> Table:
        """Return the nearest non-negative table of the same total to the baseline and a residual."""
        return project_to_simplex(self.baseline + residual, total=self.total)


_TableEstimator = Callable[[_NoisyTable], Table]


def denoise(
    values: Table,
    *,
    baseline: Table,
    deviation: float,
    allowed: Allowed | None = None,
    rng: np.random.Generator,
) -> Table:
    """Return a non-negative table with the baseline's total, near noisy values but free of most of their noise.

    The values' noise is independent in every cell, with the same deviation. Only what they say beyond the baseline's
    margins counts: single columns are known better from elsewhere. Impossible cells (`allowed` is False) stay empty.
    Tables of three or more columns are seen as matrices, as square as possible.

    With a small table, whose residual has few degrees of freedom, the residual is shrunk as a whole (James and Stein
    1961). Otherwise noise is added to and subtracted from the residual such that two independent copies arise;
    estimators see the first and are judged by their squared distance from the second, and their weights w minimise
    ½ ‖Σ w e‖² + ½ Σ w ‖e‖² + 4σ²·KL(w, prior): Q-aggregation (Dai, Rigollet and Zhang 2012), which is never much worse
    than the best of them and often better than all.
    """
    total = float(baseline.sum())
    if total <= 0:
        return baseline
    if allowed is not None and allowed.all():
        allowed = None
    residual = centre(np.where(allowed, values - baseline, 0.0) if allowed is not None else values - baseline)
    shape = _matrix_shape(baseline.shape)
    given = _NoisyTable(
        baseline=baseline.reshape(shape),
        residual=residual.reshape(shape),
        deviation=deviation,
        total=total,
        free=math.prod(size - 1 for size in baseline.shape),
    )
    found = _james_stein(given) if min(shape) < 3 else _aggregate_estimators(given, rng=rng)
    found = found.reshape(baseline.shape)
    if allowed is not None:
        found = np.where(allowed, found, 0.0)
        found = found * (total / found.sum()) if found.sum() > 0 else baseline
    return found


def _aggregate_estimators(given: _NoisyTable, *, rng: np.random.Generator) -> Table:
    noise = centre(rng.normal(0.0, given.deviation, given.residual.shape))
    seen = replace(
        given,
        residual=given.residual + _SPLIT_RATIO * noise,
        deviation=given.deviation * math.sqrt(1 + _SPLIT_RATIO**2),
    )
    unseen = given.baseline + given.residual - noise / _SPLIT_RATIO
    missed = np.array([(estimator(seen) - unseen).ravel() for estimator in _ESTIMATORS])
    spread = given.deviation**2 * (1 + 1 / _SPLIT_RATIO**2)
    weights = _aggregation_weights(missed @ missed.T, temperature=_TEMPERATURE * spread)
    weights[weights < _MIN_WEIGHT] = 0.0
    weights /= weights.sum()
    found = np.zeros(given.baseline.shape)
    for weight, estimator in zip(weights.tolist(), _ESTIMATORS, strict=True):
        if weight:
            found += weight * estimator(given)
    return found


def _aggregation_weights(products: Table, *, temperature: float) -> Table:
    """Return the weights of Q-aggregation, by Newton's method from the prior; products are of the estimators' errors.

    Products that exceed the temperature a million million times are treated as if they did so that often. Near there
    rounding may keep the method from its end: then the best estimator gets all the weight.
    """
    products = products - products.min()
    products /= max(temperature, 1e-12 * float(products.max())) or 1.0
    weights = (
        weight_estimators(products, _PRIOR, rounds=_ROUNDS, close=_CLOSE)
        if compiled()
        else _newton_weights(products)
    )
    errors = np.diag(products)
    slopes = products @ weights + 0.5 * errors + np.log(weights / _PRIOR)
    if float(weights @ slopes - slopes.min()) < _CLOSE + _LOST_DIGITS * float(errors.max()):
        return weights
    return np.asarray(np.eye(len(errors))[int(np.argmin(errors))], dtype=np.float64)


def _newton_weights(products: Table) -> Table:
    count = len(products)
    weights = _PRIOR.copy()
    system = np.zeros((count + 1, count + 1))
    for _ in range(_ROUNDS):
        slopes = products @ weights + 0.5 * np.diag(products) + np.log(weights / _PRIOR)
        # What is gained at most by moving weight to where the slope is least.
        if float(weights @ slopes - slopes.min()) < _CLOSE:
            break
        # Unknown are the relative steps and a multiplier, which keeps the sum of the weights.
        system[:count, :count] = products * np.outer(weights, weights) + np.diag(weights)
        system[count, :count] = system[:count, count] = weights
        steps = np.linalg.solve(system, np.append(-slopes * weights, 0.0))[:count]
        # Weights stay above 0; small ones that fall must not hold up the others.
        weights = np.maximum(weights * np.clip(1 + steps, 0.1, 10.0), 1e-30)
        weights /= weights.sum()
    return weights


def _james_stein(given: _NoisyTable) -> Table:
    """Return the residual scaled by 1 − degrees × σ² / its square, at least 0 (James and Stein 1961, positive part)."""
    square = float((given.residual**2).sum())
    kept = max(0.0, 1 - given.free * given.deviation**2 / square) if square > 0 else 0.0
    return given.project(kept * given.residual)


def _keep_outliers(given: _NoisyTable) -> Table:
    full = np.where(np.abs(given.residual) > _OUTLIER_DEVIATIONS * given.deviation, given.residual, 0.0)
    rest = _shrink_singular_values(given.residual - full, deviation=given.deviation)
    return project_to_simplex(given.baseline + full + rest, total=given.total)


def _threshold_estimator(times: float) -> _TableEstimator:
    """Return the estimator that keeps cells above so many deviations, and shares out the rest as the baseline does."""

    def cut(given: _NoisyTable) -> Table:
        values = given.baseline + given.residual
        kept = values > times * given.deviation
        left = given.total - float(values[kept].sum())
        rest = np.where(kept, 0.0, given.baseline)
        if left <= 0 or rest.sum() <= 0:
            return project_to_simplex(np.where(kept, values, 0.0), total=given.total)
        return np.where(kept, values, rest * (left / rest.sum()))

    return cut


_ESTIMATORS: tuple[_TableEstimator, ...] = (
    lambda given: given.project(_shrink_singular_values(given.residual, deviation=given.deviation)),
    lambda given: given.baseline,
    lambda given: given.project(given.residual),
    _keep_outliers,
    *map(_threshold_estimator, _CUTS),
)
_PRIOR: npt.NDArray[np.float64] = np.array([0.5, *[0.1] * 5])


def _shrink_singular_values(residual: Table, *, deviation: float) -> Table:
    """Return a residual with its singular values shrunk as is best for independent noise (Gavish and Donoho 2017).

    Those that noise alone reaches become 0: √m + √n deviations, for a centred table of m + 1 rows and n + 1 columns.
    In very large tables no pattern is looked for: finding it would take minutes.
    """
    if min(residual.shape) ** 2 * max(residual.shape) > _MAX_SVD_WORK:
        return np.zeros(residual.shape)
    free = [max(size - 1, 1) for size in residual.shape]
    scale = deviation * math.sqrt(max(free))
    ratio = min(free) / max(free)
    left, sizes, right = np.linalg.svd(residual, full_matrices=False)
    found = np.maximum(sizes / scale, 1e-12)
    inside = np.maximum((found**2 - ratio - 1) ** 2 - 4 * ratio, 0.0)
    kept = np.where(found >= 1 + math.sqrt(ratio), np.sqrt(inside) / found, 0.0) * scale
    rank = int(np.count_nonzero(kept))
    return np.asarray((left[:, :rank] * kept[:rank]) @ right[:rank])


def _matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape, rows × columns, in which a table is seen as a matrix: as square as its axes allow."""
    cut = min(range(1, len(shape)), key=lambda at: max(math.prod(shape[:at]), math.prod(shape[at:])))
    return math.prod(shape[:cut]), math.prod(shape[cut:])
