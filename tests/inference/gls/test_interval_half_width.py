"""How far intervals reach, where noise is wide: as often right as they say, for both laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.inference.gls.interval_half_width import _half_widths, interval_half_width


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("deviation", [16.0, 100.0])
def test_wide_noise_is_covered_as_often_as_said(deviation: float, laplace: bool, level: float) -> None:
    """By sums over a fine grid. A reach after one step of Newton's method misses by 1e-3 and more."""
    ratios = np.array([1.0, 0.97, 0.7003, 0.3001, 0.1, 0.01001, 1.7001, 30.03])
    found = (
        interval_half_width(ratios * deviation**2, noise=deviation**2, laplace=laplace, level=level)
        / deviation
    )
    steps = np.linspace(-30, 30, 120_001)
    weights = np.exp(-np.abs(steps) * 2**0.5) if laplace else np.exp(-(steps**2) / 2)
    weights /= weights.sum()
    below = np.cumsum(weights) - weights / 2
    points = np.linspace(-9, 9, 1_801)
    normal = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    for ratio, within in zip(ratios.tolist(), found.tolist(), strict=True):
        factor = min(1.0, ratio)
        rest = math.sqrt(max(0.0, ratio - factor**2))
        high, low = (np.interp((side * within - rest * points) / factor, steps, below) for side in (1, -1))
        assert -4e-4 < float(normal @ (high - low)) - level < 1.5e-3


def test_ratios_are_rounded_up() -> None:
    for ratio in (0.30001, 0.70003, 1.70001):
        alone = float(_half_widths((ratio,), 4.0, False, 0.95)[0])
        assert float(interval_half_width(np.array(ratio * 16.0), noise=16.0)) >= alone - 2e-5


def test_certain_cells_do_not_hold_up_others() -> None:
    ratios = (0.0, 0.3, 1.0)
    assert (
        _half_widths(ratios, 16.0, False, 0.95)[1:].tolist()
        == _half_widths(ratios[1:], 16.0, False, 0.95).tolist()
    )
