"""Cells of matching columns: which of them a subpopulation is made of, and which are joined, holding few rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.privacy.sensitivity.nn_imputation import MatchingSpace
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.schema import Schema

_MIN_ROWS_Z = 6


def cells_where(where: str | None, *, by: Marginal, schema: Schema) -> Truth:
    """Say for each cell whether its rows meet a condition; one that divides a cell is refused.

    >>> from populace.core.marginals import Grouping
    >>> by = Marginal(("AGE", "SEX"), (Grouping("AGE", (0, 0, 1, 1)),))
    >>> cells_where("AGE >= 2", by=by, schema=Schema.from_sizes({"AGE": 4, "SEX": 2})).tolist()
    [[False, False], [True, True]]
    """
    shape = by.shape(schema.domain)
    if where is None:
        return np.ones(shape, dtype=np.bool_)
    condition = schema.layout.condition(parse_condition(where), place="where")
    named = [name for name in by.clique if name in condition.variables]
    sizes = schema.domain.shape(named)
    if len(named) < len(condition.variables) or math.prod(sizes) > LIMITS.max_condition_cells:
        raise _cell_divided(where, by)
    codes = dict(zip(named, np.indices(sizes), strict=True))
    truth = np.broadcast_to(condition(codes), sizes)
    held, all_of = (_sum_by_group(each, named, by=by) for each in (truth, np.ones(sizes)))
    if np.any((held > 0) & (held < all_of)):
        raise _cell_divided(where, by)
    axes = tuple(number for number, name in enumerate(by.clique) if name not in named)
    return np.broadcast_to(np.expand_dims(held > 0, axes), shape)


def _sum_by_group(table: npt.ArrayLike, named: list[str], *, by: Marginal) -> Floats:
    """Add up the codes of each group, column by column."""
    found = np.asarray(table, dtype=np.float64)
    for axis, name in enumerate(named):
        if (grouping := by.grouping(name)) is not None:
            parts = [found.take(members, axis=axis).sum(axis=axis) for members in grouping.members]
            found = np.stack(parts, axis=axis)
    return found


def _cell_divided(where: str, by: Marginal) -> UsageError:
    return UsageError(
        f"{where!r} is not decided by the columns that missing values are matched by: {by}.",
        hint="match by the columns of the subpopulation as well, in groups that it does not divide",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedCells:
    """Cells of a subpopulation, joined: `numbers` gives each its group from 0 on."""

    cells: Ints
    numbers: Ints

    @property
    def sizes(self) -> Ints:
        """How many cells each group has."""
        return np.bincount(self.numbers)

    def sums(self, table: Floats) -> Floats:
        """Add up a table over the cells of each group."""
        return np.bincount(self.numbers, weights=table.ravel()[self.cells]).astype(np.float64)


def min_rows(cells: npt.ArrayLike, *, few: float, deviation: float) -> Floats:
    """Return how many rows groups of so many cells must hold: six deviations of their noise, and more than a few.

    >>> min_rows([1, 9], few=20.0, deviation=3.0).tolist()
    [20.0, 54.0]
    """
    return np.maximum(few, _MIN_ROWS_Z * deviation * np.sqrt(np.asarray(cells, dtype=np.float64)))


def merge_small_cells(
    inside: Truth, *, counts: Floats, space: MatchingSpace, few: float, deviation: float
) -> MergedCells:
    """Join cells to their nearest until noisy counts say that each group holds rows enough.

    The group that lacks most is joined to the nearest one, distances being those of its first cell. Only noisy counts
    and public places decide. With too few rows in all, one group is left.

    >>> line = MatchingSpace(sizes=(4,), ordered=(True,))
    >>> found = merge_small_cells(np.ones(4, bool), counts=np.array([30, 0, 12, 40.0]), space=line, few=20, deviation=2)
    >>> found.numbers.tolist()
    [0, 0, 1, 1]
    """
    cells = np.flatnonzero(inside)
    away = space.distances(cells, cells).astype(np.float64)
    np.fill_diagonal(away, math.inf)
    total, size = counts.ravel()[cells].astype(np.float64), np.ones(len(cells))
    group = np.arange(len(cells))
    alive = np.ones(len(cells), dtype=np.bool_)
    for _ in range(len(cells) - 1):
        short = total - min_rows(size, few=few, deviation=deviation)
        lowest = int(np.argmin(np.where(alive, short, math.inf)))
        if short[lowest] >= 0:
            break
        nearest = int(np.argmin(np.where(alive, away[lowest], math.inf)))
        total[nearest] += total[lowest]
        size[nearest] += size[lowest]
        group[group == lowest] = nearest
        alive[lowest] = False
    return MergedCells(cells=cells, numbers=np.unique(group, return_inverse=True)[1])
