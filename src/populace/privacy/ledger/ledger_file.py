"""The file under the ledger: one SQLite database, created whole, locked for every change, flushed at every commit."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from populace.core.errors import LedgerError, PopulaceError, ResourceError
from populace.core.publish_file import publish_file
from populace.privacy.ledger.hash_chain import GENESIS, Row, damage_error, seal_checkpoint, seal_head
from populace.privacy.ledger.ledger_location import not_a_ledger_error

APPLICATION_ID = 0x706F7075
FORMAT = 1
WAIT_SECONDS = 60.0
READ, WRITE = "begin", "begin immediate"
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH)

_TABLES = f"""
create table events (
  seq integer primary key, kind text not null, dataset text not null, run text,
  body text not null, previous text not null, hash text not null unique
);
create table head (
  one integer primary key check (one = 1), seq integer not null, hash text not null, seal text not null
);
create trigger events_are_kept before delete on events begin select raise(abort, 'events are kept'); end;
create trigger events_are_fixed before update on events begin select raise(abort, 'events are fixed'); end;
insert into head values (1, 0, '{GENESIS}', '{seal_head(0, GENESIS)}');
pragma application_id = {APPLICATION_ID};
pragma user_version = {FORMAT};
"""

_CHECKPOINT_TABLE = """
create table if not exists checkpoint (
  one integer primary key check (one = 1), seq integer not null, hash text not null, state text not null,
  seal text not null
)
"""


_ROWS = "select seq, kind, dataset, run, body, previous, hash from events where {} order by seq"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of all accounts after one row, so that opening a ledger need not read the rows before it."""

    seq: int
    hash: str
    state: str


def make_folder(path: Path) -> None:
    """Make the folder that a ledger is to lie in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise _folder_error(path, failure) from failure


def create(path: Path) -> None:
    """Make an empty ledger, whole or not at all; one that exists already is left as it is.

    It is built under another name and then linked: nobody ever sees half a ledger, and of two processes that
    create it at once exactly one wins. SQLite itself would leave an empty file if killed at the wrong moment.
    """
    if not os.path.lexists(path.parent):
        raise LedgerError(
            f"there is no folder {path.parent} to keep a ledger in.",
            hint="check the path for typing errors; make the folder first if the ledger is to be a new one",
        )
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            _make_durable(connection, path)
            connection.executescript(f"begin; {_TABLES} commit;")
        _check_draft(draft)
        with suppress(FileExistsError):
            publish_file(draft, path)
    except OSError as failure:
        raise _folder_error(path, failure) from failure
    except sqlite3.Error as failure:
        raise_ledger_error(failure, path)
    finally:
        for suffix in ("", "-journal"):
            with suppress(OSError):
                draft.with_name(draft.name + suffix).unlink()


def _check_draft(draft: Path) -> None:
    """Flush a draft and read it again: a disk that filled up in between must be noticed before it has its name."""
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    with closing(_connect(draft)) as connection:
        check_pages(connection)
        check_head(connection, seq=0, digest=GENESIS)


def _folder_error(path: Path, failure: OSError) -> ResourceError:
    return ResourceError(
        f"no ledger can be created at {path} ({failure.strerror or type(failure).__name__}).",
        hint="give a path on a local disk that you may write to",
    )


@contextmanager
def transaction(path: Path, *, begin: str) -> Iterator[sqlite3.Connection]:
    """Open the file, hold one transaction, and commit it to disk; on any error nothing is kept.

    A plain "begin" reads alone, so it works where nothing can be written. A connection lives only this long, so a fork
    can never share one, and threads need no lock of ours.
    """
    with closing(_connect_read_only(path) if begin == READ else _connect(path)) as connection:
        connection.execute(begin)
        yield connection
        connection.execute("commit")


def _connect(path: Path) -> sqlite3.Connection:
    """Return a connection to a ledger that exists, ready to be written."""
    connection = _open_ledger(path, "mode=rw")
    try:
        _make_durable(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing, except that it rolls back what a crash left half written.

    A ledger of an earlier version keeps a write-ahead log, which SQLite cannot read where it may make no files; where
    there is no such log, the file is whole, and is read as one that nobody changes.
    """
    try:
        return _open_ledger(path, "mode=rw")
    except sqlite3.Error as failure:
        if _sqlite_code(failure) not in _UNWRITABLE:
            raise
        for suffix in ("-wal", "-journal"):
            if os.path.lexists(f"{path}{suffix}"):
                raise ResourceError(
                    f"the ledger {path} was left in the middle of a change, which cannot be settled here.",
                    hint=f"it needs {path.name} and {path.name}{suffix} together, in a folder that can be written",
                ) from failure
        return _open_ledger(path, "mode=ro&immutable=1")


