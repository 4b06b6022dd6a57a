"""The books: accounts and runs, derived from the ledger's rows and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from fractions import Fraction
from shlex import quote
from typing import Any

from populace.errors import LedgerError, OverBudget, PopulaceError, UsageError
from populace.privacy.events import GENESIS, Event, Kind, Row, damaged, opened
from populace.privacy.mechanisms import fraction_from_json
from populace.privacy.record import RunRecord, short
from populace.privacy.release_record import ReleaseRecord
from populace.privacy.spends import SpendRecord
from populace.records import dataclass
from populace.schema.unit import Neighbours, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one dataset may spend, and what its runs have taken of it.

    The first run fixes whom the account protects: `unit` is their name, `id` the column whose values tell them
    apart (None: every row is one of them). Before that run, both are None.
    """

    dataset: str
    neighbours: Neighbours
    unit: str | None
    id: str | None
    epsilon: Fraction
    delta: Fraction
    taken_epsilon: Fraction
    taken_delta: Fraction
    void: bool
    rehearsal: bool
    runs: tuple[str, ...]

    @property
    def left_epsilon(self) -> Fraction:
        """The ε that later runs may still reserve."""
        return self.epsilon - self.taken_epsilon

    @property
    def left_delta(self) -> Fraction:
        """The δ that later runs may still reserve."""
        return self.delta - self.taken_delta


@dataclass(slots=True)
class Books:
    """The state of all accounts after some rows of the log."""

    seq: int = 0
    hash: str = GENESIS
    accounts: dict[str, Account] = field(default_factory=dict)
    runs: dict[str, RunRecord] = field(default_factory=dict)
    # The sum of prices of each run: adding them all up again at every spend would take time squared.
    used: dict[str, Fraction] = field(default_factory=dict)
    releases: dict[str, tuple[ReleaseRecord, ...]] = field(default_factory=dict)

    def copy(self) -> Books:
        """Return books that can be written on without changing these; accounts and runs are frozen values."""
        return Books(
            self.seq, self.hash, dict(self.accounts), dict(self.runs), dict(self.used), dict(self.releases)
        )

    def read(self, row: Row) -> None:
        """Take in the next row of a log, or refuse the log: no row may be altered or break the rules."""
        event = opened(row, seq=self.seq + 1, previous=self.hash)
        try:
            self.write(event, row=row)
        except (KeyError, IndexError, TypeError, ValueError, ArithmeticError) as failure:
            raise damaged(f"row {row.seq} cannot be read ({type(failure).__name__})") from failure
        except PopulaceError as failure:
            raise damaged(f"row {row.seq} breaks the rules ({failure.message})") from failure

    def write(self, event: Event, *, row: Row) -> None:
        """Apply one event, or refuse it and leave the books as they were."""
        if event.kind is Kind.OPEN:
            self._open(event)
        elif event.kind is Kind.GRANT:
            self._grant(event)
        elif event.kind is Kind.RESERVE:
            self._reserve(event, digest=row.hash)
        elif event.kind is Kind.SPEND:
            self._spend(event, digest=row.hash)
        elif event.kind is Kind.FINISH:
            self._finish(event, digest=row.hash)
        elif event.kind is Kind.RELEASE:
            self._release(event, digest=row.hash)
        else:
            self.accounts[event.dataset] = replace(self.account(event.dataset), void=True)
        self.seq, self.hash = row.seq, row.hash

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
        if run is None or run not in self.runs:
            raise LedgerError(
                f"the ledger does not know the run {run}.",
                hint="give the ledger that the run was booked in; an older copy of it lacks later runs",
            )
        return self.runs[run]

    def _open(self, event: Event) -> None:
        if event.dataset in self.accounts:
            raise LedgerError(
                f"the ledger already has an account for {event.dataset!r}.",
                hint="give it more with `populace ledger grant`",
            )
        epsilon, delta = _amount(event.body)
        self.accounts[event.dataset] = Account(
            dataset=event.dataset,
            neighbours=Neighbours(event.body["neighbours"]),
            unit=None,
            id=None,
            epsilon=epsilon,
            delta=delta,
            taken_epsilon=Fraction(0),
            taken_delta=Fraction(0),
            void=False,
            rehearsal=False,
            runs=(),
        )

    def _grant(self, event: Event) -> None:
        account = self._private(event.dataset)
        epsilon, delta = _amount(event.body)
        if account.delta + delta >= 1:
            raise UsageError(
                f"with this grant the delta of {event.dataset!r} would be {short(account.delta + delta)}.",
                hint="the deltas of an account must stay below 1 together",
            )
        self.accounts[event.dataset] = replace(
            account, epsilon=account.epsilon + epsilon, delta=account.delta + delta
        )

    def _reserve(self, event: Event, *, digest: str) -> None:
        account = self._private(event.dataset)
        if event.run is None or event.run in self.runs:
            raise LedgerError(f"the run {event.run} cannot start.", hint="every run needs a new name")
        record = RunRecord.reserved(event.body, run=event.run, dataset=event.dataset, digest=digest)
        _amount(event.body)
        if record.neighbours is not account.neighbours:
            raise _other_relation(account, record.neighbours)
        if account.unit is not None and (account.unit, account.id) != (record.unit.name, record.unit.id):
            raise _other_unit(account, record.unit)
        record.check_cap()
        if record.epsilon > account.left_epsilon or record.delta > account.left_delta:
            raise _too_much(account, record)
        self.runs[event.run] = record
        self.used[event.run] = Fraction(0)
        self.accounts[event.dataset] = replace(
            account,
            unit=record.unit.name,
            id=record.unit.id,
            taken_epsilon=account.taken_epsilon + record.epsilon,
            taken_delta=account.taken_delta + record.delta,
            rehearsal=account.rehearsal or record.rehearsal,
            runs=(*account.runs, event.run),
        )

    def _spend(self, event: Event, *, digest: str) -> None:
        self._private(event.dataset)
        run = self._active(event)
        record = SpendRecord.booked(event.body)
        left = run.cap - self.used[run.run]
        if record.price <= 0:
            raise LedgerError("a spend costs nothing.", hint="every question has a price")
        run.check_spend(record)
        if record.price > left:
            raise OverBudget(
                f"to {record.spend} costs {short(record.price)}; {short(left)} of {short(run.cap)} "
                f"({run.currency.value}) is left, {short(record.price - left)} short.",
                hint="ask with more noise, ask for less, or reserve a larger budget for the run",
            )
        if record.delta > (unused := run.keys - run.used_keys if record.delta else Fraction(0)):
            raise OverBudget(
                f"to {record.spend} takes {short(record.delta)} of delta; {short(unused)} of the "
                f"{short(run.keys)} set aside is left.",
                hint="tell keys above a higher threshold, let Gaussian noise name less of delta, or set more aside",
            )
        self.runs[run.run] = replace(run, spends=(*run.spends, record), digest=digest)
        self.used[run.run] += record.price

    def _finish(self, event: Event, *, digest: str) -> None:
        run = self._active(event)
        account = self.account(event.dataset)
        epsilon, delta = (fraction_from_json(part) for part in event.body["returned"])
        run.check_return((epsilon, delta))
        self.runs[run.run] = replace(run, returned=(epsilon, delta), finished=True, digest=digest)
        self.accounts[event.dataset] = replace(
            account,
            taken_epsilon=account.taken_epsilon - epsilon,
            taken_delta=account.taken_delta - delta,
        )

    def _release(self, event: Event, *, digest: str) -> None:
        """Take in what a run published. It costs nothing: the run paid for it, finished or not."""
        run = self._own_run(event)
        record = ReleaseRecord.from_json(event.body, entry=digest)
        self.releases[run.run] = (*self.releases.get(run.run, ()), record)

    def _private(self, dataset: str) -> Account:
        account = self.account(dataset)
        if account.void:
            raise OverBudget(
                f"the account of {dataset!r} is void: its rows were published without privacy, at infinite cost.",
                hint="no budget can restore a guarantee for these rows",
            )
        return account

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


