"""A small table of cells that libraries write, sort and compare in ways of their own, and its schema."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

import populace as pp

NAN, INF = float("nan"), float("inf")
HUGE = 2**64 + 1

SCHEMA = pp.Schema.parse("""
[table]
dataset = "awkward"

[columns.age]
kind = "integer"
min = 0
max = 99
missing = ["-1"]

[columns.income]
kind = "numeric"
edges = [-10, 0, 0.5, 80, 1000]
missing = ["R"]

[columns.floats]
kind = "categorical"
values = ["1", "2.5", "-0.1", "1e+300"]

[columns.texts]
kind = "categorical"
values = ["a", "b", "é", "A", ""]

[columns.bytes]
kind = "categorical"
values = ["café", "x"]

[columns.flag]
kind = "categorical"
values = ["true", "false"]

[columns.code]
kind = "categorical"
values = ["01", "1", "2"]

[columns.huge]
kind = "categorical"
values = ["18446744073709551617", "0", "-18446744073709551617"]

[columns.price]
kind = "categorical"
values = ["1.5", "2", "10000000000000000000000.5"]

[columns.born]
kind = "date"
min = "2000-01-01"
max = "2001-12-31"
width = "month"

[columns.seen]
kind = "datetime"
min = "2020-01-01 00:00:00"
max = "2020-01-02 23:59:59"
width = "hour"

[columns.day]
kind = "categorical"
values = ["2020-01-01", "2020-01-02"]

[columns.work]
kind = "categorical"
values = ["yes", "no"]
universe = "age >= 15"
outside = "N"
""")

_HUGE_TYPE, _PRICE_TYPE = pa.decimal128(38, 0), pa.decimal128(38, 4)
_COLUMNS: dict[str, tuple[pa.DataType, list[object]]] = {
    "age": (pa.int64(), [5, 40, None, 2**62, -(2**62), -1, 99, 100, 15, 14]),
    "income": (pa.float64(), [NAN, None, INF, -INF, 80.0, 79.99, -0.0, 0.5, 1e308, 999.0]),
    "floats": (pa.float64(), [1.0, 2.5, -0.1, 1e300, NAN, INF, None, -0.0, 1.0, 2.5]),
    "texts": (pa.string(), ["a", "", None, " b", "e\u0301", "é ", "A", "\u00a0a", "zz", "b\t"]),
    "bytes": (pa.binary(), [b"caf\xe9", b"caf\xc3\xa9", b"", None, b"\xff", b"x", b"x ", b"\x00", b"x", b"x"]),
    "flag": (pa.bool_(), [True, False, None, True, True, False, False, None, True, False]),
    "code": (pa.int32(), [1, 2, None, 0, 1, 1, 2, 2, 3, 1]),
    "huge": (_HUGE_TYPE, [Decimal(n) for n in (HUGE, 0, -HUGE, HUGE - 1, HUGE + 1, 1, 0, HUGE)] + [None, None]),
    "price": (_PRICE_TYPE, [Decimal(t) for t in ("1.5", "1.5000", "2", "2.0", "-1", "10000000000000000000000.5")]
              + [None, Decimal("1.5"), Decimal(2), Decimal("0.0001")]),
    "born": (pa.date32(), [date(2000, 1, 1), date(2001, 12, 31), None, date(1, 1, 1), date(9999, 12, 31),
                           date(2000, 2, 29), date(1999, 12, 31), date(2002, 1, 1), None, date(2001, 6, 1)]),
    "seen": (pa.timestamp("us"), [datetime(2020, 1, 1), datetime(2020, 1, 1, 23, 59, 59, 999999), None,
                                  datetime(1, 1, 1), datetime(9999, 12, 31), datetime(2020, 1, 2, 12),
                                  datetime(2019, 12, 31), datetime(2020, 1, 3), None, datetime(2020, 1, 1, 0, 0, 1)]),
    "day": (pa.date32(), [date(2020, 1, 1), date(2020, 1, 2), None, date(2020, 1, 3)] * 2 + [date(2020, 1, 1)] * 2),
    "work": (pa.string(), ["yes", "no", "N", None, "", "no", "yes", "N", "no", "yes"]),
}  # fmt: skip


def make_awkward_table(*, times: int = 30) -> pa.Table:
    """Return rows in which every cell meets others: each column is turned by a number of rows of its own."""
    arrays = {}
    for turn, (name, (kind, cells)) in enumerate(_COLUMNS.items()):
        held = [cells[(row * (1 + turn % 3) + turn * (row // 10)) % 10] for row in range(10 * times)]
        arrays[name] = pa.array(held, kind)
    return pa.table(arrays)


UNIT_SCHEMA = pp.Schema.parse("""
[table]
dataset = "visits"
id = "person"
rows_per_unit = 2

[columns.place]
kind = "categorical"
values = ["home", "shop", "work"]

[columns.length]
kind = "integer"
min = 0
max = 120
""")


def make_visits() -> pa.Table:
    """Return rows of units, many of them with more rows than they may keep, some without an id."""
    people = [None if row % 11 == 0 else f"p{row * row % 17}" for row in range(400)]
    places = ["work", "home", "shop", "home", "yard"]
    return pa.table(
        {
            "place": [places[row * 7 % 5] for row in range(400)],
            "length": pa.array([row * 31 % 121 for row in range(400)], pa.int32()),
            "person": pa.array(people, pa.string()),
        }
    )


def sort_visits(visits: pa.Table) -> pa.Table:
    """Return rows of units in the order in which databases are to keep them; those of nobody come last."""
    return visits.sort_by([(name, "ascending") for name in ("person", "place", "length")])


LEARNT_SCHEMA = pp.Schema.parse("""
[table]
dataset = "towns"

[columns.town]
kind = "categorical"
values = "learn"

[columns.rent]
kind = "numeric"
min = 0
max = 2000
bins = "learn"
""")


def make_towns() -> pa.Table:
    """Return rows of a few towns that all occur often, one that occurs once, and cells that name none."""
    towns = ["Ålesund", "Bo", " Bo", "e\u0301vora", "", None] * 400
    return pa.table(
        {"town": [*towns, "alone"], "rent": pa.array([*(float(n % 1999) for n in range(2400)), NAN])}
    )