def _open_ledger(path: Path, how: str) -> sqlite3.Connection:
    """Return a connection to a file that is a ledger, in autocommit mode: transactions begin only where we say so."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, timeout=WAIT_SECONDS, isolation_level=None
    )
    try:
        if connection.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
            raise not_a_ledger_error(path)
        if (found := connection.execute("pragma user_version").fetchone()[0]) != FORMAT:
            raise LedgerError(
                f"{path} is a ledger of format {found}; this version reads format {FORMAT}.",
                hint="use the version of populace that wrote it",
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _make_durable(connection: sqlite3.Connection, path: Path) -> None:
    """Let a commit return only when the file itself holds it, also after a loss of power.

    With a rollback journal what was committed is in the file. A write-ahead log would hold it beside the file, where
    another name of the file, a copy of it or a tidy colleague misses it.
    """
    mode = connection.execute("pragma journal_mode = delete").fetchone()[0]
    if mode != "delete":
        raise ResourceError(
            f"{path} lies where SQLite cannot keep a journal.",
            hint="keep the ledger on a local disk, not on a network drive",
        )
    # Extra: the folder is flushed too, or a journal that was deleted may come back and undo a commit.
    connection.execute("pragma synchronous = extra")
    connection.execute("pragma fullfsync = on")


def check_pages(connection: sqlite3.Connection) -> None:
    """Refuse a file whose pages SQLite itself finds broken."""
    found = connection.execute("pragma integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise damage_error("its pages contradict each other")


def rows_after(connection: sqlite3.Connection, seq: int) -> Iterator[Row]:
    """Return the rows that follow a number, in order."""
    return (Row(*values) for values in connection.execute(_ROWS.format("seq > ?"), (seq,)))


def rows_of_run(connection: sqlite3.Connection, run: str, *, until: int) -> Iterator[Row]:
    """Return the rows of one run up to a number, in order."""
    return (Row(*values) for values in connection.execute(_ROWS.format("run = ? and seq <= ?"), (run, until)))


def rows_of_kind(connection: sqlite3.Connection, kind: str, *, dataset: str) -> Iterator[Row]:
    """Return the rows of one kind about one dataset, in order."""
    return (
        Row(*values)
        for values in connection.execute(_ROWS.format("kind = ? and dataset = ?"), (kind, dataset))
    )


def read_checkpoint(connection: sqlite3.Connection) -> Checkpoint | None:
    """Return the newest checkpoint, None where there is none yet, and refuse one that was altered."""
    if not checkpoint_seq(connection):
        return None
    for seq, digest, state, seal in connection.execute("select seq, hash, state, seal from checkpoint"):
        texts = isinstance(state, str) and isinstance(digest, str)
        if not texts or seal != seal_checkpoint(seq, digest, state):
            raise damage_error("its checkpoint was altered")
        return Checkpoint(seq, digest, state)
    return None


def checkpoint_seq(connection: sqlite3.Connection) -> int:
    """Return the row of the newest checkpoint, 0 where there is none yet."""
    if not connection.execute("select 1 from sqlite_schema where name = 'checkpoint'").fetchone():
        return 0
    found = connection.execute("select seq from checkpoint").fetchone()
    if found is not None and not isinstance(found[0], int):
        raise damage_error("its checkpoint was altered")
    return 0 if found is None else found[0]


def write_checkpoint(connection: sqlite3.Connection, checkpoint: Checkpoint) -> None:
    """Keep a checkpoint in place of the one before; a ledger of an earlier version gets the table for it."""
    connection.execute(_CHECKPOINT_TABLE)
    connection.execute("create index if not exists events_of_runs on events (run)")
    seal = seal_checkpoint(checkpoint.seq, checkpoint.hash, checkpoint.state)
    connection.execute(
        "insert or replace into checkpoint values (1, ?, ?, ?, ?)",
        (checkpoint.seq, checkpoint.hash, checkpoint.state, seal),
    )


def hash_at(connection: sqlite3.Connection, seq: int) -> str:
    """Return the hash of one row; that of the row before the first is all zeros."""
    if seq == 0:
        return GENESIS
    found = connection.execute("select hash from events where seq = ?", (seq,)).fetchone()
    return "" if found is None else str(found[0])


def seq_of(connection: sqlite3.Connection, digest: str) -> int | None:
    """Return the number of the row with a hash, None where there is none."""
    if digest == GENESIS:
        return 0
    found = connection.execute("select seq from events where hash = ?", (digest,)).fetchone()
    return None if found is None else int(found[0])


def check_head(connection: sqlite3.Connection, *, seq: int, digest: str) -> None:
    """Refuse a log whose last row is not the one that the head record names."""
    found = connection.execute("select seq, hash, seal from head").fetchall()
    if found != [(seq, digest, seal_head(seq, digest))]:
        raise damage_error("its last rows are missing or its head record was altered")


def append(connection: sqlite3.Connection, row: Row) -> None:
    """Write a row and move the head record to it."""
    connection.execute(
        "insert into events (seq, kind, dataset, run, body, previous, hash) values (?, ?, ?, ?, ?, ?, ?)",
        (row.seq, row.kind, row.dataset, row.run, row.body, row.previous, row.hash),
    )
    connection.execute(
        "update head set seq = ?, hash = ?, seal = ? where one = 1",
        (row.seq, row.hash, seal_head(row.seq, row.hash)),
    )


def is_busy(failure: sqlite3.Error) -> bool:
    """Say whether an error only means that another process had the file for a moment."""
    return _sqlite_code(failure) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def wait_a_moment(since: float) -> bool:
    """Wait a moment before another try; False when the waiting has gone on for too long."""
    time.sleep(0.002 + 0.008 * secrets.randbelow(1000) / 1000)
    return time.monotonic() - since < WAIT_SECONDS


def raise_ledger_error(failure: sqlite3.Error, path: Path) -> NoReturn:
    """Raise the error of ours that an error of SQLite means."""
    raise _translate(failure, path) from failure


def _translate(failure: sqlite3.Error, path: Path) -> PopulaceError:
    code = _sqlite_code(failure)
    if code == sqlite3.SQLITE_FULL:
        return ResourceError(f"there is no room to write the ledger {path}.", hint="make room on its disk")
    if code in _UNWRITABLE:
        return ResourceError(
            f"the ledger {path} cannot be written.",
            hint="check the permissions of the file and of its folder",
        )
    if is_busy(failure):
        return ResourceError(
            f"the ledger {path} is held by another process.",
            hint="wait until that one is done, then try again",
        )
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM):
        return ResourceError(
            f"the ledger {path} cannot be read or written ({failure}).",
            hint="check its disk, and keep the ledger on a local one",
        )
    if code == sqlite3.SQLITE_NOTADB:
        return not_a_ledger_error(path)
    return damage_error(f"SQLite cannot read {path} ({failure})")


def _sqlite_code(failure: sqlite3.Error) -> int:
    """Return SQLite's primary error code; errors of the Python layer have none."""
    return getattr(failure, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
