"""Ledgers on small, read-only and twice mounted disks, and by two names at once: real mounts, apart from ours."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from populace.core.errors import LedgerError, OverBudget
from populace.privacy.ledger.ledger import Ledger
from populace.schema.unit import PrivacyUnit

pytestmark = pytest.mark.slow

PROCESSES, UNITS = 6, 4


def reserve(ledger: Ledger) -> None:
    ledger.reserve(
        "one", epsilon="1", delta="0", unit=PrivacyUnit(), method="none", schema_digest="", rehearsal=False
    )


def run_apart(script: str, *words: str) -> str:
    """Run Python in a mount space of its own, where it may mount what it likes, and return what it prints."""
    command = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        "-c",
        SETTING + script,
        *words,
    ]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if "Operation not permitted" in found.stderr or "not mounted" in found.stdout:
        pytest.skip("mounting is not permitted here")
    assert found.returncode == 0, found.stderr
    return found.stdout


SETTING = """
import subprocess, sys
from pathlib import Path
from populace.cli.main import main
from populace.core.errors import PopulaceError
from populace.privacy.ledger.ledger import Ledger

place = Path(sys.argv[1])

def mount(*words):
    if subprocess.run(["mount", *map(str, words)]).returncode:
        print("not mounted")
        sys.exit()

"""

# With every amount of room, in steps of one block: a ledger that opens, or nothing at all.
SMALL = """
made = 0
for kib in range(4, 132, 4):
    disk = place / str(kib)
    disk.mkdir()
    mount("-t", "tmpfs", "-o", f"size={kib}k", "none", disk)
    path = disk / "ledger.db"
    code = main(["ledger", "init", "--dataset", "one", "--epsilon", "1", "--delta", "0", "--ledger", str(path)])
    assert code in (0, 4), (kib, code)
    left = sorted(entry.name for entry in disk.iterdir())
    assert left == (["ledger.db"] if path.exists() else []), (kib, left)
    if path.exists():
        assert len(Ledger.existing(path).accounts()) == (code == 0), kib
        made += 1
    elif code == 0:
        raise AssertionError(kib)
    subprocess.run(["umount", str(disk)], check=True)
print("made", made)
"""

READ_ONLY = """
disk = place / "disk"
disk.mkdir()
mount("-t", "tmpfs", "none", disk)
path = disk / "ledger.db"
Ledger.open(path).open_account("one", epsilon="1", delta="0")
if sys.argv[2] == "wal":
    import sqlite3
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode = wal")
    connection.close()
before = {entry.name: (entry.stat().st_mtime_ns, entry.read_bytes()) for entry in disk.iterdir()}
assert list(before) == ["ledger.db"]
mount("-o", "remount,ro", disk)
for verb in ("show", "verify", "head"):
    assert main(["ledger", verb, "--ledger", str(path)]) == 0, verb
assert main(["ledger", "grant", "--dataset", "one", "--epsilon", "1", "--ledger", str(path)]) == 4
assert {entry.name: (entry.stat().st_mtime_ns, entry.read_bytes()) for entry in disk.iterdir()} == before
"""

UNSETTLED = """
import os, sqlite3
disk = place / "disk"
disk.mkdir()
mount("-t", "tmpfs", "none", disk)
path = disk / "ledger.db"
Ledger.open(path).open_account("one", epsilon="1", delta="0")
child = os.fork()
if child == 0:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma cache_size = 1")
    connection.execute("begin immediate")
    connection.execute("create table more (x)")
    for _ in range(50):
        connection.execute("insert into more values (?)", ("x" * 4000,))
    os._exit(0)
os.waitpid(child, 0)
assert sorted(entry.name for entry in disk.iterdir()) == ["ledger.db", "ledger.db-journal"]
mount("-o", "remount,ro", disk)
assert main(["ledger", "show", "--ledger", str(path)]) == 4
mount("-o", "remount,rw", disk)
assert main(["ledger", "verify", "--ledger", str(path)]) == 0
assert [entry.name for entry in disk.iterdir()] == ["ledger.db"]
"""

MOUNTED_TWICE = """
path, other = place / "ledger.db", place / "other folder" / "my ledger.db"
Ledger.open(path).open_account("one", epsilon="4", delta="0")
other.parent.mkdir()
other.touch()
mount("--bind", path, other)
for verb in ("show", "verify", "head"):
    assert main(["ledger", verb, "--ledger", str(other)]) == 2, verb
assert main(["ledger", "show", "--ledger", str(path)]) == 0
folder = place / "folder"
folder.mkdir()
mount("--bind", place, folder)
assert main(["ledger", "show", "--ledger", str(folder / "ledger.db")]) == 0
"""


def test_a_full_disk_leaves_a_ledger_or_nothing(tmp_path):
    printed = run_apart(SMALL, str(tmp_path))
    assert 5 < int(printed.rsplit("made ", 1)[1]) < 32, "sizes on both sides of what a ledger takes"


@pytest.mark.parametrize("mode", ["journal", "wal"])
def test_a_read_only_disk_can_be_looked_at(tmp_path, mode):
    run_apart(READ_ONLY, str(tmp_path), mode)


def test_half_a_change_on_a_read_only_disk_is_told_and_not_read_over(tmp_path):
    run_apart(UNSETTLED, str(tmp_path))


def test_a_file_that_is_mounted_a_second_time_is_refused_there(tmp_path):
    run_apart(MOUNTED_TWICE, str(tmp_path))


def take_all(path: Path, start, granted) -> None:
    start.wait()
    got = 0
    for _ in range(UNITS + 1):
        try:
            reserve(Ledger.existing(path))
            got += 1
        except OverBudget:
            break
        except LedgerError:
            continue
    granted.put(got)


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_runs_by_two_names_never_get_more_than_there_is(tmp_path, link):
    path, other = tmp_path / "ledger.db", tmp_path / "other.db"
    Ledger.open(path).open_account("one", epsilon=UNITS, delta="0")
    link(path, other)
    context = multiprocessing.get_context("spawn")
    start, granted = context.Barrier(PROCESSES), context.Queue()
    workers = [
        context.Process(target=take_all, args=((path, other)[number % 2], start, granted))
        for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    given = sum(granted.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    assert given == (0 if link is os.link else UNITS)
    if link is os.link:
        other.unlink()
    assert Ledger.existing(path).verify() == 1 + given
