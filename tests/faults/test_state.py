"""Whoever looks for broken promises sees them: each is planted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from populace.cli.main import main

from .commands import COMMANDS
from .state import look_at
from .templates import prepare


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare(tmp_path, commands=("measure",))
    monkeypatch.chdir(tmp_path / "measure")
    monkeypatch.setattr("populace.release.folder.leftovers.MIN_AGE_SECONDS", 0.0)
    assert main(COMMANDS["measure"]) == 0
    return tmp_path / "measure"


def wrong(folder: Path, *, code: int = 4, mode: str = "once", told: str = "", answered: bool = True) -> str:
    found = look_at(folder, command="measure", code=code, mode=mode, told=told, answered=answered)
    return str(found["wrong"])


def test_every_broken_promise_is_seen(measured: Path) -> None:
    assert wrong(measured, code=0) == "[]"
    assert "exit 2 with a budget reserved" in wrong(measured, code=2)
    assert "exit 1" in wrong(measured, code=1)
    assert "exit 4" in wrong(measured, code=4, mode="terminated")
    assert "traceback" in wrong(measured, told="Traceback (most recent call last)")
    assert "nothing is kept in none" in wrong(measured, told=f"kept in {measured / 'none'}.")
    (measured / ".other").mkdir()
    assert "left behind" in wrong(measured)
    assert "not found by clean" in wrong(measured, code=-9, mode="killed")
    (measured / ".other").rmdir()
    (measured / "out").rename(measured / "out-measured")
    assert wrong(measured) == "[]"
    assert "without a result" in wrong(measured, code=0)
    with (measured / "out-measured" / "measurements.parquet").open("ab") as file:
        file.write(b"more")
    assert "what is kept is refused" in wrong(measured)
    (measured / "out-measured").rename(measured / "out")
    assert "half a result" in wrong(measured)
    (measured / "out").rename(measured / "gone")
    assert "neither result nor measurements" in wrong(measured)
    assert "lost without a word" in wrong(measured, mode="from then on")
    assert wrong(measured, answered=False) == "[]"
    assert wrong(measured, mode="from then on", told="it could not be kept") == "[]"


def test_a_result_that_is_not_booked_is_seen(measured: Path) -> None:
    prepare(measured / "again", commands=("measure",))
    (measured / "ledger.db").unlink()
    (measured / "again" / "measure" / "ledger.db").rename(measured / "ledger.db")
    assert "not booked" in wrong(measured, code=0)
    (measured / "ledger.db").write_bytes(b"SQLite format 3\0")
    assert "the ledger is refused" in wrong(measured, code=0)
