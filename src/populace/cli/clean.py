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
        found = [(remove_leftover(left.path) or left) if left.fate is Fate.REMOVE else left for left in found]
    places = (*list_recovery_folders(ledger=ledger), default_ledger_path().parent)
    others = {place.resolve(): place for place in places}
    others.pop(folder.resolve(), None)
    found += [kept for place in others.values() for kept in find_paid_answers(place)]
    fates = {**{fate: fate.value for fate in Fate}, Fate.REMOVE: "would remove" if dry_run else "removed"}
    shown = [
        {"path": str(left.path), "what": left.what, "fate": fates[left.fate], "detail": left.detail}
        for left in found
    ]
    if json:
        emit_json({"folder": str(folder), "dry_run": dry_run, "leftovers": shown})
        return
    for each in shown:
        detail = f" ({each['detail']})" if each["detail"] else ""
        emit(f"{each['fate']:12}  {each['path']}: {each['what']}{detail}")
    if not found:
        say(f"nothing was left behind in {folder}")
