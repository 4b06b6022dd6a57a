"""How the books follow the rows of a file: from its checkpoint when it is opened, from the first row to verify it.

A checkpoint is the state of all accounts after one row, sealed with that row's hash. It saves time and adds no trust:
whoever can write the file can seal another one, as they can seal other rows. `verify_parts` holds it against the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from populace.privacy.ledger import ledger_file as file
from populace.privacy.ledger.hash_chain import EventKind, Head, Row, damage_error, open_row
from populace.privacy.ledger.ledger_state import LedgerState

# Opening a ledger reads fewer rows than this, beside those of the runs that it is asked for.
CHECKPOINT_EVERY = 64
PART_ROWS = 2000


def catch_up(connection: sqlite3.Connection, books: LedgerState) -> None:
    """Read the rows that others have added; those read before must still be there."""
    if books.seq == 0 and (kept := file.read_checkpoint(connection)):
        books.begin_at(kept.state, seq=kept.seq, digest=kept.hash)
    if books.base:
        books.archive = lambda run: file.rows_of_run(connection, run, until=books.seq)
    if file.hash_at(connection, books.seq) != books.hash:
        raise damage_error("rows that were there before are gone or altered")
    for row in file.rows_after(connection, books.seq):
        books.read(row)
    books.settle_read()
    file.check_head(connection, seq=books.seq, digest=books.hash)


@dataclass(frozen=True, slots=True)
class LogPart:
    """Some rows of the log, one after the other, and the checkpoint that stood in the file when they were read."""

    rows: tuple[Row, ...]
    checkpoint: file.Checkpoint | None


def read_part(connection: sqlite3.Connection, *, after: Head) -> LogPart:
    """Return the rows that follow one row, some thousand at most; after the last row, the head record is checked."""
    rows = tuple(islice(file.rows_after(connection, after.seq), PART_ROWS))
    if not rows:
        file.check_head(connection, seq=after.seq, digest=after.hash)
    return LogPart(rows, file.read_checkpoint(connection))


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalRead:
    """A schema that was checked against rows without protection: the hash of the entry, and the schema's digest."""

    entry: str
    schema_digest: str


def list_internal_reads(connection: sqlite3.Connection, dataset: str) -> tuple[InternalRead, ...]:
    """Return what was looked at under the name of a dataset, in order; an altered row is refused."""
    rows = file.rows_of_kind(connection, EventKind.INTERNAL_READ.value, dataset=dataset)
    return tuple(
        InternalRead(
            entry=row.hash,
            schema_digest=str(open_row(row, seq=row.seq, previous=row.previous).body["schema_digest"]),
        )
        for row in rows
    )


def verify_parts(read: Callable[[Head], LogPart]) -> int:
    """Hold all rows against the rules and the checkpoint against the rows; return how many rows there are.

    Rows are checked between the calls of `read`, while nothing is locked: a long log must not keep runs waiting. A
    checkpoint is written together with its row, so the one that stands beside the last rows has its row among those
    that were read with it, or before.
    """
    books, agreed = LedgerState(), None
    while (part := read(Head(books.seq, books.hash))).rows:
        for row in part.rows:
            books.read(row)
            if part.checkpoint is not None and part.checkpoint.seq == books.seq:
                agreed = file.Checkpoint(books.seq, books.hash, books.state())
        books.settle_read()
    if part.checkpoint is not None and part.checkpoint != agreed:
        raise damage_error("its checkpoint does not follow from its rows")
    return books.seq
