"""How far noise that follows a smooth bound may have moved an answer, from what is public and paid for alone.

The bound S is private, and so is the scale of the noise. What was paid for is a noisy logarithm of a bound 1 + L₁ with
the same L₁, and noisy counts of complete and incomplete rows. Labels are hashes, so counts say how large L₁ is likely
to be: a complete row serves the incomplete ones in k gaps before it, and L₁ is the most that any of them serves. In
case that says too little, a part of what is thought beforehand is spread over all sizes, evenly by their logarithm.
L₁ is drawn from what the noisy logarithm leaves of that, and for each L₁ a draw of the published distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from populace.core.array_types import Floats
from populace.privacy.accounting.fixed_point import LOG_STEPS
from populace.privacy.accounting.mechanisms import DiscreteLaplace, Noise
from populace.privacy.smooth.smooth_distributions import (
    Cauchy,
    LaplaceLogNormal,
    PolyPlace,
    SmoothDistribution,
    Student,
)
from populace.privacy.smooth.smooth_noise import LN_2
from populace.survey.variance.confidence_intervals import DRAWS, permute_draws

_GRID_POINTS = 2048
# How much of what is thought beforehand follows counts, and how far off by a factor e^… they may be.
_COUNTS_WEIGHT, _LOG_SCALE = 0.997, 0.15
_SHIFTS = np.linspace(-1, 1, 34)[1:-1]
# Orders in which draws are put together; those of intervals.py are below 100.
_NOISE_PERMUTATION, _SIZE_PERMUTATION = 101, 102


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DonorLoad:
    """Groups of cells in which incomplete rows are served by complete ones: about how many there are of each."""

    complete: Floats
    incomplete: Floats
    donors: int
    alone: float = 0.0
    """The most incomplete rows of a cell that seems to have no complete ones: the first to come serves them all."""

    def at_most(self, changed: Floats) -> Floats:
        """Return how likely it is that no complete row serves more than so many incomplete ones.

        One serves more than j with probability I_q(j + 1, k), q being the part of the group that is incomplete:
        at random places, k gaps hold that many before k complete rows have come.

        >>> one = DonorLoad(complete=np.array([1000.0]), incomplete=np.array([250.0]), donors=1)
        >>> one.at_most(np.array([2.0, 4.0, 6.0])).round(2)
        array([0.  , 0.73, 0.99])
        """
        complete = np.maximum(self.complete, 1.0)
        part = np.clip(self.incomplete / (complete + self.incomplete), 0.0, 0.99)
        more = special.betainc(np.maximum(changed[:, None], 0) + 1, self.donors, part)
        found: Floats = np.exp((complete * np.log1p(-np.minimum(more, 1 - 1e-12))).sum(axis=1))
        return np.where(changed < self.alone, 0.0, found)


def changed_rows_draws(
    noisy_size: int, *, noise: Noise, most: float, served: DonorLoad | None = None
) -> Floats:
    """Return evenly spread draws of what L₁ may be: from the noisy size of the bound 1 + L₁, and the most it can be.

    `served` tells what counts make likely; without it, all sizes are equally likely on a scale of logarithms.

    >>> from fractions import Fraction
    >>> clear = changed_rows_draws(3 * LOG_STEPS, noise=DiscreteLaplace(Fraction(1)), most=100.0)
    >>> round(float(np.median(clear)), 1)
    7.0
    """
    # Values of ln(1 + L₁) from the least to the most, more of them where the noise puts it.
    low, high = math.log(2), math.log(max(3.0, 1 + most))
    centre = min(max(noisy_size * float(LN_2) / LOG_STEPS, low), high)
    span = 40 * math.sqrt(noise.variance) * float(LN_2) / LOG_STEPS
    near = centre + span * np.linspace(-1, 1, _GRID_POINTS) ** 3
    points = np.unique(np.clip(np.append(np.linspace(low, high, _GRID_POINTS), near), low, high))
    middle = (points[1:] + points[:-1]) / 2
    away = np.abs(noisy_size - middle * LOG_STEPS / float(LN_2))
    if isinstance(noise, DiscreteLaplace):
        weight = -away / float(noise.scale)
    else:
        weight = -(away**2) / (2 * float(noise.variance))
    mass = np.append(0.0, np.cumsum(np.exp(weight - weight.max()) * _prior(points, served)))
    even = (np.arange(DRAWS) + 0.5) / DRAWS * mass[-1]
    found: Floats = np.exp(np.interp(even, mass, points))[permute_draws(_SIZE_PERMUTATION)] - 1
    return found


def _prior(points: Floats, served: DonorLoad | None) -> Floats:
    """Return how likely each interval between points is, before the size of the bound is known."""
    even: Floats = np.diff(points) / (points[-1] - points[0])
    if served is None:
        return even
    grid = np.linspace(points[0] - 1, points[-1] + 1, _GRID_POINTS)
    # A whole number stands for the interval around it.
    below = served.at_most(np.exp(grid) - 1.5)
    shifts = _LOG_SCALE * np.sign(_SHIFTS) * -np.log1p(-np.abs(_SHIFTS))
    below = np.mean([np.interp(points + shift, grid, below) for shift in shifts], axis=0)
    # What lies outside belongs to the ends.
    below[0], below[-1] = 0.0, 1.0
    likely: Floats = _COUNTS_WEIGHT * np.diff(below) + (1 - _COUNTS_WEIGHT) * even
    return likely


@lru_cache(maxsize=64)
def distribution_draws(mechanism: SmoothDistribution) -> Floats:
    """Return evenly spread draws of one kind of smooth noise, in floating point: for intervals, never for noise."""
    even = (np.arange(DRAWS) + 0.5) / DRAWS
    inside = np.abs(2 * even - 1)  # P[|X| ≤ x]
    found = np.sign(even - 0.5) * _tail_quantiles(mechanism, 1 - inside)
    found = found[permute_draws(_NOISE_PERMUTATION)]
    found.setflags(write=False)
    return found


def _tail_quantiles(mechanism: SmoothDistribution, two_sided_quantile: Floats) -> Floats:
    """Return the x with P[|X| > x] = exceeded."""
    match mechanism:
        case Cauchy():
            return _power_quantiles(float(mechanism.gamma), 1.0, two_sided_quantile)
        case Student():
            degrees = float(mechanism.degrees)
            return math.sqrt(degrees) * _power_quantiles(2.0, (degrees + 1) / 2, two_sided_quantile)
        case PolyPlace() | LaplaceLogNormal():
            # A table of some, by logarithms: these have quantiles for one probability at a time.
            table = np.geomspace(two_sided_quantile.min(), two_sided_quantile.max(), 200)
            sizes = np.log([mechanism.two_sided_quantile(float(each)) for each in table])
            return np.exp(np.interp(np.log(two_sided_quantile), np.log(table), sizes))
        case _:
            raise TypeError(f"{mechanism!r} has no draws")


def _power_quantiles(power: float, exponent: float, two_sided_quantile: Floats) -> Floats:
    """Return the same for a density ∝ (1 + |x|^p)^−m: P[|X| > x] = I_w(m − 1/p, 1/p), w = 1/(1 + x^p)."""
    w = special.betaincinv(exponent - 1 / power, 1 / power, two_sided_quantile)
    found: Floats = ((1 - w) / w) ** (1 / power)
    return found
