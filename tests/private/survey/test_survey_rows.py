"""Numbers read beside codes: the same rows, one number for each that has one, and never another row's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from populace.private.private_table import PrivateTable
from populace.private.read.rows_to_codes import open_source, read_codes, read_rows
from populace.schema.codec.numeric_values import NumericValues, numeric_column_names
from populace.schema.schema import Schema

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 99
missing = ["-9"]
[columns.WAGE]
kind = "integer"
min = 0
max = 999
top = 1000
split = 100
missing = ["-1"]
universe = "AGE >= 15"
outside = "N"
[columns.RENT]
kind = "numeric"
edges = [0, 10, 100]
beyond = "other"
other = "0"
[columns.BORN]
kind = "date"
min = 1900-01-01
max = 1999-12-31
[columns.LEARN]
kind = "numeric"
min = -5
max = 5
bins = "learn"
[columns.CITY]
kind = "categorical"
values = ["a", "b"]
[columns.BIG]
kind = "categorical"
values = ["x", "y"]
function_of = ["CITY"]
map = { "a" = "x", "b" = "y" }
[[zeros]]
when = "AGE >= 90 and CITY == 'b'"
else = { AGE = "50" }
""")
CELLS = {
    "AGE": ["20", "14", "-9", "x", "95", " 30 "],
    "WAGE": ["123", "500", "77", "1e9", "-1", "42"],
    "RENT": ["9.75", "100", "1000", "-3", "", "50,5"],
    "BORN": ["1950-01-02", "1900-01-01", "1850-01-01", "2020-01-01", "", "nonsense"],
    "LEARN": ["0.25", "-7", "inf", "nan", "5", "true"],
    "CITY": ["a", "b", "a", "a", "b", "a"],
}
NAN = float("nan")


def read(cells, schema=SCHEMA):
    return read_rows(
        open_source(pa.table({name: pa.array(own, pa.string()) for name, own in cells.items()})), schema
    )


def test_numbers_agree_with_codes():
    found = read(CELLS).numbers
    assert list(found) == ["AGE", "WAGE", "RENT", "BORN", "LEARN"] == list(numeric_column_names(SCHEMA))
    # 95 in city b is moved to 50 by a structural zero.
    np.testing.assert_array_equal(found["AGE"], [20, 14, NAN, NAN, 50, 30])
    # Outside the universe, where AGE is unknown too; a top code is its own number, −1 is missing.
    np.testing.assert_array_equal(found["WAGE"], [123, NAN, NAN, NAN, NAN, 42])
    # What cannot be read becomes 0, whose bin goes from 0 to 10.
    np.testing.assert_array_equal(found["RENT"][:5], [9.75, 100, 5, 5, 5])
    born = found["BORN"]
    assert born[0] - born[1] == 50 * 365 + 12 + 1
    assert born[2] == born[1]
    assert np.isnan(born[4:]).all()
    np.testing.assert_array_equal(found["LEARN"], [0.25, -5, 5, NAN, 5, 1])


def test_codes_are_those_that_are_counted():
    source = open_source(pa.table({name: pa.array(own, pa.string()) for name, own in CELLS.items()}))
    alone, together = read_codes(source, SCHEMA), read_rows(source, SCHEMA)
    assert list(alone) == list(together.codes)
    for name, codes in alone.items():
        np.testing.assert_array_equal(codes, together.codes[name])


def test_a_row_has_its_number_alone():
    whole = read(CELLS).numbers
    for place in range(6):
        own = read({name: cells[place : place + 1] for name, cells in CELLS.items()}).numbers
        for name, numbers in own.items():
            np.testing.assert_array_equal(numbers, whole[name][place : place + 1])


def test_numbers_are_always_finite_and_in_range():
    odd = ["1e308", "-1e308", "inf", "-inf", "NaN", "0x10", "1e-320", "-0.0", ""]
    found = read({name: odd if name != "CITY" else ["a"] * len(odd) for name in CELLS}).numbers
    for name, (low, high) in {"AGE": (0, 99), "WAGE": (0, 1000), "RENT": (0, 100), "LEARN": (-5, 5)}.items():
        held = found[name][~np.isnan(found[name])]
        assert ((held >= low) & (held <= high)).all()


def test_typed_cells_are_read_as_text_is():
    text = read(CELLS).numbers["AGE"][[0, 1, 4, 5]]
    typed = pa.table(
        {
            "AGE": pa.array([20, 14, 95, 30]),
            **{
                name: pa.array([own[place] for place in (0, 1, 4, 5)])
                for name, own in CELLS.items()
                if name != "AGE"
            },
        }
    )
    np.testing.assert_array_equal(read_rows(open_source(typed), SCHEMA).numbers["AGE"], text)


def test_an_empty_table_has_no_numbers():
    found = read({name: [] for name in CELLS})
    assert all(numbers.shape == (0,) and numbers.dtype == np.float64 for numbers in found.numbers.values())


def test_rows_are_read_once_and_never_pickled():
    import pickle

    frame = pa.table({name: pa.array(own, pa.string()) for name, own in CELLS.items()})
    table = PrivateTable.of(frame, schema=SCHEMA)
    rows = table.survey_rows()
    assert table.survey_rows() is rows
    # Where it lies in memory may hold any digits.
    assert "20" not in repr(rows).partition(" at 0x")[0]
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(rows)
    with pytest.raises(TypeError, match="no numbers"):
        NumericValues("CITY", schema=SCHEMA)
