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
from populace.moves import Plan, sweep

Codes = npt.NDArray[Any]
Cells = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

# Read-only, so that columns mapped from a file are taken as well.
_CODES = [types.Array(kind, 1, "C", readonly=True) for kind in (types.uint8, types.uint16, types.uint32)]
_CELLS = types.Array(types.uint64, 1, "C")
_COUNTS = types.Array(types.int64, 1, "C")
_FLOATS = types.Array(types.float64, 1, "C")
_BLOCK = types.Array(types.int32, 2, "C")
_PLAN = types.NamedTuple([_FLOATS if name == "weights" else _COUNTS for name in Plan._fields], Plan)

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


move_cells = njit(
    [types.void(_BLOCK, _FLOATS, _PLAN, _FLOATS, types.float64, _FLOATS, _FLOATS, _COUNTS)], cache=True
)(sweep)


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
