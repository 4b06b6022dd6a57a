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
    """Return what nobody may read into the promise, one sentence or two for each."""
    declared = [column.name for column in schema.columns.values() if column.origin.value == "declared"]
    learnt = [column.name for column in schema.columns.values() if column.origin.value == "learnt"]
    return [
        f"This statement covers what was charged to the account “{record.dataset}” in one ledger, and this run alone. "
        f"What else is released about the same {record.unit.word} adds to it; data sets whose populations overlap "
        "must share one account. What the account has promised in all, “populace ledger show” tells the curator.",
        "The header of the file, the types of its columns, and whether the file can be read at all, are treated as "
        "public. A row of a CSV file is one line of it.",
        "Domains (values, ranges, bins) and rules are treated as public"
        + (f", but those of {quote_in_text(learnt)} were learnt with budget. " if learnt else ". ")
        + (
            f"{_quote_subject(declared)} declared by the curator: if a declaration was made by looking at the "
            "data, that look is not protected."
            if declared
            else "A domain made by looking at the data would not be protected."
        ),
        *_public_totals(schema),
        *_public_table(record, schema, answers=answers),
        *_smooth_noise(record),
        _rows_per_unit(record.unit),
        *answers.survey,
        "What is true of a whole group stays visible, and may be guessed about anybody who belongs to it. "
        "Learning from statistics is what the release is for and is not a breach.",
        "Side channels are not covered: how long a run took, how much memory it needed, what was shown on the "
        "curator's screen.",
        "The guarantee needs the ledger to be kept: whoever restores an older copy or starts a new one can spend the "
        "same budget twice.",
    ]


def list_omissions(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> list[str]:
    """Return what a method leaves out by its nature, and what it never asked the private table."""
    unseen = [name for name in schema.domain if not any(name in clique for clique in answers.measured)]
    if answers.public_cliques and unseen:
        return [
            f"Of the private table only {_describe_counts(answers.widest)} was measured. All that is here about "
            f"{quote_in_text(unseen)} comes from the public table and says nothing about any "
            f"{record.unit.word} of the private."
        ]
    method = METHODS.get(record.method)
    if method is not None and (found := method.limitations(schema, record.public is not None)):
        return found
    mechanisms = [charged.spend.mechanism for charged in record.spends if charged.spend.what == WHOLE_ROWS]
    return [
        (
            f"No row was told: with their noise, no more than {mechanism.threshold} were alike. The table is "
            "empty, however "
            "many rows were asked for."
            if answers.released_rows == 0
            else f"Rows are here only if, with their noise, more than {mechanism.threshold} are alike: "
            "all rarer ones are "
            "missing."
        )
        for mechanism in mechanisms
        if isinstance(mechanism, PartitionSelection)
    ]


def _smooth_noise(record: RunRecord) -> list[str]:
    """Say that the width of some noise is not told, where it follows private rows."""
    if not any(charged.spend.verb == "smooth" for charged in record.spends):
        return []
    return [
        "The noise of some answers follows a bound that is private itself. How wide it was is part of no file; "
        "where its size is told, that was paid for."
    ]


def _public_totals(schema: Schema) -> list[str]:
    """Say which counts were taken as public, if any were."""
    if not schema.totals:
        return []
    by = [" × ".join(totals.clique) or "all rows" for totals in schema.totals]
    return [
        f"Counts of {quote_in_text(by)} were declared public, and the rows follow them. If they were made "
        "from these rows, "
        "they are not protected."
    ]


def _public_table(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> list[str]:
    """Say whose table was taken as public, if one was, and what was taken from it."""
    if record.public is None:
        return []
    return [
        f"The table “{record.public.name}” was declared public by the curator and used without protection. "
        f"{_describe_public_use(record, schema, answers=answers)} "
        "Whoever has rows in it is not protected by this release as far as these rows go, and rows of the private "
        "table in it would not be protected at all."
    ]


def _describe_public_use(record: RunRecord, schema: Schema, *, answers: MeasuredContent) -> str:
    """Return in one sentence which counts, or which groups of columns, come from the public table."""
    method = METHODS.get(record.method)
    found = (
        None
        if method is None
        else method.describe_public_use(schema, answers.measured, answers.public_cliques)
    )
    if found is not None:
        return found
    if not answers.public_cliques:
        return "Nothing was taken from it: every table of counts here was measured in the private one."
    return f"Taken from it: {_describe_public_marginals(answers.public_cliques, columns=len(schema.domain))}."


def _describe_public_marginals(public_cliques: Sequence[Clique], *, columns: int) -> str:
    """Return which tables of counts were taken: all columns or pairs, or some by name."""
    sentences = []
    for size in sorted({len(clique) for clique in public_cliques}):
        names = [" × ".join(clique) for clique in public_cliques if len(clique) == size]
        possible = math.comb(columns, size)
        if len(names) == possible > 1:
            sentences.append(f"all {describe_count(possible, columns=size)}")
        else:
            sentences.append(
                f"{describe_count(len(names), columns=size)} of {possible}, {quote_in_text(names)}"
            )
    return "; ".join(["counts of " + sentences[0], *sentences[1:]])


def _describe_counts(cliques: Sequence[Clique]) -> str:
    """Return which counts were measured, where they are few.

    >>> _describe_counts([()]), _describe_counts([("area", "year")])
    ('the number of rows', 'the number of rows by “area × year”')
    """
    by = [" × ".join(clique) for clique in cliques if clique]
    return f"the number of rows by {quote_in_text(by)}" if by else "the number of rows"


def _rows_per_unit(unit: PrivacyUnit) -> str:
    """Say what the promise counts as one; a unit called row is nobody in particular."""
    if unit.id is None and unit.name == "row":
        return "Rows are protected one by one: whoever stands behind several rows is protected less."
    if unit.id is None:
        return (
            f"That no {unit.name} has more than one row is trusted, not checked: no id column was declared."
        )
    most = "one row" if unit.rows == 1 else f"{unit.rows} rows"
    everybody = "everybody" if unit.name == "row" else f"every {unit.name}"
    return (
        f"At most {most} for each value of “{unit.id}” counted; further rows were left out, and rows without a "
        f"value. That this column tells {everybody} apart is trusted."
    )


def _quote_subject(names: list[str]) -> str:
    return f"{quote_in_text(names)} {'was' if len(names) == 1 else 'were'}"
