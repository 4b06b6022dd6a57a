"""Quantiles from noisy counts in bins: Woodruff's interval of the share below one, turned into an interval of values.

Source: Woodruff 1952.
"""

from __future__ import annotations

from populace.survey.sums import Sum
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance, half_width
from populace.survey.variance.linearization import QueryTotals
from populace.survey.variance.quantiles import QuantileBins

# The quantile, its interval, sampling variance and noise of the share below it, and its slope by that share.
Quantile = tuple[float, tuple[float, float], SamplingVariance | None, NoiseTerms, float]


def woodruff_quantile(totals: QueryTotals, number: int, share: float, below: Sum | None) -> Quantile:
    """Return a quantile of the group of a number; `below` is the sum by psu, where it was asked for."""
    bins = QuantileBins.of(totals.question.query, totals.question.design.schema)
    counts, (size, _) = totals.totals[number], totals.size(number)
    value = bins.quantile(counts, share)
    gradient = (bins.below(counts, share) - share) / size
    # What lies inside a bin is a guess: two of them tell how good it is.
    guess = abs(value - bins.straight(counts, share))
    noise = totals.noise(gradient, number)
    spread = (
        totals.variance_below(gradient, number, below=below) if below else totals.spread(gradient, number)
    )
    half = half_width(spread, noise=noise)
    ends = [bins.quantile(counts, share + sign * half) for sign in (-1, 1)]
    # One unit of the share below is so many of the value.
    slope = (ends[1] - ends[0]) / (2 * half) if half else 0.0
    return value, (ends[0] - guess, ends[1] + guess), spread, noise, slope
