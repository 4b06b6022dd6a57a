"""Synthetic rows in files of SPSS, Stata and SAS: values, labels, missing codes and types survive, in equal bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyreadstat
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.private.read.rows_to_codes import open_source, read_codes
from populace.release.stat_columns import store_column
from populace.release.table_files import check_table_format, parse_table_format, read_table, write_table
from populace.schema.codec.table_codec import TableCodec
from populace.schema.imports.embedded.file_metadata import read_file_metadata
from populace.schema.imports.embedded.stat_formats import StatFormat
from populace.schema.schema import Schema

SCHEMA = Schema.parse("""
[columns.SEX]
kind = "categorical"
label = "Sex of the person"
values = ["1", "2"]
missing = ["-9"]
labels = { "1" = "männlich", "2" = "female", "-9" = "refused" }
origin = "codebook"

[columns.HEALTH]
kind = "ordinal"
values = ["1", "2", "3"]
type = "integer"
missing = ["-1", "-2", "-3", "-4"]
labels = { "1" = "good", "-1" = "refused", "-4" = "lost" }

[columns.FIPS]
kind = "categorical"
values = ["01001", "56045"]
labels = { "01001" = "Autauga" }
missing = ["N"]

[columns.AGE]
kind = "integer"
label = "Age in years"
min = 0
max = 99
width = 10

[columns.INCOME]
kind = "numeric"
edges = [-100, 0, 1000, 100000]
decimals = 2
missing = ["R", "dk"]
labels = { "R" = "refused" }

[columns.HOURS]
kind = "integer"
min = 0
max = 80
width = 5
missing = [".a", ".d"]
labels = { ".a" = "not asked" }
universe = "AGE >= 20"
outside = "N"

[columns.BORN]
kind = "date"
min = "1900-01-01"
max = "2020-12-31"
width = "year"

[columns.SEEN]
kind = "datetime"
min = "2019-01-01"
max = "2020-12-31"
width = "month"

[columns.CLOCK]
kind = "time"
min = "00:00:00"
max = "23:59:59"
width = "hour"

[columns.MOVED]
kind = "date"
min = "1990-01-01"
max = "2020-12-31"
width = "year"
missing = ["never"]

[columns.PLACE]
kind = "categorical"
values = ["Köln", "Paris", "a somewhat longer name of a place"]
labels = { "Köln" = "Cologne" }
""")
FORMATS = ("sav", "dta", "xpt")
# As many rows as show every code of every column.
ROWS = 600


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(47)
    codes = {name: rng.integers(0, size, ROWS) for name, size in SCHEMA.domain.items()}
    codec = TableCodec(SCHEMA)
    return codec.decode(codec.enforce(codes), rng=rng)


@pytest.mark.parametrize("suffix", FORMATS)
def test_rows_survive_a_file(tmp_path: Path, rows: pa.Table, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    for table in (rows, rows.slice(0, 0)):
        write_table(table, path, columns=SCHEMA.columns)
        again = read_table(path, schema=SCHEMA)
        assert again.schema == table.schema
        assert again.equals(table)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_written_file_is_read_as_data(tmp_path: Path, rows: pa.Table, suffix: str) -> None:
    """The curator's own reader gets the same codes from it wherever codes are those of the schema."""
    path = tmp_path / f"rows.{suffix}"
    write_table(rows, path, columns=SCHEMA.columns)
    found = read_codes(open_source(path), SCHEMA)
    expected = read_codes(open_source(rows), SCHEMA)
    recoded = {"sav": {"INCOME", "HOURS"}, "dta": {"INCOME", "HOURS", "MOVED"}, "xpt": set()}[suffix]
    for name in expected.keys() - recoded:
        assert found[name].tolist() == expected[name].tolist(), name


