"""populace schema: check a schema, or show it the way populace reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json

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
    """Print the schema in full, defaults included, as TOML or as JSON."""
    from populace.schema.schema import Schema

    schema = Schema.load(file)
    if json:
        import tomllib

        emit_json({"digest": schema.digest, **tomllib.loads(schema.to_toml())})
    else:
        emit(schema.to_toml().rstrip())
