"""What the ledger knows about one run: all that a privacy statement may say about its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from populace.core.errors import LedgerError, OverBudget, PopulaceError, UsageError
from populace.privacy.accounting.budget import Budget, parse_delta, parse_epsilon
from populace.privacy.accounting.mechanisms import fraction_from_json
from populace.privacy.accounting.privacy_loss import Currency, is_covered
from populace.privacy.accounting.privacy_loss_distribution import (
    EPSILON_SLACK,
    composed_delta,
    composed_epsilon,
    gaussian_variances,
)
from populace.privacy.accounting.spend_record import SpendRecord, refuse_unknown_fields, underpriced_error
from populace.privacy.ledger.exact_totals import (
    ExactTotals,
    PublishedTotals,
    check_declared,
    check_published,
)
from populace.schema.unit import Neighbours, PrivacyUnit

# Fields of a reservation that are written only where there is something to say.
_OPTIONAL_FIELDS = ("keys", "workload", "public", "within", "frequency", "exact", "internal_read", "columns")
# What is kept has so many digits; less than this, in proportion and by itself, is not given back.
_KEPT_DIGITS = 7
_MIN_RETURNED_PART, _MIN_RETURNED = Fraction(1, 10**4), Fraction(1, 2000)


class Adaptivity(Enum):
    """When the questions of a run were settled: only a plan fixed before the first answer may give budget back."""

    ADAPTIVE = "adaptive"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class PublicTable:
    """Which public table a run may use: its name, and a digest of it."""

    name: str
    digest: str

    def to_json(self) -> dict[str, str]:
        """Return both as plain JSON."""
        return {"name": self.name, "digest": self.digest}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PublicTable:
        """Return what `to_json` wrote."""
        refuse_unknown_fields(data, known=("name", "digest"))
        return cls(name=str(data["name"]), digest=str(data["digest"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run as the ledger's rows tell it.

    `epsilon` and `delta` are what the run reserved before it read a row. `guarantee` is what may be promised:
    the same, less what a plan fixed in advance gave back. `exact` says which exact totals the run may publish, and
    `invariants` which ones it did, at no cost: neighbours agree on them. `used` is the sum of the prices; it carries no
    guarantee of its own, because the run may have chosen its questions after seeing answers.
    `keys` is the part of δ set aside for questions that take a part of it themselves: telling keys, and Gaussian noise
    among pure questions. The cap is that of (ε, δ − keys).
    `digest` is the hash of the run's last row, and so of everything before it.
    """

    run: str
    dataset: str
    epsilon: Fraction
    delta: Fraction
    unit: PrivacyUnit
    method: str
    schema_digest: str
    rehearsal: bool
    plan: Adaptivity
    currency: Currency
    cap: Fraction
    spends: tuple[SpendRecord, ...] = ()
    returned: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    finished: bool = False
    digest: str = ""
    keys: Fraction = Fraction(0)
    workload: str | None = None
    """What the curator wanted accurate, by name or digest; None where nothing was said."""
    public: PublicTable | None = None
    """A table that the curator vouches to be public, and that the run took knowledge from."""
    exact: ExactTotals | None = None
    invariants: tuple[PublishedTotals, ...] = ()
    internal_read: bool = False
    """Whether a schema was checked against these rows, without protection, before the run was reserved."""
    columns: str | None = None  # a digest of the columns: tables with the same ones may hold the same people

    @property
    def budget(self) -> Budget:
        """The budget of the run as public arithmetic."""
        return Budget(
            currency=self.currency, cap=self.cap, unit=self.unit, keys=self.keys, promise=self._promise
        )

    @property
    def left(self) -> Budget:
        """What later questions may still spend, as public arithmetic."""
        return Budget(
            currency=self.currency,
            cap=max(self.cap - self.used, Fraction(0)),
            unit=self.unit,
            keys=self.keys - self.used_delta_reserve,
            promise=None if self.spends else self._promise,
        )

    @property
    def _promise(self) -> tuple[Fraction, Fraction] | None:
        """The (ε, δ) that questions may use as a whole, where all of them were fixed before the first answer."""
        return (self.epsilon, self.delta - self.keys) if self.plan is Adaptivity.FIXED else None

    @property
    def guarantee(self) -> tuple[Fraction, Fraction]:
        """The (ε, δ) that the run takes from its account and that a statement may promise."""
        return self.epsilon - self.returned[0], self.delta - self.returned[1]

    @property
    def used(self) -> Fraction:
        """The sum of all prices, in the run's currency."""
        return sum((record.price for record in self.spends), Fraction(0))

    @property
    def used_delta_reserve(self) -> Fraction:
        """The sum of the parts that questions took of the δ set aside, by whichever mechanism."""
        return sum((record.delta for record in self.spends), Fraction(0))

    def compute_unneeded(self) -> tuple[Fraction, Fraction]:
        """Return the (ε, δ) that a plan fixed in advance did not need, by the privacy loss distribution of its noise.

        Nothing where questions were chosen on the way, or where anything but counts with plain Gaussian noise was
        asked. What is kept has seven digits, rounded up. Proof: docs/proofs/privacy-loss-distribution.md
        """
        nothing = (Fraction(0), Fraction(0))
        delta = self.delta - self.keys
        variances = gaussian_variances(record.spend for record in self.spends)
        if (
            self.plan is not Adaptivity.FIXED
            or self.currency is not Currency.GDP
            or not variances
            or not delta
        ):
            return nothing
        needed = composed_epsilon(variances, delta=delta) * (1 + EPSILON_SLACK)
        context = Context(prec=_KEPT_DIGITS, rounding=ROUND_CEILING)
        kept = Fraction(context.divide(Decimal(needed.numerator), Decimal(needed.denominator)))
        least = min(_MIN_RETURNED_PART * self.epsilon, _MIN_RETURNED)
        return (self.epsilon - kept, Fraction(0)) if self.epsilon - kept > least else nothing

    @property
    def by_distribution(self) -> bool:
        """Whether the guarantee is that of the privacy loss distribution, and too small for the sum of prices."""
        epsilon, delta = self.guarantee
        delta -= self.keys
        return not is_covered(self.used, currency=self.currency, epsilon=epsilon, delta=delta)

    def share(self, record: SpendRecord) -> Fraction:
        """Return the share of the run's budget that one spend took."""
        return record.price / max(self.cap, self.used)

    @property
    def used_share(self) -> Fraction:
        """The share of the run's budget that all spends took: all of it where prices add up to more than the cap."""
        return self.used / max(self.cap, self.used)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON; exact numbers are written as "p/q"."""
        return {
            "run": self.run,
            "dataset": self.dataset,
            **self.reservation(),
            "spends": [record.to_json() | {"share": float(self.share(record))} for record in self.spends],
            **({"invariants": [totals.to_json() for totals in self.invariants]} if self.invariants else {}),
            "used": str(self.used),
            "returned": [str(part) for part in self.returned],
            "finished": self.finished,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunRecord:
        """Return the record that `to_json` wrote; anything else is refused."""
        try:
            record = cls(
                **_parse_reservation(data),
                run=str(data["run"]),
                dataset=str(data["dataset"]),
                spends=tuple(SpendRecord.from_json(spend) for spend in data["spends"]),
                invariants=tuple(PublishedTotals.from_json(each) for each in data.get("invariants", ())),
                returned=(fraction_from_json(data["returned"][0]), fraction_from_json(data["returned"][1])),
                finished=_parse_flag(data["finished"]),
                digest=str(data["digest"]),
            )
            if record.used != fraction_from_json(data["used"]):
                raise ValueError("the prices do not add up")
            record.check_sizes()
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, PopulaceError) as failure:
            raise LedgerError(
                f"this is not a complete record of a run ({type(failure).__name__}).",
                hint="use the record as populace wrote it",
            ) from failure
        return record

    @classmethod
    def from_reservation(cls, data: Mapping[str, Any], *, run: str, dataset: str, digest: str) -> RunRecord:
        """Return the record of a run that has just reserved its budget, from the body of that event."""
        record = cls(**_parse_reservation(data), run=run, dataset=dataset, digest=digest)
        refuse_unknown_fields(data, known=(*record.reservation(), *_OPTIONAL_FIELDS))
        return record

    def reservation(self) -> dict[str, Any]:
        """Return the body of the event that reserves this run's budget; exact numbers are written as "p/q"."""
        return {
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
            **({"keys": str(self.keys)} if self.keys else {}),
            **({"workload": self.workload} if self.workload else {}),
            **({"public": self.public.to_json()} if self.public else {}),
            **({"within": self.unit.within} if self.unit.within else {}),
            **({"frequency": self.unit.frequency} if self.unit.frequency else {}),
            **({"exact": self.exact.to_json()} if self.exact else {}),
            **({"internal_read": True} if self.internal_read else {}),
            **({"columns": self.columns} if self.columns else {}),
        }

    def check(self) -> None:
        """Recompute the cap from (ε, δ) and every price from its mechanism; refuse what was booked too cheaply."""
        try:
            check_declared(self.exact, unit=self.unit)
            for totals in self.invariants:
                check_published(totals, exact=self.exact, run=self.run)
            self.check_cap()
            for record in self.spends:
                self.check_spend(record)
            self.check_total()
            if self.used_delta_reserve > self.keys:
                raise underpriced_error(f"run {self.run} took more of delta than was set aside")
            self.check_return(self.returned)
        except (UsageError, OverBudget) as failure:
            raise underpriced_error(
                f"run {self.run} broke a rule: {failure.message.removesuffix('.')}"
            ) from failure

    def check_sizes(self) -> None:
        """Refuse numbers that no run can have: searching for the price of a negative δ would not end."""
        parse_epsilon(self.epsilon)
        parse_delta(self.delta)
        kept = self.guarantee
        if self.cap <= 0 or not (0 <= self.keys <= self.delta and min(*self.returned, *kept) >= 0):
            raise ValueError("a cap, or a part of δ, that cannot be")
        if any(record.price < 0 or record.delta < 0 for record in self.spends):
            raise ValueError("a price below 0")

    def check_cap(self) -> None:
        """Refuse a cap above what the run's (ε, δ) allows, less the δ that is set aside."""
        check_delta_reserve(self.keys, delta=self.delta)
        epsilon, delta = self.epsilon, self.delta - self.keys
        if not is_covered(self.cap, currency=self.currency, epsilon=epsilon, delta=delta):
            booked = f"a cap of {float(self.cap):.6g}, above what (ε, δ) allows"
            raise underpriced_error(f"run {self.run} booked {booked}")

    def check_spend(self, record: SpendRecord) -> None:
        """Refuse a spend booked below its price, or as if one unit moved its answers less than it can."""
        record.check(unit=self.unit, currency=self.currency, run=self.run)

    def check_total(self) -> None:
        """Refuse prices above the cap, unless the plan was fixed and the distribution of its noise is within (ε, δ)."""
        if self.used > self.cap and not (
            self.plan is Adaptivity.FIXED
            and self._is_within_distribution(self.epsilon, self.delta - self.keys)
        ):
            raise OverBudget(
                f"the questions of run {self.run} cost {format_short(self.used)}, more than the "
                f"{format_short(self.cap)} ({self.currency.value}) of its cap.",
                hint="ask with more noise, ask for less, or reserve a larger budget for the run",
            )

    def check_return(self, returned: tuple[Fraction, Fraction]) -> None:
        """Refuse to give back anything of an adaptive run, or more than a fixed plan has left over."""
        if not any(returned):
            return
        if self.plan is not Adaptivity.FIXED:
            raise UsageError(
                f"run {self.run} chose its questions as it went, so it gives nothing back.",
                hint="only a run reserved with a plan fixed in advance may return what it did not use",
            )
        epsilon, delta = self.epsilon - returned[0], self.delta - returned[1]
        if not (0 <= epsilon <= self.epsilon and 0 <= delta <= self.delta):
            raise UsageError(
                f"run {self.run} gives back epsilon {format_short(returned[0])} and delta {format_short(returned[1])}, "
                "more than it has.",
                hint=f"it reserved epsilon {format_short(self.epsilon)} and delta {format_short(self.delta)}",
            )
        # The sum of prices is enough for most; the distribution of all noise together needs less, and takes longer.
        if not is_covered(
            self.used, currency=self.currency, epsilon=epsilon, delta=delta - self.keys
        ) and not self._is_within_distribution(epsilon, delta - self.keys):
            raise UsageError(
                f"run {self.run} would keep epsilon {format_short(epsilon)} and delta {format_short(delta)}, "
                "less than it used.",
                hint="return less",
            )

    def _is_within_distribution(self, epsilon: Fraction, delta: Fraction) -> bool:
        """Say whether the privacy loss distribution of all noise together is within (ε, δ)."""
        variances = gaussian_variances(record.spend for record in self.spends)
        if self.currency is not Currency.GDP or not variances or epsilon <= 0 or delta <= 0:
            return False
        return composed_delta(variances, epsilon=epsilon) <= delta


