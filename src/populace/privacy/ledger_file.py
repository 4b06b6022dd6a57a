"""The file under the ledger: one SQLite database, created whole, locked for every change, flushed at every commit."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from populace.errors import LedgerError, PopulaceError, ResourceError
from populace.privacy.events import GENESIS, Row, damaged, seal_of_head

APPLICATION_ID = 0x706F7075
FORMAT = 1
WAIT_SECONDS = 60.0

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
insert into head values (1, 0, '{GENESIS}', '{seal_of_head(0, GENESIS)}');
pragma application_id = {APPLICATION_ID};
pragma user_version = {FORMAT};
"""


def make_folder(path: Path) -> None:
    """Make the folder that a ledger is to lie in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise _no_place(path, failure) from failure


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
            _durable(connection, path)
            connection.executescript(_TABLES)
        with suppress(FileExistsError):
            _publish(draft, path)
    except OSError as failure:
        raise _no_place(path, failure) from failure
    except sqlite3.Error as failure:
        refuse(failure, path)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                draft.with_name(draft.name + suffix).unlink()


def _no_place(path: Path, failure: OSError) -> ResourceError:
    return ResourceError(
        f"no ledger can be created at {path} ({failure.strerror or type(failure).__name__}).",
        hint="give a path on a local disk that you may write to",
    )


def _publish(draft: Path, path: Path) -> None:
    """Give a finished draft its name, in a way that fails if the name is taken, and flush the folder."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        # No hard links on this disk. A crash in the next lines leaves a file that is refused, never a fresh ledger.
        with path.open("xb") as target:
            target.write(draft.read_bytes())
            target.flush()
            os.fsync(target.fileno())
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def transaction(path: Path, *, begin: str) -> Iterator[sqlite3.Connection]:
    """Open the file, hold one transaction, and commit it to disk; on any error nothing is kept.

    A connection lives only this long, so a fork can never share one, and threads need no lock of ours.
    """
    with closing(_connected(path)) as connection:
        connection.execute(begin)
        yield connection
        connection.execute("commit")


def _connected(path: Path) -> sqlite3.Connection:
    """Return a connection to a ledger that exists, in autocommit mode: transactions begin only where we say so."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=WAIT_SECONDS, isolation_level=None
    )
    try:
        if connection.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
            raise _foreign(path)
        if (found := connection.execute("pragma user_version").fetchone()[0]) != FORMAT:
            raise LedgerError(
                f"{path} is a ledger of format {found}; this version reads format {FORMAT}.",
                hint="use the version of populace that wrote it",
            )
        _durable(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _durable(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise ResourceError(
            f"{path} lies where SQLite cannot keep a write-ahead log.",
            hint="keep the ledger on a local disk, not on a network drive",
        )
    # A commit returns only after the disk has it; fullfsync matters on macOS alone.
    connection.execute("pragma synchronous = full")
    connection.execute("pragma fullfsync = on")


def check_file(path: Path) -> None:
    """Refuse a path that cannot be a ledger, by its directory entry alone.

    The file is not opened here: closing it again would drop the locks that SQLite holds in this process.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise LedgerError(
            f"there is no ledger at {path}.",
            hint="check the path; for a dataset without earlier runs `populace ledger init` makes one",
        ) from None
    except OSError as failure:
        raise ResourceError(
            f"{path} cannot be reached ({failure.strerror}).", hint="check the path and its permissions"
        ) from failure
    if not path.is_file():
        raise _foreign(path)
    if status.st_size == 0:
        raise damaged(f"{path} is empty")


def check_pages(connection: sqlite3.Connection) -> None:
    """Refuse a file whose pages SQLite itself finds broken."""
    found = connection.execute("pragma integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise damaged("its pages contradict each other")


def rows_after(connection: sqlite3.Connection, seq: int) -> Iterator[Row]:
    """Return the rows that follow a number, in order."""
    found = connection.execute(
        "select seq, kind, dataset, run, body, previous, hash from events where seq > ? order by seq", (seq,)
    )
    return (Row(*values) for values in found)


def hash_at(connection: sqlite3.Connection, seq: int) -> str:
    """Return the hash of one row; that of the row before the first is all zeros."""
    if seq == 0:
        return GENESIS
    found = connection.execute("select hash from events where seq = ?", (seq,)).fetchone()
    return "" if found is None else str(found[0])


def check_head(connection: sqlite3.Connection, *, seq: int, digest: str) -> None:
    """Refuse a log whose last row is not the one that the head record names."""
    found = connection.execute("select seq, hash, seal from head").fetchall()
    if found != [(seq, digest, seal_of_head(seq, digest))]:
        raise damaged("its last rows are missing or its head record was altered")


def append(connection: sqlite3.Connection, row: Row) -> None:
    """Write a row and move the head record to it."""
    connection.execute(
        "insert into events (seq, kind, dataset, run, body, previous, hash) values (?, ?, ?, ?, ?, ?, ?)",
        (row.seq, row.kind, row.dataset, row.run, row.body, row.previous, row.hash),
    )
    connection.execute(
        "update head set seq = ?, hash = ?, seal = ? where one = 1",
        (row.seq, row.hash, seal_of_head(row.seq, row.hash)),
    )


def busy(failure: sqlite3.Error) -> bool:
    """Say whether an error only means that another process had the file for a moment."""
    return _code(failure) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def wait(since: float) -> bool:
    """Wait a moment before another try; False when the waiting has gone on for too long."""
    time.sleep(0.002 + 0.008 * secrets.randbelow(1000) / 1000)
    return time.monotonic() - since < WAIT_SECONDS


def refuse(failure: sqlite3.Error, path: Path) -> NoReturn:
    """Raise the error of ours that an error of SQLite means."""
    raise _translated(failure, path) from failure


def _translated(failure: sqlite3.Error, path: Path) -> PopulaceError:
    code = _code(failure)
    if code == sqlite3.SQLITE_FULL:
        return ResourceError(f"there is no room to write the ledger {path}.", hint="make room on its disk")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH):
        return ResourceError(
            f"the ledger {path} cannot be written.",
            hint="check the permissions of the file and of its folder",
        )
    if busy(failure):
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
        return _foreign(path)
    return damaged(f"SQLite cannot read {path} ({failure})")


def _foreign(path: Path) -> LedgerError:
    return LedgerError(
        f"{path} is not a ledger.",
        hint="give the ledger that holds the earlier runs on these people; a new one would forget them",
    )


def _code(failure: sqlite3.Error) -> int:
    """Return SQLite's primary error code; errors of the Python layer have none."""
    return getattr(failure, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
