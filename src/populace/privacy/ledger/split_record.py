"""Pieces of a secret split in the ledger: an account for each, and one of all people that pays for the costliest piece.

Nobody is in two pieces, so all questions to all pieces cost a person the most that one piece took, and the account of
the whole table is charged that, never less: what secrecy of the split gives to recipients of single pieces is told
beside it, and lowers no charge. Proof: docs/proofs/partition.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from populace.core.errors import LedgerError, UsageError
from populace.core.number_format import format_exact
from populace.privacy.accounting.amplification import amplify_epsilon_of_source
from populace.privacy.accounting.mechanisms import fraction_from_json
from populace.privacy.accounting.parallel_composition import amplified_piece_epsilon, seen_share
from populace.privacy.accounting.spend_record import refuse_unknown_fields
from populace.privacy.ledger.account import Account, fix_protected, over_budget_error
from populace.privacy.ledger.run_record import RunRecord, format_short_up
from populace.privacy.noise.split_key import Split
from populace.schema.unit import Neighbours, PrivacyUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRecord:
    """A split of the people of one dataset, as the ledger's rows tell it.

    `id` is the column that tells people apart. `persons` is how many there are: public where neighbours replace one,
    and told nowhere else. `recipients` are groups of pieces, numbered from 1, each for people who do not share what
    they are told with those of other groups; pieces in no group are published.
    """

    parent: str
    tag: str
    id: str
    split: Split
    pieces: tuple[str, ...]
    persons: int | None = None
    recipients: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        numbers = [number for group in self.recipients for number in group]
        known = range(1, len(self.pieces) + 1)
        if len(set(numbers)) < len(numbers) or not set(numbers) <= set(known) or not all(self.recipients):
            raise UsageError(
                "the recipients are not groups of different pieces.",
                hint="number each piece once, those that one group sees together: 1;2,3",
            )
        if len(set(self.pieces)) != len(self.split.shares) or self.parent in self.pieces or not self.id:
            raise UsageError(
                "a split has an account for each of its pieces, and an id by which people are told apart.",
                hint="book it as `populace split` does",
            )
        if (self.persons is None) is (self.split.neighbours is Neighbours.REPLACE_ONE):
            raise UsageError(
                "the number of persons is told where neighbours replace one, and nowhere else.",
                hint="leave it out, or give it, as the relation is",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the body of the event that books the split."""
        return {
            "tag": self.tag,
            "id": self.id,
            "neighbours": self.split.neighbours.value,
            "shares": [str(share) for share in self.split.shares],
            "pieces": list(self.pieces),
            **({} if self.persons is None else {"persons": self.persons}),
            **({"recipients": [list(group) for group in self.recipients]} if self.recipients else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, parent: str) -> SplitRecord:
        """Return what `to_json` wrote; anything else is refused."""
        known = ("tag", "id", "neighbours", "shares", "pieces", "persons", "recipients")
        refuse_unknown_fields(data, known=known)
        persons = data.get("persons")
        if persons is not None and (isinstance(persons, bool) or not isinstance(persons, int)):
            raise ValueError("not a number of persons")
        return cls(
            parent=parent,
            tag=str(data["tag"]),
            id=str(data["id"]),
            split=Split(
                shares=tuple(map(fraction_from_json, data["shares"])),
                neighbours=Neighbours(data["neighbours"]),
            ),
            pieces=tuple(map(str, data["pieces"])),
            persons=persons,
            recipients=tuple(tuple(map(int, group)) for group in data.get("recipients", ())),
        )

    def check_unit(self, unit: PrivacyUnit) -> None:
        """Refuse a run whose unit may have rows in several pieces: the most of one piece is not what it pays then."""
        if unit.id != self.id or unit.neighbours is not self.split.neighbours:
            raise UsageError(
                f"pieces of {self.parent!r} were split by {self.id!r} for {self.split.neighbours.value} neighbours; "
                f"this run tells {unit.word} units apart by {unit.id or 'rows'!r}, for {unit.neighbours.value} ones.",
                hint="use the schema that `populace split` wrote beside each piece",
            )

    def take_greatest(
        self, accounts: Mapping[str, Account], *, among: Sequence[int] | None = None
    ) -> tuple[Fraction, Fraction]:
        """Return what questions to all pieces, or some, cost a person: the greatest ε and the greatest δ of one."""
        pieces = self.pieces if among is None else [self.pieces[number] for number in among]
        held = [accounts[piece] for piece in pieces if piece in accounts]
        return (
            max((account.taken_epsilon for account in held), default=Fraction(0)),
            max((account.taken_delta for account in held), default=Fraction(0)),
        )

    def charge_parent(self, accounts: Mapping[str, Account], piece: Account) -> Account:
        """Return the account of the whole table once a piece has taken what it now has."""
        before, after = (self.take_greatest(each) for each in (accounts, {**accounts, piece.dataset: piece}))
        parent = accounts[self.parent]
        return replace(
            parent,
            taken_epsilon=parent.taken_epsilon + after[0] - before[0],
            taken_delta=parent.taken_delta + after[1] - before[1],
        )

    def pay_for_piece(self, accounts: Mapping[str, Account], piece: Account, *, record: RunRecord) -> Account:
        """Return the account of the whole table after a run on a piece; refuse what it cannot pay for."""
        before, paid = accounts[self.parent], self.charge_parent(accounts, piece)
        more = (paid.taken_epsilon - before.taken_epsilon, paid.taken_delta - before.taken_delta)
        if more[0] > before.left_epsilon or more[1] > before.left_delta:
            raise over_budget_error(before, replace(record, epsilon=more[0], delta=more[1]))
        return replace(fix_protected(paid, record), rehearsal=paid.rehearsal or record.rehearsal)

    def check_new(self, *, accounts: Mapping[str, Account], splits: Mapping[str, SplitRecord]) -> None:
        """Refuse a split whose pieces are there already, and one of a piece."""
        if taken := [piece for piece in self.pieces if piece in accounts or piece in splits]:
            raise LedgerError(
                f"the ledger already has {taken[0]!r}.",
                hint="pieces that had accounts of their own before go on by themselves; the same split is booked once",
            )
        if self.parent in splits:
            raise LedgerError("a piece is split once more.", hint="split the whole table into more pieces")

    def describe(self, accounts: Mapping[str, Account]) -> dict[str, Any]:
        """Return what all pieces took together, what each took, and what is promised to recipients of some alone."""
        epsilon, delta = map(format_exact, self.take_greatest(accounts))
        pieces = []
        for number, (piece, share) in enumerate(zip(self.pieces, self.split.shares, strict=True)):
            own = map(format_exact, self.take_greatest(accounts, among=[number]))
            pieces.append(
                {"account": piece, "share": str(share), **dict(zip(("epsilon", "delta"), own, strict=True))}
            )
        return {
            "split": self.tag,
            "epsilon": epsilon,
            "delta": delta,
            "pieces": pieces,
            "recipients": [self._describe_group(group, accounts) for group in self.recipients],
        }

    def _describe_group(self, group: Sequence[int], accounts: Mapping[str, Account]) -> dict[str, Any]:
        """Return what a group of recipients is told at most about a person by all answers on the pieces that it sees.

        Amplification is applied once, to the total: ε′ = ln(1 + β(e^ε − 1)) and βδ, with β the share of these pieces,
        published ones included. The source's own bound stands beside it.
        """
        assigned = {number for each in self.recipients for number in each}
        seen = [n for n in range(1, len(self.pieces) + 1) if n in group or n not in assigned]
        numbers = [number - 1 for number in seen]
        epsilon, delta = self.take_greatest(accounts, among=numbers)
        share = seen_share(self.split, numbers, persons=self.persons)
        if not epsilon or not share:
            return {"pieces": seen, "share": str(share), "epsilon": "0", "delta": "0", "source": "0"}
        source = amplify_epsilon_of_source(epsilon, share=share)
        tight = amplified_piece_epsilon(epsilon, split=self.split, pieces=numbers, persons=self.persons)
        return {
            "pieces": seen,
            "share": str(share),
            "epsilon": format_short_up(tight),
            "delta": format_short_up(share * delta),
            "source": None if source is None else format_short_up(source),
        }


def name_new_accounts(
    dataset: str,
    *,
    split: SplitRecord | None,
    accounts: Mapping[str, Account],
    asked: tuple[Fraction, Fraction],
) -> tuple[list[str], tuple[Fraction, Fraction]]:
    """Return which accounts a first run opens, and with which budget: what it asked, or, of a piece, the whole table's.

    The account of the whole table is opened with that of its first piece.
    """
    if split is None:
        return [dataset], asked
    if split.parent not in accounts:
        return [split.parent, dataset], asked
    return [dataset], (accounts[split.parent].epsilon, accounts[split.parent].delta)


def piece_budget_error(parent: str) -> UsageError:
    """Return the refusal of a budget for one piece."""
    return UsageError(
        f"a piece has the budget of the whole table, {parent!r}, and none of its own.",
        hint=f"open, or give more to, the account of {parent!r}",
    )
