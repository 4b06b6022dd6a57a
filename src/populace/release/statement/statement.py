"""The privacy statement: what was promised, what it cost, and what it does not cover.

It is computed from the ledger's record of the run, and from the schema for the domains; never from what the caller
asked for.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NotRequired, TypedDict

from populace.core.number_format import format_exact, format_percent, format_percent_bound
from populace.core.spine import ROOT
from populace.privacy.accounting.mechanisms import PartitionSelection
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.run_record import RunRecord
from populace.release.row_selection import (
    MIN_COMMON_SHARE,
    CopiesLine,
    ImplicatesLine,
    RowCountOrigin,
    RowSelection,
    SelectionLine,
    describe_copies,
    describe_implicates,
    describe_selection,
    describe_total,
)
from populace.release.statement.domain_lines import DomainLine, list_domain_lines
from populace.release.statement.earlier_statement import (
    SupersededLine,
    TogetherLine,
    describe_together,
)
from populace.release.statement.limitations import (
    LevelLine,
    MeasuredContent,
    list_limitations,
    list_omissions,
    plural_of,
)
from populace.release.statement.linked_statement import (
    LinkedLine,
    describe_linked,
    list_rules,
)
from populace.release.statement.membership_power import (
    Protection,
    add_guarantees,
    bound_membership_power,
    describe_membership_test,
    round_power,
)
from populace.release.statement.rule_fit import RuleCheckLine
from populace.schema.columns.column import Origin
from populace.schema.hints import quote_in_text
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours

# The number of the rules by which statements, codebooks and manifests are made. Whoever changes a number or a word of
# them raises it, and freezes releases of the new format: tests/golden/releases/make.py.
RELEASE_FORMAT = 4
REHEARSAL_STAMP = "REHEARSAL – noise was repeatable; not private"
BY_DISTRIBUTION = (
    "ε was computed from the privacy loss distribution of the discrete Gaussian noise that was drawn, for a plan fixed "
    "before the first answer."
)
GIVEN_BACK = " What the plan did not need was given back to the account."
# Above this, or above a tenth of one row, δ is flagged.
MAX_USUAL_DELTA = Fraction(1, 10**5)


class TotalLine(TypedDict):
    """The number of synthetic rows and where it comes from.

    `column` counts how many units a row stands for, where rows of a geography are counted; `rows` is their sum.
    """

    rows: int
    origin: str
    text: str
    column: NotRequired[str]


class SpendLine(TypedDict):
    """One question that was paid for; `price` is exact, `share` is its part of the whole budget.

    `delta` is what the question itself took of δ: telling values or rows, or Gaussian noise among pure questions.
    """

    verb: str
    what: str
    law: str
    answers: int
    price: str
    share: float
    delta: NotRequired[str]


class DeltaParts(TypedDict):
    """What δ is made of where a part of it was set aside, by mechanisms of questions that took it; all adds up to δ.

    `noise` is for noise. `keys` is for values and rows that one unit alone has, of which telling them took `keys_used`.
    `unused` was set aside, and then no question asked for it; it stays promised.
    """

    noise: str
    keys: str
    keys_used: str
    unused: str


class UsedLine(TypedDict):
    """What the run's questions came to, in the currency of its filter. It carries no guarantee of its own."""

    currency: str
    cap: str
    price: str
    share: float


class Statement(TypedDict):
    """What `statement.json` holds."""

    format: str
    stamp: str | None
    epsilon: float
    delta: float
    epsilon_exact: str
    delta_exact: str
    delta_parts: NotRequired[DeltaParts]
    neighbours: str
    within: NotRequired[str]
    invariants: NotRequired[list[str]]
    accounting: NotRequired[str]
    unit: str
    rows_per_unit: int
    id: str | None
    dataset: str
    method: str
    workload: NotRequired[str]
    public: NotRequired[dict[str, str]]
    total: TotalLine
    linked: NotRequired[LinkedLine]
    together: NotRequired[TogetherLine]
    superseded: NotRequired[list[SupersededLine]]
    where: NotRequired[SelectionLine]
    implicates: NotRequired[ImplicatesLine]
    copies: NotRequired[CopiesLine]
    found: float
    reading: str
    warnings: list[str]
    spends: list[SpendLine]
    used: UsedLine
    domains: list[DomainLine]
    levels: NotRequired[list[LevelLine]]
    rules: list[str]
    rule_check: NotRequired[RuleCheckLine]
    not_covered: list[str]
    schema_digest: str
    ledger_entry: str
    record: dict[str, Any]


