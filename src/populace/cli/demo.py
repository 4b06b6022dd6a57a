"""populace demo: a complete release from an invented population."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import check_new_folder, emit, emit_json, progress, say

EPSILON, DELTA = "1", "1e-9"


def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", readable=False, help="The folder to write; an earlier demo is replaced."
        ),
    ] = Path("demo-release"),
    json: options.Json = False,
) -> None:
    """Make a complete release from an invented population.

    Nobody in it is real, so you can look at everything: the report, the statement, the noisy counts.
    The demo keeps a ledger of its own beside the release. The last line on stdout is the folder's path.

    \b
    Examples:
      populace demo
      populace demo --out /tmp/demo && xdg-open /tmp/demo/report.html
    """
    from populace.pipeline import synthesize
    from populace.privacy.budget import parse_delta, parse_epsilon
    from populace.privacy.ledger import Ledger
    from populace.samples.population import population

    if is_demo(out):
        shutil.rmtree(out)
    check_new_folder(out)
    ledger = out.with_name(f"{out.name}.ledger.db")
    table, schema = population()
    say(f"an invented population, {table.num_columns} columns, epsilon {EPSILON}, delta {DELTA}")
    if ledger.exists():
        # Invented people lose nothing when their budget grows; for real ones this is a decision.
        Ledger.existing(ledger).grant(
            schema.dataset or "", epsilon=parse_epsilon(EPSILON), delta=parse_delta(DELTA)
        )
    with progress() as moved:
        release = synthesize(
            table, schema=schema, epsilon=EPSILON, delta=DELTA, ledger=ledger, progress=moved
        )
        moved("writing the report", 0.9)
        release.save(out, format="csv")
    say(f"open {out / 'report.html'} in a browser; {out / 'statement.md'} says what is promised")
    if json:
        emit_json({"release": str(out), "statement": release.statement})
    else:
        emit(str(out))


def is_demo(folder: Path) -> bool:
    """Say whether a folder holds nothing but an earlier demo."""
    from populace.errors import ReleaseError
    from populace.release.manifest import Manifest
    from populace.samples.population import SCHEMA
    from populace.schema.schema import Schema

    try:
        manifest = Manifest.load(folder)
    except ReleaseError:
        return False
    files = {path.name for path in folder.iterdir()}
    return manifest.dataset == Schema.parse(SCHEMA).dataset and files <= {*manifest.files, "manifest.json"}
