"""How a hierarchical run shares out its budget: over the levels of the spine, and over the queries of each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain, Grouping
from populace.methods.nist2018.query_rounds import read_coarse_bins
from populace.schema.columns.column import Column
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.hints import quote_names, suggest
from populace.schema.linked.table_cells import MemberCells, require_linked, unit_domain
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable

# Without a budget file: half of a level's share for all columns together, a tenth for totals, the rest for columns.
DETAILED_SHARE, TOTAL_SHARE = Fraction(1, 2), Fraction(1, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitQuery:
    """A table that is counted in every unit of some levels: a clique of columns, coarsened where groupings say so."""

    clique: Clique
    groupings: tuple[Grouping, ...] = ()
    share: Fraction = Fraction(1)
    levels: tuple[str, ...] = ()
    """The levels at which it is asked; all of them where none is named."""

    def __str__(self) -> str:
        return " × ".join(self.clique) or "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelQuery:
    """One query at one level of the spine, with its share of the whole budget."""

    level: int
    query: UnitQuery
    share: Fraction


@dataclass(frozen=True, kw_only=True)
class LevelBudget:
    """Shares of the levels, by name, and of the queries within each level. They need not add up to 1.

    A level that is not named has no share. What has no share is not measured.

    >>> geography = Geography.of_paths([("A", "1"), ("B", "1")], levels=("county", "tract"))
    >>> budget = LevelBudget.default(Domain({"race": 8, "age": 2}), geography)
    >>> asked = budget.allocate(geography)
    >>> len(asked), sum(each.share for each in asked), asked[-1].share
    (12, Fraction(1, 1), Fraction(1, 6))
    """

    levels: Mapping[str, Fraction] = field(hash=False)
    queries: tuple[UnitQuery, ...]
    member_queries: tuple[UnitQuery, ...] = ()
    """Of the members of linked tables; `queries` are those of the units. None are the default ones."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", MappingProxyType(dict(self.levels)))

    @classmethod
    def default(cls, domain: Domain, geography: Geography) -> LevelBudget:
        """Return equal shares of all levels; in each, the total, every column alone, and all columns together."""
        columns = tuple(name for name in domain if name != GEOCODE)
        queries = [UnitQuery(clique=(), share=TOTAL_SHARE), UnitQuery(clique=columns, share=DETAILED_SHARE)]
        if len(columns) > 1:
            each = (1 - TOTAL_SHARE - DETAILED_SHARE) / len(columns)
            queries[1:1] = [UnitQuery(clique=(name,), share=each) for name in columns]
        return cls(levels=dict.fromkeys(geography.spine.levels, Fraction(1)), queries=tuple(queries))

    def allocate(
        self,
        geography: Geography,
        *,
        exact: Sequence[int] = (),
        known: Sequence[tuple[int, Clique]] = (),
    ) -> tuple[LevelQuery, ...]:
        """Return every query of every level with its share of the whole budget; the shares add up to 1.

        `exact` are levels whose totals are known, `known` levels with columns by which they are. What is known of a
        level, and of those above it, is not measured again.
        """
        certain = [*((level, ()) for level in exact), *known]
        asked: list[tuple[int, Fraction, list[UnitQuery]]] = []
        for number, name in enumerate(geography.spine.levels):
            queries = [
                query
                for query in self.queries
                if query.share > 0
                and (not query.levels or name in query.levels)
                and not any(number <= level and set(query.clique) <= set(clique) for level, clique in certain)
            ]
            if self.levels.get(name) and queries:
                asked.append((number, self.levels[name], queries))
        whole = sum((share for _, share, _ in asked), Fraction(0))
        return tuple(
            LevelQuery(
                level=number,
                query=query,
                share=share / whole * query.share / sum((each.share for each in queries), Fraction(0)),
            )
            for number, share, queries in asked
            for query in queries
        )

    def check(self, domain: Domain, geography: Geography) -> None:
        """Refuse levels and columns that the schema does not have, and shares from which cells cannot be estimated."""
        known = geography.spine.levels
        for name in (*self.levels, *(name for query in self.queries for name in query.levels)):
            if name not in known:
                raise UsageError(
                    f"the budget names the level {name!r}, which the geography does not have.",
                    hint=suggest(name, known, otherwise=f"one of {quote_names(known)}"),
                )
        columns = [name for name in domain if name != GEOCODE]
        for query in self.queries:
            if strange := [name for name in query.clique if name not in columns]:
                raise UsageError(
                    f"the budget has a query by {quote_names(strange)}, which is no column.",
                    hint=suggest(strange[0], columns, otherwise=f"one of {quote_names(columns)}"),
                )
        smallest = known[-1]
        detailed = any(
            set(query.clique) == set(columns)
            and query.share > 0
            and not query.groupings
            and (not query.levels or smallest in query.levels)
            for query in self.queries
        )
        if not detailed or not self.levels.get(smallest):
            raise UsageError(
                f"the budget does not measure all columns together at the level {smallest!r}.",
                hint=f"give {smallest!r} a share, and a query by {quote_names(columns)}: without it no cell of a "
                "smallest unit can be estimated",
            )

    def form(self) -> list[object]:
        """Return everything in it as plain JSON, in order, for a digest."""
        return [
            [[name, str(share)] for name, share in sorted(self.levels.items())],
            [
                [
                    list(query.clique),
                    [[g.column, list(g.groups)] for g in query.groupings],
                    str(query.share),
                    list(query.levels),
                ]
                for query in self.queries
            ],
            *(
                []
                if not self.member_queries
                else [LevelBudget(levels={}, queries=self.member_queries).form()]
            ),
        ]


