"""The shape audit: no cell of any type makes a reader fail, or changes what it makes of any other row.

Every Arrow type and every oddity of CSV files, read as a column of every kind by every reader. The hostile cells stand
beside valid ones; the neighbour without them must be read in the same form and to the same codes, numbers and keys.
"""

from __future__ import annotations

import datetime
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.api.measure import measure
from populace.measurements.measurements import Measurements
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.read import csv_lines as lines
from populace.private.read.rows_to_codes import columns_to_read, open_source, read_codes, read_rows
from populace.private.read.value_counts import read_tallies
from populace.schema.schema import Schema
from tests.audit.arrow_shapes import (
    BY_ID,
    FLAT,
    NESTED,
    NO_TEXT,
    OPEN,
    SELDOM,
    SHAPES,
    TEXT,
    TYPED,
    WRITTEN,
    Shape,
)
from tests.audit.replay import RecordingNoise, ReplayingNoise, check_sensitivities
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(8)

Read = dict[str, dict[str, Any]]


def table(cells: Any, *, schema: Schema = TYPED) -> pa.Table:
    """Return a table that holds the same cells in every column that a schema reads."""
    return pa.table(dict.fromkeys(columns_to_read(schema), cells))


def read_all(data: Any, *, schema: Schema = TYPED) -> Read:
    """Return what each reader makes of a table; texts of open columns with their counts."""
    # Without a look at the types, some of which are refused before: the readers hold on their own.
    source = open_source(data)
    rows = read_rows(source, schema)
    keys = {
        name: dict(zip(tally.keys.to_pylist(), tally.counts.tolist(), strict=True))
        for name, tally in read_tallies(source, schema).items()
    }
    return {"codes": dict(rows.codes), "numbers": dict(rows.numbers), "keys": keys}


def check_same_form(one: Read, other: Read, *, schema: Schema = TYPED) -> None:
    """Compare what was read of a table with what was read of its neighbour, whose rows come first in it."""
    for reader in ("codes", "numbers"):
        assert one[reader].keys() == other[reader].keys()
        for name, found in one[reader].items():
            beside = other[reader][name]
            assert found.dtype == beside.dtype
            assert len(found) == len(next(iter(one["codes"].values())))
            np.testing.assert_array_equal(found[: len(beside)], beside, err_msg=name)
            if reader == "codes":
                assert int(found.max(initial=0)) < schema.domain[name]
    assert one["keys"].keys() == other["keys"].keys()
    for name, keys in one["keys"].items():
        assert all(keys.get(key, 0) >= count for key, count in other["keys"][name].items())
        assert all(isinstance(key, str) and key.isprintable() for key in keys)


def check_shape(shape: Shape) -> None:
    schema = WRITTEN if shape.valid is TEXT else TYPED
    alone, beside = (
        read_all(table(shape.make(cells), schema=schema), schema=schema)
        for cells in (shape.valid, [*shape.valid, *shape.hostile])
    )
    assert len(beside["codes"]["binned"]) == len(shape.valid) + len(shape.hostile)
    check_same_form(beside, alone, schema=schema)


@pytest.mark.sampled(13)
@pytest.mark.parametrize(
    "name",
    [
        *sample_cases((name for name in SHAPES if name not in SELDOM), to=40),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SHAPES if name in SELDOM),
    ],
)
def test_no_cell_of_any_type_touches_another(name: str) -> None:
    check_shape(SHAPES[name])


@pytest.mark.parametrize("name", NESTED)
def test_nested_cells_are_nothing(name: str) -> None:
    """They are refused before the charge; whoever gets past that reads empty cells."""
    codes = read_all(table(NESTED[name]))["codes"]
    assert all(len(set(found.tolist())) == 1 for found in codes.values())


def test_codes_are_those_of_survey_rows() -> None:
    """Both readers go one way: what is shown of one holds for the other."""
    for name in ("string", "dictionary of large_string", "date32", "double"):
        shape = SHAPES[name]
        source = open_source(table(shape.make([*shape.valid, *shape.hostile])))
        codes, rows = read_codes(source, TYPED), read_rows(source, TYPED)
        for column, found in codes.items():
            np.testing.assert_array_equal(found, rows.codes[column])


