"""The ledger: every account, every reservation and every spend, on disk before a private row is read."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from populace.core.errors import LedgerError, OverBudget
from populace.privacy.accounting.budget import Budget, Number, parse_delta, parse_epsilon
from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.accounting.partition_selection import delta_price
from populace.privacy.accounting.privacy_loss import cap, price
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger import ledger_file as file
from populace.privacy.ledger import ledger_location as place
from populace.privacy.ledger import log_replay as log
from populace.privacy.ledger.account import (
    Account,
    check_account_name,
    check_new_account,
    name_ledger_in_grant,
    render_accounts,
)
from populace.privacy.ledger.exact_totals import ExactTotals, PublishedTotals
from populace.privacy.ledger.hash_chain import Event, EventKind, Head, opening_event, parse_head
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.ledger.release_record import ReleaseRecord
from populace.privacy.ledger.run_record import Adaptivity, PublicTable, RunRecord, check_delta_reserve
from populace.privacy.ledger.split_record import SplitRecord, name_new_accounts
from populace.schema.unit import Neighbours, PrivacyUnit

Decision = Callable[[LedgerState], Sequence[Event]]
R = TypeVar("R")


def default_ledger_path() -> Path:
    """Return where the ledger is kept unless the user says otherwise: $XDG_STATE_HOME/populace/ledger.db."""
    state = os.environ.get("XDG_STATE_HOME")
    # The XDG rules say that a relative path is to be ignored.
    home = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local" / "state"
    return home / "populace" / "ledger.db"


class Ledger:
    """A file of accounts. Any number of processes may use it; each change is decided under one lock.

    Nothing is kept open between calls, so a ledger survives forks and may be used from several threads.

    >>> import populace as pp
    >>> ledger = pp.Ledger.open("ledger.db")
    >>> ledger.open_account("people", epsilon=3, delta="1e-8").left_epsilon
    Fraction(3, 1)
    """

    __slots__ = ("_books", "path")

    def __init__(self, path: Path, *, books: LedgerState) -> None:
        self.path = path
        self._books = books

    @classmethod
    def open(cls, path: Path | str) -> Ledger:
        """Open a ledger, or create it if there is no such file. One that does not verify is refused.

        Folders are made for the default path alone: one that is missing elsewhere is a mistyped path.
        """
        path = Path(path)
        if not os.path.lexists(path):
            if path == default_ledger_path():
                file.make_folder(path)
            file.create(path)
        return cls.existing(path)

    @classmethod
    def existing(cls, path: Path | str) -> Ledger:
        """Open a ledger that must be there already."""
        ledger = cls(Path(path), books=LedgerState())
        ledger._current()
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return render_accounts(f"Ledger {self.path}", self.accounts())

    def verify(self) -> int:
        """Check every row from the first to the last, and the checkpoint against them; return how many rows there are.

        Opening a ledger trusts its checkpoint and reads what follows; this reads everything and trusts nothing.
        """
        self._transact(file.READ, lambda connection, _: file.check_pages(connection))

        def read(after: Head) -> log.LogPart:
            return self._transact(file.READ, lambda connection, _: log.read_part(connection, after=after))

        return log.verify_parts(read)

    def head(self) -> Head:
        """Return the last row's number and hash; kept elsewhere, they show whether rows were taken back."""
        books = self._current()
        return Head(seq=books.seq, hash=books.hash)

    def find_head(self, kept: str) -> Head:
        """Return the row that was the last when somebody kept it; refuse a ledger that no longer holds it."""
        seq, digest = parse_head(kept)
        found = self._transact(file.READ, lambda connection, _: file.seq_of(connection, digest))
        if found is None or seq not in (None, found):
            raise LedgerError(
                f"{self.path} does not hold the entry that was kept: it was rolled back, or is another ledger.",
                hint="find the file that holds it; an older copy lacks what was spent since",
            )
        return Head(seq=found, hash=digest)

    def accounts(self) -> tuple[Account, ...]:
        """Return all accounts, in the order in which they were opened."""
        return tuple(self._current().accounts.values())

    def account(self, dataset: str) -> Account:
        """Return the account of one dataset."""
        return self._current().account(dataset)

    def record(self, run: str) -> RunRecord:
        """Return all that the rows say about one run."""
        return self._with_runs(lambda _: (run,)).run(run)

    def runs(self, dataset: str) -> tuple[RunRecord, ...]:
        """Return all that the rows say about the runs of one account, in the order in which they began."""
        books = self._with_runs(lambda books: books.account(dataset).runs)
        return tuple(books.run(run) for run in books.account(dataset).runs)

    def releases(self, run_id: str) -> tuple[ReleaseRecord, ...]:
        """Return what one run has published, in the order in which it was booked."""
        books = self._with_runs(lambda _: (run_id,))
        return books.releases.get(books.run(run_id).run, ())

    def open_account(
        self, dataset: str, *, epsilon: Number, delta: Number, neighbours: Neighbours = Neighbours.ADD_REMOVE
    ) -> Account:
        """Open an account with a budget that all its runs share."""
        event = opening_event(
            dataset, parse_epsilon(epsilon), parse_delta(delta), neighbours=neighbours.value
        )

        def decide(books: LedgerState) -> Sequence[Event]:
            check_account_name(dataset, others=books.accounts)
            return [event]

        return self._write(decide).account(dataset)

    def grant(self, dataset: str, *, epsilon: Number, delta: Number) -> Account:
        """Give an account more; the guarantee for its rows becomes weaker by as much."""
        body = {"epsilon": str(parse_epsilon(epsilon)), "delta": str(parse_delta(delta))}
        event = Event(kind=EventKind.GRANT, dataset=dataset, body=body)
        return self._write(lambda _: [event]).account(dataset)

    def declare_nonprivate(self, dataset: str, *, reason: str) -> Account:
        """Book that something about the rows was published without privacy: it costs infinity, the account is void."""
        event = Event(kind=EventKind.NONPRIVATE, dataset=dataset, body={"reason": reason})
        return self._write(lambda _: [event]).account(dataset)

    def book_internal_read(self, dataset: str, *, schema_digest: str, columns: str) -> None:
        """Book that a schema is checked against rows without protection, before they are read; later runs say so."""
        body = {"schema_digest": schema_digest, "columns": columns}
        event = Event(kind=EventKind.INTERNAL_READ, dataset=dataset, body=body)
        self._write(lambda _: [event])

    def internal_reads(self, dataset: str) -> tuple[log.InternalRead, ...]:
        """Return the looks without protection at the rows of a dataset, in the order in which they were booked."""
        return self._transact(file.READ, lambda connection, _: log.list_internal_reads(connection, dataset))

    def book_split(self, record: SplitRecord) -> None:
        """Book a secret split: what pieces take is charged to the whole table, the most that one took; once."""
        event = Event(kind=EventKind.SPLIT, dataset=record.parent, body=record.to_json())
        self._write(lambda books: [] if record in books.splits.values() else [event])

    def splits(self, dataset: str) -> tuple[SplitRecord, ...]:
        """Return the splits of the people of a dataset, in the order in which they were booked."""
        return tuple(r for r in dict.fromkeys(self._current().splits.values()) if r.parent == dataset)

    def reserve(
        self,
        dataset: str,
        *,
        epsilon: Number,
        delta: Number,
        unit: PrivacyUnit,
        method: str,
        schema_digest: str,
        rehearsal: bool,
        plan: Adaptivity = Adaptivity.ADAPTIVE,
        keys: Fraction = Fraction(0),
        workload: str | None = None,
        public: PublicTable | None = None,
        exact: ExactTotals | None = None,
        columns: str | None = None,
        named: bool = True,
        announce: Callable[[], None] | None = None,
    ) -> Run:
        """Take a run's whole budget from the account, before anything is read; refuse if it is not there.

        `keys` is the part of δ that is set aside for telling keys, and for Gaussian noise among pure questions, `exact`
        are the totals that the run may publish exactly. Runs add up: Σε and Σδ over all of an account stay within it.
        Proofs: docs/proofs/discover.md, docs/proofs/invariants.md, docs/proofs/filters.md.
        A new account gets exactly this run's budget; one that nobody `named` with `columns` of another is refused.
        `announce` is called before anything is written, unless the run is refused.
        """
        epsilon, delta = parse_epsilon(epsilon), parse_delta(delta)
        check_delta_reserve(keys, delta=delta)
        currency, most = cap(epsilon, delta - keys)
        asked = RunRecord(
            run=secrets.token_hex(16),
            dataset=dataset,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            method=method,
            schema_digest=schema_digest,
            rehearsal=rehearsal,
            plan=plan,
            currency=currency,
            cap=most,
            keys=keys,
            workload=workload,
            public=public,
            exact=exact,
            columns=columns,
        )

        def decide(books: LedgerState) -> Sequence[Event]:
            body = replace(asked, internal_read=books.was_looked_at(asked)).reservation()
            reserving = Event(kind=EventKind.RESERVE, dataset=dataset, run=asked.run, body=body)
            if dataset in books.accounts:
                return [reserving]
            split = books.splits.get(dataset)
            if split is None and not named:
                check_new_account(asked, others=books.accounts.values())
            budget = (epsilon, delta)
            names, amount = name_new_accounts(dataset, split=split, accounts=books.accounts, asked=budget)
            for name in names:
                check_account_name(name, others=books.accounts)
            relation = unit.neighbours.value
            return [*(opening_event(name, *amount, neighbours=relation) for name in names), reserving]

        try:
            if announce is not None:
                self._check(decide)
                announce()
            books = self._write(decide)
        except OverBudget as refusal:
            raise name_ledger_in_grant(refusal, self.path, usual=default_ledger_path()) from None
        return Run(self, books.run(asked.run))

    def charge(self, run: RunRecord, *spends: Spend) -> None:
        """Book spends of a run; they are on disk when this returns. All are refused if too little is left for all."""
        events = []
        for spend in spends:
            cost = SpendRecord(
                spend=spend,
                price=price(spend, currency=run.currency),
                delta=delta_price(spend.mechanism, unit=run.unit),
            )
            events.append(Event(kind=EventKind.SPEND, dataset=run.dataset, run=run.run, body=cost.to_json()))
        self._write(lambda _: events)

    def book_totals(self, run: RunRecord, totals: PublishedTotals) -> None:
        """Book exact totals of a run before they are read; refused unless they were declared when it was reserved."""
        event = Event(kind=EventKind.INVARIANT, dataset=run.dataset, run=run.run, body=totals.to_json())
        self._write(lambda _: [event])

    def finish(self, run: RunRecord, *, returned: tuple[Fraction, Fraction]) -> None:
        """Close a run; a plan fixed in advance may give back what its questions did not need."""
        body = {"returned": [str(part) for part in returned]}
        event = Event(kind=EventKind.FINISH, dataset=run.dataset, run=run.run, body=body)
        self._write(lambda _: [event])

    def book_release(self, run_id: str, *, manifest: str, files: Mapping[str, str]) -> ReleaseRecord:
        """Book the digests of what a run publishes, before it is published; the same digests are booked once.

        It costs nothing, may follow the end of the run, and leaves the run's own record as it is.
        """
        asked = ReleaseRecord.from_json({"manifest": manifest, "files": files}, entry="")

        def decide(books: LedgerState) -> Sequence[Event]:
            run = books.run(run_id)
            if any(booked.to_json() == asked.to_json() for booked in books.releases.get(run_id, ())):
                return []
            return [Event(kind=EventKind.RELEASE, dataset=run.dataset, run=run_id, body=asked.to_json())]

        releases = self._write(decide).releases[run_id]
        return next(booked for booked in releases if booked.to_json() == asked.to_json())

    def _check(self, decide: Decision) -> None:
        """Refuse what `_write` would refuse now, and write nothing."""
        self._transact(file.READ, lambda _, books: books.draft().book(decide(books)))

    def _write(self, decide: Decision) -> LedgerState:
        """Decide on the newest books and write what was decided, in one transaction that holds the only lock."""

        def work(connection: sqlite3.Connection, books: LedgerState) -> LedgerState:
            for row in books.book(decide(books)):
                file.append(connection, row)
            if books.seq - file.checkpoint_seq(connection) >= log.CHECKPOINT_EVERY:
                file.write_checkpoint(connection, file.Checkpoint(books.seq, books.hash, books.state()))
            return books

        return self._transact(file.WRITE, work)

    def _current(self) -> LedgerState:
        return self._transact(file.READ, lambda _, books: books)

    def _with_runs(self, wanted: Callable[[LedgerState], Iterable[str]]) -> LedgerState:
        """Return the newest books with the runs that are wanted, also those from before the checkpoint."""
        books = self._current()
        if not books.base or all(run in books.runs for run in wanted(books)):
            return books

        def recall(_: sqlite3.Connection, books: LedgerState) -> LedgerState:
            for run in wanted(books):
                books.knows(run)
            return books

        return self._transact(file.READ, recall)

    def _transact(self, begin: str, work: Callable[[sqlite3.Connection, LedgerState], R]) -> R:
        """Bring the books up to date and work on them inside one transaction; keep them only if it was committed."""
        since = time.monotonic()
        while True:
            # Symbolic links lead all names of a file to the same journal.
            books, path = self._books.copy(), Path(os.path.realpath(self.path))
            opened = place.check_file(path)
            if begin == file.WRITE:
                place.remove_drafts(path)
            try:
                with file.transaction(path, begin=begin) as connection:
                    log.catch_up(connection, books)
                    done = work(connection, books)
                    books.archive = None
            except sqlite3.Error as failure:
                if file.is_busy(failure) and file.wait_a_moment(since):
                    continue
                file.raise_ledger_error(failure, self.path)
            place.check_same(path, opened)
            self._books = books
            return done


