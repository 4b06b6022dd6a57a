"""Parquet files and frames: the same rows give the same codes, whichever library holds them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.core.errors import DataError, ResourceError
from populace.private.read import sources
from populace.private.read.rows_to_codes import check_header, open_source, read_codes
from populace.schema.schema import Schema

DATA = Path(__file__).parents[4] / "shared" / "data"

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 99

[columns.CITY]
kind = "categorical"
values = ["Köln", "Paris", "1", "true", "2020-01-31"]

[columns.INCOME]
kind = "numeric"
edges = [0, 10, 20]
missing = ["R"]
""")

ROWS = {
    "CITY": ["Paris", None, "1", "Lyon"],
    "NOTE": ["a", "b", "c", "d"],
    "AGE": [17, None, 120, 3],
    "INCOME": [10.0, float("nan"), float("inf"), -1.0],
}
CODES = {"AGE": [17, 100, 99, 3], "CITY": [1, 5, 2, 5], "INCOME": [1, 3, 1, 0]}


def codes(data: Any, *, schema: Schema = SCHEMA) -> dict[str, list[int]]:
    source = open_source(data)
    check_header(source, schema)
    return {name: column.tolist() for name, column in read_codes(source, schema).items()}


FRAMES = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas objects": lambda: pd.DataFrame(ROWS, dtype=object),
    "pandas categories": lambda: pd.DataFrame(ROWS).astype({"CITY": "category", "AGE": "Int64"}),
    "pandas arrow": lambda: pa.table(ROWS).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars lazy": lambda: pl.DataFrame(ROWS).lazy(),
    "arrow": lambda: pa.table(ROWS),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_frames_agree(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes(make()) == CODES
    monkeypatch.setattr(sources, "BATCH_ROWS", 3)
    assert codes(make()) == CODES


def test_a_parquet_file_agrees(tmp_path: Path) -> None:
    table = pa.table(ROWS)
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()):
        place = table.schema.get_field_index("CITY")
        pq.write_table(table.set_column(place, "CITY", table["CITY"].cast(kind)), tmp_path / "people.parquet")
        assert codes(tmp_path / "people.parquet") == CODES
        assert codes(str(tmp_path / "people.parquet")) == CODES


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([True, False, None], [3, 5, 5]),
        ([1, 2, None], [2, 5, 5]),
        ([Decimal("1.00"), Decimal("2.50"), None], [2, 5, 5]),
        ([datetime.date(2020, 1, 31), None, None], [4, 5, 5]),
        ([datetime.datetime(2020, 1, 31), datetime.datetime(2020, 1, 31, 1), None], [4, 5, 5]),
    ],
)
def test_types_have_a_text(tmp_path: Path, cells: list[object], expected: list[int]) -> None:
    schema = Schema(columns={"CITY": SCHEMA.columns["CITY"]})
    table = pa.table({"CITY": cells})
    pq.write_table(table, tmp_path / "people.parquet")
    for data in (
        tmp_path / "people.parquet",
        table,
        pl.DataFrame({"CITY": cells}),
        pd.DataFrame({"CITY": cells}),
    ):
        assert codes(data, schema=schema) == {"CITY": expected}
    mixed = pd.DataFrame({"CITY": [*cells, "Paris"]}, dtype=object)
    assert codes(mixed, schema=schema) == {"CITY": [*expected, 1]}


def test_python_objects_are_read_cell_by_cell() -> None:
    """Arrow would take all of them for one type: 1.5 beside True makes True a number."""
    cells = [17, "17", 17.0, Decimal("17.0"), b"17", np.int64(17), None, np.nan, pd.NA, pd.NaT, True, 10**40]
    cells += [
        -(10**5000),
        "\ud800",
        object(),
        [1],
        {"a": 1},
        float("inf"),
        1 + 2j,
        datetime.date(2020, 1, 31),
    ]
    expected = [17] * 6 + [100] * 4 + [1, 99, 0, 100, 100, 100, 100, 99, 100, 100]
    schema = Schema(columns={"AGE": SCHEMA.columns["AGE"]})
    assert codes(pd.DataFrame({"AGE": pd.Series(cells, dtype=object)}), schema=schema) == {"AGE": expected}
    for cell, code in zip(cells, expected, strict=True):
        assert codes(pd.DataFrame({"AGE": pd.Series([cell], dtype=object)}), schema=schema) == {"AGE": [code]}


