"""From a private file or frame to codes, in one pass and without a word about its rows.

The parts are joined here: `csv_lines` and `csv_source` cut a line into fields, `schema/codec/table_codec` and `encoder`
turn a field into a code.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from populace.core.errors import DataError
from populace.core.table_address import TableAddress, parse_address
from populace.private.code_store import FREQUENCY, CodeStore
from populace.private.read.databases.open_database import OpenTable, open_database
from populace.private.read.file_signatures import is_like_value
from populace.private.read.file_source import open_file
from populace.private.read.sources import FrameSource, Source
from populace.private.read.value_counts import cells_to_texts, select_first_rows
from populace.private.redact import redact_row_errors
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.codec.cell_texts import Array, Floats
from populace.schema.codec.encoder import Codes
from populace.schema.codec.frequencies import read_frequencies
from populace.schema.codec.numeric_values import NumericValues, numeric_column_names
from populace.schema.codec.table_codec import TableCodec
from populace.schema.hints import did_you_mean, fold_name, quote_names
from populace.schema.schema import Schema


class RowCodec(Protocol):
    """What turns the cells of rows into codes, each row by itself."""

    @property
    def input_columns(self) -> tuple[str, ...]: ...

    @property
    def domain(self) -> Mapping[str, int]: ...

    def encode(self, cells: Mapping[str, Array], *, decimal: str = ".") -> dict[str, Codes]: ...


def open_source(data: Any) -> Source:
    """Look at the header of a file, a table of a database or a frame; no row is read.

    A path is a text or a path object, a table of a database an address; anything else must be a frame that narwhals
    understands.
    """
    if isinstance(data, OpenTable):
        return data.source
    if (address := data if isinstance(data, TableAddress) else parse_address(data)) is not None:
        return open_database(address)
    return open_file(Path(data)) if isinstance(data, str | os.PathLike) else FrameSource(data)


def check_header(source: Source, schema: Schema) -> None:
    """Refuse a table that lacks a column of the schema, has it twice, or declares a type for it that has no codes."""
    wanted = columns_to_read(schema)
    missing = [name for name in wanted if name not in source.names]
    if missing:
        raise DataError(
            f"the data has no column {quote_names(missing)}.", hint=_hint(missing, source, schema)
        )
    repeated = [name for name in wanted if source.names.count(name) > 1]
    if repeated:
        raise DataError(
            f"the data has column {quote_names(repeated)} more than once.",
            hint="rename or remove one of them",
        )
    nested = source.without_text(wanted)
    if nested:
        raise DataError(
            f"column {quote_names(nested)} holds lists, structures, lengths of time or strL, which have no codes.",
            hint="take it out of the schema, or turn it into texts (strL: of a fixed length), numbers or dates first",
        )


def read_codes(source: Source, schema: Schema) -> dict[str, Codes]:
    """Read all rows once and return each variable's codes, held to the schema's rules row by row.

    Where the schema names an id, only the first `rows_per_unit` rows of each id stay and rows without an id go.
    """
    return dict(read_rows(source, schema, numbers=()).codes)


def read_counted_codes(
    source: Source, schema: Schema, store: CodeStore, *, codec: RowCodec | None = None
) -> CodeStore:
    """Read all rows once into a store: the codes of `read_codes`, and for how many units each row stands if not one.

    Another `codec` gives other codes of the same rows.
    """
    codec = codec or TableCodec(schema)
    ids: list[Array] = []
    store.clear()
    with redact_row_errors("the data"):
        for batch in source.batches(columns_to_read(schema)):
            cells = {name: batch.column(name) for name in codec.input_columns}
            coded: dict[str, npt.NDArray[Any]] = dict(codec.encode(cells, decimal=source.decimal))
            if schema.frequency is not None:
                coded[FREQUENCY] = read_frequencies(batch.column(schema.frequency), decimal=source.decimal)
            store.append(coded)
            if schema.unit.id is not None:
                ids.append(cells_to_texts(batch.column(schema.unit.id)))
        if schema.unit.id is None:
            return store
        return store.keep(select_first_rows(ids, rows=schema.unit.rows))


def read_rows(source: Source, schema: Schema, *, numbers: Collection[str] | None = None) -> SurveyRows:
    """Read all rows once and return the codes of `read_codes` together with the numbers of the same rows.

    They are those of all columns that have numbers, or of those named.
    """
    named = numeric_column_names(schema) if numbers is None else numbers
    readers = {name: NumericValues(name, schema=schema) for name in named}
    codec = TableCodec(schema)
    parts: dict[str, list[Codes]] = {name: [] for name in schema.variables}
    number_parts: dict[str, list[Floats]] = {name: [] for name in readers}
    ids: list[Array] = []
    with redact_row_errors("the data"):
        for batch in source.batches(columns_to_read(schema)):
            cells = {name: batch.column(name) for name in codec.input_columns}
            coded = codec.encode(cells, decimal=source.decimal)
            for name, codes in coded.items():
                parts[name].append(codes)
            for name, reader in readers.items():
                number_parts[name].append(reader(cells[name], codes=coded, decimal=source.decimal))
            if schema.unit.id is not None:
                ids.append(cells_to_texts(batch.column(schema.unit.id)))
        kept = select_first_rows(ids, rows=schema.unit.rows) if schema.unit.id is not None else slice(None)
        found = {name: _concatenate(parts.pop(name), size=size)[kept] for name, size in schema.domain.items()}
        empty = np.empty(0, dtype=np.float64)
        return SurveyRows(
            codes=found,
            numbers={name: np.concatenate([empty, *number_parts.pop(name)])[kept] for name in readers},
        )


def columns_to_read(schema: Schema) -> list[str]:
    """Return the columns that are read: not those that follow from others."""
    reads = [name for name in schema.columns if name not in schema.layout.functions]
    return [*reads, *(name for name in (schema.unit.id, schema.frequency) if name is not None)]


def _concatenate(parts: list[Codes], *, size: int) -> Codes:
    return np.concatenate([np.empty(0, dtype=np.min_scalar_type(size - 1)), *parts])


def _hint(missing: list[str], source: Source, schema: Schema) -> str:
    """Return a hint that quotes the data's header only where it surely is one.

    A file without a header has private values in its first line.
    """
    if not any(source.names):
        return "the header names no columns"
    alike = {fold_name(name) for name in source.names}
    # Names like 0 or 1 are found in rows too.
    known = [name for name in columns_to_read(schema) if fold_name(name) in alike and not is_like_value(name)]
    if 2 * len(known) < len(columns_to_read(schema)):
        return "is the first line a header with the column names, and does the schema belong to this data?"
    near = did_you_mean(missing[0], [name for name in source.names if name not in schema.columns])
    if near:
        return f"did you mean {near!r}? Names must agree to the letter, in case and blanks too"
    return "take it out of the schema, or add it to the data"
