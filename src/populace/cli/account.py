"""What a verb that spends tells about the account it spends from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli.console import say
from populace.records import dataclass

if TYPE_CHECKING:
    from populace.schema.schema import Schema

MAX_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The ledger as a run finds it: whether the file is there, and whether it knows the dataset."""

    path: Path
    dataset: str
    ledger: bool
    account: bool


def look_up(dataset: str, *, ledger: Path | None, schema: Schema) -> Found:
    """Look for the account of a dataset, and tell which others might be of the same people.

    A ledger that does not verify is refused.
    """
    from populace.privacy.ledger import Ledger, default_path

    path = ledger or default_path()
    there = path.exists()
    accounts = Ledger.existing(path).accounts() if there else ()
    known = any(account.dataset == dataset for account in accounts)
    if not known:
        tell_same_schema(dataset, [other.dataset for other in accounts if schema.digest in other.schemas])
    return Found(path=path, dataset=dataset, ledger=there, account=known)


def tell_same_schema(dataset: str, others: Sequence[str]) -> None:
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


def begin(
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
) -> tuple[Schema, Found]:
    """Return the schema of a run that will spend, and the account it finds; tell what the promise lacks."""
    from populace.cli.notes import tell_deaf, tell_left_out, tell_neighbours, tell_weak_promise
    from populace.reservation import dataset_name
    from populace.schema.schema import Schema

    described = Schema.load(schema)
    found = look_up(dataset or described.dataset or dataset_name(data), ledger=ledger, schema=described)
    tell_weak_promise(epsilon=epsilon, delta=delta)
    tell_deaf(method, workload=workload)
    tell_neighbours(described, method=method, public=public is not None)
    tell_left_out(data, described)
    return described, found


def tell_account(found: Found) -> None:
    """Tell on stderr what is left of the account after a run, and what the run had to make first."""
    from populace.privacy.ledger import Ledger
    from populace.release.statement import exact_text

    account = Ledger.existing(found.path).account(found.dataset)
    if not found.ledger:
        tell_new_ledger(found.path)
    if not found.account:
        say(
            f"the ledger had no account for {found.dataset!r}: one was opened with exactly this run's budget.\n"
            "hint: `populace ledger init` sets a larger one beforehand, `populace ledger grant` adds to it"
        )
    say(
        f"account {found.dataset!r}: epsilon {exact_text(account.left_epsilon)} left of "
        f"{exact_text(account.epsilon)}, delta {exact_text(account.left_delta)} left of "
        f"{exact_text(account.delta)} ({found.path})"
    )


def tell_new_ledger(path: Path) -> None:
    """Tell on stderr that a ledger was made: if its path was mistyped, earlier runs are forgotten."""
    say(f"a new ledger was made at {path}; it knows of no earlier runs")
