"""How rows were drawn from a fitted model, in words: which of them, and how often. It costs no budget."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypedDict

from populace.core.number_format import format_number, format_percent
from populace.sampling.row_blocks import count_blocks
from populace.schema.schema import Schema

# Rows that are a smaller share of the model's are flagged.
MIN_COMMON_SHARE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """Which rows of the model are released: those that meet a condition, and the share of all rows that they are."""

    where: str
    share: float


def expected_row_count(schema: Schema, total: float, *, selection: RowSelection | None = None) -> int:
    """Return the number of rows that is public, or else the noisy one, at most as many as the schema allows.

    Of rows that meet a condition, it is their share of that.
    """
    if schema.totals:
        count = int(schema.totals[0].counts.sum())
    else:
        count = max(0, round(total))
        count = count if schema.max_rows is None else min(count, schema.max_rows)
    return count if selection is None else round(selection.share * count)


class RowCountOrigin(Enum):
    """How the number of synthetic rows was obtained. The real number is private, unless totals are exact."""

    NOISE = "noisy"
    MEMORY = "noisy, and cut to what memory holds"
    CURATOR = "chosen by the curator"
    TOTALS = "declared public"
    INVARIANT = "published exactly"
    NONE = "none were made"

    @classmethod
    def of(
        cls, schema: Schema, *, rows: int, total: float, asked: int | None, selection: RowSelection | None
    ) -> RowCountOrigin:
        """Say where a number of rows comes from: it was asked for, the schema declares it, or it is noisy.

        Where only rows that meet a condition are released, how many there are is never declared. Noisy ones are fewer
        than the `total` that a model expects where memory held no more.
        """
        if asked is not None:
            return cls.CURATOR
        if (schema.totals or schema.level_totals) and selection is None:
            return cls.TOTALS
        cut = 0 < rows < expected_row_count(schema, total, selection=selection)
        if schema.invariants and selection is None and not cut:
            return cls.INVARIANT
        return cls.MEMORY if cut else cls.NOISE


class SelectionLine(TypedDict):
    """The condition that all released rows meet, and the share of the model's rows that meet it."""

    condition: str
    share: float
    text: str


class ImplicatesLine(TypedDict):
    """How many tables were drawn from the one model, and what their differences show."""

    tables: int
    text: str


class CopiesLine(TypedDict):
    """How many rows were fitted to the model where these serve for more, and how often each of them does at most."""

    fitted: int
    most: int
    text: str


def describe_total(
    rows: int,
    rows_from: RowCountOrigin,
    selection: RowSelection | None,
    *,
    of: str = "synthetic rows",
    exact: bool = False,
) -> str:
    """Return the number of synthetic rows, or of the units that they stand for, as a statement tells it.

    `exact` says that totals are published exactly.
    """
    real = "real number is not protected" if exact and selection is None else "real number is protected"
    if rows_from is RowCountOrigin.NONE:
        return "No synthetic rows were made: the release holds estimates. The number of rows is protected."
    among = "" if selection is None else " of the rows that meet the condition"
    words = {
        RowCountOrigin.NOISE: f"is a noisy count{among}; the {real}",
        RowCountOrigin.MEMORY: f"is limited by memory: the noisy count was larger, and is mostly noise. The {real}",
        RowCountOrigin.TOTALS: "is declared public in the schema and not protected",
        RowCountOrigin.CURATOR: f"was chosen by the curator; the {real}",
        RowCountOrigin.INVARIANT: "is the exact total, which is published and not protected",
    }
    return f"The number of {of}, {format_number(rows)}, {words[rows_from]}."


def describe_selection(selection: RowSelection) -> SelectionLine:
    """Return a selection as a statement tells it.

    >>> describe_selection(RowSelection(where="AGE >= 65", share=0.18))["text"]  # doctest: +ELLIPSIS
    "Only rows where AGE >= 65 are released: the model's rows given that this holds, about 18 % of them. ..."
    """
    return SelectionLine(
        condition=selection.where,
        share=selection.share,
        text=f"Only rows where {selection.where} are released: the model's rows given that this holds, about "
        f"{format_percent(selection.share)} of them. The condition was applied to the model, not to the data: it costs "
        "nothing, and everybody in the data is protected as before.",
    )


def describe_copies(rows: int) -> CopiesLine:
    """Return how rows that were drawn block by block repeat, as a statement tells it.

    >>> line = describe_copies(10**8)
    >>> line["fitted"], line["most"]
    (6250002, 16)
    """
    count, fitted = count_blocks(rows)
    different, most = -(-rows // count) * fitted, -(-count // fitted)
    return CopiesLine(
        fitted=different,
        most=most,
        text=f"Rows repeat: {format_number(different)} rows were fitted to the model, and each of them is in the table "
        f"up to {most} times, with codes inside groups and values inside bins drawn anew. Do not count unique or equal "
        "rows, and take the variances of what was not measured, such as tables of many columns, as those of "
        f"{format_number(different)} rows.",
    )


def describe_implicates(tables: int) -> ImplicatesLine:
    """Return the number of implicates as a statement tells it."""
    return ImplicatesLine(
        tables=tables,
        text=f"{tables} tables (implicates) were drawn independently from one model. They share one privacy cost: "
        "drawing again costs nothing. Their differences show the drawing of rows alone, not the privacy noise, which "
        "is the same in all of them.",
    )
