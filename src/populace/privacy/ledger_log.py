"""How the books follow the rows of a file: from its checkpoint when it is opened, from the first row to verify it.

A checkpoint is the state of all accounts after one row, sealed with that row's hash. It saves time and adds no trust:
whoever can write the file can seal another one, as they can seal other rows. `check_all` holds it against the rows.
"""

from __future__ import annotations

import sqlite3

from populace.privacy import ledger_file as file
from populace.privacy.books import Books
from populace.privacy.events import damaged

# Opening a ledger reads fewer rows than this, beside those of the runs that it is asked for.
CHECKPOINT_EVERY = 128


def catch_up(connection: sqlite3.Connection, books: Books) -> None:
    """Read the rows that others have added; those read before must still be there."""
    if books.seq == 0 and (kept := file.read_checkpoint(connection)):
        books.begin_at(kept.state, seq=kept.seq, digest=kept.hash)
    if books.base:
        books.archive = lambda run: file.rows_of_run(connection, run, until=books.seq)
    if file.hash_at(connection, books.seq) != books.hash:
        raise damaged("rows that were there before are gone or altered")
    for row in file.rows_after(connection, books.seq):
        books.read(row)
    file.check_head(connection, seq=books.seq, digest=books.hash)


def check_all(connection: sqlite3.Connection) -> None:
    """Read all rows, whatever was read before, and hold pages, rows, checkpoint and head record against each other."""
    file.check_pages(connection)
    kept, books = file.read_checkpoint(connection), Books()
    states = {}
    for row in file.rows_after(connection, 0):
        books.read(row)
        if kept is not None and books.seq == kept.seq:
            states[books.hash] = books.state()
    if kept is not None and states != {kept.hash: kept.state}:
        raise damaged("its checkpoint does not follow from its rows")
    file.check_head(connection, seq=books.seq, digest=books.hash)


def keep_checkpoint(connection: sqlite3.Connection, books: Books) -> None:
    """Keep a new checkpoint when enough rows have been written since the one before."""
    kept = file.read_checkpoint(connection)
    if books.seq - (kept.seq if kept else 0) >= CHECKPOINT_EVERY:
        file.write_checkpoint(connection, file.Checkpoint(books.seq, books.hash, books.state()))
