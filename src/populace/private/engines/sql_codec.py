"""A schema's codec as SQL of PostgreSQL: for each column the expression of its codes.

Code tables and bins are not written down a second time: the codec itself is asked for the code of every known text and
of every number where a bin begins. What it says of these is what the database is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.schema.codec.cell_texts import trim_texts
from populace.schema.codec.encoder import Encoder
from populace.schema.columns.column import Column
from populace.schema.columns.date_columns import DateColumn
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import StepColumn, numeric_special_codes
from populace.schema.hints import quote_names
from populace.schema.schema import Schema

_TEXTS = ("text", "varchar", "bpchar", "name", "uuid")
_WHOLE = ("int2", "int4", "int8")
_NUMBERS = (*_WHOLE, "float4", "float8", "numeric")
# More bins than this make an expression that takes longer to plan than to run.
MAX_THRESHOLDS = 20_000
# A query of PostgreSQL has at most 1,664 columns, and ours have a few beside those that are counted.
MAX_COLUMNS = 1_600
_FIRST_DAY, _LAST_DAY = "date '0001-01-01'", "date '9999-12-31'"


@dataclass(frozen=True, slots=True)
class SqlCodec:
    """The expressions of the codes, by column, over the cells of `source`, and the code tables that they join."""

    codes: Mapping[str, str]
    joins: Sequence[str] = field(repr=False)


def compile_codec(schema: Schema, types: Mapping[str, str]) -> SqlCodec:
    """Return a schema's codec as SQL; refuse, with the reason, what only rows that are read can be held to.

    `types` are the database's names for the types of the columns.
    """
    _check_schema(schema)
    codes: dict[str, str] = {}
    joins: list[str] = []
    for name, column in schema.columns.items():
        if name in schema.layout.functions:
            continue
        cell, kind, encoder = source_cell(name), types[name], Encoder(column)
        if isinstance(column, StepColumn | DecimalColumn) and kind in _NUMBERS:
            codes[name] = _bin_numbers(_to_float(cell, kind), column, encoder)
        elif isinstance(column, DateColumn) and kind == "date":
            codes[name] = _bin_dates(cell, column, encoder)
        elif not isinstance(column, StepColumn | DecimalColumn) and kind in (
            *_TEXTS,
            *_WHOLE,
            "bool",
            "date",
        ):
            number = len(joins)
            known = _known_texts(encoder)
            text = f"{cell}::text"
            if kind == "date":
                text = f"CASE WHEN {cell} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN {text} END"
            for place, key in enumerate((text, trim_expression(text))):
                joins.append(
                    f'LEFT JOIN {known} AS k{number}_{place}(t, c) ON k{number}_{place}.t = {key} COLLATE "C"'
                )
            long = f"octet_length({text}) > {LIMITS.max_cell_bytes}"
            found = f"COALESCE(k{number}_0.c, k{number}_1.c, {_code(encoder, pa.array([_unknown(encoder)]))})"
            empty = _code(encoder, pa.array([None], pa.string()))
            codes[name] = f"CASE WHEN {text} IS NULL OR {long} THEN {empty} ELSE {found} END"
        else:
            raise UsageError(
                f"column {name!r} is of type {kind} in the database, whose codes cannot be found there.",
                hint="leave --push-down out, or give a view with the column as text, a whole number or a date",
            )
    return SqlCodec(codes=codes, joins=joins)


def source_cell(name: str) -> str:
    """Return a column of the table under its alias."""
    return 'source."' + name.replace('"', '""') + '"'


def trim_expression(text: str) -> str:
    """Return the expression of a text without blanks at its ends, in Unicode's composed form."""
    return f"normalize(btrim({text}, {quote_text(_blanks())}), NFC)"


