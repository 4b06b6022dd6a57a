"""Tables as they are published, cell by cell: recoded values such as 20-29 or * are values like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats, Ints
from populace.core.errors import DataError, UsageError
from populace.private.read.rows_to_codes import open_source
from populace.private.read.value_counts import cells_to_texts
from populace.private.redact import redact_row_errors
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.exact_numbers import parse_number
from populace.schema.hints import quote_names, suggest
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TextTable:
    """The rows of one table: for each column the number of its text among `texts`, which tables may share."""

    name: str
    codes: Mapping[str, Ints]
    texts: Mapping[str, tuple[str, ...]]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.codes.values()), ()))

    def matrix(self, names: Sequence[str]) -> Ints:
        """Return the codes of some columns, a row for each."""
        return (
            np.column_stack([self.codes[name] for name in names]) if names else np.zeros((self.rows, 0), int)
        )


def read_text_tables(tables: Mapping[str, Any], *, columns: Sequence[str]) -> list[TextTable]:
    """Read columns of files or frames, given by name; equal texts have equal codes in all of them."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
    sizes = []
    for table, data in tables.items():
        source = open_source(data)
        if missing := [name for name in columns if name not in source.names]:
            raise DataError(
                f"{table} has no column {quote_names(missing)}.",
                hint=suggest(missing[0], source.names, otherwise="check the names of the columns"),
            )
        size = 0
        with redact_row_errors(table):
            for batch in source.batches(list(columns)):
                size += batch.num_rows
                for name in columns:
                    parts[name].append(cells_to_texts(batch.column(name)).cast(pa.string()))
        if not size:
            raise DataError(f"{table} has no rows.", hint="give a table that has some")
        sizes.append(size)
    texts: dict[str, tuple[str, ...]] = {}
    codes: dict[str, list[Ints]] = {}
    for name, chunks in parts.items():
        coded = pa.concat_arrays(chunks).dictionary_encode()
        texts[name] = tuple(coded.dictionary.to_pylist())
        codes[name] = np.split(coded.indices.to_numpy().astype(np.int64), np.cumsum(sizes)[:-1])
    return [
        TextTable(name=table, codes={name: held[place] for name, held in codes.items()}, texts=texts)
        for place, table in enumerate(tables)
    ]


def join_tables(tables: Sequence[TextTable]) -> TextTable:
    """Return the union of pieces that were read together."""
    codes = {name: np.concatenate([table.codes[name] for table in tables]) for name in tables[0].codes}
    return TextTable(name="union", codes=codes, texts=tables[0].texts)


def check_names(names: Sequence[str], *, schema: Schema, what: str) -> None:
    """Refuse columns that a schema does not have, or that are named twice."""
    if unknown := [name for name in names if name not in schema.columns]:
        raise UsageError(
            f"the schema has no column {quote_names(unknown)}.",
            hint=suggest(unknown[0], schema.columns, otherwise=f"name {what} of the schema"),
        )
    if len(set(names)) < len(names):
        raise UsageError(f"{what} name a column twice.", hint="name each once")


def rank_values(texts: Sequence[str], *, name: str, schema: Schema) -> Floats | None:
    """Return the place of each text in the order of its column, or None where the column has none.

    A text that is no value of it, such as one for missing answers, has no place: NaN.
    """
    column = schema.columns[name]
    if isinstance(column, CategoricalColumn) and column.ordered:
        places = {value: float(place) for place, value in enumerate(column.values)}
        found = [places.get(text) for text in texts]
    elif isinstance(column, RangeColumn):
        numbers = [parse_number(text) for text in texts]
        found = [None if number is None else float(number) for number in numbers]
    else:
        return None
    return np.array([np.nan if place is None else place for place in found], dtype=np.float64)
