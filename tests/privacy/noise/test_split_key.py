"""The file of a split's key: whole or not there, made by one process, and nothing else taken for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from populace.core.errors import ResourceError, UsageError
from populace.privacy.noise import split_key as partition
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.split_key import SplitKey


def kept(path: Path) -> list[int]:
    return SplitKey.load_or_draw(path, entropy=SystemEntropy()).places([b"somebody"])


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_full_disk_leaves_no_key_that_blocks_the_next_run(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        if call == "link":
            patched.setattr(os, "link", full)
        with pytest.raises(ResourceError, match="No space left"):
            kept(tmp_path / "people.key")
    assert list(tmp_path.iterdir()) == []
    assert kept(tmp_path / "people.key") == kept(tmp_path / "people.key")
    assert [path.name for path in tmp_path.iterdir()] == ["people.key"]


def test_a_disk_without_links_holds_keys_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert kept(tmp_path / "people.key") == kept(tmp_path / "people.key")
    assert (tmp_path / "people.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["people.key"]


def test_whoever_comes_second_takes_the_key_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link, first = tmp_path / "people.key", os.link, []

    def late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        first.append(kept(target))
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert kept(path) == first[0]


def test_a_key_that_was_cut_short_says_how_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "people.key"
    path.write_bytes(bytes(7))
    path.chmod(0o600)
    with pytest.raises(UsageError, match="7 of the 32 bytes") as refused:
        kept(path)
    assert "remove the file" in refused.value.hint
    assert "second split" in refused.value.hint
    assert path.read_bytes() == bytes(7)


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "large"])
def test_what_is_no_key_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "people.key"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(2**40)
        path.chmod(0o600)
    path = Path("/dev/zero") if kind == "device" else path
    with pytest.raises(UsageError, match=r"is no (regular file|key)"):
        kept(path)


def test_drafts_have_the_name_that_clean_knows() -> None:
    assert partition.DRAFT_PREFIX == ".populace-key-"
