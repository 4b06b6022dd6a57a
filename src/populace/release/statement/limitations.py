"""What a privacy statement does not cover and a method leaves out, in sentences that are the same for all data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from populace.core.marginals import Clique
from populace.measurements.measurements import describe_count
from populace.methods.registry import METHODS
from populace.privacy.accounting.mechanisms import WHOLE_ROWS, PartitionSelection
from populace.privacy.ledger.run_record import RunRecord
from populace.release.statement.measured_content import MeasuredContent
from populace.schema.hints import quote_in_text
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit


def list_limitations(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> list[str]:
    """Return what the guarantee does not cover, one sentence or two for each."""
    declared = [column.name for column in schema.columns.values() if column.origin.value == "declared"]
    learnt = [column.name for column in schema.columns.values() if column.origin.value == "learnt"]
    return [
        f"This statement covers what was charged to the account “{record.dataset}” in one ledger, and this run alone. "
        f"What else is released about the same {record.unit.word} adds to it; data sets whose populations overlap "
        "must share one account. “populace ledger show” lists all that the account has guaranteed.",
        "The header of the file, the types of its columns, and whether the file can be read at all, are treated as "
        "public. A row of a CSV file is one line of it.",
        "Domains (values, ranges, bins) and rules are treated as public"
        + (f", but those of {quote_in_text(learnt)} were learnt with budget. " if learnt else ". ")
        + (
            f"{_quote_subject(declared)} declared by the curator: if a declaration was derived from the data, "
            "it is not protected."
            if declared
            else "A domain derived from the data would not be protected."
        ),
        *_public_totals(schema),
        *_public_table(record, schema, answers=answers),
        *_smooth_noise(record),
        _rows_per_unit(record.unit),
        *answers.survey,
        "Statistical inference is not prevented: what holds for a group may be inferred about its members, whether or "
        "not they are in the data.",
        "Side channels are not covered: how long a run took, how much memory it needed, what was shown on the "
        "curator's screen.",
        "The guarantee needs the ledger to be kept: whoever restores an older copy or starts a new one can spend the "
        "same budget twice.",
    ]


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


def _smooth_noise(record: RunRecord) -> list[str]:
    """Say that the scale of some noise is not released, where it follows private rows."""
    if not any(charged.spend.verb == "smooth" for charged in record.spends):
        return []
    return [
        "The noise of some answers is scaled to a smooth bound that is private itself. The scale is in no file; where "
        "an estimate of it is released, that was paid for."
    ]


def _public_totals(schema: Schema) -> list[str]:
    """Say which counts were taken as public, if any were."""
    if not schema.totals:
        return []
    by = [" × ".join(totals.clique) or "all rows" for totals in schema.totals]
    return [
        f"Counts of {quote_in_text(by)} were declared public, and the rows follow them. If they were "
        "computed from these rows, they are not protected."
    ]


def _public_table(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> list[str]:
    """Say whose table was taken as public, if one was, and what was taken from it."""
    if record.public is None:
        return []
    return [
        f"The table “{record.public.name}” was declared public by the curator and used without protection. "
        f"{_describe_borrowed(record, schema, answers=answers)} "
        "Its rows are not protected by this release; neither would be rows of the private table that are also in "
        "it."
    ]


def _describe_borrowed(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> str:
    """Return in one sentence which counts, or which groups of columns, come from the public table."""
    method = METHODS.get(record.method)
    found = (
        None
        if method is None
        else method.describe_public_use(schema, answers.measured, answers.public_tables)
    )
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
    """Say what the guarantee protects; a unit called row is nobody in particular."""
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


def _quote_subject(names: list[str]) -> str:
    return f"{quote_in_text(names)} {'was' if len(names) == 1 else 'were'}"
