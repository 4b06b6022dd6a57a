"""Linked tables: units, and members that each belong to one unit, seen as one wide row for each unit.

A household with its persons is one row: the household's columns, the number of persons, and for each place k the
columns of its k-th person, as `AGE.1`, `AGE.2` and so on. Where there is no k-th person, they hold a code of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from populace.core.errors import SchemaError, UsageError
from populace.core.limits import LIMITS
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.conditions import syntax_tree as syntax
from populace.schema.conditions.condition_parser import condition_columns, parse_condition
from populace.schema.conditions.structural_zeros import StructuralZero
from populace.schema.hints import quote_names, suggest
from populace.schema.linked.place_columns import absent_text, rename_columns

# The name is part of the names of files.
_TABLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}")
_PLACE = re.compile(r"(?P<column>.+)\.(?P<place>[1-9][0-9]*)", re.DOTALL)
_DESCENDING = " desc"


@dataclass(frozen=True, kw_only=True)
class LinkedTables:
    """Two tables of one dataset: `units`, which are protected, and `members`, at most `max_rows` of each unit.

    `order` says how the members of a unit are numbered: by columns, those that end in " desc" from the highest value
    down; members that are alike stay as in the file. `householder` is a condition that exactly one member meets, who
    comes first; `partner` one that at most one other meets, who comes second. `size` names the column of the units
    that holds the number of members; without it, none is released. `columns` and `zeros` are as declared.
    """

    units: str
    members: str
    unit_key: str
    member_key: str
    max_rows: int
    order: tuple[str, ...] = ()
    size: str | None = None
    householder: str | None = None
    partner: str | None = None
    columns: Mapping[str, Column] = field(hash=False)
    zeros: tuple[StructuralZero, ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        for name in (self.units, self.members):
            if _TABLE_NAME.fullmatch(name) is None:
                raise SchemaError(
                    f"[tables] names a table {name!r}.",
                    hint="name it by letters, digits and underscores: files of the release are called after it",
                )
        if not 1 <= self.max_rows <= LIMITS.max_linked_rows:
            raise SchemaError(
                f"{self.place}: max_rows is {self.max_rows}.",
                hint=f"give the most rows of one {self.units} that count, 1 to {LIMITS.max_linked_rows}",
            )
        if not self.columns:
            raise SchemaError(
                f"{self.place} has no columns.",
                hint=f"add [tables.{self.members}.columns.NAME] for each column",
            )
        for column in self.columns.values():
            _check_member_column(column, table=self.members)
        object.__setattr__(self, "columns", {name: canonical_column(c) for name, c in self.columns.items()})
        for key in ("householder", "partner"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, str(self._member_condition(key)))
        for name, _ in self.sort_keys:
            if name not in self.columns:
                raise SchemaError(
                    f"{self.place}: order names {name!r}, which is none of its columns.",
                    hint=suggest(name, self.columns, otherwise='write order = ["AGE desc", "SEX"]'),
                )

    @property
    def place(self) -> str:
        """Where the members are declared, for messages."""
        return f"[tables.{self.members}]"

    @property
    def count(self) -> str:
        """The column that counts the members of a unit."""
        return self.size or f"{self.members}s"

    @property
    def count_labels(self) -> dict[str, str]:
        """What the largest number of members means: further ones are left out, and not counted."""
        return {str(self.max_rows): f"{self.max_rows} or more"}

    @property
    def places(self) -> range:
        """The places of members in a unit."""
        return range(1, self.max_rows + 1)

    @property
    def sort_keys(self) -> tuple[tuple[str, bool], ...]:
        """The columns by which members are numbered, and whether from the highest value down."""
        return tuple((each.removesuffix(_DESCENDING), each.endswith(_DESCENDING)) for each in self.order)

    @cached_property
    def role_columns(self) -> tuple[str, ...]:
        """The columns that say what a member is to the first one: those that `householder` and `partner` look at."""
        named = [
            name
            for key in ("householder", "partner")
            if getattr(self, key) is not None
            for name in condition_columns(self._member_condition(key))
        ]
        return tuple(dict.fromkeys(named))

    @cached_property
    def absent(self) -> dict[str, str]:
        """What each column of a member holds in the wide row where there is no such member."""
        found: dict[str, str] = {}
        for name, column in self.columns.items():
            if not column.function_of:
                found[name] = absent_text(column)
        for name, column in self.columns.items():
            if column.function_of:
                known = column.map.get((found.get(column.function_of[0], ""),))
                found[name] = next(iter(column.map.values())) if known is None else known
        return found

    def names_at(self, place: int) -> dict[str, str]:
        """Return the name of each column of a member in the wide row, at one place."""
        return {name: f"{name}.{place}" for name in self.columns}

    def expand_columns(self, unit_columns: Mapping[str, Column]) -> dict[str, Column]:
        """Return the columns of the wide row: of the unit, their number, and of every place."""
        if self.count in unit_columns:
            raise SchemaError(
                f"column {self.count!r} is the number of rows in {self.members!r} of each {self.units}, and is "
                "declared as a column too.",
                hint=f"take it out of the columns, or let size under {self.place} name another one",
            )
        wide: dict[str, Column] = dict(unit_columns)
        wide[self.count] = IntegerColumn(name=self.count, min=0, max=self.max_rows, other="0")
        for place in self.places:
            for name in self.columns:
                column = self._column_at(name, place)
                if column.name in wide:
                    raise SchemaError(
                        f"column {column.name!r} is the name of {name!r} of the {self.members} in place {place}.",
                        hint="rename that column, in the file as well",
                    )
                wide[column.name] = column
        return wide

    def expand_zeros(self) -> tuple[StructuralZero, ...]:
        """Return the structural zeros of the wide row; a rule about a member holds for those of every place."""
        found = [*self._role_zeros()]
        for zero in self.zeros:
            found += self._expand_zero(zero)
        return tuple(found)

    @property
    def rule_texts(self) -> list[str]:
        """The rules as they were declared, in words."""
        texts = [f"every {self.members} belongs to one {self.units}, which has at most {self.max_rows}"]
        if self.householder is not None:
            texts.append(f"in every {self.units} exactly one {self.members}, the first: {self.householder}")
        if self.partner is not None:
            texts.append(f"in every {self.units} at most one {self.members}, the second: {self.partner}")
        for name, column in self.columns.items():
            if column.universe is not None:
                texts.append(f"{name} is '{column.outside}' unless {column.universe}")
        return [*texts, *(f"never {zero.when}" for zero in self.zeros)]

    def _column_at(self, name: str, place: int) -> Column:
        column, names, absent = self.columns[name], self.names_at(place), self.absent[name]
        if column.function_of:
            source = column.function_of[0]
            known: dict[tuple[str, ...], str] = {}
            if source in self.absent:
                known[self.absent[source],] = absent
            sources = tuple(names.get(each, each) for each in column.function_of)
            return replace(column, name=names[name], function_of=sources, map={**known, **column.map})
        universe: syntax.Expression = self._is_counted(place)
        if column.universe is not None:
            own = parse_condition(column.universe)
            universe = syntax.And((self._is_there(place, condition_columns(own)), rename_columns(own, names)))
        labels = {absent: f"no {self.members} {place}", **column.labels}
        return replace(column, name=names[name], universe=str(universe), outside=absent, labels=labels)

    def _role_zeros(self) -> Iterator[StructuralZero]:
        for key, own_place in (("householder", 1), ("partner", 2)):
            if getattr(self, key) is None:
                continue
            role = self._member_condition(key)
            if own_place == 1:
                yield StructuralZero(when=f"{syntax.Name(self.count)} == 0")
                yield StructuralZero(when=str(syntax.Not(rename_columns(role, self.names_at(1)))))
            for place in self.places:
                if place != own_place:
                    there = self._is_there(place, condition_columns(role))
                    yield StructuralZero(
                        when=str(syntax.And((rename_columns(role, self.names_at(place)), there)))
                    )

    def _expand_zero(self, zero: StructuralZero) -> Iterator[StructuralZero]:
        condition = parse_condition(zero.when)
        named = condition_columns(condition)
        free = [name for name in (*named, *zero.replacement) if name in self.columns]
        fixed = dict.fromkeys(place for name in named if (place := self._place_of(name)) is not None)
        for place in [each for each in self.places if each not in fixed] if free else [None]:
            names = {} if place is None else self.names_at(place)
            here = [names.get(name, name) for name in named]
            there = [
                self._is_there(
                    each, [name.rpartition(".")[0] for name in here if self._place_of(name) == each]
                )
                for each in (*fixed, *(() if place is None else (place,)))
            ]
            yield StructuralZero(
                when=str(syntax.And((rename_columns(condition, names), *there)) if there else condition),
                replacement={names.get(name, name): text for name, text in zero.replacement.items()},
            )

    def _place_of(self, name: str) -> int | None:
        """Return the place in a name such as AGE.2, or None where it is no name of a member's column."""
        match = _PLACE.fullmatch(name)
        return int(match["place"]) if match and match["column"] in self.columns else None

    def _is_there(self, place: int, named: Iterable[str]) -> syntax.Expression:
        """Return the condition that there is a member in a place: on one of the columns that a rule looks at anyway."""
        for name in named:
            column = self.columns.get(name)
            if column is not None and column.universe is None and not column.function_of:
                absent = syntax.Literal(self.absent[name])
                return syntax.Comparison(syntax.Name(f"{name}.{place}"), syntax.Operator.UNEQUAL, absent)
        return self._is_counted(place)

    def _is_counted(self, place: int) -> syntax.Expression:
        most = syntax.Literal(str(place), quoted=False)
        return syntax.Comparison(syntax.Name(self.count), syntax.Operator.AT_LEAST, most)

    def _member_condition(self, key: str) -> syntax.Expression:
        condition = parse_condition(getattr(self, key), place=f"{self.place} {key}: ")
        for name in condition_columns(condition):
            if name not in self.columns or self.columns[name].function_of:
                raise SchemaError(
                    f"{self.place}: {key} names {name!r}, which is not read of a {self.members}.",
                    hint=suggest(name, self.columns, otherwise="name columns of its own table"),
                )
        return condition


def refuse_linked(linked: LinkedTables | None, *, what: str, hint: str) -> None:
    """Refuse linked tables for work that knows one table alone."""
    if linked is not None:
        raise UsageError(
            f"the schema links the tables {linked.units!r} and {linked.members!r}, and {what}.", hint=hint
        )


def _check_member_column(column: Column, *, table: str) -> None:
    """Refuse what a column cannot be that stands in the wide row once for every place."""
    if column.needs_learning or column.domain_learnt:
        raise column.error(
            f"of table {table!r} is to be learnt.",
            hint="declare its values or its range: learning is possible for columns of the units",
        )
    if column.parent is not None or len(column.function_of) > 1:
        what = (
            "a parent" if column.parent is not None else f"{quote_names(column.function_of)} to follow from"
        )
        raise column.error(
            f"of table {table!r} has {what}.",
            hint="let the coarser column follow from it: function_of with one column, and a map",
        )


def canonical_column(column: Column) -> Column:
    """Return a column whose universe is written in its canonical form."""
    if column.universe is None:
        return column
    universe = str(parse_condition(column.universe, place=f"the universe of column {column.name!r}: "))
    return column if universe == column.universe else replace(column, universe=universe)
