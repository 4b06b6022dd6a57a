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
    and pairs of two members: one column of the first and any other, and of neighbours; and what the others are to the
    first with the columns of the first. These four kinds matter alike, and so do the pairs of one kind. A pair of
    members' columns is read as a sum over places, whose errors add as squares.
    """
    units, places = list_variables(schema, linked)
    kinds: list[list[list[Clique]]] = [
        [[pair] for pair in combinations(units, 2)],
        [list[Clique](same) for same in zip(*(combinations(place, 2) for place in places), strict=True)],
        [[(unit, name) for name in alike] for unit in units for alike in zip(*places, strict=True)],
        [
            [*pairwise(alike), *((alike[0], name) for name in alike[2:])]
            for alike in zip(*places, strict=True)
        ],
    ]
    kinds[-1] += list_role_pairs(schema, linked)
    return {
        pair: Fraction(1, len(kind)) / Fraction(math.sqrt(len(same))).limit_denominator(1000)
        for kind in kinds
        for same in kind
        for pair in same
    }


def list_role_pairs(schema: Schema, linked: LinkedTables) -> list[list[Clique]]:
    """Return each variable of the first member with what the others are to it: one list for each pair, by place."""
    columns = [list(linked.names_at(place).values()) for place in linked.places]
    roles = [
        _list_parts(
            schema, [own for name, own in linked.names_at(place).items() if name in linked.role_columns]
        )
        for place in linked.places
    ]
    firsts = [name for name in _list_parts(schema, columns[0]) if name not in roles[0]]
    return [
        [(first, role) for role in others]
        for first in firsts
        for others in zip(*roles[1:], strict=True)
        if linked.max_rows > 1
    ]


def alike_pairs(schema: Schema) -> dict[Clique, Clique]:
    """Return for each pair of columns that recurs in other places of linked tables what it is called there without one.

    The same pair inside a member is alike in all places, so is a unit's column with one of a member. The first two
    members are the householder and mostly a partner, and those behind them are exchangeable: a column of the first and
    of any of these is alike, and of two neighbours among these.
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
        found |= {pair: pair for pair in pairwise(alike[:3])}
        found |= dict.fromkeys(((alike[0], name) for name in alike[2:]), (alike[0], alike[-1]))
        found |= dict.fromkeys(pairwise(alike[2:]), alike[-2:])
    for second, *later in list_role_pairs(schema, schema.linked):
        found[second] = second
        found |= dict.fromkeys(later, later[-1] if later else second)
    return found


def exchangeable_pairs(schema: Schema) -> dict[Clique, Clique]:
    """Return the pairs of two members that are alike, place after place, each with the name of its kind."""
    units = frozenset() if schema.linked is None else column_layers(schema)[0][0]
    inside = () if schema.linked is None else column_layers(schema)[0]
    return {
        pair: kind
        for pair, kind in alike_pairs(schema).items()
        if not units.intersection(pair) and not any(each.issuperset(pair) for each in inside)
    }


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

    units = _list_parts(schema, [*list_unit_columns(linked, schema.columns), linked.count])
    return units, [_list_parts(schema, list(linked.names_at(place).values())) for place in linked.places]


def _list_parts(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the variables behind columns that are read."""
    read = [name for name in names if name not in schema.layout.functions]
    return [part.name for name in read for part in schema.columns[name].variables]
