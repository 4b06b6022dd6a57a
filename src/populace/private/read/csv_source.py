"""Private rows in a text file: one line each, fields parted by a comma or another mark.

Everything that is guessed (encoding, separator, decimal mark) is guessed from the header line, which is public.
What happens to a row depends on that row alone: a line is a row, one with too few or too many fields, an open
quote or no end in sight is dropped, and a field that is not UTF-8 is read as Windows-1252.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from populace.core.errors import DataError
from populace.private.read import csv_lines as lines
from populace.private.read.file_signatures import refuse_other_texts
from populace.private.read.json_lines_source import Opener
from populace.private.redact import redact_open_errors, redact_row_errors
from populace.schema.imports.embedded.stat_formats import SIGNATURE_BYTES

# Arrow's functions are made at run time: a type checker cannot follow them.
arrow: Any = pyarrow.csv

SEPARATORS = (",", ";", "\t", "|")
_MAX_HEADER_BYTES = 2**22

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


class CsvSource:
    """A CSV file, or one with semicolons, tabs or bars instead of commas."""

    types: Mapping[str, pa.DataType] = {}
    metadata = None

    def __init__(self, path: Path, *, opened: Opener | None = None, packed: bool = False) -> None:
        """`opened` opens the file as it is inside, where it is packed."""
        self._path = path
        self._open: Opener = opened or (lambda: path.open("rb"))
        with redact_open_errors(str(path)), self._open() as handle:
            start = handle.read(SIGNATURE_BYTES)
            self._encoding, mark = _detect_encoding(start)
            self._ends = lines.line_ends(self._encoding)
            handle.seek(mark)
            header = _read_header(handle, ends=self._ends, path=path)
            self._body = mark + len(header)
            text = _header_text(header, encoding=self._encoding)
            refuse_other_texts(path, text, packed=packed)
            self._separator = detect_separator(text)
            self.names = _parse_names(text, separator=self._separator, path=path)
        # A line may be long where the header is; the header is public.
        self._longest = max(lines.MAX_LINE_BYTES, 16 * len(header))
        # Where fields are parted by semicolons, numbers are usually written 3,14.
        self.decimal = "," if self._separator == ";" else "."

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return nothing: every field is a text."""
        del columns
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch, as bytes."""
        # The file's own names may repeat, or be no UTF-8: the reader gets plain ones.
        plain = [f"c{place}" for place in range(len(self.names))]
        chosen = [plain[self.names.index(name)] for name in columns]
        with redact_row_errors(str(self._path)), self._open() as handle:
            handle.seek(self._body)
            for block in lines.read_whole_lines(handle, ends=self._ends, longest=self._longest):
                text = lines.convert_to_utf8(block, encoding=self._encoding, ends=self._ends)
                rows = lines.select_rows(text, separator=self._separator.encode(), fields=len(plain))
                for batch in self._parse(rows, names=plain, chosen=chosen).to_batches():
                    yield pa.RecordBatch.from_arrays(batch.columns, names=list(columns))

    def _parse(self, rows: bytes, *, names: list[str], chosen: list[str]) -> pa.Table:
        """Return the chosen fields of lines that all have as many fields as there are names.

        Arrow joins lines wherever a quote is open, whatever it is told: it must get none in which one stays open.
        """
        as_written = pa.dictionary(pa.int32(), pa.binary())
        # Arrow takes a byte-order mark off the first line it sees, and off no other: that line is a blank one.
        text = b"\n" + rows
        table: pa.Table = arrow.read_csv(
            pa.BufferReader(text),
            read_options=arrow.ReadOptions(block_size=len(text), column_names=names),
            parse_options=arrow.ParseOptions(delimiter=self._separator, ignore_empty_lines=True),
            convert_options=arrow.ConvertOptions(
                include_columns=chosen,
                column_types=dict.fromkeys(chosen, as_written),
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
        return table


def detect_separator(header: str) -> str:
    """Return the mark that parts the fields of a header: the most frequent one outside quotes.

    >>> detect_separator('AGE;SEX;"a,b,c,d"')
    ';'
    """
    bare = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=bare.count)


def _detect_encoding(start: bytes) -> tuple[str, int]:
    """Return the encoding that the first bytes of a file show, and the length of its byte-order mark."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding, len(mark)
    # Two-byte characters of a Latin header: every other byte is zero.
    if len(start) >= 2 and start[1] == 0 and start[0] != 0:
        return "utf-16-le", 0
    if len(start) >= 2 and start[0] == 0 and start[1] != 0:
        return "utf-16-be", 0
    return "utf-8", 0


def _read_header(handle: BinaryIO, *, ends: Sequence[bytes], path: Path) -> bytes:
    """Return the bytes of the first line, without its end."""
    seen = b""
    while len(seen) < _MAX_HEADER_BYTES:
        block = handle.read(2**16)
        seen += block
        end = lines.find_end(seen, ends=ends)
        if end >= 0 or not block:
            return seen[:end] if end >= 0 else seen
    raise DataError(
        f"{str(path)!r} has no line breaks: it is not a table.", hint="give a CSV or Parquet file"
    )


def _header_text(header: bytes, *, encoding: str) -> str:
    try:
        return header.decode(encoding)
    except UnicodeDecodeError:
        return header.decode("cp1252" if encoding == "utf-8" else encoding, errors="replace")


def _parse_names(header: str, *, separator: str, path: Path) -> tuple[str, ...]:
    found = lines.split_fields(header.encode(), separator=separator.encode())
    if found is None:
        raise DataError(
            f"the header of {str(path)!r} has a quotation mark that is never closed.",
            hint='write the names in one line, and a quotation mark inside a quoted name twice ("")',
        )
    return tuple(name.decode() for name in found) if header else ()
