"""A Frictionless Table Schema, or the first resource of a data package: types, constraints and missing values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable, number_or_none

_KINDS = {"integer": "integer", "year": "integer", "number": "numeric"} | {
    name: name for name in ("date", "datetime", "time")
}
_BOOLEAN = ("true", "false")
_CHECKS = ("pattern", "minLength", "maxLength", "exclusiveMinimum", "exclusiveMaximum", "jsonSchema")


def is_table_schema(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is a Table Schema or a data package."""
    return isinstance(_schema_of(content).get("fields"), list)


def from_table_schema(content: Mapping[str, Any], *, text: str = "") -> Codebook:
    """Return the fields of a Table Schema; `text` is the file, in which their lines are looked for."""
    schema = _schema_of(content)
    missing = [str(_value_of(each)) for each in schema.get("missingValues", [""])]
    keys = schema.get("primaryKey", ())
    keys = (keys,) if isinstance(keys, str) else keys
    variables, left = [], []
    for entry in schema["fields"]:
        if not isinstance(entry, dict) or not entry.get("name"):
            continue
        name = str(entry["name"])
        line = text[: max(text.find(f'"{name}"'), 0)].count("\n") + 1 if text else 0
        if name in keys:
            why = "it identifies rows"
            left.append(Untranslated(line=line, name=name, what="the primary key", why=why))
            continue
        variables.append(_read_field(entry, name=name, line=line, missing=missing))
        for check in _CHECKS:
            if check in (entry.get("constraints") or {}):
                why = "it limits no range of values that a domain can have"
                left.append(Untranslated(line=line, name=name, what=f"constraint {check}", why=why))
    for key in schema.get("foreignKeys", ()):
        what, why = "the foreign key", "it speaks of another table"
        left.append(Untranslated(line=0, name=str(key.get("fields", "")), what=what, why=why))
    return Codebook(variables=tuple(variables), untranslated=tuple(left))


def _schema_of(content: Mapping[str, Any]) -> Mapping[str, Any]:
    resources = content.get("resources")
    first = resources[0] if isinstance(resources, list) and resources else content
    found = first.get("schema", first) if isinstance(first, dict) else {}
    return found if isinstance(found, dict) else {}


def _value_of(entry: object) -> object:
    """Return a value that may stand alone or with its label."""
    return entry.get("value", "") if isinstance(entry, dict) else entry


def _read_field(entry: Mapping[str, Any], *, name: str, line: int, missing: list[str]) -> Variable:
    limits = entry.get("constraints") or {}
    own = [str(_value_of(each)) for each in entry.get("missingValues", missing)]
    plain = Variable(
        name=name,
        line=line,
        label=str(entry.get("title", "")),
        description=str(entry.get("description", "")),
        may_be_empty=not limits.get("required") and "" in own,
        missing={code: "" for code in own if code},
    )
    listed = entry.get("categories") or limits.get("enum")
    kind = str(entry.get("type", "any"))
    if isinstance(listed, list):
        labels = {
            _text(_value_of(each)): str(each.get("label", "")) if isinstance(each, dict) else ""
            for each in listed
        }
        ordered = bool(entry.get("categoriesOrdered"))
        return replace(plain, kind="ordinal" if ordered else "categorical", choices=labels)
    if kind == "boolean":
        values = [*entry.get("trueValues", ["true"])[:1], *entry.get("falseValues", ["false"])[:1]]
        return replace(plain, kind="categorical", choices=dict.fromkeys(map(str, values or _BOOLEAN), ""))
    if kind in _KINDS and "minimum" in limits and "maximum" in limits:
        ends: list[Any] = [limits["minimum"], limits["maximum"]]
        if _KINDS[kind] in ("integer", "numeric"):
            ends = [number_or_none(end) for end in ends]
        else:
            ends = [str(end) for end in ends]
        if all(isinstance(end, Fraction | str) for end in ends):
            return replace(plain, kind=_KINDS[kind], low=ends[0], high=ends[1])
    needs = f'kind = "{_KINDS[kind]}" with min and max' if kind in _KINDS else "list its values or remove it"
    return replace(plain, open_because=f"type {kind} without limits: {needs}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
