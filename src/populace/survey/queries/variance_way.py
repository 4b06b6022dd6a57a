"""How sampling variances between PSUs are asked for: PSU by PSU, or as a few contrasts of all of them.

A sum for every PSU costs what one sum costs, and its noise enters the variance once for each. A contrast adds PSUs of
a stratum with weights that add up to 0, and has the sampling variance as its own: its square tells it with the noise
of one sum. R contrasts tell it R times over, for R sums. So few contrasts are best where noise is large, and every PSU
where it is small; public quantities decide before anything is asked. See docs/decisions/survey-errors.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from populace.core.array_types import Floats
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.survey.design.design import Design
from populace.survey.sums import STEPS
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance, half_width
from populace.survey.variance.design_variance import SampledUnits

# With fewer contrasts than the least, an interval rests on too few squares.
CONTRASTS = (3, 4, 6, 8, 12)
UNIT_SHARES = (Fraction(1, 4), Fraction(3, 8), Fraction(1, 2), Fraction(5, 8))
# Weights of contrasts are whole numbers of this part.
CONTRAST_UNIT = Fraction(1, 2**12)
_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceWay:
    """In how many contrasts PSUs are compared (None: PSU by PSU), and the part of a query's budget for it."""

    contrasts: int | None = None
    units: Fraction = Fraction(1, 2)

    def degrees(self, design_degrees: int) -> float:
        """Return the degrees of freedom of the variance: random contrasts are a little alike.

        >>> VarianceWay().degrees(29), round(VarianceWay(contrasts=4).degrees(29), 2)
        (29.0, 3.62)
        """
        if self.contrasts is None:
            return float(design_degrees)
        return self.contrasts * design_degrees / (design_degrees + self.contrasts - 1)


BY_PSU = VarianceWay()


@lru_cache(maxsize=1024)
def choose_variance_way(
    log_ratio: float,
    *,
    psus: int,
    degrees: int,
    largest: float,
    pure: bool,
    deviation: float = 1.2,
    beside: Fraction = Fraction(0),
) -> tuple[VarianceWay, float]:
    """Return the way with the least expected interval, and its margin of error over the sampling deviation.

    `log_ratio` is ln of the sampling variance over that of the noise of an estimate that had the whole budget of its
    query, `largest` the largest weight of a contrast, `deviation` that of the logarithm of the sampling variance before
    anything is asked, and `beside` the part of the budget that other errors take.

    >>> quiet, _ = choose_variance_way(8.0, psus=60, degrees=30, largest=1.0, pure=True)
    >>> noisy, _ = choose_variance_way(-2.0, psus=60, degrees=30, largest=1.0, pure=True)
    >>> quiet.contrasts, noisy.contrasts
    (None, 3)
    """
    variance, power = math.exp(log_ratio), 2 if pure else 1

    def width(way: VarianceWay, expected: tuple[float, float] | None) -> float:
        own = psus if way.contrasts is None else largest**2 * way.contrasts**power
        bias, free = own / float(way.units) ** power, way.degrees(degrees)
        spread = SamplingVariance(
            value=variance + bias, bias=bias, degrees=free, bias_degrees=free, expected=expected
        )
        return half_width(spread, noise=NoiseTerms(gaussian=1 / float(1 - way.units - beside) ** power))

    # How much is learnt about the variance decides about contrasts, not what is expected of it: that would favour
    # the way that learns least.
    counts = (None, *(each for each in CONTRASTS if each < degrees))
    best = min(counts, key=lambda each: width(VarianceWay(contrasts=each, units=UNIT_SHARES[0]), None))
    ways = [VarianceWay(contrasts=best, units=units) for units in UNIT_SHARES if units + beside < 1]
    widths = [width(way, (variance, deviation)) for way in ways]
    least = min(widths)
    return ways[widths.index(least)], least / math.sqrt(variance)


def unit_noise(budget: Budget, share: Fraction) -> tuple[float, bool]:
    """Return the variance of the noise of one sum, in units of what a row can add, and whether it is Laplace noise."""
    noise = budget.sum_noise(share, sums=1)
    return float(noise.variance) / STEPS**2, isinstance(noise, DiscreteLaplace)


def draw_contrasts(design: Design, count: int) -> Floats:
    """Return the weights of PSUs in so many contrasts (contrasts × PSUs): their squares have the variance as mean.

    In each stratum half of the PSUs are added and half subtracted, by a public draw; one of an odd number is left out.

    >>> from populace.schema.schema import Schema
    >>> design = Design(schema=Schema.from_sizes({"H": 1, "PSU": 2}), strata="H", psu="PSU")
    >>> np.abs(draw_contrasts(design, 2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    units = SampledUnits.of(design)
    strata, rng = units.strata, np.random.default_rng(_SEED)
    found = np.zeros((count, len(units.stratum)))
    for stratum, (factor, apart) in enumerate(zip(strata.factors, strata.apart, strict=True)):
        members = np.flatnonzero(units.stratum == stratum)
        pairs = len(members) // 2
        if apart:
            found[:, members] = math.sqrt(factor) * rng.choice([-1.0, 1.0], (count, len(members)))
        elif pairs:
            size = math.sqrt(factor * (len(members) - 1) / (2 * pairs))
            signs = np.resize([size, -size], 2 * pairs)
            for row in found:
                row[rng.permutation(members)[: 2 * pairs]] = signs
    return np.asarray(np.rint(found / float(CONTRAST_UNIT)) * float(CONTRAST_UNIT))
