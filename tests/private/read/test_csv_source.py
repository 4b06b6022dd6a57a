"""Files as they come: every encoding, separator and line end, and refusals that say nothing about rows."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.core.errors import DataError, ResourceError
from populace.private.read import csv_lines as lines
from populace.private.read import rows_to_codes as read
from populace.private.read.csv_source import detect_separator
from populace.private.read.rows_to_codes import check_header, open_source, read_codes
from populace.private.read.sources import ParquetSource
from populace.schema.schema import Schema

pytestmark = pytest.mark.sampled(8)

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 99

[columns.CITY]
kind = "categorical"
values = ["Köln", "Paris"]
""")
# What a message must never hold.
SECRET = "s3cret"


def codes(path: Path, content: bytes | str, *, schema: Schema = SCHEMA) -> dict[str, list[int]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    source = open_source(path)
    check_header(source, schema)
    return {name: column.tolist() for name, column in read_codes(source, schema).items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.csv"


PLAIN = "AGE,CITY\n17,Köln\n18,Paris\n"
READ = {"AGE": [17, 18], "CITY": [0, 1]}


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        PLAIN.encode("utf-8-sig"),
        PLAIN.encode("latin-1"),
        PLAIN.encode("utf-16"),
        codecs.BOM_UTF16_BE + PLAIN.encode("utf-16-be"),
        PLAIN.encode("utf-16-le"),
        PLAIN.encode("utf-16-be"),
        PLAIN.encode("utf-32"),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
        PLAIN.rstrip().encode(),
        PLAIN.replace("\n", "\n\n").encode() + b"\n\n",
        PLAIN.replace(",", ";").encode(),
        PLAIN.replace(",", "\t").encode(),
        PLAIN.replace(",", "|").encode(),
        b'"AGE","CITY"\n"17","K\xc3\xb6ln"\n" 18 ","Paris"\n',
        'NOTE,CITY,ID,AGE\n"one line, ""quoted""",Köln,1,17\n\'x,Paris,2,18.0\n'.encode(),
        'AGE,"a ""name"", quoted",CITY\n17,x,Köln\n18,x,Paris\n'.encode(),
        b'AGE,CITY\n17,K\xc3\xb6ln\n18,"Par"is\n',
    ],
)
def test_one_table_in_many_files(path: Path, content: bytes) -> None:
    assert codes(path, content) == READ


def test_a_file_may_mix_encodings(path: Path) -> None:
    assert codes(path, b"AGE,CITY\n1,K\xc3\xb6ln\n2,K\xf6ln\n3,\xff\xfe\x81\n") == {
        "AGE": [1, 2, 3],
        "CITY": [0, 0, 2],
    }


def test_a_header_may_be_latin(path: Path) -> None:
    schema = Schema.from_sizes({"Größe": 3})
    assert codes(path, "Größe\n2\n".encode("latin-1"), schema=schema) == {"Größe": [2]}


@pytest.mark.parametrize("content", ["AGE,CITY\n", "AGE,CITY", "AGE,CITY\r\n\r\n", "\ufeffAGE,CITY\n\n\n"])
def test_a_header_without_rows_is_a_table(path: Path, content: str) -> None:
    assert codes(path, content) == {"AGE": [], "CITY": []}


def test_ragged_rows_are_dropped_each_on_its_own(path: Path) -> None:
    ragged = "AGE,CITY\n17\n17,Köln\n1,2,3\n,\n18,Paris\n19,Köln,\n"
    assert codes(path, ragged) == {"AGE": [17, 100, 18], "CITY": [0, 2, 1]}
    assert codes(path, "AGE,CITY\n17\n") == {"AGE": [], "CITY": []}


def test_odd_cells_stay_in_their_row(path: Path) -> None:
    rows = ["17\0,Köln", f"{2**64},Paris", "NaN,", f"{SECRET},{SECRET}", "1e308,\0", '5,Par"is', "-0.0,Köln"]
    assert codes(path, "AGE,CITY\n" + "\n".join(rows) + "\n") == {
        "AGE": [100, 99, 100, 100, 99, 5, 0],
        "CITY": [0, 1, 2, 2, 2, 2, 0],
    }


def test_semicolons_bring_decimal_commas(path: Path) -> None:
    schema = Schema.parse('[columns.x]\nkind = "numeric"\nedges = [0, 3.1, 3.2, 4]\nother = "0"')
    assert codes(path, "x;y\n3,14;1\n3.14;1\n", schema=schema) == {"x": [1, 1]}
    assert codes(path, 'x,y\n"3,14",1\n', schema=schema) == {"x": [0]}


@pytest.mark.parametrize(
    ("header", "mark"),
    [("a,b;c,d", ","), ("a;b;c,d", ";"), ("a\tb", "\t"), ("a", ","), ('"a;b;c",d', ","), ("a|b", "|")],
)
def test_the_separator_is_the_headers(header: str, mark: str) -> None:
    assert detect_separator(header) == mark