class Run:
    """One run of an account: its reserved budget, and the only way to spend it."""

    __slots__ = ("_ledger", "_reserved")

    def __init__(self, ledger: Ledger, reserved: RunRecord) -> None:
        self._ledger = ledger
        self._reserved = reserved

    def __repr__(self) -> str:
        return f"Run({self.id!r}, dataset={self._reserved.dataset!r})"

    @property
    def id(self) -> str:
        """The run's random name."""
        return self._reserved.run

    @property
    def rehearsal(self) -> bool:
        """Whether the run's noise is repeatable, so that nothing of it may be released."""
        return self._reserved.rehearsal

    @property
    def left(self) -> Budget:
        """What is left of the run's budget, from the ledger's rows."""
        return self.record().left

    def charge(self, *spends: Spend) -> None:
        """Book spends; they are on disk when this returns. Refused, and nothing booked, if too little is left."""
        self._ledger.charge(self._reserved, *spends)

    def book_totals(self, level: str, *, what: str) -> None:
        """Book exact totals, at no cost; they are on disk when this returns. Others than declared are refused."""
        self._ledger.book_totals(self._reserved, PublishedTotals(level=level, what=what))

    def finish(self, *, returned: tuple[Fraction, Fraction] | None = None) -> None:
        """Close the run. Only a plan fixed in advance may give back an (ε, δ) that its questions did not need.

        `record().compute_unneeded()` is what such a plan may give back by its privacy loss distribution.
        """
        self._ledger.finish(self._reserved, returned=returned or (Fraction(0), Fraction(0)))

    def record(self) -> RunRecord:
        """Return all that the ledger's rows say about this run."""
        return self._ledger.record(self.id)
