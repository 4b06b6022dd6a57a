"""populace schema: check a schema, or show it the way populace reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json

if TYPE_CHECKING:
    from populace.schema.columns import Column
    from populace.schema.schema import Schema
    from populace.schema.writer import Written

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Check or show a schema.

    A schema is the public description of a private table: columns, values, and who is protected.

    \b
    Examples:
      populace schema check schema.toml
      populace schema show domain.json
    """,
)

# What a key means that is not there and that no value can stand for.
TABLE_ABSENT = {
    "dataset": "the data file's name",
    "id": "none, each unit has one row",
    "max_rows": "not declared",
}
COLUMN_KEYS = (
    *("kind", "values", "min", "max", "width", "edges", "beyond"),
    *("missing", "other", "labels", "origin"),
)
COLUMN_ABSENT = {"other": "whatever lies outside the domain becomes an empty cell"}

File = Annotated[Path, typer.Argument(metavar="FILE", readable=False, help="A schema.toml or a domain.json.")]


@app.command()
def check(file: File, json: options.Json = False) -> None:
    """Read a schema and say whether it holds together; exit code 2 if not."""
    from populace.schema.schema import Schema

    schema = Schema.load(file)
    if json:
        emit_json({"schema": str(file), "columns": len(schema.columns), "digest": schema.digest})
        return
    emit(f"{file}: {len(schema.columns)} columns, unit {schema.unit.name!r}, no contradiction found")


@app.command()
def show(file: File, json: options.Json = False) -> None:
    """Print the schema in full, defaults included, as TOML or as JSON.

    What has no default value, such as the code for everything outside the domain, is explained in a comment;
    in JSON it is null.
    """
    from populace.schema.schema import Schema

    schema = Schema.load(file)
    if not json:
        emit(_in_full(schema))
        return
    import tomllib

    told = tomllib.loads(_in_full(schema))
    told["table"] = {**dict.fromkeys(TABLE_ABSENT), **told["table"]}
    told["columns"] = {name: {**dict.fromkeys(COLUMN_ABSENT), **c} for name, c in told["columns"].items()}
    emit_json({"digest": schema.digest, **told})


def _in_full(schema: Schema) -> str:
    """Return the schema as TOML that says every default; it reads back as the same schema."""
    from populace.schema.writer import toml, toml_key, unit_table

    table = {
        **({} if schema.dataset is None else {"dataset": schema.dataset}),
        **unit_table(schema.unit),
        "neighbours": schema.unit.neighbours.value,
        **({} if schema.max_rows is None else {"max_rows": schema.max_rows}),
    }
    parts = [toml("table", table) + _absent(TABLE_ABSENT, table)]
    for name, column in schema.columns.items():
        told = _column(column)
        parts.append(toml(toml_key("columns", name), told) + _absent(COLUMN_ABSENT, told))
    return "\n".join(parts).rstrip()


def _column(column: Column) -> dict[str, Written]:
    from populace.schema.ranges import Integer, Numeric
    from populace.schema.writer import column_table

    told = column_table(column)
    if isinstance(column, Integer) and "edges" not in told:
        told.setdefault("width", 1)
    if isinstance(column, Integer | Numeric):
        told.setdefault("beyond", str(column.beyond))
    told.setdefault("missing", [])
    told["origin"] = str(column.origin)
    return {key: told[key] for key in COLUMN_KEYS if key in told}


def _absent(meaning: Mapping[str, str], table: Mapping[str, Written]) -> str:
    return "".join(f"# {key}: {words}\n" for key, words in meaning.items() if key not in table)
