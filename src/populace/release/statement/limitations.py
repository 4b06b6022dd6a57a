"""What a privacy statement does not cover and a method leaves out, in sentences that are the same for all data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

from populace.core.marginals import Clique, Marginal
from populace.core.spine import ROOT
from populace.measurements.level_queries import describe_linked_query, describe_query, place_marginal
from populace.measurements.measurements import Measurements, describe_count
from populace.methods.registry import METHODS
from populace.privacy.accounting.mechanisms import WHOLE_ROWS, PartitionSelection
from populace.privacy.ledger.run_record import RunRecord
from populace.release.statement.domain_fit import find_out_of_domain
from populace.release.statement.earlier_statement import EarlierContent, list_earlier
from populace.release.statement.linked_statement import describe_linked_unit, list_released_columns
from populace.release.statement.rule_fit import RuleCheckLine, describe_rule_check, find_broken_rules
from populace.release.statement.spine_fit import find_spine_mismatch
from populace.schema.hints import quote_in_text
from populace.schema.level_totals import describe_level_totals
from populace.schema.linked.table_cells import MemberCells
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit


class LevelLine(TypedDict):
    """A level of a geography: how many units it has, and what was counted in each of them, in order.

    `exact` says that totals were published without noise.
    """

    level: str
    units: int
    queries: list[str]
    exact: bool


def list_level_lines(measurements: Measurements) -> Iterator[LevelLine]:
    """Yield every level of a geography with what was measured of it; nothing where there is none."""
    geography = measurements.schema.geography
    if geography is None:
        return
    placed = [(item, *place_marginal(item.marginal, geography)) for item in measurements.items]
    describe = _query_names(measurements.schema)
    for number, name in enumerate(geography.spine.levels):
        here = [(item, marginal) for item, level, marginal in placed if level == number]
        yield LevelLine(
            level=name,
            units=geography.spine.units(number),
            queries=list(dict.fromkeys(describe(marginal) for item, marginal in here if item.variance)),
            exact=any(not item.variance for item, _ in here),
        )


def _query_names(schema: Schema) -> Callable[[Marginal], str]:
    """Return how queries are named: those that are asked together of linked tables have one name."""
    if schema.linked is None:
        return describe_query
    return partial(describe_linked_query, cells=MemberCells.of(schema), units=schema.linked.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredContent:
    """The columns of each table of counts that was measured, and of each that is public; the number of rows released.

    `survey` are sentences about the design of a survey, where estimates were made; `outside` are sentences about
    columns of which many rows lie outside the domain; `levels` say what was measured of a geography. `earlier` are the
    runs of earlier releases whose tables stand beside those of this run, and what they measured. `rule_check` says what
    was seen of rows that break rules, where that was paid for.

    >>> MeasuredContent(measured=((), ("age", "sex"), ("age",))).widest
    (('age', 'sex'),)
    """

    measured: tuple[Clique, ...] = ()
    public_tables: tuple[Clique, ...] = ()
    released_rows: int | None = None
    survey: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    levels: tuple[LevelLine, ...] = ()
    earlier: tuple[EarlierContent, ...] = ()
    rule_check: RuleCheckLine | None = None

    @classmethod
    def of(cls, measurements: Measurements) -> MeasuredContent:
        """Return what measurements hold, each table once."""
        public, released_rows = measurements.public, measurements.released_rows
        return cls(
            measured=tuple(dict.fromkeys(item.marginal.clique for item in measurements.items)),
            public_tables=() if public is None else tuple(public.tables),
            released_rows=None if released_rows is None else len(released_rows.counts),
            outside=(
                *find_spine_mismatch(measurements),
                *(found.text for found in find_out_of_domain(measurements)),
                *(found.text for found in find_broken_rules(measurements)),
            ),
            levels=tuple(list_level_lines(measurements)),
            earlier=list_earlier(measurements),
            rule_check=describe_rule_check(measurements),
        )

    @property
    def widest(self) -> tuple[Clique, ...]:
        """The tables that were measured, without those that are part of another."""
        return tuple(
            clique for clique in self.measured if not any(set(clique) < set(other) for other in self.measured)
        )


def list_limitations(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> Iterator[str]:
    """Yield what the guarantee does not cover, one sentence or two at a time."""
    columns = [column for _, column in list_released_columns(schema)]
    declared = [column.name for column in columns if column.origin.value == "declared"]
    learnt = [column.name for column in columns if column.origin.value == "learnt"]
    yield (
        f"This statement covers what was charged to the account “{record.dataset}” in one ledger, and this run alone. "
        f"What else is released about the same {record.unit.word} adds to it; data sets whose populations overlap "
        "must share one account. “populace ledger show” lists all that the account has guaranteed."
    )
    yield (
        "The header of the file, the types of its columns, and whether the file can be read at all, are treated as "
        "public. A row of a CSV file is one line of it."
    )
    yield (
        "Domains (values, ranges, bins) and rules are treated as public"
        + (f", but those of {quote_in_text(learnt)} were learnt with budget. " if learnt else ". ")
        + (
            f"{quote_in_text(declared)} {'was' if len(declared) == 1 else 'were'} declared by the curator: if a "
            "declaration was derived from the data, it is not protected."
            if declared
            else "A domain derived from the data would not be protected."
        )
    )
    if schema.totals or schema.level_totals:
        by = [" × ".join(totals.clique) or "all rows" for totals in schema.totals]
        by += [describe_level_totals(totals, layout=schema.layout) for totals in schema.level_totals]
        yield (
            f"Counts of {quote_in_text(by)} were declared public, and the rows follow them. If they were "
            "computed from these rows, they are not protected."
        )
    if record.unit.within is not None:
        yield _exact_totals(record)
    if record.public is not None:
        yield (
            f"The table “{record.public.name}” was declared public by the curator and used without protection. "
            f"{_describe_public_use(record, schema, answers=answers)} Its rows are not protected by this release; "
            "neither would be rows of the private table that are also in it."
        )
    if answers.earlier:
        yield (
            "Tables of earlier releases of the account stand beside those of this run. Nobody compared the rows: the "
            "curator says that they were the same, and where they were not, numbers lie between both. That ε and δ of "
            "all of them add up to the guarantee holds for amounts that do not follow from earlier releases; if what "
            "these showed decided how much a later run took, the guarantee is the budget of the account."
        )
    if any(charged.spend.verb == "smooth" for charged in record.spends):
        yield (
            "The noise of some answers is scaled to a smooth bound that is private itself. The scale is in no file; "
            "where an estimate of it is released, that was paid for."
        )
    if record.internal_read:
        yield (
            "The schema was checked against the rows, inside the house and without protection, before this run. If it "
            "was changed because of what was seen there, that is not protected."
        )
    yield _rows_per_unit(record.unit) if schema.linked is None else describe_linked_unit(schema.linked)
    yield from answers.survey
    yield (
        "Statistical inference is not prevented: what holds for a group may be inferred about its members, whether or "
        "not they are in the data."
    )
    yield (
        "Side channels are not covered: how long a run took, how much memory it needed, what was shown on the "
        "curator's screen."
    )
    yield (
        "The guarantee needs the ledger to be kept: whoever restores an older copy or starts a new one can spend the "
        "same budget twice."
    )


def list_omissions(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> list[str]:
    """Return what a method leaves out by its nature, and what it never asked the private table."""
    unseen = [name for name in schema.domain if not any(name in clique for clique in answers.measured)]
    if answers.public_tables and unseen:
        return [
            f"Of the private table only {_describe_counts(answers.widest)} was measured. All about "
            f"{quote_in_text(unseen)} comes from the public table and says nothing about any {record.unit.word} of the "
            "private one."
        ]
    method = METHODS.get(record.method)
    if method is not None and (found := method.limitations(schema, record.public is not None)):
        return found
    mechanisms = [charged.spend.mechanism for charged in record.spends if charged.spend.what == WHOLE_ROWS]
    return [
        (
            f"No row was released: no noisy count of equal rows was above {mechanism.threshold}. The table is empty, "
            "however many rows were requested."
            if answers.released_rows == 0
            else f"Rows were released only if their noisy count was above {mechanism.threshold}: all rarer ones are "
            "suppressed."
        )
        for mechanism in mechanisms
        if isinstance(mechanism, PartitionSelection)
    ]


def _exact_totals(record: RunRecord) -> str:
    """Say what the relation leaves unprotected where totals are exact, and which two tables are neighbours."""
    unit, within = record.unit.word, record.unit.within
    levels = dict.fromkeys(totals.level for totals in record.invariants)
    places = ["of the whole table" if level == ROOT else f"by {level}" for level in levels]
    published = f"The exact totals {' and '.join(places)} are published. " if places else ""
    every, inside, there = (
        ("", "", "") if within == ROOT else (f" in every {within}", f" within a {within}", f" in a {within}")
    )
    return (
        f"{published}Two tables are neighbours if they have the same number of {plural_of(unit)}{every}, and differ in "
        f"one {unit}'s record{inside}. Whether somebody is counted{there or ' at all'} is not protected."
    )


def plural_of(word: str) -> str:
    """Return a word for several of its kind.

    >>> [plural_of(word) for word in ("person", "business", "family", "survey")]
    ['persons', 'businesses', 'families', 'surveys']
    """
    if word.endswith("y") and word[-2:-1] not in ("a", "e", "o", "u"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _describe_public_use(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> str:
    """Return in one sentence which counts, or which groups of columns, come from the public table."""
    method = METHODS.get(record.method)
    if method is not None:
        found = method.describe_public_use(schema, answers.measured, answers.public_tables)
        if found is not None:
            return found
    if not answers.public_tables:
        return "Nothing was taken from it: every table of counts here was measured in the private one."
    return f"Taken from it: {_describe_public_marginals(answers.public_tables, columns=len(schema.domain))}."


def _describe_public_marginals(public_tables: Sequence[Clique], *, columns: int) -> str:
    """Return which tables of counts were taken: all columns or pairs, or some by name."""
    parts = []
    for size in sorted({len(clique) for clique in public_tables}):
        names = [" × ".join(clique) for clique in public_tables if len(clique) == size]
        possible = math.comb(columns, size)
        if len(names) == possible > 1:
            parts.append(f"all {describe_count(possible, columns=size)}")
        else:
            parts.append(f"{describe_count(len(names), columns=size)} of {possible}, {quote_in_text(names)}")
    return "; ".join(["counts of " + parts[0], *parts[1:]])


def _describe_counts(cliques: Sequence[Clique]) -> str:
    """Return which counts were measured, where they are few.

    >>> _describe_counts([()]), _describe_counts([("area", "year")])
    ('the number of rows', 'the number of rows by “area × year”')
    """
    by = [" × ".join(clique) for clique in cliques if clique]
    return f"the number of rows by {quote_in_text(by)}" if by else "the number of rows"


def _rows_per_unit(unit: PrivacyUnit) -> str:
    """Say what the guarantee protects, and what is trusted of rows; a unit called row is nobody in particular."""
    if unit.frequency is not None:
        return (
            f"A row of the data stands for as many {plural_of(unit.word)} as “{unit.frequency}” says; what is no whole "
            f"number of 0 or more stands for none. That no {unit.word} is counted twice is trusted, not checked."
        )
    if unit.id is None and unit.name == "row":
        return "Rows are protected one by one: a person with several rows is protected less."
    if unit.id is None:
        return (
            f"That no {unit.name} has more than one row is trusted, not checked: no id column was declared."
        )
    most = "one row" if unit.rows == 1 else f"{unit.rows} rows"
    everybody = "everybody" if unit.name == "row" else f"every {unit.name}"
    return (
        f"At most {most} for each value of “{unit.id}” counted; further rows were left out, and rows without a "
        f"value. That this column identifies {everybody} is trusted."
    )
