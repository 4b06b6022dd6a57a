"""Where a ledger lies: one name for one file, created whole or not at all, read without a trace."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
from contextlib import closing

import pytest

from populace.core.errors import LedgerError, OverBudget, ResourceError
from populace.privacy.ledger import ledger_file
from populace.privacy.ledger import ledger_location as ledger_place
from populace.privacy.ledger.ledger import Ledger
from tests.helpers.ledgers import half_of, reserve


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.open_account("adult", epsilon="4", delta="1e-8")
    return ledger


def traces(folder):
    return {
        entry.name: (entry.stat().st_ino, entry.stat().st_mtime_ns, entry.read_bytes())
        for entry in folder.iterdir()
    }


class TestNames:
    def test_a_hard_link_is_refused_by_either_name(self, ledger, tmp_path):
        other = tmp_path / "elsewhere.db"
        os.link(ledger.path, other)
        for path in (ledger.path, other):
            with pytest.raises(LedgerError, match=r"2 names \(hard links\).*\nhint: ") as refusal:
                Ledger.open(path)
            assert refusal.value.exit_code == 2
        with pytest.raises(LedgerError, match="hard links"):
            reserve(ledger)
        other.unlink()
        reserve(ledger)

    def test_a_link_made_during_a_run_stops_its_next_spend(self, ledger, tmp_path):
        run = reserve(ledger)
        os.link(ledger.path, tmp_path / "elsewhere.db")
        with pytest.raises(LedgerError, match="hard links"):
            run.charge(half_of(run))

    def test_what_a_crash_after_linking_leaves_is_harmless_and_tidied_by_the_next_change(
        self, ledger, tmp_path
    ):
        draft = tmp_path / ".ledger.db.0123456789abcdef"
        os.link(ledger.path, draft)
        before = traces(tmp_path)
        assert Ledger.existing(ledger.path).verify() == 1
        assert traces(tmp_path) == before
        reserve(ledger)
        assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.db"]

    @pytest.mark.parametrize("name", [".ledger.db.0123", ".other.db.0123456789abcdef", "ledger.db-old"])
    def test_names_that_no_creation_leaves_are_not_taken_for_one(self, ledger, tmp_path, name):
        os.link(ledger.path, tmp_path / name)
        with pytest.raises(LedgerError, match="hard links"):
            Ledger.open(ledger.path)
        assert (tmp_path / name).exists()

    def test_a_draft_of_another_process_is_left_alone(self, ledger, tmp_path):
        draft = tmp_path / ".ledger.db.0123456789abcdef"
        draft.write_bytes(b"being written")
        reserve(ledger)
        assert draft.read_bytes() == b"being written"

    def test_symbolic_links_lead_to_one_ledger_and_leave_nothing_beside_themselves(self, ledger, tmp_path):
        (tmp_path / "links").mkdir()
        link = tmp_path / "links" / "mine.db"
        link.symlink_to(ledger.path)
        reserve(Ledger.open(link), epsilon="3")
        with pytest.raises(OverBudget):
            reserve(ledger, epsilon="2")
        assert [entry.name for entry in link.parent.iterdir()] == ["mine.db"]

    @pytest.mark.parametrize("name", ["ledger.db", "a ledger\twith\\odd name.db"])
    def test_a_file_that_is_mounted_alone_is_refused(self, tmp_path, monkeypatch, name):
        path = tmp_path / name
        ledger = Ledger.open(path)
        told = str(path)
        for odd in "\\ \t\n":
            told = told.replace(odd, f"\\{ord(odd):03o}")
        mounts = tmp_path / "mountinfo"
        mounts.write_text(
            f"36 35 98:0 / {tmp_path} rw - ext3 /dev/root rw\n37 36 98:0 /x {told} rw - ext3 /dev/root rw\n"
        )
        monkeypatch.setattr(ledger_place, "_MOUNTS", mounts)
        with pytest.raises(LedgerError, match=r"mounted as a single file.*\nhint: mount the folder"):
            ledger.accounts()

    def test_where_mounts_are_not_listed_the_device_tells(self, ledger, tmp_path, monkeypatch):
        monkeypatch.setattr(ledger_place, "_MOUNTS", tmp_path / "none")
        reserve(ledger)
        device = ledger.path.stat().st_dev
        assert not ledger_place.is_mount_point(ledger.path, device=device)
        assert ledger_place.is_mount_point(ledger.path, device=device + 1)

    @pytest.mark.parametrize("gone", [False, True])
    def test_a_file_replaced_in_the_middle_of_a_change_is_noticed(self, ledger, tmp_path, monkeypatch, gone):
        run = reserve(ledger)
        shutil.copy(ledger.path, tmp_path / "backup.db")
        genuine = ledger_file.append

        def append(connection, row):
            genuine(connection, row)
            if gone:
                ledger.path.unlink()
            else:
                (tmp_path / "backup.db").replace(ledger.path)

        monkeypatch.setattr(ledger_file, "append", append)
        with pytest.raises(LedgerError, match="replaced or removed while"):
            run.charge(half_of(run))


class TestCreation:
    @pytest.mark.parametrize("room", [0, 512, 4096, 8192, 12288, 16384, 20480, 24576, 32768, 49152])
    def test_it_is_whole_or_not_at_all_however_little_room_there_is(self, tmp_path, room):
        path = tmp_path / "ledger.db"
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            ledger_file.create(path)
        except ResourceError as refusal:
            made, told = False, refusal.hint
        else:
            made, told = True, "made"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert told
        assert [entry.name for entry in tmp_path.iterdir()] == (["ledger.db"] if made else [])
        assert Ledger.open(path).verify() == 0
        assert made if room >= 32768 else not made or room > 8192, (
            "sizes on both sides of what a ledger takes"
        )

    def test_a_draft_that_did_not_reach_the_disk_is_not_published(self, tmp_path, monkeypatch):
        genuine = ledger_file._check_draft

        def check(draft):
            os.truncate(draft, 8192)
            genuine(draft)

        monkeypatch.setattr(ledger_file, "_check_draft", check)
        with pytest.raises(LedgerError):
            ledger_file.create(tmp_path / "ledger.db")
        assert list(tmp_path.iterdir()) == []

    def test_a_full_disk_without_hard_links_leaves_nothing(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "link", refuse)
        genuine = os.fsync
        calls = []

        def fsync(number):
            calls.append(number)
            return genuine(number) if len(calls) == 1 else refuse()

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(ResourceError, match="No space left"):
            ledger_file.create(tmp_path / "ledger.db")
        assert list(tmp_path.iterdir()) == []


def test_half_a_change_whose_journal_was_deleted_forgets_nothing_that_was_booked(tmp_path):
    """Every set of pages that a crash can leave written: refused, or the books of before or after the change."""
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path)
    ledger.open_account("adult", epsilon="400", delta="1e-6")
    for _ in range(12):
        run = reserve(ledger)
        run.charge(half_of(run))
    before, books = path.read_bytes(), ledger.accounts()
    reserve(ledger)
    after, changed = path.read_bytes(), ledger.accounts()
    size = 4096
    pages = [at for at in range(0, len(after), size) if before[at : at + size] != after[at : at + size]]
    assert 3 <= len(pages) <= 8
    refused = 0
    for which in range(2 ** len(pages)):
        torn = bytearray(before.ljust(len(after), b"\0"))
        for bit, at in enumerate(pages):
            if which >> bit & 1:
                torn[at : at + size] = after[at : at + size]
        path.write_bytes(torn)
        try:
            found = Ledger.existing(path).accounts()
        except LedgerError:
            refused += 1
            continue
        assert found in (books, changed)
    assert refused > 2 ** len(pages) // 4


class TestReading:
    def test_looking_changes_nothing(self, ledger, tmp_path):
        run = reserve(ledger)
        before = traces(tmp_path)
        again = Ledger.existing(ledger.path)
        again.accounts(), again.record(run.id), again.runs("adult"), again.releases(run.id), again.verify()
        assert traces(tmp_path) == before

    def test_a_ledger_in_write_ahead_mode_is_read_and_then_changed_to_a_journal(self, ledger, tmp_path):
        with closing(sqlite3.connect(ledger.path)) as connection:
            assert connection.execute("pragma journal_mode = wal").fetchone() == ("wal",)
        before = ledger.path.read_bytes()
        assert before[18] == 2
        assert Ledger.existing(ledger.path).verify() == 1
        assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.db"]
        assert ledger.path.read_bytes() == before
        reserve(ledger)
        assert ledger.path.read_bytes()[18] == 1
        assert Ledger.existing(ledger.path).verify() == 2

    def test_what_a_write_ahead_log_still_holds_is_taken_in(self, ledger, tmp_path):
        with closing(sqlite3.connect(ledger.path)) as connection:
            connection.execute("pragma journal_mode = wal")
        live, kept = tmp_path / "live", tmp_path / "kept"
        live.mkdir(), kept.mkdir()
        shutil.copy(ledger.path, live / "ledger.db")
        with closing(sqlite3.connect(live / "ledger.db", isolation_level=None)) as held:
            held.execute("pragma wal_autocheckpoint = 0")
            held.execute("create table more (x)")
            for entry in live.iterdir():
                shutil.copy(entry, kept / entry.name)
        assert (kept / "ledger.db-wal").stat().st_size > 0
        reserve(Ledger.existing(kept / "ledger.db"))
        with closing(sqlite3.connect(kept / "ledger.db")) as connection:
            assert connection.execute("select count(*) from more").fetchone() == (0,)
        assert [entry.name for entry in kept.iterdir()] == ["ledger.db"]

    def test_half_a_change_left_by_a_crash_is_rolled_back(self, ledger, tmp_path):
        kept = tmp_path / "kept"
        kept.mkdir()
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as held:
            held.execute("pragma cache_size = 1")
            held.execute("pragma cache_spill = 1")
            held.execute("begin immediate")
            held.execute("create table more (x)")
            for _ in range(50):
                held.execute("insert into more values (?)", ("x" * 4000,))
            for name in ("ledger.db", "ledger.db-journal"):
                shutil.copy(tmp_path / name, kept / name)
            held.execute("rollback")
        assert (kept / "ledger.db").stat().st_size > ledger.path.stat().st_size
        assert Ledger.existing(kept / "ledger.db").verify() == 1
        assert [entry.name for entry in kept.iterdir()] == ["ledger.db"]