def _amount(body: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    """Return a positive ε and a δ in [0, 1): what accounts, grants and runs are made of."""
    epsilon, delta = fraction_from_json(body["epsilon"]), fraction_from_json(body["delta"])
    if epsilon <= 0 or not 0 <= delta < 1:
        raise UsageError(
            f"epsilon is {short(epsilon)} and delta {short(delta)}.",
            hint="epsilon must be positive, delta at least 0 and below 1",
        )
    return epsilon, delta


def _too_much(account: Account, run: RunRecord) -> OverBudget:
    lacking = [
        f"{name} {short(asked)} is asked, {short(left)} of {short(whole)} is left, {short(asked - left)} short"
        for name, asked, left, whole in (
            ("epsilon", run.epsilon, account.left_epsilon, account.epsilon),
            ("delta", run.delta, account.left_delta, account.delta),
        )
        if asked > left
    ]
    return OverBudget(
        f"the account of {account.dataset!r} cannot pay for this run: {'; '.join(lacking)}.",
        hint="other rows of a release that exists are free (`populace generate`); else ask for less, or decide to give "
        f"the account more, which weakens its promise by as much: `populace ledger grant{_lacking(account, run)}`",
    )


def _lacking(account: Account, run: RunRecord) -> str:
    """Return the options of a grant that would do; none where only delta is short, since no grant is of delta alone."""
    amounts = [
        max(Fraction(0), run.epsilon - account.left_epsilon),
        max(Fraction(0), run.delta - account.left_delta),
    ]
    # What is not told exactly is told a little larger.
    told = [
        short(amount if Fraction(short(amount)) >= amount else amount * Fraction(10001, 10000))
        for amount in amounts
    ]
    return f" --dataset {quote(account.dataset)} --epsilon {told[0]} --delta {told[1]}" if amounts[0] else ""


def _other_relation(account: Account, asked: Neighbours) -> UsageError:
    return UsageError(
        f"the account of {account.dataset!r} is for {account.neighbours.value} neighbours, this run for {asked.value}.",
        hint=f'an account carries one relation: set neighbours = "{account.neighbours.value}" in the schema',
    )


def _other_unit(account: Account, asked: Unit) -> UsageError:
    if account.unit != asked.name:
        return UsageError(
            f"the account of {account.dataset!r} protects each {account.unit}, this run each {asked.name}.",
            hint="protect the same unit in every run: guarantees for different units do not add up",
        )
    wanted = "leave out id" if account.id is None else f'set id = "{account.id}"'
    return UsageError(
        f"in the account of {account.dataset!r} one {account.unit} is {_extent(account.id)}, "
        f"in this run {_extent(asked.id)}.",
        hint=f"{wanted} in the schema: guarantees for different units do not add up (rows_per_unit may differ)",
    )


def _extent(column: str | None) -> str:
    return "one row" if column is None else f"all rows with one value of {column!r}"
