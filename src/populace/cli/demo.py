"""populace demo: a complete release from an invented population."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, progress, say

if TYPE_CHECKING:
    import pyarrow as pa

EPSILON, DELTA = "1", "1e-9"


OUT = Option(
    "--out DIR", "The folder to write; an earlier demo is replaced.", Path, default=Path("demo-release")
)


@command(OUT, options.JSON)
def demo(out: Path, json: bool) -> None:
    """Create a complete release from an invented population.

    Nobody in it is real, so you can look at everything: the report, the statement, the noisy counts. Beside the release
    lie its input, DIR.input/people.csv and DIR.input/schema.toml, and a ledger of the demo's own.

    Examples:
      populace demo
      populace demo --out /tmp/demo && xdg-open /tmp/demo/report.html
      populace synth demo-release.input/people.csv --schema demo-release.input/schema.toml \\
        --epsilon 1 --delta 1e-9 --out release
    """
    from populace.api.publish import publish_release
    from populace.api.request import RowRequest, RunRequest
    from populace.privacy.accounting.budget import parse_delta, parse_epsilon
    from populace.privacy.ledger.ledger import Ledger
    from populace.release.folder.destination import check_destination
    from populace.simulation.sample_survey import simulate_survey

    if is_demo(out):
        # Its folder stays: it may be a mount point.
        for path in out.iterdir():
            path.unlink()
    check_destination(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    ledger = out.with_name(f"{out.name}.ledger.db")
    table, schema = simulate_survey()
    private = write_input(table, out.with_name(f"{out.name}.input"))
    say(f"a survey of invented people, {len(schema.columns)} columns, epsilon {EPSILON}, delta {DELTA}")
    if ledger.exists():
        # Invented people lose nothing when their budget grows; for real ones this is a decision.
        Ledger.existing(ledger).grant(
            schema.dataset or "", epsilon=parse_epsilon(EPSILON), delta=parse_delta(DELTA)
        )
    request = RunRequest.of(table, schema=schema, epsilon=EPSILON, delta=DELTA, ledger=ledger)
    with progress() as moved:
        release = publish_release(request, RowRequest(), out, table_format="csv", progress=moved)
    say(f"{private} holds the invented people and their schema, for commands of your own")
    say(f"{ledger} is its ledger; `populace verify {out} --ledger {ledger}` compares the release with it")
    say(f"open {out / 'report.html'} in a browser; {out / 'statement.md'} says what is promised")
    result = {"release": str(out), "input": str(private), "statement": release.statement}
    emit_result(result, json=json)


def write_input(table: pa.Table, folder: Path) -> Path:
    """Write the invented people and their schema, as a curator has them; files that somebody changed are kept."""
    import pyarrow.csv

    from populace.simulation.population import POPULATION_SCHEMA

    people = io.BytesIO()
    pyarrow.csv.write_csv(table, people)
    files = {"people.csv": people.getvalue(), "schema.toml": POPULATION_SCHEMA.encode()}
    if any((folder / n).exists() and (folder / n).read_bytes() != content for n, content in files.items()):
        say(f"{folder} holds other files than the demo writes: they are left as they are")
        return folder
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def is_demo(folder: Path) -> bool:
    """Say whether a folder holds nothing but an earlier demo."""
    from populace.core.errors import ReleaseError
    from populace.release.manifest import Manifest
    from populace.schema.schema import Schema
    from populace.simulation.population import POPULATION_SCHEMA

    try:
        manifest = Manifest.load(folder)
    except ReleaseError:
        return False
    files = {path.name for path in folder.iterdir()}
    return manifest.dataset == Schema.parse(POPULATION_SCHEMA).dataset and files <= {
        *manifest.files,
        "manifest.json",
    }
