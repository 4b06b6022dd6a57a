"""What interrupted runs leave behind: which files and folders are surely ours, and that no process is using them.

A process that is killed clears nothing away. What it leaves has a name of one form, belongs to the same user, carries
a mark that only populace writes, and holds nothing but files that populace writes. Whoever still writes a folder holds
a lock on it; what was written a moment ago is left alone even so.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from populace.core.errors import PopulaceError
from populace.measurements.measurements import Measurements
from populace.release.folder.hidden_folder import (
    CONTENT,
    HIDDEN_NAME,
    JOURNAL,
    MARKER,
    MARKER_TEXT,
    find_moved_files,
    try_lock,
)

# A folder or file this young may belong to a process that had no time yet to lock it.
MIN_AGE_SECONDS = 60.0
# A new ledger without an account is far smaller.
MAX_LEDGER_BYTES = 2**18

_LEDGER = re.compile(r"\..+\.[0-9a-f]{16}(-journal)?", re.DOTALL)
_KEY = re.compile(r"\.populace-key-[0-9a-f]{16}")
_NUMBERED = re.compile(
    r"synthetic-[0-9]{1,3}\.(csv|parquet|sav|dta|xpt)|piece-[0-9]{1,9}\.(csv|parquet|toml)|vega-[0-9.]+\.js"
)

TOO_LITTLE_MEASURED = (
    "too little was answered to fit a model to; what was stands there with the variance of its noise"
)
# The words with which names end, then a number where the name was taken.
_KEPT = re.compile(r".+-(measured|estimates|checks|answers)(-[0-9]{1,2})?", re.DOTALL)


class Fate(Enum):
    """What becomes of something that was left behind."""

    REMOVE = "remove"
    IN_USE = "in use"
    OTHERS = "left alone"
    PAID_FOR = "paid for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that a run left behind: what it is, what becomes of it, and why or how to go on from it."""

    path: Path
    what: str
    fate: Fate
    detail: str = ""


Entries = dict[str, os.stat_result]
Judgement = tuple[Fate, str]


def find_leftovers(folder: Path) -> tuple[Leftover, ...]:
    """Return what interrupted runs left in a folder, by name; folders within it are not searched."""
    return tuple(found for path in sorted(folder.iterdir()) if (found := _classify(path)) is not None)


def find_paid_answers(folder: Path) -> tuple[Leftover, ...]:
    """Return only what this user paid for and a run kept in a folder, by name; none if it cannot be read."""
    with suppress(OSError):
        return tuple(
            found
            for path in sorted(folder.iterdir())
            if (found := _classify_paid(path, mine=True)) is not None
        )
    return ()


def remove_leftover(path: Path) -> Leftover | None:
    """Remove something that was left behind, if it still is; return what became of it. Links are not followed."""
    return _classify(path, remove=True)


def _classify(path: Path, *, remove: bool = False) -> Leftover | None:
    with suppress(FileNotFoundError):
        about = path.lstat()
        if stat.S_ISDIR(about.st_mode):
            if not HIDDEN_NAME.fullmatch(path.name):
                return _classify_paid(path)
            what, judged = "unfinished folder", _judge_hidden(path, about, remove=remove)
        elif stat.S_ISREG(about.st_mode) and _KEY.fullmatch(path.name):
            ours = about.st_size <= 32
            what, judged = "unfinished key", _judge_file(path, about, ours=ours, remove=remove)
        elif stat.S_ISREG(about.st_mode) and _LEDGER.fullmatch(path.name):
            ours = _is_ledger(path, about)
            what, judged = "unfinished ledger", _judge_file(path, about, ours=ours, remove=remove)
        else:
            return None
        return judged and Leftover(path=path, what=what, fate=judged[0], detail=judged[1])
    return None


def _classify_paid(path: Path, *, mine: bool = False) -> Leftover | None:
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or (mine and not _is_mine(about)):
        return None
    found = _describe_paid_answers(path)
    return found and Leftover(path=path, what=found[0], fate=Fate.PAID_FOR, detail=found[1])


