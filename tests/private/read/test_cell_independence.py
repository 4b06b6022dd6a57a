"""One odd cell says nothing about the others: equal objects with different texts, and bytes that are no text."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.private.read.rows_to_codes import open_source, read_codes
from populace.schema.schema import Schema

YEARS = Schema.parse('[columns.x]\nkind = "date"\nmin = "2019-01-01"\nmax = "2020-12-31"\nwidth = "year"')
HOURS = Schema.parse('[columns.x]\nkind = "time"\nmin = "00:00:00"\nmax = "23:59:59"\nwidth = "hour"')
EAST = timezone(timedelta(hours=1))


def codes(data: object, schema: Schema) -> list[int]:
    return [int(code) for code in read_codes(open_source(data), schema)["x"]]


@pytest.mark.parametrize(
    ("schema", "odd", "usual"),
    [
        (YEARS, datetime(2019, 12, 31, 23, 30, tzinfo=UTC), datetime(2020, 1, 1, 0, 30, tzinfo=EAST)),
        (
            YEARS,
            pd.Timestamp("2019-12-31 23:30", tz="UTC"),
            pd.Timestamp("2020-01-01 00:30", tz="Europe/Paris"),
        ),
        (HOURS, time(8, 0, tzinfo=UTC), time(9, 0, tzinfo=EAST)),
    ],
)
def test_equal_moments_in_two_zones_are_read_one_by_one(schema, odd, usual):
    assert odd == usual
    alone = codes(pd.DataFrame({"x": pd.Series([usual] * 3, dtype=object)}), schema)
    beside = codes(pd.DataFrame({"x": pd.Series([odd, *[usual] * 3], dtype=object)}), schema)
    assert beside[1:] == alone
    assert beside[0] != alone[0], "the two do have different texts"


def strings(cells: list[bytes], kind: pa.DataType) -> pa.Array:
    """Return an array of texts with bytes that nobody checked."""
    ends = np.cumsum([0, *map(len, cells)]).astype(np.int64 if kind == pa.large_string() else np.int32)
    return pa.Array.from_buffers(
        kind, len(cells), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(cells))]
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"3\xc3", b"\x00\xfe"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    "text",
    [
        'kind = "categorical"\nvalues = ["a", "3"]',
        'kind = "integer"\nmin = 0\nmax = 9',
        'kind = "date"\nmin = "2001-01-01"\nmax = "2002-12-31"',
    ],
)
def test_bytes_that_are_no_text_are_one_cell_alone(tmp_path, bad, kind, text):
    schema = Schema.parse(f"[columns.x]\n{text}")
    usual = [b"a", b"3", b"2001-05-01", b""]
    alone = codes(pa.table({"x": strings(usual, kind)}), schema)
    table = pa.table({"x": strings([bad, *usual], kind)})
    assert codes(table, schema)[1:] == alone
    pq.write_table(table, tmp_path / "x.parquet")
    assert codes(tmp_path / "x.parquet", schema)[1:] == alone


def test_a_narrow_bin_in_a_long_range_is_written_without_all_its_neighbours():
    schema = Schema.parse('[columns.x]\nkind = "integer"\nedges = [0, 1, 900000000000]')
    assert "edges = [0, 1, 900000000000]" in schema.to_toml()
    assert Schema.parse(schema.to_toml()) == schema
