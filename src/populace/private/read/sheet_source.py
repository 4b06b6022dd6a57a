"""Private rows in an Excel workbook: those of its first sheet, below a row of column names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from populace.core.errors import DataError, UsageError
from populace.private.read.sources import BATCH_ROWS, cell_text
from populace.private.redact import redact_open_errors, redact_row_errors


class SheetSource:
    """The first sheet of an .xlsx or .xlsm file."""

    decimal = "."
    types: Mapping[str, pa.DataType] = {}
    metadata = None

    def __init__(self, path: Path) -> None:
        self._path = path
        with redact_open_errors(str(path)), _open_rows(path) as rows:
            header = list(next(rows, ()))
        while header and header[-1] is None:
            header.pop()
        if not all(isinstance(name, str) for name in header):
            # Not quoted: a first row of values is private.
            raise DataError(
                f"the first row of {str(path)!r} is no header: not every cell of it is a text.",
                hint="put a row with the names of the columns first in the first sheet",
            )
        self.names = tuple(str(name) for name in header)

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return nothing: every cell is a text, a number, a date or a truth value."""
        del columns
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch; rows without any cell are no rows."""
        places = [self.names.index(name) for name in columns]
        with redact_row_errors(str(self._path)), _open_rows(self._path) as rows:
            next(rows, None)
            while batch := list(islice(rows, BATCH_ROWS)):
                kept = [row for row in batch if any(cell is not None for cell in row)]
                arrays = [
                    pa.array([_text(row[place]) if place < len(row) else None for row in kept], pa.string())
                    for place in places
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _text(cell: Any) -> str | None:
    # A day in a sheet is a moment at midnight.
    if isinstance(cell, datetime | date | time):
        return (
            cell.isoformat(sep=" ").removesuffix(" 00:00:00")
            if isinstance(cell, datetime)
            else cell.isoformat()
        )
    return cell_text(cell, {})


@contextmanager
def _open_rows(path: Path) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Yield the rows of the first sheet, without the library's warnings: they quote cells."""
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            "Excel workbooks need openpyxl, which is not installed.",
            hint="pip install 'populace[xlsx]', or save the sheet as CSV",
        ) from None
    # By its name the library would refuse a workbook.
    with warnings.catch_warnings(), path.open("rb") as handle:
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(handle, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = book.worksheets[0]
            if sheet.sheet_state != "visible":
                raise DataError(
                    f"the first sheet of {str(path)!r} is hidden: it may be another one than you mean.",
                    hint="show it, or put the sheet with the table first",
                )
            # What a sheet says of its size may be wrong.
            sheet.reset_dimensions()
            yield sheet.iter_rows(values_only=True)
        finally:
            book.close()
