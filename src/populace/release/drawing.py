"""How rows were drawn from a fitted model, in words: which of them, and how often. None of it costs budget."""

from __future__ import annotations

from enum import Enum
from typing import TypedDict

from populace.records import dataclass
from populace.schema.schema import Schema

# Rows that are a smaller share of the model's are flagged.
RARE = 0.001
MOST_IMPLICATES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows of the model are released: those that meet a condition, and the share of all rows that they are."""

    where: str
    share: float


def expected_rows(schema: Schema, total: float, *, selection: Selection | None = None) -> int:
    """Return the number of rows that is public, or else the noisy one, at most as many as the schema allows.

    Of rows that meet a condition, it is their share of that.
    """
    if schema.totals:
        count = int(schema.totals[0].counts.sum())
    else:
        count = max(0, round(total))
        count = count if schema.max_rows is None else min(count, schema.max_rows)
    return count if selection is None else round(selection.share * count)


class RowsFrom(Enum):
    """How the number of synthetic rows was obtained. The real number is private."""

    NOISE = "noisy"
    ROOM = "noisy, and cut to what memory holds"
    CURATOR = "chosen by the curator"
    TOTALS = "declared public"
    NONE = "none were made"

    @classmethod
    def of(cls, schema: Schema, *, asked: int | None, some: bool = False, cut: bool = False) -> RowsFrom:
        """Say where the number comes from: it was asked for, the schema declares it, or it is noisy.

        `some` says that only rows that meet a condition are released; how many there are is never declared. `cut` says
        that they are fewer than was expected.
        """
        if asked is not None:
            return cls.CURATOR
        if schema.totals and not some:
            return cls.TOTALS
        return cls.ROOM if cut else cls.NOISE


class Kept(TypedDict):
    """The condition that all released rows meet, and the share of the model's rows that meet it."""

    condition: str
    share: float
    text: str


class Implicates(TypedDict):
    """How many tables were drawn from the one model, and what their differences show."""

    tables: int
    text: str


def told_total(rows: int, rows_from: RowsFrom, selection: Selection | None) -> str:
    """Return the number of synthetic rows as a statement tells it."""
    if rows_from is RowsFrom.NOISE:
        of = "" if selection is None else " of the rows that meet the condition"
        return f"The {rows} synthetic rows follow a noisy count{of}; the real number of rows is protected."
    if rows_from is RowsFrom.NONE:
        return "No synthetic rows were made: the release holds estimates. The number of rows is protected."
    if rows_from is RowsFrom.ROOM:
        return (
            f"The {rows} synthetic rows are as many as the machine that drew them has memory for. The noisy count asks "
            "for more: it is mostly noise. The real number of rows is protected."
        )
    if rows_from is RowsFrom.TOTALS:
        return f"The {rows} synthetic rows are as many as the schema declares public; that number is not protected."
    return f"The curator chose to make {rows} synthetic rows; the real number of rows is protected."


def told_selection(selection: Selection) -> Kept:
    """Return a selection as a statement tells it.

    >>> told_selection(Selection(where="AGE >= 65", share=0.18))["text"]  # doctest: +ELLIPSIS
    "Only rows where AGE >= 65 are released: the model's rows given that this holds, about 18 % of them. ..."
    """
    return Kept(
        condition=selection.where,
        share=selection.share,
        text=f"Only rows where {selection.where} are released: the model's rows given that this holds, about "
        f"{100 * selection.share:.3g} % of them. The condition was applied to the model, not to the data: it costs "
        "nothing, and everybody in the data is protected as before.",
    )


def told_implicates(tables: int) -> Implicates:
    """Return the number of implicates as a statement tells it."""
    return Implicates(
        tables=tables,
        text=f"{tables} tables (implicates) were drawn independently from one model. They share one privacy cost: "
        "drawing again costs nothing. Their differences show the drawing of rows alone, not the privacy noise, which "
        "is the same in all of them.",
    )


def rare(selection: Selection) -> list[str]:
    """Warn of rows about which the model can hardly know anything."""
    if selection.share >= RARE:
        return []
    return [
        f"Rows where {selection.where} are only {100 * selection.share:.2g} % of the model's rows: noise may have made "
        "most of what they show."
    ]
