"""Private rows in a file of SPSS, Stata or SAS, read batch by batch as codes, never as labels.

A number that is whole reads as a whole number, a missing code of SPSS as its number, one of Stata or SAS as .a to .z.
What becomes of a cell depends on that cell and on what the header declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from populace.private.read.sources import BATCH_ROWS
from populace.private.redact import redact_open_errors, redact_row_errors
from populace.schema.codec.cell_texts import Array, to_texts
from populace.schema.imports.embedded.file_metadata import (
    ColumnMetadata,
    FileMetadata,
    code_text,
    read_file_metadata,
)

# Cells come as objects of Python; so many at a time take some fifty million bytes.
_BATCH_CELLS = 2**20


class StatSource:
    """A .sav, .zsav, .por, .dta, .xpt or .sas7bdat file."""

    decimal = "."
    types: Mapping[str, pa.DataType] = {}

    def __init__(self, path: Path) -> None:
        self._path = path
        with redact_open_errors(str(path)):
            self._header = read_file_metadata(path)
        self.names = self._header.names
        self._columns = {column.name: column for column in self._header.columns}

    @property
    def metadata(self) -> FileMetadata | None:
        """The labels and missing codes that the file declares."""
        return self._header

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return nothing: cells are numbers, dates and texts."""
        del columns
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""
        # Of no column there would be no rows to count.
        wanted = list(dict.fromkeys(columns)) or list(self.names[:1])
        rows = max(BATCH_ROWS // 16, min(4 * BATCH_ROWS, _BATCH_CELLS // max(1, len(wanted))))
        encoding = {} if self._header.encoding is None else {"encoding": self._header.encoding}
        with redact_row_errors(str(self._path)):
            for start in range(0, 2**62, rows):
                window = {"usecols": wanted, "row_offset": start, "row_limit": rows}
                cells, _ = self._header.format.read(self._path, {**window, **encoding})
                arrays = [self._to_arrow(self._columns[name], cells[name]) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
                if len(cells[wanted[0]]) < rows:
                    return

    def _to_arrow(self, column: ColumnMetadata, cells: list[Any]) -> Array:
        if column.is_text:
            return pa.array(cells, pa.string())
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
