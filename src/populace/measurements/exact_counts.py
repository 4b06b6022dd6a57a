"""Exact counts among measurements: the totals of a level that the schema declares invariant."""

from __future__ import annotations

from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.core.spine import ROOT
from populace.schema.schema import Schema


def level_marginal(schema: Schema, level: str) -> Marginal:
    """Return the marginal that counts the units of a level of the geography; "all" is the whole table.

    >>> level_marginal(Schema.from_sizes({"age": 85}), "all")
    Marginal(clique=(), groupings=())
    """
    if level == ROOT:
        return Marginal(())
    if schema.geography is None:
        raise UsageError(
            f"the schema has no level {level!r}.", hint="declare levels with [geography]; the root is 'all'"
        )
    return schema.geography.marginal(schema.geography.find_level(level, place="[[invariants]]"))


def describe_totals(level: str) -> str:
    """Return the totals of a level in words.

    >>> describe_totals("county"), describe_totals("all")
    ('total of every county', 'total of the whole table')
    """
    return "total of the whole table" if level == ROOT else f"total of every {level}"


def is_same_question(one: Marginal, other: Marginal) -> bool:
    """Say whether two marginals count the same cells, whatever their groups are called."""
    return one.clique == other.clique and [(g.column, g.groups) for g in one.groupings] == [
        (g.column, g.groups) for g in other.groupings
    ]
