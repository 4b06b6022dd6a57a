"""For generated columns and cells: codes come back from their values, and nothing falls out of the codes."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from populace.errors import SchemaError
from populace.private.read import open_source, read_codes
from populace.schema.codec import arrow_type, decode, encode, labels
from populace.schema.columns import Categorical, Column, Ordinal, Origin
from populace.schema.ranges import Beyond, Integer, Numeric
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, Unit

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
ODD_TEXTS += ["+1", "1e308", "\r", "\x7f"]
ODD_TEXTS += [
    "🙂",
    "ﬁ",
    "ß",
    "İ",
    "٣",
    "۝",
    "\U0010ffff",
    "\ufeff",
    "#",
    "[x]",
    "a.b",
    "\\",
    "\\u0041",
    str(10**40),
]
ODD_CELLS = [
    None,
    float("nan"),
    float("inf"),
    float("-inf"),
    -0.0,
    0.5,
    1e308,
    -1e308,
    5e-324,
    10**40,
    -(10**40),
]
ODD_CELLS += [2**63, 2**64, 2**53 + 1, -1, 0, 1, 17, True, False, b"a", b"\xff\xe9", *ODD_TEXTS]

texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=8)
cells = st.sampled_from(ODD_CELLS) | texts | st.integers() | st.floats()
fractions = st.integers(-10_000, 10_000) | st.decimals(-1e6, 1e6, places=3) | st.floats(-1e300, 1e300)


@st.composite
def shared(draw: st.DrawFn, inside: list[str]) -> dict[str, object]:
    missing = draw(st.lists(texts, max_size=3, unique=True))
    other = draw(st.none() | texts | st.sampled_from([*inside, *missing, None]))
    keys = [*inside[:3], *missing]
    labels = draw(st.dictionaries(st.sampled_from(keys), texts, max_size=3)) if keys else {}
    return {
        "missing": tuple(missing),
        "other": other,
        "labels": labels,
        "origin": draw(st.sampled_from([Origin.CODEBOOK, Origin.DECLARED])),
    }


@st.composite
def columns(draw: st.DrawFn, name: str = "x") -> Column:
    """Any column that the schema accepts; what it refuses is drawn again."""
    kind = draw(st.sampled_from(["categorical", "ordinal", "integer", "integer bins", "numeric", "numeric"]))
    beyond = draw(st.sampled_from(Beyond))
    try:
        if kind in ("categorical", "ordinal"):
            values = tuple(draw(st.lists(texts, min_size=1, max_size=6, unique=True)))
            listed = Categorical if kind == "categorical" else Ordinal
            return listed(name=name, values=values, **draw(shared(list(values))))
        if kind == "numeric":
            edges = sorted(draw(st.lists(fractions, min_size=2, max_size=6, unique_by=float)))
            return Numeric(name=name, edges=tuple(edges), beyond=beyond, **draw(shared([str(edges[0])])))
        low = draw(st.integers(-(2**53) + 1, 2**53 - 10**6) | st.integers(-20, 20))
        high = low + draw(st.integers(0, 300))
        starts: tuple[int, ...] = ()
        if kind == "integer bins":
            inner = draw(st.sets(st.integers(low + 1, max(high, low + 1)), max_size=4))
            starts = (low, *sorted(inner))
        return Integer(name=name, min=low, max=high, starts=starts, beyond=beyond, **draw(shared([str(low)])))
    except SchemaError:
        reject()


# No deadline: the machine may be busy with other tests.
few = settings(max_examples=60, deadline=None)


def objects(values: list[object]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


@few
@given(columns(), st.integers(0, 2**32))
def test_codes_come_back_from_their_values(column: Column, seed: int) -> None:
    """encode ∘ decode is the identity on codes, so decode ∘ encode is one on everything decoded."""
    codes = np.arange(column.size)
    for _ in range(3):
        values = decode(column, codes, rng=np.random.default_rng(seed))
        assert values.type == arrow_type(column)
        assert encode(column, values).tolist() == codes.tolist()
        # The same through text, as in a CSV file, where an empty cell is an empty text.
        written = values.cast(pa.string()).fill_null("")
        assert encode(column, written).tolist() == codes.tolist()


@few
@given(columns(), st.data())
def test_declared_values_come_back_as_declared(column: Column, data: st.DataObject) -> None:
    rng = np.random.default_rng(1)
    declared = column.values if isinstance(column, Categorical) else ()
    known = [*declared, *column.specials]
    for text in known:
        (value,) = decode(column, encode(column, pa.array([text])), rng=rng).to_pylist()
        if isinstance(column, Categorical) or pa.types.is_string(arrow_type(column)):
            assert value == (text or None)
        else:
            assert value == (float(text) if text else None)
    if isinstance(column, Integer):
        number = data.draw(st.integers(column.min, column.max))
        (code,) = encode(column, pa.array([number]))
        first, last = column.bounds(int(code))
        assert first <= number <= last
        assert column.level(str(number)) == code
    if isinstance(column, Numeric):
        low, high = float(column.edges[0]), float(column.edges[-1])
        number = data.draw(st.floats(low, high))
        (code,) = encode(column, pa.array([number]))
        edges = [float(edge) for edge in column.edges]
        assert edges[code] <= number <= edges[code + 1]
        assert number < edges[code + 1] or number == high
        assert column.level(repr(number)) == code


@few
@given(columns(), st.lists(cells, max_size=8))
def test_every_cell_has_a_code_and_strangers_have_the_declared_one(
    column: Column, values: list[object]
) -> None:
    codes = read_codes(open_source(objects(values)), Schema(columns={"x": column}))["x"]
    assert len(codes) == len(values)
    assert all(0 <= code < column.size for code in codes)
    strangers = pa.array(["no such value", "⁂", None, "1e"])
    empty = encode(column, pa.array([""])).tolist()[0]
    assert encode(column, strangers).tolist() == [column.other_code] * 2 + [empty, column.other_code]
    assert len(labels(column)) == column.size


@few
@given(columns(), st.lists(cells, min_size=1, max_size=6), cells)
def test_a_row_is_read_the_same_in_any_company(column: Column, values: list[object], odd: object) -> None:
    """Neighbours differ in one row: the codes of the others must not move, whatever that row holds."""
    schema = Schema(columns={"x": column})
    with_odd = read_codes(open_source(objects([*values, odd])), schema)["x"].tolist()
    without = read_codes(open_source(objects(values)), schema)["x"].tolist()
    alone = [read_codes(open_source(objects([value])), schema)["x"].tolist()[0] for value in [*values, odd]]
    assert with_odd == [*without, alone[-1]] == alone


@few
@given(columns(), st.lists(texts.filter(lambda t: not set("\n\r") & set(t)), max_size=6))
def test_a_csv_file_and_a_frame_agree(column: Column, values: list[str]) -> None:
    table = pa.table({"x": pa.array(values, pa.string()), "y": ["y"] * len(values)})
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes(buffer.getvalue())
        read = read_codes(open_source(path), Schema(columns={"x": column}))["x"].tolist()
    assert read == encode(column, pa.array(values, pa.string())).tolist()


@few
@given(
    st.lists(
        st.text(min_size=1, max_size=5) | st.sampled_from(ODD_TEXTS[2:]), min_size=1, max_size=3, unique=True
    ),
    st.data(),
)
def test_every_schema_comes_back_from_its_toml(names: list[str], data: st.DataObject) -> None:
    unit = Unit(
        name=data.draw(texts.filter(bool)),
        rows=data.draw(st.integers(1, 5)),
        id=data.draw(st.just("the id") | texts.filter(bool)),
        neighbours=data.draw(st.sampled_from(Neighbours)),
    )
    try:
        schema = Schema(
            columns={name: data.draw(columns(name)) for name in names},
            unit=unit,
            dataset=data.draw(st.none() | texts),
            max_rows=data.draw(st.none() | st.integers(1, 10**12)),
        )
    except SchemaError:
        return
    again = Schema.parse(schema.to_toml())
    assert list(again.columns.items()) == list(schema.columns.items())
    assert again == schema
    assert (again.unit, again.dataset, again.max_rows) == (unit, schema.dataset, schema.max_rows)
