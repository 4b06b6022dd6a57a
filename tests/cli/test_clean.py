"""`populace clean` removes what interrupted runs left behind, and nothing else."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.core.errors import UsageError
from populace.privacy.ledger.ledger_file import APPLICATION_ID
from populace.release.folder import leftovers
from populace.release.folder.destination import atomic_folder, check_empty
from populace.release.folder.hidden_folder import (
    CONTENT,
    JOURNAL,
    MARKER,
    MARKER_TEXT,
    hidden_folder,
    lock_folder,
)
from tests.cli.workspace import Workspace

HEX = "0123456789ab"
LEDGER = b"SQLite format 3\0" + bytes(52) + APPLICATION_ID.to_bytes(4, "big") + bytes(40)


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything look as if nobody had touched it for a while."""
    monkeypatch.setattr(leftovers, "MIN_AGE_SECONDS", -3600.0)


def put(folder: Path, *files: str) -> Path:
    """Make a folder with files."""
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).write_text("private rows")
    return folder


def left(folder: Path, name: str, *files: str) -> Path:
    """Make a hidden folder such as a killed run leaves."""
    place = put(folder / f".{name}.{HEX}")
    (place / MARKER).write_text(MARKER_TEXT)
    put(place / CONTENT, *files)
    return place


def fates(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> dict[str, str]:
    assert main(["clean", str(folder), "--json", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    return {Path(each["path"]).name: each["fate"] for each in told["leftovers"]}


@pytest.mark.usefixtures("later")
def test_unfinished_folders_go_and_what_is_paid_for_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = left(tmp_path, "pieces", "piece-1.csv", "piece-1.toml", "piece-2.parquet")
    release = left(tmp_path, "release", "synthetic.csv", "synthetic-2.csv", "statement.json")
    measured = put(tmp_path / "release-measured", "measurements.json", "measurements.parquet")
    put(tmp_path / "release", "synthetic.csv")
    told = {pieces.name: "would remove", release.name: "would remove", measured.name: "paid for"}
    assert fates(capsys, tmp_path, "--dry-run") == told
    assert (pieces / CONTENT / "piece-1.csv").exists()
    assert main(["clean", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"removed       {pieces}: unfinished folder" in out
    assert f"`populace fit {measured} --out {measured}-model`" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release", "release-measured"]


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    "name",
    [".git", f".config.{HEX}0", ".cache.0123456789", f"pieces.{HEX}", f".{HEX}", ".populace", ".populace-x"],
)
def test_names_that_are_not_ours_are_not_even_listed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / name, "piece-1.csv", MARKER)
    (tmp_path / name / MARKER).write_text(MARKER_TEXT)
    assert fates(capsys, tmp_path) == {}
    assert (tmp_path / name / "piece-1.csv").exists()


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    ("name", "files"),
    [
        (".populace-datasets", ["people.csv"]),
        (".populace-results1", ["people.parquet", "synthetic.csv"]),
        (".populace-0123456789abcdef", ["people.csv"]),
        (f".people.{HEX}", ["people.csv"]),
        (f".people.{HEX}", ["synthetic.csv", "report.html"]),
        (f".people.{HEX}", []),
    ],
)
def test_nothing_goes_that_lacks_the_marker(
    name: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = put(tmp_path / name, *files)
    assert set(fates(capsys, tmp_path).values()) <= {"left alone"}
    assert sorted(path.name for path in place.iterdir()) == sorted(files)
    (place / MARKER).write_text(MARKER_TEXT[:-1])
    assert set(fates(capsys, tmp_path).values()) <= {"left alone"}
    assert sorted(path.name for path in place.iterdir()) == sorted([*files, MARKER])


@pytest.mark.usefixtures("later")
def test_a_folder_with_anything_else_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = left(tmp_path, "app", "piece-1.csv", "thesis.doc")
    beside = left(tmp_path, "beside", "piece-1.csv")
    (beside / "thesis.doc").write_text("mine")
    deep = left(tmp_path, "deep", "piece-1.csv")
    (deep / CONTENT / "synthetic.csv").mkdir()
    outside = put(tmp_path / "outside", "piece-1.csv")
    linked = left(tmp_path, "linked")
    (linked / CONTENT / "piece-1.csv").symlink_to(outside / "piece-1.csv")
    around = left(tmp_path, "around")
    (around / CONTENT).rmdir()
    (around / CONTENT).symlink_to(outside)
    marked = left(tmp_path, "marked", "piece-1.csv")
    (marked / MARKER).rename(outside / "marker")
    (marked / MARKER).symlink_to(outside / "marker")
    (tmp_path / f".link.{HEX}").symlink_to(mixed)
    kept = {"app", "beside", "deep", "linked", "around", "marked"}
    assert fates(capsys, tmp_path) == {f".{name}.{HEX}": "left alone" for name in kept}
    assert main(["clean", str(tmp_path)]) == 0
    assert "it holds 'thesis.doc', which populace does not write" in capsys.readouterr().out
    for place in (mixed, beside, deep, marked):
        assert (place / CONTENT / "piece-1.csv").exists()
    assert (outside / "piece-1.csv").read_text() == "private rows"
    assert (tmp_path / f".link.{HEX}").is_symlink()


@pytest.mark.usefixtures("later")
def test_a_folder_that_a_process_is_writing_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with atomic_folder(tmp_path / "pieces") as place:
        (place / "piece-1.csv").write_text("rows")
        assert fates(capsys, tmp_path) == {place.parent.name: "in use"}
    assert (tmp_path / "pieces" / "piece-1.csv").read_text() == "rows"
    held = left(tmp_path, "held", "piece-1.csv")
    lock = lock_folder(held)
    assert lock is not None
    assert fates(capsys, tmp_path) == {held.name: "in use"}
    os.close(lock)
    assert fates(capsys, tmp_path) == {held.name: "removed"}


def test_what_is_made_this_moment_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may not have had the time to lock its folder, and a ledger has no lock of ours."""
    left(tmp_path, "release")
    left(tmp_path, "pieces", "piece-1.csv")
    bare = put(tmp_path / f".bare.{HEX}")
    draft = tmp_path / ".ledger.db.0123456789abcdef"
    draft.write_bytes(LEDGER)
    draft.with_name(f"{draft.name}-journal").write_bytes(bytes(512))
    (tmp_path / ".populace-key-0123456789abcdef").write_bytes(bytes(7))
    told = fates(capsys, tmp_path)
    assert len(told) == 6
    assert set(told.values()) == {"in use"}
    monkeypatch.setattr(leftovers, "MIN_AGE_SECONDS", 0.0)
    told = fates(capsys, tmp_path)
    assert told.pop(bare.name) == "left alone"
    assert set(told.values()) == {"removed"}
    assert list(tmp_path.iterdir()) == [bare]


@pytest.mark.usefixtures("later")
def test_files_that_are_no_drafts_of_ours_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".notes.0123456789abcdef").write_text("a diary")
    (tmp_path / ".big.0123456789abcdef").write_bytes(LEDGER + bytes(2**19))
    (tmp_path / ".other.0123456789abcdef").write_bytes(b"SQLite format 3\0" + bytes(84))
    (tmp_path / ".other.0123456789abcdef-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(84))
    (tmp_path / ".other.0123456789abcdef-journal").write_bytes(bytes(16) + b"\0\0\0\1" + bytes(512))
    (tmp_path / ".populace-key-0123456789abcdef").write_bytes(bytes(64))
    assert fates(capsys, tmp_path) == {}
    assert len(list(tmp_path.iterdir())) == 6


class Killed(BaseException):
    """Stands for the end of a process that can no longer clear anything away."""


def killed_while_filling(out: Path, *files: str, after: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fill a folder that is there already, and stop for good when so many files have moved; return their names."""
    moved: list[str] = []
    rename = Path.rename

    def counted(path: Path, target: Path) -> Path:
        if len(moved) == after:
            raise Killed
        moved.append(path.name)
        return rename(path, target)

    def fill() -> None:
        with atomic_folder(out) as place:
            for name in files:
                (place / name).write_text(name)
        raise Killed

    out.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", counted)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        patched.setattr("populace.release.folder.hidden_folder._discard", lambda _: None)
        with pytest.raises(Killed):
            fill()
    return moved


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_folder_that_was_half_filled_is_emptied(
    after: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    files = ("synthetic.csv", "statement.json", "manifest.json")
    moved = killed_while_filling(out, *files, after=after, monkeypatch=monkeypatch)
    assert "manifest.json" not in moved
    (hidden,) = out.glob(".*")
    with pytest.raises(UsageError) as refusal:
        check_empty(out)
    assert f"`populace clean {out}`" in refusal.value.hint
    assert fates(capsys, tmp_path) == {}
    assert fates(capsys, out, "--dry-run") == {hidden.name: "would remove"}
    assert len(list(out.iterdir())) == after + 2
    assert fates(capsys, out) == {hidden.name: "removed"}
    assert list(out.iterdir()) == []


@pytest.mark.usefixtures("later")
def test_of_a_folder_that_was_filled_only_what_is_hidden_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    killed_while_filling(out, "piece-1.csv", "piece-1.toml", after=9, monkeypatch=monkeypatch)
    (hidden,) = out.glob(".*")
    assert (hidden / JOURNAL).exists()
    assert fates(capsys, out) == {hidden.name: "removed"}
    assert sorted(path.name for path in out.iterdir()) == ["piece-1.csv", "piece-1.toml"]


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", ["written again", "replaced", "linked", "renamed"])
def test_a_half_filled_folder_that_was_changed_since_is_listed(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    killed_while_filling(out, "piece-1.csv", "piece-1.toml", after=1, monkeypatch=monkeypatch)
    (hidden,) = out.glob(".*")
    piece = out / "piece-1.csv"
    if change == "written again":
        piece.write_text("mine, at last")
    else:
        piece.rename(out / "mine.csv")
    if change == "replaced":
        piece.write_text("another")
    elif change == "linked":
        piece.symlink_to("mine.csv")
    before = {path.name: path.lstat().st_ino for path in out.iterdir()}
    if change == "renamed":
        # Whoever gave it a name of his own keeps it; what is empty or hidden goes.
        assert fates(capsys, out) == {hidden.name: "removed"}
        assert [path.name for path in out.iterdir()] == ["mine.csv"]
    else:
        assert fates(capsys, out) == {hidden.name: "left alone"}
        assert {path.name: path.lstat().st_ino for path in out.iterdir()} == before


def test_all_that_is_paid_for_is_listed_wherever_a_run_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = Path(os.environ["XDG_STATE_HOME"]) / "populace"
    paid = [
        put(tmp_path / "here" / "a-measured", "measurements.json"),
        put(tmp_path / "here" / "a-estimates-2", "estimates.json", "manifest.json"),
        put(tmp_path / "here" / "a-answers", "answers.json"),
        put(state / "kept" / "b-measured-12", "measurements.json"),
        put(state / "c-estimates", "estimates.json"),
        put(tmp_path / "ledgers" / "d-answers", "answers.json"),
        put(Path(tempfile.gettempdir()) / "e-measured", "measurements.json"),
    ]
    put(tmp_path / "here" / "others-measured", "thermometer.csv")
    told = fates(capsys, tmp_path / "here", "--ledger", str(tmp_path / "ledgers" / "x.db"))
    assert told == {path.name: "paid for" for path in paid}
    assert main(["clean", str(tmp_path / "here")]) == 0
    out = capsys.readouterr().out
    assert f"`populace verify {paid[1]}` checks it" in out
    assert f"`populace fit {paid[3]} --out {paid[3]}-model`" in out
    assert main(["clean", str(state / "kept"), "--json"]) == 0
    told = [each["path"] for each in json.loads(capsys.readouterr().out)["leftovers"]]
    assert len(told) == len(set(told)) == 3


def test_hidden_folders_have_one_form_and_vanish(tmp_path: Path) -> None:
    with hidden_folder(tmp_path, name="survey.csv") as place:
        assert leftovers.HIDDEN_NAME.fullmatch(place.parent.name)
        assert place.parent.stat().st_mode & 0o777 == 0o700
        (place / "synthetic.csv").write_text("rows")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clean", workspace.path("none")]) == 2
    assert main(["clean", workspace.path("people.csv")]) == 2
    capsys.readouterr()
    assert main(["clean", str(workspace.folder)]) == 0
    assert "nothing was left behind" in capsys.readouterr().err
