"""A file of claims: what findings say of a table, and how close estimates must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from populace.core.errors import SchemaError, UsageError
from populace.core.limits import LIMITS
from populace.privacy.accounting.mechanisms import fraction_from_json
from populace.privacy.json_codec import decode_json, encode_json
from populace.schema.bounded_parsing import read_text_file
from populace.schema.exact_numbers import parse_number
from populace.schema.hints import quote_names
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable, read_toml_table
from populace.survey.claims.claim_parser import parse_claim
from populace.survey.claims.claim_syntax import (
    Assertion,
    Combination,
    Quantity,
    Rank,
    Statistic,
    Variable,
    list_quantities,
)
from populace.survey.design import survey_columns as columns
from populace.survey.queries.queries import check_condition, list_answered_columns

# The name under which the ledger records a run that checks claims.
CHECK_METHOD = "check"
_KEYS = ("name", "claim", "within", "value", "weight")
_HINT = "write [[claims]] and, below it, claim = \"mean(income | sex == 'f') < mean(income | sex == 'm')\""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far the truth may be from an estimate: a part of the estimate, or a number.

    >>> Tolerance(size=Fraction(1, 20), relative=True).around(Fraction(-200))
    Fraction(10, 1)
    """

    size: Fraction
    relative: bool

    def around(self, value: Fraction) -> Fraction:
        """Return the distance from an estimate that is allowed."""
        return self.size * abs(value) if self.relative else self.size

    def __str__(self) -> str:
        return f"{float(100 * self.size):g} %" if self.relative else f"{float(self.size):g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim under its name: an inequality, a rank, or an estimate that the truth is to be close to.

    `value` is the estimate where it is not the release's own; `weight` is the claim's part of the budget among others.
    """

    name: str
    says: Assertion
    within: Tolerance | None = None
    value: Fraction | None = None
    weight: Fraction = Fraction(1)

    @property
    def words(self) -> str:
        """The claim with its tolerance, for people."""
        if self.within is None:
            return str(self.says)
        of = "the release's" if self.value is None else f"{float(self.value):g}"
        return f"{self.says} within {self.within} of {of}"

    def to_json(self) -> dict[str, Any]:
        """Return the claim as plain JSON; numbers are exact."""
        return {
            "name": self.name,
            "claim": str(self.says),
            "within": None if self.within is None else encode_json(self.within),
            "value": None if self.value is None else str(self.value),
            "weight": str(self.weight),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any], *, schema: Schema) -> Claim:
        """Return what `to_json` wrote."""
        value, within = saved["value"], saved["within"]
        return cls(
            name=str(saved["name"]),
            says=parse_claim(str(saved["claim"]), schema=schema),
            within=None if within is None else decode_json(Tolerance, within),
            value=None if value is None else fraction_from_json(value),
            weight=fraction_from_json(saved["weight"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claims:
    """Claims about tables of one schema, in order, each with a name of its own.

    >>> schema = Schema.from_sizes({"AGE": 100, "SEX": 2})
    >>> claims = Claims.parse('''
    ... [[claims]]
    ... claim = "mean(AGE | SEX == 0) < mean(AGE | SEX == 1)"
    ... [[claims]]
    ... claim = "share(AGE >= 65)"
    ... within = "5 %"
    ... ''', schema=schema)
    >>> [claim.words for claim in claims]
    ['mean(AGE | SEX == 0) < mean(AGE | SEX == 1)', "share(AGE >= 65) within 5 % of the release's"]
    """

    schema: Schema
    claims: tuple[Claim, ...]

    @classmethod
    def load(cls, path: str | Path, *, schema: Schema) -> Claims:
        """Read claims from a TOML file."""
        text = read_text_file(Path(path), what="claims", refuse=UsageError)
        return cls._read(text, schema=schema, name=repr(str(path)))

    @classmethod
    def parse(cls, text: str, *, schema: Schema) -> Claims:
        """Read claims from TOML text."""
        return cls._read(text, schema=schema, name="the claims")

    @classmethod
    def _read(cls, text: str, *, schema: Schema, name: str) -> Claims:
        document = read_toml_table(text, name=name, hint=_HINT)
        document.allow(("claims",))
        found = [read_claim(each, schema=schema) for each in document.tables("claims")]
        return cls(schema=schema, claims=tuple(found))

    def __post_init__(self) -> None:
        if not self.claims:
            raise UsageError("there are no claims.", hint=_HINT)
        names = [claim.name for claim in self.claims]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SchemaError(
                f"two claims are named {quote_names(twice)}.", hint="give each a name of its own"
            )

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The part of the whole that each claim may spend."""
        whole = sum((claim.weight for claim in self.claims), Fraction(0))
        return tuple(claim.weight / whole for claim in self.claims)