@pytest.mark.parametrize(
    "name", ["string", "dictionary of string_view", "timestamp[ns]", "double", "interval"]
)
def test_ids_of_any_type_keep_the_rows_of_others(name: str) -> None:
    """Cells as ids: every row of a valid one stays what it is, and no id makes the reader fail."""
    shape = SHAPES[name]
    named = [cell for cell in shape.valid if cell is not None]
    alone, beside = shape.make(named), shape.make([*named, *shape.hostile])
    read_alone, read_beside = (
        read_all(table(cells, schema=BY_ID), schema=BY_ID) for cells in (alone, beside)
    )
    kept = len(read_alone["codes"]["binned"])
    assert kept == (0 if name == "interval" else len(named))
    check_same_form(read_beside, read_alone, schema=BY_ID)


@pytest.mark.parametrize("name", ["string", "large_string", "binary"])
def test_one_hostile_text_is_one_row_in_parquet(name: str, tmp_path: Path) -> None:
    """Each alone beside valid cells, from a file, where Arrow keeps texts as dictionaries."""
    shape = SHAPES[name]
    path = tmp_path / "people.parquet"
    pq.write_table(table(shape.make(shape.valid)), path)
    alone = read_all(path)
    for cell in NO_TEXT[:3]:
        pq.write_table(table(shape.make([*shape.valid, cell])), path)
        check_same_form(read_all(path), alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAT)
def test_no_cell_of_a_parquet_file_touches_another(name: str, tmp_path: Path) -> None:
    shape, path = FLAT[name], tmp_path / "people.parquet"
    read = []
    for cells in (shape.valid, [*shape.valid, *shape.hostile]):
        try:
            pq.write_table(table(shape.make(cells)), path)
        except (pa.ArrowException, OSError):
            pytest.skip("Parquet files hold no such cells")
        read.append(read_all(path))
    check_same_form(read[1], read[0])


# What is written in a field, and whole lines that are no rows.
FIELDS = [
    *NO_TEXT,
    b'"',
    b'""',
    b'"a',
    b'a"',
    b'"a""',
    b'"2001-05-01"',
    b'"2001-05-01',
    b"'",
    b"\\",
    b"\xef\xbb\xbf3",
    b"\xfe\xff",
    b"\x1a",
    b"\x1b[31m",
    b"\x7f\x80\x81",
    b"\t",
    b"x" * 2**12,
    b"9" * 2**12,
    "2001-05-01\u2028".encode(),
    "\U0001f642".encode(),
]
LINES = [
    b"3",
    b",",
    b"",
    b"\r",
    b"3," * 500,
    b'"' * 999,
    b"\xff\xfe\x00",
    b"\0" * 40,
    b"3;" * 20,
    b"y" * 5000,
]


def written(rows: list[bytes], path: Path, *, separator: bytes = b",") -> Path:
    header = separator.join(name.encode() for name in columns_to_read(WRITTEN))
    path.write_bytes(b"\n".join([header, *rows, b""]))
    return path


def row(field: bytes, *, separator: bytes = b",") -> bytes:
    return separator.join([field] * len(columns_to_read(WRITTEN)))


