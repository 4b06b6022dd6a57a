"""How many units a row stands for: the policy, and that one unit moves no count by more than one."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from populace.core.limits import LIMITS
from populace.schema.codec.frequencies import read_frequencies

MOST = LIMITS.max_frequency


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("0", 0),
        ("1", 1),
        (" 7 ", 7),
        ("7.0", 7),
        ("+7", 7),
        ("7e2", 700),
        ("-0", 0),
        ("-1", 0),
        ("2.5", 0),
        ("", 0),
        ("many", 0),
        ("nan", 0),
        ("1,000", 0),
        ("0x10", 0),
        (str(MOST), MOST),
        (str(MOST + 1), MOST),
        (str(MOST) + ".5", 0),
        ("9" * 400, MOST),
        ("inf", MOST),
        ("-inf", 0),
    ],
)
def test_what_is_no_whole_number_of_0_or_more_stands_for_none(text: str, units: int) -> None:
    assert read_frequencies(pa.array([text])).tolist() == [units]


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([3, None, -2], pa.int8()),
        pa.array([3, None, -2], pa.int64()),
        pa.array([3.0, float("nan"), -2.0]),
        pa.array([Decimal("3"), None, Decimal("2.5")]),
        pa.array(["3", None, "x"]).dictionary_encode(),
        pa.chunked_array([["3"], [None, "x"]]),
    ],
)
def test_every_type_of_column_is_read_alike(cells: pa.Array) -> None:
    found = read_frequencies(cells)
    assert found.dtype == np.int64
    assert found.tolist() == [3, 0, 0]


def test_a_decimal_comma_is_read_where_the_file_has_one() -> None:
    assert read_frequencies(pa.array(["3,0", "2,5"]), decimal=",").tolist() == [3, 0]


def test_one_unit_more_moves_a_count_by_at_most_one() -> None:
    """Brute force over neighbours: the number in a row's cell grows or falls by one, or the row comes and goes."""
    for n in [*range(300), 2**24, 2**31 - 1, MOST - 1, MOST, MOST + 1, 2**53 - 1]:
        lower, upper = read_frequencies(pa.array([str(n), str(n + 1)])).tolist()
        assert 0 <= upper - lower <= 1, n
    assert read_frequencies(pa.array(["1"])).tolist() == [1]


def test_one_unit_moves_one_cell_of_a_tiny_table_by_at_most_one() -> None:
    """All tables of two rows with counts 0 … 3, and all neighbours: the total moves by as much as one unit."""
    for counts in product(range(4), repeat=2):
        before = read_frequencies(pa.array([str(n) for n in counts]))
        for row in range(2):
            more = [n + (place == row) for place, n in enumerate(counts)]
            after = read_frequencies(pa.array([str(n) for n in more]))
            assert np.abs(after - before).sum() == 1


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_about_the_cells() -> None:
    assert read_frequencies(pa.array(["nan", "inf", "-inf", "1e400"])).tolist() == [0, MOST, 0, MOST]
