"""What a verb that spends tells about the account it spends from."""

from __future__ import annotations

from pathlib import Path

from populace.cli.console import say


def has_account(dataset: str, *, ledger: Path | None) -> bool:
    """Say whether the ledger knows the dataset already. A ledger that does not verify is refused."""
    from populace.privacy.ledger import Ledger, default_path

    path = ledger or default_path()
    return path.exists() and any(a.dataset == dataset for a in Ledger.existing(path).accounts())


def tell_account(dataset: str, *, ledger: Path | None, opened: bool) -> None:
    """Tell on stderr what is left of the account after a run, and whether the run had to open it."""
    from populace.privacy.ledger import Ledger, default_path
    from populace.release.statement import exact_text

    path = ledger or default_path()
    account = Ledger.existing(path).account(dataset)
    if opened:
        say(
            f"the ledger had no account for {dataset!r}: one was opened with exactly this run's budget.\n"
            "hint: `populace ledger init` sets a larger one beforehand, `populace ledger grant` adds to it"
        )
    say(
        f"account {dataset!r}: epsilon {exact_text(account.left_epsilon)} left of {exact_text(account.epsilon)}, "
        f"delta {exact_text(account.left_delta)} left of {exact_text(account.delta)} ({path})"
    )