def read_claim(table: TomlTable, *, schema: Schema) -> Claim:
    """Return the claim of one table of a file, checked against the schema."""
    table.allow(_KEYS)
    text = table.text("claim")
    if text is None:
        raise table.error(": there is no claim.", hint=_HINT)
    says = parse_claim(text, schema=schema, place=f"{table.place}: ")
    within = _read_tolerance(table)
    _check_tolerance(table, says, within)
    check_assertion(says, schema=schema, place=table.place)
    weight = table.number("weight")
    if weight is not None and weight <= 0:
        raise table.error(f": weight is {float(weight):g}.", hint="give a weight above 0")
    return Claim(
        name=table.text("name") or (str(says) if within is None else f"{says} within {within}"),
        says=says,
        within=within,
        value=table.number("value"),
        weight=Fraction(1) if weight is None else weight,
    )


def _read_tolerance(table: TomlTable) -> Tolerance | None:
    given = table.text("within")
    if given is None:
        return None
    relative = given.strip().endswith("%")
    size = parse_number(given.strip().removesuffix("%"))
    if size is None or size <= 0:
        raise table.error(f": within is {given[:60]!r}.", hint='write within = "5 %", or a number above 0')
    return Tolerance(size=size / 100 if relative else size, relative=relative)


def _check_tolerance(table: TomlTable, says: Assertion, within: Tolerance | None) -> None:
    estimate = isinstance(says, Combination)
    if estimate and within is None:
        raise table.error(
            f": {says} is an estimate, and not a claim.",
            hint='say how close the truth is to be: within = "5 %"; or compare it with a number',
        )
    if not estimate and (within is not None or "value" in table):
        raise table.error(
            f": within and value do not go with {says}.", hint="leave them out, or the comparison"
        )
    if isinstance(says, Combination) and not says.terms:
        raise table.error(f": {says} is a number.", hint="name a statistic, such as mean(income)")


def check_assertion(says: Assertion, *, schema: Schema, place: str) -> None:
    """Refuse what does not fit a schema; nothing but the schema decides."""
    if isinstance(says, Rank):
        found = columns.scale(schema, says.column, place=place)
        columns.code(found, says.value, place=place)
        if found.levels > LIMITS.max_values or found.levels < 2:
            raise SchemaError(
                f"{place}: {says.column!r} has {found.levels} values; a rank is one of 2 to {LIMITS.max_values}.",
                hint="name a column with fewer values",
            )
        if says.where is not None:
            check_condition(says.where, schema, place=place)
    for quantity in list_quantities(says):
        for variable in quantity.variables:
            if variable.that is not None:
                check_condition(variable.that, schema, place=place)
            else:
                _check_numbers(quantity, variable, schema=schema, place=place)
        if quantity.where is not None:
            check_condition(quantity.where, schema, place=place)


def _check_numbers(quantity: Quantity, variable: Variable, *, schema: Schema, place: str) -> None:
    try:
        low, high = columns.span(schema, variable.column or "", place=place)
    except SchemaError as error:
        raise SchemaError(
            error.message,
            hint=f"{quantity.statistic} needs numbers between public ends: declare min and max of {variable}, or name "
            "a condition, which is 1 or 0",
        ) from None
    if low >= high:
        raise SchemaError(f"{place}: {variable} has one value.", hint="leave the claim out")


def refuse_unbounded(claims: Claims) -> None:
    """Refuse claims about statistics that one row can move by any distance, before anything is spent."""
    for claim in claims:
        for quantity in list_quantities(claim.says):
            if not quantity.statistic.bounded:
                hint = "ask for a mean, a share or a count instead"
                if quantity.statistic is Statistic.MEDIAN:
                    hint = f"compare the share below a number with one half: share({quantity.variables[0]} <= …) > 0.5"
                raise UsageError(
                    f"claim {claim.name!r}: {quantity} has no bounded sensitivity: one row can move it from one end of "
                    "its range to the other.",
                    hint=hint,
                )


def list_known_columns(quantity: Quantity) -> tuple[str, ...]:
    """Return the columns without whose answer a row does not count: those of the variables."""
    found: list[str] = []
    for variable in quantity.variables:
        found += list_answered_columns(variable.that) if variable.column is None else [variable.column]
    return tuple(dict.fromkeys(found))
