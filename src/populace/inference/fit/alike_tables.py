"""Pairs that are alike, such as the same two columns of every member of a unit: what they say of each other.

Who has which code with which is taken to be much the same for all members, how many have it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from populace.core.marginals import Clique, Grouping
from populace.inference.factor import Table, sum_codes
from populace.inference.fit.denoise import denoise
from populace.inference.fit.raking import margin_sums, rake

# What a sum is mixed with, as a share of its rows: cells that other members never fill do not stay empty.
_INDEPENDENT_SHARE = 0.02
_ROUNDS = 20

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyPair:
    """The noisy counts of a pair, their variance, and what is known of it without them."""

    values: Table
    variance: float
    baseline: Table


def pool_alike(
    noisy: Mapping[Clique, NoisyPair],
    *,
    alike: Mapping[Clique, Clique],
    baseline: Callable[[Clique], Table],
    groupings: Mapping[str, Grouping],
    rng: np.random.Generator,
) -> dict[Clique, Table]:
    """Return, for the pairs of every kind of which some are measured, what all of these together say of each.

    The tables of one kind are summed and cleaned as one. Each pair then has the odds ratios of that sum, and the single
    columns and impossible cells of its own baseline.
    """
    kinds: dict[Clique, list[Clique]] = {}
    for pair, kind in alike.items():
        kinds.setdefault(kind, []).append(pair)
    found = {}
    for pairs in kinds.values():
        known = [pair for pair in pairs if pair in noisy]
        if known:
            first = known[0]
            values, without = (
                np.sum([_regroup(t, p, like=first, groupings=groupings) for p, t in each.items()], axis=0)
                for each in ({p: noisy[p].values for p in known}, {p: noisy[p].baseline for p in known})
            )
            deviation = sum(noisy[pair].variance for pair in known) ** 0.5
            whole = denoise(values, baseline=without, deviation=deviation, allowed=without > 0, rng=rng)
            for pair in pairs:
                seed = _regroup(whole, first, like=pair, groupings=groupings)
                found[pair] = _rake_to_baseline(seed, baseline(pair))
    return found


class SuccessivePairs:
    """Pairs of several kinds one after the other: what those before one say of it is the sum of their tables.

    The first of a kind has only itself. Nothing of a later one returns to an earlier one, so no count is used twice.
    """

    def __init__(self, kinds: Mapping[Clique, Clique], *, groupings: Mapping[str, Grouping]) -> None:
        self._kinds, self._groupings = kinds, groupings
        self._order = {pair: number for number, pair in enumerate(kinds)}
        self._sums: dict[Clique, tuple[Clique, Table]] = {}
        self._seen: set[Clique] = set()

    def sort(self, items: Iterable[_Item], *, clique_of: Callable[[_Item], Clique]) -> list[_Item]:
        """Return items with their pairs in order; what is of no kind comes first."""
        return sorted(items, key=lambda item: self._order.get(clique_of(item), -1))

    def add(self, table: Table, pair: Clique) -> None:
        """Let later pairs of the same kind know of a table."""
        kind = self._kinds.get(pair)
        if kind is None or pair in self._seen:
            return
        self._seen.add(pair)
        first, before = self._sums.get(kind, (pair, np.zeros(table.shape)))
        self._sums[kind] = first, before + _regroup(table, pair, like=first, groupings=self._groupings)

    def scale(self, baseline: Table, pair: Clique) -> Table:
        """Return a table with the odds ratios of those before it, and its own single columns and impossible cells."""
        before = self._sums.get(self._kinds.get(pair, ()))
        if before is None:
            return baseline
        seed = _regroup(before[1], before[0], like=pair, groupings=self._groupings)
        return _rake_to_baseline(seed, baseline)

    def fill(self, baseline: Callable[[Clique], Table]) -> dict[Clique, Table]:
        """Return what is known of the pairs that were not added."""
        return {
            pair: self.scale(baseline(pair), pair)
            for pair, kind in self._kinds.items()
            if kind in self._sums and pair not in self._seen
        }


def _rake_to_baseline(seed: Table, baseline: Table) -> Table:
    """Return the table with the odds ratios of one and the single columns and impossible cells of another."""
    mixed = seed / seed.sum() + _INDEPENDENT_SHARE * baseline / baseline.sum()
    mixed = np.where(baseline > 0, mixed, 0.0) * baseline.sum()
    return rake(mixed, [((axis,), margin_sums(baseline, (axis,))) for axis in range(2)], rounds=_ROUNDS)


def _regroup(table: Table, pair: Clique, *, like: Clique, groupings: Mapping[str, Grouping]) -> Table:
    """Return a table in the groups that a pair of other places has, the rows of a group shared out evenly."""
    for axis, (name, other) in enumerate(zip(pair, like, strict=True)):
        old, new = groupings.get(name), groupings.get(other)
        if (None if old is None else old.groups) == (None if new is None else new.groups):
            continue
        if old is not None:
            shares = 1 / np.bincount(old.lookup)[old.lookup]
            table = table.take(old.lookup, axis=axis) * (shares[:, None] if axis == 0 else shares)
        if new is not None:
            table = sum_codes(table, new.lookup, size=new.size, axis=axis)
    return table
