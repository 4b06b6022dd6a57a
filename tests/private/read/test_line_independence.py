"""One line of a file changes no other line's codes, whatever bytes it is made of.

Neighbouring tables differ in one row: if that row could spoil, join or hide others, no noise would cover it.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from populace.private.read import csv_lines as lines
from populace.private.read.csv_source import CsvSource
from populace.private.read.rows_to_codes import open_source, read_codes
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 99

[columns.CITY]
kind = "categorical"
values = ["Köln", "Paris", "a,b;c", "5\\"x"]
""")
NORMAL = ["17,Köln", '18,"Paris"', '19,"a,b;c"', '20,"5""x"', "21,", '"22",Köln', "x,Paris", "24,Köln"] * 3
Codes = list[tuple[int, int]]

ENCODINGS = {
    "utf-8": b"",
    "latin-1": b"",
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
}

# Written with commas, which become the separator.
HOSTILE = [
    '"',
    '""',
    '"""',
    '""""',
    '5"x,"7',
    '5"x,7',
    '5"x,"7,8',
    '5"x,7",8',
    '"5"x,"7,8',
    '5"x",7',
    '"5"x,7',
    '"5"x",7',
    '1,"',
    '1,"a',
    '"1,a',
    '1,a"',
    '1,"a""',
    '1,"""a',
    '1,"a"""',
    '1,""a""',
    '","',
    '",',
    ',"',
    '"1","a" ',
    ' "1", "a"',
    '1,"a"b"c"',
    "1,'a",
    '1,\\"a',
    '1,"a\\"',
    "1,a\\",
    "\\",
    '1,"a\n2,b',
    '1,"a\n2,b"',
    '"1\n"2',
    "1,a\r2,b",
    '1,"a\r\nb"',
    "\n\n\r\r\n",
    '"\n"',
    "",
    " ",
    "   ,   ",
    "\t",
    ",",
    ",,",
    ",,,,,,,,,,,,,,,,,,,,",
    "1",
    "1,2,3",
    "1,a,",
    ";",
    "1;2",
    "\0",
    "1\0,\0a",
    "\ufeff",
    "\ufeff1,a",
    "1,\ufeffa",
    "\ufffe1,a",
    "1,\ud800",
    "\udfff,\ud800a",
    "1,\u2028a\u2029b\x85c",
    "1\x0b,\x0ca\x1c\x1d\x1e",
    "1,\x1a",
    "1,\x7f\x80\x9f",
    "\u0a0a\u000d\u0d0d,\u0a00",
    "1,\u0d15\u0100,\u0a05\u0a00",
    "1," + "x" * 3000,
    "1" * 3000 + ",a",
    '1,"' + "x" * 3000,
    "," * 3000,
    '"' * 2999,
    '"' * 3000,
    "1,\U0001f642e\u0301",
    "#,#",
    "AGE,CITY",
    "nan,inf",
    "1e999,-0",
    "=1+1,@",
]
RAW = [
    b"5",
    b"\xff",
    b"\xff\xfe",
    b"\xfe\xff1,a",
    b"\xef\xbb\xbf1,a",
    b"1,\xc3",
    b"1,\xe2\x82,\xe9",
    b"\xed\xa0\x80,\xf8\x88\x80\x80\x80",
    b"\x00",
    b"\x00\x00\x00",
    b"1\x00,\x00a\x00\x00",
    b"\x00\xd8",
    b"\xd8\x00\xd8",
    b"\x0a",
    b"\x0d",
    b"\x0a\x0d\x0a",
    b"\x00\x0a\x0a\x00\x00\x0d\x00",
    b'"\x00"',
    b'\x00"',
]


def encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "replace" if encoding == "latin-1" else "surrogatepass")


def read(
    folder: Path, rows: list[bytes], *, encoding: str, separator: str, end: bytes | None = None
) -> Codes:
    path = folder / "people.csv"
    feed = "\n".encode(encoding)
    table = feed.join([ENCODINGS[encoding] + f"AGE{separator}CITY".encode(encoding), *rows])
    path.write_bytes(table + (feed if end is None else end))
    codes = read_codes(open_source(path), SCHEMA)
    return list(zip(codes["AGE"].tolist(), codes["CITY"].tolist(), strict=True))


def normal_rows(*, encoding: str, separator: str) -> list[bytes]:
    return [encoded(re.sub(r",(?![;b])", separator, row), encoding) for row in NORMAL]


