"""populace clean: what interrupted runs left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json, say
from populace.core.errors import UsageError


def clean(
    folder: Annotated[
        Path,
        typer.Argument(metavar="[FOLDER]", readable=False, help="Where to look: not in folders within it."),
    ] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            readable=False,
            help="The ledger of the runs: they may have kept what they paid for beside it.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Remove what interrupted runs left behind.

    A run that is killed, or whose machine fails, can leave hidden folders that were not finished, some of which hold
    private rows, and drafts of ledgers and keys. They lie beside what was to be written: in the folder of --out, of
    --ledger and of --key; where --out named an empty folder that was there before, within it. Only what bears the mark
    of populace and holds nothing else is removed, and nothing that was written within the last minute.

    Measurements, estimates and answers that are paid for are never removed: they are listed with the way to go on, also
    where a run keeps them if nothing can be written beside --out: in the folder of the state of populace, beside the
    ledger, and among the temporary files.

    \b
    Examples:
      populace clean
      populace clean /data/releases --dry-run
    """
    from populace.cli.safety_net import list_recovery_folders
    from populace.privacy.ledger.ledger import default_ledger_path
    from populace.release.folder.leftovers import Fate, find_leftovers, find_paid_answers, remove_leftover

    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}.", hint="name the folder that runs wrote into")
    found = list(find_leftovers(folder))
    if not dry_run:
        found = [(remove_leftover(each.path) or each) if each.fate is Fate.REMOVE else each for each in found]
    places = (*list_recovery_folders(ledger=ledger), default_ledger_path().parent)
    others = {place.resolve(): place for place in places}
    others.pop(folder.resolve(), None)
    found += [each for place in others.values() for each in find_paid_answers(place)]
    if json:
        emit_json(
            {
                "folder": str(folder),
                "dry_run": dry_run,
                "leftovers": [
                    {
                        "path": str(each.path),
                        "what": each.what,
                        "fate": _fate(each.fate, dry_run=dry_run),
                        "detail": each.detail,
                    }
                    for each in found
                ],
            }
        )
        return
    for each in found:
        detail = f" ({each.detail})" if each.detail else ""
        emit(f"{_fate(each.fate, dry_run=dry_run):12}  {each.path}: {each.what}{detail}")
    if not found:
        say(f"nothing was left behind in {folder}")


def _fate(fate: object, *, dry_run: bool) -> str:
    from populace.release.folder.leftovers import Fate

    if fate is Fate.REMOVE:
        return "would remove" if dry_run else "removed"
    return fate.value if isinstance(fate, Fate) else ""
