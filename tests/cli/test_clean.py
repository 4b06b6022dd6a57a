"""`populace clean` removes what interrupted runs left behind, and nothing else."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.release import leftovers
from populace.release.destination import becoming
from populace.release.leftovers import hold

from .desk import Desk

HEX = "0123456789ab"


def left(folder: Path, name: str, *files: str) -> Path:
    """Make a folder such as a killed run leaves."""
    place = folder / name
    place.mkdir()
    for file in files:
        (place / file).write_text("private rows")
    return place


def old(path: Path) -> Path:
    """Let a file look as if nobody had touched it for an hour."""
    os.utime(path, (time.time() - 3600,) * 2)
    return path


def fates(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> dict[str, str]:
    assert main(["clean", str(folder), "--json", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    return {Path(each["path"]).name: each["fate"] for each in told["leftovers"]}


def test_unfinished_folders_go_and_what_is_paid_for_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = left(tmp_path, f".pieces.{HEX}", "piece-1.csv", "piece-1.toml", "piece-2.parquet")
    release = left(tmp_path, f".release.{HEX}", "synthetic.csv", "synthetic-2.csv", "statement.json")
    measured = left(tmp_path, "release-measured", "measurements.json", "measurements.parquet")
    left(tmp_path, "release", "synthetic.csv")
    told = {pieces.name: "would remove", release.name: "would remove", measured.name: "paid for"}
    assert fates(capsys, tmp_path, "--dry-run") == told
    assert pieces.exists()
    assert main(["clean", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"removed       {pieces}: unfinished folder" in out
    assert f"`populace fit {measured} --out model`" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release", "release-measured"]


@pytest.mark.parametrize(
    "name",
    [".git", f".config.{HEX}0", ".cache.0123456789", f"pieces.{HEX}", f".{HEX}", ".populace", ".populace-x"],
)
def test_names_that_are_not_ours_are_not_even_listed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left(tmp_path, name, "piece-1.csv")
    assert fates(capsys, tmp_path) == {}
    assert (tmp_path / name / "piece-1.csv").exists()


def test_a_folder_with_anything_else_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = left(tmp_path, f".app.{HEX}", "piece-1.csv", "thesis.doc")
    deep = left(tmp_path, f".deep.{HEX}", "piece-1.csv")
    (deep / "synthetic.csv").mkdir()
    outside = tmp_path / "outside.csv"
    outside.write_text("mine")
    linked = left(tmp_path, f".linked.{HEX}")
    (linked / "piece-1.csv").symlink_to(outside)
    (tmp_path / f".link.{HEX}").symlink_to(mixed)
    assert set(fates(capsys, tmp_path).values()) == {"left alone"}
    assert (mixed / "piece-1.csv").exists()
    assert (deep / "piece-1.csv").exists()
    assert outside.read_text() == "mine"
    assert (tmp_path / f".link.{HEX}").is_symlink()


def test_a_folder_that_a_process_is_writing_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with becoming(tmp_path / "pieces") as place:
        (place / "piece-1.csv").write_text("rows")
        assert fates(capsys, tmp_path) == {place.name: "in use"}
    assert (tmp_path / "pieces" / "piece-1.csv").read_text() == "rows"
    held = left(tmp_path, f".held.{HEX}", "piece-1.csv")
    lock = hold(held)
    assert lock is not None
    assert fates(capsys, tmp_path) == {held.name: "in use"}
    os.close(lock)
    assert fates(capsys, tmp_path) == {held.name: "removed"}


def test_what_is_made_this_moment_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may not have had the time to lock its folder, and a ledger has no lock of ours."""
    left(tmp_path, f".release.{HEX}")
    left(tmp_path, ".populace-0123456789abcdef")
    draft = tmp_path / ".ledger.db.0123456789abcdef"
    draft.write_bytes(b"SQLite format 3\0" + bytes(84))
    (tmp_path / ".populace-key-0123456789abcdef").write_bytes(bytes(7))
    assert set(fates(capsys, tmp_path).values()) == {"in use"}
    monkeypatch.setattr(leftovers, "MOMENT_SECONDS", 0.0)
    assert set(fates(capsys, tmp_path).values()) == {"removed"}
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_only_tried_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is killed while it tries its folder leaves it under its real name, in the way of the next run."""
    tried, used = left(tmp_path, "release"), left(tmp_path, "mine", "notes.txt")
    for folder in (tried, used):
        (folder / leftovers.TRIAL).write_bytes(bytes(leftovers.TRIAL_BYTES))
    assert fates(capsys, tmp_path) == {"release": "removed"}
    assert sorted(path.name for path in used.iterdir()) == ["notes.txt", leftovers.TRIAL]


def test_files_that_are_no_drafts_of_ours_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "MOMENT_SECONDS", 0.0)
    (tmp_path / ".notes.0123456789abcdef").write_text("a diary")
    (tmp_path / ".big.0123456789abcdef").write_bytes(b"SQLite format 3\0" + bytes(2**19))
    (tmp_path / ".populace-key-0123456789abcdef").write_bytes(bytes(64))
    assert fates(capsys, tmp_path) == {}
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_is_not_there_is_refused(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", desk.path("none")]) == 2
    assert main(["clean", desk.path("people.csv")]) == 2
    capsys.readouterr()
    assert main(["clean", str(desk.folder)]) == 0
    assert "nothing was left behind" in capsys.readouterr().err