def hostile_rows(*, encoding: str, separator: str) -> list[bytes]:
    return [*(encoded(text.replace(",", separator), encoding) for text in HOSTILE), *RAW]


@cache
def normal_codes(*, encoding: str, separator: str) -> Codes:
    with TemporaryDirectory() as folder:
        rows = normal_rows(encoding=encoding, separator=separator)
        return read(Path(folder), rows, encoding=encoding, separator=separator)


def check(folder: Path, odd: bytes, *, encoding: str, separator: str) -> None:
    """Compare a table with its neighbours that have one more line at the front, in the middle or at the end."""
    rows = normal_rows(encoding=encoding, separator=separator)
    normal = normal_codes(encoding=encoding, separator=separator)
    assert len(normal) == len(NORMAL)
    alone = read(folder, [odd], encoding=encoding, separator=separator)
    assert len(alone) <= 1 + sum(odd.count(end) for end in lines.line_ends(encoding))
    for place, end in ((0, None), (len(rows) // 2, None), (len(rows), None), (len(rows), b"")):
        company = [*rows[:place], odd, *rows[place:]]
        expected = [*normal[:place], *alone, *normal[place:]]
        assert read(folder, company, encoding=encoding, separator=separator, end=end) == expected


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2048)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 2048)


@pytest.mark.usefixtures("short_lines")
def test_a_hostile_line_touches_no_other(tmp_path: Path) -> None:
    """One line of four; the others are tried beside all encodings."""
    for odd in hostile_rows(encoding="utf-8", separator=",")[::4]:
        check(tmp_path, odd, encoding="utf-8", separator=",")


@pytest.mark.slow
@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_hostile_line_touches_no_other_in_any_encoding(
    tmp_path: Path, encoding: str, separator: str
) -> None:
    for odd in hostile_rows(encoding=encoding, separator=separator):
        check(tmp_path, odd, encoding=encoding, separator=separator)


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize(("encoding", "separator"), sample_cases(product(ENCODINGS, ",;"), to=4))
@pytest.mark.slow
def test_many_hostile_lines_touch_no_other(
    tmp_path: Path, encoding: str, separator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them in one table, each between two normal lines, in blocks that end anywhere."""
    hostile = hostile_rows(encoding=encoding, separator=separator)
    rows = normal_rows(encoding=encoding, separator=separator)
    normal = read(tmp_path, rows, encoding=encoding, separator=separator)
    company, expected = [], []
    for place, odd in enumerate(hostile):
        row = place % len(rows)
        company += [odd, rows[row]]
        expected += [*read(tmp_path, [odd], encoding=encoding, separator=separator), normal[row]]
    for block in (61, 500, 2048):
        monkeypatch.setattr(lines, "BLOCK_BYTES", block)
        assert read(tmp_path, company, encoding=encoding, separator=separator) == expected


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(list(b'",;\n\r\0 a\xff\xd8\xfe')), max_size=12).map(bytes),
    st.sampled_from(list(ENCODINGS)),
)
def test_no_bytes_touch_another_line(odd: bytes, encoding: str) -> None:
    with TemporaryDirectory() as folder:
        check(Path(folder), odd, encoding=encoding, separator=",")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(list(b'"",,\n\ra ')), max_size=60).map(bytes))
@pytest.mark.slow
def test_a_block_is_read_as_its_lines_are(block: bytes) -> None:
    """Arrow, on many lines at once, agrees with the rule for one line."""
    split = [lines.split_fields(line, separator=b",") for line in re.split(b"[\r\n]", block) if line]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        path.write_bytes(b"A,B\n" + block)
        batches = list(CsvSource(path).batches(["A", "B"]))
    read = [[row["A"], row["B"]] for batch in batches for row in batch.to_pylist()]
    assert read == [fields for fields in split if fields is not None and len(fields) == 2]


def test_one_row_cannot_delete_twenty_thousand(tmp_path: Path) -> None:
    rows = [f"{i % 100},Köln".encode() for i in range(20_000)]
    for odd in ([b'5"x,"7'], [b'1,"a', b'1,"a'], [b"9," + b"x" * (9 * 2**20)], [b"\xff,\xff,\xff"]):
        company = [odd[0], *rows, *odd[1:]]
        found = read(tmp_path, company, encoding="utf-8", separator=",")
        assert [row for row in found if row[1] == 0] == [(i % 100, 0) for i in range(20_000)]
