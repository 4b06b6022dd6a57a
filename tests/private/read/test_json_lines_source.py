"""JSON Lines: one object on each line, whose keys are the columns; each line decides alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from populace.core.errors import DataError
from populace.private.read import csv_lines
from populace.private.read.json_lines_source import JsonLinesSource, parse_object
from populace.private.read.rows_to_codes import check_header, open_source, read_codes
from populace.schema.schema import Schema

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 99

[columns.CITY]
kind = "categorical"
values = ["Köln", "Paris"]
""")
FIRST = '{"AGE": 17, "CITY": "Köln"}'


def codes(path: Path, *lines: str) -> list[tuple[int, int]]:
    path.write_text("\n".join(lines), encoding="utf-8")
    source = open_source(path)
    check_header(source, SCHEMA)
    read = read_codes(source, SCHEMA)
    return list(zip(read["AGE"].tolist(), read["CITY"].tolist(), strict=True))


def test_lines_are_rows(tmp_path: Path) -> None:
    lines = (FIRST, '{"CITY": "Paris", "AGE": 18.0, "more": [1]}', "", '{"AGE": "19"}')
    for start in ("", "\ufeff"):
        assert codes(tmp_path / "a.jsonl", start + lines[0], *lines[1:]) == [(17, 0), (18, 1), (19, 2)]


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "[1, 2]",
        "null",
        '{"AGE": 3',
        '{"AGE": 3} {"AGE": 4}',
        "x",
        "[" * 100_000,
        '{"AGE": ' * 50_000,
        '"' + "y" * 3_000_000,
    ],
)
def test_a_line_that_is_no_object_is_no_row(tmp_path: Path, odd: str) -> None:
    last = '{"AGE": 5, "CITY": "Paris"}'
    assert codes(tmp_path / "a.jsonl", FIRST, odd, last) == [(17, 0), (5, 1)]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("2.50", "2.5"),
        ("1e400", "inf"),
        ("NaN", None),
        ("-Infinity", "-inf"),
        ("true", "true"),
        ("9" * 5000, "9" * 5000),
        ("null", None),
        ('{"a": 1}', None),
        ('"\\ud800"', "?"),
        ('"é"', "é"),
    ],
)
def test_cells_are_texts(cell: str, text: str | None) -> None:
    assert parse_object(f'{{"x": {cell}}}'.encode()) == {"x": text}


@pytest.mark.parametrize("first", [FIRST, FIRST[:-1] + f', "more": "{"x" * 200_000}"}}'])
def test_how_long_a_line_may_be_follows_from_no_row(tmp_path: Path, first: str) -> None:
    long = FIRST[:-1] + f', "more": "{"x" * 2**21}"}}'
    assert codes(tmp_path / "a.jsonl", first, long, FIRST) == [(17, 0)] * 2


def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_lines, "BLOCK_BYTES", 7)
    assert codes(tmp_path / "a.jsonl", *[FIRST] * 9) == [(17, 0)] * 9


def test_the_first_object_is_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"AGE": 1}\n{"AGE": 2, "CITY": "Paris"}\n')
    source = open_source(path)
    assert isinstance(source, JsonLinesSource)
    assert source.names == ("AGE",)
    with pytest.raises(DataError, match="no column 'CITY'"):
        check_header(source, SCHEMA)
