"""Where a ledger lies: what its directory entry must be, before SQLite opens the file.

SQLite keeps the journal of a file beside the name by which it was opened. A file with two names has two journals, and
a process that uses one name does not see what a crash left beside the other. So a ledger has one name.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from populace.core.errors import LedgerError, ResourceError
from populace.privacy.ledger.hash_chain import damage_error

Identity = tuple[int, int]
_MOUNTS = Path("/proc/self/mountinfo")


def check_file(path: Path) -> Identity:
    """Refuse a path that cannot be a ledger, by its directory entry alone, and return which file it is.

    The file is not opened here: closing it again would drop the locks that SQLite holds in this process.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise LedgerError(
            f"there is no ledger at {path}.",
            hint="check the path; for a dataset without earlier runs `populace ledger init` makes one",
        ) from None
    except OSError as failure:
        raise ResourceError(
            f"{path} cannot be reached ({failure.strerror}).", hint="check the path and its permissions"
        ) from failure
    if not stat.S_ISREG(status.st_mode):
        raise not_a_ledger_error(path)
    if status.st_size == 0:
        raise damage_error(f"{path} is empty")
    if status.st_nlink > 1 and status.st_nlink - len(drafts_of(path)) > 1:
        raise LedgerError(
            f"the ledger {path} has {status.st_nlink} names (hard links): each would keep a journal of its own.",
            hint=f"find the others with `find FOLDER -samefile {path.name}` and delete all but one; "
            "symbolic links may be used instead",
        )
    if is_mount_point(path, device=status.st_dev):
        raise LedgerError(
            f"the ledger {path} is mounted as a single file: its journal would lie apart from it.",
            hint="mount the folder that holds the ledger, and give the path inside it",
        )
    return status.st_dev, status.st_ino


def check_same(path: Path, identity: Identity) -> None:
    """Refuse to go on when another file took the place of the one that was opened."""
    with suppress(OSError):
        status = path.stat()
        if (status.st_dev, status.st_ino) == identity:
            return
    raise damage_error(f"{path} was replaced or removed while it was in use")


def is_mount_point(path: Path, *, device: int) -> bool:
    """Say whether a file itself is mounted, as containers do with single files."""
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:
        # No list of mounts here: a file of another device than its folder's came there by a mount.
        return device != path.parent.stat().st_dev
    own = os.fsencode(path)
    # In the list of mounts, spaces and backslashes stand as octal numbers.
    places = [line.split(b" ")[4] for line in mounts if line.count(b" ") > 4]
    return own in [
        re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), place) for place in places
    ]


def drafts_of(path: Path) -> list[Path]:
    """Return names of this very file that its creation left when it was cut short, just after the file had its own."""
    draft = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}")
    try:
        return [
            entry for entry in path.parent.iterdir() if draft.fullmatch(entry.name) and entry.samefile(path)
        ]
    except OSError:
        return []


def remove_drafts(path: Path) -> None:
    """Remove what the creation of this file left when it was cut short."""
    with suppress(OSError):
        for draft in drafts_of(path) if path.stat().st_nlink > 1 else ():
            draft.unlink(missing_ok=True)


def not_a_ledger_error(path: Path) -> LedgerError:
    """Return the refusal for a file that is something else."""
    return LedgerError(
        f"{path} is not a ledger.",
        hint="give the ledger that holds the earlier runs on these people; a new one would forget them",
    )
