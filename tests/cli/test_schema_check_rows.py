"""`schema check --data`: what it prints, what the ledger remembers of it, and what later statements say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.core.errors import LedgerError
from populace.privacy.ledger.hash_chain import Event, EventKind
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.ledger_state import LedgerState
from tests.cli.workspace import Workspace
from tests.helpers.ledgers import rows

SAID = "The schema was checked against the rows"


def check(workspace: Workspace, *more: str) -> int:
    words = ["schema", "check", workspace.path("schema.toml"), "--data", workspace.path("people.csv")]
    return main([*words, "--ledger", str(workspace.ledger), *more])


def test_a_look_is_booked_before_rows_are_read_and_said_in_later_statements(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert workspace.synth(out=workspace.path("before")) == 0
    assert check(workspace) == 0
    printed = capsys.readouterr()
    assert "INTERNAL" in printed.out
    assert printed.out.strip()
    assert workspace.synth(out=workspace.path("after")) == 0
    told = {
        name: json.loads((Path(workspace.path(name)) / "statement.json").read_text("utf-8"))["not_covered"]
        for name in ("before", "after")
    }
    assert not any(SAID in line for line in told["before"])
    assert any(SAID in line for line in told["after"])
    assert main(["verify", workspace.path("after")]) == 0
    booked = [row for row in rows(workspace.ledger) if row.kind == "internal look"]
    assert [set(json.loads(row.body)) for row in booked] == [{"schema_digest"}], (
        "nothing about rows is booked"
    )
    assert Ledger.existing(workspace.ledger).verify() > 0


def test_a_look_before_the_first_account_is_remembered(workspace: Workspace) -> None:
    fresh = workspace.path("fresh.db")
    words = ["schema", "check", workspace.path("schema.toml"), "--data", workspace.path("people.csv")]
    assert main([*words, "--ledger", fresh]) == 0
    for number in range(70):
        # Past a checkpoint.
        Ledger.existing(fresh).book_internal_read(f"d{number}", schema_digest="0" * 64)
    assert workspace.synth(ledger=fresh) == 0
    assert SAID in (Path(workspace.path("release")) / "statement.md").read_text("utf-8")
    assert Ledger.existing(fresh).verify() > 70


def test_a_reservation_cannot_forget_a_look(workspace: Workspace) -> None:
    assert workspace.synth() == 0
    reserving = next(row for row in rows(workspace.ledger) if row.kind == "reserve")
    books = LedgerState()
    opening = {"epsilon": "9", "delta": "1/10", "neighbours": "add-remove"}
    events = [
        Event(kind=EventKind.OPEN, dataset="people", body=opening),
        Event(kind=EventKind.INTERNAL_READ, dataset="people", body={"schema_digest": "0" * 64}),
    ]
    books.book(events)
    forgetful = Event(kind=EventKind.RESERVE, dataset="people", run="r", body=json.loads(reserving.body))
    with pytest.raises(LedgerError, match="looked at"):
        books.book([forgetful])


def test_what_is_found_goes_to_the_screen_alone(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = workspace.entries
    assert check(workspace, "--json") == 2
    assert "for the screen" in capsys.readouterr().err
    assert workspace.entries == before
    assert main(["schema", "check", workspace.path("schema.toml"), "--json"]) == 0
