"""CSV files of a release come back cell by cell, through our own reader and through those of others."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

import populace as pp
from populace.api.estimate import estimate
from populace.private.read.rows_to_codes import open_source
from populace.release.table_files import encode_table, read_table, write_table
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.date_columns import DateColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.schema import Schema
from tests.helpers import small_survey

LOOKS_LIKE = [
    "007",
    "1e5",
    "NA",
    "N/A",
    "null",
    "NULL",
    "None",
    "True",
    "false",
    "nan",
    "inf",
    "-",
    "+1",
    "-0",
]
SPREADSHEET = ["=1+1", "@x", "#x", "#N/A", "'a", "\\N", "1,5", "1;2"]
BLANKS = [" ", " a", "a ", "\ta", "a\t", "\u00a0", "\u200b", "\ufeff", "\ufeffx"]
QUOTES = ['"', '""', '"a"', 'a"b', "'", ",", "a\nb", "a\r\nb", "a\rb", "\n", "\r"]
LETTERS = ["\x00", "\x1b[0m", "\x7f", "é", "e\u0301", "ﬁ", "🙂", "\U0010ffff"]
ODD = [*LOOKS_LIKE, *SPREADSHEET, *BLANKS, *QUOTES, *LETTERS]


def schema_of(*columns: CategoricalColumn | IntegerColumn | DecimalColumn | DateColumn) -> Schema:
    return Schema(columns={column.name: column for column in columns})


def back(table: pa.Table, schema: Schema, folder: Path) -> pa.Table:
    write_table(table, folder / "synthetic.csv")
    return read_table(folder / "synthetic.csv", schema=schema)


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (CategoricalColumn(name="x", values=("a", "b\n\nc")), pa.array([None, "a", None, "b\n\nc", None])),
        (IntegerColumn(name="x", min=0, max=9), pa.array([None, 1, None, None, 2, None])),
        (IntegerColumn(name="x\n\ny", min=0, max=9), pa.array([None, 1, None])),
        (DecimalColumn(name="x", edges=(0, 1, 5)), pa.array([0.5, None, 1e-7, None])),
        (DateColumn(name="x", min=0, max=9), pa.array([None, 3, None], pa.int32()).cast(pa.date32())),
        (IntegerColumn(name="x", min=0, max=9), pa.array([None], pa.int64())),
        (IntegerColumn(name="x", min=0, max=9), pa.array([], pa.int64())),
        (CategoricalColumn(name="x", values=("a",)), pa.array([], pa.string())),
    ],
)
def test_empty_cells_of_a_single_column_are_rows(
    column: CategoricalColumn | IntegerColumn | DecimalColumn | DateColumn, cells: pa.Array, tmp_path: Path
) -> None:
    table, schema = pa.table({column.name: cells}), schema_of(column)
    assert back(table, schema, tmp_path).equals(table)
    path = tmp_path / "synthetic.csv"
    assert pd.read_csv(path).shape == (len(cells), 1)
    assert pl.read_csv(path).shape == (len(cells), 1)
    lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
    assert pyarrow.csv.read_csv(path, parse_options=lines).shape == (len(cells), 1)
    with path.open(newline="", encoding="utf-8") as file:
        assert [len(row) for row in csv.reader(file)] == [1] * (1 + len(cells))
    if "\n" not in column.name and column.name == "x" and not isinstance(column, CategoricalColumn):
        # And a run that takes the file for a private table reads the same rows.
        source = open_source(path)
        assert sum(batch.num_rows for batch in source.batches(["x"])) == len(cells)


def test_a_release_of_one_column_verifies(tmp_path: Path) -> None:
    """About a third of the cells are empty."""
    schema = schema_of(CategoricalColumn(name="answer", values=("yes", "no")))
    table = pa.table({"answer": ["yes", None, "no"] * 300})
    release = pp.synthesize(table, schema=schema, epsilon=1, delta="1e-9", ledger=tmp_path / "ledger.db")
    assert release.synthetic.column("answer").null_count > 200
    release.save(tmp_path / "out", format="csv", report=False)
    assert pp.verify(tmp_path / "out").passed
    assert pp.Release.load(tmp_path / "out").synthetic.equals(release.synthetic)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_odd_values_and_odd_names_come_back_exactly(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"synthetic.{ending}"
    values = CategoricalColumn(name="v", values=tuple(ODD))
    table = pa.table({"v": [*ODD, None], "w": [None, *ODD]})
    schema = schema_of(values, CategoricalColumn(name="w", values=tuple(ODD)))
    for some in (["v"], ["v", "w"]):
        part = Schema(columns={name: schema.columns[name] for name in some})
        write_table(table.select(some), path)
        again = read_table(path, schema=part)
        assert again.equals(table.select(some))
        codes = encode_table(again, schema=part)["v"].tolist()
        assert codes[:-1] == [values.code(text) for text in ODD]
    for name in filter(str.strip, ODD):
        named = schema_of(CategoricalColumn(name=name, values=("a",)))
        table = pa.table({name: ["a", None, "a"]})
        write_table(table, path)
        assert read_table(path, schema=named).equals(table), repr(name)


def test_a_value_may_be_longer_than_a_block(tmp_path: Path) -> None:
    long = '"' * (3 * 2**20)
    schema = schema_of(CategoricalColumn(name="v", values=(long, "b")), IntegerColumn(name="w", min=0, max=3))
    table = pa.table({"v": [long, "b", None, long], "w": [1, None, 2, 3]})
    assert back(table, schema, tmp_path).equals(table)


def test_empty_and_missing_are_one(tmp_path: Path) -> None:
    """A column has one empty code: whether a file writes it with quotation marks makes no difference."""
    schema = schema_of(CategoricalColumn(name="v", values=("a",)), IntegerColumn(name="w", min=0, max=3))
    (tmp_path / "synthetic.csv").write_text('"v","w"\n"",\n,""\n"a",3\n')
    table = read_table(tmp_path / "synthetic.csv", schema=schema)
    assert table.to_pydict() == {"v": [None, None, "a"], "w": [None, None, 3]}


def test_others_read_texts_as_they_are_where_they_are_told_that_they_are_texts(tmp_path: Path) -> None:
    """As the table in docs/concepts/release-folder.md says."""
    texts = [text for text in ODD if text != "\x00"]
    path = tmp_path / "synthetic.csv"
    write_table(pa.table({"v": [*texts, None], "w": range(len(texts) + 1)}), path)
    told = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8")["v"]
    assert [None if cell != cell else cell for cell in told] == [*texts, None]
    assert pl.read_csv(path, schema_overrides={"v": pl.String})["v"].to_list() == [*texts, None]
    with path.open(newline="", encoding="utf-8") as file:
        assert [row["v"] for row in csv.DictReader(file)] == [*texts, ""]


def test_estimates_of_odd_groups_are_rows_and_verify(tmp_path: Path) -> None:
    odd = '"a\\rb", "c,d", "e\\nf", "NA", " g"'
    schema = Schema.parse(
        small_survey.SCHEMA + f'\n[columns."x\\ry"]\nkind = "categorical"\nvalues = [{odd}]\n'
    )
    paths = small_survey.files(
        tmp_path / "files",
        queries='[[query]]\nname = "n"\nstatistic = "count"\nby = ["x\\ry"]\n',
    )
    table = small_survey.rows(300)
    table = table.append_column("x\ry", pa.array(["a\rb", "c,d", "NA"] * 100))
    found = estimate(
        table,
        schema=schema,
        design=paths["design"],
        queries=paths["queries"],
        epsilon="8",
        delta="1e-6",
        ledger=tmp_path / "ledger.db",
    )
    found.save(tmp_path / "out", report=False)
    lines = list(
        csv.reader(io.StringIO((tmp_path / "out" / "estimates.csv").read_bytes().decode(), newline=""))
    )
    assert lines[0][1] == "x\ry"
    assert [line[1] for line in lines[1:]] == ["a\rb", "c,d", "e\nf", "NA", " g"]
    assert pp.verify(tmp_path / "out").passed


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_reads_what_it_is_told_to(tmp_path: Path) -> None:
    texts = ["007", "NA", "1e5", " a ", "a\nb", 'q"x', "x,y", "#x", "é"]
    write_table(pa.table({"v": [*texts, None], "w": range(len(texts) + 1)}), tmp_path / "two.csv")
    write_table(pa.table({"v": [1, None, 2]}), tmp_path / "one.csv")
    script = (
        'd <- read.csv("two.csv", colClasses = c(v = "character"), na.strings = "", encoding = "UTF-8")\n'
        'writeLines(enc2utf8(ifelse(is.na(d$v), "(empty)", gsub("\\n", "|", d$v))), useBytes = TRUE)\n'
        'cat(nrow(read.csv("one.csv", blank.lines.skip = FALSE)))\n'
    )
    told = subprocess.run(["Rscript", "-e", script], cwd=tmp_path, capture_output=True, check=True).stdout
    expected = [*(text.replace("\n", "|") for text in texts), "(empty)", "3"]
    assert told.decode().splitlines() == expected
