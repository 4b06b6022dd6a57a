"""What can be asked of a table: a domain, public groupings of its codes, and marginals over both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from populace._native.kernels import count_columns
from populace.core.errors import UsageError

MAX_ESTIMATE_ROWS = 2**60
MAX_CANDIDATE_WEIGHT = 2**20

Clique = tuple[str, ...]
Counts = npt.NDArray[np.int64]
# What each code becomes: its group, class or set.
Lookup = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Domain(Mapping[str, int]):
    """The public sizes of the columns, in order: each column holds codes 0 … size − 1.

    >>> adult = Domain({"sex": 2, "age": 85})
    >>> adult.shape(("age", "sex")), adult.cells(("age", "sex"))
    ((85, 2), 170)
    """

    sizes: Mapping[str, int]

    def __getitem__(self, column: str) -> int:
        return self.sizes[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Return the shape of the table of counts over some columns."""
        return tuple(map(self.sizes.__getitem__, clique))

    def cells(self, clique: Iterable[str]) -> int:
        """Return the number of cells of the table of counts over some columns."""
        return math.prod(self.shape(clique))

    def group(self, groupings: Iterable[Grouping]) -> Domain:
        """Return the domain in which some columns are seen through groupings."""
        sizes = dict(self.sizes)
        for grouping in groupings:
            sizes[grouping.column] = grouping.size
        return Domain(sizes)


@dataclass(frozen=True, eq=True)
class Grouping:
    """A public map from the codes of one column to fewer groups: `groups[code]` is the group.

    Every code has exactly one group, so one row still falls into exactly one cell of a grouped marginal.

    >>> Grouping("age", (0, 0, 1, 2, 1)).size
    3
    """

    column: str
    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        found = set(self.groups)
        # Without gaps there are as many numbers as the largest says; counting up to it could take for ever.
        if not found or min(found) != 0 or max(found) != len(found) - 1:
            raise UsageError(
                f"the grouping of column {self.column!r} skips a group number.",
                hint="number the groups 0, 1, 2, … without gaps, one for every code",
            )

    @cached_property
    def size(self) -> int:
        """The number of groups."""
        return max(self.groups) + 1

    @cached_property
    def lookup(self) -> Lookup:
        """The map as an array: code → group."""
        return np.array(self.groups, dtype=np.int64)

    @cached_property
    def members(self) -> tuple[npt.NDArray[np.int64], ...]:
        """The codes of each group."""
        return tuple(np.flatnonzero(self.lookup == group) for group in range(self.size))


@dataclass(frozen=True, eq=True)
class LevelGrouping(Grouping):
    """The smallest units of a geography, grouped into the units of a level that they lie in."""

    level: str


