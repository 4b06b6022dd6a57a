"""From columns and the protected unit to the tables of a schema file, as TOML or in canonical form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from populace.schema.columns.column import CategoricalColumn, Column, Origin
from populace.schema.columns.date_columns import TemporalColumn, find_temporal_width
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import BinDensity, OutOfRange, RangeColumn
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues, fill_unknown_domain
from populace.schema.exact_numbers import format_decimal
from populace.schema.unit import Neighbours, PrivacyUnit

TomlList = list[str] | list[int] | list[Fraction] | list[list[str]] | list[list[int]]
TomlValue = str | bool | int | Fraction | TomlList | dict[str, str] | dict[str, "int | Fraction | TomlList"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def column_to_table(column: Column) -> dict[str, TomlValue]:
    """Return a column as the table that declares it, without what is default.

    >>> column_to_table(IntegerColumn(name="AGE", min=0, max=99, starts=range(0, 100, 10)))
    {'kind': 'integer', 'min': 0, 'max': 99, 'width': 10}
    """
    table: dict[str, TomlValue | None] = {"kind": column.kind, **_domain_table(column)}
    # Not every kind has them.
    table |= {key: getattr(column, key, None) for key in ("format", "decimals", "split")}
    if isinstance(column, RangeColumn):
        table["beyond"] = None if column.beyond is OutOfRange.NEAREST else str(column.beyond)
        table["inside"] = None if column.density is None else _density_table(column.density)
    several = len(column.function_of) > 1
    table |= {
        "label": column.label or None,
        "description": column.description or None,
        "key": column.key or None,
        "type": None if column.type is None else str(column.type),
        "missing": list(column.missing) or None,
        "other": column.other,
        "labels": dict(column.labels) or None,
        "origin": None if column.origin is Origin.DECLARED else str(column.origin),
        "universe": column.universe,
        "outside": column.outside,
        "function_of": list(column.function_of) or None,
        "parent": column.parent,
        "map": [[*key, value] for key, value in column.map.items()] if several else None,
    }
    if column.map and not several:
        table["map"] = {key: value for (key,), value in column.map.items()}
    return {key: value for key, value in table.items() if value is not None}


def _domain_table(column: Column) -> dict[str, TomlValue]:
    if isinstance(column, CategoricalColumn):
        return {"values": list(column.values)}
    if isinstance(column, UnknownValues):
        return {"values": "learn"}
    if isinstance(column, IntegerColumn):
        return _integer_bins(column)
    if isinstance(column, DecimalColumn):
        return _decimal_bins(column)
    if isinstance(column, UnknownBins) and not issubclass(column.of, TemporalColumn):
        return {"min": column.min, "max": column.max, "bins": "learn"}
    plain = fill_unknown_domain(column)
    if not isinstance(plain, TemporalColumn):
        raise TypeError(f"a {column.kind} column has no table")
    ends: dict[str, TomlValue] = {"min": plain.iso_text(plain.min), "max": plain.iso_text(plain.max)}
    if column.unknown:
        return ends | {"bins": "learn"}
    width = find_temporal_width(plain)
    if width is None:
        return {"edges": [plain.iso_text(edge) for edge in (*plain.starts, plain.max)]}
    return ends | {"width": width}


def unit_to_table(unit: PrivacyUnit) -> dict[str, TomlValue]:
    """Return the protected unit as keys of `[table]`."""
    table: dict[str, TomlValue] = {"unit": unit.name, "rows_per_unit": unit.rows}
    if unit.id is not None:
        table["id"] = unit.id
    # The relation to tables with the same exact totals follows from these.
    if unit.neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE_WITHIN):
        table["neighbours"] = unit.neighbours.value
    return table


def format_table(header: str, table: Mapping[str, TomlValue]) -> str:
    """Return one table as TOML.

    >>> print(format_table(format_key("columns", "income >50K"), {"kind": "integer", "min": 0, "max": 1}), end="")
    [columns."income >50K"]
    kind = "integer"
    min = 0
    max = 1
    """
    lines = [f"[{header}]", *(f"{format_key(key)} = {format_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def format_key(*parts: str) -> str:
    """Return a dotted key, quoted where it must be."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else format_value(part) for part in parts)


def canonical_json(tables: object) -> str:
    """Return tables as one line of JSON that does not depend on the order of their keys."""
    return json.dumps(tables, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_number_text)


def _integer_bins(column: IntegerColumn) -> dict[str, TomlValue]:
    """Return the bins of an integer column by width where they have one, else by edges."""
    bottom, top = column.ends
    low: dict[str, TomlValue] = {"bottom": column.min} if bottom else {"min": column.min}
    high: dict[str, TomlValue] = {"top": column.max} if top else {"max": column.max}
    if isinstance(column.starts, range) and not bottom:
        return low | high | ({} if column.starts.step == 1 else {"width": column.starts.step})
    if not column.binned:
        return low | high
    first, last = column.min + bottom, column.max - top
    inner = [*column.starts[int(bottom) : column.levels - int(top)]]
    # Bins of one width begin at min; a bottom code takes the first number of the first one.
    for start in (column.min, first):
        width = (inner[1] if len(inner) > 1 else last + 1) - start
        following = range(start + width, last + 1, width)
        # Lengths first: a narrow bin in a long range would have more followers than memory holds.
        if len(inner) == 1 + len(following) and inner == [first, *following]:
            return low | ({} if start == column.min else {"min": start}) | high | {"width": width}
    codes = {key: value for key, value in (low | high).items() if key in ("bottom", "top")}
    return {"edges": [*inner, last]} | codes


def _decimal_bins(column: DecimalColumn) -> dict[str, TomlValue]:
    width, *others = (high - low for low, high in pairwise(column.edges))
    bottom, top = column.ends
    low: dict[str, TomlValue] = {"bottom" if bottom else "min": column.edges[0]}
    high: dict[str, TomlValue] = {"top" if top else "max": column.edges[-1]}
    if others and all(other == width for other in others[:-1]) and others[-1] <= width:
        return low | high | {"width": width}
    codes = {key: value for key, value in (low | high).items() if key in ("bottom", "top")}
    return {"edges": list(column.edges)} | codes


def _density_table(density: BinDensity) -> TomlValue:
    if not density.known:
        return "learn"
    table: dict[str, int | Fraction | TomlList] = {
        "starts": list(density.starts),
        "weights": list(density.weights),
    }
    if density.steps:
        table["steps"] = list(density.steps)
    table["rounds"] = [list(row) for row in density.class_weights]
    return table if density.unit == 1 else table | {"unit": density.unit}


def _number_text(value: object) -> str:
    if not isinstance(value, Fraction):
        raise TypeError(f"{type(value).__name__} has no place in a schema")
    return format_decimal(value) or str(value)


def format_value(value: object) -> str:
    """Return a text, number, list or table as TOML, on one line.

    >>> format_value({"a": [1, Fraction(1, 2), "x"]})
    '{ a = [1, 0.5, "x"] }'
    """
    if isinstance(value, str):
        # JSON escapes what TOML wants escaped, except the delete character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _number_text(Fraction(value))
    if isinstance(value, Mapping):
        inner = ", ".join(f"{format_key(key)} = {format_value(item)}" for key, item in value.items())
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(format_value, value)) + "]"
    return _number_text(value)
