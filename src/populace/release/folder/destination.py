"""Where a folder is written: tried with its real name before anything is paid for, whole or absent afterwards."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from populace.core.errors import ResourceError, UsageError
from populace.release.folder.hidden_folder import HIDDEN_NAME, fill_folder, hidden_folder

# What the smallest release takes, with its report.
MIN_FREE_BYTES = 4 * 2**20
# What is written into a folder to try it, before a run is paid for.
TRIAL_FILE, TRIAL_BYTES = "populace-trial", 4096
# A folder with both is a release.
_RELEASE_FILES = ("manifest.json", "statement.json")


def check_destination(folder: Path) -> None:
    """Refuse a folder that cannot receive a result: one is written there, under its real name, and taken back.

    Asking for permission is not enough. A read-only disk grants it, a mount point takes files and no other folder in
    its place, and names may be too long or of another encoding.
    """
    check_empty(folder)
    target = resolve_folder(folder)
    parent = next(place for place in target.parents if os.path.lexists(place))
    if parent.is_file():
        raise UsageError(
            f"{parent} is a file, not a folder.", hint="give --out a folder that does not exist yet"
        )
    with _make_parents(target, keep=False):
        there = target.is_dir()
        try:
            with atomic_folder(folder) as place:
                trial = place / TRIAL_FILE
                trial.write_bytes(b"\0" * TRIAL_BYTES)
                _sync(trial)
                # What takes its name is empty: if the process is killed just now, it is in nobody's way.
                trial.unlink()
            free = shutil.disk_usage(target).free
        finally:
            if not there:
                with suppress(OSError):
                    target.rmdir()
    if free < MIN_FREE_BYTES:
        raise ResourceError(
            f"the disk of {folder} has {free / 2**20:.1f} MiB left; a result takes {MIN_FREE_BYTES >> 20} at least.",
            hint="make room or choose another folder",
        )


def check_empty(folder: Path) -> None:
    """Refuse a folder that already holds something, so that no release is mixed with another."""
    target = resolve_folder(folder)
    try:
        if ".." in folder.parts:
            last = len(folder.parts) - folder.parts[::-1].index("..")
            if not Path(*folder.parts[:last]).is_dir():
                raise UsageError(
                    f"{folder} leads through a folder that does not exist.", hint="name the folder without .."
                )
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            raise UsageError(f"{folder} is not a folder.", hint="name a folder that does not exist yet")
        found = [path.name for path in target.iterdir()] if target.is_dir() else []
    except OSError as failure:
        raise _unwritable(folder, failure) from failure
    if found:
        hint = "name a folder that does not exist yet"
        if any(HIDDEN_NAME.fullmatch(name) for name in found):
            hint += (
                f", or let `populace clean {shlex.quote(str(folder))}` remove what a killed run left in it"
            )
        raise UsageError(f"the folder {folder} is not empty.", hint=hint)


def check_outside_release(folder: Path) -> None:
    """Refuse a folder in or inside a release: what is there gets published, and what is internal must not be."""
    place = find_release(folder)
    if place is not None:
        raise UsageError(
            f"{folder} lies in the release folder {place}, which is published as it is.",
            hint="give --out a folder elsewhere",
        )


def find_release(path: Path) -> Path | None:
    """Return the release folder that a path is or lies in, if any."""
    target = resolve_folder(path)
    for place in (target, *target.parents):
        if all((place / name).is_file() for name in _RELEASE_FILES):
            return place
    return None


def resolve_folder(folder: Path) -> Path:
    """Return a folder's own place, without links or `..` on the way; what the name itself links to is not followed."""
    try:
        if folder.name in ("", ".."):
            return Path(os.path.realpath(folder))
        return Path(os.path.realpath(folder.parent)) / folder.name
    except ValueError:
        raise UsageError(f"{str(folder)!r} cannot name a folder.", hint="give --out another name") from None


@contextmanager
def atomic_folder(folder: Path, *, mode: int = 0o777) -> Iterator[Path]:
    """Yield a hidden folder whose files become those of `folder` when all are on disk; otherwise it vanishes.

    Where there is no such folder yet, the hidden one takes its name in one step. An empty one that is there already
    may be a mount point, or stand where nothing else can be made: it is filled, with the manifest last.
    `mode` is who may open the folder, from the first, less what the umask takes away.
    """
    check_empty(folder)
    target = resolve_folder(folder)
    fills = target.is_dir()
    parent = target if fills else target.parent
    with _make_parents(target, keep=True), hidden_folder(parent, name=target.name, mode=mode) as place:
        yield place
        sync_files(place)
        if fills:
            fill_folder(target, place, mode=mode)
        else:
            # An empty folder that somebody made meanwhile is replaced; one that was filled is not.
            place.rename(target)
        _sync(parent)


@contextmanager
def _make_parents(folder: Path, *, keep: bool) -> Iterator[None]:
    """Make the folders above one, and remove those again if the work fails or if they are not to be kept."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    made = []
    try:
        for parent in reversed(missing):
            parent.mkdir()
            made.append(parent)
        yield
    except BaseException as failure:
        keep = False
        if isinstance(failure, OSError):
            raise _unwritable(folder, failure) from failure
        raise
    finally:
        for parent in () if keep else reversed(made):
            # Somebody else may use it by now.
            with suppress(OSError):
                parent.rmdir()


def sync_files(folder: Path) -> None:
    """Wait until a folder and its files are on disk."""
    for path in folder.iterdir():
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as failure:
        # Some file systems of shared folders cannot flush a folder, only what is in it.
        if not (path.is_dir() and failure.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)


def _unwritable(folder: Path, failure: OSError) -> ResourceError:
    reason = failure.strerror or "the system refuses"
    return ResourceError(
        f"{folder} could not be written: {reason}.", hint="make room or choose another folder"
    )
