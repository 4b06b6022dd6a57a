"""Files that move into a folder that was there before, one by one: what makes it whole comes last.

Before the first one moves, a journal in the hidden folder names them all, so that a move which was interrupted can be
taken back by somebody who knows nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from populace.release.folder.hidden_folder import CONTENT, JOURNAL

# These are written last: without them a folder is not whole.
LAST_FILES = ("manifest.json", "parents.json")


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
