"""The compiled loops: counting rows and moving their cells, where NumPy would make a pass and a temporary for every
step, or could not go cell by cell.

Few, in one file, with explicit signatures and a cache on disk, so that nothing is compiled while a user waits:
`python -m populace.kernels` compiles them all. Importing this module takes a second, so callers import it only
for work that is worth it, and have a NumPy twin for the rest (`private/engines/memory.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from populace.errors import UsageError
from populace.moves import Deficits, Plan

Codes = npt.NDArray[Any]
Cells = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Read-only, so that columns mapped from a file are taken as well.
_CODES = [types.Array(kind, 1, "C", readonly=True) for kind in (types.uint8, types.uint16, types.uint32)]
_CELLS = types.Array(types.uint64, 1, "C")
_COUNTS = types.Array(types.int64, 1, "C")
_FLOATS = types.Array(types.float64, 1, "C")
_DEFICITS = types.Array(types.float32, 1, "C")
_BLOCKS = [types.Array(kind, 2, "C") for kind in (types.uint16, types.uint32)]
_COSTS = types.Array(types.float64, 2, "C")
_PAIRS = types.Array(types.int64, 2, "C")
_PLAN = types.NamedTuple(
    [{"weights": _FLOATS, "places": _PAIRS, "members": _PAIRS}.get(name, _COUNTS) for name in Plan._fields],
    Plan,
)

# Rows that follow each other often fall into the same cell, and adding to it twice in a row makes the processor
# wait: even and odd rows of small tables are counted apart.
_APART_UP_TO = 1 << 14

# The running cell numbers of this many rows stay in the first-level cache.
_PIECE = 1 << 14


@njit([types.void(a, b, types.uint64, _COUNTS, _COUNTS) for a, b in product(_CODES, _CODES)], cache=True)
def _count_pair(first: Codes, second: Codes, width: int, even: Counts, odd: Counts) -> None:
    paired = first.size - first.size % 2
    for row in range(0, paired, 2):
        even[np.uint64(first[row]) * width + np.uint64(second[row])] += 1
        odd[np.uint64(first[row + 1]) * width + np.uint64(second[row + 1])] += 1
    for row in range(paired, first.size):
        even[np.uint64(first[row]) * width + np.uint64(second[row])] += 1


@njit([types.void(_CELLS, codes, types.uint64) for codes in _CODES], cache=True)
def _append_column(cells: Cells, codes: Codes, size: int) -> None:
    for row in range(codes.size):
        cells[row] = cells[row] * size + np.uint64(codes[row])


@njit([types.void(_CELLS, _COUNTS)], cache=True)
def _count_cells(cells: Cells, counts: Counts) -> None:
    for row in range(cells.size):
        counts[cells[row]] += 1


@njit([types.int64(_PLAN, types.int64, _COUNTS)], cache=True)
def _cell(plan: Plan, place: int, row: Counts) -> int:
    at = plan.places
    cell = at[place, 1] + row[at[place, 0]]
    return int(cell + at[place, 3] * row[at[place, 2]] + at[place, 5] * row[at[place, 4]])


@njit([types.boolean(_PLAN, types.int64, _COUNTS)], cache=True)
def _keeps_rules(plan: Plan, column: int, row: Counts) -> bool:
    for rule in plan.guards[plan.watched[column] : plan.watched[column + 1]]:
        cell = plan.corners[rule]
        for other, stride in plan.members[plan.rules[rule] : plan.rules[rule + 1]]:
            cell += stride * plan.classes[plan.class_starts[other] + row[other]]
        if plan.allowed[cell] == 0:
            return False
    return True


@njit([types.void(codes, _DEFICITS, _PLAN, types.float64, _COSTS) for codes in _BLOCKS], cache=True)
def screen_cells(codes: Codes, deficits: Deficits, plan: Plan, slope: float, leaving: Floats) -> None:
    """Do what `moves.screen` does, table after table, so that few columns are at hand at a time."""
    leaving[:] = 0.0
    costs = np.empty(codes.shape[1])
    for table in range(plan.weights.size):
        own, offset, second, stride, third, step = plan.places[plan.tables[table]]
        width = plan.tables[table + 1] - plan.tables[table]
        cells, last, middle, first = deficits[offset:], codes[own], codes[second], codes[third]
        if width == 1:
            for row in range(costs.size):
                costs[row] = cells[last[row]]
        elif width == 2:
            for row in range(costs.size):
                costs[row] = cells[np.uint64(last[row]) + np.uint64(stride) * np.uint64(middle[row])]
        else:
            for row in range(costs.size):
                cell = np.uint64(last[row]) + np.uint64(stride) * np.uint64(middle[row])
                costs[row] = cells[cell + np.uint64(step) * np.uint64(first[row])]
        for row in range(costs.size):
            costs[row] = plan.weights[table] * min(1.0, max(-1.0, slope * (1.0 + 2.0 * costs[row])))
        for place in range(plan.tables[table], plan.tables[table + 1]):
            sums = leaving[plan.places[place, 0]]
            for row in range(costs.size):
                sums[row] += costs[row]


@njit(
    [
        types.void(codes, _COUNTS, _COSTS, _FLOATS, _DEFICITS, _PLAN, types.float64, _COUNTS)
        for codes in _BLOCKS
    ],
    cache=True,
)
def move_cells(
    codes: Codes,
    rows: Counts,
    leaving: Floats,
    bars: Floats,
    deficits: Deficits,
    plan: Plan,
    slope: float,
    moved: Counts,
) -> None:
    """Do what `moves.move` does."""
    row = np.empty(len(codes), dtype=np.int64)
    entering = np.empty(plan.sizes.max())
    for number in rows:
        for column in range(row.size):
            row[column] = codes[column, number]
        for column in range(row.size):
            if leaving[column, number] >= bars[column]:
                continue
            ends = plan.ends[plan.starts[column] : plan.starts[column + 1]]
            held, left = row[column], 0.0
            for place in ends:
                cost = slope * (1.0 + 2.0 * deficits[_cell(plan, place, row)])
                left += plan.weights[plan.table_of[place]] * min(1.0, max(-1.0, cost))
            if left >= bars[column]:
                continue
            size = plan.sizes[column]
            entering[:size] = 0.0
            for place in ends:
                weight = plan.weights[plan.table_of[place]]
                start = _cell(plan, place, row) - held
                lacks = deficits[start : start + size]
                for code in range(size):
                    cost = slope * (1.0 - 2.0 * lacks[code])
                    entering[code] += weight * min(1.0, max(-1.0, cost))
            entering[held] = -left - 1e-6
            chosen = np.argmin(entering[:size])
            while entering[chosen] < entering[held]:
                row[column] = chosen
                if _keeps_rules(plan, column, row):
                    break
                entering[chosen] = np.inf
                chosen = np.argmin(entering[:size])
            row[column] = held
            if entering[chosen] >= entering[held]:
                continue
            for end in ends:
                table = plan.table_of[end]
                for place in range(plan.tables[table], plan.tables[table + 1]):
                    deficits[_cell(plan, place, row)] += 1.0
            row[column] = chosen
            for end in ends:
                table = plan.table_of[end]
                for place in range(plan.tables[table], plan.tables[table + 1]):
                    deficits[_cell(plan, place, row)] -= 1.0
            codes[column, number] = chosen
            moved[column] += 1


def count_pair(first: Codes, second: Codes, *, sizes: tuple[int, int]) -> Counts:
    """Count the rows in each combination of two columns of codes.

    >>> a, b = np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint16)
    >>> count_pair(a, b, sizes=(2, 3)).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    first, second = _checked([first, second], sizes)
    cells = math.prod(sizes)
    even = np.zeros(cells, dtype=np.int64)
    odd = np.zeros_like(even) if cells <= _APART_UP_TO else even
    _count_pair(first, second, sizes[1], even, odd)
    return (even if odd is even else even + odd).reshape(sizes)