def test_labels_and_missing_codes_survive_in_spss(tmp_path: Path, rows: pa.Table) -> None:
    path = tmp_path / "rows.sav"
    write_table(rows, path, columns=SCHEMA.columns)
    found = {column.name: column for column in read_file_metadata(path).columns}
    assert found["SEX"].label == "Sex of the person"
    assert found["SEX"].value_labels == {"1": "männlich", "2": "female", "-9": "refused"}
    assert found["SEX"].missing == ("-9",)
    assert found["SEX"].measure == "nominal"
    assert found["HEALTH"].missing == ("-4", "-3", "-2", "-1")
    assert found["HEALTH"].measure == "ordinal"
    assert found["FIPS"].is_text
    assert found["FIPS"].missing == ("N",)
    assert found["AGE"].is_whole
    # Words have become numbers below all others.
    assert found["INCOME"].value_labels == {"-101": "refused", "-102": "dk"}
    assert found["INCOME"].missing == ("-101", "-102")
    assert found["PLACE"].value_labels == {"Köln": "Cologne"}
    assert [str(found[name].moment and found[name].moment.kind) for name in ("BORN", "SEEN", "CLOCK")] == [
        "date",
        "datetime",
        "time",
    ]


def test_labels_and_missing_codes_survive_in_stata(tmp_path: Path, rows: pa.Table) -> None:
    path = tmp_path / "rows.dta"
    write_table(rows, path, columns=SCHEMA.columns)
    found = {column.name: column for column in read_file_metadata(path).columns}
    assert found["AGE"].label == "Age in years"
    assert found["SEX"].value_labels == {"1": "männlich", "2": "female", "-9": "refused"}
    assert found["HOURS"].value_labels == {".a": "not asked", ".b": "N"}
    assert found["INCOME"].value_labels == {".a": "refused", ".b": "dk"}
    assert found["MOVED"].missing == (".a",)
    assert not found["INCOME"].is_text
    assert [str(found[name].moment and found[name].moment.kind) for name in ("BORN", "SEEN", "CLOCK")] == [
        "date",
        "datetime",
        "time",
    ]


