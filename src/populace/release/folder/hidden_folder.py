"""Hidden folders for what is not finished yet: one form of name, a lock and a marker, so that none is mistaken.

`.NAME.0123456789ab` holds the file `.populace`, with a text that never changes, and the folder `content`. The content
is what gets a real name, so that whatever is left behind at any moment still carries the marker.

Files that move into a folder that was there before go one by one, and what makes it whole comes last. Before the first
one moves, a journal in the hidden folder names them all, so that a move which was interrupted can be taken back by
somebody who knows nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

MARKER = ".populace"
MARKER_TEXT = "A run of populace writes here. If it was killed, `populace clean` removes this folder.\n"
CONTENT = "content"
# Which files of the content are on their way into a folder that was there before.
JOURNAL = "filling.json"
# These are written last: without them a folder is not whole.
LAST_FILES = ("manifest.json", "parents.json")
HIDDEN_NAME = re.compile(r"\..+\.[0-9a-f]{12}", re.DOTALL)
OWNER_ONLY = 0o700
# File systems take names of 255 bytes: this much of one leaves room for what we add to it.
MAX_NAME_BYTES = 200


@contextmanager
def hidden_folder(parent: Path, *, name: str, mode: int = 0o777) -> Iterator[Path]:
    """Yield a new folder for files that get their real names later; what is still in it at the end is removed.

    `mode` is who may open what takes a real name; until then only the owner can reach it.
    """
    outer = parent / f".{shorten_name(name)}.{secrets.token_hex(6)}"
    lock = None
    try:
        outer.mkdir(mode=OWNER_ONLY)
        lock = lock_folder(outer)
        (outer / MARKER).write_text(MARKER_TEXT, encoding="utf-8", newline="\n")
        (outer / CONTENT).mkdir(mode=mode)
        yield outer / CONTENT
    finally:
        _discard(outer)
        if lock is not None:
            os.close(lock)


def lock_folder(folder: Path) -> int | None:
    """Lock a folder until the handle that is returned is closed; None where the disk has no locks."""
    handle = os.open(folder, os.O_RDONLY)
    if try_lock(handle):
        return handle
    # `clean` gets no lock there either, and leaves everything alone.
    os.close(handle)
    return None


def try_lock(handle: int) -> bool:
    """Lock what a handle was opened on, and say whether that was possible at once."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def shorten_name(name: str) -> str:
    """Return as much of a name as leaves room for an ending.

    >>> shorten_name("release"), len(shorten_name("ü" * 127))
    ('release', 100)
    """
    while len(os.fsencode(name)) > MAX_NAME_BYTES:
        name = name[:-1]
    return name


def _discard(outer: Path) -> None:
    """Remove a hidden folder, also if a signal comes meanwhile: it may hold private rows."""
    try:
        _clear(outer)
    except BaseException:
        _clear(outer)
        raise


def _clear(outer: Path) -> None:
    shutil.rmtree(outer / CONTENT, ignore_errors=True)
    if os.path.lexists(outer / CONTENT):
        return
    # The marker goes last: without it nobody would dare to remove the rest.
    for name in (JOURNAL, MARKER):
        with suppress(OSError):
            (outer / name).unlink()
    with suppress(OSError):
        outer.rmdir()


def fill_folder(folder: Path, content: Path, *, mode: int) -> None:
    """Move the content of a hidden folder into the folder around it; take everything back if one file fails."""
    if any(path != content.parent for path in folder.iterdir()):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
    if mode != 0o777:
        # What is for the owner alone stays so, whoever may open the folder now.
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) & mode)
    files = sorted(content.iterdir(), key=lambda path: (path.name in LAST_FILES, path.name))
    _write_journal(content.parent / JOURNAL, files)
    begun = []
    try:
        for path in files:
            # Noted before it is made: a signal may come in between, and what was made must be taken back.
            begun.append(folder / path.name)
            try:
                os.close(os.open(folder / path.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                # Another run has begun to fill the folder too.
                begun.pop()
                raise
            path.rename(folder / path.name)
    except BaseException:
        for path in begun:
            path.unlink(missing_ok=True)
        raise


def find_moved_files(outer: Path) -> tuple[Path, ...] | None:
    """Return the files that an interrupted move has put around a hidden folder; None if that is not certain.

    Where every file has moved there are none: the folder is whole.
    """
    content = outer / CONTENT
    waiting = {path.name for path in content.iterdir()} if content.is_dir() else set()
    if not waiting:
        return ()
    found = []
    for name, known in _read_journal(outer / JOURNAL).items():
        path = outer.parent / name
        try:
            about = path.lstat()
        except FileNotFoundError:
            continue
        begun = name in waiting and stat.S_ISREG(about.st_mode) and about.st_size == 0
        if os.sep in name or not (begun or _identity(about) == known):
            return None
        found.append(path)
    return tuple(found)


def _write_journal(journal: Path, files: list[Path]) -> None:
    text = json.dumps({path.name: _identity(path.lstat()) for path in files})
    with journal.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read_journal(journal: Path) -> Mapping[str, list[int]]:
    """Return what a journal says; nothing where it was not finished, since no file had moved then."""
    try:
        found = json.loads(journal.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _identity(about: os.stat_result) -> list[int]:
    """Return what stays with a file under another name, and changes when it is written again."""
    return [about.st_ino, about.st_size, about.st_mtime_ns]
