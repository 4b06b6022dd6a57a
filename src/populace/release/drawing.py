"""How rows were drawn from a fitted model, in words: which of them, and how often. None of it costs budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

# Rows that are a smaller share of the model's are flagged.
RARE = 0.001
MOST_IMPLICATES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows of the model are released: those that meet a condition, and the share of all rows that they are."""

    where: str
    share: float


class Kept(TypedDict):
    """The condition that all released rows meet, and the share of the model's rows that meet it."""

    condition: str
    share: float
    text: str


class Implicates(TypedDict):
    """How many tables were drawn from the one model, and what their differences show."""

    tables: int
    text: str


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
