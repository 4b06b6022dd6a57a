"""An order for the groups of every column, in which columns rise and fall together as far as they can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats

Order = npt.NDArray[np.intp]
# For each other column: its number, what the pair is beyond independence, and the variance of noise in a cell.
Residuals = Sequence[tuple[int, Floats, float]]

_SWEEPS = 8
# Shares below this are taken for it where they divide.
_MIN_SHARE = 1e-4


def optimal_orders(
    shares: Sequence[Floats],
    tables: Mapping[tuple[int, int], Floats],
    *,
    noise: Mapping[tuple[int, int], float],
) -> list[Order]:
    """Return for every column its groups from lowest to highest.

    `tables` are shares of pairs of columns with noise of a deviation `noise` in each cell. In turn the groups of each
    column are given the scores Σ r·E[other's score | group], r the correlation of scores, which make the sum of squared
    correlations largest while other columns stay. A group of which little is known stays in the middle. First scores
    are free. Then, as behind a copula, they are normal scores of places, from the order in the schema and from that of
    the free ones: an order is kept if the sum, without what noise adds to it, rises, and the better end is returned.
    Columns of two groups keep their order, and one that would run against the schema is turned around.
    Source: optimal scaling in the manner of correspondence analysis (Benzécri 1973; Gifi 1990); scores by rank, and the
    treatment of noise, are ours.
    """
    start = [normal_scores(each) for each in shares]
    beyond: dict[int, list[tuple[int, Floats, float]]] = {place: [] for place in range(len(shares))}
    for (one, other), table in tables.items():
        rest, variance = table - np.outer(shares[one], shares[other]), noise[one, other] ** 2
        beyond[one].append((other, rest, variance))
        beyond[other].append((one, rest.T, variance))
    free = list(start)
    for _ in range(_SWEEPS):
        for place, others in beyond.items():
            if len(shares[place]) > 2:
                free[place] = _standardize(
                    _best_scores(free[place], shares[place], others, free), shares[place]
                )
    ends = [_improve_orders(first, shares, beyond) for first in (start, [*map(_rank_scores, free, shares)])]
    scores = max(
        ends, key=lambda end: sum(_squared_correlations(end[place], beyond[place], end) for place in beyond)
    )
    return [
        np.argsort(-score if shares[place] @ (score * start[place]) < 0 else score, kind="stable")
        for place, score in enumerate(scores)
    ]


def normal_scores(shares: Floats) -> Floats:
    """Return scores of groups in their order: normal quantiles of their middles, of mean 0 and variance 1.

    >>> normal_scores(np.array([0.25, 0.5, 0.25])).round(3)
    array([-1.414,  0.   ,  1.414])
    """
    from scipy.special import ndtri

    scores = ndtri(np.clip(np.cumsum(shares) - shares / 2, 1e-6, 1 - 1e-6))
    # Groups without a share are told apart all the same.
    return _standardize(scores + 1e-9 * np.arange(len(scores)), shares)


def _improve_orders(
    first: Sequence[Floats], shares: Sequence[Floats], beyond: Mapping[int, Residuals]
) -> list[Floats]:
    """Return normal scores in better and better orders, until none rises."""
    scores, rises = list(first), True
    for _ in range(_SWEEPS):
        if not rises:
            break
        rises = False
        for place, others in beyond.items():
            if len(shares[place]) > 2:
                moved = _rank_scores(
                    _best_scores(scores[place], shares[place], others, scores), shares[place]
                )
                if _squared_correlations(moved, others, scores) > _squared_correlations(
                    scores[place], others, scores
                ):
                    scores[place], rises = moved, True
    return scores


def _rank_scores(scores: Floats, shares: Floats) -> Floats:
    """Return normal scores in the order of given ones."""
    order = np.argsort(scores, kind="stable")
    found = np.empty(len(scores))
    found[order] = normal_scores(shares[order])
    return found


def _standardize(scores: Floats, shares: Floats) -> Floats:
    centred = scores - shares @ scores
    spread = float(np.sqrt(shares @ centred**2))
    return np.asarray(centred / spread) if spread > 0 else np.asarray(centred)


def _best_scores(own: Floats, shares: Floats, others: Residuals, scores: Sequence[Floats]) -> Floats:
    """Return the best scores of a column's groups while other columns stay, or its own if noise is all there is."""
    sums, spread = np.zeros(len(own)), 0.0
    for other, rest, variance in others:
        towards = rest @ scores[other]
        among = variance * float(scores[other] @ scores[other])
        together = float(own @ towards)
        together *= max(0.0, 1 - among * float(own @ own) / max(together**2, 1e-300))
        sums += together * towards
        spread += together**2 * among
    weights = np.maximum(shares, _MIN_SHARE)
    means, doubts = sums / weights, spread / weights**2
    means -= np.average(means, weights=weights)
    signal = float(np.average(means**2 - doubts, weights=weights))
    if signal <= 0:
        return own
    return np.asarray(means * signal / (signal + doubts))


def _squared_correlations(own: Floats, others: Residuals, scores: Sequence[Floats]) -> float:
    """Return the sum of a column's squared correlations with others, less what noise adds to it on average."""
    return sum(
        float(own @ rest @ scores[other]) ** 2
        - variance * float(own @ own) * float(scores[other] @ scores[other])
        for other, rest, variance in others
    )
