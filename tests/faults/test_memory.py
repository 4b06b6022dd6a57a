"""Real processes under limits of their address space: a right result, or exit code 4 and a hint, and soon."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from populace.privacy.ledger.ledger import Ledger
from populace.release.verify.verify import verify
from tests.helpers import small_survey

from .commands import COMMANDS, DATASET
from .templates import prepare

SECONDS = 120
LADDER = (
    40,
    60,
    80,
    120,
    160,
    240,
    320,
    400,
    500,
    600,
    800,
    1000,
    1023,
    1024,
    1050,
    1100,
    1200,
    1500,
    2000,
    3000,
)
MORE: dict[str, tuple[str, ...]] = {
    "verify": ("verify", "release"),
    "plan": ("plan", "--schema", "schema.toml", "--population", "1000", "--epsilon", "1", "--delta", "1e-6"),
    "fit": ("fit", "release", "--out", "out"),
    "generate": ("generate", "release", "--out", "out"),
    "schema": ("schema", "check", "schema.toml"),
    "inspect": ("inspect", "people.csv", "--out", "-"),
}
VERBS = {**COMMANDS, **MORE}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    prepare(folder)
    words = [word if word != "out" else "release" for word in COMMANDS["synth"]]
    assert run(words, folder / "synth", mebibytes=None).returncode == 0
    return folder


def run(words: object, folder: Path, *, mebibytes: int | None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if mebibytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (mebibytes * 2**20,) * 2)

    return subprocess.run(
        [sys.executable, "-m", "populace", *words],  # type: ignore[misc]
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        preexec_fn=limit,
    )


def check(command: str, mebibytes: int, template: Path, folder: Path) -> None:
    found = template / (command if command in COMMANDS else "synth")
    shutil.copytree(found, folder)
    before = runs(folder)
    done = run(VERBS[command], folder, mebibytes=mebibytes)
    assert done.returncode in (0, 4), (command, mebibytes, done.returncode, done.stderr[-500:])
    if done.returncode == 4:
        assert "hint: " in done.stderr
        assert runs(folder) == before or "kept in" in done.stderr, done.stderr
    if (folder / "out" / "manifest.json").exists():
        assert verify(folder / "out").passed
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


def runs(folder: Path) -> int:
    path = folder / "ledger.db"
    if not path.exists():
        return 0
    ledger = Ledger.existing(path)
    return len(ledger.runs(DATASET)) if any(a.dataset == DATASET for a in ledger.accounts()) else 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "mebibytes"),
    [("synth", 1060), ("estimate", 320), ("verify", 1024)],
)
def test_some_rungs(command: str, mebibytes: int, template: Path, tmp_path: Path) -> None:
    check(command, mebibytes, template, tmp_path / "run")


@pytest.mark.full
@pytest.mark.parametrize("mebibytes", [1060, 1300, 1600, 2000, 3000])
@pytest.mark.parametrize("verb", ["measure", "estimate"])
def test_larger_tables_fit_where_a_run_is_let_in(verb: str, mebibytes: int, tmp_path: Path) -> None:
    """An allocator that reserves a gibibyte at once left too little for the rows, after they were paid for."""
    prepare(tmp_path)
    pyarrow.parquet.write_table(small_survey.rows(600_000), tmp_path / verb / "people.parquet")
    words = [word if word != "people.csv" else "people.parquet" for word in COMMANDS[verb]]
    done = run(words, tmp_path / verb, mebibytes=mebibytes)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("command", VERBS)
def test_every_rung(command: str, template: Path, tmp_path: Path) -> None:
    for mebibytes in LADDER:
        check(command, mebibytes, template, tmp_path / f"run {mebibytes}")
