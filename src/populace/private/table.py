"""An opaque handle on private rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from populace.errors import ResourceError, UsageError
from populace.private.engine import Engine
from populace.private.engines.memory import MemoryEngine
from populace.private.read import check_header, open_source, read_codes
from populace.private.values import Tally, read_tallies
from populace.schema.schema import Schema

Reader = Callable[[], Engine]
Teller = Callable[[], Mapping[str, Tally]]

MOST_CELLS = 2**31
# Counts, noise, model and shares of one cell, each held once or twice.
CELL_BYTES = 64
# A decoded value of a synthetic row.
VALUE_BYTES = 8
# How often a synthetic row is held on its way to a file.
HELD_TIMES = 4
METHOD_BYTES = 2**30


class PrivateTable:
    """Private rows behind their schema: it prints the schema, never rows or counts, and cannot be copied out.

    Making one looks at the header alone. Rows are read when the barrier first asks for the engine,
    which it does only after a charge is on disk.
    """

    __slots__ = ("_engine", "_reader", "_tallies", "_teller", "schema")

    def __init__(self, reader: Reader, *, schema: Schema, teller: Teller = dict) -> None:
        self._reader = reader
        self._engine: Engine | None = None
        self._teller = teller
        self._tallies: Mapping[str, Tally] | None = None
        self.schema = schema

    @classmethod
    def of(cls, data: Any, *, schema: Schema) -> PrivateTable:
        """Return a handle on a file or frame whose header fits the schema.

        `data` is a path to a CSV or Parquet file, or any frame that narwhals understands.
        """
        source = open_source(Path(data) if isinstance(data, str) else data)
        check_header(source, schema)
        return cls(
            lambda: MemoryEngine(read_codes(source, schema), domain=schema.domain),
            schema=schema,
            teller=lambda: read_tallies(source, schema),
        )

    def engine(self) -> Engine:
        """Return the engine over the rows, reading them the first time. For the barrier alone."""
        if self._engine is None:
            self._engine = self._reader()
        return self._engine

    def tally(self, column: str) -> Tally:
        """Return the exact counts of the texts in an unknown column, reading the first time. For the barrier alone."""
        if self._tallies is None:
            self._tallies = self._teller()
        return self._tallies[column]

    def __repr__(self) -> str:
        return f"PrivateTable({len(self.schema.columns)} columns, unit={self.schema.unit.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("private rows are never pickled")


def check_size(schema: Schema, *, rows: int | None = None) -> None:
    """Refuse, from public facts alone, columns that cannot be counted and rows that cannot be held.

    `rows` are the synthetic rows asked for. A method keeps its own tables within `METHOD_BYTES`.
    """
    widest = max(schema.domain, key=schema.domain.__getitem__)
    if schema.domain[widest] > MOST_CELLS:
        raise UsageError(
            f"column {widest!r} has {schema.domain[widest]} cells; the most that can be counted is {MOST_CELLS}.",
            hint="give it a width or edges, or leave it out",
        )
    coded, drawn = _row_bytes(schema)
    needed, there = _fixed_bytes(schema) + coded * (schema.max_rows or 0) + drawn * (rows or 0), _memory()
    if needed > there:
        raise ResourceError(
            f"this needs about {needed / 2**30:.1f} GiB of memory; the machine has {there / 2**30:.1f}.",
            hint="coarsen the largest columns, declare fewer max_rows or ask for fewer --rows, or use more memory",
        )


def most_rows(schema: Schema, *, tables: int = 1) -> int:
    """Return how many synthetic rows each of some tables can have where nobody asked for a number of them."""
    _, drawn = _row_bytes(schema)
    return max(0, _memory() - _fixed_bytes(schema)) // (HELD_TIMES * tables * drawn)


def _row_bytes(schema: Schema) -> tuple[int, int]:
    """Return what a row takes in codes, and in codes and values."""
    coded = sum(np.min_scalar_type(size - 1).itemsize for size in schema.domain.values())
    return coded, coded + VALUE_BYTES * len(schema.domain)


def _fixed_bytes(schema: Schema) -> int:
    return CELL_BYTES * sum(schema.domain.values()) + METHOD_BYTES


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
