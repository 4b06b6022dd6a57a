"""populace ledger: open accounts, look at them, give them more, check the chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from populace.cli import options
from populace.cli.command import Group, Option, command
from populace.cli.console import emit, emit_json, say
from populace.cli.notes import note_new_ledger
from populace.core.number_format import count_of, format_exact

if TYPE_CHECKING:
    from populace.privacy.ledger.account import Account
    from populace.privacy.ledger.ledger import Ledger
    from populace.privacy.ledger.run_record import RunRecord

ACCOUNT = Option("--dataset NAME", "The account: the dataset's name in the schema.", required=True)
ONE_ACCOUNT = Option("--dataset NAME", "Only this account, with its runs and the internal looks at its rows.")
MORE_DELTA = replace(options.DELTA, required=False, default="0")
NEIGHBOURS = Option(
    "--neighbours add-remove|replace-one|replace-within-invariants",
    "The neighbouring relation.",
    options.choice("add-remove", "replace-one", "replace-within-invariants"),
    default="add-remove",
)
HEAD = Option("--head NUMBER:HASH", "What `ledger head` printed earlier, or its hash alone.", name="kept")


@command(ACCOUNT, options.EPSILON, options.DELTA, NEIGHBOURS, options.LEDGER, options.JSON)
def init(dataset: str, epsilon: str, delta: str, neighbours: str, ledger: Path | None, json: bool) -> None:
    """Open an account with a budget for all runs on a dataset.

    The privacy unit, a row or a person, is declared in the schema: the first run fixes it for the account.

    Examples:
      populace ledger init --dataset people --epsilon 3 --delta 1e-8
    """
    from populace.privacy.accounting.budget import parse_delta, parse_epsilon
    from populace.privacy.ledger.ledger import Ledger, default_ledger_path
    from populace.schema.unit import Neighbours

    # Before a ledger is made for it.
    allowed, slack = parse_epsilon(epsilon), parse_delta(delta)
    path = ledger or default_ledger_path()
    is_new = not path.exists()
    book = Ledger.open(path)
    if is_new:
        note_new_ledger(path)
    book.open_account(dataset, epsilon=allowed, delta=slack, neighbours=Neighbours(neighbours))
    _show(book, dataset, json=json)


@command(ACCOUNT, options.EPSILON, MORE_DELTA, options.LEDGER, options.JSON)
def grant(dataset: str, epsilon: str, delta: str, ledger: Path | None, json: bool) -> None:
    """Add to the budget of an account; its guarantee becomes weaker by as much.

    Examples:
      populace ledger grant --dataset people --epsilon 1 --delta 1e-9
    """
    from populace.privacy.accounting.budget import parse_delta, parse_epsilon

    book = _open_existing(ledger)
    book.grant(dataset, epsilon=parse_epsilon(epsilon), delta=parse_delta(delta))
    _show(book, dataset, json=json)


@command(ONE_ACCOUNT, options.LEDGER, options.JSON)
def show(dataset: str | None, ledger: Path | None, json: bool) -> None:
    """Print what every account has left, or one account with its runs and the internal looks at its rows.

    Examples:
      populace ledger show
      populace ledger show --dataset people
    """
    _show(_open_existing(ledger), dataset, json=json)


@command(options.LEDGER, options.JSON)
def head(ledger: Path | None, json: bool) -> None:
    """Print the number and the hash of the last entry, to be kept where nobody who writes the ledger can write.

    A ledger that was put back to an older state verifies. `populace ledger verify --head` with what was kept shows it.

    Examples:
      populace ledger head >> /elsewhere/heads.txt
    """
    book = _open_existing(ledger)
    last = book.head()
    if json:
        emit_json({"ledger": str(book.path), "seq": last.seq, "hash": last.hash})
    else:
        emit(str(last))


@command(HEAD, options.LEDGER, options.JSON)
def verify(kept: str | None, ledger: Path | None, json: bool) -> None:
    """Check every entry of the ledger against the hash chain.

    The exit code is 2 when an entry was altered or is missing, or when the ledger does not hold the head that was kept:
    then it was rolled back.

    Examples:
      populace ledger verify
      populace ledger verify --head "$(tail -n 1 /elsewhere/heads.txt)"
    """
    book = _open_existing(ledger)
    found = None if kept is None else book.find_head(kept)
    entries = book.verify()
    if json:
        extra = {} if found is None else {"head": str(found)}
        emit_json({"ledger": str(book.path), "entries": entries, "verified": True} | extra)
    else:
        held = "" if found is None else f", and entry {found.seq} is as it was kept"
        emit(f"{book.path}: {entries} entries, the chain is whole{held}")


ledger = Group(
    "ledger",
    """Open, show, extend and check privacy budgets.

    A ledger holds one account per dataset. A run reserves its budget there before it reads a row.

    Examples:
      populace ledger init --dataset people --epsilon 3 --delta 1e-8
      populace ledger show --dataset people
      populace ledger grant --dataset people --epsilon 1 --delta 1e-9
      populace ledger head
      populace ledger verify --head "$KEPT"
    """,
    (init, grant, show, head, verify),
)


def _open_existing(given: Path | None) -> Ledger:
    from populace.privacy.ledger.ledger import Ledger, default_ledger_path

    return Ledger.existing(given or default_ledger_path())


def _show(book: Ledger, dataset: str | None, *, json: bool) -> None:
    accounts = [book.account(dataset)] if dataset is not None else list(book.accounts())
    shown = [_account_json(book, account) for account in accounts]
    if json:
        emit_json({"ledger": str(book.path), "accounts": shown})
    elif dataset is not None:
        _print_account(shown[0])
    else:
        _print_accounts(shown)
        if not shown:
            say(f"{book.path} holds no account yet.")


def _print_accounts(accounts: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for each account."""
    width = max((len(account["dataset"]) for account in accounts), default=0)
    for account in accounts:
        emit(
            f"{account['dataset']:<{width}}  {_format_left(account, 'epsilon')}, {_format_left(account, 'delta')}, "
            f"{count_of(len(account['runs']), 'run')}{_format_void(account)}"
        )