BUDGET_TABLES = ("levels", "queries")


def read_level_budget(document: TomlTable, *, schema: Schema) -> LevelBudget:
    """Return what `[levels]` and `[[queries]]` of a budget file say.

    Without `[levels]` all have equal shares; without `[[queries]]`, queries and their shares are the default ones.
    """
    geography = schema.geography
    if geography is None:
        raise UsageError(
            "the budget names levels or queries of units, but the schema has no [geography].",
            hint="declare the geography in the schema, or write [[marginals]]",
        )
    usual = LevelBudget.default(schema.domain, geography)
    levels = document.table("levels", place="[levels]")
    shares = {name: _read_share(levels, name) for name in levels.items} or dict(usual.levels)
    if schema.linked is not None:
        return _read_linked_budget(document, shares, schema=schema, geography=geography)
    variables = schema.variables
    queries = tuple(_read_query(each, variables=variables) for each in document.tables("queries"))
    budget = LevelBudget(levels=shares, queries=queries or usual.queries)
    check_level_budget(budget, schema=schema, geography=geography)
    return budget


def _read_linked_budget(
    document: TomlTable, shares: Mapping[str, Fraction], *, schema: Schema, geography: Geography
) -> LevelBudget:
    """Return shares and the queries of both tables; the tables of one that has none are the default ones."""
    linked, cells, units = require_linked(schema), MemberCells.of(schema), unit_domain(schema)
    found: dict[str, list[UnitQuery]] = {linked.units: [], linked.members: []}
    for each in document.tables("queries"):
        named = set(each.texts("columns"))
        inferred = linked.members if named and named <= set(cells.domain) else linked.units
        table = each.text("table") or inferred
        if table not in found:
            raise UsageError(
                f"{each.place}: table is {table!r}, which is none of the schema's.",
                hint=suggest(table, list(found), otherwise=f"one of {quote_names(found)}"),
            )
        if table == linked.members and "coarse" in each:
            raise UsageError(
                f"{each.place} coarsens columns of {table!r}.",
                hint=f"coarse bins are for columns of {linked.units!r}; declare wider bins in the schema",
            )
        domain = cells.domain if table == linked.members else units
        own = {part.name: part for column in linked.columns.values() for part in column.variables}
        columns = own if table == linked.members else schema.variables
        found[table].append(
            _read_query(each, variables={name: columns[name] for name in domain}, more=("table",))
        )
    budget = LevelBudget(
        levels=shares, queries=tuple(found[linked.units]), member_queries=tuple(found[linked.members])
    )
    check_level_budget(budget, schema=schema, geography=geography)
    return budget


def check_level_budget(budget: LevelBudget, *, schema: Schema, geography: Geography) -> None:
    """Refuse levels and columns that the schema does not have, and shares from which cells cannot be estimated."""
    if schema.linked is None:
        budget.check(schema.domain, geography)
        return
    tables = ((unit_domain(schema), budget.queries), (MemberCells.of(schema).domain, budget.member_queries))
    for domain, queries in tables:
        own = queries or LevelBudget.default(domain, geography).queries
        LevelBudget(levels=budget.levels, queries=own).check(domain, geography)


def _read_query(
    table: TomlTable, *, variables: Mapping[str, Column], more: tuple[str, ...] = ()
) -> UnitQuery:
    table.allow(("columns", "share", "levels", "coarse", *more))
    names = set(table.texts("columns"))
    if strange := sorted(names - set(variables)):
        raise UsageError(
            f"{table.place} names {quote_names(strange)}, which is no column.",
            hint=suggest(strange[0], [*variables], otherwise="name columns of the schema"),
        )
    coarse = table.table("coarse", place='coarse = { age = ["0..17", "18.."] }').items
    if strange := sorted(set(coarse) - names):
        raise UsageError(
            f"{table.place} coarsens {quote_names(strange)}, which is none of its columns.",
            hint="add it to columns",
        )
    return UnitQuery(
        clique=tuple(name for name in variables if name in names),
        groupings=tuple(
            read_coarse_bins(bins, variables[name], place=table.place) for name, bins in coarse.items()
        ),
        share=_read_share(table, "share") if "share" in table else Fraction(1),
        levels=table.texts("levels"),
    )


def _read_share(table: TomlTable, key: str) -> Fraction:
    share = table.number(key)
    if share is None or share < 0:
        raise UsageError(
            f"{table.place}: the share of {key!r} is no number of 0 or more.", hint="give a number"
        )
    return share
