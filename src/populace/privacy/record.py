"""What the ledger knows about one run: all that a privacy statement may say about its cost."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, cast

from populace.errors import LedgerError, PopulaceError, UsageError
from populace.privacy.budget import Budget
from populace.privacy.loss import Currency, cap, gdp_delta, price
from populace.privacy.mechanisms import Spend, Verb, fraction_from_json, law_from_json
from populace.schema.unit import Neighbours, Unit

_NOTHING = (Fraction(0), Fraction(0))
_RESERVATION = (
    "epsilon",
    "delta",
    "neighbours",
    "unit",
    "rows_per_unit",
    "id",
    "method",
    "schema_digest",
    "rehearsal",
    "plan",
    "currency",
    "cap",
)


class Plan(Enum):
    """When the questions of a run were settled: only a plan fixed before the first answer may give budget back."""

    ADAPTIVE = "adaptive"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendRecord:
    """A spend as it was charged, with the price that was booked for it."""

    spend: Spend
    price: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return the spend as it is written in the ledger."""
        return {
            "verb": self.spend.verb,
            "what": self.spend.what,
            "law": self.spend.law.to_json(),
            "answers": self.spend.answers,
            "l1": self.spend.l1,
            "l2_squared": self.spend.l2_squared,
            "price": str(self.price),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> SpendRecord:
        """Return the spend that `to_json` wrote."""
        spend = Spend(
            verb=cast(Verb, told["verb"]),
            what=str(told["what"]),
            law=law_from_json(told["law"]),
            answers=told["answers"],
            l1=told["l1"],
            l2_squared=told["l2_squared"],
        )
        return cls(spend=spend, price=fraction_from_json(told["price"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run as the ledger's rows tell it.

    `epsilon` and `delta` are what the run reserved before it read a row. `guarantee` is what may be promised:
    the same, less what a plan fixed in advance gave back. `used` is the sum of the prices; it carries no
    guarantee of its own, because the run may have chosen its questions after seeing answers.
    `digest` is the hash of the run's last row and so of everything the ledger held before it.
    """

    run: str
    dataset: str
    epsilon: Fraction
    delta: Fraction
    unit: Unit
    method: str
    schema_digest: str
    rehearsal: bool
    plan: Plan
    currency: Currency
    cap: Fraction
    spends: tuple[SpendRecord, ...]
    returned: tuple[Fraction, Fraction]
    finished: bool
    digest: str

    @property
    def neighbours(self) -> Neighbours:
        """Which two tables the guarantee makes hard to tell apart."""
        return self.unit.neighbours

    @property
    def rows_per_unit(self) -> int:
        """How many rows of one unit were used at most."""
        return self.unit.rows

    @property
    def budget(self) -> Budget:
        """The budget of the run as public arithmetic."""
        return Budget(currency=self.currency, cap=self.cap, unit=self.unit)

    @property
    def guarantee(self) -> tuple[Fraction, Fraction]:
        """The (ε, δ) that the run takes from its account and that a statement may promise."""
        return self.epsilon - self.returned[0], self.delta - self.returned[1]

    @property
    def used(self) -> Fraction:
        """The sum of all prices, in the run's currency."""
        return sum((record.price for record in self.spends), Fraction(0))

    def share(self, record: SpendRecord) -> Fraction:
        """Return the share of the run's budget that one spend took."""
        return record.price / self.cap

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON; exact numbers are written as "p/q"."""
        return {
            "run": self.run,
            "dataset": self.dataset,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "neighbours": self.unit.neighbours.value,
            "unit": self.unit.name,
            "rows_per_unit": self.unit.rows,
            "id": self.unit.id,
            "method": self.method,
            "schema_digest": self.schema_digest,
            "rehearsal": self.rehearsal,
            "plan": self.plan.value,
            "currency": self.currency.value,
            "cap": str(self.cap),
            "spends": [record.to_json() | {"share": float(self.share(record))} for record in self.spends],
            "used": str(self.used),
            "returned": [str(part) for part in self.returned],
            "finished": self.finished,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> RunRecord:
        """Return the record that `to_json` wrote; anything else is refused."""
        try:
            record = cls(
                **_reservation(told),
                run=str(told["run"]),
                dataset=str(told["dataset"]),
                spends=tuple(SpendRecord.from_json(spend) for spend in told["spends"]),
                returned=(fraction_from_json(told["returned"][0]), fraction_from_json(told["returned"][1])),
                finished=_flag(told["finished"]),
                digest=str(told["digest"]),
            )
            if record.used != fraction_from_json(told["used"]):
                raise ValueError("the prices do not add up")
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, PopulaceError) as failure:
            raise LedgerError(
                f"this is not a complete record of a run ({type(failure).__name__}).",
                hint="use the record as populace wrote it",
            ) from failure
        return record

    @classmethod
    def asked(
        cls,
        dataset: str,
        *,
        epsilon: Fraction,
        delta: Fraction,
        unit: Unit,
        method: str,
        schema_digest: str,
        rehearsal: bool,
        plan: Plan,
    ) -> RunRecord:
        """Return the record of a run that is not in the ledger yet, under a new random name."""
        currency, most = cap(epsilon, delta)
        return cls(
            run=secrets.token_hex(16),
            dataset=dataset,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            method=method,
            schema_digest=schema_digest,
            rehearsal=rehearsal,
            plan=plan,
            currency=currency,
            cap=most,
            spends=(),
            returned=_NOTHING,
            finished=False,
            digest="",
        )

    @classmethod
    def reserved(cls, told: Mapping[str, Any], *, run: str, dataset: str, digest: str) -> RunRecord:
        """Return the record of a run that has just reserved its budget, from the body of that event."""
        return cls(
            **_reservation(told),
            run=run,
            dataset=dataset,
            spends=(),
            returned=_NOTHING,
            finished=False,
            digest=digest,
        )

    def reservation(self) -> dict[str, Any]:
        """Return the body of the event that reserves this run's budget."""
        whole = self.to_json()
        return {key: whole[key] for key in _RESERVATION}

    def check(self) -> None:
        """Recompute the cap from (ε, δ) and every price from its law and unit; refuse what was booked too cheaply."""
        try:
            self.check_cap()
            for record in self.spends:
                self.check_spend(record)
            if self.used > self.cap:
                raise _cheap(f"run {self.run} spent more than its cap")
            self.check_return(self.returned)
        except UsageError as failure:
            raise _cheap(f"run {self.run} broke a rule: {failure.message.removesuffix('.')}") from failure

    def check_cap(self) -> None:
        """Refuse a cap above what the run's (ε, δ) allows."""
        if not fits(self.cap, currency=self.currency, epsilon=self.epsilon, delta=self.delta):
            raise _cheap(f"run {self.run} booked a cap of {float(self.cap):.6g}, above what (ε, δ) allows")

    def check_spend(self, record: SpendRecord) -> None:
        """Refuse a spend booked below its price, or as if one unit moved its answers less than it can."""
        l1, l2_squared = _movement(record.spend.verb, self.unit)
        if record.spend.l1 < l1 or record.spend.l2_squared < l2_squared:
            raise LedgerError(
                f"run {self.run} books {record.spend} for less than one {self.unit.name} can move.",
                hint=f"one {self.unit.name} moves an answer by {l1} in L1 and by {l2_squared} in squared L2",
            )
        if record.price < price(record.spend, currency=self.currency):
            raise _cheap(f"run {self.run} booked {record.spend} below its price")

    def check_return(self, returned: tuple[Fraction, Fraction]) -> None:
        """Refuse to give back anything of an adaptive run, or more than a fixed plan has left over."""
        if not any(returned):
            return
        if self.plan is not Plan.FIXED:
            raise UsageError(
                f"run {self.run} chose its questions as it went, so it gives nothing back.",
                hint="only a run reserved with a plan fixed in advance may return what it did not use",
            )
        epsilon, delta = self.epsilon - returned[0], self.delta - returned[1]
        if not (0 <= epsilon <= self.epsilon and 0 <= delta <= self.delta):
            raise UsageError(
                f"run {self.run} gives back epsilon {short(returned[0])} and delta {short(returned[1])}, "
                "more than it has.",
                hint=f"it reserved epsilon {short(self.epsilon)} and delta {short(self.delta)}",
            )
        if not fits(self.used, currency=self.currency, epsilon=epsilon, delta=delta):
            raise UsageError(
                f"run {self.run} would keep epsilon {short(epsilon)} and delta {short(delta)}, less than it used.",
                hint="return less",
            )


def fits(used: Fraction, *, currency: Currency, epsilon: Fraction, delta: Fraction) -> bool:
    """Say whether a total is covered by (ε, δ): one point of the currency's curve, not a search for the cap.

    >>> fits(Fraction(1), currency=Currency.PURE, epsilon=Fraction(1), delta=Fraction(0))
    True
    >>> fits(Fraction(1), currency=Currency.GDP, epsilon=Fraction(1), delta=Fraction(0))
    False
    """
    if used == 0:
        return True
    if used < 0 or epsilon <= 0 or delta < 0:
        return False
    if currency is Currency.PURE:
        return delta == 0 and used <= epsilon
    # ZCDP is a currency for comparisons; no run is booked in it.
    return currency is Currency.GDP and delta > 0 and gdp_delta(used, epsilon=epsilon) <= delta


def _reservation(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "epsilon": fraction_from_json(told["epsilon"]),
        "delta": fraction_from_json(told["delta"]),
        "unit": Unit(
            name=str(told["unit"]),
            rows=_whole(told["rows_per_unit"]),
            id=None if told["id"] is None else str(told["id"]),
            neighbours=Neighbours(told["neighbours"]),
        ),
        "method": str(told["method"]),
        "schema_digest": str(told["schema_digest"]),
        "rehearsal": _flag(told["rehearsal"]),
        "plan": Plan(told["plan"]),
        "currency": Currency(told["currency"]),
        "cap": fraction_from_json(told["cap"]),
    }


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("not a whole number")
    return value


def _movement(verb: Verb, unit: Unit) -> tuple[int, int]:
    """Return how far one unit can move an answer to this verb: in L1, and in squared L2."""
    if verb == "measure":
        return unit.marginal_l1, unit.marginal_l2_squared
    return unit.score_shift, unit.score_shift**2


def _cheap(message: str) -> LedgerError:
    return LedgerError(
        f"{message}.", hint="the record was altered, or written by a version with a known fault"
    )


def short(value: Fraction) -> str:
    """Return a number for a message, to six digits.

    >>> short(Fraction(9, 10**9)), short(Fraction(1, 3)), short(Fraction(2 * 10**7))
    ('9e-9', '0.333333', '2e7')
    """
    digits, mark, exponent = f"{float(value):.6g}".partition("e")
    return f"{digits}{mark}{int(exponent)}" if mark else digits
