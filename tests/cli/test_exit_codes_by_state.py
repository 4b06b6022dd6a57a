"""Once a budget is reserved no failure says that nothing was spent: exit codes follow the state, not the exception."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from populace.cli import notes
from populace.cli.main import main
from populace.core import errors
from populace.measurements.measurements import Measurements
from populace.methods.independent import INDEPENDENT
from populace.privacy.ledger import ledger_file
from populace.privacy.ledger.ledger import Ledger
from tests.cli.workspace import CANARY, Workspace

OURS = [
    errors.UsageError,
    errors.SchemaError,
    errors.DataError,
    errors.LedgerError,
    errors.ReleaseError,
    errors.OverBudget,
    errors.ResourceError,
]
FAILURES: list[tuple[BaseException, int]] = [
    *((kind("no.", hint="do"), 4) for kind in OURS),
    (errors.InternalError(), 1),
    (MemoryError(CANARY), 4),
    (OSError(28, CANARY), 4),
    (KeyboardInterrupt(), 130),
    (ValueError(CANARY), 1),
]


def failing(failure: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise failure

    return fail


@pytest.mark.parametrize(("failure", "code"), FAILURES)
def test_after_the_reservation_a_failure_says_what_was_booked(
    failure: BaseException,
    code: int,
    workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        broken = replace(INDEPENDENT, measure=failing(failure))
        patched.setattr("populace.methods.registry.METHODS", {"independent": broken})
        words = [
            *workspace.spending(),
            "--method",
            "independent",
            "--out",
            workspace.path("release"),
            "--json",
        ]
        assert main(["synth", workspace.path("people.csv"), *words]) == code
    told = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert told["exit_code"] == code
    assert f"epsilon 1 and delta 1e-6 of 'people' are booked in {workspace.ledger}" in told["error"]
    assert "nothing" not in told["error"].lower()
    assert CANARY not in str(told)
    assert len(Ledger.existing(workspace.ledger).runs("people")) == 1


def test_what_is_refused_by_the_ledger_is_not_called_booked(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert workspace.synth(epsilon="99") == 3
    assert "booked" not in capsys.readouterr().err
    assert workspace.synth(schema=workspace.path("none.toml")) == 2
    assert "booked" not in capsys.readouterr().err


@pytest.mark.parametrize("reached", [False, True])
def test_a_reservation_that_is_cut_short_is_called_booked_only_if_the_ledger_has_it(
    reached: bool, workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    append = ledger_file.append

    def fail(connection: sqlite3.Connection, row: Any) -> None:
        append(connection, row)
        if reached:
            connection.execute("commit")
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(ledger_file, "append", fail)
    assert workspace.synth() == (4 if reached else 2)
    assert ("may have been booked" in capsys.readouterr().err) is reached


def test_a_release_that_is_in_place_is_not_called_lost(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "note_balance", failing(errors.LedgerError("gone.", hint="look")))
    assert workspace.synth() == 4
    err = capsys.readouterr().err
    assert f"Nothing is lost: {workspace.path('release')} is complete." in err
    assert "kept in" not in err
    assert main(["verify", workspace.path("release")]) == 0
    assert not (workspace.folder / "release-measured").exists()


def test_when_nothing_can_be_kept_the_message_says_so(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measurements, "save", failing(OSError(28, "full")))
    assert workspace.synth() == 4
    assert "could not be kept: no folder could be written" in capsys.readouterr().err
