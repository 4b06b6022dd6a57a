"""Linked tables as a statement tells them: which tables, how they hang together, and who is protected with whom."""

from __future__ import annotations

from typing import TypedDict

from populace.core.number_format import format_number
from populace.schema.columns.column import Column
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema


class LinkedLine(TypedDict):
    """The two tables of a release, and how many rows of the second belong to one of the first at most."""

    units: str
    members: str
    max_rows: int
    text: str


def describe_linked(linked: LinkedTables) -> LinkedLine:
    """Return linked tables as a statement tells them."""
    most = format_number(linked.max_rows)
    return LinkedLine(
        units=linked.units,
        members=linked.members,
        max_rows=linked.max_rows,
        text=f"Two tables are released. Every row of “{linked.members}” belongs to one row of “{linked.units}”, by a "
        f"synthetic key (“{linked.unit_key}”, there “{linked.member_key}”) that says nothing about keys in the data. A "
        f"{linked.units} was counted as one, with at most {most} rows of “{linked.members}”. "
        f"“{next(iter(linked.columns))}.2” is that column of the second {linked.members} of a {linked.units}.",
    )


def describe_linked_unit(linked: LinkedTables) -> str:
    """Say what the guarantee protects, and what was left out for it."""
    order = " in the declared order" if linked.order or linked.householder else " in the order of the file"
    return (
        f"A whole {linked.units} is protected, with every {linked.members} in it. The first {linked.max_rows}{order} "
        f"counted, and further ones were left out, as were rows of “{linked.members}” without a row of "
        f"“{linked.units}”, rows without a key, and all rows of “{linked.units}” with one key but the first. That "
        f"“{linked.unit_key}” identifies every {linked.units} is trusted. A {linked.members} who is in several is "
        "protected less."
    )


def list_released_columns(schema: Schema) -> list[tuple[str | None, Column]]:
    """Return the columns of a release with the table that each is in; None where there is one table."""
    linked = schema.linked
    if linked is None:
        return [(None, column) for column in schema.columns.values()]
    own = [*list_unit_columns(linked, schema.columns), *([] if linked.size is None else [linked.size])]
    units: list[tuple[str | None, Column]] = [(linked.units, schema.columns[name]) for name in own]
    return [*units, *((linked.members, column) for column in linked.columns.values())]


def list_rules(schema: Schema) -> list[str]:
    """Return the rules of a schema in words; those of linked tables once, not for every place."""
    if schema.linked is None:
        functions = [function.text for function in schema.layout.functions.values()]
        return [*(rule.text for rule in schema.rules.rules), *functions]
    own = set(list_unit_columns(schema.linked, schema.columns))
    universes = [
        f"{name} is '{schema.columns[name].outside}' unless {schema.columns[name].universe}"
        for name in schema.columns
        if name in own and schema.columns[name].universe is not None
    ]
    derived = [
        f"{column.name} follows from {column.function_of[0]}"
        for column in schema.linked.columns.values()
        if column.function_of
    ]
    functions = [text.text for name, text in schema.layout.functions.items() if name in own]
    return [*universes, *schema.linked.rule_texts, *functions, *derived]
