"""The NIST excerpts: a JSON file for each table, and a data dictionary for all of them.

The table's own file lists what its rows hold, so a domain from there is declared by whoever wrote it. A domain from
the data dictionary is the codebook's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from populace.core.errors import SchemaError
from populace.schema.exact_numbers import parse_number, to_fraction
from populace.schema.imports.round_bins import decimal_bins, integer_bins, lowest_number
from populace.schema.imports.schema_document import SchemaDocument

# The excerpts write this for every null; the dictionary explains it column by column.
NULL = "N"
_ENDS = ("min", "max")
# Which areas an excerpt covers is a choice of its makers, published with it; the dictionary lists those of all of them.
_AREAS = ("PUMA",)


def is_excerpt(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is the description of one excerpt."""
    schema = content.get("schema")
    return isinstance(schema, dict) and all(isinstance(e, dict) and "dtype" in e for e in schema.values())


def is_dictionary(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is the data dictionary of the excerpts."""
    return bool(content) and all(isinstance(e, dict) and "description" in e for e in content.values())


def from_excerpt(content: Mapping[str, Any], dictionary: Mapping[str, Any]) -> SchemaDocument:
    """Return the columns of an excerpt in the order of its file.

    >>> entry = {"dtype": "object", "has_null": True, "null_value": "N", "values": ["N", "1"]}
    >>> known = {"MSP": {"description": "Marital status", "values": {"N": "under 15", "1": "married", "2": "widowed"}}}
    >>> from_excerpt({"schema": {"MSP": entry}}, known).columns["MSP"]["values"]
    ['1', '2']
    """
    columns, notes = {}, {}
    for name, entry in content["schema"].items():
        described = dictionary.get(name, {})
        values = described.get("values", {})
        if not isinstance(values, dict):
            raise SchemaError(
                f"the dictionary's values of {name!r} are not an object.",
                hint='write {"code": "meaning", …}, or {"min": 0, "max": 99}',
            )
        columns[name] = _column(name, entry, values)
        notes[name] = str(described.get("description", ""))
    return SchemaDocument(columns=columns, notes=notes)


def _column(name: str, entry: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    """Return one column: by the dictionary as far as it goes, else by the table's own file."""
    words = {str(code): str(label) for code, label in described.items() if code not in _ENDS}
    null = str(entry.get("null_value", NULL)) if entry.get("has_null") else NULL
    missing = [null] if entry.get("has_null") or null in words else []
    listed = [code for code in words if code not in missing]
    if all(end in described for end in _ENDS):
        keys = _numbers(name, entry, described, listed=listed) | {"origin": "codebook"}
    elif listed and name not in _AREAS:
        keys = _values(entry, listed) | {"origin": "codebook"}
    elif isinstance(entry.get("values"), list):
        keys = _values(entry, [c for c in map(str, entry["values"]) if c not in missing]) | {
            "origin": "declared"
        }
    elif all(end in entry for end in _ENDS):
        keys = _numbers(name, entry, entry, listed=()) | {"origin": "declared"}
    else:
        raise SchemaError(
            f"column {name!r} has neither values nor min and max.", hint="add them to the JSON file"
        )
    if missing:
        keys["missing"] = missing
    first = keys["values"][0] if "values" in keys else lowest_number(keys)
    keys["other"] = missing[0] if missing else first
    if words:
        known = {*keys.get("values", words), *missing, keys["other"]}
        keys["labels"] = {code: label for code, label in words.items() if code in known}
    return keys


def _values(entry: Mapping[str, Any], values: Sequence[str]) -> dict[str, Any]:
    keys: dict[str, Any] = {"kind": "categorical", "values": list(values)}
    whole = str(entry["dtype"]).startswith("int") and all(
        (found := parse_number(value)) is not None and found.denominator == 1 for value in values
    )
    return keys | {"type": "integer"} if whole else keys


def _numbers(
    name: str, entry: Mapping[str, Any], ends: Mapping[str, Any], *, listed: Sequence[str]
) -> dict[str, Any]:
    """Return a column of numbers; a listed code below the range extends it, one above is where it is cut off."""
    low, high = (_number(name, ends[end]) for end in _ENDS)
    codes = [code for code in map(parse_number, listed) if code is not None]
    low, top = min([low, *codes]), max([high, *codes])
    whole = not str(entry["dtype"]).startswith("float") and low.denominator == top.denominator == 1
    if not whole:
        return {"kind": "numeric", **decimal_bins(low, top)}
    cut: dict[str, Any] = {"top": int(top)} if top > high else {}
    return {"kind": "integer", **integer_bins(int(low), int(top)), **cut}


def _number(name: str, value: object) -> Fraction:
    found = to_fraction(value)
    if found is None:
        raise SchemaError(
            f"column {name!r}: min or max is not a finite number.", hint="write plain numbers there"
        )
    return found
