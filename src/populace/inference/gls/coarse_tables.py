"""Tables that see a column in fewer groups than the model: what they add up to, and what they say of its groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np

from populace.core.marginals import Clique, Domain, Grouping, Lookup, Marginal
from populace.inference.factor import Table, sum_codes, sum_onto
from populace.measurements.measurements import Measurement
from populace.schema.conditions.rules import Allowed

# Spread over the model's groups a table must still be held; of a larger one the sums alone are used.
MAX_SPREAD_CELLS = 2**24


def common_refinement(variants: Sequence[Grouping]) -> Grouping:
    """Return the grouping that tells apart what any of some groupings of a column does, and nothing else.

    Where that is one of them, it is returned as it is.

    >>> common_refinement([Grouping("x", (0, 0, 1, 1)), Grouping("x", (0, 1, 1, 1))]).groups
    (0, 1, 2, 2)
    >>> common_refinement([Grouping("x", (1, 0, 0, 2)), Grouping("x", (0, 0, 0, 1))]).groups
    (1, 0, 0, 2)
    """
    groups = np.unique(np.stack([variant.lookup for variant in variants]), axis=1, return_inverse=True)[
        1
    ].reshape(-1)
    size = int(groups.max()) + 1
    same = [variant for variant in variants if variant.size == size]
    return same[0] if same else Grouping(variants[0].column, tuple(groups.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoarseTable:
    """Noisy counts over columns of which some are seen in fewer groups than the model has.

    `lookups` has for each column the table's group of every group of the model, or None where they are the same.
    `slopes` has for ordered ones how much each group of the model has of every group of the table: all of its own at
    the middle, and of its neighbour the more the nearer it is.
    """

    clique: Clique
    lookups: tuple[Lookup | None, ...]
    slopes: tuple[Table | None, ...]
    values: Table
    variance: float

    @property
    def even_variance(self) -> float:
        """The variance of a cell of the model if each cell of the table shares its own evenly among those in it."""
        sizes = [
            size if lookup is None else lookup.size
            for size, lookup in zip(self.values.shape, self.lookups, strict=True)
        ]
        return self.variance * self.values.size / math.prod(sizes)

    def sum_to_coarse(self, table: Table) -> Table:
        """Return a table over the model's groups as this one sees it."""
        for axis, lookup in enumerate(self.lookups):
            if lookup is not None:
                table = sum_codes(table, lookup, size=self.values.shape[axis], axis=axis)
        return table

    def possible(self, allowed: Allowed) -> Allowed:
        """Say of every cell whether a row can be in it, where the model's cells are known."""
        return np.asarray(self.sum_to_coarse(allowed.astype(np.float64)) > 0)

    def scale_to(self, table: Table, *, wanted: Table) -> Table:
        """Return a table over the model's groups scaled such that this one would see what is wanted.

        Inside each cell of this table the shares stay as they are (Deming and Stephan 1940) where columns have no
        order. Along those that have one, ratios run straight from the middle of a group to that of its neighbour: what
        grows with a column does not jump where its groups end.
        """
        have = self.sum_to_coarse(table)
        seen = (have > 0).astype(np.float64)
        ratio = np.divide(wanted, have, out=np.zeros(have.shape), where=have > 0)
        weight = self._interpolate(seen)
        sloped = (
            np.divide(self._interpolate(ratio), weight, out=np.zeros(table.shape), where=weight > 0) * table
        )
        there = self.sum_to_coarse(sloped)
        again = np.divide(wanted, there, out=np.zeros(there.shape), where=there > 0)
        return np.where(self._spread(there) > 0, sloped * self._spread(again), table * self._spread(ratio))

    def _spread(self, table: Table) -> Table:
        """Return for every cell of the model the entry of the cell of this table that it is in."""
        for axis, lookup in enumerate(self.lookups):
            if lookup is not None:
                table = table.take(lookup, axis=axis)
        return table

    def _interpolate(self, table: Table) -> Table:
        for axis, (lookup, slope) in enumerate(zip(self.lookups, self.slopes, strict=True)):
            if slope is not None:
                table = np.moveaxis(np.tensordot(slope, table, axes=(1, axis)), 0, axis)
            elif lookup is not None:
                table = table.take(lookup, axis=axis)
        return table


