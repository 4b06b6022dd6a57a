"""populace verify: a release folder against its own manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json
from populace.errors import ReleaseError


def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="A release folder.")],
    json: options.Json = False,
) -> None:
    """Check a release folder against its manifest.

    Nothing may be missing, altered or rehearsed, and the promise must follow from the record.
    It leaves with exit code 2 when a check fails.

    \b
    Example:
      populace verify release
    """
    from populace.release.verify import verify as verify_release

    verdict = verify_release(folder)
    if json:
        emit_json(verdict.to_json())
    else:
        for check in verdict.checks:
            emit(f"{'ok    ' if check.passed else 'FAILED'}  {check.name}: {check.detail}")
    if not verdict.passed:
        raise ReleaseError(
            f"{folder} is not a release to rely on.", hint="ask its publisher for an unaltered copy"
        )
