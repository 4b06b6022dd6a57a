"""For generated schemas, conditions and rows: tables over codes say what a slow interpreter says of the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from populace.core.errors import SchemaError
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn, Column, OrdinalColumn
from populace.schema.columns.date_columns import DateColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.structural_zeros import StructuralZero
from populace.schema.conditions.syntax_tree import (
    And,
    Comparison,
    Expression,
    Literal,
    Membership,
    Missing,
    Name,
    Not,
    Operator,
    Or,
)
from populace.schema.schema import Schema
from tests.properties.example_counts import tried
from tests.properties.slow_interpreter import Row, completed, holds, keeps

MISSING = st.sampled_from([(), ("R",), ("R", "-9")])
OTHER = st.sampled_from([None, "elsewhere"])


@st.composite
def single(draw: st.DrawFn, name: str) -> Column:
    shared = {"name": name, "missing": draw(MISSING), "other": draw(OTHER)}
    kind = draw(
        st.sampled_from(["categorical", "ordinal", "integer", "bins", "top", "split", "numeric", "date"])
    )
    match kind:
        case "categorical":
            return CategoricalColumn(values=("a", "b", "7"), **shared)
        case "ordinal":
            return OrdinalColumn(
                values=draw(st.sampled_from([("1", "2", "3"), ("low", "mid", "high")])), **shared
            )
        case "bins":
            return IntegerColumn(min=0, max=9, starts=(0, 2, 5, 6), **shared)
        case "top":
            return IntegerColumn(min=0, max=6, top=6, bottom=draw(st.sampled_from([None, 0])), **shared)
        case "split":
            return IntegerColumn(min=-1, max=13, split=5, **shared)
        case "date":
            return DateColumn(min=0, max=9, starts=draw(st.sampled_from([(), (0, 4, 5)])), **shared)
        case "numeric":
            edges = tuple(Fraction(text) for text in ("0", "2.5", "5", "9"))
            ends = draw(st.sampled_from([{}, {"top": edges[-1]}, {"bottom": edges[0], "top": edges[-1]}]))
            return DecimalColumn(edges=edges, **ends, **shared)
        case _:
            return IntegerColumn(min=0, max=draw(st.sampled_from([3, 9])), **shared)


@st.composite
def function(draw: st.DrawFn, name: str, sources: Sequence[Column]) -> Column:
    keys = draw(st.lists(st.tuples(*(value_of(source) for source in sources)), min_size=1, max_size=8))
    results = {key: draw(st.sampled_from(["x", "y", "R"])) for key in keys}
    return CategoricalColumn(
        name=name,
        values=("x", "y"),
        missing=("R",),
        function_of=tuple(source.name for source in sources),
        map=results,
    )


def value_of(column: Column) -> st.SearchStrategy[str]:
    """Texts that a published cell of the column may hold."""
    special = st.sampled_from(column.specials)
    if isinstance(column, CategoricalColumn):
        return st.sampled_from(column.values) | special
    if isinstance(column, DecimalColumn):
        low = -5 if column.bottom is not None else 0
        high = 15 if column.top is not None else 9
        return st.decimals(low, high, places=1).map(str) | special
    if isinstance(column, DateColumn):
        return st.integers(column.min, column.max).map(column.iso_text) | special
    low = column.min - (3 if column.bottom is not None else 0)
    high = column.max + (3 if column.top is not None else 0)
    return st.integers(low, high).map(str) | special


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    plain = [draw(single(name)) for name in ("A", "B", "C")[: draw(st.integers(1, 3))]]
    columns = {column.name: column for column in plain}
    if draw(st.booleans()):
        columns["F"] = draw(function("F", draw(st.permutations(plain))[: draw(st.integers(1, 2))]))
    return made(columns) or Schema(columns={column.name: column for column in plain})


def made(columns: Mapping[str, Column], zeros: Sequence[StructuralZero] = ()) -> Schema | None:
    """Return a schema, or None where it contradicts itself or needs bins that are not there."""
    try:
        return Schema(columns=columns, zeros=tuple(zeros))
    except SchemaError:
        return None


@st.composite
def literals(draw: st.DrawFn, column: Column) -> Literal:
    if isinstance(column, CategoricalColumn | DateColumn):
        return Literal(draw(value_of(column)))
    edges = ["0", "2", "2.5", "4", "5", "6", "9", "10"]
    text = draw(st.sampled_from(edges) | value_of(column))
    return Literal(text, quoted=draw(st.booleans()) or not text.lstrip("-").replace(".", "").isdigit())


@st.composite
def atoms(draw: st.DrawFn, schema: Schema) -> Expression:
    column = draw(st.sampled_from(list(schema.columns.values())))
    name = Name(column.name)
    match draw(st.sampled_from(["literal", "literal", "in", "missing", "pair"])):
        case "in":
            return Membership(
                name, tuple(draw(st.lists(literals(column), min_size=1, max_size=3, unique=True)))
            )
        case "missing":
            return Missing(name)
        case "pair":
            other = draw(st.sampled_from(list(schema.columns)))
            return Comparison(name, draw(st.sampled_from(Operator)), Name(other))
        case _:
            return Comparison(name, draw(st.sampled_from(Operator)), draw(literals(column)))


def expressions(schema: Schema) -> st.SearchStrategy[Expression]:
    def larger(smaller: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(smaller, min_size=2, max_size=3).map(tuple)
        return smaller.map(Not) | several.map(And) | several.map(Or)

    return st.recursive(atoms(schema).filter(lambda atom: decided(schema, atom)), larger, max_leaves=5)


def decided(schema: Schema, expression: Expression) -> bool:
    try:
        schema.layout.condition(expression, place="here")
    except SchemaError:
        return False
    return True


@st.composite
def rows(draw: st.DrawFn, schema: Schema) -> list[Row]:
    read = [column for column in schema.columns.values() if not column.function_of]
    each = st.fixed_dictionaries({column.name: value_of(column) for column in read})
    return draw(st.lists(each, min_size=1, max_size=12))


def cells(schema: Schema, table: Sequence[Row]) -> dict[str, pa.Array]:
    return {name: pa.array([row[name] for row in table]) for name in TableCodec(schema).input_columns}


@tried(8)
@given(st.data())
def test_tables_agree_with_a_slow_interpreter(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    expression = data.draw(expressions(schema))
    table = data.draw(rows(schema))
    codes = TableCodec(schema).encode(cells(schema, table))
    fast = schema.layout.condition(expression, place="here")(codes)
    slow = [holds(expression, completed(row, schema), schema.columns) for row in table]
    assert fast.tolist() == slow, str(expression)


@tried(8)
@given(st.data())
def test_canonical_texts_mean_the_same(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    expression = data.draw(expressions(schema))
    again = parse_condition(str(expression))
    assert str(again) == str(parse_condition(str(again)))
    row = completed(data.draw(rows(schema))[0], schema)
    assert holds(again, row, schema.columns) == holds(expression, row, schema.columns)


@st.composite
def ruled(draw: st.DrawFn) -> Schema:
    """Schemas with a universe or two that depend on columns before them, and zeros."""
    schema = draw(schemas())
    for before, name in pairwise([n for n, c in schema.columns.items() if not c.function_of]):
        if draw(st.booleans()):
            earlier = Schema(columns={n: c for n, c in schema.columns.items() if n <= before})
            ruled = replace(schema.columns[name], universe=str(draw(expressions(earlier))), outside="N/A")
            schema = made({**schema.columns, name: ruled}) or schema
    for _ in range(draw(st.integers(0, 2))):
        zeros = [*schema.zeros, StructuralZero(when=str(draw(expressions(schema))))]
        schema = made(schema.columns, zeros) or schema
    return schema


@tried(8)
@given(st.data())
def test_rows_are_held_to_the_rules_and_rows_that_keep_them_stay(data: st.DataObject) -> None:
    schema = data.draw(ruled())
    table = data.draw(rows(schema))
    codec = TableCodec(schema)
    codes = codec.encode(cells(schema, table))
    written = codec.decode(codes, rng=np.random.default_rng(1))
    assert set(codec.count_violations(written).values()) <= {0}
    for before, after in zip(table, written.to_pylist(), strict=True):
        after = {name: "" if value is None else _text(value) for name, value in after.items()}
        assert all(keeps(after, schema)), (before, after)
    plain = codec.encode_cells(cells(schema, table))
    for place, row in enumerate(table):
        if all(keeps(completed(row, schema), schema)):
            assert all(codes[name][place] == plain[name][place] for name in schema.variables), row


@tried(7)
@given(st.data())
def test_no_row_depends_on_another(data: st.DataObject) -> None:
    schema = data.draw(ruled())
    table = data.draw(rows(schema))
    codec = TableCodec(schema)
    together = codec.encode(cells(schema, table))
    order = data.draw(st.permutations(range(len(table))))
    shuffled = codec.encode(cells(schema, [table[place] for place in order]))
    for name in schema.variables:
        assert shuffled[name].tolist() == together[name][list(order)].tolist()
    for place, row in enumerate(table):
        alone = codec.encode(cells(schema, [row]))
        assert all(alone[name][0] == together[name][place] for name in schema.variables)


@tried(7)
@given(st.data())
def test_rules_over_classes_are_rules_over_values(data: st.DataObject) -> None:
    schema = data.draw(ruled())
    assume(schema.rules.rules)
    sizes = dict(schema.domain)
    assume(np.prod(list(sizes.values())) <= 5000)
    grid = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    codes = dict(zip(sizes, grid, strict=True))
    written = TableCodec(schema).decode(codes, rng=np.random.default_rng(data.draw(st.integers(0, 9))))
    kept = np.ones(grid.shape[1], dtype=bool)
    for rule in schema.rules.rules:
        kept &= rule.allowed[tuple(schema.rules.classes[name].lookup[codes[name]] for name in rule.clique)]
    for fine, row in zip(kept, written.to_pylist(), strict=True):
        full = {name: "" if value is None else _text(value) for name, value in row.items()}
        assert all(keeps(full, schema)) == fine, full


@tried(7)
@given(ruled())
def test_schemas_with_rules_come_back_from_toml(schema: Schema) -> None:
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert again.to_toml() == schema.to_toml()
    assert [rule.text for rule in again.rules.rules] == [rule.text for rule in schema.rules.rules]


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)
