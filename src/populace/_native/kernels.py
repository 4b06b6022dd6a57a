"""The loops that grow with rows, counting them and moving their cells, and those over many small tables.

In C where the extension `populace._native._kernels` was built, in NumPy or Python where it was not.
Both give the same numbers; counting takes several times as long in NumPy, and moving far longer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from populace._native.cell_moves import CellMovePlan, Deficits, move_rows, screen_rows
from populace.core.array_types import Floats, Ints
from populace.core.errors import NotCompiled, UsageError

Codes = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]

# Two of the compiled loops number cells with 32 bits.
MAX_CELLS = 1 << 32

# No array is larger than this many counts of 8 bytes.
MAX_COUNTS = np.iinfo(np.intp).max // 8

OUTSIDE = "a code lies outside its domain"


def _load() -> Any:
    try:
        return import_module("populace._native._kernels")
    except ImportError:
        return None


_native = _load()


def compiled() -> bool:
    """Tell whether the loops were built."""
    return _native is not None


def warn_unless_compiled() -> None:
    """Warn, once, where the loops were not built."""
    if not compiled():
        warnings.warn(
            "the loops in C are missing, so fitting rows takes far longer.\n"
            "hint: install a C compiler and Python's headers, then populace again, "
            "with pip's --no-cache-dir --force-reinstall",
            NotCompiled,
            stacklevel=2,
        )


def count_columns(columns: Sequence[Codes], *, sizes: Sequence[int]) -> Counts:
    """Count the rows in each combination of any number of columns of codes, one or more.

    A code outside its domain is an IndexError, without the code: the fault is ours, as we encode what users bring.

    >>> a, b = np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint16)
    >>> count_columns([a, b], sizes=(2, 3)).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    sizes = tuple(map(int, sizes))
    _check(columns, sizes)
    counts: Counts = np.zeros(sizes, dtype=np.int64)
    add_counts(columns, counts)
    return counts


def add_counts(columns: Sequence[Codes], counts: Counts) -> None:
    """Add to a table, an axis for each column, the rows in each combination of codes; see `count_columns`."""
    _check(columns, counts.shape)
    if _native is None or counts.size > MAX_CELLS:
        counts += _count(columns, counts.shape).reshape(counts.shape)
        return
    held = tuple(np.require(column, requirements=["C", "A"]) for column in columns)
    _native.count_columns(held, counts.shape, counts.reshape(-1))


def _count(columns: Sequence[Codes], sizes: Sequence[int]) -> Counts:
    flat = np.zeros(len(columns[0]), dtype=np.intp)
    for column, size in zip(columns, sizes, strict=True):
        if column.size and column.max() >= size:
            raise IndexError(OUTSIDE)
        flat = flat * size + column
    return np.bincount(flat, minlength=math.prod(sizes))


def screen_cells(codes: Codes, deficits: Deficits, plan: CellMovePlan, slope: float, leaving: Floats) -> None:
    """Do what `cell_moves.screen_rows` does, with codes of 32 bits."""
    loop = screen_rows if _native is None or deficits.size > MAX_CELLS else _native.screen_cells
    loop(codes, deficits, plan, slope, leaving)


def move_cells(
    codes: Codes,
    rows: Ints,
    leaving: Floats,
    bars: Floats,
    deficits: Deficits,
    plan: CellMovePlan,
    slope: float,
    moved: Ints,
) -> None:
    """Do what `cell_moves.move_rows` does, with codes of 32 bits."""
    loop = move_rows if _native is None else _native.move_cells
    loop(codes, rows, leaving, bars, deficits, plan, slope, moved)


def scale_to_target(
    table: Floats,
    work: Floats,
    potential: Floats,
    *,
    inside: Ints,
    into: Ints,
    target: Floats,
    soft: Floats | None,
    least: float,
) -> float:
    """Scale a table and its potential towards one target marginal, compiled; return how much it moved.

    `inside` and `into` are the walks of the target's cells in the table and in the potential; `work` has room for
    twice the target.
    """
    flat = table.reshape(-1)
    return float(_native.scale_to_target(flat, work, potential, inside, into, target, soft, least))


