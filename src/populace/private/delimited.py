"""Private rows in a text file: one line each, fields parted by a comma or another mark.

Everything that is guessed (encoding, separator, decimal mark) is guessed from the header line, which is public.
What happens to a row depends on that row alone: with too few or too many fields it is dropped, and a field that
is not UTF-8 is read as Windows-1252.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa
import pyarrow.csv

from populace.errors import DataError
from populace.private.sources import plain_errors

# Arrow's functions are made at run time: a type checker cannot follow them.
arrow: Any = pyarrow.csv

SEPARATORS = (",", ";", "\t", "|")
_BLOCK = 2**22
_LONGEST_HEADER = 2**22

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_OTHER_FORMATS = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet",
    b"\x1f\x8b": "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"ARROW1": "an Arrow file",
    b"$FL2": "an SPSS file",
    b"%PDF": "a PDF",
    b"SQLite format 3": "a SQLite database",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
}


class DelimitedSource:
    """A CSV file, or one with semicolons, tabs or bars instead of commas."""

    kind: Literal["csv"] = "csv"

    def __init__(self, path: Path) -> None:
        self._path = path
        with plain_errors(str(path)), path.open("rb") as handle:
            start = handle.read(64)
            _refuse_other_formats(path, start)
            self._encoding, self._mark = _encoding(start)
            handle.seek(self._mark)
            header = _header(_Recoded(handle, encoding=self._encoding), path=path)
            self._skip = len(header)
            text = _header_text(header)
            self._separator = separator(text)
            self.names = tuple(next(csv.reader([text], delimiter=self._separator), []))
        # Where fields are parted by semicolons, numbers are usually written 3,14.
        self.decimal = "," if self._separator == ";" else "."

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch, as bytes."""
        # The file's own names may repeat, or be no UTF-8: the reader gets plain ones.
        plain = [f"c{place}" for place in range(len(self.names))]
        chosen = [plain[self.names.index(name)] for name in columns]
        as_written = pa.dictionary(pa.int32(), pa.binary())
        with plain_errors(str(self._path)), self._path.open("rb") as handle:
            handle.seek(self._mark)
            body = _Recoded(handle, encoding=self._encoding)
            body.read(self._skip)
            body.quotes = 0
            body.prepend(self._separator.join(plain).encode() + b"\n")
            reader = arrow.open_csv(
                pa.PythonFile(cast(Any, body), mode="r"),
                read_options=arrow.ReadOptions(block_size=_BLOCK),
                parse_options=arrow.ParseOptions(
                    delimiter=self._separator,
                    newlines_in_values=True,
                    ignore_empty_lines=True,
                    invalid_row_handler=_drop,
                ),
                convert_options=arrow.ConvertOptions(
                    include_columns=chosen,
                    column_types=dict.fromkeys(chosen, as_written),
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
            for batch in reader:
                yield pa.RecordBatch.from_arrays(batch.columns, names=list(columns))
            if body.quotes % 2:
                # Text after the open quote was taken for one long field: rows are lost.
                raise DataError(
                    f"{str(self._path)!r} has a quotation mark that is never closed.",
                    hint='write a quotation mark inside a field twice ("") and put the field in quotes',
                )


def separator(header: str) -> str:
    """Return the mark that parts the fields of a header: the most frequent one outside quotes.

    >>> separator('AGE;SEX;"a,b,c,d"')
    ';'
    """
    bare = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=bare.count)


class _Recoded:
    """A file as a stream of UTF-8 bytes; counts the quotation marks it hands out."""

    closed = False

    def __init__(self, handle: BinaryIO, *, encoding: str) -> None:
        self._handle = handle
        self._recode = None if encoding == "utf-8" else codecs.getreader(encoding)(handle, "replace")
        self._ahead = b""
        self.quotes = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer than asked for only at the end of the file."""
        parts, wanted = [], size
        while wanted > 0 and (self._ahead or self._fill()):
            parts.append(self._ahead[:wanted])
            self._ahead = self._ahead[wanted:]
            wanted -= len(parts[-1])
        block = b"".join(parts)
        self.quotes += block.count(b'"')
        return block

    def prepend(self, text: bytes) -> None:
        """Put bytes before what comes next."""
        self._ahead = text + self._ahead

    def close(self) -> None:
        """Leave the file to whoever opened it."""

    def _fill(self) -> bool:
        if self._recode is None:
            self._ahead = self._handle.read(_BLOCK)
        else:
            self._ahead = self._recode.read(_BLOCK).encode()
        return bool(self._ahead)


def _encoding(start: bytes) -> tuple[str, int]:
    """Return the encoding that the first bytes of a file show, and the length of its byte-order mark."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding, len(mark)
    # Two-byte characters of a Latin header: every other byte is zero.
    if len(start) >= 2 and start[1] == 0 and start[0] != 0:
        return "utf-16-le", 0
    if len(start) >= 2 and start[0] == 0 and start[1] != 0:
        return "utf-16-be", 0
    return "utf-8", 0


def _header(stream: _Recoded, *, path: Path) -> bytes:
    """Return the first line with its end, quoted line breaks included."""
    seen = b""
    while len(seen) < _LONGEST_HEADER:
        block = stream.read(2**16)
        seen += block
        end = _line_end(seen)
        # A carriage return at the very end may have its line feed in the next block.
        if end is not None and (end < len(seen) or not block):
            return seen[:end]
        if not block:
            return seen
    raise DataError(
        f"{str(path)!r} has no line breaks: it is not a table.", hint="give a CSV or Parquet file"
    )


def _line_end(text: bytes) -> int | None:
    """Return where the line after the first one begins, or None where no line ends."""
    place = 0
    while ends := [at for at in (text.find(b"\n", place), text.find(b"\r", place)) if at >= 0]:
        at = min(ends)
        if text.count(b'"', 0, at) % 2 == 0:
            return at + (2 if text[at : at + 2] == b"\r\n" else 1)
        place = at + 1
    return None


def _header_text(header: bytes) -> str:
    line = header.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace")


def _refuse_other_formats(path: Path, start: bytes) -> None:
    if not start:
        raise DataError(
            f"{str(path)!r} is empty.", hint="a table needs at least a header line with the column names"
        )
    for magic, name in _OTHER_FORMATS.items():
        if start.startswith(magic):
            raise DataError(f"{str(path)!r} is {name}.", hint="unpack or export it to CSV or Parquet first")


def _drop(_row: object) -> Literal["skip"]:
    """Drop a row whose number of fields is not the header's."""
    return "skip"