@pytest.mark.parametrize("separator", [b",", b";"])
def test_no_field_or_line_of_a_csv_file_touches_another(
    separator: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, which finds whatever fails."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2**17)
    valid = [row(cell or b"", separator=separator) for cell in TEXT]
    odd = [row(field, separator=separator) for field in FIELDS] + [
        line.replace(b",", separator) for line in LINES
    ]
    alone = read_all(written(valid, tmp_path / "alone.csv", separator=separator), schema=WRITTEN)
    beside = read_all(written([*valid, *odd], tmp_path / "beside.csv", separator=separator), schema=WRITTEN)
    assert len(alone["codes"]["binned"]) == len(valid)
    check_same_form(beside, alone, schema=WRITTEN)


@pytest.mark.parametrize("place", range(len(FIELDS)))
@pytest.mark.slow
def test_one_field_of_a_csv_file_is_one_row(place: int, tmp_path: Path) -> None:
    valid = [row(cell or b"") for cell in TEXT]
    alone = read_all(written(valid, tmp_path / "alone.csv"), schema=WRITTEN)
    beside = read_all(written([*valid, row(FIELDS[place])], tmp_path / "beside.csv"), schema=WRITTEN)
    check_same_form(beside, alone, schema=WRITTEN)


OBJECTS = [b"\xff", "\ud800", 10**5000, [1], {"a": 1}, Decimal("sNaN"), 1 + 2j, ..., float("nan"), pd.NaT]
OBJECTS += [datetime.date(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, tzinfo=datetime.UTC), np.zeros(2)]
FRAMES = {
    "pandas objects": lambda cells: pd.Series(cells, dtype=object),
    "polars objects": lambda cells: pl.Series(cells, dtype=pl.Object),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_no_object_of_a_frame_touches_another(make: Any) -> None:
    frame = pd.DataFrame if make is FRAMES["pandas objects"] else pl.DataFrame
    valid = ["a", 3, "2001-05-01", datetime.date(2001, 5, 1), datetime.time(12, 30), None]

    def read(cells: list[object]) -> Read:
        return read_all(frame({name: make(cells) for name in columns_to_read(TYPED)}))

    check_same_form(read([*valid, *OBJECTS]), read(valid))


class Word(str):
    """A text that cannot be written down."""

    def encode(self, *_: object, **__: object) -> bytes:
        raise RuntimeError("s3cret")


PANDAS = {
    "categories": (lambda cells: pd.Series(pd.Categorical(cells)), [b"\xff", 10**30, (1, 2), "\ud800"]),
    "texts": (lambda cells: pd.Series(cells, dtype=pd.StringDtype("python")), ["\ud800", "\0"]),
    "objects": (lambda cells: pd.Series(cells, dtype=object), [Word("a"), type, object()]),
}


@pytest.mark.parametrize("name", PANDAS)
def test_no_cell_of_a_pandas_frame_touches_another(name: str) -> None:
    make, hostile = PANDAS[name]
    valid = ["a", "3", "2001-05-01", None]
    read = [
        read_all(pd.DataFrame({column: make(cells) for column in columns_to_read(TYPED)}))
        for cells in (valid, [*valid, *hostile])
    ]
    check_same_form(read[1], read[0])


POLARS = {
    "categorical": (pl.Categorical, ["a", "3", None], ["\0", "x" * 999]),
    "enum": (pl.Enum(["a", "3", "\x7f"]), ["a", "3", None], ["\x7f"]),
    "decimal": (pl.Decimal(38, 2), [Decimal("3.00"), None], [Decimal("9" * 30)]),
    "int128": (pl.Int128, [3, None], [2**127 - 1, -(2**127)]),
    "time": (pl.Time, [datetime.time(12, 30), None], [datetime.time(23, 59, 59, 999_999)]),
    "datetime": (
        pl.Datetime("us", "Europe/Paris"),
        [datetime.datetime(2001, 5, 1, tzinfo=datetime.UTC), None],
        [
            datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
            datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
        ],
    ),
    "binary": (pl.Binary, [b"a", b"3", b"2001-05-01", None], [b"\xff", b"\0"]),
    "null": (pl.Null, [None], [None]),
}


@pytest.mark.parametrize("name", POLARS)
def test_no_cell_of_a_polars_frame_touches_another(name: str) -> None:
    kind, valid, hostile = POLARS[name]
    read = [
        read_all(pl.DataFrame({column: pl.Series(cells, dtype=kind) for column in columns_to_read(TYPED)}))
        for cells in (valid, [*valid, *hostile])
    ]
    check_same_form(read[1], read[0])


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_learning_asks_the_same_of_neighbours(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open values and bins, learnt and measured: under frozen answers a hostile row changes no question."""
    name = secrets.token_hex(16)
    monkeypatch.setattr("populace.privacy.ledger.ledger.secrets.token_hex", lambda size: name)
    schema = Schema.parse(OPEN)
    valid = [cell or b"" for cell in TEXT] * 9

    def run(cells: list[bytes], noise: RecordingNoise | ReplayingNoise) -> Measurements:
        path = tmp_path / f"people.{form}"
        if form == "csv":
            head = ",".join(schema.columns).encode()
            path.write_bytes(
                b"\n".join([head, *(b",".join([cell] * len(schema.columns)) for cell in cells), b""])
            )
        else:
            pq.write_table(table(SHAPES["string"].make(cells), schema=schema), path)
        options = {"epsilon": "2", "delta": "1e-6", "method": "independent", "dataset": "people"}
        return measure(path, schema=schema, ledger=tmp_path / f"{id(noise)}.db", noise=noise, **options)

    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(3)))
    first = run(valid, recorder)
    player = ReplayingNoise(recorder.transcript.entries)
    second = run([*valid, b"\xff\xfe"], player)
    player.finish()
    check_sensitivities(recorder.transcript.entries, player.transcript.entries, record=first.record)
    assert first.schema == second.schema
    assert [each.counts.tolist() for each in first.items] == [each.counts.tolist() for each in second.items]
