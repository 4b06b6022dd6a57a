"""What a privacy statement does not cover and a method leaves out, in sentences that are the same for all data."""

from __future__ import annotations

from populace.privacy.mechanisms import WHOLE_ROWS, Stability
from populace.privacy.record import RunRecord
from populace.schema.schema import Schema
from populace.schema.unit import Unit


def not_covered(record: RunRecord, schema: Schema) -> list[str]:
    """Return what nobody may read into the promise, one sentence or two for each."""
    declared = [column.name for column in schema.columns.values() if column.origin.value == "declared"]
    learnt = [column.name for column in schema.columns.values() if column.origin.value == "learnt"]
    return [
        f"This statement covers what was charged to the account “{record.dataset}” in one ledger, and this run alone. "
        "Other releases about the same people add to it; data sets whose populations overlap must share one account. "
        "What the account has promised in all, “populace ledger show” tells the curator.",
        "The header of the file, the types of its columns, and whether the file can be read at all, are treated as "
        "public. A row of a CSV file is one line of it.",
        "Domains (values, ranges, bins) and rules are treated as public"
        + (f", but those of {named(learnt)} were learnt with budget. " if learnt else ". ")
        + (
            f"{_listed(declared)} declared by the curator: if a declaration was made by looking at the "
            "data, that look is not protected."
            if declared
            else "A domain made by looking at the data would not be protected."
        ),
        *_totals_lines(schema),
        *_public_lines(record),
        _rows_line(record.unit),
        "What is true of a whole group stays visible, and may be guessed about anybody who belongs to it. "
        "Learning from statistics is what the release is for and is not a breach.",
        "Side channels are not covered: how long a run took, how much memory it needed, what was shown on the "
        "curator's screen.",
        "The guarantee needs the ledger to be kept: whoever restores an older copy or starts a new one can spend the "
        "same budget twice.",
    ]


def left_out(record: RunRecord, schema: Schema) -> list[str]:
    """Return what a method leaves out by its nature."""
    if record.method == "field-groups" and not schema.groups and record.public is None:
        return [
            "Columns were put together because they are neighbours in the schema: nothing was learnt about which "
            "belong together, and columns of different groups are independent of each other here."
        ]
    laws = [charged.spend.law for charged in record.spends if charged.spend.what == WHOLE_ROWS]
    return [
        f"Rows are here only if, with their noise, more than {law.threshold} are alike: all rarer ones are missing."
        for law in laws
        if isinstance(law, Stability)
    ]


def _totals_lines(schema: Schema) -> list[str]:
    """Say which counts were taken as public, if any were."""
    if not schema.totals:
        return []
    by = [" × ".join(totals.clique) or "all rows" for totals in schema.totals]
    return [
        f"Counts of {named(by)} were declared public, and the rows follow them. If they were made from these rows, "
        "they are not protected."
    ]


def _public_lines(record: RunRecord) -> list[str]:
    """Say whose table was taken as public, if one was."""
    if record.public is None:
        return []
    return [
        f"The table “{record.public.name}” was declared public by the curator and used without protection. "
        "Whoever has rows in it is not protected by this release as far as these rows go, and rows of the private "
        "table in it would not be protected at all."
    ]


def _rows_line(unit: Unit) -> str:
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


def _listed(names: list[str]) -> str:
    return f"{named(names)} {'was' if len(names) == 1 else 'were'}"


def named(names: list[str]) -> str:
    """Return some names in quotes, a few of many.

    >>> named(["a", "b"])
    '“a”, “b”'
    """
    shown = ", ".join(f"“{name}”" for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