def _judge_file(path: Path, about: os.stat_result, *, ours: bool, remove: bool) -> Judgement | None:
    if not ours:
        return None
    if not _is_mine(about):
        return Fate.OTHERS, "it belongs to somebody else"
    if _is_recent(about):
        return Fate.IN_USE, "it was written a moment ago"
    if remove:
        path.unlink()
    return Fate.REMOVE, ""


def _is_ledger(path: Path, about: os.stat_result) -> bool:
    """Say whether a file is empty, a small ledger by its number, or the journal of a database that was new."""
    from populace.privacy.ledger.ledger_file import APPLICATION_ID

    if not about.st_size or about.st_size > MAX_LEDGER_BYTES:
        return not about.st_size
    with suppress(PermissionError), path.open("rb") as file:
        start = file.read(72)
        if path.name.endswith("-journal"):
            # It undoes what was written to a database of no pages: nobody's data are in it.
            return start[:8] in (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", bytes(8)) and start[16:20] == bytes(4)
        return start.startswith(b"SQLite format 3\0") and start[68:72] == APPLICATION_ID.to_bytes(4, "big")
    return False


def _judge_hidden(path: Path, about: os.stat_result, *, remove: bool) -> Judgement | None:
    if not _is_mine(about):
        return Fate.OTHERS, "it belongs to somebody else"
    try:
        with _open_folder(path) as handle:
            if not _is_marked(handle):
                return _judge_unmarked(_list_entries(handle), about)
            # The marker is written under the lock: whoever is still at work has it by now.
            if not try_lock(handle):
                return Fate.IN_USE, "another process may be writing it"
            return _judge_marked(path, handle, remove=remove)
    except PermissionError:
        return Fate.OTHERS, "it may not be read"


def _judge_marked(path: Path, handle: int, *, remove: bool) -> Judgement:
    outside = _list_entries(handle)
    with ExitStack() as stack:
        inner, inside = -1, {}
        if CONTENT in outside and stat.S_ISDIR(outside[CONTENT].st_mode):
            inner = stack.enter_context(_open_folder(CONTENT, within=handle))
            inside = _list_entries(inner)
        if strange := _find_foreign(outside, inside):
            return Fate.OTHERS, f"it holds {strange!r}, which populace does not write"
        if any(map(_is_recent, [os.fstat(handle), *outside.values(), *inside.values()])):
            return Fate.IN_USE, "it was written a moment ago"
        moved = find_moved_files(path)
        if moved is None or not all(_is_written_by_us(each.name) for each in moved):
            return Fate.OTHERS, f"{path.parent} was being filled from it, and was changed since"
        if remove:
            for each in moved:
                each.unlink()
            for name in inside:
                os.unlink(name, dir_fd=inner)
            if inner >= 0:
                os.rmdir(CONTENT, dir_fd=handle)
            # The marker goes last: what is left if this fails in between can still be recognised.
            for name in sorted(set(outside) - {CONTENT}, key=lambda name: name == MARKER):
                os.unlink(name, dir_fd=handle)
            path.rmdir()
    return Fate.REMOVE, f"with what it had put into {path.parent}" if moved else ""


def _judge_unmarked(entries: Entries, about: os.stat_result) -> Judgement | None:
    """Judge a folder without a marker: it is never removed, and listed if it may well be ours."""
    if not all(name in (MARKER, CONTENT, JOURNAL) or _is_written_by_us(name) for name in entries):
        return None
    if any(map(_is_recent, [about, *entries.values()])):
        return Fate.IN_USE, "it was written a moment ago"
    return Fate.OTHERS, "it lacks the mark of populace: remove it yourself if it is not yours"


@contextmanager
def _open_folder(path: Path | str, *, within: int | None = None) -> Iterator[int]:
    """Yield a handle on a folder; links are not followed."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield handle
    finally:
        os.close(handle)


def _list_entries(handle: int) -> Entries:
    with os.scandir(handle) as found:
        return {each.name: each.stat(follow_symlinks=False) for each in found}


def _is_marked(handle: int) -> bool:
    """Say whether a folder holds the marker, word for word, as a file of its own."""
    try:
        marker = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    except PermissionError:
        raise
    except OSError:
        return False
    with os.fdopen(marker, "rb") as file:
        regular = stat.S_ISREG(os.fstat(marker).st_mode)
        return regular and file.read(len(MARKER_TEXT) + 1) == MARKER_TEXT.encode()


def _find_foreign(outside: Entries, inside: Entries) -> str | None:
    """Return the name of something in a hidden folder that populace does not write."""
    for name, about in outside.items():
        kind = stat.S_ISDIR if name == CONTENT else stat.S_ISREG
        if name not in (MARKER, CONTENT, JOURNAL) or not kind(about.st_mode):
            return name
    return next(
        (
            name
            for name, about in inside.items()
            if not stat.S_ISREG(about.st_mode) or not _is_written_by_us(name)
        ),
        None,
    )


def _is_written_by_us(name: str) -> bool:
    from populace.release import manifest
    from populace.release.folder.destination import TRIAL_FILE

    listed = (*manifest.REQUIRED_FILES, *manifest.REQUIRED_ESTIMATE_FILES, *manifest.OPTIONAL_FILES)
    others = (manifest.MANIFEST_FILE, TRIAL_FILE, "parents.json", "digests.json", "answers.json")
    return name in listed or name in others or _NUMBERED.fullmatch(name) is not None


def _is_mine(about: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or about.st_uid == os.geteuid()


def _is_recent(about: os.stat_result) -> bool:
    return time.time() - max(about.st_mtime, about.st_ctime) < MIN_AGE_SECONDS


def _describe_paid_answers(path: Path) -> tuple[str, str] | None:
    """Return what a folder keeps that was paid for and how to go on from it; None if it keeps nothing."""
    found = _KEPT.fullmatch(path.name)
    if found is None:
        return None
    named = shlex.quote(str(path))
    if found[1] == "measured" and (path / "measurements.json").is_file():
        with suppress(PopulaceError, OSError):
            if not can_fit(Measurements.load(path)):
                return "measurements", TOO_LITTLE_MEASURED
        return (
            "measurements",
            f"{suggest_commands(path, out=Path(f'{path}-release'))} go on from there, free of cost",
        )
    if found[1] == "estimates" and (path / "estimates.json").is_file():
        return "estimates", f"it is the release without a report; `populace verify {named}` checks it"
    if found[1] == "checks" and (path / "checks.json").is_file():
        return "checked claims", f"it is the whole result; `populace verify {named}` checks it"
    if found[1] == "answers" and (path / "answers.json").is_file():
        return (
            "noisy answers",
            "each stands in answers.json beside its question and the distribution of its noise",
        )
    return None


def suggest_commands(
    kept: Path, *, out: Path | None, inference: str = "tree", ledger: Path | None = None
) -> str:
    """Return the commands that make a model of measurements and, where `out` is given, a release of the model.

    The model is named after the measurements: a folder "model" may be there already, from another run.

    >>> suggest_commands(Path("a-measured"), out=Path("a"))
    '`populace fit a-measured --out a-measured-model` and `populace generate a-measured-model --out a`'
    """
    model = shlex.quote(f"{kept}-model")
    way = "" if inference == "tree" else f" --inference {inference}"
    fit = f"`populace fit {shlex.quote(str(kept))}{way} --out {model}`"
    if out is None:
        return fit
    booked = "" if ledger is None else f" --ledger {shlex.quote(str(ledger))}"
    return f"{fit} and `populace generate {model} --out {shlex.quote(str(out))}{booked}`"


def can_fit(measurements: Measurements) -> bool:
    """Say whether a model can be made of measurements: a total alone says nothing of any column."""
    return measurements.released_rows is not None or any(item.marginal.clique for item in measurements.items)
