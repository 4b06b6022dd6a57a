"""Conditions decided the slow way: the tree, one row of texts, no codes. What the fast way is held against."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction

from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import DateColumn
from populace.schema.conditions.syntax_tree import (
    And,
    Comparison,
    Expression,
    Literal,
    Membership,
    Missing,
    Not,
    Or,
)
from populace.schema.schema import Schema

Row = dict[str, str]

_TESTS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(expression: Expression, row: Row, columns: Mapping[str, Column]) -> bool:
    if isinstance(expression, Not):
        return not holds(expression.part, row, columns)
    if isinstance(expression, And):
        return all(holds(part, row, columns) for part in expression.parts)
    if isinstance(expression, Or):
        return any(holds(part, row, columns) for part in expression.parts)
    if isinstance(expression, Missing):
        column = columns[expression.column.name]
        return row[column.name] in column.specials and row[column.name] != column.outside
    if isinstance(expression, Membership):
        column = columns[expression.column.name]
        return any(_equal(row[column.name], column, value) for value in expression.values)
    return _compares(expression, row, columns)


def _compares(test: Comparison, row: Row, columns: Mapping[str, Column]) -> bool:
    column = columns[test.left.name]
    value = row[column.name]
    if isinstance(test.right, Literal):
        if not test.operator.ordered:
            return _equal(value, column, test.right) == (test.operator.value == "==")
        if value in column.specials:
            return False
        return _TESTS[test.operator.value](_size(value, column), _size(test.right.text, column))
    other = columns[test.right.name]
    beside = row[other.name]
    if test.operator.ordered:
        if value in column.specials or beside in other.specials:
            return False
        return _TESTS[test.operator.value](_place(value, column), _place(beside, other))
    words = isinstance(column, CategoricalColumn) and isinstance(other, CategoricalColumn)
    same = value == beside if words else _number(value) == _number(beside)
    return same == (test.operator.value == "==")


def _equal(value: str, column: Column, literal: Literal) -> bool:
    words = isinstance(column, CategoricalColumn | DateColumn)
    if words or value in column.specials or literal.text in column.specials:
        return value == literal.text
    return Fraction(value) == Fraction(literal.text)


def _size(text: str, column: Column) -> Fraction | int | str:
    if isinstance(column, DateColumn):
        return text  # ISO's dates stand in the order of their texts
    return column.values.index(text) if isinstance(column, CategoricalColumn) else Fraction(text)


def _place(text: str, column: Column) -> Fraction | str | int:
    """Return a value for the comparison of two columns: a number, or a place among words in an order."""
    found = _number(text)
    return (
        column.values.index(text)
        if isinstance(found, str) and isinstance(column, CategoricalColumn)
        else found
    )


def _number(text: str) -> Fraction | str:
    try:
        return Fraction(text)
    except ValueError:
        return text


def completed(row: Row, schema: Schema) -> Row:
    """Return a row with the columns that follow from others."""
    full = dict(row)
    while len(full) < len(schema.columns):
        for name, column in schema.columns.items():
            if name not in full and all(source in full for source in column.function_of):
                sources = [schema.columns[source] for source in column.function_of]
                known = {_key(key, sources): result for key, result in column.map.items()}
                values = [_published(full[source.name], source) for source in sources]
                full[name] = known.get(_key(values, sources), column.other or "")
    return full


def _published(text: str, column: Column) -> str:
    """Return a value as rows show it: beyond a top or bottom code, that end."""
    top, bottom = getattr(column, "top", None), getattr(column, "bottom", None)
    if text in column.specials:
        return text
    if top is not None and Fraction(text) > top:
        return str(top)
    return str(bottom) if bottom is not None and Fraction(text) < bottom else text


def _key(texts: Sequence[str], columns: Sequence[Column]) -> tuple[object, ...]:
    return tuple(
        text
        if isinstance(column, CategoricalColumn | DateColumn) or text in column.specials
        else Fraction(text)
        for text, column in zip(texts, columns, strict=True)
    )


def keeps(row: Row, schema: Schema) -> list[bool]:
    """Say for each universe (as the columns stand) and each zero whether a full row keeps it."""
    from populace.schema.conditions.condition_parser import parse_condition

    universes = [
        holds(parse_condition(column.universe), row, schema.columns) == (row[name] != column.outside)
        for name, column in schema.columns.items()
        if column.universe is not None
    ]
    return universes + [not holds(parse_condition(zero.when), row, schema.columns) for zero in schema.zeros]
