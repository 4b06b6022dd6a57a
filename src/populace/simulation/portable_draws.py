"""Draws that give the same bytes on every machine: uniform numbers, exact arithmetic and straight lines only.

Exponentials, logarithms and the samplers built on them differ in their last bit between processors. Sums, products,
quotients and square roots do not, each being a step of its own; so distributions here are tables of quantiles with
straight lines in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Texts = npt.NDArray[np.str_]
Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# Quantiles of the normal distribution, at its distribution function in steps of half a standard deviation.
_BELL_SHARES = (0.0, 0.00135, 0.00621, 0.02275, 0.06681, 0.15866, 0.30854, 0.5)
_BELL_VALUES = (-3.6, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0)
NORMAL_SHARES = (*_BELL_SHARES, *(1 - share for share in _BELL_SHARES[-2::-1]))
NORMAL_QUANTILES = (*_BELL_VALUES, *(-value for value in _BELL_VALUES[-2::-1]))


def interpolate(places: npt.ArrayLike, at: Sequence[float], heights: Sequence[float]) -> Floats:
    """Return the heights of a line through points, level beyond its ends.

    `np.interp` would do, but some processors fuse its product and sum.

    >>> interpolate([0, 15, 40], (10, 20), (1.0, 2.0)).tolist()
    [1.0, 1.5, 2.0]
    """
    x, xs, ys = (np.asarray(part, dtype=np.float64) for part in (places, at, heights))
    left = np.clip(np.searchsorted(xs, x, side="right") - 1, 0, xs.size - 2)
    along = np.clip((x - xs[left]) / (xs[left + 1] - xs[left]), 0.0, 1.0)
    return np.asarray(ys[left] + along * (ys[left + 1] - ys[left]), dtype=np.float64)


def draw_normal(count: int, *, rng: np.random.Generator) -> Floats:
    """Draw numbers that are normal to within a few hundredths of a standard deviation, and never beyond 3.6.

    >>> draws = draw_normal(10_000, rng=np.random.default_rng(1))
    >>> bool(abs(draws.mean()) < 0.05 and abs(draws.std() - 1) < 0.05)
    True
    """
    return interpolate(rng.random(count), NORMAL_SHARES, NORMAL_QUANTILES)


def draw_categories(shares: Mapping[Any, float], count: int, *, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Draw keys with the given shares, scaled to one.

    >>> draw_categories({"a": 1, "b": 0}, 3, rng=np.random.default_rng(1)).tolist()
    ['a', 'a', 'a']
    """
    bounds = np.cumsum(np.array(list(shares.values()), dtype=np.float64))
    places = np.searchsorted(bounds[:-1] / bounds[-1], rng.random(count), side="right")
    return np.array(list(shares))[places]