def test_objects_keep_their_own_type_beside_others() -> None:
    schema = Schema(columns={"CITY": SCHEMA.columns["CITY"]})
    late = datetime.datetime(2020, 1, 31, 3)
    for beside in (1, True, 1.5, late, datetime.date(2020, 1, 31), "x", b"x", None):
        for cell, code in ((True, 3), (1, 2), (1.0, 2), (datetime.date(2020, 1, 31), 4), (late, 5)):
            frame = pd.DataFrame({"CITY": pd.Series([beside, cell], dtype=object)})
            assert codes(frame, schema=schema)["CITY"][1] == code


class Odd:
    """An object that nothing can be done with."""

    def __hash__(self) -> int:
        raise RuntimeError("s3cret")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("s3cret")

    def __array__(self, *_: object, **__: object) -> None:
        raise RuntimeError("s3cret")


def test_one_odd_object_touches_no_other() -> None:
    schema = Schema(columns={"CITY": SCHEMA.columns["CITY"]})
    rows = ["Paris", "1"] * 200
    for odd in (Odd(), [[[]]], b"\xff", "\ud800", 10**5000, np.zeros(3), Decimal("sNaN"), type, ...):
        for place in (0, 150, 400):
            cells = pd.Series([*rows[:place], odd, *rows[place:]], dtype=object)
            expected = [1, 2] * 200
            expected.insert(place, 5)
            assert codes(pd.DataFrame({"CITY": cells}), schema=schema) == {"CITY": expected}


def test_opening_a_frame_looks_at_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The type that narwhals gives to a column of objects depends on its first cells."""
    frame = pd.DataFrame(ROWS, dtype=object)

    def looked(*_: object, **__: object) -> str:
        raise AssertionError("a cell was looked at")

    monkeypatch.setattr(pd.api.types, "infer_dtype", looked)
    assert open_source(frame).names == tuple(ROWS)


def test_names_may_be_numbers() -> None:
    assert codes(pd.DataFrame({0: [1, 2], 1: [0, 1]}), schema=Schema.from_sizes({"1": 2})) == {"1": [0, 1]}


def test_frames_without_rows_are_tables() -> None:
    for frame in (pd.DataFrame(ROWS)[:0], pl.DataFrame(ROWS)[:0], pa.table(ROWS)[:0]):
        assert codes(frame) == {"AGE": [], "CITY": [], "INCOME": []}


@pytest.mark.parametrize("data", [3, [1, 2], {"AGE": [1]}, None, pd.Series([1]), b"people.csv"])
def test_what_is_no_table_is_refused(data: object) -> None:
    with pytest.raises(DataError, match="is not a table"):
        open_source(data)


def test_headers_of_frames_are_checked() -> None:
    with pytest.raises(DataError, match="no column 'INCOME'"):
        codes(pd.DataFrame(ROWS).drop(columns="INCOME"))
    twice = pd.concat([pd.DataFrame(ROWS), pd.DataFrame(ROWS)[["AGE"]]], axis=1)
    with pytest.raises(DataError, match="two columns of the same name"):
        codes(twice)


def test_a_frame_that_fails_fails_in_fixed_words() -> None:
    lazy = pl.LazyFrame(ROWS).with_columns(pl.col("CITY").cast(pl.Int64).alias("AGE"))
    with pytest.raises(ResourceError, match="What was charged stays charged") as caught:
        codes(lazy)
    assert "Paris" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.skipif(not DATA.exists(), reason="the shared data sets are not on this machine")
def test_coded_benchmarks_come_through_unchanged() -> None:
    table = pq.read_table(DATA / "adult" / "adult.parquet")
    schema = Schema.load(DATA / "adult" / "domain.json")
    read = read_codes(open_source(DATA / "adult" / "adult.parquet"), schema)
    for name, column in read.items():
        assert column.dtype == np.uint8
        assert (column == table[name].to_numpy()).all()
