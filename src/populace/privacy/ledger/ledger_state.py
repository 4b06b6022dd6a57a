"""The books: accounts and runs, derived from the ledger's rows and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from populace.core.errors import LedgerError, OverBudget, PopulaceError, UsageError
from populace.privacy.accounting.mechanisms import fraction_from_json
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.account import NAMES_DIGITS, Account, fix_protected, over_budget_error
from populace.privacy.ledger.exact_totals import PublishedTotals, check_published
from populace.privacy.ledger.hash_chain import (
    GENESIS,
    Event,
    EventKind,
    Row,
    canonical_json,
    damage_error,
    open_row,
    seal_event,
)
from populace.privacy.ledger.release_record import ReleaseRecord
from populace.privacy.ledger.run_record import Adaptivity, RunRecord, format_short
from populace.privacy.ledger.split_record import SplitRecord, piece_budget_error
from populace.schema.unit import Neighbours

Archive = Callable[[str], Iterable[Row]]
_DAMAGE_ERRORS = (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError)


@dataclass(slots=True)
class LedgerState:
    """The state of all accounts after some rows of the log, and the runs among these rows.

    Books that began at a checkpoint know the sums of earlier runs alone. While `archive` gives the rows of a run, such
    a run is read when somebody asks for it.
    """

    seq: int = 0
    hash: str = GENESIS
    accounts: dict[str, Account] = field(default_factory=dict)
    runs: dict[str, RunRecord] = field(default_factory=dict)
    # The sum of prices of each run: adding them all up again at every spend would take time squared.
    used: dict[str, Fraction] = field(default_factory=dict)
    # Fixed plans whose prices exceed their cap, until the distribution of all their noise is held against (ε, δ).
    unsettled: set[str] = field(default_factory=set)
    releases: dict[str, tuple[ReleaseRecord, ...]] = field(default_factory=dict)
    internal_reads: set[str] = field(default_factory=set)
    """Datasets whose rows somebody looked at without protection to check a schema, with or without an account yet."""
    looked_names: set[str] = field(default_factory=set)
    """Digests of the names of the columns of these rows: another name of the dataset does not undo the look."""
    splits: dict[str, SplitRecord] = field(default_factory=dict)
    """The split that each piece is of, by the name of its account; with or without accounts yet."""
    base: int = 0
    """The row of the checkpoint that these books began at; 0 where all rows were read."""
    archive: Archive | None = None

    def copy(self) -> LedgerState:
        """Return books that can be written on without changing these; accounts and runs are frozen values."""
        return replace(
            self,
            accounts=dict(self.accounts),
            runs=dict(self.runs),
            used=dict(self.used),
            unsettled=set(self.unsettled),
            releases=dict(self.releases),
            internal_reads=set(self.internal_reads),
            looked_names=set(self.looked_names),
            splits=dict(self.splits),
            archive=None,
        )

    def draft(self) -> LedgerState:
        """Return books to try events on; nothing of it is kept."""
        return replace(self.copy(), archive=self.archive)

    def begin_at(self, state: str, *, seq: int, digest: str) -> None:
        """Let empty books begin at a checkpoint: the state of all accounts after one row."""
        try:
            kept = json.loads(state)
            accounts = [Account.from_json(data) for data in kept["accounts"]]
            self.internal_reads = {str(dataset) for dataset in kept.get("internal_reads", ())}
            self.looked_names = {str(names) for names in kept.get("looked_names", ())}
            for parent, body in kept.get("splits", ()):
                record = SplitRecord.from_json(body, parent=str(parent))
                self.splits |= dict.fromkeys(record.pieces, record)
        except _DAMAGE_ERRORS as failure:
            raise damage_error(f"its checkpoint cannot be read ({type(failure).__name__})") from failure
        self.accounts = {account.dataset: account for account in accounts}
        self.seq, self.hash, self.base = seq, digest, seq

    def state(self) -> str:
        """Return the state of all accounts, as a checkpoint keeps it."""
        state: dict[str, Any] = {"accounts": [account.to_json() for account in self.accounts.values()]}
        splits = dict.fromkeys(self.splits.values())
        # Only where there is something to say, as in checkpoints of older versions.
        optional = {
            "internal_reads": sorted(self.internal_reads),
            "looked_names": sorted(self.looked_names),
            "splits": [[record.parent, record.to_json()] for record in splits],
        }
        return canonical_json(state | {key: held for key, held in optional.items() if held})

    def read(self, row: Row) -> None:
        """Take in the next row of a log, or refuse the log: no row may be altered or break the rules."""
        event = open_row(row, seq=self.seq + 1, previous=self.hash)
        with _report_damage(row):
            self.write(event, row=row)

    def knows(self, run: str | None) -> bool:
        """Say whether there is such a run, and read it if it lies before the checkpoint."""
        if run is not None and run not in self.runs and (archive := self.archive) is not None:
            # Its rows must suffice: a spend whose reservation is missing is damage, and no reason to look again.
            self.archive = None
            for row in archive(run):
                self._recall(row)
            self.settle_read()
            self.archive = archive
        return run in self.runs

    def book(self, events: Iterable[Event]) -> list[Row]:
        """Apply the events of one transaction, and return their rows; if one is refused, so are all."""
        rows = []
        for event in events:
            rows.append(seal_event(event, seq=self.seq + 1, previous=self.hash))
            self.write(event, row=rows[-1])
        self.settle()
        return rows

    def settle(self) -> None:
        """Refuse fixed plans whose noise is not within their (ε, δ), after all spends that are booked together.

        The distribution takes a moment, and that of fewer spends is within that of all: it is computed once.
        """
        while self.unsettled:
            self.runs[self.unsettled.pop()].check_total()

    def settle_read(self) -> None:
        """Settle runs after rows were read: what cannot be settled is damage of the log."""
        try:
            self.settle()
        except PopulaceError as failure:
            raise damage_error(f"a run breaks the rules ({failure.message})") from failure

    def _recall(self, row: Row) -> None:
        """Take in a row of a run from before the checkpoint, whose sums the accounts hold already."""
        event = open_row(row, seq=row.seq, previous=row.previous)
        with _report_damage(row):
            if event.kind is EventKind.RESERVE:
                self._begin(_parse_reservation(event, digest=row.hash))
            elif event.kind is EventKind.FINISH:
                self._end(event, digest=row.hash)
            else:
                self._apply(event, digest=row.hash)

    def write(self, event: Event, *, row: Row) -> None:
        """Apply one event, or refuse it and leave the books as they were."""
        # Nothing more is paid from an account once something about its rows was published without privacy.
        if event.kind in (EventKind.GRANT, EventKind.RESERVE, EventKind.SPEND, EventKind.INVARIANT):
            self._check_private(event.dataset)
        self._apply(event, digest=row.hash)
        self.seq, self.hash = row.seq, row.hash

    def _apply(self, event: Event, *, digest: str) -> None:
        handlers: Mapping[EventKind, Callable[..., None]] = {
            EventKind.OPEN: self._open,
            EventKind.GRANT: self._grant,
            EventKind.RESERVE: self._reserve,
            EventKind.SPEND: self._spend,
            EventKind.INVARIANT: self._publish_totals,
            EventKind.FINISH: self._finish,
            EventKind.NONPRIVATE: self._void,
            EventKind.RELEASE: self._release,
            EventKind.INTERNAL_READ: self._read_internally,
            EventKind.SPLIT: self._split,
        }
        handlers[event.kind](event, digest=digest)

    def account(self, dataset: str) -> Account:
        """Return the account of a dataset."""
        if dataset not in self.accounts:
            near = get_close_matches(dataset, self.accounts, n=1)
            raise LedgerError(
                f"the ledger has no account for {dataset!r}.",
                hint=f"did you mean {near[0]!r}?" if near else "open one with `populace ledger init`",
            )
        return self.accounts[dataset]

    def run(self, run: str | None) -> RunRecord:
        """Return the record of a run."""
        if run is None or not self.knows(run):
            raise LedgerError(
                f"the ledger does not know the run {run}.",
                hint="give the ledger that the run was booked in; an older copy of it lacks later runs",
            )
        return self.runs[run]

    def _open(self, event: Event, *, digest: str) -> None:  # noqa: ARG002
        if event.dataset in self.accounts:
            raise LedgerError(
                f"the ledger already has an account for {event.dataset!r}.",
                hint="give it more with `populace ledger grant`",
            )
        epsilon, delta = _parse_amount(event.body)
        neighbours = Neighbours(event.body["neighbours"])
        if event.dataset in self.splits:
            parent = self.account(self.splits[event.dataset].parent)
            if (epsilon, delta, neighbours) != (parent.epsilon, parent.delta, parent.neighbours):
                raise piece_budget_error(parent.dataset)
        self.accounts[event.dataset] = Account(
            dataset=event.dataset, neighbours=neighbours, epsilon=epsilon, delta=delta
        )

    def _grant(self, event: Event, *, digest: str) -> None:  # noqa: ARG002
        account = self.account(event.dataset)
        epsilon, delta = _parse_amount(event.body)
        if event.dataset in self.splits:
            raise piece_budget_error(self.splits[event.dataset].parent)
        if account.delta + delta >= 1:
            raise UsageError(
                f"with this grant the delta of {event.dataset!r} would be {format_short(account.delta + delta)}.",
                hint="the deltas of an account must stay below 1 together",
            )
        pieces = (name for name, split in self.splits.items() if split.parent == event.dataset)
        for each in (account, *(self.accounts[name] for name in pieces if name in self.accounts)):
            sums = (each.epsilon + epsilon, each.delta + delta)
            self.accounts[each.dataset] = replace(each, epsilon=sums[0], delta=sums[1])

    def _reserve(self, event: Event, *, digest: str) -> None:
        account = self.account(event.dataset)
        if event.run is None or self.knows(event.run):
            raise LedgerError(f"the run {event.run} cannot start.", hint="every run needs a new name")
        record = _parse_reservation(event, digest=digest)
        _parse_amount(event.body)
        protected = fix_protected(account, record)
        if record.internal_read is not self.was_looked_at(record):
            raise LedgerError(
                f"the reservation does not say whether rows of {event.dataset!r} were looked at.",
                hint="reserve through the ledger, which knows",
            )
        record.check_cap()
        split = self.splits.get(event.dataset)
        # A piece has no budget of its own: the whole table's is asked below.
        short = record.epsilon > account.left_epsilon or record.delta > account.left_delta
        if split is None and short:
            raise over_budget_error(account, record)
        after = replace(
            protected,
            taken_epsilon=account.taken_epsilon + record.epsilon,
            taken_delta=account.taken_delta + record.delta,
            rehearsal=account.rehearsal or record.rehearsal,
            runs=(*account.runs, event.run),
            schemas=tuple(dict.fromkeys((*account.schemas, record.schema_digest))),
            columns=tuple(dict.fromkeys((*account.columns, *((record.columns,) if record.columns else ())))),
        )
        if split is not None:
            split.check_unit(record.unit)
            self.accounts[split.parent] = split.pay_for_piece(self.accounts, after, record=record)
        self._begin(record)
        self.accounts[event.dataset] = after

    def _begin(self, record: RunRecord) -> None:
        self.runs[record.run] = record
        self.used[record.run] = Fraction(0)

    def _spend(self, event: Event, *, digest: str) -> None:
        run = self._active(event)
        record = SpendRecord.from_event(event.body)
        left = run.cap - self.used[run.run]
        if record.price <= 0:
            raise LedgerError("a spend costs nothing.", hint="every question has a price")
        run.check_spend(record)
        if record.price > left and run.plan is Adaptivity.FIXED:
            self.unsettled.add(run.run)
        elif record.price > left:
            raise OverBudget(
                f"to {record.spend} costs {format_short(record.price)}; {format_short(left)} of "
                f"{format_short(run.cap)} "
                f"({run.currency.value}) is left, {format_short(record.price - left)} short.",
                hint="ask with more noise, ask for less, or reserve a larger budget for the run",
            )
        if record.delta > (unused := run.keys - run.used_delta_reserve if record.delta else Fraction(0)):
            raise OverBudget(
                f"to {record.spend} takes {format_short(record.delta)} of delta; {format_short(unused)} of the "
                f"{format_short(run.keys)} set aside is left.",
                hint="tell keys above a higher threshold, let Gaussian noise name less of delta, or set more aside",
            )
        self.runs[run.run] = replace(run, spends=(*run.spends, record), digest=digest)
        self.used[run.run] += record.price

    def _publish_totals(self, event: Event, *, digest: str) -> None:
        """Take in exact totals. They cost nothing: all neighbours that the run may have agree on them."""
        run = self._active(event)
        totals = PublishedTotals.from_json(event.body)
        check_published(totals, exact=run.exact, run=run.run)
        self.runs[run.run] = replace(run, invariants=(*run.invariants, totals), digest=digest)

    def _finish(self, event: Event, *, digest: str) -> None:
        epsilon, delta = self._end(event, digest=digest)
        account = self.account(event.dataset)
        after = replace(
            account,
            taken_epsilon=account.taken_epsilon - epsilon,
            taken_delta=account.taken_delta - delta,
        )
        if (split := self.splits.get(event.dataset)) is not None:
            self.accounts[split.parent] = split.charge_parent(self.accounts, after)
        self.accounts[event.dataset] = after

    def _end(self, event: Event, *, digest: str) -> tuple[Fraction, Fraction]:
        run = self._active(event)
        epsilon, delta = (fraction_from_json(part) for part in event.body["returned"])
        run.check_return((epsilon, delta))
        self.runs[run.run] = replace(run, returned=(epsilon, delta), finished=True, digest=digest)
        return epsilon, delta

    def _release(self, event: Event, *, digest: str) -> None:
        """Take in what a run published. It costs nothing: the run paid for it, finished or not."""
        run = self._own_run(event)
        record = ReleaseRecord.from_json(event.body, entry=digest)
        self.releases[run.run] = (*self.releases.get(run.run, ()), record)

    def _read_internally(self, event: Event, *, digest: str) -> None:  # noqa: ARG002
        """Take in that a schema was checked against rows, in the house. It costs nothing, and is never forgotten."""
        # Older ledgers have no digest of the columns.
        if set(event.body) - {"columns"} != {"schema_digest"}:
            raise LedgerError("a look names one schema, and nothing else.", hint="book it by its digest")
        self.internal_reads.add(event.dataset)
        if "columns" in event.body:
            self.looked_names.add(str(event.body["columns"])[:NAMES_DIGITS])

    def was_looked_at(self, record: RunRecord) -> bool:
        """Say whether rows of a run's dataset, or of one with columns of the same names, were looked at."""
        names = (record.columns or "")[:NAMES_DIGITS]
        return record.dataset in self.internal_reads or names in self.looked_names

    def _split(self, event: Event, *, digest: str) -> None:  # noqa: ARG002
        """Take in a split. It costs nothing by itself; from now on the whole table pays for the costliest piece."""
        record = SplitRecord.from_json(event.body, parent=event.dataset)
        record.check_new(accounts=self.accounts, splits=self.splits)
        self.splits |= dict.fromkeys(record.pieces, record)

    def _void(self, event: Event, *, digest: str) -> None:  # noqa: ARG002
        split = self.splits.get(event.dataset)
        for dataset in (event.dataset, *(() if split is None else (split.parent,))):
            self.accounts[dataset] = replace(self.account(dataset), void=True)

    def _check_private(self, dataset: str) -> None:
        split = self.splits.get(dataset)
        if self.account(dataset).void or (split is not None and self.account(split.parent).void):
            raise OverBudget(
                f"the account of {dataset!r} is void: its rows were published without privacy, at infinite cost.",
                hint="no budget can restore a guarantee for these rows",
            )

    def _active(self, event: Event) -> RunRecord:
        run = self._own_run(event)
        if run.finished:
            raise UsageError(f"run {run.run} is finished.", hint="reserve a new run to ask more")
        return run

    def _own_run(self, event: Event) -> RunRecord:
        run = self.run(event.run)
        if run.dataset != event.dataset:
            raise LedgerError(
                f"run {run.run} is not a run of {event.dataset!r}.", hint=f"it is one of {run.dataset!r}"
            )
        return run


def _parse_amount(body: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    """Return a positive ε and a δ in [0, 1): what accounts, grants and runs are made of."""
    epsilon, delta = fraction_from_json(body["epsilon"]), fraction_from_json(body["delta"])
    if epsilon <= 0 or not 0 <= delta < 1:
        raise UsageError(
            f"epsilon is {format_short(epsilon)} and delta {format_short(delta)}.",
            hint="epsilon must be positive, delta at least 0 and below 1",
        )
    return epsilon, delta


def _parse_reservation(event: Event, *, digest: str) -> RunRecord:
    return RunRecord.from_reservation(event.body, run=str(event.run), dataset=event.dataset, digest=digest)


@contextmanager
def _report_damage(row: Row) -> Iterator[None]:
    """Tell of a row that cannot be taken in as damage of the log."""
    try:
        yield
    except _DAMAGE_ERRORS as failure:
        raise damage_error(f"row {row.seq} cannot be read ({type(failure).__name__})") from failure
    except PopulaceError as failure:
        raise damage_error(f"row {row.seq} breaks the rules ({failure.message})") from failure
