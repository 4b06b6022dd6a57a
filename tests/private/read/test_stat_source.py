"""Rows of SPSS, Stata and SAS files: codes as they are, missing codes apart, dates as dates, in batches, row by row."""

from __future__ import annotations

import datetime
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from populace.core.errors import DataError, ResourceError
from populace.private.read import stat_source
from populace.private.read.rows_to_codes import check_header, open_source, read_codes
from populace.schema.codec.cell_texts import to_texts
from populace.schema.schema import Schema

SECRET = "canary4711"
WRITERS: dict[str, Callable[..., None]] = {
    "sav": pyreadstat.write_sav,
    "dta": pyreadstat.write_dta,
    "xpt": pyreadstat.write_xport,
}


def texts(path: Path) -> dict[str, list[str | None]]:
    """The cells of a file as the codec sees them."""
    source = open_source(path)
    batches = list(source.batches(source.names))
    return {
        name: [cell for batch in batches for cell in to_texts(batch.column(name)).to_pylist()]
        for name in source.names
    }


@pytest.mark.parametrize("suffix", WRITERS)
def test_whole_numbers_are_whole(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"code": [1.0, 2.0, np.nan], "share": [0.5, 1e15, -3.0], "name": ["é", "", "x y"]})
    WRITERS[suffix](frame, str(tmp_path / "rows"))
    assert texts(tmp_path / "rows") == {
        "code": ["1", "2", None],
        "share": ["0.5", "1000000000000000", "-3"],
        "name": ["é", "", "x y"],
    }


def test_missing_codes_of_spss_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "rows.sav"
    frame = pd.DataFrame(
        {"x": [1.0, -9.0, -8.0, np.nan], "y": [5.0, 97.0, 98.0, 99.0], "z": ["a", "N", "", "b"]}
    )
    missing = {"x": [-9, -8], "y": [{"lo": 97, "hi": 99}], "z": ["N"]}
    pyreadstat.write_sav(frame, str(path), missing_ranges=missing)
    assert texts(path) == {
        "x": ["1", "-9", "-8", None],
        "y": ["5", "97", "98", "99"],
        "z": ["a", "N", "", "b"],
    }


def test_missing_codes_of_stata_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "rows.dta"
    frame = pd.DataFrame({"x": pd.Series([1.0, "a", "z", np.nan, 2.5], dtype=object)})
    pyreadstat.write_dta(frame, str(path), missing_user_values={"x": ["a", "z"]})
    assert texts(path) == {"x": ["1", ".a", ".z", None, "2.5"]}
    schema = Schema.parse("""
    [columns.x]
    kind = "numeric"
    edges = [0, 2, 4]
    missing = [".a", ".z"]
    """)
    assert read_codes(open_source(path), schema)["x"].tolist() == [0, 2, 3, 4, 1]


@pytest.mark.parametrize(
    ("suffix", "formats", "numbers"),
    [
        ("sav", {"d": "DATE11", "t": "DATETIME20", "c": "TIME8"}, (13_799_808_000, 13_799_853_000, 45_000)),
        ("sav", {"d": "SDATE10", "t": "YMDHMS19", "c": "TIME5"}, (13_799_808_000, 13_799_853_000, 45_000)),
        ("dta", {"d": "%td", "t": "%tc", "c": "%tcHH:MM:SS"}, (21_945, 1_896_093_000_000, 45_000_000)),
        (
            "dta",
            {"d": "%tdCCYY-NN-DD", "t": "%tC", "c": "%tcHH:MM:SS"},
            (21_945, 1_896_093_000_000, 45_000_000),
        ),
        ("xpt", {"d": "DATE9", "t": "DATETIME20", "c": "TIME8"}, (21_945, 1_896_093_000, 45_000)),
        ("xpt", {"d": "YYMMDD10", "t": "E8601DT", "c": "TOD8"}, (21_945, 1_896_093_000, 45_000)),
        ("xpt", {"d": "MMDDYYS10", "t": "DATETIME", "c": "HHMM"}, (21_945, 1_896_093_000, 45_000)),
    ],
)
def test_dates_are_dates(
    tmp_path: Path, suffix: str, formats: dict[str, str], numbers: tuple[float, ...]
) -> None:
    """A number that no calendar has is an empty cell, and says nothing about others."""
    path = tmp_path / "rows"
    frame = pd.DataFrame({n: [float(each), np.nan, 1e300] for n, each in zip("dtc", numbers, strict=True)})
    WRITERS[suffix](frame, str(path), variable_format=formats)
    assert texts(path) == {
        "d": ["2020-01-31", None, None],
        "t": ["2020-01-31 12:30:00", None, None],
        "c": ["12:30:00", None, None],
    }


