"""The ledger's file: what every kind of damage, crowd or bad disk leads to."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from populace.core.errors import LedgerError, OverBudget, ResourceError
from populace.privacy.ledger import ledger_file
from populace.privacy.ledger.hash_chain import GENESIS, Event, EventKind, seal_event, seal_head
from populace.privacy.ledger.ledger import Ledger, default_ledger_path
from tests.helpers.ledgers import append_raw, half_of, reserve, rewritten, rows


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


class TestDamage:
    @pytest.fixture
    def path(self, ledger):
        run = reserve(ledger)
        run.charge(half_of(run))
        run.finish()
        assert Ledger.existing(ledger.path).verify() == 4
        return ledger.path

    @pytest.mark.parametrize(
        "statement",
        [
            'update events set body = replace(body, \'"epsilon":"1"\', \'"epsilon":"2"\') where seq = 1',
            "update events set dataset = 'other' where seq = 2",
            "update events set run = null where seq = 3",
            "update events set kind = 'grant' where seq = 1",
            "update events set hash = 'x' where seq = 2",
            "update events set previous = hash where seq = 3",
            "update events set body = x'ff' where seq = 3",
            "update events set body = '' where seq = 3",
            "delete from events where seq = 4",
            "delete from events where seq = 2",
            "delete from events where seq = 1",
            "delete from events",
            "update events set seq = 9 where seq = 4",
            "update head set seq = 3",
            "update head set hash = 'x'",
            "update head set seal = 'x'",
            "delete from head",
            "drop table head",
            "drop table events",
            "pragma application_id = 7",
            "pragma user_version = 2",
            "insert into events select 5, kind, dataset, run, body, hash, 'y' from events where seq = 4",
        ],
    )
    def test_every_change_is_noticed(self, path, statement):
        open_before = Ledger.existing(path)
        rewritten(path, statement)
        with pytest.raises(LedgerError, match=r"\nhint: "):
            Ledger.open(path)
        with pytest.raises(LedgerError):
            open_before.verify()

    def test_a_ledger_in_use_notices_rows_that_vanish(self, path):
        ledger = Ledger.existing(path)
        last = rows(path)[2]
        rewritten(path, "delete from events where seq = 4")
        rewritten(path, "update head set seq = 3, hash = ?, seal = ?", last.hash, seal_head(3, last.hash))
        with pytest.raises(LedgerError, match="rows that were there before"):
            ledger.accounts()

    def test_what_cannot_be_noticed(self, path):
        # A shorter log with a head record made for it is what an older copy of the file looks like.
        last = rows(path)[2]
        run = Ledger.existing(path).runs("adult")[0]
        rewritten(path, "delete from events where seq = 4")
        rewritten(path, "update head set seq = 3, hash = ?, seal = ?", last.hash, seal_head(3, last.hash))
        again = Ledger.open(path)
        assert again.verify() == 3
        assert again.record(run.run).digest != run.digest, "but the digest in a release tells"

    def test_sqlite_itself_keeps_events(self, path):
        with closing(sqlite3.connect(path)) as connection:
            for statement in ("delete from events", "update events set kind = 'grant'"):
                with pytest.raises(sqlite3.IntegrityError):
                    connection.execute(statement)

    @pytest.mark.parametrize(
        ("event", "message"),
        [
            (
                Event(kind=EventKind.GRANT, dataset="nobody", body={"epsilon": "1", "delta": "0"}),
                "breaks the rules",
            ),
            (
                Event(kind=EventKind.GRANT, dataset="adult", body={"epsilon": "-1", "delta": "0"}),
                "breaks the rules",
            ),
            (Event(kind=EventKind.GRANT, dataset="adult", body={"epsilon": "1"}), "cannot be read"),
            (
                Event(kind=EventKind.GRANT, dataset="adult", body={"epsilon": "1e999999999", "delta": "0"}),
                "cannot be read",
            ),
            (Event(kind=EventKind.SPEND, dataset="adult", run="x", body={}), "breaks the rules"),
            (
                Event(kind=EventKind.OPEN, dataset="adult", body={"epsilon": "1", "delta": "0"}),
                "breaks the rules",
            ),
            (Event(kind=EventKind.FINISH, dataset="adult", body={"returned": []}), "breaks the rules"),
        ],
        ids=str,
    )
    def test_rows_with_a_right_hash_that_break_the_rules_are_refused(self, path, event, message):
        append_raw(path, event)
        with pytest.raises(LedgerError, match=message):
            Ledger.open(path)

    def test_a_row_sealed_again_after_an_edit_does_not_fit_the_next(self, path):
        first = rows(path)[0]
        body = json.loads(first.body) | {"epsilon": "9"}
        forged = seal_event(Event(kind=EventKind.OPEN, dataset="adult", body=body), seq=1, previous=GENESIS)
        rewritten(path, "update events set body = ?, hash = ? where seq = 1", forged.body, forged.hash)
        with pytest.raises(LedgerError, match="row 2 does not follow row 1"):
            Ledger.open(path)

    def test_an_overspent_ledger_does_not_verify(self, path):
        body = json.loads(rows(path)[1].body)
        append_raw(path, Event(kind=EventKind.RESERVE, dataset="adult", run="another", body=body))
        with pytest.raises(LedgerError, match="cannot pay"):
            Ledger.open(path)

    def test_unknown_kinds_are_refused(self, path):
        append_raw(path, Event(kind=SimpleNamespace(value="amplify"), dataset="adult", body={}))
        with pytest.raises(LedgerError, match=r"'amplify'.*\nhint: use the version"):
            Ledger.open(path)

    @pytest.mark.parametrize(
        "content", [b"", b"hello\n", b"SQLite format 3\0", b"\0" * 8192, b"a,b\n1,2\n" * 4000]
    )
    def test_files_that_are_not_ledgers_are_refused_and_kept(self, tmp_path, content):
        path = tmp_path / "ledger.db"
        path.write_bytes(content)
        with pytest.raises(LedgerError):
            Ledger.open(path)
        assert path.read_bytes() == content

    def test_an_empty_file_is_damage_and_not_a_new_ledger(self, tmp_path):
        (tmp_path / "ledger.db").touch()
        with pytest.raises(LedgerError, match=r"damaged: .* is empty"):
            Ledger.open(tmp_path / "ledger.db")

    def test_other_databases_and_folders_are_refused(self, tmp_path):
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            connection.execute("create table events (seq)")
        (tmp_path / "folder").mkdir()
        for name in ("other.db", "folder"):
            with pytest.raises(LedgerError, match="is not a ledger") as refusal:
                Ledger.open(tmp_path / name)
            assert "forget" in refusal.value.hint, "the hint invites to a fresh start"

    @pytest.mark.parametrize("keep", [100, 4096, 8192, 12000])
    def test_cut_files_are_refused(self, path, keep):
        content = path.read_bytes()
        assert keep < len(content)
        path.write_bytes(content[:keep])
        with pytest.raises(LedgerError):
            Ledger.open(path)

    def test_random_damage_never_goes_unseen_or_unread(self, path):
        # Any byte of the pages that hold rows; bytes that SQLite does not use may change without effect.
        content = bytearray(path.read_bytes())
        before = rows(path)
        unseen = 0
        for at in range(100, len(content), 397):
            broken = bytearray(content)
            broken[at] ^= 0x55
            path.write_bytes(broken)
            try:
                Ledger.open(path)
            except LedgerError:
                continue
            unseen += 1
            assert rows(path) == before
        assert unseen < len(range(100, len(content), 397)) - 5

    def test_a_ledger_that_vanishes_is_not_made_anew(self, path):
        ledger = Ledger.existing(path)
        path.unlink()
        with pytest.raises(LedgerError, match="there is no ledger"):
            reserve(ledger, "other")
        assert not path.exists()
        with pytest.raises(LedgerError, match="ledger init"):
            Ledger.existing(path)


class TestEnvironment:
    def test_a_path_through_a_file_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("x")
        with pytest.raises(ResourceError, match=r"\nhint: ") as refusal:
            Ledger.open(tmp_path / "file" / "ledger.db")
        assert refusal.value.exit_code == 4

    def test_a_mistyped_folder_is_not_made(self, tmp_path, monkeypatch):
        with pytest.raises(LedgerError, match="there is no folder"):
            Ledger.open(tmp_path / "tpyo" / "ledger.db")
        assert list(tmp_path.iterdir()) == []
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        assert Ledger.open(default_ledger_path()).verify() == 0, "the default ledger gets its folder"

    @pytest.mark.parametrize(
        ("pragma", "message"), [("max_page_count = 1", "no room"), ("query_only = on", "cannot be written")]
    )
    def test_a_full_or_locked_disk_is_our_callers_problem_not_a_spend(
        self, ledger, monkeypatch, pragma, message
    ):
        run = reserve(ledger)
        spend = half_of(run)
        connected = ledger_file._connect

        def limited(path):
            connection = connected(path)
            connection.execute(f"pragma {pragma}")
            return connection

        monkeypatch.setattr(ledger_file, "_connect", limited)
        long = replace(spend, what="x" * 20000)
        with pytest.raises(ResourceError, match=message):
            run.charge(long)
        monkeypatch.undo()
        assert run.record().spends == ()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_read_only_file_is_refused(self, ledger):
        ledger.path.chmod(0o400)
        ledger.path.parent.chmod(0o500)
        with pytest.raises(ResourceError):
            reserve(ledger)

    def test_a_ledger_held_too_long_is_reported(self, ledger, monkeypatch):
        monkeypatch.setattr(ledger_file, "WAIT_SECONDS", 0.05)
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
            other.execute("begin immediate")
            with pytest.raises(ResourceError, match="held by another process"):
                reserve(ledger)
        reserve(ledger)

    def test_where_hard_links_are_missing_a_ledger_can_still_be_made(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        ledger = Ledger.open(tmp_path / "ledger.db")
        reserve(ledger)
        assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]

    def test_opening_leaves_one_file_and_never_replaces_one(self, tmp_path):
        path = tmp_path / "ledger.db"
        ledger = Ledger.open(path)
        reserve(ledger)
        content = path.read_bytes()
        ledger_file.create(path)
        assert path.read_bytes() == content
        assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.db"]

    def test_one_file_is_the_whole_ledger(self, ledger, tmp_path):
        run = reserve(ledger)
        run.charge(half_of(run))
        shutil.copy(ledger.path, tmp_path / "copy.db")
        assert Ledger.existing(tmp_path / "copy.db").record(run.id) == run.record()

    def test_commits_are_flushed(self, ledger):
        with ledger_file.transaction(ledger.path, begin=ledger_file.WRITE) as connection:
            assert connection.execute("pragma journal_mode").fetchone() == ("delete",)
            assert connection.execute("pragma synchronous").fetchone() == (3,)

    def test_default_path_follows_the_state_folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        assert default_ledger_path() == tmp_path / "populace" / "ledger.db"
        for unset in ("", "relative/path"):
            monkeypatch.setenv("XDG_STATE_HOME", unset)
            assert default_ledger_path() == Path.home() / ".local" / "state" / "populace" / "ledger.db"

    def test_genesis_is_sealed(self, ledger):
        with closing(sqlite3.connect(ledger.path)) as connection:
            assert connection.execute("select * from head").fetchall() == [
                (1, 0, GENESIS, seal_head(0, GENESIS))
            ]


class TestSharing:
    def test_two_handles_see_each_other(self, ledger):
        other = Ledger.existing(ledger.path)
        ledger.open_account("adult", epsilon="1", delta="1e-9")
        run = reserve(other)
        with pytest.raises(OverBudget):
            reserve(ledger)
        run.charge(half_of(run))
        assert ledger.record(run.id).used == run.record().used

    def test_threads_share_one_handle(self, ledger):
        ledger.open_account("adult", epsilon="10", delta="0")
        granted: list[str] = []

        def work():
            try:
                while True:
                    granted.append(reserve(ledger, epsilon="1", delta="0").id)
            except OverBudget:
                return

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) == len(set(granted)) == 10
        assert ledger.verify() == 11

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_charges_the_same_run(self, ledger):
        run = reserve(ledger)
        spend = half_of(run)
        child = os.fork()
        if child == 0:
            try:
                run.charge(spend)
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        run.charge(spend)
        with pytest.raises(OverBudget):
            run.charge(spend)
        assert len(run.record().spends) == 2


def test_every_charge_is_in_the_one_file_at_once(tmp_path):
    """A copy made during a run forgets nothing, and no log is left that SQLite would replay into another file."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    run = reserve(ledger)
    for number in (1, 2):
        run.charge(half_of(run))
        assert [entry.name for entry in tmp_path.iterdir() if "ledger" in entry.name] == ["ledger.db"]
        shutil.copy(ledger.path, tmp_path / "copy.db")
        assert len(Ledger.existing(tmp_path / "copy.db").record(run.id).spends) == number
