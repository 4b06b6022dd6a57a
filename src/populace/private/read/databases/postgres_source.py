"""A table or view of PostgreSQL, read in one transaction that sees one snapshot and can write nothing.

Cells come as Arrow batches over the protocol of COPY. Their types are those that every reader of ours knows: numbers,
truth values, dates and times as they are, all else as the text that the database shows. No cell makes a query fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from populace.core.errors import DataError, PopulaceError, ResourceError, UsageError
from populace.core.table_address import TableAddress
from populace.private.engine import Engine
from populace.private.engines.postgres_engine import PostgresEngine
from populace.private.engines.sql_codec import compile_codec
from populace.private.read.databases.missing_library import require_library
from populace.private.redact import redact_row_errors
from populace.schema.codec.cell_texts import Array, find_distinct, pc, to_floats, to_texts
from populace.schema.schema import Schema

_PLAIN = ("bool", "int2", "int4", "int8", "float4", "float8", "bytea", "time")
# Years of one to four digits: the calendar of every reader. Infinity lies beyond.
_CALENDAR = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp": ("0001-01-01", "9999-12-31 23:59:59.999999"),
    "timestamptz": ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
}
# Arrays, composites, lengths of time and pseudo-types.
_NO_TEXT = ("A", "C", "T", "P")
_UTF8 = "UTF8"
# As Python names the encodings of databases that are not their own name there. One of SQL_ASCII does not know its own.
_CODECS = {"UHC": "cp949", "SJIS": "cp932", "WIN866": "cp866", "WIN874": "cp874", "MULE_INTERNAL": "latin-1"}
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO'",
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL standard_conforming_strings = on",
    # Between two reads a run may think for long.
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_HEADER = """
SELECT a.attname::text, COALESCE(b.typname, t.typname)::text, t.typcategory::text,
       pg_catalog.getdatabaseencoding()::text
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype
WHERE a.attrelid = pg_catalog.to_regclass({table}) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class _ColumnType:
    name: str
    category: str