def _parse_reservation(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "epsilon": fraction_from_json(data["epsilon"]),
        "delta": fraction_from_json(data["delta"]),
        "unit": PrivacyUnit(
            name=str(data["unit"]),
            rows=_parse_int(data["rows_per_unit"]),
            id=None if data["id"] is None else str(data["id"]),
            neighbours=Neighbours(data["neighbours"]),
            within=None if data.get("within") is None else str(data["within"]),
            frequency=None if data.get("frequency") is None else str(data["frequency"]),
        ),
        "method": str(data["method"]),
        "schema_digest": str(data["schema_digest"]),
        "rehearsal": _parse_flag(data["rehearsal"]),
        "plan": Adaptivity(data["plan"]),
        "currency": Currency(data["currency"]),
        "cap": fraction_from_json(data["cap"]),
        # Most runs, and all runs of older ledgers, set nothing aside.
        "keys": fraction_from_json(data.get("keys", "0")),
        "workload": None if data.get("workload") is None else str(data["workload"]),
        "public": None if data.get("public") is None else PublicTable.from_json(data["public"]),
        "exact": None if data.get("exact") is None else ExactTotals.from_json(data["exact"]),
        "internal_read": _parse_flag(data.get("internal_read", False)),
        "columns": None if data.get("columns") is None else str(data["columns"]),
    }


def check_delta_reserve(keys: Fraction, *, delta: Fraction) -> None:
    """Refuse to set aside what is no part of δ. Where it is all of δ, everything else is pure."""
    if not 0 <= keys <= delta:
        raise UsageError(
            f"{format_short(keys)} of a delta of {format_short(delta)} is set aside.",
            hint="set aside no more than the whole delta",
        )


def _parse_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("neither true nor false")


def _parse_int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("not a whole number")
    return value


def format_short(value: Fraction) -> str:
    """Return a number for a message, to six digits.

    >>> format_short(Fraction(9, 10**9)), format_short(Fraction(1, 3)), format_short(Fraction(2 * 10**7))
    ('9e-9', '0.333333', '2e7')
    """
    digits, mark, exponent = f"{float(value):.6g}".partition("e")
    return f"{digits}{mark}{int(exponent)}" if mark else digits


def format_short_up(value: Fraction) -> str:
    """Return a number for a promise or a price, to six digits and never below it.

    >>> format_short_up(Fraction(1, 3)), format_short_up(Fraction("1.00000001")), format_short_up(Fraction("1e-9"))
    ('0.333334', '1.00001', '1e-9')
    """
    context = Context(prec=6, rounding=ROUND_CEILING)
    return format_short(Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator))))
