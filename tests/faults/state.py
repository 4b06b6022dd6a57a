"""What a command left behind after a fault: in which state, and what of it breaks a promise."""

from __future__ import annotations

import re
from pathlib import Path

from populace.api.stage_folders import load_measurements
from populace.cli.main import main
from populace.core.errors import PopulaceError
from populace.measurements.measurements import Measurements
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.release.estimates_bundle import Estimates
from populace.release.folder import leftovers
from populace.release.folder.leftovers import Fate, find_leftovers, find_paid_answers, remove_leftover
from populace.release.verify.verify import verify

from .commands import COMMANDS, DATASET, EMPTY_FOLDER, EPSILON

KEPT = re.compile(r"kept in (\S+?)[.;,]?(?:\s|$)")


def look_at(
    folder: Path, *, command: str, code: int, mode: str, told: str, answered: bool
) -> dict[str, object]:
    """Return the state of a folder after a command, and everything in it that breaks a promise."""
    wrong: list[str] = []
    runs = _runs(folder, wrong=wrong)
    verb = command.split(",")[0]
    out = folder / "out"
    _check_paid(folder, runs=runs, wrong=wrong)
    _check_hidden(folder, mode=mode, wrong=wrong)
    # A folder is tried under its real name before anything is paid for: whoever is killed meanwhile leaves no more.
    empty = out.is_dir() and all(path.name.startswith(".") for path in out.iterdir())
    if empty and mode != "killed" and command not in EMPTY_FOLDER:
        wrong.append("a folder is left that was only tried")
    whole = out.exists() and not empty and _whole(out, verb=verb, runs=runs, wrong=wrong)
    _check_code(code, mode=mode, told=told, runs=runs, wrong=wrong)
    if code == 0 and not whole and verb in (*EPSILON, "split"):
        wrong.append("exit 0 without a result")
    if code == 0 and verb in EPSILON and not any(run.finished for run in runs):
        wrong.append("exit 0 without a finished run")
    found = _kept(folder, told=told, runs=runs, wrong=wrong)
    finished = any(run.finished for run in runs)
    # A question can be booked, and the run end before it is answered: nothing is lost then but budget.
    if answered and not whole and not found:
        if mode != "from then on":
            wrong.append("answered, and neither result nor measurements are there")
        elif "could not be kept" not in told:
            wrong.append("lost without a word")
    if verb in ("split", "ledger init") or command == "synth, new ledger":
        _check_again(folder, command=command, wrong=wrong)
    state = "reserved" if runs else "nothing reserved"
    if whole:
        state = "result whole"
    elif found:
        state = "kept"
    elif finished or answered:
        state = "answered, not kept"
    return {"state": state, "wrong": wrong}


def _runs(folder: Path, *, wrong: list[str]) -> tuple[RunRecord, ...]:
    path = folder / "ledger.db"
    if not path.exists():
        return ()
    try:
        ledger = Ledger.existing(path)
        ledger.verify()
        known = any(account.dataset == DATASET for account in ledger.accounts())
        return ledger.runs(DATASET) if known else ()
    except PopulaceError as refusal:
        wrong.append(f"the ledger is refused: {refusal.message}")
        return ()


def _check_code(code: int, *, mode: str, told: str, runs: tuple[RunRecord, ...], wrong: list[str]) -> None:
    if "Traceback" in told:
        wrong.append("a traceback is shown")
    if mode == "killed":
        if code not in (-9, 0):
            wrong.append(f"exit {code} of a killed process")
        return
    allowed = (0, 143) if mode == "terminated" else (0, 4)
    if code not in allowed:
        wrong.append(f"exit {code}")
    if code in (2, 3) and runs:
        wrong.append(f"exit {code} with a budget reserved")


