"""populace synth: from a private file to a release folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli import options
from populace.cli.command import command
from populace.cli.console import emit_result, progress
from populace.cli.notes import note_account, note_before_run, note_release, warn_if_too_few_rows

if TYPE_CHECKING:
    from populace.api.request import RowRequest, RunRequest


@command(
    options.RUN_REQUEST,
    options.OUT,
    options.ROW_REQUEST,
    options.POPULATION,
    options.YES,
    options.FORMAT,
    options.NO_REPORT,
    options.JSON,
)
def synth(
    request: RunRequest,
    drawn: RowRequest,
    out: Path,
    population: int | None,
    yes: bool,
    table_format: str | None,
    no_report: bool,
    json: bool,
) -> None:
    """Create a synthetic dataset with its privacy statement and quality report.

    The budget is reserved in the ledger before the first row is read. Until the release is complete, the measurements
    are kept beside it in a folder whose name ends in -measured; `fit` and `generate` go on from there at no cost.

    Examples:
      populace synth people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out release
      populace synth adult.parquet --schema domain.json --epsilon 1 --delta 1e-9 --rows 50000 --out release
      populace synth household=h.csv person=p.csv --schema homes.toml --epsilon 1 --delta 1e-9 --out release
    """
    from populace.api.publish import publish_release

    with note_account(request):
        note_before_run(request)
        warn_if_too_few_rows(request, population=population, yes=yes)
        with progress() as moved:
            release = publish_release(
                request, drawn, out, table_format=table_format, report=not no_report, progress=moved
            )
    note_release(release)
    emit_result({"release": str(out), "statement": release.statement}, json=json)
