"""The cells of two linked tables, counted in wide rows: those of units, and those of members, place by place.

A member's cell is counted by one marginal of wide rows for each place; the cells of the table of members are their sum.
Where there is no k-th member, the wide row has a code of its own there, which counts nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Ints
from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain, Grouping, Marginal
from populace.schema.geocodes import GEOCODE
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema

# The groups of a column that tells whether there is a member.
_PRESENT, _ABSENT = 0, 1


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberCells:
    """The variables of members as their own table has them, and where they stand in wide rows.

    `places` name, for each place, the variable of wide rows behind each of theirs. `absent` has the code of nobody for
    those that have one more code in wide rows. `telling` is one of these: it says whether there is a member.
    """

    table: str
    domain: Domain
    wide: Domain
    places: tuple[Mapping[str, str], ...]
    absent: Mapping[str, int]
    telling: str

    @classmethod
    def of(cls, schema: Schema) -> MemberCells:
        """Return the cells of the members of a schema that links two tables."""
        linked = require_linked(schema)
        read = [name for name, column in linked.columns.items() if not column.function_of]
        own = [part for name in read for part in linked.columns[name].variables]
        wide = [
            [part for name in read for part in schema.columns[linked.names_at(place)[name]].variables]
            for place in linked.places
        ]
        absent = {
            part.name: there.outside_code
            for part, there in zip(own, wide[0], strict=True)
            if there.size > part.size and there.outside_code is not None
        }
        if not absent:
            raise UsageError(
                f"no column of {linked.members!r} says whether there is one: all have a universe.",
                hint=f"declare a column that every {linked.members} has",
            )
        return cls(
            table=linked.members,
            domain=Domain({part.name: part.size for part in own}),
            wide=schema.domain,
            places=tuple({part.name: there.name for part, there in zip(own, at, strict=True)} for at in wide),
            absent=absent,
            telling=next(iter(absent)),
        )

    def ask(self, clique: Clique, *, place: int) -> Marginal:
        """Return the marginal of wide rows that counts a clique of the members in one place.

        >>> from populace.simulation.linked_population import simulate_households
        >>> cells = MemberCells.of(simulate_households(households=1)[1])
        >>> str(cells.ask(("age", "work"), place=2)), str(cells.ask((), place=2))
        ('relationship.2 × age.2 × work.2', 'relationship.2')
        """
        names = self.places[place - 1]
        wide = tuple(names[name] for name in self.domain if name in clique or name == self.telling)
        groupings: tuple[Grouping, ...] = ()
        if self.telling not in clique:
            groups = [_PRESENT] * self.wide[names[self.telling]]
            groups[self.absent[self.telling]] = _ABSENT
            groupings = (Grouping(names[self.telling], tuple(groups)),)
        return Marginal(wide, groupings)

    def find(self, marginal: Marginal) -> tuple[int, Marginal] | None:
        """Return the place and the marginal of members that a marginal of wide rows counts; None if it is of others."""
        for place, names in enumerate(self.places, start=1):
            own = {there: name for name, there in names.items()}
            if names[self.telling] not in marginal.clique or not set(marginal.clique) <= set(own):
                continue
            clique = tuple(own[name] for name in marginal.clique)
            tells = marginal.grouping(names[self.telling])
            if tells is not None:
                clique = tuple(name for name in clique if name != self.telling)
            return place, Marginal(clique)
        return None

    def select(self, counts: npt.NDArray[Any], marginal: Marginal, *, place: int) -> npt.NDArray[Any]:
        """Return the counts of members from those of a marginal of wide rows: (units, *its shape)."""
        names = {there: name for name, there in self.places[place - 1].items()}
        for axis in reversed(range(len(marginal.clique))):
            name = names[marginal.clique[axis]]
            if marginal.grouping(marginal.clique[axis]) is not None:
                counts = counts.take(_PRESENT, axis=axis + 1)
            elif name in self.absent:
                counts = np.delete(counts, self.absent[name], axis=axis + 1)
        return counts

    def locate(self, codes: Mapping[str, npt.NDArray[Any]], clique: Clique) -> Ints:
        """Return the number of the cell of every row's member in each place: (rows, places); −1 where there is none."""
        found = []
        for names in self.places:
            cells = np.zeros(len(codes[names[self.telling]]), dtype=np.int64)
            for name in clique:
                own = codes[names[name]].astype(np.int64)
                if name in self.absent:
                    own -= own > self.absent[name]
                cells = cells * self.domain[name] + own
            there = codes[names[self.telling]] != self.absent[self.telling]
            found.append(np.where(there, cells, -1))
        return np.stack(found, axis=1)

    def tabulate(self, codes: Mapping[str, npt.NDArray[Any]], *, units: npt.NDArray[Any], count: int) -> Ints:
        """Return how many members of wide rows are in each cell of each of so many units: (units, *cells)."""
        shape = self.domain.shape(self.domain)
        cells = self.locate(codes, tuple(self.domain))
        row, place = np.nonzero(cells >= 0)
        size = self.domain.cells(self.domain)
        flat = units[row].astype(np.int64) * size + cells[row, place]
        return np.bincount(flat, minlength=count * size).reshape(count, *shape)


def require_linked(schema: Schema) -> LinkedTables:
    """Return the linked tables of a schema that must have them."""
    if schema.linked is None:
        raise TypeError("the schema links no tables")
    return schema.linked


def unit_domain(schema: Schema) -> Domain:
    """Return the sizes of the variables of the units of linked tables, with the number of members.

    >>> from populace.simulation.linked_population import simulate_households
    >>> list(unit_domain(simulate_households(households=1)[1]))
    ['region', 'tenure', 'moved_in', 'children', 'household_size']
    """
    linked = require_linked(schema)
    members = {
        part.name
        for place in linked.places
        for name in linked.names_at(place).values()
        for part in schema.columns[name].variables
    }
    return Domain(
        {name: size for name, size in schema.domain.items() if name not in members and name != GEOCODE}
    )


def without_geography(schema: Schema) -> Schema:
    """Return the schema of the same rows without the columns of its geography."""
    return replace(
        schema, columns=schema.declared_columns, geography=None, invariants=(), facts=(), level_totals=()
    )
