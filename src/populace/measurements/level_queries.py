"""The measurements of a geography by level and query: which units a marginal counts, and what it counts in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from populace.core.errors import ReleaseError
from populace.core.marginals import Grouping, LevelGrouping, Marginal
from populace.core.untrusted_files import require_int, require_text
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.linked.table_cells import MemberCells
from populace.schema.schema import Schema


def place_marginal(marginal: Marginal, geography: Geography) -> tuple[int, Marginal]:
    """Return the level at which a marginal counts units, and what it counts in each of them."""
    clique = tuple(name for name in marginal.clique if name != GEOCODE)
    groupings = tuple(grouping for grouping in marginal.groupings if grouping.column != GEOCODE)
    if len(clique) == len(marginal.clique):
        return 0, Marginal(clique, groupings)
    own = marginal.grouping(GEOCODE)
    if own is None:
        return geography.spine.depth - 1, Marginal(clique, groupings)
    levels = [
        level
        for level in range(1, geography.spine.depth)
        if np.array_equal(geography.spine.ancestors(level), own.lookup)
    ]
    if not levels:
        raise ReleaseError(
            f"the measurement of {marginal} is of no level of the geography.",
            hint="use measurements together with the schema they were made under",
        )
    # Where every unit has one child, two levels have the same groups.
    name = own.level if isinstance(own, LevelGrouping) else ""
    named = [level for level in levels if geography.spine.levels[level] == name]
    return (named or levels)[0], Marginal(clique, groupings)


def describe_query(marginal: Marginal) -> str:
    """Return what is counted in every unit: the names of columns, or the total.

    >>> describe_query(Marginal(("race", "age"))), describe_query(Marginal(()))
    ('race × age', 'total')
    """
    return " × ".join(marginal.clique) or "total"


def describe_linked_query(marginal: Marginal, cells: MemberCells, *, units: str) -> str:
    """Return what a marginal of the wide rows of linked tables counts: one text for all that are asked together.

    >>> from populace.simulation.linked_population import simulate_households
    >>> cells = MemberCells.of(simulate_households(households=1)[1])
    >>> asked = [cells.ask(("sex",), place=3), Marginal(("tenure",)), Marginal(("tenure", "sex.2"))]
    >>> [describe_linked_query(each, cells, units="household") for each in asked]
    ['sex (person, 6 places)', 'tenure', 'pairs (household × person)']
    """
    if (found := cells.find(marginal)) is not None:
        return f"{describe_query(found[1])} ({cells.table}, {len(cells.places)} places)"
    members = {name for names in cells.places for name in names.values()}
    if not members.intersection(marginal.clique):
        return describe_query(marginal)
    return f"pairs ({cells.table if members.issuperset(marginal.clique) else units} × {cells.table})"


def describe_levels(marginals: Iterable[Marginal], geography: Geography) -> str:
    """Return what was measured in a geography: how many tables, of which levels.

    >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
    >>> describe_levels([Marginal(("race",)), Marginal((GEOCODE,)), Marginal((GEOCODE, "race"))], geography)
    '3 queries of 2 levels (all, tract)'
    """
    asked = [place_marginal(marginal, geography)[0] for marginal in marginals]
    levels = [geography.spine.levels[level] for level in sorted(set(asked))]
    queries = f"{len(asked)} {'query' if len(asked) == 1 else 'queries'}"
    return f"{queries} of {len(levels)} {'level' if len(levels) == 1 else 'levels'} ({', '.join(levels)})"


def grouping_to_json(grouping: Grouping) -> dict[str, Any]:
    """Return a grouping as plain JSON; that of units by the name of their level, for the schema has the rest."""
    if isinstance(grouping, LevelGrouping):
        return {"column": GEOCODE, "level": grouping.level}
    return {"column": grouping.column, "groups": list(grouping.groups)}


def grouping_from_json(document: Mapping[str, Any], *, schema: Schema) -> Grouping:
    """Return the grouping that `grouping_to_json` wrote."""
    if "level" not in document:
        return Grouping(require_text(document["column"]), tuple(map(require_int, document["groups"])))
    if schema.geography is None:
        raise ValueError("a level without a geography")
    found = schema.geography.grouping(schema.geography.spine.levels.index(document["level"]))
    if found is None:
        raise ValueError("the smallest units are not grouped")
    return found
