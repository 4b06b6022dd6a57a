"""Checkpoints: a run does not read history again, and history is still what decides."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from populace.core.errors import LedgerError, OverBudget, UsageError
from populace.privacy.accounting.mechanisms import Exponential, Spend
from populace.privacy.ledger import log_replay
from populace.privacy.ledger.hash_chain import Event, EventKind, Head, seal_checkpoint
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.ledger.run_record import Adaptivity
from tests.helpers.ledgers import append_raw, half_of, reserve, rewritten, rows

A = "a" * 64


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(log_replay, "CHECKPOINT_EVERY", 5)


@pytest.fixture
def ledger(tmp_path):
    """A ledger whose checkpoint stands at row 5, after a run that is not finished, with three rows behind it."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.open_account("adult", epsilon="10", delta="1e-6")
    run = reserve(ledger)
    run.charge(half_of(run))
    for _ in range(5):
        ledger.grant("adult", epsilon="1", delta="0")
    assert checkpoint(ledger)[0] == 5
    return ledger


def checkpoint(ledger):
    with closing(sqlite3.connect(ledger.path)) as connection:
        return connection.execute("select seq, hash, state from checkpoint").fetchone()


def choice(epsilon: str) -> Spend:
    mechanism = Exponential(Fraction(epsilon))
    return Spend(verb="choose", what="1 of 2", mechanism=mechanism, answers=1, l1=1, l2_squared=1)


def test_opening_reads_only_what_follows_the_checkpoint(ledger, monkeypatch):
    read, genuine = [], LedgerState.read
    monkeypatch.setattr(LedgerState, "read", lambda books, row: (read.append(row.seq), genuine(books, row)))
    again = Ledger.existing(ledger.path)
    assert read == [6, 7, 8]
    assert again.accounts() == ledger.accounts()
    assert again.head() == ledger.head() == Head(8, rows(ledger.path)[-1].hash)
    read.clear()
    assert again.verify() == 8
    assert read == list(range(1, 9))


def test_runs_from_before_the_checkpoint_are_read_when_asked_for(ledger):
    (record,) = ledger.runs("adult")
    again = Ledger.existing(ledger.path)
    assert again.record(record.run) == record
    assert Ledger.existing(ledger.path).runs("adult") == (record,)
    assert Ledger.existing(ledger.path).releases(record.run) == ()
    with pytest.raises(LedgerError, match="does not know the run"):
        again.record("nobody")


def test_a_run_goes_on_after_a_checkpoint_and_keeps_to_its_cap(ledger):
    (record,) = ledger.runs("adult")
    spend = record.spends[0].spend
    again = Ledger.existing(ledger.path)
    again.charge(record, spend)
    with pytest.raises(OverBudget):
        Ledger.existing(ledger.path).charge(record, spend)
    Ledger.existing(ledger.path).finish(record, returned=(Fraction(0), Fraction(0)))
    for _ in range(6):
        ledger.grant("adult", epsilon="1", delta="0")
    with pytest.raises(UsageError, match="is finished"):
        Ledger.existing(ledger.path).charge(record, spend)
    booked = Ledger.existing(ledger.path).book_release(record.run, manifest=A, files={})
    for _ in range(6):
        ledger.grant("adult", epsilon="1", delta="0")
    assert Ledger.existing(ledger.path).book_release(record.run, manifest=A, files={}) == booked
    assert Ledger.existing(ledger.path).verify() == ledger.verify()


def test_the_name_of_a_run_from_before_the_checkpoint_is_taken(ledger):
    reservation = rows(ledger.path)[1]
    body = json.loads(reservation.body)
    append_raw(ledger.path, Event(kind=EventKind.RESERVE, dataset="adult", run=reservation.run, body=body))
    with pytest.raises(LedgerError, match=r"breaks the rules .*cannot start"):
        Ledger.existing(ledger.path)


@pytest.mark.parametrize(
    "statement",
    [
        "update checkpoint set seq = 4",
        "update checkpoint set seq = 'abc'",
        "update checkpoint set hash = 'x'",
        "update checkpoint set hash = x'00'",
        'update checkpoint set state = replace(state, \'"epsilon":"12"\', \'"epsilon":"99"\')',
        "update checkpoint set state = cast(state as blob)",
        "update checkpoint set seal = 'x'",
    ],
)
def test_an_altered_checkpoint_is_damage(ledger, statement):
    rewritten(ledger.path, statement)
    with pytest.raises(LedgerError, match="damaged: its checkpoint was altered"):
        Ledger.open(ledger.path)
    with pytest.raises(LedgerError, match="damaged"):
        ledger.verify()


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"accounts":[{}]}', '{"accounts":[7]}'])
def test_a_sealed_checkpoint_that_cannot_be_read_is_damage(ledger, state):
    seq, digest, _ = checkpoint(ledger)
    seal = seal_checkpoint(seq, digest, state)
    rewritten(ledger.path, "update checkpoint set state = ?, seal = ?", state, seal)
    with pytest.raises(LedgerError, match="damaged: its checkpoint cannot be read"):
        Ledger.open(ledger.path)


def test_a_checkpoint_sealed_anew_is_found_by_reading_everything(ledger):
    seq, digest, state = checkpoint(ledger)
    forged = state.replace('"epsilon":"12"', '"epsilon":"99"')
    assert forged != state
    seal = seal_checkpoint(seq, digest, forged)
    rewritten(ledger.path, "update checkpoint set state = ?, seal = ?", forged, seal)
    again = Ledger.open(ledger.path)
    assert again.account("adult").epsilon == 102, "whoever can write the file can forge it"
    with pytest.raises(LedgerError, match="checkpoint does not follow from its rows"):
        again.verify()


