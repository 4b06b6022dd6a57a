"""Public marginals that the integer tables of a hierarchy must have: of the whole by any columns, of units by nested.

Below the root the columns of one known marginal are among those of the next. Then the chain of column sets along which
tables are shared out can begin with them: a unit's known marginal is the first that it gets, and what is left are the
transportation problems of every other table. The root alone may have known marginals that overlap; its table is found
by one integer program (HiGHS), which also says, before anything is spent, whether there is a table at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import InternalError, SchemaError
from populace.core.spine import Spine

# The squared error of a cell, as slopes: of its first step away from the estimate, of the next ones, and of all others.
_SLOPES, _WIDTHS = (1.0, 5.0, 20.0), (1.0, 3.0, np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownMarginal:
    """Counts of the units of a level by some columns, which are numbered: (units, *codes)."""

    level: int
    columns: tuple[int, ...]
    counts: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownTables:
    """All marginals of a hierarchy that are public, beside totals.

    >>> spine = Spine(("all", "county"), (np.array([0, 0]),))
    >>> sexes = KnownMarginal(level=1, columns=(1,), counts=np.array([[3, 1], [0, 2]]))
    >>> known = KnownTables(spine=spine, shape=(3, 2), items=(sexes,))
    >>> known.first_columns((0, 1)), known.at_level(0, axes=(1, 0)).tolist()
    ((1, 0), [[3, 3]])
    """

    spine: Spine
    shape: tuple[int, ...]
    items: tuple[KnownMarginal, ...] = ()

    def first_columns(self, order: Sequence[int]) -> tuple[int, ...]:
        """Return an order of the chain in which the columns of known marginals of units come first."""
        below = sorted((item for item in self.items if item.level), key=lambda item: len(item.columns))
        found = [column for item in below for column in sorted(item.columns)]
        return tuple(dict.fromkeys([*found, *order]))

    def at_level(self, level: int, *, axes: Sequence[int]) -> Ints | None:
        """Return the largest marginal of a level that is known, or follows from one below: (units, cells of a prefix).

        `axes` is the order of the chain; None where nothing but a total is known.
        """
        held = [item for item in self.items if item.level >= max(1, level)]
        if not held:
            return None
        largest = max(held, key=lambda item: (len(item.columns), -item.level))
        wanted = [column for column in axes if column in largest.columns]
        order = [0, *(1 + largest.columns.index(column) for column in wanted)]
        counts = self._sum_up(largest, level).transpose(order)
        return np.ascontiguousarray(counts).reshape(len(counts), -1)

    def _sum_up(self, item: KnownMarginal, level: int) -> Ints:
        found = np.zeros((self.spine.units(level), *item.counts.shape[1:]), dtype=np.int64)
        np.add.at(found, self.spine.ancestors(level, of_level=item.level), item.counts)
        return found

    def check(self, possible: Truth) -> None:
        """Refuse marginals that no table of the possible cells has; `possible` has one axis."""
        cells = np.unravel_index(np.arange(len(possible)), self.shape)
        for item in self.items:
            places = np.ravel_multi_index([cells[column] for column in item.columns], item.counts.shape[1:])
            may = np.bincount(places, weights=possible, minlength=item.counts[0].size) > 0
            if item.counts.reshape(len(item.counts), -1)[:, ~may].any():
                raise SchemaError(
                    "[[totals]] count somebody in cells that are structural zeros.",
                    hint="take these counts, or the zeros, out of the schema",
                )
        if self.items and self._solve(np.zeros(len(possible)), possible, weigh=False) is None:
            raise SchemaError(
                "there is no table with all these [[totals]] and structural zeros.",
                hint="take out one of the [[totals]], or a zero",
            )

    def solve_root(self, targets: Floats, *, possible: Truth) -> Ints:
        """Return the integer table of the root that has all known marginals, close to estimates; one axis each."""
        found = self._solve(targets, possible, weigh=True)
        if found is None:
            raise InternalError("the table of the root could not be found.")
        return found

    def _solve(self, targets: Floats, possible: Truth, *, weigh: bool) -> Ints | None:
        """Return a table with the known marginals; weighed, a near one: cell = estimate + steps up − steps down."""
        from scipy import sparse
        from scipy.optimize import Bounds, LinearConstraint, milp

        kept = np.flatnonzero(possible)
        cells = np.unravel_index(kept, self.shape)
        rows, wanted = [], []
        for item in self.items:
            counts = self._sum_up(item, 0)[0]
            places = np.ravel_multi_index([cells[column] for column in item.columns], counts.shape)
            ones = np.ones(len(kept))
            rows.append(sparse.csr_array((ones, (places, np.arange(len(kept)))), (counts.size, len(kept))))
            wanted.append(counts.ravel())
        base = np.rint(np.maximum(targets[kept], 0.0)) if weigh else np.zeros(len(kept))
        steps = 2 * len(_SLOPES) if weigh else 1
        signs = [1.0, -1.0] * len(_SLOPES) if weigh else [1.0]
        sums = sparse.vstack(rows).tocsr()
        matrix = sparse.hstack([sign * sums for sign in signs])
        goal = np.concatenate(wanted) - sums @ base
        constraints = [LinearConstraint(matrix, goal, goal)]
        high = np.full((steps, len(kept)), np.inf)
        cost = np.zeros((steps, len(kept)))
        if weigh:
            left = base.copy()
            for place, (slope, width) in enumerate(zip(_SLOPES, _WIDTHS, strict=True)):
                high[2 * place] = width
                # No cell goes below 0: steps down end there.
                high[2 * place + 1] = np.minimum(width, left)
                left = left - high[2 * place + 1]
                cost[2 * place : 2 * place + 2] = slope
        found = milp(
            cost.ravel(),
            integrality=np.ones(cost.size),
            bounds=Bounds(np.zeros(cost.size), high.ravel()),
            constraints=constraints,
        )
        if found.x is None:
            return None
        moves = np.rint(found.x).reshape(steps, len(kept))
        table = np.zeros(len(possible), dtype=np.int64)
        table[kept] = (base + np.array(signs) @ moves).astype(np.int64)
        return table
