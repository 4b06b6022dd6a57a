"""A schema with some of its columns left out or coarser, what is wanted of it then, and how a schema says so."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction

from populace.core.marginals import Clique
from populace.methods.workload import Workload, resolve_workload
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.unknown_columns import UnknownBins
from populace.schema.conditions.condition_parser import condition_columns as named
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.schema import Schema

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


def reduce_schema(schema: Schema, *, coarse: Mapping[str, int], drop: Collection[str]) -> Schema:
    """Return a schema without some columns and with others of so many codes, whose domains are then declared.

    Who is protected stays the same, as do rules and functions between columns that stay as they are.
    """
    if not coarse and not drop:
        return schema
    same = {name for name in schema.layout.owners.values() if name not in coarse and name not in drop}
    for name, function in schema.layout.functions.items():
        if same.issuperset(function.sources):
            same.add(name)
    columns = {
        name: _coarsen_column(column, codes=coarse[name])
        if name in coarse
        else _detach_column(column, same=same)
        for name, column in schema.columns.items()
        if name in same or (name in coarse and name not in drop)
    }
    zeros = [
        zero
        for zero in schema.zeros
        if same.issuperset({*named(parse_condition(zero.when)), *zero.replacement.keys()})
    ]
    kept = {part.name for column in columns.values() for part in column.variables}
    groups = [tuple(name for name in group if name in kept) for group in (schema.partition, *schema.groups)]
    by_area = bool(groups[0])
    return replace(
        schema,
        columns=columns,
        zeros=tuple(zeros),
        totals=(),
        linked=None,
        partition=groups[0],
        partition_least=schema.partition_least if by_area else None,
        partition_step=schema.partition_step if by_area else None,
        groups=tuple(group for group in groups[1:] if group),
    )


def restrict_workload(workload: Workload, *, whole: Schema, part: Schema) -> Workload:
    """Return what of a workload can be asked of a smaller schema; both have closed domains.

    Variables of a column that is split no longer become that column.
    """
    if workload.name is not None:
        return resolve_workload(workload.name)(part)
    owner = whole.layout.owners
    weights: dict[Clique, Fraction] = {}
    for clique, weight in workload.weights.items():
        left = tuple(dict.fromkeys(name if name in part.domain else owner[name] for name in clique))
        if all(name in part.domain for name in left) and len(left) > min(1, len(clique) - 1):
            weights[left] = max(weight, weights.get(left, weight))
    return Workload(weights=weights).for_schema(part) if weights else Workload.pairs(part.domain)


def _coarsen_column(column: Column, *, codes: int) -> Column:
    if column.ordered:
        return IntegerColumn(name=column.name, min=0, max=codes - 1, other="0")
    return CategoricalColumn(name=column.name, values=tuple(map(str, range(codes))), other="0")


def _detach_column(column: Column, *, same: Collection[str]) -> Column:
    """Return a column without what ties it to columns that are no longer the same; it keeps all of its codes."""
    if column.universe is not None and not set(named(parse_condition(column.universe))) <= set(same):
        outside = () if column.outside is None else (column.outside,)
        column = replace(column, universe=None, outside=None, missing=(*column.missing, *outside))
    if column.parent is not None and column.parent not in same:
        column = replace(column, parent=None, map={})
    return column


def describe_coarsening(column: Column, *, codes: int) -> str:
    """Return what to write into the schema so that a column has so many codes or fewer.

    >>> describe_coarsening(IntegerColumn(name="age", min=0, max=99), codes=16)
    'width = 7, or edges'
    >>> describe_coarsening(IntegerColumn(name="wage", min=0, max=4999, split=100), codes=32)
    'width = 170 in place of split, or edges'
    """
    most = max(1, codes - len(column.specials))
    if isinstance(column, UnknownBins):
        width = _format_width(column.with_domain(()), low=column.min, high=column.max, most=most)
        return f'{width}, or edges, in place of bins = "learn"; inside = "learn" beside them'
    if isinstance(column, DecimalColumn):
        return f"{_format_width(column, low=column.edges[0], high=column.edges[-1], most=most)}, or edges"
    if isinstance(column, IntegerColumn | TemporalColumn):
        width = _format_width(column, low=Fraction(column.min), high=Fraction(column.max), most=most)
        split = isinstance(column, IntegerColumn) and column.split
        return f"{width}{' in place of split' if split else ''}, or edges"
    return f"list {most} values or fewer: all others become other"


def _format_width(column: Column, *, low: Fraction, high: Fraction, most: int) -> str:
    """Return the width of bins of which there are so many, as a schema writes it."""
    if isinstance(column, TemporalColumn):
        # Bins of the calendar may begin before the first day and end after the last.
        seconds = float(high - low + 1) * column.unit / max(1, most - 1)
        fitting = [name for name, each in DATETIME_WIDTHS.items() if each >= max(seconds, column.unit)]
        return f'width = "{fitting[0] if fitting else "100 years"}"'
    whole = isinstance(column, IntegerColumn)
    exact = float((high - low + whole) / most)
    step = 10.0 ** (math.floor(math.log10(exact)) - 1) if exact > 0 else 1.0
    width = math.ceil(exact / step - 1e-9) * step
    return f"width = {max(1, math.ceil(width)) if whole else float(f'{width:.6g}'):g}"
