"""Columns of every Arrow type with cells that may break a reader, and columns of every kind to read them as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from populace.schema.schema import Schema

# One column of each kind, plain and with special codes: the same cells are read as each of them.
COLUMNS = """
[columns.listed]
kind = "categorical"
values = ["a", "3", "2001-05-01", "true"]

[columns.binned]
kind = "integer"
edges = [0, 3, 20]
missing = ["-9", "R"]
beyond = "other"

[columns.parted]
kind = "integer"
min = 0
max = 99
split = 10

[columns.measured]
kind = "numeric"
edges = [0, 2.5, 10]
missing = ["R"]

[columns.day]
kind = "date"
min = "2001-01-01"
max = "2002-12-31"

[columns.instant]
kind = "datetime"
min = "2001-01-01 00:00:00"
max = "2002-12-31 23:59:59"
width = "day"

[columns.clock]
kind = "time"
min = "00:00:00"
max = "23:59:59"
width = "hour"
"""
# Further ways of writing cells down, and of tying columns together, for cells that are texts.
MORE = """
[columns.listed_missing]
kind = "categorical"
values = ["a", "3"]
missing = ["", "-9", "1e400"]

[columns.ordered]
kind = "ordinal"
values = ["1", "2", "3"]

[columns.whole]
kind = "integer"
min = 0
max = 9

[columns.written]
kind = "date"
min = "2001-01-01"
max = "2002-12-31"
width = "month"
format = "%d.%m.%y"
missing = ["R", ""]

[columns.named_month]
kind = "date"
min = "2001-01-01"
max = "2002-12-31"
format = "%d %B %Y"

[columns.half_day]
kind = "time"
min = "00:00:00"
max = "23:59:59"
width = "hour"
format = "%I:%M %p"

[columns.follows]
kind = "categorical"
values = ["x", "y"]
universe = "whole >= 3"
outside = "N"

[columns.bins_open]
kind = "numeric"
min = 0
max = 9
bins = "learn"
"""
OPEN = """
[columns.values_open]
kind = "categorical"
values = "learn"
missing = ["-9"]

[columns.days_open]
kind = "date"
min = "2001-01-01"
max = "2002-12-31"
bins = "learn"
"""
TYPED = Schema.parse(COLUMNS + OPEN)
WRITTEN = Schema.parse(COLUMNS + OPEN + MORE)
BY_ID = Schema.parse('[table]\nunit = "person"\nrows_per_unit = 1\nid = "person"\n' + COLUMNS + OPEN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """Cells of one type: some as they should be, and some that nobody should meet."""

    valid: Sequence[Any]
    hostile: Sequence[Any]
    make: Callable[[Sequence[Any]], pa.Array]

    def within(self, make: Callable[[Sequence[Any]], pa.Array]) -> Shape:
        """Return the same cells inside another type."""
        return Shape(valid=self.valid, hostile=self.hostile, make=make)


class Wrapped(pa.ExtensionType):
    """A type of somebody else's, stored as another one."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.wrapped")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Wrapped:
        return cls(storage_type)


TEXT = [
    b"a",
    b"3",
    b"2001-05-01",
    b"01.05.01",
    b"1 May 2001",
    b"2001-05-01T12:30:00",
    b"12:30",
    b"true",
    None,
]
NO_TEXT = [
    b"\xff",
    b"\xed\xa0\x80",
    b"3\xc3",
    b"2001-05-01\xff",
    b"\x00",
    b"3\x00",
    b"",
    b" ",
    b"\xc2\xa0",
    b"1e400",
    b"-" + b"9" * 400,
    b"nan",
    b"2001-02-30",
    b"0000-00-00",
    b"9999-99-99T99:99:99",
    b"2001-05-01T24:61:61.999999999999",
    b"25:00 pm",
    "٣".encode(),
    "12 May ٢٠٠١".encode(),
    "e\u0301".encode() * 50,
    b"x" * 3000,
]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INT64 = [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1]
MAY = 988675200  # 2001-05-01 in seconds


def unchecked(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """Return what makes texts of bytes that nobody has looked at."""
    raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}

    def make(cells: Sequence[Any]) -> pa.Array:
        held = pa.array(cells, raw[kind])
        return pa.Array.from_buffers(kind, len(held), held.buffers())

    return make


