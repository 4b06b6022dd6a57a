"""A spine: the tree of geographic units that a hierarchical release counts, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Ints
from populace.core.errors import UsageError

ROOT = "all"


@dataclass(frozen=True, eq=False)
class Spine:
    """Units in levels, widest first; level 0 is the root alone, called "all".

    `parents[k][u]` is the number, in level k, of the parent of unit u of level k + 1. Units are numbered so that
    parents never decrease: the children of a unit are neighbours.

    >>> spine = Spine(("all", "county", "tract"), (np.array([0, 0]), np.array([0, 0, 1])))
    >>> spine.units(1), spine.ancestors(0).tolist(), spine.first_children(2).tolist()
    (2, [0, 0, 0], [0, 2])
    """

    levels: tuple[str, ...]
    parents: tuple[Ints, ...]

    def __post_init__(self) -> None:
        if len(self.levels) != len(self.parents) + 1 or not self.parents:
            raise UsageError(
                "a spine needs a list of parents for every level below the root.",
                hint="give at least one level",
            )
        above = 1
        for parents in self.parents:
            steps = np.diff(parents)
            if (
                not len(parents)
                or parents[0] != 0
                or parents[-1] != above - 1
                or not np.isin(steps, (0, 1)).all()
            ):
                raise UsageError(
                    "the units of a spine are not in order.",
                    hint="number units so that children of a unit are neighbours, and give every unit a child",
                )
            above = len(parents)

    @property
    def depth(self) -> int:
        """The number of levels, the root included."""
        return len(self.levels)

    def units(self, level: int) -> int:
        """Return the number of units of a level."""
        return 1 if level == 0 else len(self.parents[level - 1])

    @cached_property
    def leaves(self) -> int:
        """The number of smallest units."""
        return self.units(self.depth - 1)

    def ancestors(self, level: int, *, of_level: int | None = None) -> Ints:
        """Return the unit of a level that each smallest unit, or each unit of a level further down, lies in."""
        below = self.depth - 1 if of_level is None else of_level
        found: Ints = np.arange(self.units(below), dtype=np.int64)
        for parents in reversed(self.parents[level:below]):
            found = parents[found]
        return found

    def first_children(self, level: int) -> Ints:
        """Return the number of the first child, in this level, of each unit of the level above: for `reduceat`."""
        found: Ints = np.searchsorted(self.parents[level - 1], np.arange(self.units(level - 1)))
        return found

    def sum_children(self, values: npt.NDArray[np.generic], *, level: int) -> npt.NDArray[np.generic]:
        """Return the sums over children of values, or tables, of the units of a level: one for each unit above.

        >>> spine = Spine(("all", "county"), (np.array([0, 0, 0]),))
        >>> spine.sum_children(np.array([[1, 2], [3, 4], [5, 6]]), level=1).tolist()
        [[9, 12]]
        """
        summed: npt.NDArray[np.generic] = np.add.reduceat(values, self.first_children(level), axis=0)
        return summed


def number_paths(
    paths: Sequence[Sequence[str]], *, levels: Sequence[str]
) -> tuple[Spine, tuple[tuple[str, ...], ...]]:
    """Return the spine of units that are named by paths, and the id of every unit below the root, by level.

    A path is the ids of a smallest unit and of those above it, widest first; ids may repeat below different parents.
    Units are in the order of their sorted paths.

    >>> spine, ids = number_paths([("A", "1"), ("B", "1"), ("A", "2")], levels=("county", "tract"))
    >>> spine.parents[1].tolist(), ids
    ([0, 0, 1], (('A', 'B'), ('1', '2', '1')))
    """
    ordered = sorted(set(map(tuple, paths)))
    parents: list[Ints] = []
    ids: list[tuple[str, ...]] = []
    above: dict[tuple[str, ...], int] = {(): 0}
    for depth in range(1, len(levels) + 1):
        found = list(dict.fromkeys(path[:depth] for path in ordered))
        parents.append(np.array([above[path[:-1]] for path in found], dtype=np.int64))
        ids.append(tuple(path[-1] for path in found))
        above = {path: number for number, path in enumerate(found)}
    return Spine((ROOT, *levels), tuple(parents)), tuple(ids)
