"""For generated columns and cells: codes come back from their values, and nothing falls out of the codes."""

from __future__ import annotations

import io
import tomllib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from hypothesis import given
from hypothesis import strategies as st

from populace.core.errors import SchemaError
from populace.private.read.rows_to_codes import open_source
from populace.schema.codec.decoder import arrow_type, code_labels, decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.codec.split_codes import join_codes, split_codes
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import DateTimeColumn, TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues, as_declared
from populace.schema.reader import read_column
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable
from populace.schema.unit import Neighbours, PrivacyUnit
from populace.schema.writer import canonical_json, column_to_table, format_table
from tests.properties.example_counts import tried
from tests.properties.generated_columns import KINDS, MOMENTS, ODD_TEXTS, cells, columns, texts

# No deadline: the machine may be busy with other tests.
ALONE = {"universe": None, "outside": None, "function_of": (), "parent": None, "map": {}}
few = tried(8)


def objects(values: list[object]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


def read(data: object, column: Column) -> list[int]:
    """Return the codes of column x of a file or frame, as a run reads it."""
    source = open_source(data)
    batches = source.batches(["x"])
    return [
        code
        for batch in batches
        for code in encode_values(column, batch.column("x"), decimal=source.decimal).tolist()
    ]


@few
@given(columns(), st.integers(0, 2**32))
def test_codes_come_back_from_their_values(column: Column, seed: int) -> None:
    """encode ∘ decode is the identity on codes, so decode ∘ encode is one on everything decoded."""
    codes = np.arange(column.size)
    for _ in range(3):
        values = decode_codes(column, codes, rng=np.random.default_rng(seed))
        assert values.type == arrow_type(column)
        assert encode_values(column, values).tolist() == codes.tolist()
        # The same through text, as in a CSV file, where an empty cell is an empty text.
        written = values.cast(pa.string()).fill_null("")
        assert encode_values(column, written).tolist() == codes.tolist()


@few
@given(columns())
def test_declared_values_come_back_as_declared(column: Column) -> None:
    rng = np.random.default_rng(1)
    declared = column.values if isinstance(column, CategoricalColumn) else ()
    known = [*declared, *column.specials]
    for text in known:
        (code,) = encode_values(column, pa.array([text]))
        assert column.code(text) == code
        (value,) = decode_codes(column, np.array([code]), rng=rng).to_pylist()
        if not isinstance(column, RangeColumn) or pa.types.is_string(arrow_type(column)) or not text:
            assert value == (text or None)
        elif not isinstance(column, TemporalColumn):
            assert value == float(text)
    if column.outside is not None:
        assert encode_values(column, pa.array([column.outside])).tolist() == [column.outside_code]


@few
@given(columns(kinds=KINDS[1:-1]), st.data())
def test_numbers_and_moments_fall_into_the_bins_that_the_column_says(
    column: RangeColumn, data: st.DataObject
) -> None:
    if isinstance(column, IntegerColumn):
        number = data.draw(st.integers(column.min, column.max))
        cell, text = pa.array([number]), str(number)
    elif isinstance(column, DecimalColumn):
        value = data.draw(st.floats(float(column.edges[0]), float(column.edges[-1])))
        cell, text = pa.array([value]), repr(value)
    else:
        assert isinstance(column, TemporalColumn)
        number = data.draw(st.integers(column.min, column.max))
        text = column.iso_text(number)
        kind = arrow_type(replace(column, missing=(), other=None, labels={}, type=None, format=None, **ALONE))
        cell = (
            pa.array([number])
            .cast(pa.int64() if isinstance(column, DateTimeColumn) else pa.int32())
            .cast(kind)
        )
    (code,) = encode_values(column, cell)
    assert encode_values(column, pa.array([text])).tolist() == [code] == [column.level(text)]
    low, high = column.bounds(int(code))
    value = column.value(text)
    if isinstance(column, DecimalColumn):
        assert float(low) <= float(value) <= float(high)
        assert float(value) < float(high) or code == column.levels - 1 or (column.ends[0] and code == 0)
    else:
        assert low <= value <= high


@few
@given(columns(), st.lists(cells, max_size=8))
def test_every_cell_has_a_code_and_strangers_have_the_declared_one(
    column: Column, values: list[object]
) -> None:
    codes = read(objects(values), column)
    assert len(codes) == len(values)
    assert all(0 <= code < column.size for code in codes)
    strangers = pa.array(["no such value", "⁂", None, "1e"])
    empty = encode_values(column, pa.array([""])).tolist()[0]
    assert encode_values(column, strangers).tolist() == [column.other_code] * 2 + [empty, column.other_code]
    assert len(code_labels(column)) == column.size


@few
@given(columns(), st.lists(cells, min_size=1, max_size=6), cells)
def test_a_row_is_read_the_same_in_any_company(column: Column, values: list[object], odd: object) -> None:
    """Neighbours differ in one row: the codes of the others must not move, whatever that row holds."""
    with_odd = read(objects([*values, odd]), column)
    without = read(objects(values), column)
    alone = [read(objects([value]), column)[0] for value in [*values, odd]]
    assert with_odd == [*without, alone[-1]] == alone


@few
@given(columns(kinds=MOMENTS), st.data())
def test_typed_moments_are_read_as_objects_are(column: TemporalColumn, data: st.DataObject) -> None:
    """A typed column of an Arrow table and a column of Python objects hold the same cells."""
    typed = {
        st.dates(): [pa.date32(), pa.date64()],
        st.datetimes(): [pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("us", "UTC")],
        st.times(): [pa.time64("us"), pa.time64("ns")],
    }
    strategy, kinds = data.draw(st.sampled_from(list(typed.items())))
    cells = [*data.draw(st.lists(strategy, max_size=4)), None]
    for kind in kinds:
        array = pa.array(cells, kind)
        assert read(pa.table({"x": array}), column) == read(objects(array.to_pylist()), column)


@few
@given(columns(kinds=["split"]), st.integers(0, 2**32))
def test_split_numbers_are_joined_again(column: IntegerColumn, seed: int) -> None:
    codes = np.arange(column.size)
    parts = split_codes(column, codes)
    for part, variable in zip(parts, column.variables, strict=True):
        assert part.max() < variable.size
    assert join_codes(column, *parts).tolist() == codes.tolist()
    # Whatever pair a model makes up is a code; its special, top and bottom codes stay what they are.
    rng = np.random.default_rng(seed)
    made_up = [rng.integers(0, variable.size, 50) for variable in column.variables]
    joined = join_codes(column, *made_up)
    assert joined.max() < column.size
    ends = np.isin(made_up[0], np.unique(parts[0][~np.isin(codes, _plain(column))]))
    assert split_codes(column, joined)[0][ends].tolist() == made_up[0][ends].tolist()


@few
@given(columns(), st.lists(texts.filter(lambda t: not set("\n\r") & set(t)), max_size=6))
def test_a_csv_file_and_a_frame_agree(column: Column, values: list[str]) -> None:
    table = pa.table({"x": pa.array(values, pa.string()), "y": ["y"] * len(values)})
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes(buffer.getvalue())
        codes = read(path, column)
    assert codes == encode_values(column, pa.array(values, pa.string())).tolist()


@few
@given(columns())
def test_every_column_comes_back_from_its_toml(column: Column) -> None:
    """And its canonical form is one for all ways to write it; what is unknown comes back from what was learnt."""
    written = tomllib.loads(format_table("x", column_to_table(column)), parse_float=Decimal)["x"]
    again = read_column("x", TomlTable("[columns.x]", written), learnt=True)
    assert again == column
    assert canonical_json(column_to_table(again)) == canonical_json(column_to_table(column))
    if isinstance(column, UnknownValues):
        assert as_declared(column.with_domain(["some", "values"])) == column
    if isinstance(column, UnknownBins):
        assert as_declared(column.with_domain([column.min + 1, column.max])) == column
    assert as_declared(as_declared(column)) == as_declared(column)


@few
@given(
    st.lists(
        st.text(min_size=1, max_size=5) | st.sampled_from(ODD_TEXTS[2:]), min_size=1, max_size=3, unique=True
    ),
    st.data(),
)
def test_every_schema_comes_back_from_its_toml(names: list[str], data: st.DataObject) -> None:
    unit = PrivacyUnit(
        name=data.draw(texts.filter(bool)),
        rows=data.draw(st.integers(1, 5)),
        id=data.draw(st.just("the id") | texts.filter(bool)),
        neighbours=data.draw(st.sampled_from([Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE])),
    )
    try:
        schema = Schema(
            columns={name: replace(data.draw(columns(name)), **ALONE) for name in names},
            unit=unit,
            dataset=data.draw(st.none() | texts),
            max_rows=data.draw(st.none() | st.integers(1, 10**12)),
        )
    except SchemaError:
        return
    again = Schema.parse(schema.to_toml(), released=True)
    assert list(again.columns.items()) == list(schema.columns.items())
    assert again == schema
    assert (again.unit, again.dataset, again.max_rows) == (unit, schema.dataset, schema.max_rows)


def _plain(column: IntegerColumn) -> range:
    """Return the codes that are single numbers."""
    return range(int(column.ends[0]), column.levels - int(column.ends[1]))
