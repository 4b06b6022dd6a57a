"""Dates, moments and times of the day: what cells mean, where bins begin, and what comes out."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import SchemaError
from populace.release.table_files import read_table, write_table
from populace.release.verify.verify_rows import find_column_outside
from populace.schema.codec.decoder import arrow_type, code_labels, decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.columns.column import Column
from populace.schema.columns.date_columns import DateColumn, DateTimeColumn
from populace.schema.columns.range_columns import OutOfRange
from populace.schema.schema import Schema


def column(text: str) -> Column:
    return Schema.parse("[columns.x]\n" + text).columns["x"]


BORN = column(
    'kind = "date"\nmin = 2019-11-20\nmax = "2020-03-31"\nwidth = "month"\nmissing = ["1900-01-01"]'
)


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("2019-11-20", 0),
        ("2019-12-01", 1),
        ("2020-02-29", 3),
        (" 2020-02-29 ", 3),
        ("2020-02-29T23:59:59.999", 3),
        ("2020-02-29 12:00Z", 3),
        ("2020-02-29 12:00:00+02:00", 3),
        ("1900-01-01", 5),
        ("2018-01-01", 0),
        ("9999-12-31", 4),
        ("2019-02-29", 6),
        ("2020-2-9", 6),
        ("0000-01-01", 6),
        ("20200229", 6),
        ("2020-02-29 24:00", 6),
        ("٢٠٢٠-02-29", 6),
        ("1e40", 6),
        ("", 6),
        ("nan", 6),
    ],
)
def test_days_as_texts(cell: str, code: int) -> None:
    assert encode_values(BORN, pa.array([cell])).tolist() == [code]
    assert encode_values(BORN, pa.array([cell.encode()])).tolist() == [code]


def test_days_with_a_type_mean_the_same() -> None:
    days = [datetime.date(2019, 11, 30), datetime.date(2020, 2, 29), datetime.date(1900, 1, 1), None]
    expected = [0, 3, 5, 6]
    assert encode_values(BORN, pa.array(days)).tolist() == expected
    assert encode_values(BORN, pa.array(days, pa.date64())).tolist() == expected
    for unit in ("s", "ms", "us"):
        assert encode_values(BORN, pa.array(days).cast(pa.timestamp(unit))).tolist() == expected
    assert encode_values(BORN, pa.array(days).dictionary_encode()).tolist() == expected
    # No year of four digits: no date, as in a text.
    assert encode_values(BORN, pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())).tolist() == [
        6,
        6,
    ]
    assert encode_values(BORN, pa.array([20200229, 0.5])).tolist() == [6, 6]


def test_labels_say_months_and_years() -> None:
    assert code_labels(BORN) == (
        *("2019-11-20 – 2019-11-30", "2019-12", "2020-01", "2020-02", "2020-03", "1900-01-01", "(empty)"),
    )
    years = column('kind = "date"\nmin = "2019-01-01"\nmax = "2020-06-30"\nwidth = "year"\nother = "?"')
    assert code_labels(years) == ("2019", "2020-01-01 – 2020-06-30", "?")


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        (
            'kind = "date"\nmin = "2020-01-31"\nmax = "2020-02-01"',
            "date32[day]",
            [datetime.date(2020, 1, 31), None],
        ),
        (
            'kind = "date"\nmin = "2020-01-31"\nmax = "2020-01-31"\nformat = "%B %d, %Y"\nother = "N"',
            "string",
            ["January 31, 2020", "N"],
        ),
        (
            'kind = "datetime"\nedges = ["2020-01-31T12:30:00", "2020-01-31T12:30:00"]\nother = "1999-01-01"',
            "timestamp[s]",
            [datetime.datetime(2020, 1, 31, 12, 30), datetime.datetime(1999, 1, 1)],
        ),
        (
            'kind = "time"\nedges = ["00:05:00", "00:05:59"]\nformat = "%I:%M %p"\nother = "N"',
            "string",
            ["12:05 AM", "N"],
        ),
        (
            'kind = "time"\nedges = [12:30:00, 12:30:00]\nother = "00:00"',
            "time32[s]",
            [datetime.time(12, 30), datetime.time(0)],
        ),
    ],
)
def test_values_come_out_in_their_type_or_format(text: str, kind: str, values: list[object]) -> None:
    found = column(text)
    assert str(arrow_type(found)) == kind
    rng = np.random.default_rng(1)
    assert decode_codes(found, np.array([0, found.other_code]), rng=rng).to_pylist() == values


def test_draws_fill_their_bin() -> None:
    """In 4000 draws from February every day turns up; a day is missed once in 10^50 seeds (seed 1)."""
    drawn = decode_codes(BORN, np.full(4000, 3), rng=np.random.default_rng(1)).to_pylist()
    assert set(drawn) == {datetime.date(2020, 2, day) for day in range(1, 30)}


def test_formats_are_read_beside_iso() -> None:
    found = DateColumn(name="x", min=18262, max=18627, format="%d%b%y", beyond=OutOfRange.OTHER)
    cells = ["1jan20", "31DEC20", "2020-01-02", "01janvier20", "30feb20"]
    assert encode_values(found, pa.array(cells)).tolist() == [0, 365, 1, 366, 366]
    compact = DateColumn(name="x", min=18262, max=18627, format="%m%d%Y")
    # Numbers lose their leading nought.
    assert encode_values(compact, pa.array([1022020, 12312020])).tolist() == [1, 365]
    noon = DateTimeColumn(name="x", min=0, max=86399, starts=(0, 43200), format="%D %I%p")
    assert encode_values(noon, pa.array(["01/01/70 12AM", "1/1/70 12pm", "1/1/70 13pm"])).tolist() == [
        0,
        1,
        2,
    ]


def test_a_day_at_the_end_of_moments_is_the_whole_day() -> None:
    found = column('kind = "datetime"\nmin = "2020-01-01"\nmax = "2020-01-31"\nwidth = "day"')
    assert (found.levels, found.level("2020-01-31 23:59:59")) == (31, 30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "date"\nmin = "2020-01-01"', "from where to where"),
        ('kind = "date"\nmin = "1.1.2020"\nmax = "2020-12-31"', "'1.1.2020' is not a date"),
        ('kind = "date"\nmin = "2020-02-30"\nmax = "2020-12-31"', "'2020-02-30' is not a date"),
        ('kind = "date"\nmin = "2020-12-31"\nmax = "2020-01-01"', "above max"),
        ('kind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\nwidth = "fortnight"', "width 'fortnight'"),
        ('kind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\nwidth = "0 days"', "width '0 days'"),
        ('kind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\nwidth = "hour"', "width 'hour'"),
        ('kind = "date"\nedges = ["2020-01-01", "2020-01-01", "2020-12-31"]', "do not increase"),
        ('kind = "date"\nedges = ["2020-01-01"]', "fewer than two"),
        ('kind = "datetime"\nmin = "2020-01-01"\nmax = "2020-12-31"', "no bins"),
        ('kind = "time"\nmin = "00:00"\nmax = "24:00"\nwidth = "hour"', "'24:00' is not a time"),
        ('kind = "time"\nmin = "00:00"\nmax = "23:00"\nwidth = "day"', "width 'day'"),
        ('kind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\nmissing = ["2020-05-05"]', "also a value"),
        ('kind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\nbins = "few"', "bins can only be 'learn'"),
    ],
)
def test_nonsense_about_dates_is_refused(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        column(text)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("%x", "not understood"),
        ("%Y-%d-%m", "in another way than ISO"),
        ("%Y %m", "do not distinguish its bins"),
        ("%d.%m.%Y %H", "says more"),
        ("%d %Y", "leaves a gap"),
        ("DD.MM.YYYY", "has no % codes"),
        ("%m %d", "leaves a gap"),
        ("%Y %Y %m %d", "twice"),
        ("%Y %m %d %I", "half of the day"),
        ("%d.%m.%y", "do not distinguish its bins"),
    ],
)
def test_formats_that_lose_something_are_refused(form: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        column(f'kind = "date"\nmin = "1950-01-01"\nmax = "2020-12-31"\nformat = "{form}"')
    assert message in caught.value.message


@pytest.mark.parametrize("name", ["synthetic.csv", "synthetic.parquet"])
def test_released_moments_come_back_from_their_file(tmp_path: Path, name: str) -> None:
    schema = Schema.parse(
        '[columns.d]\nkind = "date"\nmin = 1900-01-01\nmax = 2020-12-31\nwidth = "year"\n'
        '[columns.m]\nkind = "datetime"\nmin = 1900-01-01\nmax = 2020-12-31\nwidth = "week"\n'
        '[columns.t]\nkind = "time"\nmin = 00:00:00\nmax = 23:59:59\nwidth = "hour"\n'
    )
    rng = np.random.default_rng(1)
    codes = {key: rng.integers(0, each.size, 200) for key, each in schema.columns.items()}
    table = pa.table({key: decode_codes(each, codes[key], rng=rng) for key, each in schema.columns.items()})
    write_table(table, tmp_path / name)
    again = read_table(tmp_path / name, schema=schema)
    assert again.equals(table)
    assert find_column_outside(again, schema=schema) is None
    late = pa.table(
        {**dict(zip(table.column_names, table.columns, strict=True)), "d": [datetime.date(2021, 1, 1)] * 200}
    )
    assert find_column_outside(late, schema=schema) == "d"


def test_dates_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text('[columns.BORN]\nkind = "date"\nmin = 1970-01-01\nmax = 1970-01-31\nwidth = "week"\n')
    schema = Schema.load(path)
    assert dict(schema.domain) == {"BORN": 6}
    assert Schema.parse(schema.to_toml()) == schema


def test_the_last_day_of_the_calendar_has_a_label() -> None:
    weeks = DateColumn(name="x", min=2932890, max=2932896, starts=(2932890, 2932893))
    assert code_labels(weeks) == ("9999-12-25 – 9999-12-27", "9999-12-28 – 9999-12-31", "(empty)")
