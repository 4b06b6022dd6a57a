"""Columns of a member of a unit in the wide row: what they hold where there is no such member, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import count

from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import numeric_special_codes
from populace.schema.columns.value_types import ValueType
from populace.schema.conditions import syntax_tree as syntax
from populace.schema.exact_numbers import parse_number

ABSENT = "absent"
# So far below its range no number is written by mistake; where a type is too narrow, the next ones will do.
_FAR = (999_999, 1, 2, 3)


def absent_text(column: Column) -> str:
    """Return the code of a column where there is no member: its code for being outside, or else one of its own.

    It is a number or a date where all other values are, so that the column keeps its type.

    >>> absent_text(IntegerColumn(name="AGE", min=0, max=99))
    '-999999'
    >>> absent_text(CategoricalColumn(name="SEX", values=("f", "m")))
    'absent'
    """
    if column.outside is not None:
        return column.outside
    for text in _candidates(column):
        if text in column.specials or text == (column.other or "") or column.level(text) is not None:
            continue
        if column.type not in (None, ValueType.TEXT) and not column.type.holds(parse_number(text)):
            continue
        return text
    raise column.error(
        "leaves no value that could stand for a row that is not there.",
        hint="narrow its range, or leave its type out",
    )


def _candidates(column: Column) -> Iterator[str]:
    words = any(text and text not in numeric_special_codes(column) for text in column.specials)
    if isinstance(column, CategoricalColumn) and column.type not in (None, ValueType.TEXT):
        numbers = [value for text in column.values if (value := parse_number(text)) is not None]
        yield from _beyond(min(numbers, default=Fraction(0)), max(numbers, default=Fraction(0)))
    elif (
        isinstance(column, IntegerColumn | DecimalColumn) and not words and column.type is not ValueType.TEXT
    ):
        low, high = (
            (column.min, column.max)
            if isinstance(column, IntegerColumn)
            else (column.edges[0], column.edges[-1])
        )
        yield from _beyond(Fraction(low), Fraction(high))
    elif isinstance(column, TemporalColumn) and not words and column.format is None:
        for step in (column.min - 1, column.max + 1):
            try:
                yield column.iso_text(step)
            except (ValueError, OverflowError):
                continue
    else:
        yield from (ABSENT + "′" * marks for marks in count())


def _beyond(low: Fraction, high: Fraction) -> Iterator[str]:
    yield from (str(low.__floor__() - step) for step in _FAR)
    yield from (str(high.__ceil__() + step) for step in _FAR)


def rename_columns(expression: syntax.Expression, names: Mapping[str, str]) -> syntax.Expression:
    """Return a condition about columns of other names.

    >>> from populace.schema.conditions.condition_parser import parse_condition
    >>> str(rename_columns(parse_condition("AGE < 15 and not SEX == 'f'"), {"AGE": "AGE.2"}))
    "`AGE.2` < 15 and not SEX == 'f'"
    """
    if isinstance(expression, syntax.Not):
        return syntax.Not(rename_columns(expression.part, names))
    if isinstance(expression, syntax.And | syntax.Or):
        return type(expression)(tuple(rename_columns(part, names) for part in expression.parts))
    if isinstance(expression, syntax.Comparison):
        right = expression.right
        return replace(
            expression,
            left=_rename(expression.left, names),
            right=_rename(right, names) if isinstance(right, syntax.Name) else right,
        )
    return replace(expression, column=_rename(expression.column, names))


def _rename(name: syntax.Name, names: Mapping[str, str]) -> syntax.Name:
    return syntax.Name(names.get(name.name, name.name))
