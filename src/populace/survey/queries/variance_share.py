"""The part of a query's budget that shows how units of the design differ: the one with the least expected interval."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.survey.sums import STEPS
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance, half_width

# A smaller part would leave all to what is expected of the variance.
UNITS_SHARES = (Fraction(1, 4), Fraction(3, 8), Fraction(1, 2), Fraction(5, 8))


@lru_cache(maxsize=1024)
def choose_units_share(
    log_ratio: float,
    *,
    psus: int,
    degrees: int,
    pure: bool,
    deviation: float = 1.4,
    beside: Fraction = Fraction(0),
) -> tuple[Fraction, float]:
    """Return the part with the least expected interval, and its margin of error over the sampling deviation.

    `log_ratio` is ln of the sampling variance over that of the noise of an estimate that had the whole budget of its
    query, `deviation` that of the logarithm of the sampling variance before anything is asked, and `beside` the part
    of the budget that other errors take.

    >>> quiet, noisy = (choose_units_share(ratio, psus=60, degrees=30, pure=True)[1] for ratio in (8.0, -2.0))
    >>> 2 < quiet < 2.2 < noisy
    True
    """
    variance, power = math.exp(log_ratio), 2 if pure else 1
    widths = []
    for share in UNITS_SHARES:
        bias = psus / float(share) ** power
        spread = SamplingVariance(
            value=variance + bias,
            bias=bias,
            degrees=degrees,
            bias_degrees=degrees,
            expected=(variance, deviation),
        )
        noise = NoiseTerms(gaussian=1 / float(1 - share - beside) ** power)
        widths.append(half_width(spread, noise=noise))
    least = min(widths)
    return UNITS_SHARES[widths.index(least)], least / math.sqrt(variance)


def unit_noise(budget: Budget, share: Fraction) -> tuple[float, bool]:
    """Return the variance of the noise of one sum, in units of what a row can add, and whether it is Laplace noise."""
    noise = budget.sum_noise(share, sums=1)
    return float(noise.variance) / STEPS**2, isinstance(noise, DiscreteLaplace)
