"""How a schema makes a column coarser, in the words of the schema."""

from __future__ import annotations

import math
from fractions import Fraction

from populace.schema.columns.column import Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues

# Widths of moments as schemas write them, in seconds; months and years as long as they are on average.
_DAY, _YEAR = 86_400, 31_556_952
DATETIME_WIDTHS = {
    "minute": 60,
    "hour": 3_600,
    "6 hours": 6 * 3_600,
    "day": _DAY,
    "week": 7 * _DAY,
    "month": _YEAR // 12,
    "quarter": _YEAR // 4,
    "year": _YEAR,
    "5 years": 5 * _YEAR,
    "10 years": 10 * _YEAR,
    "25 years": 25 * _YEAR,
    "100 years": 100 * _YEAR,
}
DATETIME_KINDS = ("date", "datetime", "time")


def can_be_coarser(column: Column) -> bool:
    """Say whether a schema can make a column coarser: not where nobody knows its values, so that they are learnt.

    >>> can_be_coarser(UnknownValues(name="town")), can_be_coarser(IntegerColumn(name="age", min=0, max=99))
    (False, True)
    """
    return not isinstance(column, UnknownValues)


def describe_coarsening(column: Column, *, codes: int) -> str:
    """Return what to write into the schema so that a column has so many codes or fewer.

    >>> describe_coarsening(IntegerColumn(name="age", min=0, max=99), codes=16)
    'width = 7, or edges'
    >>> describe_coarsening(IntegerColumn(name="wage", min=0, max=4999, split=100), codes=32)
    'width = 170 in place of split, or edges'
    """
    most = max(1, codes - len(column.specials))
    if isinstance(column, UnknownBins):
        width = _format_width(
            column.kind,
            low=column.min,
            high=column.max,
            most=most,
            unit=_unit_seconds(column.with_domain(())),
        )
        return f'{width}, or edges, in place of bins = "learn"; inside = "learn" beside them'
    if isinstance(column, TemporalColumn):
        ends = Fraction(column.min), Fraction(column.max)
        return (
            f"{_format_width(column.kind, low=ends[0], high=ends[1], most=most, unit=column.unit)}, or edges"
        )
    if isinstance(column, IntegerColumn):
        width = _format_width(column.kind, low=Fraction(column.min), high=Fraction(column.max), most=most)
        return f"{width}{' in place of split' if column.split else ''}, or edges"
    if isinstance(column, DecimalColumn):
        return (
            f"{_format_width(column.kind, low=column.edges[0], high=column.edges[-1], most=most)}, or edges"
        )
    return f"list {most} values or fewer: all others become other"


def _format_width(kind: str, *, low: Fraction, high: Fraction, most: int, unit: int = 1) -> str:
    """Return the width of bins of which there are so many, as a schema writes it."""
    if kind in DATETIME_KINDS:
        # Bins of the calendar may begin before the first day and end after the last.
        seconds = float(high - low + 1) * unit / max(1, most - 1)
        fitting = [name for name, each in DATETIME_WIDTHS.items() if each >= max(seconds, unit)]
        return f'width = "{fitting[0] if fitting else "100 years"}"'
    span = high - low + (1 if kind == "integer" else 0)
    exact = float(span / most)
    step = 10.0 ** (math.floor(math.log10(exact)) - 1) if exact > 0 else 1.0
    width = math.ceil(exact / step - 1e-9) * step
    return f"width = {max(1, math.ceil(width)) if kind == 'integer' else float(f'{width:.6g}'):g}"


def _unit_seconds(column: Column) -> int:
    return column.unit if isinstance(column, TemporalColumn) else 1