class PostgresSource:
    """A table of PostgreSQL whose columns are known and whose rows have not been read."""

    kind: Literal["frame"] = "frame"
    decimal = "."

    def __init__(self, address: TableAddress, *, key: str | None = None, opened: Any = None) -> None:
        self._address = address
        self._key = key
        if opened is not None:
            self._connection, self._types, self._encoding = opened
        else:
            with _redact_connection(address):
                self._connection = _connect(address)
                header = _fetch(self._connection, _HEADER.format(table=_literal(address.quoted)))
            self._types = {name: _ColumnType(kind, category) for name, kind, category, _ in header}
            self._encoding = header[0][3] if header else _UTF8
        if not self._types:
            raise DataError(
                f"there is no table {address.table!r} in this database, or it has no columns.",
                hint="check the name, to the letter, and the schema before it: …::SCHEMA.TABLE",
            )
        self.names = tuple(self._types)

    def close(self) -> None:
        """End the transaction: its snapshot, and the locks that it holds."""
        with suppress(Exception):
            self._connection.close()

    def sort_by_unit(self, key: str) -> PostgresSource:
        """Return the same table, its rows ordered by a key and by all that they hold."""
        return PostgresSource(self._address, key=key, opened=(self._connection, self._types, self._encoding))

    def open_engine(self, schema: Schema) -> Callable[[], Engine]:
        """Return what opens the engine that counts rows in the database; refuse what cannot be counted there."""
        if self._encoding != _UTF8:
            raise UsageError(
                "the database is in another encoding than UTF-8, whose texts cannot be compared there.",
                hint="leave --push-down out",
            )
        types = {name: kind.name for name, kind in self._types.items()}
        unit = schema.unit.id
        if unit is not None and types[unit] not in (
            "text",
            "varchar",
            "bpchar",
            "int2",
            "int4",
            "int8",
            "uuid",
        ):
            raise UsageError(
                f"the id {unit!r} is neither a text nor a whole number in the database.",
                hint="leave --push-down out",
            )
        codec = compile_codec(schema, types)
        return lambda: PostgresEngine(
            self._connection, table=self._address.quoted, schema=schema, codec=codec
        )

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns whose declared type no text, number or date can have: lists and the like."""
        return [name for name in columns if self._types[name].category in _NO_TEXT]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""
        with redact_row_errors(self._address.title), self._connection.cursor() as cursor:
            cursor.execute(self._query(columns))
            with cursor.fetch_record_batch() as reader:
                for batch in reader:
                    arrays = [self._clean(name, batch.column(name)) for name in columns]
                    yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _query(self, columns: Sequence[str]) -> str:
        cells = [f"{self._expression(name)} AS {_quote(name)}" for name in columns]
        query = f"SELECT {', '.join(cells)} FROM {self._address.quoted} AS source"
        if self._key is None:
            return query
        order = [f"{self._sort_key(name)} NULLS FIRST" for name in dict.fromkeys([self._key, *columns])]
        return f"{query} ORDER BY {', '.join(order)}"

    def _sort_key(self, name: str) -> str:
        """Return what rows are ordered by: numbers and dates as such, texts by their bytes.

        Other collations call texts equal that are not.
        """
        if self._types[name].name in (*_PLAIN, *_CALENDAR, "numeric"):
            return _source_cell(name)
        return f'{_source_cell(name)}::text COLLATE "C"'

    def _expression(self, name: str) -> str:
        cell, kind = _source_cell(name), self._types[name].name
        if kind in _PLAIN:
            return cell
        if kind in _CALENDAR:
            first, last = (f"{kind} '{day}'" for day in _CALENDAR[kind])
            return f"CASE WHEN {cell} BETWEEN {first} AND {last} THEN {cell} END"
        if self._encoding == _UTF8 or kind == "numeric":
            return f"{cell}::text"
        # As it is stored: to translate it may fail.
        return f"pg_catalog.convert_to({cell}::text, pg_catalog.getdatabaseencoding())"

    def _clean(self, name: str, cells: Array) -> Array:
        kind = self._types[name].name
        if kind == "numeric":
            return _format_decimals(cells)
        if kind in (*_PLAIN, *_CALENDAR) or self._encoding in (_UTF8, "SQL_ASCII"):
            return cells
        codec = _CODECS.get(self._encoding, self._encoding.replace("WIN", "cp"))
        distinct, places = find_distinct(cells)
        texts = [None if each is None else each.decode(codec, "replace") for each in distinct.to_pylist()]
        return pc.take(pa.array(texts, pa.string()), pa.array(places, mask=places < 0))


def _format_decimals(cells: Array) -> Array:
    """Return decimals as numbers of any other type are written: whole ones with all their digits.

    >>> _format_decimals(pa.array(["18446744073709551617", "2.50", "2.0", "NaN", None])).to_pylist()
    ['18446744073709551617', '2.5', '2', None, None]
    """
    distinct, places = find_distinct(cells)
    whole = pc.match_substring_regex(distinct, r"^-?[0-9]+$")
    texts = pc.if_else(whole, distinct, to_texts(pa.array(to_floats(distinct))))
    return pc.take(texts, pa.array(places, mask=places < 0))


def _connect(address: TableAddress) -> Any:
    dbapi = require_library("adbc_driver_postgresql.dbapi", extra="postgres")
    connection = dbapi.connect(address.location)
    with connection.cursor() as cursor:
        for setting in _SETTINGS:
            cursor.execute(setting)
    return connection


def _fetch(connection: Any, query: str) -> list[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        rows: list[tuple[str, ...]] = cursor.fetchall()
        return rows


@contextmanager
def _redact_connection(address: TableAddress) -> Iterator[None]:
    """Say that a database cannot be reached, without the address, the user or what the server said."""
    try:
        yield
    except PopulaceError:
        raise
    except Exception:
        raise ResourceError(
            f"{address.title} cannot be reached: there is no such server or database, or it lets this user not in.",
            hint="check the address, PGUSER, and PGPASSWORD or the password file; `psql` takes the same",
        ) from None


def _source_cell(name: str) -> str:
    # With its table: ORDER BY would take a bare name for what was selected under it.
    return f"source.{_quote(name)}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
