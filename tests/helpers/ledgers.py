"""Ledgers for tests: runs, spends, and ways to change a file behind populace's back."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.ledger import ledger_file
from populace.privacy.ledger.hash_chain import GENESIS, Event, EventKind, Row, seal_event
from populace.privacy.ledger.ledger import Ledger, Run
from populace.privacy.ledger.run_record import Adaptivity
from populace.schema.unit import PrivacyUnit

HALF = Fraction(1, 2)


def reserve(
    ledger: Ledger,
    dataset="adult",
    *,
    epsilon="1",
    delta="1e-9",
    unit=None,
    rehearsal=False,
    plan=Adaptivity.ADAPTIVE,
    keys=Fraction(0),
) -> Run:
    return ledger.reserve(
        dataset,
        epsilon=epsilon,
        delta=delta,
        unit=unit or PrivacyUnit(),
        method="mst",
        schema_digest="0" * 64,
        rehearsal=rehearsal,
        plan=plan,
        keys=keys,
    )


def half_of(run: Run, *, marginals: int = 3) -> Spend:
    """A question that costs just under half of the run's budget."""
    unit = run.record().budget.unit
    return Spend(
        verb="measure",
        what=f"{marginals} marginals",
        mechanism=run.record().budget.measure_noise(HALF, marginals=marginals),
        answers=marginals,
        l1=unit.marginal_l1,
        l2_squared=unit.marginal_l2_squared,
    )


def rewritten(path: Path, statement: str, *values: object) -> None:
    """Change a ledger behind populace's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in ("events_are_kept", "events_are_fixed"):
            connection.execute(f"drop trigger if exists {trigger}")
        connection.execute(statement, values)
        connection.execute("pragma wal_checkpoint(truncate)")


def rows(path: Path) -> list[Row]:
    """All rows of the log as they stand in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return list(ledger_file.rows_after(connection, 0))


def append_raw(path: Path, event: Event) -> None:
    """Write a well-sealed row without asking whether it is allowed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        last = list(ledger_file.rows_after(connection, 0))[-1]
        ledger_file.append(connection, seal_event(event, seq=last.seq + 1, previous=last.hash))


def forge(path: Path, *, row: int, **changes: object) -> None:
    """Change the body of one row and seal it and all later rows again, as somebody who knows the code can."""
    log = rows(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in ("events_are_kept", "events_are_fixed"):
            connection.execute(f"drop trigger if exists {trigger}")
        connection.execute("delete from events")
        previous = GENESIS
        for old in log:
            body = json.loads(old.body) | (changes if old.seq == row else {})
            event = Event(kind=EventKind(old.kind), dataset=old.dataset, run=old.run, body=body)
            new = seal_event(event, seq=old.seq, previous=previous)
            ledger_file.append(connection, new)
            previous = new.hash