def _print_account(account: Mapping[str, Any]) -> None:
    """Print an account, its runs, the looks at its rows and the splits of its people."""
    emit(f"{account['dataset']}{_format_void(account)}")
    emit(f"  {_format_left(account, 'epsilon')}")
    emit(f"  {_format_left(account, 'delta')}")
    whom = f"protects one {account['unit']}" if account["unit"] else "the first run says who is protected"
    within = f", exact totals by {account['within']}" if "within" in account else ""
    emit(f"  {whom}; neighbours: {account['neighbours']}{within}")
    for run in account["runs"]:
        state = "finished" if run["finished"] else "not finished: what it reserved stays taken"
        rehearsal = ", rehearsal" if run["rehearsal"] else ""
        exact = f", exact totals by {', '.join(run['invariants'])}" if "invariants" in run else ""
        emit(
            f"  run {run['run'][:8]}, entry {run['entry'][:16]}: {run['method']}, "
            f"epsilon {run['epsilon']}, delta {run['delta']}, "
            f"{100 * run['used']:.3g} % used, {state}{exact}{rehearsal}"
        )
    for read in account.get("internal_looks", ()):
        emit(
            f"  internal look, entry {read['entry'][:16]}: schema {read['schema'][:16]} was checked against the rows "
            "without protection"
        )
    for split in account.get("splits", ()):
        _print_split(split)


def _format_left(account: Mapping[str, Any], name: str) -> str:
    return f"{name} {account[f'{name}_left']} left of {account[name]}"


def _format_void(account: Mapping[str, Any]) -> str:
    return "  VOID: something about its rows was published without privacy" if account["void"] else ""


def _account_json(book: Ledger, account: Account) -> dict[str, Any]:
    return {
        "dataset": account.dataset,
        "neighbours": account.neighbours.value,
        "unit": account.unit,
        **({"within": account.within} if account.within else {}),
        "epsilon": format_exact(account.epsilon),
        "delta": format_exact(account.delta),
        "epsilon_left": format_exact(account.left_epsilon),
        "delta_left": format_exact(account.left_delta),
        "void": account.void,
        "runs": [_run_json(record) for record in book.runs(account.dataset)],
        **({"internal_looks": reads} if (reads := _list_internal_reads(book, account.dataset)) else {}),
        **({"splits": splits} if (splits := _list_splits(book, account.dataset)) else {}),
    }


def _list_internal_reads(book: Ledger, dataset: str) -> list[dict[str, Any]]:
    return [{"entry": read.entry, "schema": read.schema_digest} for read in book.internal_reads(dataset)]


def _list_splits(book: Ledger, dataset: str) -> list[dict[str, Any]]:
    accounts = {each.dataset: each for each in book.accounts()}
    return [split.describe(accounts) for split in book.splits(dataset)]


def _print_split(split: Mapping[str, Any]) -> None:
    """Print what a split took of the whole table, and what is promised to recipients of single pieces."""
    emit(
        f"  split {split['split']}: {count_of(len(split['pieces']), 'piece')}, charged the most that one took: "
        f"epsilon {split['epsilon']}, delta {split['delta']}"
    )
    for number, piece in enumerate(split["pieces"], start=1):
        emit(
            f"    piece {number} (share {piece['share']}): epsilon {piece['epsilon']}, delta {piece['delta']}"
        )
    for bound in split["recipients"]:
        source = "no gain" if bound["source"] is None else f"{bound['source']} by the source's bound"
        emit(
            f"    to those who see piece {', '.join(map(str, bound['pieces']))} alone and keep it to themselves: "
            f"epsilon {bound['epsilon']} ({source}), delta {bound['delta']}, unless what was asked of it followed from "
            "answers about other pieces; runs on the whole table and other splits add to it"
        )


def _run_json(record: RunRecord) -> dict[str, Any]:
    epsilon, delta = record.guarantee
    return {
        "run": record.run,
        "entry": record.digest,
        "method": record.method,
        "epsilon": format_exact(epsilon),
        "delta": format_exact(delta),
        "used": float(record.used_share),
        "finished": record.finished,
        "rehearsal": record.rehearsal,
        **({"invariants": [totals.level for totals in record.invariants]} if record.invariants else {}),
    }
