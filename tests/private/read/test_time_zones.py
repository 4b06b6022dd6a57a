"""Typed moments with a zone are read as a clock there shows them, and split columns come back whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from populace.private.read.rows_to_codes import open_source, read_codes
from populace.schema.codec.split_codes import join_codes, split_codes
from populace.schema.columns.numeric_columns import IntegerColumn, quotient_column
from populace.schema.schema import Schema

YEARS = Schema.parse('[columns.x]\nkind = "date"\nmin = "2019-01-01"\nmax = "2020-12-31"\nwidth = "year"')
HALF_PAST = 1_577_835_000  # 2019-12-31 23:30:00 in Greenwich


@pytest.mark.parametrize(
    ("zone", "year"), [(None, 0), ("UTC", 0), ("Europe/Paris", 1), ("America/New_York", 0)]
)
def test_a_column_with_a_zone_holds_the_dates_of_its_clock(zone, year):
    """Typed cells mean what their texts mean."""
    moments = pa.array([HALF_PAST, None], pa.int64()).cast(pa.timestamp("s", tz=zone))
    written = moments.cast(pa.string())
    typed, texts = (
        read_codes(open_source(pa.table({"x": cells})), YEARS)["x"].tolist() for cells in (moments, written)
    )
    assert typed == texts
    assert typed[0] == year


@pytest.mark.parametrize(
    "column",
    [
        IntegerColumn(name="x", min=3, max=58, split=10),
        IntegerColumn(name="x", min=-37, max=41, split=10, missing=("-99", "R")),
        IntegerColumn(name="x", min=-7, max=993, bottom=-7, top=993, split=25, missing=("-8",)),
        IntegerColumn(name="x", min=5, max=13, split=7),
    ],
    ids=["from 3", "from below 0", "both ends", "two quotients"],
)
def test_a_split_column_comes_back_whole(column):
    """Every code has a pair of its own, and the pair of a number is its quotient and its remainder."""
    codes = np.arange(column.size)
    coarse, fine = split_codes(column, codes)
    assert join_codes(column, coarse, fine).tolist() == codes.tolist()
    bottom, top = column.ends
    plain = codes[int(bottom) : column.levels - int(top)]
    values = plain + column.min
    assert (fine[plain] == values % column.split).all()
    assert (coarse[plain].astype(np.int64) + quotient_column(column).min == values // column.split).all()
