"""Tables of texts: a CSV file or the sheets of a workbook, each line with its number."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from populace.core.errors import ResourceError, SchemaError

MAX_LINES = 1_000_000
WORKBOOK_SIGNATURE = b"PK\x03\x04"
csv.field_size_limit(10_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A header and the lines below it; names of columns are compared in lower case, without blanks around them."""

    header: tuple[str, ...]
    lines: tuple[tuple[int, tuple[str, ...]], ...]

    @classmethod
    def of(cls, lines: Sequence[tuple[int, Sequence[str]]]) -> Sheet:
        """Return the sheet of some lines, of which the first that is not empty is the header."""
        filled = [(number, tuple(cell.strip() for cell in cells)) for number, cells in lines if any(cells)]
        header = filled[0][1] if filled else ()
        return cls(header=tuple(name.lower() for name in header), lines=tuple(filled[1:]))

    def rows(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        """Yield each line with its number, as a mapping from the names of columns."""
        for number, cells in self.lines:
            padded = (*cells, *[""] * (len(self.header) - len(cells)))
            yield number, dict(zip(self.header, padded, strict=False))

    def has(self, *names: str) -> bool:
        """Say whether the header has all of some names."""
        return set(names) <= set(self.header)


def parse_csv_lines(text: str) -> list[tuple[int, list[str]]]:
    """Return the lines of a CSV text with their numbers, parted by commas, semicolons or tabs.

    >>> parse_csv_lines("a;b\\n1;2\\n")
    [(1, ['a', 'b']), (2, ['1', '2'])]
    """
    first = text.partition("\n")[0]
    mark = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=mark)
    found = []
    try:
        for cells in reader:
            found.append((reader.line_num, cells))
            if len(found) > MAX_LINES:
                raise SchemaError(
                    f"the codebook has more than {MAX_LINES} lines.",
                    hint="is it the data and not its codebook?",
                )
    except csv.Error as error:
        raise SchemaError(
            f"the codebook cannot be read as CSV: {error}.", hint="save it as CSV again"
        ) from None
    return found


def is_workbook(path: Path) -> bool:
    """Say by its first bytes whether a file may be an Excel workbook."""
    try:
        with path.open("rb") as file:
            return file.read(4) == WORKBOOK_SIGNATURE
    except OSError:
        return False


def read_workbook(path: Path) -> dict[str, Sheet]:
    """Return the sheets of an Excel workbook by their names in lower case."""
    try:
        openpyxl = import_module("openpyxl")
    except ImportError:
        raise ResourceError(
            "reading an Excel workbook needs openpyxl, which is not installed.",
            hint="install populace[xlsx], or save each sheet as CSV",
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        return {
            str(sheet.title).strip().lower(): Sheet.of(
                [
                    (number, [_format_cell(cell) for cell in cells])
                    for number, cells in enumerate(
                        sheet.iter_rows(values_only=True, max_row=MAX_LINES), start=1
                    )
                ]
            )
            for sheet in book.worksheets
        }
    except Exception as error:
        raise SchemaError(
            f"{str(path)!r} cannot be read as an Excel workbook ({type(error).__name__}).",
            hint="save it again as .xlsx, or each sheet as CSV",
        ) from None


def _format_cell(cell: object) -> str:
    """Return a cell as a person sees it: whole numbers without a point."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