def split_coarse_tables(
    measurements: Iterable[Measurement],
    *,
    domain: Domain,
    groupings: Mapping[str, Grouping],
    ordered: Mapping[str, int] = MappingProxyType({}),
) -> tuple[tuple[Measurement, ...], tuple[CoarseTable, ...]]:
    """Part tables of several columns that see one of them in fewer groups than the model from all others.

    Such a table is also one of its other columns, with the noise of all cells that are summed: that part of it stands
    among the others. It is also one of fewer columns, coarse ones among them: these stand beside it, the smallest
    first, and those of different tables that see the same are one. `ordered` says how many codes of a column, the first
    ones, stand in an order.

    >>> from fractions import Fraction
    >>> pair = Marginal(("x", "y"), (Grouping("x", (0, 0, 1)),))
    >>> item = Measurement(pair, np.array([[5, 7], [1, 2]]), Fraction(4))
    >>> plain, coarse = split_coarse_tables([item], domain=Domain({"x": 3, "y": 2}), groupings={})
    >>> plain, coarse[0].lookups[0].tolist()
    ((Measurement(y, 2 cells, variance 8),), [0, 0, 1])
    """
    order = list(domain)
    seen = domain.group(groupings.values())
    plain: list[Measurement] = []
    tables: dict[Marginal, list[Measurement]] = {}
    for item in measurements:
        names = {own.column for own in item.marginal.groupings if own != groupings.get(own.column)}
        names = names if len(item.marginal.clique) > 1 else set()
        plain.append(_sum_to(item, [n for n in item.marginal.clique if n not in names]) if names else item)
        clique = sorted(item.marginal.clique, key=order.index)
        for size in range(2, len(clique) + 1) if names else ():
            for part in combinations(clique, size):
                if names & set(part) and seen.cells(part) <= MAX_SPREAD_CELLS:
                    table = _sum_to(item, part)
                    tables.setdefault(table.marginal, []).append(table)
    coarse = [_mean_coarse_table(marginal, same, groupings, ordered) for marginal, same in tables.items()]
    # The most precise one has the last word where tables see the same columns in different groups.
    return tuple(plain), tuple(sorted(coarse, key=lambda table: (len(table.clique), -table.variance)))


def _mean_coarse_table(
    marginal: Marginal,
    same: Sequence[Measurement],
    groupings: Mapping[str, Grouping],
    ordered: Mapping[str, int],
) -> CoarseTable:
    """Return the mean of tables that see the same, weighted by precision."""
    precision = sum(1 / float(item.variance) for item in same)
    values = sum((item.counts / float(item.variance) for item in same), np.zeros(same[0].counts.shape))
    lookups = [_group_lookup(groupings.get(name), marginal.grouping(name)) for name in marginal.clique]
    levels = [_count_ordered(groupings.get(name), ordered.get(name, 0)) for name in marginal.clique]
    return CoarseTable(
        clique=marginal.clique,
        lookups=tuple(lookups),
        slopes=tuple(
            None if lookup is None or not levels else interpolate_groups(lookup, levels=levels)
            for lookup, levels in zip(lookups, levels, strict=True)
        ),
        values=values / precision,
        variance=1 / precision,
    )


def _sum_to(item: Measurement, names: Sequence[str]) -> Measurement:
    """Return the table of some columns, in their order, that a table adds up to."""
    counts = sum_onto(item.counts, item.marginal.clique, names)
    kept = Marginal.with_groupings(tuple(names), {each.column: each for each in item.marginal.groupings})
    return Measurement(kept, counts, item.variance * (item.counts.size // counts.size))


def _group_lookup(model: Grouping | None, table: Grouping | None) -> Lookup | None:
    """Return the table's group of every group of the model, or None where they are the same."""
    if table is None or model == table:
        return None
    return table.lookup if model is None else table.lookup[[codes[0] for codes in model.members]]


def _count_ordered(model: Grouping | None, levels: int) -> int:
    """Return how many groups of the model, the first ones, hold nothing but ordered codes."""
    if model is None:
        return levels
    return next((n for n, codes in enumerate(model.members) if max(codes) >= levels), model.size)


def interpolate_groups(lookup: Lookup, *, levels: int) -> Table:
    """Return how much of every coarse group each fine one has, along a straight line between their middles.

    The first `levels` fine groups stand in an order; a coarse group that has others too is left to itself.

    >>> interpolate_groups(np.array([0, 0, 1, 1, 2]), levels=4).round(2).tolist()
    [[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    found = np.eye(int(lookup.max()) + 1)[lookup]
    whole = [
        group for group in dict.fromkeys(lookup[:levels].tolist()) if not (lookup[levels:] == group).any()
    ]
    middles = [float(np.flatnonzero(lookup == group).mean()) for group in whole]
    if len(whole) > 1 and middles == sorted(middles):
        codes = np.flatnonzero(np.isin(lookup, whole))
        found[codes] = 0.0
        for place, group in enumerate(whole):
            own = np.zeros(len(whole))
            own[place] = 1.0
            found[codes, group] = np.interp(codes, middles, own)
    return found