def test_rows_do_not_decide_the_separator(path: Path) -> None:
    assert codes(path, "AGE,CITY\n1;2;3;4,Paris\n18,Köln\n") == {"AGE": [100, 18], "CITY": [1, 0]}


def test_long_files_are_read_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 512)
    many = "AGE,NOTE,CITY\n" + "".join(f'{i % 100},"a ""{i}"", {"x" * (i % 7)}",Köln\n' for i in range(500))
    for encoding in ("utf-8", "utf-16", "latin-1"):
        assert codes(path, many.encode(encoding)) == {"AGE": [i % 100 for i in range(500)], "CITY": [0] * 500}


def test_one_name_among_values_makes_no_header(path: Path) -> None:
    """A first row may hold a word that is a column's name too; what stands beside it is still a cell of somebody."""
    wide = Schema.from_sizes({"STREET": 2, "CITY": 2, "SEX": 2})
    path.write_text("Main Streets,CITY,f\nHill Street,Ulm,m\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        check_header(open_source(path), wide)
    assert "Street" not in str(caught.value) + caught.value.hint
    path.write_text("STREETS,CITY,f\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        check_header(open_source(path), wide)
    assert "is the first line a header" in caught.value.hint
    assert "STREETS" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "is empty", "header line"),
        (b"17,K\n18,P\n", "no column 'AGE', 'CITY'", "is the first line a header"),
        (b"\n17,K\n", "no column 'AGE', 'CITY'", "names no columns"),
        (b"AGE\n17\n", "no column 'CITY'", "take it out of the schema"),
        (b"age,CITY\n17,K\n", "no column 'AGE'", "did you mean 'age'?"),
        (b" AGE,CITY\n17,K\n", "no column 'AGE'", "did you mean ' AGE'?"),
        ("\uff21GE,CITY\n17,K\n".encode(), "no column 'AGE'", "did you mean '\uff21GE'?"),
        (b"AGES,CITY\n17,K\n", "no column 'AGE'", "did you mean 'AGES'?"),
        (b"AGE,CITY,AGE\n17,K,18\n", "column 'AGE' more than once", "rename"),
        (b"AGE:CITY\n17:K\n", "no column 'AGE', 'CITY'", "is the first line a header"),
        (b"\x1f\x8b\x08\x00rest", "compressed by gzip", "unpack"),
        (b"PK\x03\x04rest", "spreadsheet", "export"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "is an image", "give a table"),
        (b'AGE,"CITY\n17,x"\n', "the header of", "in one line"),
        (b"x" * (2**22 + 1), "no line breaks", "CSV or Parquet"),
    ],
)
def test_headers_that_do_not_fit_are_refused(path: Path, content: bytes, message: str, hint: str) -> None:
    with pytest.raises(DataError) as caught:
        codes(path, content)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_without_header_is_not_quoted(path: Path) -> None:
    schema = Schema.from_sizes({"s3cres": 2, "b": 2, "c": 2})
    with pytest.raises(DataError) as caught:
        codes(path, f"{SECRET},1,2\n{SECRET},1,2\n", schema=schema)
    assert SECRET not in str(caught.value)


def test_an_open_quote_drops_its_line_alone(path: Path) -> None:
    assert codes(path, 'AGE,CITY\n16,"Köln\n17,Köln\n18,Paris\n19,"') == READ
    assert codes(path, 'AGE,CITY\n"16\n17,Köln\n""",18\n18,Paris\n"') == READ


def test_a_line_is_a_row_in_quotes_too(path: Path) -> None:
    """What stands in a line of its own is a row, whatever the lines around it say."""
    assert codes(path, 'AGE,CITY\n1,"x\n17,Köln\n18,Paris\nx"\n') == READ


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", *(pytest.param(wide, marks=pytest.mark.slow) for wide in ("utf-16-le", "utf-16-be"))],
)
def test_a_line_without_end_is_dropped(path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the same wherever the line stands in the file and in its block."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 512)
    for block in (61, 512):
        monkeypatch.setattr(lines, "BLOCK_BYTES", block)
        most = 512 // len("x".encode(encoding))
        for length in range(most - 4, most + 5):
            long = "1," + "x" * (length - 2)
            for before in (0, 9, 13):
                start = f"AGE,CITY\n17,{'y' * before}\n"
                read = codes(path, f"{start}{long}\n18,Paris\n".encode(encoding))
                assert read["AGE"] == ([17, 1, 18] if length <= most else [17, 18])


def test_a_wide_table_has_long_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 8)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 8)
    assert codes(path, PLAIN) == READ


def test_no_exception_carries_the_librarys_words(path: Path) -> None:
    path.with_suffix(".parquet").write_bytes(b"PAR1" + SECRET.encode() * 50)
    with pytest.raises(DataError) as caught:
        open_source(path.with_suffix(".parquet"))
    assert caught.value.__suppress_context__
    assert SECRET not in str(caught.value)


