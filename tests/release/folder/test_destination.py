"""A folder is tried with its real name before anything is paid for, and is whole or absent afterwards."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from populace.core.errors import ResourceError, UsageError
from populace.release.folder import destination
from populace.release.folder.destination import atomic_folder, check_destination

NAMES = ["out", "out/", "new/deeper/still", "x" * 250, "ü" * 125, os.fsdecode(b"caf\xe9"), "there/../out"]


def write(folder: Path, *files: str) -> None:
    with atomic_folder(folder) as place:
        for name in files or ("a.txt", "manifest.json"):
            (place / name).write_text(name)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", NAMES)
def test_what_can_be_written_is_tried_and_taken_back(name: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    check_destination(tmp_path / name)
    assert tree(tmp_path) == ["there"]
    write(tmp_path / name)
    assert tree(tmp_path / name) == ["a.txt", "manifest.json"]
    assert not [path for path in tree(tmp_path) if path.startswith(".")]


@pytest.mark.parametrize("name", ["x" * 256, "x" * 256 + "/out"])
def test_a_name_that_no_disk_takes_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="could not be written"):
        check_destination(tmp_path / name)
    assert tree(tmp_path) == []


@pytest.mark.parametrize("name", ["there/..", "there/../there/..", "."])
def test_dots_lead_to_the_folder_they_mean(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="not empty"):
        check_destination(Path(name))
    assert tree(tmp_path) == ["there"]
    for missing in ("new/..", "new/../out"):
        with pytest.raises(UsageError, match="does not exist"):
            check_destination(Path(missing))
    (tmp_path / "there" / "in").mkdir()
    check_destination(Path("there/in/../in"))
    write(Path("there/in/../in"))
    assert tree(tmp_path / "there" / "in") == ["a.txt", "manifest.json"]


def test_an_empty_folder_is_filled_and_stays_the_same_folder(tmp_path: Path) -> None:
    """A mount point cannot be replaced, nor anything under a parent that takes no names."""
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o751)
    before = out.stat()
    check_destination(out)
    write(out)
    assert (out.stat().st_ino, out.stat().st_mode) == (before.st_ino, before.st_mode)
    assert tree(tmp_path) == ["out", "out/a.txt", "out/manifest.json"]


def test_an_empty_folder_is_filled_where_nothing_can_be_made_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    mkdir, rename = Path.mkdir, Path.rename

    def refuse_beside(self: Path, *args: object, **options: object) -> None:
        if self.parent == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied")
        mkdir(self, *args, **options)

    def refuse_replacing(self: Path, target: Path) -> Path:
        if target == out:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(self, target)

    monkeypatch.setattr(Path, "mkdir", refuse_beside)
    monkeypatch.setattr(Path, "rename", refuse_replacing)
    check_destination(out)
    write(out)
    assert tree(tmp_path) == ["out", "out/a.txt", "out/manifest.json"]
    with pytest.raises(ResourceError, match="denied"):
        check_destination(tmp_path / "other")


def test_a_folder_that_is_filled_gets_its_manifest_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, moved = tmp_path / "out", []
    out.mkdir()
    rename = Path.rename

    def noted(self: Path, target: Path) -> Path:
        moved.append(self.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", noted)
    write(out, "manifest.json", "z.txt", "a.txt")
    assert moved == ["a.txt", "z.txt", "manifest.json"]


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_folder_that_cannot_be_filled_is_left_empty(
    failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    rename = Path.rename

    def second_fails(self: Path, target: Path) -> Path:
        if self.name == "manifest.json":
            raise failure
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises((ResourceError, KeyboardInterrupt)):
        write(out)
    assert tree(tmp_path) == ["out"]


def test_a_signal_between_two_calls_leaves_no_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    opened = os.open

    def interrupted(path: str | Path, flags: int, *more: int, **others: int | None) -> int:
        handle = opened(path, flags, *more, **others)
        if flags & os.O_EXCL and Path(path).parent == out:
            raise KeyboardInterrupt
        return handle

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(out)
    assert tree(tmp_path) == ["out"]


@pytest.mark.parametrize("there", [False, True])
def test_of_two_runs_for_one_folder_one_fails_and_mixes_nothing(there: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()

    def both() -> None:
        with atomic_folder(out) as place:
            (place / "mine.txt").write_text("mine")
            out.mkdir(exist_ok=True)
            (out / "theirs.txt").write_text("theirs")

    with pytest.raises(ResourceError):
        both()
    assert [path.name for path in out.iterdir()] == ["theirs.txt"]


def test_what_is_for_the_owner_alone_is_so_in_a_folder_that_was_open(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o755)
    with atomic_folder(out, mode=0o700) as place:
        (place / "piece.csv").write_text("private")
        assert place.stat().st_mode & 0o777 == 0o700
    assert out.stat().st_mode & 0o777 == 0o700


def test_folders_above_are_not_left_behind_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "a" / "b" / "out"):
        raise KeyboardInterrupt
    assert tree(tmp_path) == []


def test_a_disk_without_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "MIN_FREE_BYTES", 2**80)
    with pytest.raises(ResourceError, match="MiB left"):
        check_destination(tmp_path / "out")
    assert tree(tmp_path) == []


def test_a_disk_that_cannot_flush_folders_takes_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def files_only(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", files_only)
    write(tmp_path / "out")
    assert tree(tmp_path / "out") == ["a.txt", "manifest.json"]
