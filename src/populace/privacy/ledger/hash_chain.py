"""The hash chain of the ledger: ten kinds of events, each row sealed with a hash of everything before it.

Kinds are never removed and never change meaning; a kind that is not in this list is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from populace.core.errors import LedgerError, UsageError

GENESIS = "0" * 64
_SEALED = "populace-ledger-1"


class EventKind(Enum):
    """What can happen to an account."""

    OPEN = "open"
    GRANT = "grant"
    RESERVE = "reserve"
    SPEND = "spend"
    INVARIANT = "invariant"
    FINISH = "finish"
    NONPRIVATE = "nonprivate"
    RELEASE = "release"
    INTERNAL_READ = "internal look"
    SPLIT = "split"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the account of one dataset, in one run or outside any."""

    kind: EventKind
    dataset: str
    run: str | None = None
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """The last row of a log, by its number and its hash: everything before it is sealed in these.

    >>> str(Head(0, GENESIS))[:8]
    '0:000000'
    """

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


def parse_head(text: str) -> tuple[int | None, str]:
    """Return the number and the hash of a head that somebody kept, or its hash alone.

    >>> parse_head("7:" + "a" * 64)[0], parse_head("a" * 64)[0]
    (7, None)
    """
    if not (found := re.fullmatch(r"(?:([0-9]{1,18}):)?([0-9a-f]{64})", text.strip())):
        raise UsageError(
            f"{text!r} is not the head of a ledger.",
            hint="give NUMBER:HASH as `populace ledger head` printed it",
        )
    return None if found[1] is None else int(found[1]), found[2]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the log as it stands in the file."""

    seq: int
    kind: str
    dataset: str
    run: str | None
    body: str
    previous: str
    hash: str


def seal_event(event: Event, *, seq: int, previous: str) -> Row:
    """Return the row for an event that follows the row with the given hash.

    >>> row = seal_event(Event(kind=EventKind.NONPRIVATE, dataset="adult", body={}), seq=1, previous=GENESIS)
    >>> open_row(row, seq=1, previous=GENESIS).kind
    <EventKind.NONPRIVATE: 'nonprivate'>
    """
    body = canonical_json(event.body)
    digest = _digest(seq, event.kind.value, event.dataset, event.run, body, previous)
    return Row(seq, event.kind.value, event.dataset, event.run, body, previous, digest)


def open_row(row: Row, *, seq: int, previous: str) -> Event:
    """Return the event of a row, or refuse a row that is not the untouched successor of the one before."""
    if row.seq != seq:
        raise damage_error(f"row {seq} is missing")
    if row.previous != previous:
        raise damage_error(f"row {seq} does not follow row {seq - 1}")
    if not all(isinstance(text, str) for text in (row.kind, row.dataset, row.body, row.run or "")):
        raise damage_error(f"row {seq} cannot be read")
    if row.hash != _digest(row.seq, row.kind, row.dataset, row.run, row.body, row.previous):
        raise damage_error(f"row {seq} was altered")
    try:
        kind = EventKind(row.kind)
    except ValueError:
        raise LedgerError(
            f"row {seq} of the ledger is of a kind this version does not know: {row.kind!r}.",
            hint="use the version of populace that wrote it; an unknown event may be a spend",
        ) from None
    try:
        body = json.loads(row.body)
    except ValueError:
        raise damage_error(f"row {seq} cannot be read") from None
    if not isinstance(body, dict):
        raise damage_error(f"row {seq} cannot be read")
    return Event(kind=kind, dataset=row.dataset, run=row.run, body=body)


def canonical_json(value: object) -> str:
    """Return JSON with one spelling: keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def seal_head(seq: int, digest: str) -> str:
    """Return the seal of the head record, which names the last row."""
    return hashlib.sha256(canonical_json([_SEALED, "head", seq, digest]).encode()).hexdigest()


def seal_checkpoint(seq: int, digest: str, state: str) -> str:
    """Return the seal of a checkpoint: the state of all accounts after the row with this number and hash."""
    inner = hashlib.sha256(state.encode()).hexdigest()
    return hashlib.sha256(canonical_json([_SEALED, "checkpoint", seq, digest, inner]).encode()).hexdigest()


def damage_error(what: str) -> LedgerError:
    """Return the refusal for a log that is not as populace left it."""
    return LedgerError(
        f"the ledger is damaged: {what}.",
        hint="restore the file from a backup; a new ledger would forget what was already spent",
    )


def _digest(seq: int, kind: str, dataset: str, run: str | None, body: str, previous: str) -> str:
    return hashlib.sha256(
        canonical_json([_SEALED, seq, kind, dataset, run, body, previous]).encode()
    ).hexdigest()


def opening_event(dataset: str, epsilon: Fraction, delta: Fraction, *, neighbours: str) -> Event:
    """Return the event that opens an account with a budget, for one relation of neighbours."""
    body = {"epsilon": str(epsilon), "delta": str(delta), "neighbours": neighbours}
    return Event(kind=EventKind.OPEN, dataset=dataset, body=body)
