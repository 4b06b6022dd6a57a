"""The measurements of a hierarchical run, sorted by level and query, and the estimates and tables made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from populace.core.array_types import Ints, Truth
from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Clique, Counts, Domain, Marginal
from populace.inference.constraints.known_marginals import KnownMarginal, KnownTables
from populace.inference.constraints.support import Support
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates, estimate_hierarchy
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from populace.inference.hierarchy.integer_tables import chain_order, integer_tables
from populace.inference.hierarchy.table_constraints import ForbiddenCells, LowerBound, TableConstraints
from populace.measurements.level_queries import place_marginal
from populace.measurements.measurements import Measurement
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.linked.table_cells import MemberCells, unit_domain
from populace.schema.schema import Schema
from populace.schema.unit_facts import fact_cells


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredHierarchy:
    """Noisy counts of every level and query of a spine, exact totals, and public marginals of levels.

    `known` are the marginals over columns that the schema declares public, by level and in the plan's order.
    """

    geography: Geography
    plan: HierarchyPlan
    constraints: TableConstraints
    noisy: tuple[tuple[Counts, ...], ...]
    totals: Mapping[int, Ints]
    known: Mapping[int, tuple[Ints, ...]]

    @classmethod
    def of(cls, schema: Schema, items: Sequence[Measurement]) -> MeasuredHierarchy:
        """Return the measurements of a schema with a geography, whose variance is 0 where they are exact totals.

        Of linked tables they are those of the units; `of_members` has the others.
        """
        geography, domain = require_geography(schema), cell_domain(schema)
        own = [
            item
            for item in items
            if schema.linked is None or set(place_marginal(item.marginal, geography)[1].clique) <= set(domain)
        ]
        plan = build_hierarchy_plan(schema, [(item.marginal, item.variance) for item in own])
        noisy: list[list[Counts]] = [[] for _ in geography.spine.levels]
        totals: dict[int, Ints] = {
            each.level: each.sum_to(geography, level=each.level, clique=()) for each in schema.level_totals
        }
        for item in own:
            level, _ = place_marginal(item.marginal, geography)
            counts = item.counts if GEOCODE in item.marginal.clique else item.counts[np.newaxis]
            if item.variance == 0:
                totals[level] = counts
            else:
                noisy[level].append(counts)
        return cls(
            geography=geography,
            plan=plan,
            constraints=table_constraints(schema, plan),
            noisy=tuple(map(tuple, noisy)),
            totals=totals,
            known=known_counts(schema),
        )

    @classmethod
    def of_members(cls, schema: Schema, items: Sequence[Measurement]) -> MeasuredHierarchy:
        """Return what was measured of the members of linked tables: the sum over all places, with their noise."""
        geography, cells = require_geography(schema), MemberCells.of(schema)
        sums: dict[tuple[int, Marginal], tuple[Counts, Fraction]] = {}
        for item in items:
            level, wide = place_marginal(item.marginal, geography)
            if (found := cells.find(wide)) is None:
                continue
            counts = item.counts if GEOCODE in item.marginal.clique else item.counts[np.newaxis]
            place, marginal = found
            here = cells.select(counts, wide, place=place)
            before, variance = sums.get((level, marginal), (0, Fraction(0)))
            sums[level, marginal] = before + here, variance + item.variance
        noisy: list[list[Counts]] = [[] for _ in geography.spine.levels]
        for (level, _), (counts, _) in sums.items():
            noisy[level].append(counts)
        plan = plan_members(
            schema, [(level, each, variance) for (level, each), (_, variance) in sums.items()]
        )
        return cls(
            geography=geography,
            plan=plan,
            constraints=TableConstraints(
                spine=plan.spine,
                shape=plan.shape,
                zeros=None if plan.possible is None else ~plan.possible,
            ),
            noisy=tuple(map(tuple, noisy)),
            totals={},
            known={},
        )

    @cached_property
    def estimates(self) -> HierarchyEstimates:
        """The best linear unbiased estimates of every unit, with exact variances."""
        return estimate_hierarchy(self.plan, self.noisy, totals=self.totals, known=self.known)

    @cached_property
    def tables(self) -> tuple[Ints, ...]:
        """The integer tables of every level: non-negative, children add up to parents, exact totals and zeros hold."""
        plan, estimates = self.plan, self.estimates
        smallest = plan.spine.depth - 1
        variances = [
            estimates.form.variance((), level=level, units=slice(0, plan.spine.units(level)))
            for level in range(plan.spine.depth)
        ]

        def variance(clique: tuple[int, ...]) -> float:
            names = tuple(plan.columns[place] for place in clique)
            return float(np.mean(estimates.form.variance(names, level=smallest, units=slice(0, 1))))

        return integer_tables(
            estimates.cells,
            constraints=self.constraints,
            totals=self.totals,
            order=chain_order(plan.shape, variance=variance),
            variances=[np.clip(each, 1e-6, 1e6) for each in variances],
            known=known_tables(plan, self.known),
        )


def build_hierarchy_plan(schema: Schema, asked: Sequence[tuple[Marginal, Fraction]]) -> HierarchyPlan:
    """Return what is measured of a geography: marginals with the variance of their noise, 0 for exact totals."""
    geography = require_geography(schema)
    queries: list[list[MeasuredQuery]] = [[] for _ in geography.spine.levels]
    exact = {each.level for each in schema.level_totals}
    for marginal, variance in asked:
        level, query = place_marginal(marginal, geography)
        if variance == 0:
            exact.add(level)
        else:
            queries[level].append(MeasuredQuery(marginal=query, variance=variance))
    return HierarchyPlan(
        spine=geography.spine,
        domain=cell_domain(schema),
        levels=tuple(
            LevelQueries(
                queries=tuple(own), has_exact_total=level in exact, known=known_cliques(schema, level=level)
            )
            for level, own in enumerate(queries)
        ),
        possible=possible_cells(schema),
    )


def known_cliques(schema: Schema, *, level: int) -> tuple[Clique, ...]:
    """Return the columns by which the units of a level are counted in public; the total is not among them."""
    return tuple(each.clique for each in schema.level_totals if each.level == level and each.clique)


def known_counts(schema: Schema) -> dict[int, tuple[Ints, ...]]:
    """Return the public marginals of every level that has some."""
    found: dict[int, tuple[Ints, ...]] = {}
    for each in schema.level_totals:
        if each.clique:
            found[each.level] = (*found.get(each.level, ()), each.counts)
    return found


def known_tables(plan: HierarchyPlan, counts: Mapping[int, Sequence[Ints]]) -> KnownTables:
    """Return public marginals as constraints on the integer tables of a plan."""
    return KnownTables(
        spine=plan.spine,
        shape=plan.shape,
        items=tuple(
            KnownMarginal(level=level, columns=tuple(map(plan.columns.index, clique)), counts=own)
            for level, measured in enumerate(plan.levels)
            for clique, own in zip(measured.known, counts.get(level, ()), strict=True)
        ),
    )


def build_member_plan(schema: Schema, asked: Sequence[tuple[Marginal, Fraction]]) -> HierarchyPlan:
    """Return what is measured of the members of linked tables: each table as the sum over places, with their noise."""
    geography, cells = require_geography(schema), MemberCells.of(schema)
    sums: dict[tuple[int, Marginal], Fraction] = {}
    for marginal, variance in asked:
        level, wide = place_marginal(marginal, geography)
        if (found := cells.find(wide)) is not None:
            sums[level, found[1]] = sums.get((level, found[1]), Fraction(0)) + variance
    return plan_members(schema, [(level, each, variance) for (level, each), variance in sums.items()])


def plan_members(schema: Schema, asked: Sequence[tuple[int, Marginal, Fraction]]) -> HierarchyPlan:
    """Return the plan of tables of members at some levels, with the variance of their noise."""
    geography = require_geography(schema)
    queries: list[list[MeasuredQuery]] = [[] for _ in geography.spine.levels]
    for level, marginal, variance in asked:
        queries[level].append(MeasuredQuery(marginal=marginal, variance=variance))
    return HierarchyPlan(
        spine=geography.spine,
        domain=MemberCells.of(schema).domain,
        levels=tuple(LevelQueries(queries=tuple(own)) for own in queries),
        possible=possible_member_cells(schema),
    )


def require_geography(schema: Schema) -> Geography:
    """Return the geography of a schema that must have one."""
    if schema.geography is None:
        raise ReleaseError("the schema has no geography.", hint="declare levels and units under [geography]")
    return schema.geography


def cell_domain(schema: Schema) -> Domain:
    """Return the sizes of the columns that make up a unit's cells; of linked tables, those of the units' own table."""
    if schema.linked is not None:
        return unit_domain(schema)
    return Domain({name: size for name, size in schema.domain.items() if name != GEOCODE})


def possible_cells(schema: Schema) -> Truth | None:
    """Return which cells of a unit the rules of a schema allow; None where there are no rules.

    A unit of linked tables can be in a cell if members can be found for it with whom all rules hold.
    """
    rules = schema.rules
    if not rules.rules:
        return None
    for rule in rules.rules:
        if GEOCODE in rule.clique:
            raise UsageError(
                f"a rule names a level of the geography: {rule.text}.",
                hint='rules hold in every unit alike; write what holds in one as a fact: facts = "facts.csv" under '
                "[geography]",
            )
    domain = cell_domain(schema)
    if schema.linked is not None:
        return _supported_cells(schema, tuple(domain))
    codes = dict(zip(domain, np.indices(domain.shape(domain), sparse=True), strict=True))
    found: Truth = np.ones(domain.shape(domain), dtype=np.bool_)
    for rule in rules.rules:
        found &= rule.allowed[tuple(rules.classes[name].lookup[codes[name]] for name in rule.clique)]
    return found


def possible_member_cells(schema: Schema) -> Truth | None:
    """Return which cells a member of linked tables can be in, in some place of some unit; None if in all of them."""
    cells = MemberCells.of(schema)
    found = np.zeros(cells.domain.shape(cells.domain), dtype=np.bool_)
    for place in range(1, len(cells.places) + 1):
        wide = cells.ask(tuple(cells.domain), place=place)
        here = _supported_cells(schema, wide.clique)[np.newaxis]
        found |= cells.select(here, wide, place=place)[0]
    return None if found.all() else found


def _supported_cells(schema: Schema, clique: Clique) -> Truth:
    """Return the cells over some columns of wide rows that a row can be in which keeps all rules."""
    classes = {name: grouping.lookup for name, grouping in schema.rules.classes.items()}
    found = Support(schema.rules).cells(clique, classes=classes, domain=schema.domain)
    return np.array(found, dtype=np.bool_)


def table_constraints(schema: Schema, plan: HierarchyPlan) -> TableConstraints:
    """Return what the integer tables of a plan must satisfy."""
    facts = [(fact, fact_cells(fact, layout=schema.layout, domain=plan.domain)) for fact in schema.facts]
    return TableConstraints(
        spine=plan.spine,
        shape=plan.shape,
        zeros=None if plan.possible is None else ~plan.possible,
        exact_levels=plan.exact_levels,
        forbidden=tuple(
            ForbiddenCells(level=fact.level, unit=fact.unit, cells=cells)
            for fact, cells in facts
            if fact.least is None
        ),
        bounds=tuple(
            LowerBound(level=fact.level, unit=fact.unit, cells=cells, count=fact.least)
            for fact, cells in facts
            if fact.least
        ),
    )
