"""Public maps from values of some columns to values of another: inline, or in a JSON file beside the schema."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from populace.core.errors import PopulaceError, SchemaError
from populace.schema.bounded_parsing import parse_json, read_text_file
from populace.schema.columns.column import Key
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
        raise table.error(
            f": map names the file {name!r}, but the schema is in no folder.",
            hint='load the schema from a file, or write the map inline: map = { "source" = "value" }',
        )
    path = (folder / name).absolute()
    try:
        return parse_json(read_text_file(path, what="map", refuse=SchemaError))
    except ValueError as error:
        raise SchemaError(f"the map {str(path)!r} is not valid JSON: {error}.", hint=_SHAPE) from None
    except PopulaceError as error:
        raise table.error(
            f": {error.message}", hint="the path of a map is taken from the folder of its file"
        ) from None
