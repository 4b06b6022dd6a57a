"""A ledger that is kept open for a run: what is booked is booked, whoever looks, forks or fails."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest
from ledgers import half_of, reserve

from populace.errors import LedgerError, OverBudget
from populace.privacy import ledger_file
from populace.privacy.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_every_charge_is_there_for_others_at_once(ledger):
    with ledger.kept_open():
        run = reserve(ledger)
        for number in (1, 2):
            run.charge(half_of(run))
            assert len(Ledger.existing(ledger.path).record(run.id).spends) == number


def test_one_connection_serves_all_calls(ledger, monkeypatch):
    opened = []
    connected = ledger_file._connected
    monkeypatch.setattr(ledger_file, "_connected", lambda path: opened.append(path) or connected(path))
    with ledger.kept_open():
        run = reserve(ledger)
        run.charge(half_of(run))
        run.finish()
    assert len(opened) == 1
    run.record()
    assert len(opened) == 2


def test_afterwards_one_file_is_the_whole_ledger(ledger, tmp_path):
    with ledger.kept_open():
        run = reserve(ledger)
        run.charge(half_of(run))
        assert "ledger.db-wal" in names(tmp_path)
    assert names(tmp_path) == ["ledger.db"]
    shutil.copy(ledger.path, tmp_path / "copy.db")
    assert Ledger.existing(tmp_path / "copy.db").record(run.id) == run.record()


def test_the_file_is_closed_when_a_run_fails(ledger, tmp_path):
    def fail():
        with ledger.kept_open():
            reserve(ledger)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == ["ledger.db"]
    assert len(ledger.runs("adult")) == 1


def test_a_refused_charge_leaves_nothing_and_the_next_one_works(ledger):
    with ledger.kept_open():
        run = reserve(ledger)
        run.charge(half_of(run))
        run.charge(half_of(run))
        for _ in range(2):
            with pytest.raises(OverBudget):
                run.charge(half_of(run))
        assert len(run.spends()) == 2
        run.finish()


def test_commits_of_a_kept_connection_are_flushed(ledger):
    keeper = ledger_file.Keeper()
    for _ in range(2):
        with ledger_file.transaction(ledger.path, begin="begin", keeper=keeper) as connection:
            assert connection.execute("pragma synchronous").fetchone() == (2,)
    keeper.close()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("select 1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_opens_the_file_anew_and_both_see_all(ledger):
    with ledger.kept_open():
        run = reserve(ledger)
        run.charge(half_of(run, marginals=1))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run.charge(half_of(run, marginals=2))
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert [charged.spend.answers for charged in run.spends()] == [1, 2]
        with pytest.raises(OverBudget):
            run.charge(half_of(run))


def test_a_ledger_that_is_gone_is_noticed(ledger):
    with ledger.kept_open():
        run = reserve(ledger)
        ledger.path.unlink()
        with pytest.raises(LedgerError, match="no ledger"):
            run.charge(half_of(run))


def test_nothing_is_forgotten_when_another_ledger_is_put_in_its_place(ledger, tmp_path):
    other = Ledger.open(tmp_path / "other.db")
    reserve(other, "elsewhere")
    with ledger.kept_open():
        run = reserve(ledger)
        run.charge(half_of(run))
        other.path.replace(ledger.path)
        try:
            run.charge(half_of(run))
        except LedgerError:
            return
        # SQLite carries the log of the old file into the new one.
        assert len(run.spends()) == 2
    assert len(Ledger.existing(ledger.path).record(run.id).spends) == 2