def test_months_quarters_and_halves_of_stata_are_dates(tmp_path: Path) -> None:
    path = tmp_path / "rows.dta"
    frame = pd.DataFrame({"m": [0.0, -1.0, 1e18], "q": [4.0, -1.0, 1.0], "h": [1.0, 0.0, np.nan]})
    pyreadstat.write_dta(frame, str(path), variable_format={"m": "%tm", "q": "%tq", "h": "%th"})
    assert texts(path) == {
        "m": ["1960-01-01", "1959-12-01", None],
        "q": ["1961-01-01", "1959-10-01", "1960-04-01"],
        "h": ["1960-07-01", "1960-01-01", None],
    }


def test_old_files_of_stata_are_windows_texts(tmp_path: Path) -> None:
    path = tmp_path / "rows.dta"
    frame = pd.DataFrame({"name": ["Köln", "€"], "x": [1, 2]})
    # pandas writes such files in Latin-1, which lacks the second.
    frame[:1].to_stata(path, version=114, write_index=False)
    assert texts(path) == {"name": ["Köln"], "x": ["1"]}


@pytest.mark.parametrize("suffix", [*WRITERS, "por"])
def test_a_byte_outside_the_encoding_spoils_its_cell_alone(tmp_path: Path, suffix: str) -> None:
    """A canary's text must not decide whether the rows of others can be read."""
    path = tmp_path / "rows"
    write = WRITERS.get(suffix, pyreadstat.write_por)
    write(pd.DataFrame({"X": [1.0, 2.0, 3.0], "NAME": ["abc", "canary", "def"]}), str(path))
    path.write_bytes(path.read_bytes().replace(b"canary", b"c\xff\x81\xc3ry"))
    found = texts(path)
    assert found["X"] == ["1", "2", "3"]
    assert found["NAME"][::2] == ["abc", "def"]


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_names_and_long_texts_are_decoded(tmp_path: Path, suffix: str) -> None:
    path, long = tmp_path / "rows", "é" * 400
    WRITERS[suffix](pd.DataFrame({"größe": [1.0], "straße": [long]}), str(path))
    assert texts(path) == {"größe": ["1"], "straße": [long]}


def test_texts_of_any_length_are_refused_with_the_header(tmp_path: Path) -> None:
    """The library gives up at a stray byte of a strL; the other columns of such a file are read."""
    path = tmp_path / "rows.dta"
    frame = pd.DataFrame({"x": [1, 2], "note": ["a" * 3000, "canary"]})
    frame.to_stata(path, version=118, write_index=False, convert_strl=["note"])
    path.write_bytes(path.read_bytes().replace(b"canary", b"can\xffry"))
    source = open_source(path)
    assert [batch.to_pydict() for batch in source.batches(["x"])] == [{"x": ["1", "2"]}]
    with pytest.raises(DataError, match=r"'note' holds .* strL"):
        check_header(source, Schema.parse('[columns.note]\nkind = "categorical"\nvalues = ["a"]'))


def test_an_unknown_encoding_is_refused_with_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.sav"
    pyreadstat.write_sav(pd.DataFrame({"name": ["a"]}), str(path))
    monkeypatch.setattr(stat_source, "_CODECS", {"UTF-8": "klingon"})
    with pytest.raises(DataError, match="encoding of its texts that is not known"):
        open_source(path)


@pytest.mark.parametrize("suffix", WRITERS)
def test_batches_are_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    path = tmp_path / "rows"
    values = np.arange(10.0)
    WRITERS[suffix](pd.DataFrame({"x": values, "y": [f"t{v:.0f}" for v in values]}), str(path))
    monkeypatch.setattr(stat_source, "BATCH_ROWS", 16 * 5)
    monkeypatch.setattr(stat_source, "_BATCH_CELLS", 5)
    source = open_source(path)
    sizes = [len(batch) for batch in source.batches(["y", "x"])]
    assert max(sizes) == 5
    assert sum(sizes) == 10
    assert texts(path)["x"] == [str(number) for number in range(10)]


