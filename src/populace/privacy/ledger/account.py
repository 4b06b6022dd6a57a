"""An account: what one dataset may spend, and what its runs have taken of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import Any

from populace.core.errors import OverBudget, UsageError
from populace.core.limits import LIMITS
from populace.core.notebook_html import Bar, render_card
from populace.privacy.json_codec import decode_fields, encode_fields
from populace.privacy.ledger.exact_totals import check_declared
from populace.privacy.ledger.run_record import RunRecord, format_short, format_short_up
from populace.schema.unit import Neighbours, PrivacyUnit

# Of accounts with the same columns so many are named.
MAX_NAMED = 5
# Digits of a digest of columns that tell of their names; the rest tells of their codes too.
NAMES_DIGITS = 32
# Characters that show nothing: joiners, fillers, selectors of a variant, marks of direction, blanks of other scripts.
_INVISIBLE_RANGES = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x2800, 0x2800), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
_INVISIBLE = dict.fromkeys(code for first, last in _INVISIBLE_RANGES for code in range(first, last + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one dataset may spend, and what its runs have taken of it.

    The first run fixes whom the account protects: `unit` is their name, `id` the column whose values tell them
    apart (None: every row is one of them), `frequency` the column that counts them where rows stand for several. It
    also fixes `within`, the finest level whose totals are exact, and `partition`, a digest of the units of that level.
    Before that run, all are None.
    """

    dataset: str
    neighbours: Neighbours
    unit: str | None = None
    id: str | None = None
    frequency: str | None = None
    within: str | None = None
    partition: str | None = None
    epsilon: Fraction
    delta: Fraction
    taken_epsilon: Fraction = Fraction(0)
    taken_delta: Fraction = Fraction(0)
    void: bool = False
    rehearsal: bool = False
    runs: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    """Digests of the schemas of its runs, each once."""
    columns: tuple[str, ...] = ()
    """Digests of the columns of its runs, each once, whatever a schema calls the dataset and says of their values."""

    @property
    def left_epsilon(self) -> Fraction:
        """The ε that later runs may still reserve."""
        return self.epsilon - self.taken_epsilon

    @property
    def left_delta(self) -> Fraction:
        """The δ that later runs may still reserve."""
        return self.delta - self.taken_delta

    def to_json(self) -> dict[str, Any]:
        """Return the account as plain JSON; exact numbers are written as "p/q"."""
        # Only where there is something to say, as in checkpoints of older versions.
        optional = ("frequency", "within", "partition", "columns")
        return {key: value for key, value in encode_fields(self).items() if value or key not in optional}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Account:
        """Return the account that `to_json` wrote; anything else is refused."""
        account: Account = decode_fields(cls, data)
        if account.to_json() != data:
            raise ValueError("more, or less, than an account holds")
        return account


def check_account_name(dataset: str, *, others: Iterable[str]) -> None:
    """Refuse a new account whose name cannot be printed, or that the eye takes for that of another account."""
    if not dataset.strip() or len(dataset) > LIMITS.max_account_name or not dataset.isprintable():
        raise UsageError(
            f"{dataset[: LIMITS.max_account_name]!r} cannot name an account.",
            hint=f"name the dataset with 1 to {LIMITS.max_account_name} printable characters",
        )
    own = normalize_name(dataset)
    if alike := next((other for other in others if other != dataset and normalize_name(other) == own), None):
        raise UsageError(
            f"an account {dataset!r} would look like the account {alike!r} that is there.",
            hint=f"name the dataset {alike!r} if it holds the same people, else by a name that differs in more than "
            "spaces, case or the encoding of letters",
        )


def normalize_name(name: str) -> str:
    """Return what names that look alike have in common: spaces, case, the encoding of letters, what shows nothing.

    >>> normalize_name("ACS  2019 ") == normalize_name("acs 2019")
    True
    >>> normalize_name("e\u0301") == normalize_name("\u00c9")
    True
    """
    # Case folding can undo a normal form, and the normal form can bring capitals back.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).casefold()
    return " ".join(folded.translate(_INVISIBLE).split())


def has_column_names(account: Account, columns: str) -> bool:
    """Say whether an account had a run on columns of these names, whatever their codes were.

    The first half of a digest of columns is that of their names.
    """
    return any(own[:NAMES_DIGITS] == columns[:NAMES_DIGITS] for own in account.columns)


def check_new_account(run: RunRecord, *, others: Iterable[Account]) -> None:
    """Refuse to open an account that nobody named for columns that another account has: a copy would be paid twice."""
    alike = [
        other.dataset
        for other in others
        if run.columns in other.columns or run.schema_digest in other.schemas
    ]
    if alike:
        named = ", ".join(map(repr, alike[:MAX_NAMED])) + (", …" if len(alike) > MAX_NAMED else "")
        raise UsageError(
            f"{run.dataset!r} would be a new account, and the ledger has one of the same columns: {named}.",
            hint=f"if these are the same people, charge their account: --dataset {quote(alike[0])}; if they are "
            f"others, say so: --dataset {quote(run.dataset)}",
        )