def _whole(out: Path, *, verb: str, runs: tuple[RunRecord, ...], wrong: list[str]) -> bool:
    try:
        if verb == "measure":
            run = load_measurements(out).record.run
        elif verb == "split":
            names = sorted(path.name for path in out.iterdir())
            if names != ["piece-1.csv", "piece-1.toml", "piece-2.csv", "piece-2.toml"]:
                wrong.append(f"half a split: {names}")
            rows = sum(len((out / f"piece-{n}.csv").read_bytes().splitlines()) - 1 for n in (1, 2))
            if rows != 80:
                wrong.append(f"{rows} of 80 rows are in pieces")
            return True
        else:
            verdict = verify(out)
            if not verdict.passed:
                wrong.append(f"half a release: {[c.detail for c in verdict.checks if not c.passed]}")
                return False
            loaded = Estimates.load(out) if verb == "estimate" else Measurements.load(out)
            run = loaded.record.run
    except PopulaceError as refusal:
        wrong.append(f"half a result: {refusal.message}")
        return False
    if run not in {each.run for each in runs}:
        wrong.append("a result whose run is not booked")
    return True


def _check_paid(folder: Path, *, runs: tuple[RunRecord, ...], wrong: list[str]) -> None:
    """Check that whatever verifies, wherever it lies, is booked, and for no less than it says."""
    booked = {run.run: run.guarantee for run in runs}
    for manifest in folder.rglob("manifest.json"):
        try:
            if not verify(manifest.parent).passed:
                continue
            text = manifest.parent / "estimates.json"
            release = Estimates.load(manifest.parent) if text.exists() else Measurements.load(manifest.parent)
        except PopulaceError:
            continue
        record = release.record
        if booked.get(record.run) != record.guarantee:
            wrong.append(f"{manifest.parent.name} verifies and is not booked")


def _kept(folder: Path, *, told: str, runs: tuple[RunRecord, ...], wrong: list[str]) -> bool:
    """Say whether what was paid for is where the message says, or beside the folder of a process that was killed."""
    named = KEPT.search(told)
    places = [Path(named[1])] if named else []
    # The folder that would keep something is tried too; killed meanwhile, a process leaves it empty.
    places += [path for path in folder.glob("out-*") if path not in places and any(path.iterdir())]
    for place in places:
        if not place.exists():
            wrong.append(f"nothing is kept in {place.name}")
            continue
        if place not in {each.path for each in find_paid_answers(place.parent)}:
            wrong.append(f"{place.name} is not listed by clean")
        if place.name.startswith("out-measured"):
            try:
                if load_measurements(place).record.run not in {run.run for run in runs}:
                    wrong.append("measurements are kept that are not booked")
            except PopulaceError as refusal:
                wrong.append(f"what is kept is refused: {refusal.message}")
    return bool(places)


def _check_hidden(folder: Path, *, mode: str, wrong: list[str]) -> None:
    """Let `clean` remove what a killed process left; then nothing hidden may be there, and nobody else leaves any."""
    places = [place for place in (folder, folder / "out") if place.is_dir()]
    if mode != "killed" and (found := _hidden(places)):
        wrong.append(f"left behind: {sorted(path.name for path in found)}")
    leftovers.MIN_AGE_SECONDS = -3600.0
    for each in [each for place in places for each in find_leftovers(place)]:
        if each.fate is Fate.REMOVE:
            remove_leftover(each.path)
    # Killed before the marker is whole, a process leaves an empty folder, which is listed alone.
    listed = {each.path for place in places for each in find_leftovers(place)}
    remaining = [path for path in _hidden(places) if path not in listed or not _holds_nothing(path)]
    if remaining:
        wrong.append(f"not found by clean: {sorted(path.name for path in remaining)}")


def _holds_nothing(path: Path) -> bool:
    return path.is_dir() and all(inner.is_file() and not inner.stat().st_size for inner in path.iterdir())


def _hidden(places: list[Path]) -> list[Path]:
    return [path for place in places for path in place.iterdir() if path.name.startswith(".")]


def _check_again(folder: Path, *, command: str, wrong: list[str]) -> None:
    """Run the command once more, without a fault: nothing that was left may stand in its way."""
    words = [word if word != "out" else "out again" for word in COMMANDS[command]]
    code = main(words)
    fine = {"split": (0,), "ledger init": (0, 2), "synth": (0, 3)}[command.split(",")[0]]
    if code not in fine:
        wrong.append(f"exit {code} when it is run again")
    if not command.startswith("split"):
        try:
            Ledger.existing(folder / "ledger.db").account(DATASET)
        except PopulaceError as refusal:
            wrong.append(f"no account after it is run again: {refusal.message}")
