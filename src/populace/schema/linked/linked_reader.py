"""Linked tables in a schema file: `[tables.NAME]` with their columns, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from populace.core.errors import SchemaError
from populace.schema.columns.column import Column
from populace.schema.conditions.structural_zeros import StructuralZero
from populace.schema.hints import quote_names
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.reader import read_column
from populace.schema.toml_table import TomlTable
from populace.schema.unit import Neighbours, PrivacyUnit
from populace.schema.writer import TomlValue, column_to_table, format_key, format_table

_UNIT_KEYS = ("key", "columns")
_MEMBER_KEYS = ("of", "key", "max_rows", "order", "size", "householder", "partner", "columns")
_TABLE_KEYS = ("dataset", "unit", "neighbours", "max_rows")


def read_linked_tables(
    document: TomlTable, *, zeros: tuple[StructuralZero, ...], folder: Path | None, learnt: bool
) -> dict[str, Any]:
    """Return the fields of a schema that declares two linked tables: the columns of its wide rows, and the unit."""
    if "columns" in document:
        raise SchemaError(
            "the schema has [columns] beside [tables].",
            hint="declare every column under its table: [tables.NAME.columns.COLUMN]",
        )
    tables = document.table("tables", place="[tables.NAME]")
    found = {name: tables.table(name, place=f"[tables.{format_key(name)}]") for name in tables.items}
    units = [name for name, each in found.items() if "of" not in each]
    members = [name for name, each in found.items() if "of" in each]
    if len(units) != 1 or len(members) != 1:
        raise SchemaError(
            f"[tables] declares {quote_names(found) or 'nothing'}; two tables can be linked.",
            hint='declare the units, and the table of what belongs to them with of = "…" naming the first',
        )
    unit_table, member_table = found[units[0]], found[members[0]]
    unit_table.allow(_UNIT_KEYS)
    member_table.allow(_MEMBER_KEYS)
    if member_table.text("of") != units[0]:
        raise member_table.error(
            f": of is {member_table.text('of')!r}, which is no other table.", hint=f'write of = "{units[0]}"'
        )
    most = member_table.integer("max_rows")
    if most is None:
        raise member_table.error(
            "does not say how many rows of one unit count.",
            hint=f"write max_rows = 6: further rows of a {units[0]} are left out, and a larger number costs accuracy",
        )
    linked = LinkedTables(
        units=units[0],
        members=members[0],
        unit_key=_read_key(unit_table),
        member_key=_read_key(member_table),
        max_rows=most,
        order=member_table.texts("order"),
        size=member_table.text("size"),
        householder=member_table.text("householder"),
        partner=member_table.text("partner"),
        columns=_read_columns(member_table, folder=folder, learnt=learnt),
        zeros=zeros,
    )
    table = document.table("table", place="[table]")
    return {
        "columns": linked.expand_columns(_read_columns(unit_table, folder=folder, learnt=learnt)),
        "unit": _read_unit(table, linked=linked),
        "dataset": table.text("dataset"),
        "max_rows": table.integer("max_rows"),
        "zeros": linked.expand_zeros(),
        "linked": linked,
    }


def _read_key(table: TomlTable) -> str:
    key = table.text("key")
    if not key:
        raise table.error(
            "has no key.", hint='write key = "…": the column that says which unit a row is, or belongs to'
        )
    if key in table.table("columns", place=table.place).items:
        raise table.error(
            f": {key!r} is the key and a column to release.",
            hint="keys are not released: take it out of the columns",
        )
    return key


def _read_columns(table: TomlTable, *, folder: Path | None, learnt: bool) -> dict[str, Column]:
    stem = table.place.strip("[]")
    columns = table.table("columns", place=f"[{stem}.columns.NAME]")
    return {
        name: read_column(
            name,
            columns.table(name, place=f"[{stem}.columns.{format_key(name)}]"),
            folder=folder,
            learnt=learnt,
        )
        for name in columns.items
    }


def _read_unit(table: TomlTable, *, linked: LinkedTables) -> PrivacyUnit:
    """Return the protected unit: always the unit that the tables are linked by."""
    if beside := [key for key in ("id", "rows_per_unit") if key in table]:
        raise table.error(
            f"has {quote_names(beside)} beside [tables].",
            hint=f"the key of {linked.units!r} says who is protected, max_rows of {linked.members!r} with how much",
        )
    table.allow(_TABLE_KEYS)
    name = table.text("unit") or linked.units
    if name != linked.units:
        why = (
            f"one {name} changes what is counted of all others in the same {linked.units}"
            if name == linked.members
            else f"the rows of {linked.members!r} belong to a {linked.units}"
        )
        raise table.error(
            f": unit is {name!r}, but {why}.",
            hint=f'write unit = "{linked.units}": whoever is in one is protected with it',
        )
    neighbours = table.choice("neighbours", default=Neighbours.ADD_REMOVE)
    return PrivacyUnit(name=name, id=linked.unit_key, neighbours=neighbours)


def check_linked_unit(linked: LinkedTables | None, *, unit: PrivacyUnit) -> None:
    """Refuse another protected unit than the one that tables are linked by, and units of several wide rows."""
    if linked is None:
        return
    if (unit.name, unit.id, unit.rows, unit.frequency) != (linked.units, linked.unit_key, 1, None):
        raise SchemaError(
            f"the tables {linked.units!r} and {linked.members!r} are linked, and another unit is protected.",
            hint=f"write unit=PrivacyUnit(name={linked.units!r}, id={linked.unit_key!r}): one wide row each",
        )


def linked_unit_table(unit: PrivacyUnit) -> dict[str, TomlValue]:
    """Return the protected unit of linked tables as keys of `[table]`; the rest follows from the tables."""
    shown: dict[str, TomlValue] = {"unit": unit.name}
    # The relation to tables with the same exact totals follows from these.
    if unit.neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE_WITHIN):
        shown["neighbours"] = unit.neighbours.value
    return shown


def linked_to_tables(linked: LinkedTables, columns: Mapping[str, Column]) -> list[str]:
    """Return linked tables as TOML, in the order in which they are read; `columns` are those of the wide rows."""
    shown = [format_table(format_key("tables", linked.units), {"key": linked.unit_key})]
    for name in list_unit_columns(linked, columns):
        key = format_key("tables", linked.units, "columns", name)
        shown.append(format_table(key, column_to_table(columns[name])))
    shown.append(format_table(format_key("tables", linked.members), _member_keys(linked)))
    for name, column in linked.columns.items():
        key = format_key("tables", linked.members, "columns", name)
        shown.append(format_table(key, column_to_table(column)))
    return shown


def linked_form(linked: LinkedTables) -> dict[str, object]:
    """Return what the digest of a schema depends on of its linked tables."""
    return {
        "units": linked.units,
        "members": linked.members,
        "unit_key": linked.unit_key,
        **_member_keys(linked),
        "columns": [{"name": name, **column_to_table(column)} for name, column in linked.columns.items()],
    }


def list_unit_columns(linked: LinkedTables, columns: Mapping[str, Column]) -> list[str]:
    """Return the declared columns of the units: those of the wide rows that are no member's, and not their number."""
    others = {linked.count}.union(*(linked.names_at(place).values() for place in linked.places))
    return [name for name in columns if name not in others]


def _member_keys(linked: LinkedTables) -> dict[str, TomlValue]:
    table: dict[str, TomlValue | None] = {
        "of": linked.units,
        "key": linked.member_key,
        "max_rows": linked.max_rows,
        "order": list(linked.order) or None,
        "size": linked.size,
        "householder": linked.householder,
        "partner": linked.partner,
    }
    return {key: value for key, value in table.items() if value is not None}