def compute_statement(
    record: RunRecord,
    *,
    schema: Schema,
    answers: MeasuredContent,
    rows: int,
    rows_from: RowCountOrigin,
    selection: RowSelection | None = None,
    implicates: int = 1,
    in_blocks: bool = False,
    form: int = RELEASE_FORMAT,
) -> Statement:
    """Return the statement of one run.

    The guarantee is what the ledger reserved before a row was read. What the questions came to is shown as `used`, and
    `answers` say what they were about.
    How rows were drawn from the model later is stated beside it and has no price; `in_blocks` says that they were so
    many that they repeat, which those of a geography never do. `form` asks for the numbers of an older format; words
    are always those of today.
    """
    epsilon, delta = record.guarantee
    earlier = [each.record for each in answers.earlier]
    together = add_guarantees([record, *earlier])
    found = round_power(bound_membership_power(record, earlier=earlier))
    statement = Statement(
        format=f"populace statement {form}",
        stamp=REHEARSAL_STAMP if record.rehearsal else None,
        # The first format rounded down.
        epsilon=round_to_float(epsilon, up=form > 1),
        delta=round_to_float(delta, up=form > 1),
        epsilon_exact=format_exact(epsilon),
        delta_exact=format_exact(delta),
        neighbours=record.unit.neighbours.value,
        unit=record.unit.word,
        rows_per_unit=record.unit.rows,
        id=record.unit.id,
        dataset=record.dataset,
        method=record.method,
        total=_total_line(rows, rows_from, selection, schema=schema),
        found=found,
        reading=describe_membership_test(record.unit, power=found),
        warnings=[
            *_list_warnings(
                together[1], found=found, rows=rows if rows_from is RowCountOrigin.NOISE else 0, schema=schema
            ),
            *list_omissions(record, schema, answers=answers),
            *answers.outside,
        ],
        spends=[_spend_line(charged, share=record.share(charged)) for charged in record.spends],
        used=UsedLine(
            currency=record.currency.value,
            # A run by distribution has no cap of its own in this currency: its prices add up to more than it promises.
            cap=str(max(record.cap, record.used)),
            price=str(record.used),
            share=float(record.used_share),
        ),
        domains=list_domain_lines(schema),
        rules=list_rules(schema),
        not_covered=[
            *([f"{REHEARSAL_STAMP}. Nothing here is protected."] if record.rehearsal else []),
            *list_limitations(record, schema, answers=answers),
        ],
        schema_digest=record.schema_digest,
        ledger_entry=record.digest,
        record=record.to_json(),
    )
    if answers.earlier:
        statement["together"] = describe_together(
            together, own=(statement["epsilon_exact"], statement["delta_exact"])
        )
        statement["superseded"] = [each.to_line() for each in answers.earlier]
    if answers.rule_check is not None:
        statement["rule_check"] = answers.rule_check
    if answers.levels:
        statement["levels"] = list(answers.levels)
    if schema.linked is not None:
        statement["linked"] = describe_linked(schema.linked)
    if record.workload is not None:
        statement["workload"] = record.workload
    if record.public is not None:
        statement["public"] = record.public.to_json()
    if record.unit.within is not None:
        statement["within"] = record.unit.within
        statement["invariants"] = list(dict.fromkeys(totals.level for totals in record.invariants))
    if record.by_distribution:
        statement["accounting"] = BY_DISTRIBUTION + (GIVEN_BACK if any(record.returned) else "")
    if selection is not None:
        statement["where"] = describe_selection(selection)
        if selection.share < MIN_COMMON_SHARE:
            statement["warnings"].append(
                f"Rows where {selection.where} are only {format_percent(selection.share)} of the model's rows: what "
                "they show may be mostly noise."
            )
    elif in_blocks and schema.geography is None:
        statement["copies"] = describe_copies(rows)
        statement["warnings"].append(statement["copies"]["text"])
    if implicates > 1:
        statement["implicates"] = describe_implicates(implicates)
    if record.keys:
        statement["delta_parts"] = _delta_parts(record)
    return statement


def _total_line(
    rows: int, rows_from: RowCountOrigin, selection: RowSelection | None, *, schema: Schema
) -> TotalLine:
    exact = schema.unit.within is not None
    if schema.geography is None or schema.frequency is None:
        text = describe_total(rows, rows_from, selection, exact=exact)
        return TotalLine(rows=rows, origin=rows_from.value, text=text)
    counted, word = schema.frequency, plural_of(schema.unit.word)
    text = describe_total(rows, rows_from, selection, of=word, exact=exact)
    note = f" Each row stands for as many {word} as “{counted}” says."
    return TotalLine(rows=rows, origin=rows_from.value, text=text + note, column=counted)


