"""What is wanted of linked tables where nobody says: each table by itself, and the two together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

from populace.core.marginals import Clique
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema

Layers = tuple[tuple[frozenset[str], ...], ...]


def linked_weights(schema: Schema, linked: LinkedTables) -> dict[Clique, Fraction]:
    """Return the marginals of wide rows that matter, with their weights.

    They are all pairs inside the table of units and inside one member, all pairs of a unit's column and a member's,
    and of one column of two members: of the first and any other, and of neighbours. These four kinds matter alike, and
    so do the pairs of one kind. A pair of members' columns is read as a sum over places, whose errors add as squares.
    """
    units, places = list_variables(schema, linked)
    kinds = [
        [[pair] for pair in combinations(units, 2)],
        [list(same) for same in zip(*(combinations(place, 2) for place in places), strict=True)],
        [[(unit, name) for name in alike] for unit in units for alike in zip(*places, strict=True)],
        [
            [*pairwise(alike), *((alike[0], name) for name in alike[2:])]
            for alike in zip(*places, strict=True)
        ],
    ]
    return {
        pair: Fraction(1, len(kind)) / Fraction(math.sqrt(len(same))).limit_denominator(1000)
        for kind in kinds
        for same in kind
        for pair in same
    }


def alike_pairs(schema: Schema) -> dict[Clique, Clique]:
    """Return for each pair of columns that recurs in other places of linked tables what it is called there without one.

    The same pair inside a member is alike in all places, so is a unit's column with one of a member, and one column of
    the first member and another, or of neighbours.
    """
    if schema.linked is None:
        return {}
    units, places = list_variables(schema, schema.linked)
    found: dict[Clique, Clique] = {}
    for place in places:
        found |= zip(combinations(place, 2), combinations(places[0], 2), strict=True)
        found |= {
            (unit, name): (unit, first)
            for unit in units
            for name, first in zip(place, places[0], strict=True)
        }
    for alike in zip(*places, strict=True):
        found |= dict.fromkeys(pairwise(alike), (alike[0],))
        found |= dict.fromkeys(((alike[0], name) for name in alike[2:]), (alike[0], alike[0]))
    return found


def column_layers(schema: Schema) -> Layers:
    """Return sets of columns that belong together most, then those that do less; none for a single table.

    A model holds first what is inside the table of units and inside one member, then one column over all members.
    """
    if schema.linked is None:
        return ()
    units, places = list_variables(schema, schema.linked)
    inside = (frozenset(units), *map(frozenset, places))
    return inside, tuple(frozenset(alike) for alike in zip(*places, strict=True))


def list_variables(schema: Schema, linked: LinkedTables) -> tuple[list[str], list[list[str]]]:
    """Return the variables of the units, with the number of members, and those of each place."""

    def behind(names: Sequence[str]) -> list[str]:
        read = [name for name in names if name not in schema.layout.functions]
        return [part.name for name in read for part in schema.columns[name].variables]

    units = behind([*list_unit_columns(linked, schema.columns), linked.count])
    return units, [behind(list(linked.names_at(place).values())) for place in linked.places]
