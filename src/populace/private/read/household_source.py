"""Linked tables as one private table: the rows of both files, joined unit by unit into one wide row each.

What becomes of a unit depends on the rows with its own key alone, and on their order among each other. A row without a
key belongs to nobody and is dropped, as is a member whose unit has no row. Of units with one key the first row counts,
and the others are left out when rows are read, as for any table with an id. Members beyond `max_rows` are dropped by
the declared order, before anything is derived from them. Nothing that is said or raised depends on rows.

Proof: docs/proofs/linked-tables.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.errors import DataError, UsageError
from populace.core.table_address import PushDown
from populace.private.read.databases.postgres_source import PostgresSource
from populace.private.read.databases.push_down import PushDownSource
from populace.private.read.rows_to_codes import open_source
from populace.private.read.sources import BATCH_ROWS, FrameSource, Source
from populace.private.read.value_counts import cells_to_texts, unify_texts
from populace.private.redact import redact_row_errors
from populace.schema.codec.cell_texts import Array, pc, to_texts
from populace.schema.codec.encoder import Encoder
from populace.schema.codec.split_codes import split_variables
from populace.schema.conditions.column_layout import ColumnLayout
from populace.schema.conditions.condition_parser import condition_columns, parse_condition
from populace.schema.hints import did_you_mean, quote_names
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema

Places = npt.NDArray[np.int64]


def open_tables(data: Any, *, schema: Schema) -> Source:
    """Look at the header of a table, or of both linked tables where the schema declares two; no row is read."""
    if isinstance(data, PushDown):
        return PushDownSource(data.data, schema=schema)
    if schema.linked is None:
        if isinstance(data, Mapping):
            raise UsageError(
                f"the tables {quote_names(map(str, data))} are given, but the schema declares one table.",
                hint="declare them under [tables.NAME], or give one file or frame",
            )
        return open_by_unit(data, key=schema.unit.id)
    return HouseholdSource(data, schema=schema, linked=schema.linked)


def open_by_unit(data: Any, *, key: str | None) -> Source:
    """Look at the header of a table; where a key names units, an order of its rows that they decide alone is kept.

    Files and frames in memory have one. A query has none, so its rows are sorted.
    """
    source = open_source(data)
    if key is None or not isinstance(source, FrameSource | PostgresSource):
        return source
    return source.sort_by_unit(key)


class HouseholdSource:
    """Two linked tables whose headers are known; its rows are wide, one for each row of the table of units."""

    def __init__(self, data: Any, *, schema: Schema, linked: LinkedTables) -> None:
        names = (linked.units, linked.members)
        if not isinstance(data, Mapping) or set(data) != set(names):
            raise UsageError(
                f"the schema links the tables {quote_names(names)}, and "
                + (
                    f"{quote_names(map(str, data))} are given."
                    if isinstance(data, Mapping)
                    else "one table is given."
                ),
                hint=f"give both by name: {' '.join(f'{name}=FILE' for name in names)}",
            )
        self._linked = linked
        keys = (linked.unit_key, linked.member_key)
        self._units, self._members = (
            open_by_unit(data[name], key=key) for name, key in zip(names, keys, strict=True)
        )
        functions = schema.layout.functions
        self._unit_columns = [n for n in list_unit_columns(linked, schema.columns) if n not in functions]
        self._member_columns = [n for n, column in linked.columns.items() if not column.function_of]
        _check_columns(self._units, [linked.unit_key, *self._unit_columns], table=linked.units)
        _check_columns(self._members, [linked.member_key, *self._member_columns], table=linked.members)
        if self._units.decimal != self._members.decimal:
            raise DataError(
                "one of the linked files has semicolons between its fields and the other has not.",
                hint="write both alike: decimal commas are read only beside semicolons",
            )
        places = [linked.names_at(place) for place in linked.places]
        wide = [own[name] for own in places for name in self._member_columns]
        self._member_at = {own[n]: (n, k) for k, own in enumerate(places) for n in self._member_columns}
        self.decimal = self._units.decimal
        self.names = (linked.unit_key, *self._unit_columns, linked.count, *wide)

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return nothing: the types of both tables were looked at when they were opened."""
        del columns
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of both tables once, and yield the wide rows of some columns, batch by batch."""
        linked = self._linked
        with redact_row_errors("the linked tables"):
            own = [name for name in columns if name in self._unit_columns]
            units = _read_columns(self._units, [linked.unit_key, *own])
            if not len(units[linked.unit_key]):
                return
            cells: dict[str, Array] = {name: units[name] for name in (*own, linked.unit_key)}
            placed = [name for name in columns if name in self._member_at]
            if placed or linked.count in columns:
                wanted = dict.fromkeys(self._member_at[name][0] for name in placed)
                members = _read_columns(
                    self._members, [linked.member_key, *dict.fromkeys([*wanted, *_sort_columns(linked)])]
                )
                rows = self._place_members(units[linked.unit_key], members)
                cells[linked.count] = pa.array((rows >= 0).sum(axis=0))
                for name in placed:
                    column, place = self._member_at[name]
                    cells[name] = pc.take(members[column], pa.array(rows[place], mask=rows[place] < 0))
            for start in range(0, len(units[linked.unit_key]), BATCH_ROWS):
                parts = [cells[name].slice(start, BATCH_ROWS) for name in columns]
                yield pa.RecordBatch.from_arrays(parts, names=list(columns))

    def _place_members(self, unit_keys: Array, members: Mapping[str, Array]) -> Places:
        """Return for each place, and each row of the units, the row of the member who has it; −1 for nobody."""
        linked = self._linked
        texts = [cells_to_texts(unit_keys), cells_to_texts(members[linked.member_key])]
        chunks = unify_texts(texts)
        of_units, of_members = (np.asarray(chunk.indices.to_numpy(zero_copy_only=False)) for chunk in chunks)
        first_row = np.full(len(chunks[0].dictionary), -1, dtype=np.int64)
        # Written from the last row to the first: the first row of a key is the one that stays.
        first_row[of_units[::-1]] = np.arange(len(of_units))[::-1]
        first_row[pc.index(chunks[0].dictionary, "").as_py()] = -1
        order = np.lexsort((*reversed(self._sort_keys(members)), of_members))
        ranked = of_members[order]
        starts = np.flatnonzero(np.diff(ranked, prepend=-1))
        place = np.arange(len(ranked)) - np.repeat(starts, np.diff(starts, append=len(ranked)))
        row = first_row[ranked]
        kept = (row >= 0) & (place < linked.max_rows)
        found = np.full((linked.max_rows, len(of_units)), -1, dtype=np.int64)
        found[place[kept], row[kept]] = order[kept]
        return found

    def _sort_keys(self, members: Mapping[str, Array]) -> list[npt.NDArray[Any]]:
        """Return what members are numbered by, the first first: their own codes, then their place in the file."""
        linked = self._linked
        columns = {name: linked.columns[name] for name in _sort_columns(linked)}
        coded = {name: Encoder(c)(members[name], decimal=self.decimal) for name, c in columns.items()}
        parts = {
            part: x
            for name, codes in coded.items()
            for part, x in split_variables(columns[name], codes).items()
        }
        keys: list[npt.NDArray[Any]] = []
        for role in (linked.householder, linked.partner):
            if role is not None:
                test = ColumnLayout(columns).condition(parse_condition(role), place=linked.place)
                keys.append(~np.broadcast_to(test(parts), len(members[linked.member_key])))
        for name, descending in linked.sort_keys:
            codes = coded[name].astype(np.int64)
            # Special codes come last either way.
            special = codes >= columns[name].levels
            keys.append(np.where(special | (not descending), codes, -codes - 1))
        return [*keys, np.arange(len(members[linked.member_key]))]


def _sort_columns(linked: LinkedTables) -> list[str]:
    """Return the columns that decide in which order members are numbered."""
    roles = [role for role in (linked.householder, linked.partner) if role is not None]
    named = [name for role in roles for name in condition_columns(parse_condition(role))]
    return list(dict.fromkeys([*named, *(name for name, _ in linked.sort_keys)]))


def _check_columns(source: Source, wanted: Sequence[str], *, table: str) -> None:
    """Refuse a table that lacks a column, has it twice, or declares a type for it that has no codes."""
    if missing := [name for name in wanted if name not in source.names]:
        near = did_you_mean(missing[0], source.names) if len(missing) * 2 < len(wanted) else None
        raise DataError(
            f"the table {table!r} has no column {quote_names(missing)}.",
            hint=f"did you mean {near!r}? Names must agree to the letter"
            if near
            else "is the first line a header with the column names, and were the tables swapped?",
        )
    if repeated := [name for name in wanted if source.names.count(name) > 1]:
        raise DataError(
            f"the table {table!r} has column {quote_names(repeated)} more than once.",
            hint="rename or remove one of them",
        )
    if nested := source.without_text(wanted):
        raise DataError(
            f"column {quote_names(nested)} of {table!r} holds lists, structures, lengths of time or strL: no codes.",
            hint="take it out of the schema, or turn it into texts, numbers or dates first",
        )


def _read_columns(source: Source, columns: Sequence[str]) -> dict[str, Array]:
    """Read the rows of some columns once, and return each as one array."""
    parts: dict[str, list[Array]] = {name: [] for name in columns}
    for batch in source.batches(list(columns)):
        for name in columns:
            parts[name].append(batch.column(name))
    return {name: _join(parts.pop(name)) for name in columns}


def _join(parts: list[Array]) -> Array:
    """Return the cells of all batches in one array; as texts where batches have types that cannot be joined."""
    if not parts:
        return pa.array([], pa.string())
    if len({part.type for part in parts}) == 1:
        try:
            whole = pa.chunked_array(parts)
            return (
                whole.unify_dictionaries() if pa.types.is_dictionary(whole.type) else whole
            ).combine_chunks()
        except pa.ArrowException:
            pass
    return pa.chunked_array([to_texts(part) for part in parts], pa.string()).combine_chunks()
