"""What a verb that spends says about the account it spends from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli.console import say

if TYPE_CHECKING:
    from populace.api.request import RunRequest

MAX_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """The ledger as a run finds it: whether the file is there, and whether it knows the dataset."""

    path: Path
    dataset: str
    ledger: bool
    account: bool


def find_account(request: RunRequest) -> AccountState:
    """Look for the account of a run, and warn of others that might be of the same people.

    A ledger that does not verify is refused. Rows are not compared: the ledger holds nothing about them.
    """
    from populace.privacy.ledger.ledger import Ledger

    path, dataset = request.ledger, request.dataset
    exists = path.exists()
    accounts = Ledger.existing(path).accounts() if exists else ()
    known = any(account.dataset == dataset for account in accounts)
    others = [repr(other.dataset) for other in accounts if request.schema.digest in other.schemas]
    if others and not known:
        named = ", ".join(others[:MAX_NAMED]) + (", …" if len(others) > MAX_NAMED else "")
        say(
            f"WARNING: {dataset!r} is a new account, and there are other accounts with the same schema: {named}.\n"
            "hint: if these are the same people, stop and name that account by --dataset or in the schema: "
            "what is spent on two does not add up"
        )
    return AccountState(path=path, dataset=dataset, ledger=exists, account=known)


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