@pytest.mark.parametrize("suffix", WRITERS)
def test_no_row_is_a_table(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "rows"
    WRITERS[suffix](pd.DataFrame({"x": np.zeros(0), "y": np.zeros(0, dtype=str)}), str(path))
    schema = Schema.parse('[columns.x]\nkind = "integer"\nmin = 0\nmax = 9')
    source = open_source(path)
    check_header(source, schema)
    assert read_codes(source, schema)["x"].tolist() == []


@pytest.mark.parametrize("suffix", WRITERS)
def test_damage_is_told_in_fixed_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], suffix: str
) -> None:
    """Wherever a file is cut or altered: a table, a refusal before the charge, or a fixed error after it."""
    path = tmp_path / "rows"
    WRITERS[suffix](pd.DataFrame({"x": np.arange(50.0), "y": [SECRET] * 50}), str(path))
    whole = path.read_bytes()
    rng = np.random.default_rng(8)
    said: set[str] = set()
    bare: list[bool] = []
    for place in rng.integers(90, len(whole), 120).tolist():
        for content in (whole[:place], whole[:place] + b"\xff" + whole[place + 1 :]):
            path.write_bytes(content)
            try:
                texts(path)
            except (DataError, ResourceError) as error:
                said.add(str(error).replace(str(path), "FILE"))
                bare.append(error.__suppress_context__ or error.__context__ is None)
    assert said
    assert all(bare)
    assert all(
        "cannot be read" in message and SECRET not in message and not any(sign.isdigit() for sign in message)
        for message in said
    ), said
    streams = capfd.readouterr()
    assert streams.out + streams.err == ""


def test_a_column_is_asked_for_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.sav"
    pyreadstat.write_sav(pd.DataFrame({"x": [1.0], "y": [2.0]}), str(path))
    source: Any = open_source(path)
    assert [batch.to_pydict() for batch in source.batches(["y"])] == [{"y": [2.0]}]
    schema = Schema.parse('[columns.z]\nkind = "integer"\nmin = 0\nmax = 9')
    with pytest.raises(DataError, match="no column 'z'"):
        check_header(source, schema)


def test_days_before_the_calendar_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "rows.dta"
    frame = pd.DataFrame({"d": [-1e9, 0.0]})
    pyreadstat.write_dta(frame, str(path), variable_format={"d": "%td"})
    (batch,) = open_source(path).batches(["d"])
    assert to_texts(batch.column("d")).to_pylist() == [None, str(datetime.date(1960, 1, 1))]
    assert pa.types.is_string(batch.column("d").type)


SAS = """
library(haven)
rows <- data.frame(id = c(1, 2, 3), name = c("a", "b", ""), d = as.Date(c("2020-01-31", NA, "1960-01-01")))
rows$x <- tagged_na("A", "B", "Z")
rows$x[1] <- 5
suppressWarnings(write_sas(rows, commandArgs(TRUE)[1]))
"""


@pytest.mark.slow
def test_files_of_sas_are_read(tmp_path: Path) -> None:
    """No library of Python writes them; R's haven does."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    script, path = tmp_path / "write.R", tmp_path / "rows.sas7bdat"
    script.write_text(SAS)
    ran = subprocess.run(["Rscript", str(script), str(path)], capture_output=True, timeout=120)
    if ran.returncode and b"no package called" in ran.stderr:
        pytest.skip("R's haven package is not installed")
    assert ran.returncode == 0, ran.stderr
    assert texts(path) == {
        "id": ["1", "2", "3"],
        "name": ["a", "b", ""],
        "d": ["2020-01-31", None, "1960-01-01"],
        "x": ["5", ".B", ".Z"],
    }


def test_portable_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    pyreadstat.write_por(pd.DataFrame({"X": [1.0, np.nan], "Y": ["a", "b c"]}), str(path))
    assert texts(path) == {"X": ["1", None], "Y": ["a", "b c"]}