@dataclass(frozen=True, eq=True)
class Marginal:
    """A question: how many rows fall into each combination of some columns, grouped where it says so.

    `Marginal(())` asks for the number of rows.

    >>> pair = Marginal(("age", "sex"), (Grouping("age", (0, 0, 1)),))
    >>> pair.shape(Domain({"sex": 2, "age": 3}))
    (2, 2)
    """

    clique: Clique
    groupings: tuple[Grouping, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.clique)) != len(self.clique):
            raise UsageError(f"marginal {self.clique} names a column twice.", hint="name each column once")
        grouped = [grouping.column for grouping in self.groupings]
        if not set(grouped) <= set(self.clique) or len(set(grouped)) != len(grouped):
            raise UsageError(
                f"marginal {self.clique} groups a column that it does not have, or one column twice.",
                hint="give at most one grouping for each of its own columns",
            )

    @classmethod
    def with_groupings(cls, clique: Clique, groupings: Mapping[str, Grouping]) -> Marginal:
        """Return the marginal of some columns, those that have a grouping seen through it."""
        return cls(clique, tuple(groupings[name] for name in clique if name in groupings))

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the shape of its table of counts."""
        if not self.groupings:
            return domain.shape(self.clique)
        seen = {grouping.column: grouping.size for grouping in self.groupings}
        return tuple(seen[column] if column in seen else domain[column] for column in self.clique)

    def grouping(self, column: str) -> Grouping | None:
        """Return how the marginal groups a column, or None where it sees the codes as they are."""
        return next((g for g in self.groupings if g.column == column), None)

    def __str__(self) -> str:
        levels = {each.column: each.level for each in self.groupings if isinstance(each, LevelGrouping)}
        return " × ".join(levels.get(name, name) for name in self.clique) or "number of rows"


def tabulate(marginal: Marginal, *, codes: Mapping[str, npt.NDArray[Any]], domain: Domain) -> Counts:
    """Count the rows in each cell of a marginal, exactly: rows that are public, synthetic or made up.

    >>> tabulate(Marginal(("a",)), codes={"a": np.array([0, 2, 2])}, domain=Domain({"a": 3}))
    array([1, 0, 2])
    """
    if not marginal.clique:
        return np.array(len(next(iter(codes.values()))), dtype=np.int64)
    columns = []
    for name in marginal.clique:
        column, grouping = codes[name], marginal.grouping(name)
        if grouping is not None:
            column = grouping.lookup.astype(np.min_scalar_type(grouping.size - 1))[column]
        columns.append(column if column.dtype.kind == "u" else column.astype(np.uint32))
    return count_columns(columns, sizes=marginal.shape(domain))


def cell_indices(marginal: Marginal, *, codes: Mapping[str, npt.NDArray[Any]], domain: Domain) -> Counts:
    """Return the number of the cell that each row lies in, cells being numbered in their order.

    >>> pair = Marginal(("a", "b"), (Grouping("a", (0, 0, 1)),))
    >>> cell_indices(pair, codes={"a": np.array([1, 2]), "b": np.array([1, 0])}, domain=Domain({"a": 3, "b": 2}))
    array([1, 2])
    """
    found = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
    for name, size in zip(marginal.clique, marginal.shape(domain), strict=True):
        column, grouping = codes[name], marginal.grouping(name)
        found = found * size + (column.astype(np.int64) if grouping is None else grouping.lookup[column])
    return found


@dataclass(frozen=True, eq=False)
class Candidates:
    """Marginals to choose from, each with the public estimate it is compared with, in whole rows.

    The score of a candidate is its public weight times the L1 distance between its exact counts and its estimate,
    less a public penalty. Estimates, penalties and weights are integers: one row then moves a score by exactly its
    weight, with no private rounding. Without weights each is 1.
    """

    marginals: tuple[Marginal, ...]
    estimates: tuple[Counts, ...]
    penalties: tuple[int, ...]
    weights: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.weights:
            object.__setattr__(self, "weights", (1,) * len(self.marginals))
        if not len(self.marginals) == len(self.estimates) == len(self.penalties) == len(self.weights):
            raise UsageError(
                f"{len(self.marginals)} candidates came with {len(self.estimates)} estimates, "
                f"{len(self.penalties)} penalties and {len(self.weights)} weights.",
                hint="give one of each per candidate",
            )
        # A view of somebody's array could change after it was checked.
        own = tuple(e if e.base is None else e.copy() for e in self.estimates)
        object.__setattr__(self, "estimates", own)
        for estimate, penalty, weight in zip(self.estimates, self.penalties, self.weights, strict=True):
            if estimate.dtype != np.int64 or type(penalty) is not int:
                raise UsageError("an estimate is not made of whole rows.", hint="round it to int64 first")
            if type(weight) is not int or not 1 <= weight <= MAX_CANDIDATE_WEIGHT:
                raise UsageError(
                    f"the weight of a candidate is {weight!r}.",
                    hint=f"give a whole number from 1 to {MAX_CANDIDATE_WEIGHT}",
                )
            # Sums stay far inside 64 bits, so that no private count can make a score wrap around.
            if (
                abs(penalty) > MAX_ESTIMATE_ROWS
                or weight * np.abs(estimate.astype(np.float64)).sum() > MAX_ESTIMATE_ROWS
            ):
                raise UsageError(
                    f"an estimate or penalty exceeds {MAX_ESTIMATE_ROWS} rows.",
                    hint="estimate tables of fewer rows",
                )
            estimate.setflags(write=False)
