"""How cells of rows move towards tables: what leaving a code costs, and which code costs least to take instead.

Structure comes as numbers, so that the compiled twins of these two functions (`_native/kernels.py`) serve any
set of tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints

Codes = npt.NDArray[np.unsignedinteger]

# Half the memory: steps of one row stay exact up to 16 million, which a deficit in reach of any move never is.
Deficits = npt.NDArray[np.float32]


class CellMovePlan(NamedTuple):
    """Where tables and rules lie in flat arrays.

    A table over k columns is held k times, each time with another of its columns as the last axis: k places. A row of
    `places` is the number of that column, where the table begins, and two other columns with their strides (0 where
    there are none). Table t has the places `tables[t]` … `tables[t + 1] − 1`; `ends`, from `starts[a]` to
    `starts[a + 1] − 1`, lists the places that end in column a. Rules see codes through `classes`, which begin at
    `class_starts` for every column. Rule r has a table of 0 and 1 in `allowed` from `corners[r]` on, and the columns
    and strides in `members` from `rules[r]` on; `guards`, from `watched[a]` on, lists the rules of column a.
    """

    sizes: Ints
    places: Ints
    table_of: Ints
    tables: Ints
    starts: Ints
    ends: Ints
    class_starts: Ints
    classes: Ints
    allowed: Ints
    corners: Ints
    rules: Ints
    members: Ints
    watched: Ints
    guards: Ints


def screen_rows(codes: Codes, deficits: Deficits, plan: CellMovePlan, slope: float, leaving: Floats) -> None:
    """Write into `leaving` what it costs each row (an axis of `codes` and of `leaving`) to leave each column's code.

    One row less in a cell of deficit d, target less rows, costs slope · (1 + 2d), cut to −1 … 1.
    """
    wide = codes.astype(np.int64)
    leaving[:] = 0.0
    for here in map(slice, plan.tables[:-1], plan.tables[1:]):
        own, offset, second, stride, third, step = plan.places[here.start]
        cells = offset + wide[own] + stride * wide[second] + step * wide[third]
        costs = _cost(slope, deficits[cells])
        for column in plan.places[here, 0]:
            leaving[column] += costs


def move_rows(
    codes: Codes,
    rows: Ints,
    leaving: Floats,
    bars: Floats,
    deficits: Deficits,
    plan: CellMovePlan,
    slope: float,
    moved: Ints,
) -> None:
    """Visit some rows in order and give cells other codes where that brings the tables nearer to their targets.

    A column is looked at where leaving its code seemed to cost less than the column's bar, and still does. The cell
    takes the cheapest code that no rule forbids, if leaving and entering together cost less than nothing: one row more
    in a cell of deficit d costs slope · (1 − 2d), cut like one row less. `moved` counts the moves of every
    column.
    """
    for number in rows:
        row = codes[:, number].astype(np.int64)
        for column, size in enumerate(plan.sizes):
            if leaving[column, number] >= bars[column]:
                continue
            ends = plan.ends[plan.starts[column] : plan.starts[column + 1]]
            cells = _cells(plan.places[ends], row) - row[column]
            held = int(row[column])
            costs = _cost(slope, deficits[cells + held])
            # A running sum adds in the order of the compiled loop.
            left = np.cumsum(costs)[-1] if costs.size else 0.0
            if left >= bars[column]:
                continue
            entering = _cost(slope, -deficits[cells[:, None] + np.arange(size)]).sum(axis=0)
            # Rounding must not let a cell go to and fro.
            entering[held] = -left - 1e-6
            chosen = int(np.argmin(entering))
            while entering[chosen] < entering[held] and not _keeps_rules(row, column, chosen, plan):
                entering[chosen] = np.inf
                chosen = int(np.argmin(entering))
            if entering[chosen] >= entering[held]:
                continue
            touched = plan.places[np.isin(plan.table_of, plan.table_of[ends])]
            cells = _cells(touched, row)
            inner = np.where(touched[:, 2] == column, touched[:, 3], touched[:, 5])
            strides = np.where(touched[:, 0] == column, 1, inner)
            deficits[cells] += 1.0
            deficits[cells + strides * (chosen - held)] -= 1.0
            row[column] = codes[column, number] = chosen
            moved[column] += 1


def _cost(slope: float, deficits: Deficits) -> Floats:
    """Return what one row less costs in cells; one row more costs the same at the opposite deficit."""
    return np.clip(slope * (1.0 + 2.0 * deficits.astype(np.float64)), -1.0, 1.0)


def _cells(places: Ints, row: Ints) -> Ints:
    """Return the cell of a row at each of some places."""
    own, offset, second, stride, third, step = places.T
    found: Ints = offset + row[own] + stride * row[second] + step * row[third]
    return found


def _keeps_rules(row: Ints, column: int, chosen: int, plan: CellMovePlan) -> bool:
    """Tell whether a row may take a code in a column."""
    row = row.copy()
    row[column] = chosen
    for rule in plan.guards[plan.watched[column] : plan.watched[column + 1]]:
        columns, strides = plan.members[plan.rules[rule] : plan.rules[rule + 1]].T
        classes = plan.classes[plan.class_starts[columns] + row[columns]]
        if not plan.allowed[plan.corners[rule] + strides @ classes]:
            return False
    return True