def scale_to_separator(
    source: Floats, target: Floats, work: Floats, *, leaving: Ints, into: Ints, cells: int
) -> None:
    """Scale a table so that it has the sums of another over what they share: `cells` of them, by two walks; compiled.

    `work` has room for twice as many.
    """
    _native.scale_to_separator(source, target, work, leaving, into, cells)


def eliminate_variables(
    cliques: Sequence[int], *, costs: Sequence[int], by_edges: bool
) -> tuple[list[int], bool] | None:
    """Do what `inference.graph.junction_tree` does to eliminate columns, compiled; None where the loops cannot.

    Cliques and the tables that come back are bit masks. A column costs the sum of `costs` over its table or, with
    `by_edges`, of their products over the pairs in it that are not joined yet.
    """
    if _native is None or sum(costs) ** (2 if by_edges else 1) >= 2**62:
        return None
    words = -(-len(costs) // 64) or 1
    sets = np.frombuffer(b"".join(mask.to_bytes(8 * words, "little") for mask in cliques), dtype="<u8")
    tables = np.zeros((len(costs), words), dtype=np.uint64)
    kept = np.zeros(len(costs), dtype=np.uint8)
    chordal = _native.eliminate_variables(
        sets.astype(np.uint64).reshape(-1, words), np.array(costs, dtype=np.int64), by_edges, tables, kept
    )
    rows = tables[kept.astype(bool)].astype("<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in rows], chordal


def project_onto_simplex(table: Floats, *, total: float) -> Floats:
    """Do what `inference.fit.projection.norm_sub` does to a table of cells, compiled."""
    values = np.ascontiguousarray(table, dtype=np.float64)
    found = np.empty(np.shape(table))
    _native.project_onto_simplex(values.reshape(-1), found.reshape(-1), total)
    return found


def weight_estimators(products: Floats, prior: Floats, *, rounds: int, close: float) -> Floats:
    """Do the rounds of Newton's method of `inference.fit.denoise`, compiled."""
    weights = np.empty(prior.shape)
    _native.weight_estimators(products, prior, weights, rounds, close)
    return weights


def split_tables(
    targets: Floats,
    *,
    rows: Counts,
    columns: Counts,
    starts: Counts,
    variance: Floats,
    allowed: npt.NDArray[np.bool_] | None,
    counts: Counts,
    real: Floats | None,
    failed: npt.NDArray[np.bool_],
) -> None:
    """Do what `inference.hierarchy.transportation` does to the tables of a level, compiled.

    Counts, the nearest real tables where they are wanted, and the parents whose tables could not be split are written
    to the last three arrays.
    """
    _native.split_tables(targets, rows, columns, starts, variance, allowed, counts, real, failed)


def _check(columns: Sequence[Codes], sizes: Sequence[int]) -> None:
    if not columns or len(columns) != len(sizes) or len({len(column) for column in columns}) != 1:
        raise UsageError(
            "the columns to count differ in length or in number from their sizes.", hint="check them"
        )
    if any(column.ndim != 1 or column.dtype not in (np.uint8, np.uint16, np.uint32) for column in columns):
        raise UsageError(
            "a column to count does not hold codes.", hint="give uint8, uint16 or uint32, on one axis"
        )
    if min(sizes) < 0 or math.prod(sizes) > MAX_COUNTS:
        raise UsageError(
            f"a table of {' × '.join(map(str, sizes))} cells cannot be counted.",
            hint="count fewer columns, or group their codes",
        )


if __name__ == "__main__":
    if compiled():
        print("the loops in C are ready")
    else:
        print(
            "the loops in C were not built: populace works, but fits rows slowly.\n"
            "hint: install a C compiler and Python's headers, then: rm .venv/.ready && make setup"
        )
