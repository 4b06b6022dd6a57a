"""Hidden folders for what is not finished yet: one form of name, a lock and a marker, so that none is mistaken.

`.NAME.0123456789ab` holds the file `.populace`, with a text that never changes, and the folder `content`. The content
is what gets a real name, so that whatever is left behind at any moment still carries the marker.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARKER = ".populace"
MARKER_TEXT = "A run of populace writes here. If it was killed, `populace clean` removes this folder.\n"
CONTENT = "content"
# Which files of the content are on their way into a folder that was there before.
JOURNAL = "filling.json"
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
