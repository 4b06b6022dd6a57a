"""Signals and closed streams of real processes: nothing private is left behind, and nobody sees a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.release.folder import leftovers

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "populace")
SCHEMA = """
[table]
dataset = "people"
unit = "person"
id = "who"
rows_per_unit = 1

[columns.a]
kind = "integer"
min = 0
max = 9
"""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    rng = random.Random(4)
    rows = "".join(f"p{number},{rng.randrange(10)}\n" for number in range(60_000))
    (tmp_path / "people.csv").write_text("who,a\n" + rows)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def splitting(town: Path, out: str, **options: object) -> subprocess.Popen[bytes]:
    words = ["--schema", "schema.toml", "--shares", "1/2,1/2", "--key", "people.key", "--out", out]
    return subprocess.Popen(
        [*COMMAND, "split", "people.csv", *words],
        cwd=town,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )


def hidden(town: Path) -> list[str]:
    return [path.name for path in town.iterdir() if path.name.startswith(".")]


def stopped_while_writing(town: Path, out: str, sent: signal.Signals) -> tuple[int, str]:
    """Send a signal when the hidden folder of pieces is there."""
    child = splitting(town, out)
    until = time.monotonic() + 60
    while not hidden(town) and child.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    child.send_signal(sent)
    _, told = child.communicate(timeout=60)
    return child.returncode, told.decode()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_stopped_split_leaves_no_rows(sent: signal.Signals, town: Path) -> None:
    kept = shutil.copytree(town, town.with_name(f"kept-{sent}"))
    for attempt in range(10):
        # A split that is quicker than the signal is tried again, in a folder of its own.
        town = shutil.copytree(kept, town.with_name(f"{sent}-{attempt}"))
        code, told = stopped_while_writing(town, "pieces", sent)
        if code != 0:
            break
    assert code == 128 + sent
    assert "error: interrupted." in told
    assert "Traceback" not in told
    assert hidden(town) == []
    assert not (town / "pieces").exists()


def test_what_a_killed_split_leaves_is_found_by_clean(
    town: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = shutil.copytree(town, town.with_name("kept"))
    for attempt in range(10):
        # A split that is quicker than the signal is tried again, in a folder of its own.
        town = shutil.copytree(kept, town.with_name(f"attempt-{attempt}"))
        code, _ = stopped_while_writing(town, "pieces", signal.SIGKILL)
        assert code == -signal.SIGKILL
        if hidden(town):
            break
    (place,) = hidden(town)

    def fate() -> str:
        assert main(["clean", str(town), "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["leftovers"]
        return str(found["fate"])

    assert fate() == "in use"
    monkeypatch.setattr(leftovers, "MIN_AGE_SECONDS", 0.0)
    # Killed before its marker was written, a folder is not surely ours, and holds nothing.
    assert fate() == "removed" or not any(path.stat().st_size for path in (town / place).iterdir())


def test_an_interruption_at_any_moment_shows_no_traceback(town: Path) -> None:
    code = "import populace.cli.start as start; print('up', flush=True); start.run()"
    words = ["schema", "check", "schema.toml"]
    for number in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=town,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.04 * number)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode in (0, 130), told
        assert "Traceback" not in told


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_closed_and_full_streams(closed: str, town: Path) -> None:
    words = f"{sys.executable} -m populace ledger init --dataset d --epsilon 1 --delta 0 --ledger {town}/l.db {closed}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, cwd=town, check=False)
    assert done.returncode == (4 if closed == ">/dev/full" else 0), done.stderr
    assert "Traceback" not in done.stderr
    assert main(["ledger", "verify", "--ledger", str(town / "l.db")]) == 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_pipe_that_nobody_reads(stream: str, town: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [
        "ledger",
        "init",
        "--dataset",
        "d",
        "--epsilon",
        "1",
        "--delta",
        "0",
        "--ledger",
        str(town / "l.db"),
    ]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | {stream: write}
    assert subprocess.run([*COMMAND, *words], check=False, **streams).returncode == 0  # type: ignore[call-overload]
    os.close(write)


def test_ascii_terminals_get_words(town: Path) -> None:
    done = subprocess.run(
        [
            *COMMAND,
            "plan",
            "--schema",
            "schema.toml",
            "--population",
            "1000",
            "--epsilon",
            "1",
            "--delta",
            "1e-9",
        ],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        cwd=town,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    done.stdout.decode("ascii")
    done.stderr.decode("ascii")
