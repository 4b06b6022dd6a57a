"""Generated columns of every kind and with every feature, and cells that try them."""

from __future__ import annotations

import datetime
from fractions import Fraction

from hypothesis import reject
from hypothesis import strategies as st

from populace.core.errors import SchemaError
from populace.schema.columns.column import CategoricalColumn, Column, OrdinalColumn, Origin
from populace.schema.columns.date_columns import (
    UNIT_MONTHS,
    UNIT_SECONDS,
    DateColumn,
    DateTimeColumn,
    TemporalColumn,
    TimeColumn,
    compute_temporal_starts,
)
from populace.schema.columns.datetime_format import DAY_SECONDS
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import OutOfRange
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues
from populace.schema.columns.value_types import ValueType

ODD_TEXTS = ["", " ", "a", "A", " a", "a ", "é", "e\u0301", "\u00a0", "\u200b", "0", "00", "1", "1.0", "-0.0"]
ODD_TEXTS += [
    "nan",
    "NaN",
    "inf",
    "-inf",
    "None",
    "null",
    "true",
    "True",
    "False",
    "\0",
    '"',
    "'",
    ",",
    "a\nb",
]
ODD_TEXTS += [
    "+1",
    "1e40",
    "1e308",
    "1e400",
    "\r",
    "\x7f",
    "🙂",
    "ﬁ",
    "ß",
    "İ",
    "٣",
    "۝",
    "\U0010ffff",
    "\ufeff",
]
ODD_TEXTS += ["#", "[x]", "a.b", "a|b", "\\", "\\u0041", str(10**40), "-" + str(10**40)]
ODD_DATES = ["2020-02-29", "2019-02-29", "1970-01-01", "0000-01-01", "9999-12-31", "2020-01-31T12:30:00.5Z"]
ODD_DATES += [
    "2020-01-31 23:59:60",
    "12:30",
    "24:00:00",
    "31.01.2020",
    "1/2/2020",
    "20200131",
    "Jan 20",
    " 2020-01-31 ",
]
ODD_CELLS = [None, float("nan"), float("inf"), float("-inf"), -0.0, 0.5, 1e40, 1e308, -1e308, 5e-324, 10**40]
ODD_CELLS += [-(10**40), 2**63, 2**64, 2**53 + 1, -1, 0, 1, 17, True, False, b"a", b"\xff\xe9"]
ODD_CELLS += [datetime.date(2020, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
ODD_CELLS += [datetime.datetime(2020, 1, 31, 12, 30), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
ODD_CELLS += [datetime.datetime(2020, 1, 31, 12, 30, tzinfo=datetime.UTC), datetime.time(12, 30, 0, 1)]
ODD_CELLS += [datetime.timedelta(1), *ODD_TEXTS, *ODD_DATES]

texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=8) | st.sampled_from(ODD_DATES)
moments = st.dates() | st.datetimes() | st.times()
cells = st.sampled_from(ODD_CELLS) | texts | st.integers() | st.floats() | moments
fractions = st.integers(-10_000, 10_000) | st.decimals(-1e6, 1e6, places=3) | st.floats(-1e300, 1e300)

MOMENTS = ["date", "datetime", "time"]
KINDS = [
    "values",
    "integer",
    "integer bins",
    "split",
    "numeric",
    "decimals",
    "date",
    "datetime",
    "time",
    "unknown",
]
FORMATS: dict[type[TemporalColumn], list[str]] = {
    DateColumn: ["%d.%m.%Y", "%Y%m%d", "%B %d, %Y", "%d%b%Y", "%m/%d/%y", "%Y", "%b %Y", "%%%F|"],
    DateTimeColumn: ["%d.%m.%Y %H:%M", "%Y%m%d%H%M%S", "%D %I%p", "%F %T"],
    TimeColumn: ["%H", "%I:%M %p", "%H%M%S"],
}


@st.composite
def shared(draw: st.DrawFn, inside: list[str]) -> dict[str, object]:
    """What columns of all kinds have: special codes, labels, an origin, and relations to other columns."""
    missing = draw(st.lists(texts, max_size=3, unique=True))
    other = draw(st.none() | texts | st.sampled_from([*inside, *missing, None]))
    keys = [*inside[:3], *missing]
    labels = draw(st.dictionaries(st.sampled_from(keys), texts, max_size=3)) if keys else {}
    given = {
        "missing": tuple(missing),
        "other": other,
        "labels": labels,
        "origin": draw(st.sampled_from([Origin.CODEBOOK, Origin.DECLARED])),
        "type": draw(st.sampled_from([*[None] * 6, ValueType.TEXT, ValueType.INT16, ValueType.FLOAT64])),
    }
    relation = draw(st.sampled_from(["none", "none", "universe", "function", "parent"]))
    if relation == "universe":
        outside = draw(texts.filter(lambda text: text not in {*missing, *inside, other or ""}))
        given |= {"universe": draw(texts), "outside": outside}
    if relation == "function" and keys:
        sources = draw(st.lists(texts.filter(bool), min_size=1, max_size=2, unique=True))
        parts = st.tuples(*[texts for _ in sources])
        mapped = st.dictionaries(parts, st.sampled_from(keys), min_size=1, max_size=3)
        given |= {"function_of": tuple(sources), "map": draw(mapped)}
    if relation == "parent":
        mapped = draw(st.dictionaries(st.sampled_from(keys), texts, max_size=2)) if keys else {}
        given |= {"parent": draw(texts), "map": {(key,): value for key, value in mapped.items()}}
    return given


@st.composite
def columns(draw: st.DrawFn, name: str = "x", kinds: list[str] = KINDS) -> Column:
    """Any column that the schema accepts; what it refuses is drawn again."""
    kind = draw(st.sampled_from(kinds))
    try:
        if kind == "values":
            values = tuple(draw(st.lists(texts, min_size=1, max_size=6, unique=True)))
            listed = draw(st.sampled_from([CategoricalColumn, OrdinalColumn]))
            return listed(name=name, values=values, **draw(shared(list(values))))
        if kind in ("numeric", "decimals"):
            return draw(numerics(name, short=kind == "decimals"))
        if kind in ("date", "datetime", "time"):
            return draw(
                dated(name, {"date": DateColumn, "datetime": DateTimeColumn, "time": TimeColumn}[kind])
            )
        return draw(unknowns(name)) if kind == "unknown" else draw(integers(name, kind))
    except SchemaError:
        reject()


@st.composite
def integers(draw: st.DrawFn, name: str, kind: str) -> IntegerColumn:
    low = draw(st.integers(-(2**53) + 1, 2**53 - 10**6) | st.integers(-20, 20))
    high = low + draw(st.integers(0, 300))
    starts: tuple[int, ...] | range = ()
    if kind == "integer bins":
        inner = draw(st.sets(st.integers(low + 1, max(high, low + 1)), max_size=4))
        width = draw(st.integers(1, 50))
        starts = draw(st.sampled_from([(low, *sorted(inner)), range(low, high + 1, width)]))
    return IntegerColumn(
        name=name,
        min=low,
        max=high,
        starts=starts,
        beyond=draw(st.sampled_from(OutOfRange)),
        bottom=draw(st.none() | st.integers(low - 1, low + 3)),
        top=draw(st.none() | st.integers(high - 20, high + 1)),
        decimals=draw(st.none() | st.integers(0, 3)),
        split=draw(st.integers(2, 50)) if kind == "split" else None,
        **draw(shared([str(low + 5)])),
    )


@st.composite
def numerics(draw: st.DrawFn, name: str, *, short: bool) -> DecimalColumn:
    tenths = st.integers(-1000, 1000).map(lambda number: Fraction(number, 10))
    edges = sorted(draw(st.lists(tenths if short else fractions, min_size=2, max_size=6, unique_by=float)))
    return DecimalColumn(
        name=name,
        edges=tuple(edges),
        beyond=draw(st.sampled_from(OutOfRange)),
        bottom=draw(st.sampled_from([None, edges[0]])),
        top=draw(st.sampled_from([None, edges[-1]])),
        decimals=draw(st.integers(1, 4)) if short else None,
        **draw(shared([str(edges[0])])),
    )


@st.composite
def dated(draw: st.DrawFn, name: str, kind: type[TemporalColumn]) -> TemporalColumn:
    low, high = kind.limits
    near = [0, 18_000 * DAY_SECONDS // kind.unit] if kind is not TimeColumn else [0]
    first = draw(st.integers(low, high) | st.sampled_from([low, *near]))
    last = min(first + draw(st.integers(0, 3000 * (60 if kind is DateTimeColumn else 1))), high)
    form = draw(st.none() | st.sampled_from(FORMATS[kind]))
    width = f"{draw(st.integers(1, 40))} {draw(st.sampled_from([*UNIT_SECONDS, *UNIT_MONTHS]))}s"
    try:
        starts = compute_temporal_starts(kind, name, first=first, last=last, width=width)
    except SchemaError:
        starts = (first, *sorted(draw(st.sets(st.integers(first + 1, max(last, first + 1)), max_size=4))))
    inside = kind(name=name, min=first, max=last, starts=starts)
    if draw(st.booleans()) and form is not None:
        # Begin and end where the format can tell.
        starts = (first,)
    return kind(
        name=name,
        min=first,
        max=last,
        starts=starts if len(starts) < 3000 else (first,),
        format=form,
        beyond=draw(st.sampled_from(OutOfRange)),
        **draw(shared([inside.iso_text(first)])),
    )


@st.composite
def unknowns(draw: st.DrawFn, name: str) -> Column:
    """Columns to be learnt, and what they become."""
    given = draw(shared([])) | {"origin": Origin.DECLARED}
    if draw(st.booleans()):
        values = UnknownValues(name=name, **given)
        return values.with_domain(draw(st.lists(texts, max_size=4))) if draw(st.booleans()) else values
    low = draw(st.integers(-100, 100))
    bins = UnknownBins(
        name=name,
        min=Fraction(low),
        max=Fraction(low + draw(st.integers(0, 50))),
        of=draw(st.sampled_from([DecimalColumn, IntegerColumn])),
        decimals=draw(st.none() | st.integers(0, 3)),
        beyond=draw(st.sampled_from(OutOfRange)),
        **given,
    )
    edges = st.fractions(low - 5, low + 60, max_denominator=30)
    return bins.with_domain(draw(st.lists(edges, max_size=4))) if draw(st.booleans()) else bins
