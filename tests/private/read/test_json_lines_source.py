"""JSON Lines: one object on each line, whose keys are the columns; each line decides alone."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from populace.core.errors import DataError
from populace.private.read import csv_lines
from populace.private.read.json_lines_source import parse_object
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


@pytest.mark.parametrize(
    "start", ["", "{}", '{"AGE"', '{"TOWN": 3}', '"x"', "[1]", "PAR1", "PK\x03\x04", "%PDF", "a,b"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_no_first_line_refuses_a_table(tmp_path: Path, start: str, packed: bool) -> None:
    """Not one without any key of the schema, and no table without a row: the first line is a row like others."""
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    for rest in ("", FIRST):
        content = f"{start}\n{rest}".strip().encode()
        path.write_bytes(gzip.compress(content) if packed else content)
        source = open_source(path)
        check_header(source, SCHEMA)
        assert list(source.names) == []
        known = [code for code in read_codes(source, SCHEMA)["AGE"].tolist() if code == 17]
        assert known == [17] * bool(rest)


def test_a_key_that_nobody_has_is_an_empty_column(tmp_path: Path) -> None:
    assert codes(tmp_path / "a.jsonl", '{"AGE": 1}', '{"AGE": 2, "CITY": "Paris"}') == [(1, 2), (2, 1)]


def test_files_of_lines_in_folders_are_one_table(tmp_path: Path) -> None:
    for place, name in enumerate(("Paris", "Ulm")):
        (tmp_path / f"CITY={name}").mkdir()
        (tmp_path / f"CITY={name}" / "part.jsonl").write_text(f'{{"AGE": {place}}}\n{{"AGE": 9}}')
    source = open_source(tmp_path / "CITY=*" / "part.jsonl")
    check_header(source, SCHEMA)
    assert read_codes(source, SCHEMA)["AGE"].tolist() == [0, 9, 1, 9]
    assert sum(len(batch) for batch in source.batches(["CITY"])) == 4
    (tmp_path / "CITY=Ulm" / "part.jsonl").rename(tmp_path / "CITY=Ulm" / "part.csv")
    (tmp_path / "CITY=Ulm" / "part.csv").write_text("AGE\n1\n")
    with pytest.raises(DataError, match="same columns"):
        open_source(tmp_path / "CITY=*" / "part.*")


def test_lines_without_the_name_are_refused(tmp_path: Path) -> None:
    for first in (FIRST, '{"AGE"'):
        (tmp_path / "a.txt").write_text(f"{first}\n{FIRST}")
        with pytest.raises(DataError, match=r"name the file \.jsonl"):
            open_source(tmp_path / "a.txt")
