"""What interrupted runs leave behind: which files and folders are surely ours, and that no process is using them.

A process that is killed clears nothing away. What it leaves has a name that only populace gives, belongs to the same
user, and holds nothing but files that populace writes; whoever still writes a folder holds a lock on it.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

from populace.records import dataclass

# A folder or file this young may belong to a process that had no time yet to lock it.
MOMENT_SECONDS = 60.0
# A new ledger without an account is far smaller.
MAX_LEDGER_BYTES = 2**18
# What is written into a folder to try it, before a run is paid for.
TRIAL, TRIAL_BYTES = "populace-trial", 4096

_FOLDER = re.compile(r"\..+\.[0-9a-f]{12}")
_TRIAL = re.compile(r"\.populace-([0-9a-f]{16}|[a-z0-9_]{8})")
_LEDGER = re.compile(r"\..+\.[0-9a-f]{16}(-wal|-shm|-journal)?")
_KEY = re.compile(r"\.populace-key-[0-9a-f]{16}")
_KEPT = re.compile(r".+-(measured|answers)(-[0-9]{1,2})?")
_NUMBERED = re.compile(r"synthetic-[0-9]{1,3}\.(csv|parquet)|piece-[0-9]{1,9}\.(csv|parquet|toml)")
_STARTS = {
    "": (b"SQLite format 3\0",),
    "-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"),
    "-journal": (b"\xd9\xd5\x05\xf9", b"\0\0\0\0"),
    "-shm": (b"",),
}


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


def hold(folder: Path) -> int | None:
    """Lock a folder until the handle that is returned is closed; None where the disk has no locks."""
    handle = os.open(folder, os.O_RDONLY)
    if _lock(handle):
        return handle
    # `clean` gets no lock there either, and leaves everything alone.
    os.close(handle)
    return None


def _lock(handle: int) -> bool:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def find_leftovers(folder: Path) -> tuple[Leftover, ...]:
    """Return what interrupted runs left in a folder, by name; folders within it are not searched."""
    return tuple(found for path in sorted(folder.iterdir()) if (found := _judge(path)) is not None)


def remove_leftover(path: Path) -> Leftover | None:
    """Remove something that was left behind, if it still is; return what became of it. Links are not followed."""
    return _judge(path, remove=True)


def _judge(path: Path, *, remove: bool = False) -> Leftover | None:
    name = path.name
    with suppress(FileNotFoundError):
        about = path.lstat()
        if stat.S_ISDIR(about.st_mode):
            if found := _KEPT.fullmatch(name):
                return _paid_for(path, what=found[1])
            if _FOLDER.fullmatch(name):
                return _folder(path, about, what="unfinished folder", remove=remove)
            if _TRIAL.fullmatch(name):
                return _folder(path, about, what="trial folder", remove=remove)
            if _holds_trial(path):
                return _folder(path, about, what="trial of a folder", remove=remove)
        elif stat.S_ISREG(about.st_mode):
            if _KEY.fullmatch(name):
                return _file(path, about, what="unfinished key", ours=about.st_size <= 32, remove=remove)
            if found := _LEDGER.fullmatch(name):
                ours = _is_ledger(path, about, suffix=found[1] or "")
                return _file(path, about, what="unfinished ledger", ours=ours, remove=remove)
    return None


def _holds_trial(path: Path) -> bool:
    """Say whether a folder holds nothing but the file by which a folder is tried before a run."""
    with suppress(OSError):
        return [(each.name, each.stat(follow_symlinks=False).st_size) for each in os.scandir(path)] == [
            (TRIAL, TRIAL_BYTES)
        ]
    return False


def _paid_for(path: Path, *, what: str) -> Leftover | None:
    if what == "answers" and (path / "answers.json").is_file():
        detail = "each noisy answer stands beside its question and the law of its noise"
        return Leftover(path=path, what="noisy answers", fate=Fate.PAID_FOR, detail=detail)
    if what == "measured" and (path / "measurements.json").is_file():
        detail = (
            f"`populace fit {shlex.quote(str(path))} --out model` and `populace generate model --out release` go on "
            "from there, free of cost"
        )
        return Leftover(path=path, what="measurements", fate=Fate.PAID_FOR, detail=detail)
    return None


def _file(path: Path, about: os.stat_result, *, what: str, ours: bool, remove: bool) -> Leftover | None:
    if not ours:
        return None
    if not _mine(about):
        return Leftover(path=path, what=what, fate=Fate.OTHERS, detail="it belongs to somebody else")
    if _young(about):
        return Leftover(path=path, what=what, fate=Fate.IN_USE, detail="it was written a moment ago")
    if remove:
        path.unlink()
    return Leftover(path=path, what=what, fate=Fate.REMOVE)


def _is_ledger(path: Path, about: os.stat_result, *, suffix: str) -> bool:
    """Say whether a file begins as a draft of a ledger does, and is as small as one."""
    if about.st_size > MAX_LEDGER_BYTES:
        return False
    with path.open("rb") as file:
        start = file.read(16)
    return not start or any(start.startswith(each) for each in _STARTS[suffix])


def _folder(path: Path, about: os.stat_result, *, what: str, remove: bool) -> Leftover | None:
    if not _mine(about):
        return Leftover(path=path, what=what, fate=Fate.OTHERS, detail="it belongs to somebody else")
    with _opened(path) as handle:
        if handle is None:
            return Leftover(
                path=path, what=what, fate=Fate.IN_USE, detail="another process may be writing it"
            )
        entries = [(entry.name, entry.is_file(follow_symlinks=False)) for entry in os.scandir(handle)]
        if strange := [name for name, file in entries if not file or not _written_by_us(name, what=what)]:
            detail = f"it holds {strange[0]!r}, which populace does not write"
            return Leftover(path=path, what=what, fate=Fate.OTHERS, detail=detail)
        if not entries and _young(about):
            return Leftover(path=path, what=what, fate=Fate.IN_USE, detail="it was made a moment ago")
        if remove:
            for name, _ in entries:
                os.unlink(name, dir_fd=handle)
            # Fails if something came in meanwhile.
            path.rmdir()
    return Leftover(path=path, what=what, fate=Fate.REMOVE)


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Yield a handle on a folder that nobody else holds, and hold it meanwhile; None if somebody may."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield handle if _lock(handle) else None
    finally:
        os.close(handle)


def _written_by_us(name: str, *, what: str) -> bool:
    from populace.release.manifest import ALWAYS, ALWAYS_ESTIMATED, NAME, SOMETIMES

    if what == "trial folder":
        # One table on its way to a name that the user chose.
        return name.endswith((".csv", ".parquet"))
    known = {
        *ALWAYS,
        *ALWAYS_ESTIMATED,
        *SOMETIMES,
        NAME,
        TRIAL,
        "parents.json",
        "digests.json",
        "answers.json",
    }
    return name in known or _NUMBERED.fullmatch(name) is not None


def _mine(about: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or about.st_uid == os.geteuid()


def _young(about: os.stat_result) -> bool:
    return time.time() - max(about.st_mtime, about.st_ctime) < MOMENT_SECONDS
