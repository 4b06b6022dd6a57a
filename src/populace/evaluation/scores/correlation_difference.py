"""How far associations in two files differ: Pearson and Spearman correlations of numbers, Cramér's V of all pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.evaluation.scores.marginal_distance import Pair
from populace.evaluation.scores.score import Direction, Score
from populace.release.report.comparison import cramers_v

NumberArrays = Mapping[str, Floats]

# Fewer rows than these have no correlation worth a name.
MIN_ROWS = 3


def correlate(first: Floats, second: Floats, *, weights: Floats | None = None) -> float:
    """Return Pearson's correlation, 0 where one of the two is constant.

    >>> correlate(np.array([1.0, 2, 3]), np.array([2.0, 4, 6])), correlate(np.ones(3), np.arange(3.0))
    (1.0, 0.0)
    """
    share = np.ones(len(first)) if weights is None else weights
    total = float(share.sum())
    if len(first) < MIN_ROWS or not total:
        return 0.0
    left, right = (each - float((share * each).sum()) / total for each in (first, second))
    spread = math.sqrt(float((share * left**2).sum()) * float((share * right**2).sum()))
    if not spread:
        return 0.0
    return min(1.0, max(-1.0, float((share * left * right).sum()) / spread))


def rank_values(values: Floats, *, weights: Floats | None = None) -> Floats:
    """Return ranks from 1, equal values sharing the mean of theirs; a row takes as many ranks as it weighs.

    >>> rank_values(np.array([7.0, 3, 7])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, places = np.unique(values, return_inverse=True)
    taken = np.bincount(places, weights=weights)
    ranks: Floats = (np.cumsum(taken) - taken / 2 + 0.5)[places]
    return ranks


def correlate_pairs(
    numbers: NumberArrays, *, ranks: bool, weights: Floats | None = None
) -> dict[Pair, float]:
    """Return the correlation of every pair of columns over the rows that have both numbers."""
    found = {}
    for first, second in combinations(numbers, 2):
        both = ~(np.isnan(numbers[first]) | np.isnan(numbers[second]))
        left, right = numbers[first][both], numbers[second][both]
        held = None if weights is None else weights[both]
        if ranks:
            left, right = rank_values(left, weights=held), rank_values(right, weights=held)
        found[first, second] = correlate(left, right, weights=held)
    return found


def associate(table: npt.NDArray[Any]) -> float:
    """Return Cramér's V of a table of two axes; of one that was too large to keep whole there is none."""
    return cramers_v(table) if table.ndim == 2 else math.nan


def score_correlations(
    real: NumberArrays,
    synthetic: NumberArrays,
    *,
    weights: tuple[Floats | None, Floats | None] = (None, None),
) -> list[Score]:
    """Return the mean absolute differences of Pearson's and Spearman's correlations over all pairs of numbers."""
    if len(real) < 2:
        return []
    found = []
    for name, title, ranks in (
        ("correlation_pearson", "Pearson correlations: mean absolute difference", False),
        ("correlation_spearman", "Spearman correlations: mean absolute difference", True),
    ):
        first, second = (
            correlate_pairs(each, ranks=ranks, weights=w)
            for each, w in zip((real, synthetic), weights, strict=True)
        )
        found.append(
            Score(
                name=name,
                title=title,
                value=_mean([abs(first[pair] - second[pair]) for pair in first]),
                direction=Direction.LOWER,
                scale="0 (the same correlations) to 2",
                blind_to="dependence that is not "
                + ("monotone" if ranks else "linear")
                + ", columns that are no numbers, and the shares of values",
            )
        )
    return found


def score_associations(real: Mapping[Pair, float], synthetic: Mapping[Pair, float]) -> list[Score]:
    """Return the mean absolute difference of Cramér's V over all pairs of columns."""
    shown = [pair for pair in real if not math.isnan(real[pair] + synthetic[pair])]
    if not shown:
        return []
    return [
        Score(
            name="cramers_v",
            title="Cramér's V of pairs: mean absolute difference",
            value=_mean([abs(real[pair] - synthetic[pair]) for pair in shown]),
            direction=Direction.LOWER,
            scale="0 (the same strength of association) to 1",
            blind_to="which values go together, as long as the association is as strong, and the shares of values",
        )
    ]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
