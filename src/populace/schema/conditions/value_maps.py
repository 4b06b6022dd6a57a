"""Public maps from values of some columns to values of another: inline, or in a JSON file beside the schema."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from populace.core.errors import SchemaError
from populace.schema.bounded_parsing import parse_json
from populace.schema.columns.column import Key, find_repeated
from populace.schema.hints import quote_names
from populace.schema.toml_table import TomlTable, toml_text

_SHAPE = 'write { "source" = "value" }, or [["source", "value"], …] with one text per source column'


def read_map(table: TomlTable, *, sources: int, folder: Path | None) -> dict[Key, str]:
    """Return the map that a column's table gives under `map`, in its order; an empty one where there is none.

    >>> read_map(TomlTable("[columns.x]", {"map": {"a|b": 1}}), sources=2, folder=None)
    {('a', 'b'): '1'}
    """
    given = table.items.get("map", {})
    place = f"{table.place} map"
    if isinstance(given, str):
        given = _file(table, given, folder=folder)
        place = f"{place} {table.text('map')!r}"
    if isinstance(given, Mapping):
        pairs = [((key,) if sources == 1 else tuple(key.split("|")), value) for key, value in given.items()]
    elif isinstance(given, list) and all(isinstance(row, list) and len(row) > 1 for row in given):
        pairs = [(tuple(_text(part, place) for part in row[:-1]), row[-1]) for row in given]
    else:
        raise SchemaError(f"{place} is neither a table nor a list of lists.", hint=_SHAPE)
    found: dict[Key, str] = {}
    for key, value in pairs:
        text = _text(value, place)
        if found.setdefault(key, text) != text:
            raise SchemaError(
                f"{place} leads from {'|'.join(key)!r} to both {found[key]!r} and {text!r}.",
                hint="a function has one value for each combination",
            )
    return found


def _text(value: object, place: str) -> str:
    text = toml_text(value)
    if text is None:
        raise SchemaError(f"{place} holds something that is neither a text nor a number.", hint=_SHAPE)
    return text


def _file(table: TomlTable, name: str, *, folder: Path | None) -> object:
    if folder is None:
        raise SchemaError(
            f"{table.place}: map names the file {name!r}, but the schema is in no folder.",
            hint='load the schema from a file, or write the map inline: map = { "source" = "value" }',
        )
    path = folder / name
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SchemaError(
            f"{table.place}: there is no file {str(path.absolute())!r}, which map names.",
            hint="its path is taken from the schema's folder",
        ) from None
    except (OSError, ValueError):
        raise SchemaError(
            f"{table.place}: the map {str(path)!r} cannot be read.",
            hint="its path is taken from the schema's folder; save it as UTF-8",
        ) from None

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if twice := find_repeated([key for key, _ in pairs]):
            raise SchemaError(
                f"the map {str(path)!r} names {quote_names(twice)} twice.", hint="name each once"
            )
        return dict(pairs)

    try:
        return parse_json(text, parse_float=Decimal, object_pairs_hook=once)
    except ValueError as error:
        raise SchemaError(f"the map {str(path)!r} is not valid JSON: {error}.", hint=_SHAPE) from None
