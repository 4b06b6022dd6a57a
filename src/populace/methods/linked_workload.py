"""What is wanted of linked tables where nobody says: each table by itself, and the two together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise

from populace.core.marginals import Clique
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema

Layers = tuple[tuple[frozenset[str], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedWorkloadConfig:
    """How much an error of a pair matters, beside one inside the table of members at one place.

    docs/decisions/linked-tables.md says what they were compared with.
    """

    units: Fraction = Fraction(2)
    """A pair of columns of the units: there are few of them, and each is a table that everybody reads."""
    members: Fraction = Fraction(1)
    """A pair of columns of one member; what is read is the sum over all places."""
    between: Fraction = Fraction(1)
    """One column of two members, such as the ages of a couple."""
    across: Fraction = Fraction(1, 6)
    """A column of the unit and one of a member: there are very many of them."""


CONFIG = LinkedWorkloadConfig()


def linked_weights(schema: Schema, linked: LinkedTables) -> dict[Clique, Fraction]:
    """Return the marginals of wide rows that matter, with their weights.

    They are all pairs inside the table of units and inside one member, all pairs of a unit's column and a member's,
    and of one column of two members: of the first and any other, and of neighbours.
    """
    units, places = list_variables(schema, linked)
    weights: dict[Clique, Fraction] = dict.fromkeys(combinations(units, 2), CONFIG.units)
    for place in places:
        weights |= dict.fromkeys(combinations(place, 2), CONFIG.members)
        weights |= {(unit, name): CONFIG.across for unit in units for name in place}
    beside = [*pairwise(places), *((places[0], place) for place in places[2:])]
    for one, other in beside:
        weights |= dict.fromkeys(zip(one, other, strict=True), CONFIG.between)
    return weights


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
