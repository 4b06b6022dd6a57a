"""What would fail in the end fails before anything is paid for, or does not fail: folders, names and races."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from populace.api import publish, safety_net
from populace.api import synthesize as synthesize_api
from populace.cli.main import main
from populace.core.errors import ResourceError
from populace.measurements.measurements import Measurements
from populace.methods.independent import INDEPENDENT
from tests.cli.workspace import Workspace

NAMES = ["x" * 250, os.fsdecode(b"caf\xe9"), "new/deeper/still", "there", "there/../late"]


def run(verb: str, workspace: Workspace, out: str) -> int:
    words = [*workspace.spending(), "--method", "independent", "--out", out]
    return main([verb, workspace.path("people.csv"), *words, *(["--no-report"] if verb == "synth" else [])])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_odd_folders_hold_what_was_paid_for(
    name: str,
    workspace: Workspace,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the end they hold the release, or, where that fails, there is a folder that holds the measurements."""
    (workspace.folder / "there").mkdir()
    assert run("measure", workspace, name) == 0
    assert Measurements.load(workspace.folder / name).record.finished
    shutil.rmtree(workspace.folder / name)
    monkeypatch.setattr(synthesize_api, "fit", None)
    assert run("synth", workspace, name) == 1
    beside = Path(os.path.realpath(name)).parent
    (kept,) = beside.glob("*-measured")
    assert Measurements.load(kept).record.finished
    assert b"kept in" in capfdbinary.readouterr().err


@pytest.mark.parametrize("verb", ["synth", "measure"])
@pytest.mark.parametrize("name", ["x" * 256, "new/..", "new/../late", "people.csv/out"])
def test_folders_that_cannot_be_are_refused_before_anything_is_paid_for(
    name: str, verb: str, workspace: Workspace
) -> None:
    before, entries = sorted(workspace.folder.iterdir()), workspace.entries
    assert run(verb, workspace, name) in (2, 4)
    assert workspace.entries == entries
    assert sorted(workspace.folder.iterdir()) == before


@pytest.mark.parametrize("verb", ["synth", "measure"])
def test_a_run_that_is_refused_leaves_no_folder(verb: str, workspace: Workspace) -> None:
    before = sorted(workspace.folder.iterdir())
    words = [*workspace.spending(), "--epsilon", "99", "--out", "new/deeper/still"]
    assert main([verb, workspace.path("people.csv"), *words]) == 3
    assert sorted(workspace.folder.iterdir()) == before


def test_without_a_place_to_keep_what_is_paid_for_nothing_is_paid(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, tried = workspace.entries, safety_net.check_destination

    def beside_refused(folder: Path) -> None:
        if "measured" in folder.name:
            raise ResourceError("full.", hint="make room")
        tried(folder)

    monkeypatch.setattr(safety_net, "check_destination", beside_refused)
    assert run("synth", workspace, workspace.path("release")) == 4
    assert "no place to keep" in capsys.readouterr().err
    assert workspace.entries == entries


def test_a_race_for_one_folder_loses_no_measurements(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, measured = workspace.folder / "out", publish.measure_request

    def overtaken(*args: object, **options: object) -> Measurements:
        found = measured(*args, **options)
        out.mkdir()
        (out / "theirs").write_text("theirs")
        return found

    monkeypatch.setattr(publish, "measure_request", overtaken)
    assert run("measure", workspace, str(out)) == 4
    assert f"kept in {workspace.folder / 'out-measured'}" in capsys.readouterr().err
    assert Measurements.load(workspace.folder / "out-measured").record.finished
    assert [path.name for path in out.iterdir()] == ["theirs"]


@pytest.mark.parametrize("verb", ["synth", "measure"])
def test_a_signal_between_the_last_answer_and_the_first_file_loses_nothing(
    verb: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = publish.measure_request

    def interrupted(*args: object, **options: object) -> Measurements:
        measured(*args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(publish, "measure_request", interrupted)
    assert run(verb, workspace, "out") == 130
    assert Measurements.load(workspace.folder / "out-measured").record.finished


def test_a_second_signal_does_not_disturb_the_keeping(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    keep = safety_net.SafetyNet.keep

    def disturbed(self: safety_net.SafetyNet) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        keep(self)

    monkeypatch.setattr(safety_net.SafetyNet, "keep", disturbed)
    broken = replace(INDEPENDENT, measure=lambda *_, **__: 1 / 0)
    monkeypatch.setattr("populace.methods.registry.METHODS", {"independent": broken})
    monkeypatch.setattr(safety_net.SafetyNet, "_writers", lambda *_: ())
    assert run("measure", workspace, "out") == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


MOUNTED = """
set -e
mkdir volume && mount -t tmpfs -o size=64m none volume
"$@" --out volume
test -f volume/manifest.json
"$PYTHON" -c "from populace.cli.main import run; run()" verify volume
"""


@pytest.mark.slow
def test_a_mount_point_is_filled(workspace: Workspace) -> None:
    """A volume of a container: an empty folder that nothing can take the place of."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"], check=False).returncode:
        pytest.skip("mounting needs a namespace of its own, which this machine does not permit")
    synth = [sys.executable, "-c", "from populace.cli.main import run; run()", "synth", "people.csv"]
    words = [*workspace.spending(), "--method", "independent", "--no-report"]
    ended = subprocess.run(
        [unshare, "-m", "sh", "-c", MOUNTED, "sh", *synth, *words],
        cwd=workspace.folder,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert not list(workspace.folder.glob("*measured*"))
