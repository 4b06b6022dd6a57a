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
    assert [set(json.loads(row.body)) for row in booked] == [{"schema_digest", "columns"}], (
        "nothing about rows is booked"
    )
    assert Ledger.existing(workspace.ledger).verify() > 0


def test_a_look_before_the_first_account_is_remembered(workspace: Workspace) -> None:
    fresh = workspace.path("fresh.db")
    words = ["schema", "check", workspace.path("schema.toml"), "--data", workspace.path("people.csv")]
    assert main([*words, "--ledger", fresh]) == 0
    for number in range(70):
        # Past a checkpoint.
        Ledger.existing(fresh).book_internal_read(f"d{number}", schema_digest="0" * 64, columns="0" * 64)
    assert workspace.synth(ledger=fresh) == 0
    assert SAID in (Path(workspace.path("release")) / "statement.md").read_text("utf-8")
    assert Ledger.existing(fresh).verify() > 70


def test_another_name_and_an_edited_domain_do_not_undo_a_look(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(workspace, "--dataset", "looked-at") == 0
    schema = Path(workspace.path("schema.toml"))
    schema.write_text(schema.read_text("utf-8") + '\n[columns.more]\nkind = "categorical"\nvalues = ["1"]\n')
    data = Path(workspace.path("people.csv"))
    first, *others = data.read_text("utf-8").splitlines()
    data.write_text("\n".join([f"{first},more", *(f"{line},1" for line in others)]), "utf-8")
    assert workspace.synth(out=workspace.path("others")) == 0, (
        "other columns: another table, as far as anybody knows"
    )
    assert SAID not in (Path(workspace.path("others")) / "statement.md").read_text("utf-8")
    assert check(workspace, "--dataset", "looked-at") == 0
    schema.write_text(schema.read_text("utf-8").replace('values = ["1"]', 'values = ["1", "2"]'))
    capsys.readouterr()
    assert workspace.synth(dataset="another", out=workspace.path("edited")) == 0
    assert SAID in (Path(workspace.path("edited")) / "statement.md").read_text("utf-8")
    assert "WARNING: 'another' is a new account, and there are other accounts with the same columns" in (
        capsys.readouterr().err
    )


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


HOURS = '[columns.hours]\nkind = "integer"\nmin = 0\nmax = 80\n'


@pytest.mark.parametrize(
    ("cells", "hint", "not_named"),
    [
        (["-9", "216145"], "missing codes that are not declared? '-9'; for other values", "216145"),
        (["99", "999", "98"], "missing codes that are not declared? '98', '99', '999'", "for other"),
        (["216145"], "the range is too narrow", "missing codes"),
        (["90", "100"], "the range is too narrow", "missing codes"),
    ],
)
def test_real_values_beyond_the_range_are_not_taken_for_missing_codes(
    cells: list[str],
    hint: str,
    not_named: str,
    workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workspace.write("schema.toml", '[table]\ndataset = "people"\nunit = "person"\n' + HOURS)
    workspace.write("people.csv", "hours\n" + "40\n" * 20 + "\n".join(cells) + "\n")
    assert check(workspace) == 0
    printed = capsys.readouterr().out
    assert hint in printed
    assert not_named not in printed


def test_the_ledger_lists_looks_at_an_account(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    show = ["ledger", "show", "--dataset", "people", "--ledger", str(workspace.ledger)]
    assert main(show) == 0
    assert "look" not in capsys.readouterr().out
    assert check(workspace) == 0
    assert check(workspace, "--dataset", "others") == 0
    for number in range(70):
        # Past a checkpoint.
        Ledger.existing(workspace.ledger).book_internal_read(
            f"d{number}", schema_digest="0" * 64, columns="0" * 64
        )
    booked = [
        row for row in rows(workspace.ledger) if row.kind == "internal look" and row.dataset == "people"
    ]
    assert len(booked) == 1
    capsys.readouterr()
    assert main(show) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "internal look" in line]
    assert booked[0].hash[:16] in line
    assert main([*show, "--json"]) == 0
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    digest = json.loads(booked[0].body)["schema_digest"]
    assert account["internal_looks"] == [{"entry": booked[0].hash, "schema": digest}]
