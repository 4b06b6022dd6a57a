"""A finished file gets its name: whole or not at all, and only if the name is free."""

from __future__ import annotations

import os
from pathlib import Path


def publish_file(draft: Path, path: Path) -> None:
    """Give a finished draft its name, in a way that fails if the name is taken, and flush the folder."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        _copy_file(draft, path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _copy_file(draft: Path, path: Path) -> None:
    """Publish a draft where there are no hard links; a crash here leaves a file that its reader refuses."""
    mode = draft.stat().st_mode & 0o777
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as target:
        try:
            target.write(draft.read_bytes())
            target.flush()
            os.fsync(target.fileno())
        except BaseException:
            path.unlink()
            raise
