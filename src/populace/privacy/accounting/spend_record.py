"""A spend as the ledger holds it: what was asked, and the price that was booked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from populace.core.errors import LedgerError
from populace.privacy.accounting.mechanisms import Spend, Verb, fraction_from_json, mechanism_from_json
from populace.privacy.accounting.partition_selection import delta_price
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.schema.unit import PrivacyUnit

_FIELDS = ("verb", "what", "law", "answers", "l1", "l2_squared", "price", "delta")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendRecord:
    """A spend as it was charged, with the price that was booked for it and its part of the δ set aside."""

    spend: Spend
    price: Fraction
    delta: Fraction = Fraction(0)

    def to_json(self) -> dict[str, Any]:
        """Return the spend as it is written in the ledger."""
        return {
            "verb": self.spend.verb,
            "what": self.spend.what,
            "law": self.spend.mechanism.to_json(),
            "answers": self.spend.answers,
            "l1": self.spend.l1,
            "l2_squared": self.spend.l2_squared,
            "price": str(self.price),
        } | ({"delta": str(self.delta)} if self.delta else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SpendRecord:
        """Return the spend that `to_json` wrote."""
        spend = Spend(
            verb=cast(Verb, data["verb"]),
            what=str(data["what"]),
            mechanism=mechanism_from_json(data["law"]),
            answers=data["answers"],
            l1=data["l1"],
            l2_squared=data["l2_squared"],
        )
        delta = fraction_from_json(data.get("delta", "0"))
        return cls(spend=spend, price=fraction_from_json(data["price"]), delta=delta)

    @classmethod
    def from_event(cls, data: Mapping[str, Any]) -> SpendRecord:
        """Return the spend that the body of an event tells; a field that this version does not know is refused."""
        refuse_unknown_fields(data, known=_FIELDS)
        return cls.from_json(data)

    def check(self, *, unit: PrivacyUnit, currency: Currency, run: str) -> None:
        """Refuse a spend booked below its price, or as if one unit moved its answers less than it can."""
        l1, l2_squared = _min_sensitivity(self.spend, unit)
        if self.spend.l1 < l1 or self.spend.l2_squared < l2_squared:
            raise LedgerError(
                f"run {run} books {self.spend} for less than one {unit.name} can move.",
                hint=f"one {unit.name} moves an answer by {l1} in L1 and by {l2_squared} in squared L2",
            )
        if self.price < price(self.spend, currency=currency):
            raise underpriced_error(f"run {run} booked {self.spend} below its price")
        if self.delta < delta_price(self.spend.mechanism, unit=unit):
            raise underpriced_error(f"run {run} booked {self.spend} below its part of delta")


def refuse_unknown_fields(data: Mapping[str, Any], *, known: tuple[str, ...]) -> None:
    """Refuse fields of an event that this version does not know: one of them may be a spend."""
    if unknown := sorted(set(data) - set(known)):
        raise LedgerError(
            f"the ledger tells {unknown[0]!r}, which this version does not know.",
            hint="use the version of populace that wrote it; an unknown field may be a spend",
        )


def underpriced_error(message: str) -> LedgerError:
    """Return the refusal for something that was booked below its price."""
    return LedgerError(
        f"{message}.", hint="the record was altered, or written by a version with a known fault"
    )


def _min_sensitivity(spend: Spend, unit: PrivacyUnit) -> tuple[int, int]:
    """Return how far one unit can move an answer at least: in L1, and in squared L2.

    What is released in steps moves by all steps of its rows, in L2 as far as in L1: up and down may meet in one cell.
    """
    if spend.verb in ("measure", "discover") and spend.steps == 1:
        return unit.marginal_l1, unit.marginal_l2_squared
    shift = spend.steps * unit.score_shift
    return shift, shift**2
