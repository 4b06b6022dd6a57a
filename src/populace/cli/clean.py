"""populace clean: what interrupted runs left behind."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, say
from populace.core.errors import UsageError

FOLDER = Option("[FOLDER]", "Where to look: not in folders within it.", Path, default=Path(), shown="here")
DRY_RUN = Option("--dry-run", "Only list what would be removed.")
LEDGER = Option(
    "--ledger FILE", "The ledger of the runs: they may have kept what they paid for beside it.", Path
)


@command(FOLDER, DRY_RUN, LEDGER, options.JSON)
def clean(folder: Path, dry_run: bool, ledger: Path | None, json: bool) -> None:
    """Remove what interrupted runs left behind.

    A run that is killed can leave hidden folders that were not finished, some of which hold private rows, and drafts of
    ledgers and keys, beside --out, --ledger and --key. Only what bears the mark of populace and holds nothing else is
    removed, and nothing that was written within the last minute.

    Measurements, estimates and answers that are paid for are never removed: they are listed with the commands that
    continue from them, also where a run keeps them if nothing can be written beside --out.

    Examples:
      populace clean
      populace clean /data/releases --dry-run
    """
    from populace.api.safety_net import list_recovery_folders
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
