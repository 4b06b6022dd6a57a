"""Overlays: what a codebook leaves out (universes, impossible combinations, functions), laid over an imported schema.

An overlay is TOML of the same form as a schema. It adds keys to columns or replaces them, and adds `[[zeros]]`,
`[[totals]]` and keys of `[table]`. It never removes a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from populace.core.errors import SchemaError
from populace.schema.conditions.value_maps import read_map
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names, suggest
from populace.schema.imports.detect_format import read_text
from populace.schema.imports.round_bins import lowest_number
from populace.schema.imports.schema_document import Keys, SchemaDocument
from populace.schema.toml_table import TomlTable, read_toml_table

PACKAGED = Path(__file__).resolve().parents[1] / "overlays"

_TABLES = ("table", "columns", "zeros", "totals")
_BINS = ("min", "max", "width", "edges", "bins", "top", "bottom", "split")
_DOMAIN = ("values", "type", *_BINS)
_LISTED = ("categorical", "ordinal")


def lay_over(document: SchemaDocument, name: str) -> SchemaDocument:
    """Return the document with the keys of an overlay laid over it.

    `name` is that of an overlay of ours, which is never looked for in the folder, or of a file.
    """
    overlay = _read_overlay(name)
    columns = {column: dict(keys) for column, keys in document.columns.items()}
    moved: list[str] = []
    if name in packaged_overlays() and not any(c.get("origin") == "codebook" for c in columns.values()):
        raise SchemaError(
            f"overlay {name!r} is about the values of a dictionary, and no column has its values from one.",
            hint="give the data_dictionary.json or codebook.cbk of the table as --dictionary",
        )
    for column, keys in overlay.columns.items():
        if column not in columns and "function_of" not in keys:
            raise SchemaError(
                f"overlay {name!r}: there is no column {column!r}.",
                hint=suggest(
                    column, columns, otherwise="only a function of other columns (function_of) may be new"
                ),
            )
        base = columns.get(column, {})
        columns[column] = _merge_keys(base, keys)
        if base and "other" not in keys and columns[column].get("other") != base.get("other"):
            # Its `other` has moved into its domain.
            over, other = columns[column], columns[column]["other"]
            label = over.get("labels", {}).get(other)
            if other not in map(str, over.get("missing", ())):
                moved.append(
                    f"in {column!r} everything unknown now becomes {other!r}{f' ({label})' if label else ''}; set "
                    "other = … in the overlay to choose"
                )
    return replace(
        document,
        remarks=(*document.remarks, *moved),
        columns={column: _drop_unknown_codes(keys, columns) for column, keys in columns.items()},
        table={**document.table, **overlay.table},
        zeros=(*document.zeros, *overlay.zeros),
        totals=(*document.totals, *overlay.totals),
    )


def packaged_overlays() -> list[str]:
    """Return the names of the overlays that come with populace.

    >>> packaged_overlays()
    ['nist-acs', 'nist2018']
    """
    return sorted(path.stem for path in PACKAGED.glob("*.toml"))


def _read_overlay(name: str) -> SchemaDocument:
    """Return the keys of an overlay, with the maps of functions read in.

    >>> _read_overlay("nist2018").columns["VALUEH"]["top"]
    25000
    """
    path = PACKAGED / f"{name}.toml" if name in packaged_overlays() else Path(name)
    if not path.exists():
        raise SchemaError(
            f"there is no file {name!r}, and no built-in overlay of that name.",
            hint=suggest(
                name,
                packaged_overlays(),
                otherwise=f"overlays that come with populace: {quote_names(packaged_overlays())}",
            ),
        )
    return _parse_overlay(read_text(path), name=name, folder=path.parent)


def _parse_overlay(text: str, *, name: str, folder: Path) -> SchemaDocument:
    place = f"overlay {name!r}"
    document = read_toml_table(text, name=place, hint="write it as a schema is written", refuse=SchemaError)
    document.allow(_TABLES)
    columns = document.table("columns", place=f"{place} [columns.NAME]")
    tables = {column: columns.table(column, place=f"{place}, column {column!r}") for column in columns.items}
    return SchemaDocument(
        table=_with_exact_numbers(document.table("table", place=f"{place} [table]").items),
        columns={column: _with_map(table, folder=folder) for column, table in tables.items()},
        zeros=tuple(_with_exact_numbers(each.items) for each in document.tables("zeros")),
        totals=tuple(_with_exact_numbers(each.items) for each in document.tables("totals")),
    )


def _with_exact_numbers(value: Any) -> Any:
    """Return what TOML holds with exact numbers."""
    if isinstance(value, Mapping):
        return {key: _with_exact_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_exact_numbers(inner) for inner in value]
    if isinstance(value, Decimal):
        found = to_fraction(value)
        if found is None:
            raise SchemaError("a number in an overlay is not finite.", hint="write plain numbers")
        return found
    return value


def _with_map(table: TomlTable, *, folder: Path) -> Keys:
    """Return the keys with the map of a function read from the file that they name, beside the overlay."""
    keys: Keys = _with_exact_numbers(table.items)
    if not isinstance(keys.get("map"), str):
        return keys
    given = keys.get("function_of", ())
    sources = 1 if isinstance(given, str) else len(given) or 1
    found = read_map(table, sources=sources, folder=folder)
    return {**keys, "map": {"|".join(key): value for key, value in found.items()}}


def _merge_keys(base: Mapping[str, Any], over: Keys) -> dict[str, Any]:
    """Return the keys of a column with others laid over them; what contradicts the new ones goes."""
    kept = dict(base)
    kind, was = over.get("kind", base.get("kind")), base.get("kind")
    if was is not None and (kind in _LISTED) != (was in _LISTED):
        kept = {key: value for key, value in kept.items() if key not in _DOMAIN}
    if "edges" in over or over.get("values") == "learn":
        kept = {key: value for key, value in kept.items() if key not in ("min", "max", "width", "bins")}
    elif "edges" in kept and any(key in over for key in ("min", "max", "width", "bins")):
        edges = kept.pop("edges")
        kept |= {"min": edges[0], "max": edges[-1]}
    keys = kept | dict(over)
    return _settle_other(keys, chosen=over)


def _settle_other(keys: dict[str, Any], *, chosen: Keys) -> dict[str, Any]:
    """Return the keys without the outside code among values and missing codes, and with `other` in the domain."""
    outside = keys.get("outside")
    for key in ("missing", "values"):
        if outside is not None and key not in chosen and isinstance(keys.get(key), list):
            keys[key] = [code for code in keys[key] if str(code) != str(outside)]
    if not keys.get("missing", True):
        del keys["missing"]
    if "other" in chosen or not chosen.keys() & {"outside", "values", "missing", *_BINS}:
        return keys
    missing, values = keys.get("missing", []), keys.get("values")
    if isinstance(values, list):
        if keys.get("other") not in {str(code) for code in (*values, *missing)}:
            keys["other"] = str([*missing, *values][0])
    elif ("min" in keys or "edges" in keys) and keys.get("other") not in missing:
        keys["other"] = lowest_number(keys)
    return keys


def _drop_unknown_codes(keys: Mapping[str, Any], columns: Mapping[str, Keys]) -> Keys:
    """Return the keys without labels and map entries for codes that the columns do not have."""
    kept = dict(keys)
    if "labels" in kept and isinstance(kept.get("values"), list):
        kept["labels"] = {code: label for code, label in kept["labels"].items() if code in _codes(kept)}
    sources: Sequence[str] = kept.get("function_of", ())
    if len(sources) == 1 and isinstance(kept.get("map"), Mapping):
        source = columns.get(sources[0], {})
        if isinstance(source.get("values"), list):
            known = _codes(source)
            kept["map"] = {code: value for code, value in kept["map"].items() if code in known}
    return kept


def _codes(keys: Keys) -> set[str]:
    special = [keys[key] for key in ("outside", "other") if key in keys]
    return {str(code) for code in (*keys["values"], *keys.get("missing", ()), *special)}