def over_budget_error(account: Account, run: RunRecord) -> OverBudget:
    """Return the refusal of a run that the account cannot pay for."""
    lacking = [
        f"{name} {format_short(asked)} is asked, {format_short(left)} of {format_short(whole)} is left, "
        f"{format_short(asked - left)} short"
        for name, asked, left, whole in (
            ("epsilon", run.epsilon, account.left_epsilon, account.epsilon),
            ("delta", run.delta, account.left_delta, account.delta),
        )
        if asked > left
    ]
    short = (
        max(Fraction(0), run.epsilon - account.left_epsilon),
        max(Fraction(0), run.delta - account.left_delta),
    )
    epsilon, delta = map(format_short_up, short)
    # None where only delta is short, since no grant is of delta alone.
    options = f" --dataset {quote(account.dataset)} --epsilon {epsilon} --delta {delta}" if short[0] else ""
    return OverBudget(
        f"the account of {account.dataset!r} cannot pay for this run: {'; '.join(lacking)}.",
        hint="what a release that exists holds is free: other rows (`populace generate`), of a geography any area "
        "(`populace area`); else ask for less, or decide to give the account more, which weakens its promise by as "
        f"much: `populace ledger grant{options}`",
    )


def name_ledger_in_grant(refusal: OverBudget, ledger: Path, *, usual: Path) -> OverBudget:
    """Return a refusal whose command for a grant names the ledger, where that is not the usual one."""
    if ledger == usual or "--dataset" not in refusal.hint:
        return refusal
    grant = "populace ledger grant"
    hint = refusal.hint.replace(grant, f"{grant} --ledger {quote(str(ledger))}")
    return OverBudget(refusal.message, hint=hint)


def render_accounts(title: str, accounts: Iterable[Account]) -> str:
    """Return accounts as a table for a notebook."""
    rows = [
        [
            each.dataset,
            "VOID" if each.void else f"{float(each.left_epsilon):g} of {float(each.epsilon):g}",
            f"{float(each.left_delta):g} of {float(each.delta):g}",
            Bar(Fraction(0) if each.void else each.left_epsilon / each.epsilon),
        ]
        for each in accounts
    ]
    header = ("dataset", "ε left", "δ left", "")
    return render_card(title, {"accounts:": len(rows)}, header=header, rows=rows)


def fix_protected(account: Account, record: RunRecord) -> Account:
    """Return an account for the unit and the relation of a run, which the first one fixes; refuse others later."""
    if record.unit.neighbours is not account.neighbours:
        raise neighbours_error(account, record.unit.neighbours)
    unit = (record.unit.name, record.unit.id, record.unit.frequency)
    if account.unit is not None and (account.unit, account.id, account.frequency) != unit:
        raise unit_error(account, record.unit)
    check_declared(record.exact, unit=record.unit)
    partition = None if record.exact is None else record.exact.partition
    if account.unit is not None and (account.within, account.partition) != (record.unit.within, partition):
        raise partition_error(account, record)
    name, id_column, frequency = unit
    return replace(
        account,
        unit=name,
        id=id_column,
        frequency=frequency,
        within=record.unit.within,
        partition=partition,
    )


def neighbours_error(account: Account, asked: Neighbours) -> UsageError:
    """Return the refusal of a run about other neighbours than the account is for."""
    if asked is Neighbours.REPLACE_WITHIN:
        hint = f"exact totals would void a promise for {account.neighbours.value} neighbours: take [[invariants]] out "
        hint += "of the schema"
    elif account.neighbours is Neighbours.REPLACE_WITHIN:
        hint = f"its runs publish exact totals, under which no {asked.value} promise holds: declare the same "
        hint += "[[invariants]] in the schema"
    else:
        hint = f'an account carries one relation: set neighbours = "{account.neighbours.value}" in the schema'
    return UsageError(
        f"the account of {account.dataset!r} is for {account.neighbours.value} neighbours, this run for {asked.value}.",
        hint=hint,
    )


def partition_error(account: Account, run: RunRecord) -> UsageError:
    """Return the refusal of a run whose exact totals are not those of the account."""
    if account.within != run.unit.within:
        return UsageError(
            f"the account of {account.dataset!r} is for exact totals by {account.within!r}, this run for exact totals "
            f"by {run.unit.within!r}.",
            hint=f"let {account.within!r} be the finest level under [[invariants]] in every run: whoever is protected "
            "under one is not under the other",
        )
    return UsageError(
        f"the units of {account.within!r} are not those of earlier runs of the account of {account.dataset!r}.",
        hint="give the [geography] of these runs: exact totals of other units void what they promised",
    )


def unit_error(account: Account, asked: PrivacyUnit) -> UsageError:
    """Return the refusal of a run that protects others than the account does."""
    if account.unit != asked.name:
        return UsageError(
            f"the account of {account.dataset!r} protects each {account.unit}, this run each {asked.name}.",
            hint="protect the same unit in every run: guarantees for different units do not add up",
        )
    if account.frequency != asked.frequency:
        earlier, now = (
            f"counted by {name!r}" if name else "one row" for name in (account.frequency, asked.frequency)
        )
        return UsageError(
            f"in the account of {account.dataset!r} one {account.unit} is {earlier}, in this run {now}.",
            hint="set the same frequency under [table] in every run: guarantees for different units do not add up",
        )
    wanted = "leave out id" if account.id is None else f'set id = "{account.id}"'
    return UsageError(
        f"in the account of {account.dataset!r} one {account.unit} is {_describe_unit(account.id)}, "
        f"in this run {_describe_unit(asked.id)}.",
        hint=f"{wanted} in the schema: guarantees for different units do not add up (rows_per_unit may differ)",
    )


def _describe_unit(column: str | None) -> str:
    return "one row" if column is None else f"all rows with one value of {column!r}"
