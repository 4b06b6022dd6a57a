"""How a budget is best shared out over noisy tables, and which tables are worth a share of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_ROUNDS = 300
_AGAIN = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """What errors in single columns cost: weighted rows of L1 error per standard deviation of the noise.

    `alone` is the cost of codes that stand for themselves in pairs, so that pairs tell of them too; `merged` that of
    codes that share a group there. `known` is the precision (1 / variance) that earlier tables have, `sizes` the
    number of groups.
    """

    alone: Floats
    merged: Floats
    known: Floats
    sizes: Integers


def allocate(costs: Floats, *, ends: Integers, columns: Columns, budget: float) -> tuple[Floats, Floats]:
    """Return the precision of each pair and of each column that makes the sum of errors least.

    A pair of cost k measured with precision q errs by k/√q. A column errs by alone/√(known + own + from pairs) +
    merged/√(known + own): a pair with precision q tells of each of its columns with precision q / size of the other.
    `ends` are the numbers of each pair's columns. The precisions sum to the budget; since costs are convex in them,
    multiplying each by the root of what a little more of it would gain leads to the best.
    """
    count = len(costs)
    start = np.concatenate([costs, columns.alone + columns.merged])
    shares = np.maximum(start, 1e-9) ** (2 / 3)
    shares *= budget / shares.sum()
    firsts, seconds = ends[:, 0], ends[:, 1]
    told_first, told_second = 1 / columns.sizes[seconds], 1 / columns.sizes[firsts]
    for _ in range(_ROUNDS):
        own = columns.known + shares[count:]
        joint = own.copy()
        np.add.at(joint, firsts, shares[:count] * told_first)
        np.add.at(joint, seconds, shares[:count] * told_second)
        gain = 0.5 * columns.alone * joint**-1.5
        gains = np.concatenate(
            [
                0.5 * costs * np.maximum(shares[:count], 1e-300) ** -1.5
                + gain[firsts] * told_first
                + gain[seconds] * told_second,
                gain + 0.5 * columns.merged * own**-1.5,
            ]
        )
        shares *= np.sqrt(gains)
        shares *= budget / shares.sum()
    return shares[:count], shares[count:]


def worth_measuring(
    gains: Floats, costs: Floats, *, ends: Integers, columns: Columns, budget: float
) -> Integers:
    """Return the numbers of the pairs that are worth measuring, those that gain most for their cost first.

    A pair gains what it is away from what is known without it; measured, it errs by its cost over the root of its
    precision. When precisions are shared out in the best way, tables of costs kᵢ err by (Σ kᵢ^⅔)^1.5 / √budget
    together, columns included: the pairs that are taken are a prefix, by gain over k^⅔, of the largest balance.
    """
    weights = costs ** (2 / 3)
    hopeful = np.flatnonzero(gains > 0)
    order = hopeful[np.argsort(-gains[hopeful] / weights[hopeful], kind="stable")]
    least = float(((columns.alone + columns.merged) ** (2 / 3)).sum())

    def prefix(base: float) -> Integers:
        spent = np.concatenate([[base], base + np.cumsum(weights[order])]) ** 1.5 / budget**0.5
        balance = np.concatenate([[0.0], np.cumsum(gains[order])]) - spent
        return order[: int(np.argmax(balance))]

    chosen = prefix(least)
    for _ in range(_AGAIN):
        if chosen.size:
            # Pairs tell of columns as well, so these may need less than they would alone.
            _, own = allocate(costs[chosen], ends=ends[chosen], columns=columns, budget=budget)
            part = min(float(own.sum()) / budget, 1 - 1e-6)
            chosen = prefix(min(least, float(weights[chosen].sum()) * part / (1 - part)))
    return chosen


def levels(precisions: Sequence[float], *, per_double: int = 3) -> list[list[int]]:
    """Return which tables share a level of noise: those whose precisions are alike, the most precise first.

    >>> levels([1.0, 8.0, 1.1, 0.0])
    [[1], [0, 2]]
    """
    found: dict[int, list[int]] = {}
    for number, precision in enumerate(precisions):
        if precision > 0:
            found.setdefault(round(float(np.log2(precision)) * per_double), []).append(number)
    return [found[level] for level in sorted(found, reverse=True)]
