"""Private rows in a file of SPSS, Stata or SAS, read batch by batch as codes, never as labels.

A number that is whole reads as a whole number, a missing code of SPSS as its number, one of Stata or SAS as .a to .z.
What becomes of a cell depends on that cell and on what the header declares: texts are read byte for byte and decoded
one by one, so that a byte that the declared encoding lacks spoils its own character alone.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.errors import DataError
from populace.private.read.sources import BATCH_ROWS
from populace.private.redact import redact_open_errors, redact_row_errors
from populace.schema.codec.cell_texts import Array, to_texts
from populace.schema.imports.embedded.file_metadata import (
    ColumnMetadata,
    FileMetadata,
    code_text,
    read_file_metadata,
)
from populace.schema.imports.embedded.stat_formats import SIGNATURE_BYTES, StatFormat

# Cells come as objects of Python; so many at a time take some fifty million bytes.
_BATCH_CELLS = 2**20
# Every byte is one character of it, and comes back as the same byte.
_BYTES = "LATIN1"
# As Python names the encodings that SPSS and SAS call otherwise.
_CODECS = {"BIG-5": "big5", "WINDOWS-874": "cp874"}
# Stata's texts are in UTF-8 from this release on, and were in that of Windows before.
_STATA_UTF8 = 118


class StatSource:
    """A .sav, .zsav, .por, .dta, .xpt or .sas7bdat file."""

    decimal = "."
    types: Mapping[str, pa.DataType] = {}

    def __init__(self, path: Path) -> None:
        self._path = path
        with redact_open_errors(str(path)):
            self._header = read_file_metadata(path)
            self._encoding = None if self._header.format is StatFormat.POR else self._find_encoding()
            self._byte_names = self._header.names
            self._unbounded: tuple[str, ...] = ()
            if self._encoding is not None:
                self._byte_names, self._unbounded = self._read_byte_header()
        self.names = self._header.names
        self._columns = {column.name: column for column in self._header.columns}

    @property
    def metadata(self) -> FileMetadata | None:
        """The labels and missing codes that the file declares."""
        return self._header

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return Stata's texts of any length: one of them that is damaged would spoil the rows of all."""
        return [name for name in columns if name in self._unbounded]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""
        # Of no column there would be no rows to count.
        wanted = list(dict.fromkeys(columns)) or list(self.names[:1])
        rows = max(BATCH_ROWS // 16, min(4 * BATCH_ROWS, _BATCH_CELLS // max(1, len(wanted))))
        in_file = dict(zip(self.names, self._byte_names, strict=True))
        encoding = {} if self._encoding is None else {"encoding": _BYTES}
        with redact_row_errors(str(self._path)):
            for start in range(0, 2**62, rows):
                window = {
                    "usecols": [in_file[name] for name in wanted],
                    "row_offset": start,
                    "row_limit": rows,
                }
                cells, _ = self._header.format.read(self._path, {**window, **encoding})
                arrays = [self._to_arrow(self._columns[name], cells[in_file[name]]) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
                if len(cells[in_file[wanted[0]]]) < rows:
                    return

    def _find_encoding(self) -> str:
        """Return the encoding that the file's texts are in, as Python names it; what has no name there is refused."""
        if self._header.encoding is not None:
            return self._header.encoding
        declared = self._header.format.read(self._path, {"metadataonly": True})[1].file_encoding
        if self._header.format is StatFormat.DTA:
            with self._path.open("rb") as handle:
                release = re.search(rb"<release>(\d+)", handle.read(SIGNATURE_BYTES))
            declared = None if release and int(release[1]) >= _STATA_UTF8 else "WINDOWS-1252"
        name = str(declared or "UTF-8")
        try:
            return codecs.lookup(_CODECS.get(name.upper(), name)).name
        except LookupError:
            raise DataError(
                f"{str(self._path)!r} declares an encoding of its texts that is not known here.",
                hint="save it in UTF-8, or export it to CSV or Parquet",
            ) from None

    def _read_byte_header(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the columns where each byte is a character, in order, and those of texts of any length.

        The library decodes texts of any length, Stata's strL, by itself and gives up at the first stray byte.
        """
        found = self._header.format.read(self._path, {"metadataonly": True, "encoding": _BYTES})[1]
        names = tuple(found.column_names)
        if self._header.format is not StatFormat.DTA:
            return names, ()
        widths = [found.variable_storage_width.get(name) for name in names]
        described = zip(self._header.columns, widths, strict=True)
        return names, tuple(column.name for column, width in described if column.is_text and width == 0)

    def _decode(self, cell: str | None) -> str | None:
        if cell is None or self._encoding is None:
            return cell
        return cell.encode(_BYTES).decode(self._encoding, "replace")

    def _to_arrow(self, column: ColumnMetadata, cells: list[Any]) -> Array:
        if column.is_text:
            return pa.array(map(self._decode, cells), pa.string())
        tags = {place: cell for place, cell in enumerate(cells) if isinstance(cell, str)}
        numbers = np.array(
            [np.nan if c is None or isinstance(c, str) else c for c in cells], dtype=np.float64
        )
        values = (
            pa.array(numbers, from_pandas=True) if column.moment is None else column.moment.to_arrow(numbers)
        )
        if not self._header.format.tags_missing:
            return values
        # As texts in every batch, whether or not it has such a cell.
        written = to_texts(values)
        if not tags:
            return written
        texts = written.to_pylist()
        for place, tag in tags.items():
            texts[place] = code_text(tag, form=self._header.format)
        return pa.array(texts, pa.string())