def plain(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda cells: pa.array(cells, kind)


def counted(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """Return what makes cells of a type from the whole numbers that they are stored as, possible ones or not."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()

    def make(cells: Sequence[Any]) -> pa.Array:
        held = pa.array(cells, width)
        return pa.Array.from_buffers(kind, len(held), held.buffers())

    return make


def coded(make: Callable[[Sequence[Any]], pa.Array], *, index: pa.DataType) -> Callable[..., pa.Array]:
    """Return what makes a dictionary of cells, empty ones among them too."""

    def dictionary(cells: Sequence[Any]) -> pa.Array:
        places = pa.array([*range(len(cells))], index)
        return pa.DictionaryArray.from_arrays(places, make(cells), safe=False)

    return dictionary


def runs(make: Callable[[Sequence[Any]], pa.Array]) -> Callable[[Sequence[Any]], pa.Array]:
    def encoded(cells: Sequence[Any]) -> pa.Array:
        ends, values = pa.array(range(1, len(cells) + 1), pa.int32()), make(cells)
        kind = pa.run_end_encoded(ends.type, values.type)
        return pa.Array.from_buffers(kind, len(cells), [None], children=[ends, values])

    return encoded


def wrapped(make: Callable[[Sequence[Any]], pa.Array]) -> Callable[[Sequence[Any]], pa.Array]:
    def held(cells: Sequence[Any]) -> pa.Array:
        storage = make(cells)
        return pa.ExtensionArray.from_storage(Wrapped(storage.type), storage)

    return held


def flat() -> Iterator[tuple[str, Shape]]:
    """Return cells of each type that is neither nested nor made of another one."""
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield str(kind), Shape(valid=TEXT, hostile=NO_TEXT, make=unchecked(kind))
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield str(kind), Shape(valid=TEXT, hostile=NO_TEXT, make=plain(kind))
    yield (
        "fixed binary",
        Shape(valid=[b"3  ", b"a  ", None], hostile=[b"\xff\x00\xfe", bytes(3)], make=plain(pa.binary(3))),
    )
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        ends = [2 ** (kind.bit_width - 1) - 1, -(2 ** (kind.bit_width - 1)), -9]
        yield str(kind), Shape(valid=[0, 3, None], hostile=ends, make=plain(kind))
    for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        yield str(kind), Shape(valid=[0, 3, None], hostile=[2**kind.bit_width - 1], make=plain(kind))
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        wide = [float("nan"), float("inf"), float("-inf"), -0.0, 6e4, 6e-8, 2.5]
        yield (
            str(kind),
            Shape(
                valid=[0.0, 3.0, None],
                hostile=[np.float16(each) for each in wide] if kind == pa.float16() else [*wide, 3e38, 1e-45],
                make=plain(kind),
            ),
        )
    for make, digits in ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)):
        for scale in (2, -3) if make is pa.decimal128 else (2,):
            kind = make(digits, scale)
            far = [Decimal(f"{sign}{'9' * (digits - 3)}e{-scale}") for sign in "+-"]
            valid = [Decimal(0), Decimal(3000) if scale < 0 else Decimal("3.00"), None]
            yield str(kind), Shape(valid=valid, hostile=far, make=plain(kind))
    yield "bool", Shape(valid=[True, None], hostile=[False], make=plain(pa.bool_()))
    yield "null", Shape(valid=[None], hostile=[None], make=plain(pa.null()))
    for unit, per in UNITS.items():
        for zone in (None, "UTC", "Europe/Paris", "+05:30", "No/Such"):
            kind = pa.timestamp(unit, zone)
            yield str(kind), Shape(valid=[MAY * per, None], hostile=INT64, make=counted(kind))
        kind = pa.duration(unit)
        yield str(kind), Shape(valid=[3, None], hostile=INT64, make=counted(kind))
    for unit, per in UNITS.items():
        kind = pa.time32(unit) if per < 10**6 else pa.time64(unit)
        far = INT64 if per >= 10**6 else [0, -1, 2**31 - 1, -(2**31)]
        yield str(kind), Shape(valid=[45_000 * per, None], hostile=[*far, 86_400 * per], make=counted(kind))
    days = [0, -1, 2**31 - 1, -(2**31)]
    yield "date32", Shape(valid=[11_443, None], hostile=days, make=counted(pa.date32()))
    yield (
        "date64",
        Shape(valid=[11_443 * 86_400_000, None], hostile=[*INT64, 86_399_999], make=counted(pa.date64())),
    )
    yield (
        "interval",
        Shape(
            valid=[pa.MonthDayNano([1, 2, 3]), None],
            hostile=[pa.MonthDayNano([2**31 - 1, -(2**31), 2**63 - 1])],
            make=plain(pa.month_day_nano_interval()),
        ),
    )


def made_of_others() -> Iterator[tuple[str, Shape]]:
    """Return dictionaries, runs and types of somebody else's, of cells of other types."""
    whole = dict(flat())
    for name, shape in whole.items():
        if name == "null":
            continue
        yield f"dictionary of {name}", shape.within(coded(shape.make, index=pa.int8()))
        yield f"runs of {name}", shape.within(runs(shape.make))
    for name in ("string", "large_string", "string_view", "binary_view", "int64", "timestamp[us]", "date32"):
        shape = whole[name]
        inner, theirs = coded(shape.make, index=pa.uint16()), wrapped(shape.make)
        yield f"wrapped {name}", shape.within(theirs)
        yield f"wrapped dictionary of {name}", shape.within(wrapped(inner))
        yield f"runs of a dictionary of {name}", shape.within(runs(inner))
        yield f"dictionary of a dictionary of {name}", shape.within(coded(inner, index=pa.int16()))
        yield f"dictionary of wrapped {name}", shape.within(coded(theirs, index=pa.int64()))
        yield f"runs of wrapped {name}", shape.within(runs(theirs))
    yield "uuid", Shape(valid=[bytes(16), None], hostile=[b"\xff" * 16], make=stored(pa.uuid()))
    yield "bool8", Shape(valid=[1, 0, None], hostile=[-128, 7], make=stored(pa.bool8()))
    text = unchecked(pa.string())
    yield "json", Shape(valid=TEXT, hostile=NO_TEXT, make=lambda cells: _json(text(cells)))


def stored(kind: Any) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda cells: pa.ExtensionArray.from_storage(kind, pa.array(cells, kind.storage_type))


def _json(storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(pa.string()), storage)


NESTED: dict[str, pa.Array] = {
    "list": pa.array([[1], None, []]),
    "large list": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "list view": pa.array([[1], None, []], pa.list_view(pa.int64())),
    "fixed list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
    "struct": pa.array([{"a": 1}, None, {"a": 2}]),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3])] * 2),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 0, 0], pa.int8()), pa.array([0, 1, 2], pa.int32()), [pa.array([1, 2, 3])]
    ),
    "dictionary of lists": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([[1], [2]])),
    "runs of structs": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3], pa.int32()), pa.array([{"a": 1}, None])
    ),
    "wrapped list": pa.ExtensionArray.from_storage(Wrapped(pa.list_(pa.int64())), pa.array([[1], None, []])),
    "tensors": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int64(), [2]), pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2))
    ),
}
FLAT = dict(flat())
SHAPES = FLAT | dict(made_of_others())
# Every type is tried in the fast tests, and a dictionary or runs of those that are read in ways of their own.
_OWN_WAYS = (
    *("string", "large_string", "string_view", "binary_view", "int64", "halffloat", "decimal128(38, 2)"),
    *("timestamp[us]", "time64[ns]", "date64", "bool", "interval"),
)
_ZONED = [name for name in FLAT if "tz=" in name]
SELDOM = {
    *(f"{made} of {name}" for name in FLAT if name not in _OWN_WAYS for made in ("dictionary", "runs")),
    *(f"runs of {name}" for name in ("string", "large_string", "interval", "date64", "bool")),
    *(name for place, name in enumerate(_ZONED) if place % 5),
    *(name for name in SHAPES if "wrapped" in name and not name.endswith(("string_view", "date32"))),
    *(
        name
        for name in SHAPES
        if "of a dictionary of" in name and not name.endswith(("string_view", "date32"))
    ),
}