def test_variable_labels_survive_in_sas(tmp_path: Path, rows: pa.Table) -> None:
    path = tmp_path / "rows.xpt"
    write_table(rows, path, columns=SCHEMA.columns)
    found = {column.name: column for column in read_file_metadata(path).columns}
    assert found["SEX"].label == "Sex of the person"
    assert not found["SEX"].is_text
    # A word among numbers makes texts of them: these files declare no missing codes.
    assert found["INCOME"].is_text


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_do_not_say_when_they_were_written(tmp_path: Path, rows: pa.Table, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    write_table(rows, path, columns=SCHEMA.columns)
    metadata: Any = StatFormat(suffix).read(path, {"metadataonly": True})[1]
    assert {metadata.creation_time.year, metadata.modification_time.year} == {1970}
    assert not re.search(rb"20[23]\d", path.read_bytes()[:640])


def test_equal_rows_have_equal_bytes(tmp_path: Path, rows: pa.Table) -> None:
    for suffix in FORMATS:
        paths = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
        for path in paths:
            write_table(rows, path, columns=SCHEMA.columns)
        assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("column", "suffix", "reason"),
    [
        ('["income (EUR)"]\nkind = "integer"\nmin = 0\nmax = 9', "dta", "income"),
        ('["2019"]\nkind = "integer"\nmin = 0\nmax = 9', "sav", "2019"),
        (f'[{"x" * 40}]\nkind = "integer"\nmin = 0\nmax = 9', "xpt", "name is too long"),
        ('[x]\nkind = "categorical"\nvalues = ["a ", "b"]', "sav", "end with a blank"),
        (
            '[x]\nkind = "integer"\nmin = 0\nmax = 9\n[columns.X]\nkind = "integer"\nmin = 0\nmax = 9',
            "sav",
            "case",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_refused_first(column: str, suffix: str, reason: str) -> None:
    schema = Schema.parse(f"[columns.{column[1:]}")
    check_table_format(schema, parse_table_format("csv"))
    with pytest.raises(UsageError, match=reason):
        check_table_format(schema, parse_table_format(suffix))


def test_a_range_of_missing_codes_holds_no_value() -> None:
    """SPSS takes a range: one that a value lies in would make it missing."""
    schema = Schema.parse("""
    [columns.x]
    kind = "categorical"
    values = ["1", "2"]
    missing = ["-2", "-1", "0", "9"]
    [columns.y]
    kind = "categorical"
    values = ["1", "5"]
    missing = ["0", "3", "4", "9"]
    """)
    found = {name: store_column(column, form=StatFormat.SAV) for name, column in schema.columns.items()}
    assert found["x"].missing_ranges == [{"lo": -2.0, "hi": 0.0}, 9.0]
    assert found["y"].missing_ranges == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_release_in_a_statistical_format_is_verified(tmp_path: Path, rows: pa.Table, suffix: str) -> None:
    release = pp.synthesize(
        rows,
        schema=SCHEMA,
        epsilon=1,
        delta=0,
        method="independent",
        dataset="rows",
        ledger=tmp_path / "l.db",
    )
    release.save(tmp_path / "release", format=suffix, report=False)
    assert (tmp_path / "release" / f"synthetic.{suffix}").is_file()
    assert pp.Release.load(tmp_path / "release").table.equals(release.table)
    verdict = pp.verify(tmp_path / "release", ledger=tmp_path / "l.db")
    assert verdict.passed, verdict
    altered = tmp_path / "release" / f"synthetic.{suffix}"
    content = bytearray(altered.read_bytes())
    content[-1] ^= 1
    altered.write_bytes(content)
    assert not pp.verify(tmp_path / "release", quick=True).passed


HAVEN = """
library(haven)
arguments <- commandArgs(TRUE)
read <- list(sav = function(p) read_sav(p, user_na = TRUE), dta = read_dta, xpt = read_xpt)[[arguments[1]]]
write <- list(sav = write_sav, dta = write_dta, xpt = function(x, p) write_xpt(x, p, version = 8))[[arguments[1]]]
found <- read(arguments[2])
write(found, arguments[3])
cat(attr(found$SEX, "label"), "\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
def test_files_survive_haven(tmp_path: Path, rows: pa.Table, suffix: str) -> None:
    """R reads them and writes them again: the same values, labels, missing codes and types."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    probe = ["Rscript", "-e", 'quit(status = !requireNamespace("haven", quietly = TRUE))']
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("R's haven package is not installed")
    path, again, script = tmp_path / f"rows.{suffix}", tmp_path / f"again.{suffix}", tmp_path / "again.R"
    write_table(rows, path, columns=SCHEMA.columns)
    script.write_text(HAVEN)
    ran = subprocess.run(
        ["Rscript", str(script), suffix, str(path), str(again)], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "Sex of the person"
    assert read_table(again, schema=SCHEMA).equals(rows)
    ours, theirs = ({c.name: c for c in read_file_metadata(each).columns} for each in (path, again))
    for name, column in ours.items():
        assert theirs[name].value_labels == column.value_labels, name
        # R's dates have no labels, and Stata's kinds of missing dates are declared by those alone.
        kept = () if suffix == "dta" and column.moment is not None else column.missing
        assert set(theirs[name].missing) == set(kept), name
        assert (theirs[name].is_text, theirs[name].label) == (column.is_text, column.label)


def test_pyreadstat_sees_labels(tmp_path: Path, rows: pa.Table) -> None:
    path = tmp_path / "rows.sav"
    write_table(rows, path, columns=SCHEMA.columns)
    frame, metadata = pyreadstat.read_sav(str(path), apply_value_formats=True)
    assert metadata.file_label == "Synthetic rows, made by populace"
    assert {"männlich", "female"} <= set(frame["SEX"].dropna())