def quote_text(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _check_schema(schema: Schema) -> None:
    what = None
    if schema.rulebook.rules.rules:
        what = "universes and structural zeros are kept row by row"
    elif schema.geography is not None or schema.frequency is not None:
        what = "rows of a geography, or that stand for several units, are counted here"
    elif split := [name for name, column in schema.columns.items() if len(column.variables) > 1]:
        what = f"column {quote_names(split)} is split in two"
    elif len(schema.domain) > MAX_COLUMNS:
        what = f"there are more than {MAX_COLUMNS} columns"
    if what is not None:
        raise UsageError(
            f"rows are to be counted in the database, and {what}.",
            hint="let them be read: leave --push-down out",
        )


def _code(encoder: Encoder, cells: Any) -> int:
    return int(encoder(cells)[0])


def _unknown(encoder: Encoder) -> str:
    """Return a text that no column knows, however it is read."""
    return "\ufffd" + "".join(encoder.known_texts())


def _known_texts(encoder: Encoder) -> str:
    """Return the code table of all texts that a column knows."""
    texts = list(dict.fromkeys(["", *encoder.known_texts()]))
    codes = encoder(pa.array(texts, pa.string())).tolist()
    # A database holds no text with this character in it.
    rows = [f"({quote_text(t)}, {c})" for t, c in zip(texts, codes, strict=True) if "\0" not in t]
    return f"(VALUES {', '.join(rows)})"


def _to_float(cell: str, kind: str) -> str:
    if kind != "numeric":
        return f"{cell}::float8"
    # No number is too large or too small for the cast.
    return (
        f"CASE WHEN {cell} = 'NaN' THEN float8 'NaN' WHEN abs({cell}) > 1e300 THEN sign({cell})::float8 * 'Infinity' "
        f"WHEN abs({cell}) < 1e-300 THEN sign({cell})::float8 * 1e-300 ELSE {cell}::float8 END"
    )


def _bin_numbers(value: str, column: StepColumn | DecimalColumn, encoder: Encoder) -> str:
    special = [float(number) for number in numeric_special_codes(column).values()]
    if isinstance(column, DecimalColumn):
        points = np.array([*map(float, column.edges), *special])
        thresholds = np.unique([points, np.nextafter(points, np.inf)])
        found = _code_between(value, thresholds, encoder(pa.array(np.append(-np.inf, thresholds))), column)
    else:
        if any(number != np.floor(number) for number in special):
            raise UsageError(
                f"column {column.name!r} has a special code that is no whole number.",
                hint="leave --push-down out",
            )
        points = np.array([*map(float, column.starts), float(column.min), float(column.max), *special])
        thresholds = np.unique([points, points + 1])
        found = _code_between(value, thresholds, encoder(pa.array(np.append(-np.inf, thresholds))), column)
        broken = _code(encoder, pa.array([float(column.min) + 0.5]))
        found = f"CASE WHEN {value} = floor({value}) THEN {found} ELSE {broken} END"
    empty = _code(encoder, pa.array([None], pa.float64()))
    # NaN is larger than every number there: it is tested first.
    return f"CASE WHEN {value} IS NULL OR {value} = 'NaN' THEN {empty} ELSE {found} END"


def _bin_dates(cell: str, column: DateColumn, encoder: Encoder) -> str:
    points = np.array([*column.starts, column.min, column.max], dtype=np.int64)
    thresholds = np.unique([points, points + 1])
    days = pa.array(np.append(thresholds[0] - 1, thresholds), pa.int32()).cast(pa.date32())
    value = f"({cell} - date '1970-01-01')::float8"
    found = _code_between(value, thresholds.astype(np.float64), encoder(days), column)
    empty = _code(encoder, pa.array([None], pa.date32()))
    return f"CASE WHEN {cell} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN {found} ELSE {empty} END"


def _code_between(value: str, thresholds: npt.NDArray[Any], codes: npt.NDArray[Any], column: Column) -> str:
    """Return the expression of the code that belongs between two thresholds."""
    if len(thresholds) > MAX_THRESHOLDS:
        raise UsageError(
            f"column {column.name!r} has more bins than a query can hold.",
            hint="give it a width or edges, or leave --push-down out",
        )
    edges = ", ".join(repr(float(edge)) for edge in thresholds)
    known = ", ".join(map(str, codes.tolist()))
    return f"(ARRAY[{known}])[width_bucket({value}, ARRAY[{edges}]::float8[]) + 1]"


@cache
def _blanks() -> str:
    """Return all characters that are blanks at the ends of a text."""
    signs = [chr(number) for number in (*range(1, 0xD800), *range(0xE000, 0x10000))]
    return "".join(s for s, t in zip(signs, trim_texts(pa.array(signs)).to_pylist(), strict=True) if t == "")
