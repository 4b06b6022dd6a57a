"""Room for a run: what takes memory and cells, from the schema alone and before anything is spent."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np

from populace.core.errors import ResourceError, UsageError
from populace.core.limits import LIMITS
from populace.core.memory_limit import memory_limit
from populace.private.code_store import MEMORY_SHARE
from populace.schema.schema import Schema

# Counts, noise, model, intervals and shares of one cell of a column, and what a report and texts hold of it: a run of
# `independent` with its report peaks at 440 to 470 bytes for each of 2^20 and of 2^22 codes.
CELL_BYTES = 512
# A decoded value of a synthetic row.
VALUE_BYTES = 8
# How often a synthetic row is held on its way to a file.
COPIES_HELD = 4
METHOD_BYTES = 2**30
# Threads of libraries, and what small tables take beside them.
MIN_FREE_BYTES = 2**27


def check_capacity(schema: Schema, *, rows: int | None = None, numbers: int = 0) -> None:
    """Refuse, from public facts alone, columns that cannot be counted and rows that cannot be held.

    `rows` are the synthetic rows asked for, `numbers` the columns whose numbers are held beside codes. A method keeps
    its own tables within `METHOD_BYTES`.
    """
    widest = max(schema.domain, key=schema.domain.__getitem__)
    if schema.domain[widest] > LIMITS.max_counted_cells:
        raise UsageError(
            f"column {widest!r} has {schema.domain[widest]} cells; the most that can be counted is "
            f"{LIMITS.max_counted_cells}.",
            hint="give it a width or edges, or leave it out",
        )
    coded, drawn = _row_bytes(schema)
    there = memory_limit()
    read = (coded + VALUE_BYTES * numbers) * (schema.max_rows or 0)
    if not numbers:
        # Codes alone lie in a file where they are many; its room is taken when the table is opened.
        read = min(read, there // MEMORY_SHARE)
    needed = _fixed_bytes(schema) + read + drawn * (rows or 0)
    if needed > there:
        raise ResourceError(
            f"this needs about {needed / 2**30:.1f} GiB of memory; this process may use {there / 2**30:.1f}.",
            hint="coarsen the largest columns, declare fewer max_rows or ask for fewer --rows, or use more memory",
        )


def check_free_memory() -> None:
    """Refuse to begin where the process has used up nearly all of the address space that it may have.

    Libraries under us end a process that cannot start a thread; that must not happen after a budget is booked.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return
    free = limit - pages * resource.getpagesize()
    if limit != resource.RLIM_INFINITY and free < MIN_FREE_BYTES:
        raise ResourceError(
            f"this process may take {max(0, free) >> 20} MiB more memory; a run takes "
            f"{MIN_FREE_BYTES >> 20} or more.",
            hint="raise the limit (`ulimit -v` shows it in KiB), or run it where there is none",
        )


def max_synthetic_rows(schema: Schema, *, tables: int = 1) -> int:
    """Return how many synthetic rows each of some tables can have where nobody asked for a number of them."""
    _, drawn = _row_bytes(schema)
    return max(0, memory_limit() - _fixed_bytes(schema)) // (COPIES_HELD * tables * drawn)


def _row_bytes(schema: Schema) -> tuple[int, int]:
    """Return what a row takes in codes, and in codes and values."""
    coded = sum(np.min_scalar_type(size - 1).itemsize for size in schema.domain.values())
    return coded, coded + VALUE_BYTES * len(schema.domain)


def _fixed_bytes(schema: Schema) -> int:
    return CELL_BYTES * sum(schema.domain.values()) + METHOD_BYTES