def test_a_damaged_parquet_file_is_no_refusal(path: Path) -> None:
    """Damage among the rows is met after the charge, and is told in fixed words."""
    table = pa.table({"AGE": list(range(10_000)), "CITY": ["Paris"] * 10_000})
    pq.write_table(table, path, compression="zstd")
    damaged = bytearray(path.read_bytes())
    damaged[4:100] = b"\xff" * 96
    path.write_bytes(damaged)
    source = open_source(path)
    check_header(source, SCHEMA)
    with pytest.raises(ResourceError, match="What was charged stays charged") as caught:
        read_codes(source, SCHEMA)
    assert caught.value.exit_code == 4
    assert caught.value.__suppress_context__


def test_names_and_kinds_of_files_must_agree(tmp_path: Path) -> None:
    wrong = tmp_path / "people.parquet"
    wrong.write_text(PLAIN)
    with pytest.raises(DataError, match="is not a Parquet file"):
        open_source(wrong)
    right = tmp_path / "people.csv"
    pq.write_table(pa.table({"AGE": [17], "CITY": ["Paris"]}), right)
    assert isinstance(open_source(right), ParquetSource)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(DataError, match="no file"):
        open_source(str(tmp_path / "none" / "none.csv"))
    with pytest.raises(DataError, match="is a folder without Parquet files"):
        open_source(tmp_path)
    with pytest.raises(DataError, match="not a path"):
        open_source("a\0b")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(DataError, match="not a regular file"):
        open_source(fifo)


def test_the_environment_has_its_own_exit_code(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(PLAIN)
    source = open_source(path)

    def locked(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", locked)
        for attempt in (lambda: open_source(path), lambda: read_codes(source, SCHEMA)):
            with pytest.raises(ResourceError, match="Permission denied") as caught:
                attempt()
            assert caught.value.exit_code == 4

    def full(*_: object, **__: object) -> None:
        raise MemoryError(SECRET)

    monkeypatch.setattr(read, "_concatenate", full)
    with pytest.raises(ResourceError, match="memory") as caught:
        read_codes(source, SCHEMA)
    assert SECRET not in str(caught.value)


def test_opening_reads_no_row(path: Path) -> None:
    """A file whose rows are garbage opens; a CSV header longer than one block too."""
    path.write_bytes(b"AGE,CITY\n" + bytes(range(256)) * 100)
    assert open_source(path).names == ("AGE", "CITY")
    names = [f"column number {i}" for i in range(20_000)]
    path.write_text(",".join(names) + "\n" + ",".join("1" * 20_000) + "\n")
    source = open_source(path)
    assert source.names == tuple(names)
    schema = Schema.from_sizes({"column number 19999": 2})
    assert read_codes(source, schema)["column number 19999"].tolist() == [1]


BY_HOUSE = """
[table]
unit = "household"
rows_per_unit = {rows}
id = "HOUSE"

[columns.AGE]
kind = "integer"
min = 0
max = 99
other = "0"
"""


@pytest.mark.parametrize(("rows", "ages"), [(1, [1, 2, 5]), (2, [1, 2, 3, 5]), (9, [1, 2, 3, 5, 6])])
def test_each_unit_keeps_its_first_rows(
    path: Path, rows: int, ages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 32)
    people = "AGE,HOUSE\n1,a\n2,b\n3, a \n4,\n5,c\n6,a\n7,  \n"
    assert codes(path, people, schema=Schema.parse(BY_HOUSE.format(rows=rows))) == {"AGE": ages}


def test_ids_of_any_type_are_compared_as_they_are_written(path: Path) -> None:
    for ids in (
        [1, 2, 1, None],
        [1.0, 2.0, 1.0, float("nan")],
        ["1", "2", " 1", ""],
        [b"1", b"2", b"1", None],
    ):
        pq.write_table(pa.table({"AGE": [1, 2, 3, 4], "HOUSE": ids}), path)
        source = open_source(path)
        assert read_codes(source, Schema.parse(BY_HOUSE.format(rows=1)))["AGE"].tolist() == [1, 2]


def test_an_id_is_one_unit_however_its_letters_are_encoded(path: Path) -> None:
    """One letter, or a letter and its accent: a unit written in both ways has no more rows than others."""
    people = "AGE,HOUSE\n1,Zo\u00eb\n2,Zoe\u0308\n3, Zo\u00eb \n4,Zoe\n"
    assert codes(path, people, schema=Schema.parse(BY_HOUSE.format(rows=1))) == {"AGE": [1, 4]}
    pq.write_table(pa.table({"AGE": [1, 2, 3], "HOUSE": ["\u212b", "\u00c5", "A\u030a"]}), path)
    assert read_codes(open_source(path), Schema.parse(BY_HOUSE.format(rows=2)))["AGE"].tolist() == [1, 2]


def test_the_id_must_be_in_the_header(path: Path) -> None:
    with pytest.raises(DataError, match="no column 'HOUSE'"):
        codes(path, "AGE\n1\n", schema=Schema.parse(BY_HOUSE.format(rows=1)))
    assert codes(path, "AGE,HOUSE\n", schema=Schema.parse(BY_HOUSE.format(rows=1))) == {"AGE": []}
