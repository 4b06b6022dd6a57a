"""How a budget is best shared out over noisy tables, and which tables are worth a share of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from types import MappingProxyType

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique, Domain

_ROUNDS = 300
# A round that moves no share by more than this part of the budget is the last one.
_CONVERGED = 1e-6
_REPEATS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnCosts:
    """What errors in single columns cost: weighted rows of L1 error per standard deviation of the noise.

    `alone` is the cost of codes that stand for themselves in pairs, so that pairs tell of them too; `merged` that of
    codes that share a group there. `known` is the precision (1 / variance) that earlier tables have.
    """

    alone: Floats
    merged: Floats
    known: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrecisionMap:
    """What tables tell of smaller ones: table `of[i]` tells of `about[i]` with `part[i]` of its own precision."""

    of: Ints
    about: Ints
    part: Floats

    def known_precisions(self, precisions: Floats, *, count: int) -> Floats:
        """Return the precision with which each of `count` smaller tables is known from all tables together."""
        known_precisions = precisions[self.of] * self.part
        return np.bincount(self.about, weights=known_precisions, minlength=count).astype(
            np.float64, copy=False
        )

    def table_gains(self, gains: Floats, *, count: int) -> Floats:
        """Return what a little more precision of each table gains, from gains in the precision of smaller ones."""
        table_gains = gains[self.about] * self.part
        return np.bincount(self.of, weights=table_gains, minlength=count).astype(np.float64, copy=False)


def map_precisions(
    tables: Sequence[Clique],
    smaller: Sequence[Clique],
    *,
    domain: Domain,
    coarse: Mapping[Clique, Domain] = MappingProxyType({}),
) -> PrecisionMap:
    """Return what tables tell of smaller ones, which are sums of their cells: the more cells, the less precise.

    `coarse` has tables that see their columns in fewer codes than the domain: of finer ones they do not tell.

    >>> found = map_precisions([("a", "b"), ("b",)], [("a",), ("b",)], domain=Domain({"a": 2, "b": 5}))
    >>> found.of.tolist(), found.about.tolist(), found.part.tolist()
    ([0, 0, 1], [0, 1, 1], [0.2, 0.5, 1.0])
    """
    number = {frozenset(clique): i for i, clique in enumerate(smaller)}
    sizes = sorted({len(clique) for clique in smaller})
    found = []
    for i, table in enumerate(tables):
        seen = coarse.get(table, domain)
        for part in chain.from_iterable(combinations(table, size) for size in sizes):
            if frozenset(part) in number:
                at = number[frozenset(part)]
                wanted = coarse.get(smaller[at], domain)
                if all(wanted[name] <= seen[name] for name in part):
                    found.append((i, at, wanted.cells(part) / seen.cells(table)))
    of, about, part = zip(*found, strict=True) if found else ((), (), ())
    return PrecisionMap(
        of=np.array(of, dtype=np.int64),
        about=np.array(about, dtype=np.int64),
        part=np.array(part, dtype=np.float64),
    )


def allocate(
    costs: Floats,
    *,
    tables: int,
    pairs: PrecisionMap,
    singles: PrecisionMap,
    columns: ColumnCosts,
    budget: float,
    known: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the precision of each table and of each column by itself that makes the sum of errors least.

    A pair of cost k that is known with precision q errs by k/√q; a column errs by alone/√(known + own + from tables)
    + merged/√(known + own). What tables tell of pairs and of single columns is their reach. The precisions sum to the
    budget; since errors are convex in them, multiplying each by the root of what a little more of it would gain leads
    to the best. `known` are precisions that tables have from earlier releases: they come on top of the budget.
    """
    count = len(costs)
    before_run = np.zeros(tables) if known is None else known
    start = pairs.table_gains(costs, count=tables) + 1e-9
    shares = np.concatenate([start, columns.alone + columns.merged + 1e-9]) ** (2 / 3)
    shares *= budget / shares.sum()
    for _ in range(_ROUNDS):
        own, held = columns.known + shares[tables:], before_run + shares[:tables]
        joint = own + singles.known_precisions(held, count=len(own))
        gain = 0.5 * columns.alone * joint**-1.5
        known_precisions = np.maximum(pairs.known_precisions(held, count=count), 1e-300)
        gains = np.concatenate(
            [
                pairs.table_gains(0.5 * costs * known_precisions**-1.5, count=tables)
                + singles.table_gains(gain, count=tables),
                gain + 0.5 * columns.merged * own**-1.5,
            ]
        )
        before, shares = shares, shares * np.sqrt(gains)
        shares *= budget / shares.sum()
        if np.abs(shares - before).max() <= _CONVERGED * budget:
            break
    return shares[:tables], shares[tables:]


