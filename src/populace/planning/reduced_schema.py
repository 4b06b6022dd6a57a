"""A schema with some of its columns left out or coarser, and what is wanted of it then."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction

from populace.core.marginals import Clique
from populace.methods.workload import Workload
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.conditions.condition_parser import condition_columns as named
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.schema import Schema


def map_variables_to_columns(schema: Schema) -> dict[str, str]:
    """Return for every variable the column of the schema that it is, or is a part of.

    >>> wage = IntegerColumn(name="wage", min=0, max=4999, split=100)
    >>> map_variables_to_columns(Schema(columns={"wage": wage}))
    {'wage // 100': 'wage', 'wage % 100': 'wage'}
    """
    return {
        part.name: name
        for name, column in schema.columns.items()
        if name not in schema.layout.functions
        for part in column.variables
    }


def reduce_schema(schema: Schema, *, coarse: Mapping[str, int], drop: Collection[str]) -> Schema:
    """Return a schema without some columns and with others of so many codes, whose domains are then declared.

    Who is protected stays the same, as do rules and functions between columns that stay as they are.
    """
    if not coarse and not drop:
        return schema
    same = {
        name for name in map_variables_to_columns(schema).values() if name not in coarse and name not in drop
    }
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
    return replace(schema, columns=columns, zeros=tuple(zeros), totals=())


def restrict_workload(workload: Workload, *, whole: Schema, part: Schema) -> Workload:
    """Return what of a workload can be asked of a smaller schema; both have closed domains.

    Variables of a column that is split no longer become that column.
    """
    if workload.name == "pairs":
        return Workload.pairs(part.domain)
    if workload.name == "triples":
        return Workload.triples(part.domain)
    owner = map_variables_to_columns(whole)
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
