"""What a verb that spends tells about the account it spends from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli.console import say

if TYPE_CHECKING:
    from populace.schema.schema import Schema

MAX_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """The ledger as a run finds it: whether the file is there, and whether it knows the dataset."""

    path: Path
    dataset: str
    ledger: bool
    account: bool


def find_account(dataset: str, *, ledger: Path | None, schema: Schema) -> AccountState:
    """Look for the account of a dataset, and tell which others might be of the same people.

    A ledger that does not verify is refused.
    """
    from populace.privacy.ledger.ledger import Ledger, default_ledger_path

    path = ledger or default_ledger_path()
    there = path.exists()
    accounts = Ledger.existing(path).accounts() if there else ()
    known = any(account.dataset == dataset for account in accounts)
    if not known:
        warn_same_schema(dataset, [other.dataset for other in accounts if schema.digest in other.schemas])
    return AccountState(path=path, dataset=dataset, ledger=there, account=known)


def warn_same_schema(dataset: str, others: Sequence[str]) -> None:
    """Tell on stderr that a new account may be a second one for people who have one: a copy of a file has a new name.

    Rows are not compared: the ledger holds nothing about them.
    """
    if others:
        named = ", ".join(repr(other) for other in others[:MAX_NAMED]) + (
            ", …" if len(others) > MAX_NAMED else ""
        )
        say(
            f"WARNING: {dataset!r} is a new account, and there are other accounts with the same schema: {named}.\n"
            "hint: if these are the same people, stop and name that account by --dataset or in the schema: "
            "what is spent on two does not add up"
        )


def start_run(
    data: Path,
    *,
    schema: Path,
    epsilon: str,
    delta: str,
    method: str,
    workload: Path | str | None,
    public: Path | None,
    ledger: Path | None,
    dataset: str | None,
) -> tuple[Schema, AccountState]:
    """Return the schema of a run that will spend, and the account it finds; tell what the promise lacks."""
    from populace.api.reservation import default_dataset
    from populace.cli.notes import note_method, note_unread_columns, note_weak_guarantee
    from populace.schema.schema import Schema

    described = Schema.load(schema)
    found = find_account(
        dataset or described.dataset or default_dataset(data), ledger=ledger, schema=described
    )
    note_weak_guarantee(epsilon=epsilon, delta=delta)
    note_method(described, method=method, public=public is not None, workload=workload)
    note_unread_columns(data, described)
    return described, found


def print_balance(found: AccountState) -> None:
    """Tell on stderr what is left of the account after a run, and what the run had to make first."""
    from populace.core.number_format import format_exact
    from populace.privacy.ledger.ledger import Ledger

    account = Ledger.existing(found.path).account(found.dataset)
    if not found.ledger:
        note_new_ledger(found.path)
    if not found.account:
        say(
            f"the ledger had no account for {found.dataset!r}: one was opened with exactly this run's budget.\n"
            "hint: `populace ledger init` sets a larger one beforehand, `populace ledger grant` adds to it"
        )
    say(
        f"account {found.dataset!r}: epsilon {format_exact(account.left_epsilon)} left of "
        f"{format_exact(account.epsilon)}, delta {format_exact(account.left_delta)} left of "
        f"{format_exact(account.delta)} ({found.path})"
    )


def note_new_ledger(path: Path) -> None:
    """Tell on stderr that a ledger was made: if its path was mistyped, earlier runs are forgotten."""
    say(f"a new ledger was made at {path}; it knows of no earlier runs")
