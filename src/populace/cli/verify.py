"""populace verify: a release folder against its own manifest, and against the ledger that paid for it."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json
from populace.core.errors import ReleaseError, ResourceError

MARKS = {"passed": "ok    ", "failed": "FAILED", "unknown": "?     "}


FOLDER = Option("DIR", "A release folder.", Path, required=True, name="folder")
LEDGER = Option(
    "--ledger FILE",
    "The ledger that paid for the release: it must have the record and the digests of every file.",
    Path,
)
QUICK = Option("--quick", "Do not draw the rows or build the report again: what passes is then not verified.")


@command(FOLDER, LEDGER, QUICK, options.JSON)
def verify(folder: Path, ledger: Path | None, quick: bool, json: bool) -> None:
    """Check a release folder against its manifest, and draw its rows again.

    Nothing may be missing, altered or made with repeatable noise; the guarantee must follow from the record, the rows
    from the model and the seed, and every file must have the bytes that populace writes. With --ledger, all of it must
    be what the ledger has recorded, and nothing is drawn again.

    The exit code is 2 when a check fails, and 4 when it cannot be decided here: other versions may draw other rows from
    the same seed.

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