def test_a_checkpoint_of_another_row_is_damage(ledger):
    _, digest, state = checkpoint(ledger)
    seal = seal_checkpoint(7, digest, state)
    rewritten(ledger.path, "update checkpoint set seq = 7, seal = ?", seal)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(ledger.path)
    with pytest.raises(LedgerError, match="checkpoint does not follow from its rows"):
        ledger.verify()


@pytest.mark.parametrize("statement", ["delete from checkpoint", "drop table checkpoint"])
def test_without_its_checkpoint_a_ledger_reads_everything_and_keeps_a_new_one(ledger, statement):
    before = ledger.accounts()
    rewritten(ledger.path, statement)
    again = Ledger.open(ledger.path)
    assert again.accounts() == before
    reserve(again, epsilon="1/2")
    assert checkpoint(ledger)[0] == 9
    assert Ledger.open(ledger.path).verify() == 9


def test_rows_altered_before_the_checkpoint_are_found_by_reading_everything(ledger):
    rewritten(ledger.path, "update events set body = replace(body, '10', '99') where seq = 1")
    again = Ledger.open(ledger.path)
    with pytest.raises(LedgerError, match="row 1 was altered"):
        again.verify()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("update events set body = replace(body, 'measure', 'choose') where seq = 3", "row 3 was altered"),
        ("delete from events where seq = 2", "row 3 breaks the rules .*does not know the run"),
    ],
)
def test_rows_of_a_run_are_checked_when_it_is_read(ledger, statement, message):
    run = ledger.runs("adult")[0].run
    rewritten(ledger.path, statement)
    with pytest.raises(LedgerError, match=message):
        Ledger.open(ledger.path).record(run)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 9])
def test_verifying_in_parts_lets_runs_go_on_and_takes_in_what_they_write(ledger, monkeypatch, size):
    monkeypatch.setattr(log_replay, "PART_ROWS", size)
    monkeypatch.setattr("populace.privacy.ledger.ledger_file.WAIT_SECONDS", 0.1)
    genuine, other, sizes = log_replay.verify_parts, Ledger.existing(ledger.path), []

    def check_parts(read):
        def reading(after):
            part = read(after)
            sizes.append(len(part.rows))
            for _ in range(3 if len(sizes) < 4 and part.rows else 0):
                other.grant("adult", epsilon="1", delta="0")  # refused if the ledger were still locked
            return part

        return genuine(reading)

    monkeypatch.setattr(log_replay, "verify_parts", check_parts)
    assert ledger.verify() == other.head().seq == sum(sizes) == 17
    assert max(sizes) == min(size, 8)


def test_a_refused_change_keeps_no_checkpoint(ledger):
    ledger.grant("adult", epsilon="1", delta="0")
    before = ledger.path.read_bytes()
    with pytest.raises(OverBudget):
        reserve(ledger, epsilon="1000")
    assert ledger.path.read_bytes() == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("every", [1, 2, 7])
def test_books_from_any_checkpoint_are_those_of_all_rows(tmp_path, monkeypatch, every):
    """Random histories of three accounts, each step by a process that has read nothing before."""
    monkeypatch.setattr(log_replay, "CHECKPOINT_EVERY", every)
    rng = random.Random(every)
    path = tmp_path / "ledger.db"
    first = Ledger.open(path)
    open_runs = []
    for step in range(60):
        ledger = Ledger.open(path)
        name = rng.choice("abc")
        todo = rng.choice(["grant", "reserve", "charge", "finish", "release"])
        try:
            if todo == "grant":
                ledger.grant(name, epsilon="1/3", delta="0")
            elif todo == "reserve":
                run = reserve(
                    ledger,
                    name,
                    epsilon=f"1/{step + 2}",
                    delta="0",
                    plan=rng.choice(list(Adaptivity)),
                    rehearsal=step == 50,
                )
                open_runs.append(run.record())
            elif open_runs:
                record = rng.choice(open_runs)
                if todo == "charge":
                    ledger.charge(record, choice(f"1/{4 * step + 8}"))
                elif todo == "finish":
                    back = (
                        ledger.record(record.run).left.cap if record.plan is Adaptivity.FIXED else Fraction(0)
                    )
                    ledger.finish(record, returned=(back, Fraction(0)))
                else:
                    ledger.book_release(record.run, manifest=A, files={})
        except (OverBudget, UsageError):
            continue
    final = Ledger.open(path)
    assert final.verify() > 20
    whole = LedgerState()
    for row in rows(path):
        whole.read(row)
    assert {account.dataset: account for account in final.accounts()} == whole.accounts
    assert first.accounts() == final.accounts()
    for account in final.accounts():
        assert final.runs(account.dataset) == tuple(whole.runs[run] for run in account.runs)
        for run in account.runs:
            assert final.releases(run) == whole.releases.get(run, ())


def test_an_account_that_was_declared_void_is_so_after_a_checkpoint(ledger):
    """What was published without privacy stays published: no checkpoint brings a budget back."""
    ledger.declare_nonprivate("adult", reason="printed in full")
    after = ledger.head().seq
    ledger.open_account("other", epsilon="1", delta="0")
    for _ in range(5):
        ledger.grant("other", epsilon="1", delta="0")
    assert checkpoint(ledger)[0] > after
    again = Ledger.open(ledger.path)
    assert again.account("adult").void
    assert not again.account("other").void
    with pytest.raises(OverBudget, match="void"):
        reserve(again)
    with pytest.raises(OverBudget, match="void"):
        again.grant("adult", epsilon="1", delta="0")
