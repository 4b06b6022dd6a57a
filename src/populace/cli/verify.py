"""populace verify: a release folder against its own manifest, and against the ledger that paid for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json
from populace.core.errors import ReleaseError, ResourceError

MARKS = {"passed": "ok    ", "failed": "FAILED", "unknown": "?     "}


def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="A release folder.")],
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            readable=False,
            help="The ledger that paid for the release: it must have the record and the digests of every file.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Do not draw the rows or build the report again. What passes is then not verified: "
            "the rows may be any.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Check a release folder against its manifest, and draw its rows again.

    Nothing may be missing, altered or rehearsed, the promise must follow from the record, the rows from the model and
    the seed, and every file, the report too, must have the bytes that populace writes. With --ledger, all of it must be
    what the ledger has booked, and nothing need come out the same here.
    It leaves with exit code 2 when a check fails, and with 4 when nobody can tell here: other versions may draw other
    rows from the same seed, and older formats have other words.

    \b
    Examples:
      populace verify release
      populace verify release --ledger ledger.db
      populace verify release --quick --json
    """
    from populace.release.verify.verify import verify as verify_release

    verdict = verify_release(folder, ledger=ledger, quick=quick)
    if json:
        emit_json(verdict.to_json())
    else:
        for check in verdict.checks:
            emit(f"{MARKS[check.outcome.value]}  {check.name}: {check.detail}")
    if not verdict.passed:
        raise ReleaseError(
            f"{folder} is not a release to rely on.", hint="ask its publisher for an unaltered copy"
        )
    if verdict.booked is False:
        raise ResourceError(
            f"{folder} could not be verified: the ledger has no release of its run booked.",
            hint="`populace synth`, `estimate` and `generate --ledger` book what they write; without --ledger, "
            "the rows are drawn again instead",
        )
    if not verdict.verified and not quick:
        raise ResourceError(
            f"{folder} could not be verified here: {'; '.join(check.detail for check in verdict.unknown)}.",
            hint="install the versions that made it, or give --ledger; what was not compared may be anything",
        )
