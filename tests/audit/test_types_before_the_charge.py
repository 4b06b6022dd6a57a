"""Types without texts are public facts: they are refused before the charge, and no row is looked at for it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.api.measure import measure
from populace.core.errors import DataError, ResourceError, Terminated, UsageError
from populace.private.private_table import PrivateTable
from populace.private.redact import redact_row_errors
from populace.schema.schema import Schema
from tests.audit.arrow_shapes import NESTED

SCHEMA = Schema.parse('[columns.x]\nkind = "categorical"\nvalues = ["a"]\n[columns.y]\nkind = "date"\n'
                      'min = "2001-01-01"\nmax = "2002-12-31"\nwidth = "year"')  # fmt: skip
SPANS = {
    "duration": pa.array([1, 2, 3], pa.duration("s")),
    "interval": pa.array([None] * 3, pa.month_day_nano_interval()),
}
DAYS = ["2001-01-01", "2002-01-01", None]
FRAMES = {
    "polars list": lambda: pl.DataFrame({"x": [[1], None, []], "y": DAYS}),
    "polars struct": lambda: pl.DataFrame({"x": [{"a": 1}] * 3, "y": DAYS}),
    "polars array": lambda: pl.DataFrame(
        {"x": pl.Series([[1, 2]] * 3, dtype=pl.Array(pl.Int64, 2)), "y": DAYS}
    ),
    "polars duration": lambda: pl.DataFrame({"x": [datetime.timedelta(1)] * 3, "y": DAYS}),
    "polars lazy list": lambda: pl.LazyFrame({"x": [[1], None, []], "y": DAYS}),
    "pandas interval": lambda: pd.DataFrame({"x": pd.interval_range(0, periods=3), "y": DAYS}),
    "pandas timedelta": lambda: pd.DataFrame({"x": pd.to_timedelta([1, 2, 3]), "y": DAYS}),
    **{
        f"pandas {name}": lambda cells=NESTED[name]: pd.DataFrame(
            {"x": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([cells]))), "y": DAYS}
        )
        for name in ("list", "struct", "map")
    },
    **{
        f"arrow {name}": lambda cells=cells: pa.table({"x": cells, "y": DAYS})
        for name, cells in (NESTED | SPANS).items()
    },
}


def refused(data: Any, ledger: Path) -> DataError:
    with pytest.raises(DataError, match="'x' holds lists") as caught:
        measure(data, schema=SCHEMA, epsilon=1, delta=0, method="independent", ledger=ledger)
    assert not ledger.exists(), "something was booked"
    return caught.value


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_frames_with_types_that_have_no_codes_are_refused(make: Any, tmp_path: Path) -> None:
    refused(make(), tmp_path / "ledger.db")


@pytest.mark.parametrize("name", ["list", "large list", "fixed list", "struct", "map", "duration"])
def test_files_with_types_that_have_no_codes_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"x": (NESTED | SPANS)[name], "y": DAYS}), path)
    refused(path, tmp_path / "ledger.db")


def test_the_rows_decide_nothing(tmp_path: Path) -> None:
    """The same refusal with and without rows, and none where the schema does not read the column."""
    full = pa.table({"x": NESTED["list"], "y": DAYS})
    said = {str(refused(data, tmp_path / "ledger.db")) for data in (full, full[:0])}
    assert len(said) == 1
    PrivateTable.of(
        full.append_column("z", pa.array(["a"] * 3)),
        schema=Schema.parse('[columns.z]\nkind = "categorical"\nvalues = ["a"]'),
    )


def test_objects_declare_nothing(tmp_path: Path) -> None:
    """Lists as Python objects are cells: they go where everything else goes, and are paid for."""
    frame = pd.DataFrame({"x": pd.Series([[1], "a", {}], dtype=object), "y": DAYS})
    measure(frame, schema=SCHEMA, epsilon=1, delta=0, method="independent", ledger=tmp_path / "ledger.db")
    assert (tmp_path / "ledger.db").exists()


class Panic(BaseException):
    """What a library raises that is no Exception."""


@pytest.mark.parametrize(
    "failure", [ValueError("s3cret"), UsageError("s3cret", hint="x"), Panic("s3cret"), OSError("s3cret")]
)
def test_what_fails_among_rows_is_no_refusal(failure: BaseException) -> None:
    with (
        pytest.raises(ResourceError, match="What was charged stays charged") as caught,
        redact_row_errors("the data"),
    ):
        raise failure
    assert "s3cret" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_an_interruption_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), redact_row_errors("the data"):
        raise KeyboardInterrupt
    with pytest.raises(Terminated), redact_row_errors("the data"):
        raise Terminated(15)