def round_to_float(value: Fraction, *, up: bool = True) -> float:
    """Return the float nearest to a number whose text, as JSON writes it, is not below the number, or not above it.

    >>> round_to_float(Fraction(1, 10)), round_to_float(Fraction(2, 3)), round_to_float(Fraction(2, 3), up=False)
    (0.1, 0.6666666666666667, 0.6666666666666666)
    """
    number, sign = float(value), 1 if up else -1
    while sign * Fraction(repr(number)) < sign * value:
        number = math.nextafter(number, math.inf if up else 0.0)
    return number


_LIKELY = {
    Protection.STRONG: "The results would have had nearly the same probability",
    Protection.MODERATE: "The results would have had nearly the same probability",
    Protection.WEAK: "The protection is weak: the results would have had a clearly different probability",
    Protection.VERY_WEAK: "The protection is very weak: the results could have had a very different probability",
}


def sum_guarantee(statement: Statement) -> tuple[str, str]:
    """Return ε and δ of all that a folder holds: a reader of it sees what the earlier runs were answered too."""
    if "together" in statement:
        return statement["together"]["epsilon"], statement["together"]["delta"]
    return statement["epsilon_exact"], statement["delta_exact"]


def describe_parts(statement: Statement) -> tuple[str, str]:
    """Return ε and δ of all that a folder holds, each with the part of its own run where there are earlier ones."""
    if "together" not in statement:
        return sum_guarantee(statement)
    epsilon, delta = sum_guarantee(statement)
    return (
        f"{epsilon}, of which this run {statement['epsilon_exact']}",
        f"{delta}, of which this run {statement['delta_exact']}",
    )


def describe_guarantee(statement: Statement) -> str:
    """Return the guarantee in one sentence, in terms as strong as it deserves and no stronger."""
    epsilon, delta = sum_guarantee(statement)
    guarantee = f"ε = {epsilon}, δ = {delta}"
    rows = "" if statement["rows_per_unit"] == 1 else f" with up to {statement['rows_per_unit']} rows"
    if "linked" in statement:
        rows = f" with at most {statement['linked']['max_rows']} rows of “{statement['linked']['members']}”"
    unit = f"any one {statement['unit']}{rows}"
    if statement["neighbours"] == Neighbours.ADD_REMOVE.value:
        change = f"had {unit} been added to the data or removed"
    else:
        within = statement.get("within", ROOT)
        change = f"had {unit} been replaced by another{'' if within == ROOT else f' in the same {within}'}"
    sentence = f"{_LIKELY[Protection.of(statement['found'])]} {change} ({guarantee})."
    if Fraction(delta) > MAX_USUAL_DELTA:
        sentence = (
            f"With probability {delta} there is no guarantee; otherwise {sentence[0].lower()}{sentence[1:]}"
        )
    if statement["stamp"]:
        return f"No guarantee: this is a rehearsal with repeatable noise. For a real run: {sentence}"
    return sentence


def _spend_line(charged: SpendRecord, *, share: Fraction) -> SpendLine:
    line = SpendLine(
        verb=charged.spend.verb,
        what=charged.spend.what,
        law=str(charged.spend.mechanism),
        answers=charged.spend.answers,
        price=str(charged.price),
        share=float(share),
    )
    if charged.delta:
        line["delta"] = str(charged.delta)
    return line


def _delta_parts(record: RunRecord) -> DeltaParts:
    text = [
        charged.delta for charged in record.spends if isinstance(charged.spend.mechanism, PartitionSelection)
    ]
    noise = record.used_delta_reserve - sum(text)
    rest = record.keys - noise
    return DeltaParts(
        noise=format_exact(record.guarantee[1] - rest),
        keys=format_exact(rest) if text else "0",
        keys_used=str(sum(text)),
        unused="0" if text else format_exact(rest),
    )


def _list_warnings(delta: Fraction, *, found: float, rows: int, schema: Schema) -> list[str]:
    """Return what a reader must not overlook, by thresholds that are the same for all data."""
    lines = []
    protection = Protection.of(found)
    if protection in (Protection.WEAK, Protection.VERY_WEAK):
        access = " Access to these files should be controlled." if protection is Protection.VERY_WEAK else ""
        lines.append(
            f"ε is large: the protection is {protection.value}. A membership test may have a power of up to "
            f"{format_percent_bound(found)}.{access}"
        )
    if delta > MAX_USUAL_DELTA or delta * rows * 10 > 1:
        lines.append(
            f"δ = {format_exact(delta)} is large: with this probability there is no guarantee. It should be far below "
            "1 in the number of rows."
        )
    empty = [c.name for c in schema.columns.values() if c.origin is Origin.LEARNT and not c.levels]
    if empty:
        lines.append(
            f"No value of {quote_in_text(empty)} was frequent enough to be released: all its cells are empty, or hold "
            "the schema's code for other values."
        )
    return lines
