"""The columns of a release in its statement: the domain of each, and what becomes of values outside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NotRequired, TypedDict

from populace.release.statement.linked_statement import list_released_columns
from populace.schema.columns.column import Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.range_columns import OutOfRange, RangeColumn
from populace.schema.schema import Schema

# What a column is that names the units of a level.
LEVEL_KIND = "level"


class DomainLine(TypedDict):
    """The public domain of one column, who vouches for it, and what becomes of values outside it.

    `table` says in which of two linked tables it is.
    """

    table: NotRequired[str]
    column: str
    label: NotRequired[str]
    kind: str
    size: int
    origin: str
    outside: str


def list_domain_lines(schema: Schema) -> list[DomainLine]:
    """Return every released column with its domain, in order."""
    every = list_released_columns(schema)
    return [_domain_line(column, schema=schema, table=table) for table, column in every]


def _domain_line(column: Column, *, schema: Schema, table: str | None) -> DomainLine:
    function, geography = schema.layout.functions.get(column.name), schema.geography
    if geography is not None and column.name in geography.levels:
        return DomainLine(
            column=column.name,
            kind=LEVEL_KIND,
            size=geography.spine.units(geography.spine.levels.index(column.name)),
            origin=column.origin.value,
            outside=f"a {schema.unit.word} off the spine is counted in the first unit below the last one named rightly",
        )
    sources = column.function_of if function is None else function.sources
    line = DomainLine(
        column=column.name,
        kind=column.kind,
        size=column.size,
        origin=column.origin.value,
        outside="; ".join(_describe_outside(column))
        if not sources
        else f"not read: follows from {', '.join(sources)}",
    )
    if column.label:
        line["label"] = column.label
    if table is not None:
        line["table"] = table
    return line


def _describe_outside(column: Column) -> Iterator[str]:
    if isinstance(column, RangeColumn) and column.beyond is OutOfRange.NEAREST:
        what = "dates and times" if isinstance(column, TemporalColumn) else "numbers"
        yield f"{what} beyond the ends go to the nearest end"
    yield f"anything else becomes {repr(column.other) if column.other else 'an empty cell'}"
