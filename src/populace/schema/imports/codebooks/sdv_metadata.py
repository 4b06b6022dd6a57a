"""Metadata of SDV: names and types of columns. Their values and ranges come from rows, and are left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from populace.core.errors import SchemaError
from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable

_FILL = {
    "categorical": 'kind = "categorical" with values from the questionnaire, or values = "learn"',
    "numerical": 'kind = "integer" or "numeric" with min and max that the question allows',
    "datetime": 'kind = "date" or "datetime" with min and max',
}


def is_metadata(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is metadata of SDV, of one table or of several."""
    return any(_columns_of(table) for table in _tables_of(content).values())


def from_metadata(content: Mapping[str, Any], *, text: str = "") -> Codebook:
    """Return the columns of one table; `text` is the file, in which their lines are looked for."""
    tables = _tables_of(content)
    if len(tables) > 1:
        raise SchemaError(
            f"the metadata describes {len(tables)} tables: {', '.join(map(repr, tables))}.",
            hint="save the part of one table, its columns, as a file of its own",
        )
    (table,) = tables.values()
    key = table.get("primary_key")
    variables, left = [], []
    for name, entry in _columns_of(table).items():
        sort = str(entry.get("sdtype", ""))
        line = text[: max(text.find(f'"{name}"'), 0)].count("\n") + 1 if text else 0
        if name == key or sort == "id" or entry.get("pii"):
            why = "it identifies people or rows"
            left.append(Untranslated(line=line, name=name, what=f"sdtype {sort}", why=why))
            continue
        plain = Variable(name=name, line=line)
        if sort == "boolean":
            variables.append(replace(plain, kind="categorical", choices={"False": "", "True": ""}))
            continue
        why = f"sdtype {sort}; values and ranges of SDV come from rows and are not taken: "
        variables.append(replace(plain, open_because=why + _FILL.get(sort, "list its values or remove it")))
    for rule in (*table.get("constraints", ()), *content.get("relationships", ())):
        what, why = f"“{rule}”", "say it as [[zeros]] or as linked tables"
        left.append(Untranslated(line=0, name="constraint", what=what, why=why))
    return Codebook(variables=tuple(variables), untranslated=tuple(left))


def _tables_of(content: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    tables = content.get("tables")
    found = tables if isinstance(tables, dict) else {"": content}
    return {name: table for name, table in found.items() if isinstance(table, dict)}


def _columns_of(table: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    columns = table.get("columns")
    if not isinstance(columns, dict) or not columns:
        return {}
    typed = all(isinstance(entry, dict) and "sdtype" in entry for entry in columns.values())
    return columns if typed else {}
