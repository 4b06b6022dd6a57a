"""How far an interval must reach, for noise of whole numbers that may be small."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from populace.inference.factor import Table

CONFIDENCE_LEVEL = 0.95
# From this standard deviation on single rows make no difference: the distribution is that of this one, stretched and
# smoothed until its steps are gone.
_SMOOTH_DEVIATION, _STEP_DEVIATION = 16.0, 0.5
# Variances are rounded up to so many binary digits, so that equal ones are looked up once.
_RATIO_PRECISION = 2.0**12
# Noise without a normal part gets one of this deviation, and its half-width so much more, to hold the last
# whole number.
_MIN_NORMAL_DEVIATION, _HALF_WIDTH_MARGIN = 1e-4, 1e-3
# Steps of Newton's method from the normal half-width, for levels at which the two are close; a step of this share of
# the half-width is the last: what is left is about its square.
_NEWTON_STEPS, _MAX_NEWTON_LEVEL, _NEWTON_TOLERANCE = 4, 0.99, 1e-4


def interval_half_width(
    variance: Table, *, noise: float, laplace: bool = False, level: float = CONFIDENCE_LEVEL
) -> Table:
    """Return how far intervals reach to both sides of estimates with these variances.

    The error of a best estimate is a sum of noise terms. One may be large: that of the same cell in the most precise
    table, of variance `noise`. Its factor is c = variance / noise, at most 1, because a best estimate has covariance
    `variance` with every unbiased one. The others are small and many: together they are near a normal
    distribution, with what is left of the variance. The half-width is the least h with P[|c·Z + N| ≤ h] ≥ level. For
    one count by itself that is the quantile of whole numbers, and far from it that of the normal distribution.

    >>> [round(float(interval_half_width(np.array(s**2), noise=s**2)), 2) for s in (0.5, 3.0, 100.0)]
    [1.0, 6.0, 196.09]
    >>> [round(float(interval_half_width(np.array(s**2), noise=2 * s**2)), 2) for s in (0.5, 3.0, 100.0)]
    [0.98, 5.88, 196.0]
    """
    if not math.isfinite(noise):
        return np.asarray(NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variance))
    parts, powers = np.frexp(variance / noise)
    ratios, places = np.unique(
        np.ldexp(np.ceil(parts * _RATIO_PRECISION) / _RATIO_PRECISION, powers), return_inverse=True
    )
    deviation = math.sqrt(noise)
    within = _half_widths(tuple(ratios.tolist()), min(deviation, _SMOOTH_DEVIATION), laplace, level)
    return np.asarray(within[places.reshape(variance.shape)] * max(1.0, deviation / _SMOOTH_DEVIATION))


@lru_cache(maxsize=1024)
def _half_widths(ratios: tuple[float, ...], deviation: float, laplace: bool, level: float) -> Table:
    """Return the reach for estimates whose variances have some ratios to that of the large term."""
    ratio = np.array(ratios)
    numbers, chances = _noise_distribution(deviation, laplace=laplace)
    factor = np.minimum(1.0, ratio)
    least = (
        np.maximum(_MIN_NORMAL_DEVIATION, _STEP_DEVIATION * factor)
        if deviation >= _SMOOTH_DEVIATION
        else _MIN_NORMAL_DEVIATION
    )
    rest = np.maximum(np.sqrt(np.maximum(ratio - factor**2, 0.0)) * deviation, least)

    def within(half_width: Table) -> Table:
        far = (-half_width[:, None] - factor[:, None] * numbers) / rest[:, None]
        return np.asarray(1 - 2 * np.interp(far, *_normal_cdf_table()) @ chances)

    if deviation < _SMOOTH_DEVIATION or level > _MAX_NEWTON_LEVEL:
        found = _bisect(within, level=level, most=(6 * np.sqrt(ratio) + 1) * deviation + 1)
    else:
        found = NormalDist().inv_cdf((1 + level) / 2) * deviation * np.sqrt(ratio)
        for _ in range(_NEWTON_STEPS):
            apart = (found[:, None] + factor[:, None] * numbers) / rest[:, None]
            slope = np.exp(-(apart**2) / 2) @ chances * math.sqrt(2 / math.pi) / rest
            move = (level - within(found)) / slope
            found = found + move
            if (np.abs(move) <= _NEWTON_TOLERANCE * found)[ratio > 0].all():
                break
    return np.where(ratio > 0, found + _HALF_WIDTH_MARGIN * factor, 0.0)


def _bisect(within: Callable[[Table], Table], *, level: float, most: Table) -> Table:
    """Return the least reach within which the error lies often enough, where steps of whole numbers make corners."""
    low, high = np.zeros(most.shape), most
    # To a hundred thousandth of a row: what is shown has three digits.
    for _ in range(math.ceil(math.log2(float(most.max()) / 1e-5))):
        middle = (low + high) / 2
        enough = within(middle) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _noise_distribution(deviation: float, *, laplace: bool) -> tuple[Table, Table]:
    """Return the whole numbers that noise of a standard deviation may be, and their probabilities."""
    if laplace:
        square = deviation**2
        # From the variance 2q / (1 − q)² of the weights q^|z|; written so that nothing cancels where it is tiny.
        fall = -math.log(square / (square + 1 + math.sqrt(2 * square + 1)))
        numbers = np.arange(-math.ceil(30 / fall), math.ceil(30 / fall) + 1, dtype=np.float64)
        weights = np.exp(-fall * np.abs(numbers))
    else:
        far = math.ceil(7 * deviation)
        numbers = np.arange(-far, far + 1, dtype=np.float64)
        weights = np.exp(-((numbers / deviation) ** 2) / 2)
    return numbers, weights / weights.sum()


@lru_cache(maxsize=1)
def _normal_cdf_table() -> tuple[Table, Table]:
    """Return the normal distribution function at many points: between them it is right to six digits."""
    points = np.linspace(-8.0, 8.0, 8001)
    return points, np.array([math.erfc(point) / 2 for point in (points / -math.sqrt(2)).tolist()])
