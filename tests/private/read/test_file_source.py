"""Folders, patterns, packed files and standard input: the same rows as one plain file."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from populace.core.errors import DataError, ResourceError, UsageError
from populace.private.public_table import check_not_private
from populace.private.read import file_source
from populace.private.read.rows_to_codes import check_header, open_source, read_codes
from populace.schema.schema import Schema

COLUMNS = """
[columns.AGE]
kind = "integer"
min = 0
max = 99

[columns.CITY]
kind = "categorical"
values = ["Köln", "Paris"]
"""
SCHEMA = Schema.parse(COLUMNS)
PLAIN = "AGE,CITY\n17,Köln\n18,Paris\n19,Ulm\n".encode()
READ = {"AGE": [17, 18, 19], "CITY": [0, 1, 2]}
TABLE = pa.table({"AGE": [17, 18, 19], "CITY": ["Köln", "Paris", "Ulm"]})


def codes(path: Path | str) -> dict[str, list[int]]:
    source = open_source(path)
    check_header(source, SCHEMA)
    return {name: read.tolist() for name, read in read_codes(source, SCHEMA).items()}


def test_a_packed_file_is_the_file_in_it(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-16", "utf-8-sig"):
        path = tmp_path / "people.csv.gz"
        path.write_bytes(gzip.compress(PLAIN.decode().encode(encoding)))
        assert codes(path) == READ
    lines = b'{"AGE": 17, "CITY": "K\xc3\xb6ln"}\n{"AGE": 18, "CITY": "Paris"}\n{"AGE": 19, "CITY": "Ulm"}\n'
    (tmp_path / "people.jsonl.gz").write_bytes(gzip.compress(lines))
    assert codes(tmp_path / "people.jsonl.gz") == READ


def test_damage_in_a_packed_file_is_met_after_the_header(tmp_path: Path) -> None:
    path = tmp_path / "people.csv.gz"
    rows = b"".join(b"%d,Paris\n" % (number % 90) for number in range(200_000))
    path.write_bytes(gzip.compress(b"AGE,CITY\n" + rows)[:-100])
    source = open_source(path)
    with pytest.raises(ResourceError, match="What was charged stays charged"):
        read_codes(source, SCHEMA)


@pytest.mark.parametrize("name", ["people.arrow", "people.feather", "people.arrows"])
def test_arrow_files_are_tables(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("populace.private.read.sources.BATCH_ROWS", 2)
    path = tmp_path / name
    if name == "people.feather":
        pyarrow.feather.write_feather(TABLE, str(path), compression="zstd")
    else:
        make = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
        with path.open("wb") as file, make(file, TABLE.schema) as writer:
            writer.write_table(TABLE)
    assert codes(path) == READ
    assert [len(batch) for batch in open_source(path).batches(["CITY"])] == [2, 1]


def test_a_folder_of_parquet_files_is_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "people"
    for number, part in enumerate((TABLE.slice(0, 1), TABLE.slice(1))):
        (folder / f"{number}").mkdir(parents=True)
        # The order of columns, and their types, may differ from file to file.
        part = (
            part if number else part.set_column(0, "AGE", part["AGE"].cast(pa.int8())).select(["CITY", "AGE"])
        )
        pq.write_table(part, folder / f"{number}" / "part.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "_metadata.parquet").write_text("")
    (folder / ".hidden.parquet").write_text("")
    assert codes(folder) == READ
    assert codes(folder / "*" / "part.parquet") == READ
    assert codes(str(folder / "**" / "[a-z]*.parquet")) == READ


def test_folders_named_by_values_are_columns(tmp_path: Path) -> None:
    folder = tmp_path / "people"
    for city, ages in (("K%C3%B6ln", [17]), ("Paris", [18]), ("__HIVE_DEFAULT_PARTITION__", [19])):
        (folder / f"CITY={city}").mkdir(parents=True)
        pq.write_table(pa.table({"AGE": ages}), folder / f"CITY={city}" / "part-0.parquet")
    read = codes(folder)
    assert sorted(zip(read["AGE"], read["CITY"], strict=True)) == [(17, 0), (18, 1), (19, 2)]
    only = Schema.parse('[columns.CITY]\nkind = "categorical"\nvalues = ["Paris"]')
    assert sorted(read_codes(open_source(folder), only)["CITY"].tolist()) == [0, 1, 1]


def test_a_pattern_of_other_files_is_a_table_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(PLAIN)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(PLAIN))
    assert codes(tmp_path / "*.csv*") == {name: [*read, *read] for name, read in READ.items()}
    (tmp_path / "a[1].csv").write_bytes(PLAIN)
    assert codes(tmp_path / "a[1].csv") == READ


@pytest.mark.parametrize("names", [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_parts_with_other_decimal_marks_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    """The mark of the first file would hold for all: 3,5 and 3.5 are not read alike."""
    (tmp_path / names[0]).write_bytes(PLAIN)
    (tmp_path / names[1]).write_bytes(PLAIN.replace(b",", b";"))
    with pytest.raises(DataError, match="decimal mark"):
        open_source(tmp_path / "*.csv")


def test_parts_that_are_not_of_one_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(PLAIN)
    (tmp_path / "b.csv").write_bytes(b"AGE,TOWN\n17,canary4711\n")
    with pytest.raises(DataError, match="same columns") as caught:
        open_source(tmp_path / "*.csv")
    assert "TOWN" not in str(caught.value)
    with pytest.raises(DataError, match="no file matches"):
        open_source(tmp_path / "*.parquet")
    (tmp_path / "x" / "AGE=1").mkdir(parents=True)
    pq.write_table(TABLE, tmp_path / "x" / "AGE=1" / "a.parquet")
    with pytest.raises(DataError, match="name the same column"):
        open_source(tmp_path / "x")


@pytest.mark.parametrize("content", [PLAIN, gzip.compress(PLAIN)], ids=["plain", "packed"])
def test_standard_input_is_read_as_often_as_needed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    file_source._copy_standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    try:
        assert codes("-") == READ
        assert codes("-") == READ
    finally:
        file_source._copy_standard_input.cache_clear()


@pytest.mark.slow
def test_standard_input_on_the_command_line(tmp_path: Path) -> None:
    """Its name is the schema's, for it has none of its own; and no file is left of it."""
    schema = tmp_path / "schema.toml"
    schema.write_text(f'[table]\ndataset = "people"\n{COLUMNS}')
    command = [sys.executable, "-m", "populace", "synth", "-", "--schema", str(schema), "--no-report"]
    spending = [
        "--epsilon",
        "1",
        "--delta",
        "0",
        "--method",
        "independent",
        "--ledger",
        str(tmp_path / "l.db"),
    ]
    whole = [*command, *spending, "--out", str(tmp_path / "release")]
    ran = subprocess.run(whole, input=PLAIN, capture_output=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "release" / "synthetic.csv").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"schema.toml", "l.db", "release"}


def test_a_packed_copy_is_as_private_as_the_file() -> None:
    for name in ("people.csv.gz", "people.csv", "people/*.parquet", "people.dta"):
        with pytest.raises(UsageError, match="names a private table"):
            check_not_private(name, accounts={"people"})


def test_standard_input_is_refused_where_a_copy_cannot_be_opened_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    file_source._copy_standard_input.cache_clear()
    with pytest.raises(UsageError, match="on Linux alone"):
        open_source(Path("-"))