def choose_best_prefix(gains: Floats, costs: Floats, *, budget: float, beside: float = 0.0) -> Ints:
    """Return the numbers of the tables that are worth measuring, those that gain most for their cost first.

    A table gains what it is away from what is known without it; measured, it errs by its cost over the root of its
    precision. When precisions are shared out in the best way, tables of costs kᵢ err by (Σ kᵢ^⅔)^1.5 / √budget
    together: the tables that are taken are a prefix, by gain over k^⅔, of the largest balance. `beside` is Σ k^⅔ of
    what is measured in any case.
    """
    weights = costs ** (2 / 3)
    hopeful = np.flatnonzero(gains > 0)
    order = hopeful[np.argsort(-gains[hopeful] / weights[hopeful], kind="stable")]
    spent = np.concatenate([[beside], beside + np.cumsum(weights[order])]) ** 1.5 / budget**0.5
    balance = np.concatenate([[0.0], np.cumsum(gains[order])]) - spent
    return order[: int(np.argmax(balance))]


def choose_pairs(
    gains: Floats,
    costs: Floats,
    *,
    singles: PrecisionMap,
    columns: ColumnCosts,
    budget: float,
    known: Floats | None = None,
) -> Ints:
    """Return the numbers of the pairs that are worth measuring beside all columns.

    With pairs `known` from earlier releases it chooses as one run of all budgets would: what they bought is theirs.
    """
    least = float(((columns.alone + columns.merged) ** (2 / 3)).sum())
    known = np.zeros(len(costs)) if known is None else known
    whole = budget + float(known.sum())
    chosen = choose_best_prefix(gains, costs, budget=whole, beside=least)
    for _ in range(_REPEATS):
        if chosen.size:
            # Pairs tell of columns as well, so these may need less than they would alone.
            each = np.arange(len(chosen))
            _, own = allocate(
                costs[chosen],
                tables=len(chosen),
                pairs=PrecisionMap(of=each, about=each, part=np.ones(len(chosen))),
                singles=_restrict_map(singles, chosen),
                columns=columns,
                budget=budget,
                known=known[chosen],
            )
            part = min(float(own.sum()) / whole, 1 - 1e-6)
            needed = float((costs[chosen] ** (2 / 3)).sum()) * part / (1 - part)
            chosen = choose_best_prefix(gains, costs, budget=whole, beside=min(least, needed))
    return chosen


def _restrict_map(whole: PrecisionMap, chosen: Ints) -> PrecisionMap:
    """Return the reach of some tables, numbered in their order."""
    place = np.full(int(max(whole.of.max(initial=-1), chosen.max(initial=-1))) + 1, -1)
    place[chosen] = np.arange(len(chosen))
    kept = place[whole.of] >= 0
    return PrecisionMap(of=place[whole.of][kept], about=whole.about[kept], part=whole.part[kept])


def group_by_precision(precisions: Sequence[float], *, per_double: int = 3) -> list[list[int]]:
    """Return which tables share a level of noise: those whose precisions are alike, the most precise first.

    >>> group_by_precision([1.0, 8.0, 1.1, 0.0])
    [[1], [0, 2]]
    """
    found: dict[int, list[int]] = {}
    for number, precision in enumerate(precisions):
        if precision > 0:
            found.setdefault(round(float(np.log2(precision)) * per_double), []).append(number)
    return [found[level] for level in sorted(found, reverse=True)]
