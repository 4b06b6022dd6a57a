"""Private rows in JSON Lines: one object on each line, whose keys are the names of columns.

There is no header: every line is a private row, the first one too. So the name of a file says that it is one, the
schema says which keys are read, and no line is looked at before. A line that is no object is dropped, and a key that it
lacks is an empty cell; what happens to a line depends on that line alone.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from populace.private.read import csv_lines as lines
from populace.private.redact import redact_row_errors

Opener: TypeAlias = Callable[[], BinaryIO]

_ENDS = lines.line_ends("utf-8")
_MAX_EXACT = 2**53
_SUFFIXES = (".jsonl", ".ndjson")


class AnyNames(tuple[str, ...]):
    """The names of a table without a header: it may have any column, and lists none but those that are known otherwise.

    >>> "age" in AnyNames(), list(AnyNames())
    (True, [])
    """

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)


class JsonLinesSource:
    """A file of JSON objects, one on each line."""

    decimal = "."
    types: Mapping[str, pa.DataType] = {}
    metadata = None
    names: tuple[str, ...] = AnyNames()

    def __init__(self, path: Path, *, opened: Opener) -> None:
        self._path, self._open = path, opened

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return nothing: what is no text, number or truth value is an empty cell."""
        del columns
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""
        for rows in self._read_rows():
            arrays = [pa.array([row.get(name) for row in rows], pa.string()) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def collect_names(self) -> tuple[str, ...]:
        """Read all rows and return the keys that occur in any of them. For public data alone."""
        found = dict.fromkeys(name for rows in self._read_rows() for row in rows for name in row)
        return tuple(found)

    def _read_rows(self) -> Iterator[list[dict[str, str | None]]]:
        with redact_row_errors(str(self._path)), self._open() as handle:
            for block in lines.read_whole_lines(handle, ends=_ENDS, longest=lines.MAX_LINE_BYTES):
                yield [row for line in block.splitlines() if (row := parse_object(line)) is not None]


def is_json_lines(path: Path) -> bool:
    """Say whether a file is JSON Lines, by its name: what it begins with is a row.

    >>> [is_json_lines(Path(name)) for name in ("a.jsonl", "a.NDJSON.gz", "a.json")]
    [True, True, False]
    """
    bare = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return bare.suffix.lower() in _SUFFIXES


def parse_object(line: bytes) -> dict[str, str | None] | None:
    """Return the cells of a line that is a JSON object, as texts; None where it is none.

    >>> parse_object(b'{"age": 44.0, "sex": "f", "pets": ["cat"], "job": null, "well": true}')
    {'age': '44', 'sex': 'f', 'pets': None, 'job': None, 'well': 'true'}
    >>> parse_object(b"[1, 2]"), parse_object(b'{"age": 44')
    (None, None)
    """
    try:
        # A whole number stays as it is written: no length of it is too long.
        plain = line.removeprefix(codecs.BOM_UTF8)
        found = json.loads(plain, parse_int=str, parse_float=_float_text, parse_constant=_constant_text)
    except (ValueError, RecursionError):
        return None
    return {key: _cell_text(cell) for key, cell in found.items()} if isinstance(found, dict) else None


def _cell_text(cell: Any) -> str | None:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    # Half a character is none.
    return cell.encode(errors="replace").decode() if isinstance(cell, str) else None


def _float_text(text: str) -> str:
    number = float(text)
    whole = number.is_integer() and abs(number) < _MAX_EXACT
    return str(int(number)) if whole else repr(number)


def _constant_text(text: str) -> str | None:
    return {"Infinity": "inf", "-Infinity": "-inf"}.get(text)
