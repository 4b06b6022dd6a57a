"""Excel workbooks: the first sheet below its header, cell by cell, without the library's words."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from populace.core.errors import DataError, ResourceError
from populace.private.read import sheet_source
from populace.private.read.rows_to_codes import open_source


def save(path: Path, *rows: tuple[Any, ...]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("other").append(("not", "read"))
    book.save(path)
    return path


def read(path: Path) -> dict[str, list[str | None]]:
    source = open_source(path)
    batches = [batch.to_pydict() for batch in source.batches(source.names)]
    return {name: [cell for batch in batches for cell in batch[name]] for name in source.names}


def test_cells_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(
        tmp_path / "rows.xlsx",
        ("n", "text", "day", "moment", "clock", "truth"),
        (
            1,
            "é",
            datetime.date(2020, 1, 31),
            datetime.datetime(2020, 1, 31, 12, 30),
            datetime.time(7, 5),
            True,
        ),
        (2.5, " x ", None, None, None, False),
        (None,) * 6,
        (1e15, "3", None),
    )
    expected = {
        "n": ["1", "2.5", "1000000000000000"],
        "text": ["é", " x ", "3"],
        "day": ["2020-01-31", None, None],
        "moment": ["2020-01-31 12:30:00", None, None],
        "clock": ["07:05:00", None, None],
        "truth": ["true", "false", None],
    }
    assert read(path) == expected
    monkeypatch.setattr(sheet_source, "BATCH_ROWS", 1)
    assert read(path) == expected


def test_a_sheet_without_rows_is_a_table(tmp_path: Path) -> None:
    assert read(save(tmp_path / "rows.xlsx", ("a", "b"))) == {"a": [], "b": []}


def test_a_first_row_of_values_is_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no header") as caught:
        open_source(save(tmp_path / "rows.xlsx", ("canary4711", 44), ("b", 3)))
    assert "canary4711" not in str(caught.value)
    assert "44" not in str(caught.value)


def test_the_librarys_warnings_are_not_shown(tmp_path: Path) -> None:
    """It warns of a date beyond its calendar, and quotes the cell."""
    path = tmp_path / "rows.xlsx"
    book = openpyxl.Workbook()
    book.active.append(("day",))
    book.active.append((4_711_000_815,))
    book.active["A2"].number_format = "yyyy-mm-dd"
    book.save(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(read(path)["day"]) == 1
    assert not caught


def test_a_damaged_sheet_is_told_in_fixed_words(tmp_path: Path) -> None:
    path = save(tmp_path / "rows.xlsx", ("a", "b"), *[("canary4711", n) for n in range(2000)])
    content = path.read_bytes()
    place = content.index(b"xl/worksheets/sheet1.xml") + 2000
    path.write_bytes(content[:place] + b"\xff" * 40 + content[place + 40 :])
    with pytest.raises((DataError, ResourceError)) as caught:
        read(path)
    assert "cannot be read" in str(caught.value)
    assert "canary4711" not in str(caught.value)


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_first_sheet_is_refused(tmp_path: Path, state: str) -> None:
    book = openpyxl.Workbook()
    book.active.append(("canary4711",))
    book.active.sheet_state = state
    book.create_sheet("shown").append(("a",))
    book.save(tmp_path / "rows.xlsx")
    with pytest.raises(DataError, match="is hidden") as caught:
        open_source(tmp_path / "rows.xlsx")
    assert "canary4711" not in str(caught.value)
