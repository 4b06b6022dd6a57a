"""Synthetic rows of linked tables: wide rows taken apart into two tables with a synthetic key, and joined again.

Units are numbered 1, 2, 3 … in the order in which they were drawn, and their members follow in that order, each in its
place. The key therefore says nothing about the order or the keys of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from populace.core.untrusted_files import altered_error
from populace.release.streamed_table import StreamedTable, read_whole
from populace.release.table_files import open_table, read_columns, to_native, write_table
from populace.schema.codec.decoder import decode_codes
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema

Integers = npt.NDArray[np.int64]


def unfold(wide: pa.Table, *, schema: Schema, linked: LinkedTables) -> dict[str, pa.Table]:
    """Return the two tables of wide rows: units by their key, and members by the key of their unit."""
    counts = _integers(wide[linked.count])
    keys = pa.array(np.arange(1, wide.num_rows + 1, dtype=np.int64))
    units = {linked.unit_key: keys} | {name: wide[name] for name in list_released_columns(schema, linked)}
    unit_of = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(unit_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    # All cells of one place follow those of the place before.
    cells = pa.array(place * len(counts) + unit_of)
    members: dict[str, Any] = {linked.member_key: pa.array((unit_of + 1).astype(np.int64))}
    for name in linked.columns:
        places = [wide[linked.names_at(each)[name]].combine_chunks() for each in linked.places]
        members[name] = pc.take(pa.chunked_array(places).combine_chunks(), cells)
    return {linked.units: pa.table(units), linked.members: pa.table(members)}


def fold(tables: Mapping[str, pa.Table], *, schema: Schema, linked: LinkedTables) -> pa.Table:
    """Return the wide rows of two synthetic tables; refuse tables whose keys or numbers do not belong together."""
    units, members = tables[linked.units], tables[linked.members]
    count = units.num_rows
    if not np.array_equal(_integers(units[linked.unit_key]), np.arange(1, count + 1)):
        raise altered_error(f"the keys of {linked.units!r} are not 1, 2, 3 …")
    owner = _integers(members[linked.member_key]) - 1
    sorted_keys = not len(owner) or (
        owner[0] >= 0 and owner[-1] < count and bool((np.diff(owner) >= 0).all())
    )
    counts = np.bincount(owner, minlength=count) if sorted_keys else np.zeros(0, dtype=np.int64)
    if not sorted_keys or counts.max(initial=0) > linked.max_rows:
        raise altered_error(f"the rows of {linked.members!r} do not belong to the rows of {linked.units!r}")
    if linked.size is not None and not np.array_equal(_integers(units[linked.size]), counts):
        raise altered_error(f"{linked.size!r} is not the number of rows in {linked.members!r}")
    starts = np.cumsum(counts) - counts
    cells: dict[str, Any] = {name: units[name] for name in list_released_columns(schema, linked)}
    cells[linked.count] = pa.array(counts.astype(np.int64))
    for place in linked.places:
        there = counts >= place
        rows = pa.array(np.where(there, starts + place - 1, 0), mask=~there)
        for name, wide in linked.names_at(place).items():
            absent = _absent_value(schema.columns[wide], text=linked.absent[name])
            values = pc.take(members[name].combine_chunks(), rows)
            cells[wide] = pc.if_else(pa.array(there), values, absent)
    return pa.table({name: cells[name] for name in schema.columns})


def list_released_columns(schema: Schema, linked: LinkedTables) -> list[str]:
    """Return the columns of the units that are released, beside their key."""
    own = list_unit_columns(linked, schema.columns)
    return own if linked.size is None else [*own, linked.size]


def to_frames(table: pa.Table | StreamedTable, *, schema: Schema, library: str) -> Any:
    """Return synthetic rows as the caller's kind of frame; those of linked tables as two, by name."""
    wide = read_whole(table)
    if schema.linked is None:
        return to_native(wide, library=library)
    tables = unfold(wide, schema=schema, linked=schema.linked)
    return {name: to_native(table, library=library) for name, table in tables.items()}


def write_tables(wide: pa.Table | StreamedTable, paths: Sequence[Path], *, schema: Schema) -> None:
    """Write synthetic rows to a file, or those of linked tables to two."""
    if schema.linked is None:
        write_table(wide, paths[0], columns=schema.columns)
        return
    tables = unfold(read_whole(wide), schema=schema, linked=schema.linked).values()
    declared = _list_declared(schema, linked=schema.linked)
    for path, table, columns in zip(paths, tables, declared, strict=True):
        write_table(table, path, columns=columns)


def open_tables(paths: Sequence[Path], *, schema: Schema, rows: int) -> pa.Table | StreamedTable:
    """Return so many synthetic rows of a file, or those of linked tables from two, in the types of their schema.

    Very many rows of one file are read when they are asked for.
    """
    if schema.linked is None:
        return open_table(paths[0], schema=schema, rows=rows)
    linked = schema.linked
    declared = _list_declared(schema, linked=linked)
    found = [read_columns(path, columns) for path, columns in zip(paths, declared, strict=True)]
    return fold(dict(zip((linked.units, linked.members), found, strict=True)), schema=schema, linked=linked)


def _list_declared(schema: Schema, *, linked: LinkedTables) -> tuple[dict[str, Column], ...]:
    """Return the columns of both released tables, with their keys."""
    own = {name: schema.columns[name] for name in list_released_columns(schema, linked)}
    return (
        {linked.unit_key: _key_column(linked.unit_key), **own},
        {linked.member_key: _key_column(linked.member_key), **linked.columns},
    )


def _key_column(name: str) -> Column:
    return IntegerColumn(name=name, min=1, max=2**32 - 1, other="1")


def _absent_value(column: Column, *, text: str) -> Any:
    """Return what a column of wide rows holds where there is no member."""
    code = column.code(text)
    if code is None:
        raise TypeError("what stands for nobody is a code of its column")
    return decode_codes(column, np.array([code]), rng=np.random.default_rng(0))[0]


def _integers(values: Any) -> Integers:
    """Return whole numbers of a column; a cell that is empty is none that could be right."""
    return np.asarray(
        pc.fill_null(values.combine_chunks(), -1).to_numpy(zero_copy_only=False), dtype=np.int64
    )