def count_columns(columns: Sequence[Codes], *, sizes: Sequence[int]) -> Counts:
    """Count the rows in each combination of any number of columns of codes, one or more.

    >>> a, b = np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint16)
    >>> count_columns([a, b, a], sizes=(2, 3, 2))[1, 0].tolist()
    [0, 2]
    """
    columns = _checked(columns, sizes)
    counts = np.zeros(math.prod(sizes), dtype=np.int64)
    for start in range(0, len(columns[0]), _PIECE):
        parts = [column[start : start + _PIECE] for column in columns]
        cells = parts[0].astype(np.uint64)
        for part, size in zip(parts[1:], sizes[1:], strict=True):
            _append_column(cells, part, size)
        _count_cells(cells, counts)
    return counts.reshape(tuple(sizes))


def _checked(columns: Sequence[Codes], sizes: Sequence[int]) -> list[Codes]:
    """Return the columns as the kernels need them: a code outside its domain would write outside the counts."""
    if not columns or len(columns) != len(sizes) or len({len(column) for column in columns}) != 1:
        raise UsageError(
            "the columns to count differ in length or in number from their sizes.", hint="check them"
        )
    if any(column.dtype not in (np.uint8, np.uint16, np.uint32) for column in columns):
        raise UsageError("a column to count does not hold codes.", hint="give uint8, uint16 or uint32")
    if any(len(column) and column.max() >= size for column, size in zip(columns, sizes, strict=True)):
        raise UsageError("a column to count holds a code outside its domain.", hint="encode it by its schema")
    return [np.ascontiguousarray(column) for column in columns]


if __name__ == "__main__":
    # Importing has compiled every signature and filled the cache.
    compiled = sum(
        len(kernel.signatures) for kernel in (_count_pair, _append_column, _count_cells, move_cells)
    )
    print(f"{compiled} compiled loops are ready")
