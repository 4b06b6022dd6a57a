"""Quantiles and tails of numbers: how far the synthetic ones are from the real ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats
from populace.evaluation.scores.correlation_difference import NumberArrays
from populace.evaluation.scores.score import Direction, Score

PERCENTILES = np.arange(1, 100) / 100
TAIL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberDifference:
    """One column of numbers: mean difference of its quantiles in inter-quartile distances, and of its tails."""

    column: str
    quantiles: float
    tails: float


def find_quantiles(values: Floats, levels: Floats, *, weights: Floats | None = None) -> Floats:
    """Return quantiles: the smallest value with at least such a share of the rows at or below it.

    >>> find_quantiles(np.array([3.0, 1, 2, 4]), np.array([0.25, 0.5, 0.51])).tolist()
    [1.0, 2.0, 3.0]
    """
    order = np.argsort(values, kind="stable")
    share = np.ones(len(values)) if weights is None else weights[order]
    below = np.cumsum(share)
    # Sums of weights may miss a level by a rounding error.
    places = np.searchsorted(below, levels * below[-1] * (1 - 1e-12), side="left")
    found: Floats = values[order][np.minimum(places, len(values) - 1)]
    return found


def compare_numbers(
    real: Floats,
    synthetic: Floats,
    *,
    column: str,
    weights: tuple[Floats | None, Floats | None] = (None, None),
) -> NumberDifference | None:
    """Compare the numbers of one column; None where a file has none."""
    held = [~np.isnan(each) for each in (real, synthetic)]
    values = [each[inside] for each, inside in zip((real, synthetic), held, strict=True)]
    shares = [
        np.ones(len(v)) if w is None else w[inside]
        for v, w, inside in zip(values, weights, held, strict=True)
    ]
    if any(not each.sum() for each in shares):
        return None
    first, second = (find_quantiles(v, PERCENTILES, weights=w) for v, w in zip(values, shares, strict=True))
    low, high = find_quantiles(values[0], np.array([0.25, 0.75]), weights=shares[0])
    # Where half of the rows have one value, the distance of the outermost percentiles, and then the range, is the unit.
    widths = [high - low, first[-1] - first[0], values[0].max() - values[0].min(), 1.0]
    unit = next(float(width) for width in widths if width > 0)
    ends = find_quantiles(values[0], np.array([TAIL, 1 - TAIL]), weights=shares[0])
    tails = [_tail_shares(v, w, ends) for v, w in zip(values, shares, strict=True)]
    return NumberDifference(
        column=column,
        quantiles=float(np.abs(first - second).mean()) / unit,
        tails=float(np.abs(tails[0] - tails[1]).mean()),
    )


def _tail_shares(values: Floats, shares: Floats, ends: Floats) -> Floats:
    beyond = [float(shares[values <= ends[0]].sum()), float(shares[values > ends[1]].sum())]
    return np.array(beyond) / float(shares.sum())


def score_quantiles(
    real: NumberArrays,
    synthetic: NumberArrays,
    *,
    weights: tuple[Floats | None, Floats | None] = (None, None),
) -> tuple[list[Score], list[NumberDifference]]:
    """Return the scores of quantiles and tails, and what they are the means of."""
    compared = [compare_numbers(real[name], synthetic[name], column=name, weights=weights) for name in real]
    found = [each for each in compared if each is not None]
    if not found:
        return [], []
    scores = [
        Score(
            name="quantiles",
            title="Quantiles of numbers: mean difference of percentiles 1 to 99",
            value=math.fsum(each.quantiles for each in found) / len(found),
            direction=Direction.LOWER,
            scale="0 (the same quantiles) upwards, in inter-quartile distances of the real file",
            blind_to="how numbers depend on other columns, and values beyond the outermost percentiles",
        ),
        Score(
            name="tails",
            title="Tails of numbers: mean difference of the shares beyond the real 1st and 99th percentile",
            value=math.fsum(each.tails for each in found) / len(found),
            direction=Direction.LOWER,
            scale="0 (as many rows in both tails) to 1",
            blind_to="how far out the values of the tails lie",
        ),
    ]
    return scores, found
