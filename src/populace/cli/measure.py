"""populace measure: the only stage that reads private rows and spends budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli import options
from populace.cli.command import command
from populace.cli.console import emit_result, progress
from populace.cli.notes import note_account, note_before_run, warn_if_too_few_rows

if TYPE_CHECKING:
    from populace.api.request import RunRequest


@command(options.RUN_REQUEST, options.OUT, options.POPULATION, options.YES, options.JSON)
def measure(request: RunRequest, out: Path, population: int | None, yes: bool, json: bool) -> None:
    """Take noisy counts of a private table, charged to its privacy budget.

    The first of three stages, and the only one that costs budget. What it writes may be published. The next two, fit
    and generate, can be repeated at will. If it fails after the budget was reserved, what was answered by then is
    kept in a folder whose name ends in -measured or -answers.

    Examples:
      populace measure people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out measured
      populace fit measured --out model
      populace generate model --out release
    """
    from populace.api.publish import publish_measurements

    with note_account(request):
        note_before_run(request)
        warn_if_too_few_rows(request, population=population, yes=yes)
        with progress() as moved:
            publish_measurements(request, out, progress=moved)
    emit_result({"measurements": str(out)}, json=json)
