"""The measurements of a hierarchical run, sorted by level and query, and the estimates and tables made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from populace.core.array_types import Ints, Truth
from populace.core.errors import ReleaseError
from populace.core.marginals import Clique, Counts, Domain, Marginal
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates, estimate_hierarchy
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from populace.inference.hierarchy.integer_tables import chain_order, integer_tables
from populace.inference.hierarchy.table_constraints import ForbiddenCells, LowerBound, TableConstraints
from populace.measurements.measurements import Measurement
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.schema import Schema
from populace.schema.unit_facts import fact_cells


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredHierarchy:
    """Noisy counts of every level and query of a spine, and exact totals where they are invariant."""

    geography: Geography
    plan: HierarchyPlan
    constraints: TableConstraints
    noisy: tuple[tuple[Counts, ...], ...]
    totals: Mapping[int, Ints]

    @classmethod
    def of(cls, schema: Schema, items: Sequence[Measurement]) -> MeasuredHierarchy:
        """Return the measurements of a schema with a geography, whose variance is 0 where they are exact totals."""
        geography = require_geography(schema)
        domain = cell_domain(schema)
        queries: list[list[MeasuredQuery]] = [[] for _ in geography.spine.levels]
        noisy: list[list[Counts]] = [[] for _ in geography.spine.levels]
        totals: dict[int, Ints] = {}
        for item in items:
            level, marginal = place_marginal(item.marginal, geography)
            counts = item.counts if GEOCODE in item.marginal.clique else item.counts[np.newaxis]
            if item.variance == 0:
                totals[level] = counts
                continue
            queries[level].append(MeasuredQuery(marginal=marginal, variance=item.variance))
            noisy[level].append(counts)
        plan = HierarchyPlan(
            spine=geography.spine,
            domain=domain,
            levels=tuple(
                LevelQueries(queries=tuple(asked), has_exact_total=level in totals)
                for level, asked in enumerate(queries)
            ),
            possible=possible_cells(schema),
        )
        return cls(
            geography=geography,
            plan=plan,
            constraints=table_constraints(schema, plan),
            noisy=tuple(map(tuple, noisy)),
            totals=totals,
        )

    @cached_property
    def estimates(self) -> HierarchyEstimates:
        """The best linear unbiased estimates of every unit, with exact variances."""
        return estimate_hierarchy(self.plan, self.noisy, totals=self.totals)

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
        )


def require_geography(schema: Schema) -> Geography:
    """Return the geography of a schema that must have one."""
    if schema.geography is None:
        raise ReleaseError("the schema has no geography.", hint="declare levels and units under [geography]")
    return schema.geography


def cell_domain(schema: Schema) -> Domain:
    """Return the sizes of the columns that make up a unit's cells."""
    return Domain({name: size for name, size in schema.domain.items() if name != GEOCODE})


def possible_cells(schema: Schema) -> Truth | None:
    """Return which cells of a unit the rules of a schema allow; None where there are no rules."""
    rules = schema.rules
    if not rules.rules:
        return None
    domain = cell_domain(schema)
    codes = dict(zip(domain, np.indices(domain.shape(domain), sparse=True), strict=True))
    found: Truth = np.ones(domain.shape(domain), dtype=np.bool_)
    for rule in rules.rules:
        found &= rule.allowed[tuple(rules.classes[name].lookup[codes[name]] for name in rule.clique)]
    return found


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


def level_marginal(geography: Geography, level: int, clique: Clique) -> Marginal:
    """Return the question that counts a clique of columns in every unit of a level.

    >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
    >>> str(level_marginal(geography, 0, ("race",))), str(level_marginal(geography, 1, ("race",)))
    ('race', 'county × race')
    """
    if level == 0:
        return Marginal(clique)
    grouping = geography.grouping(level)
    return Marginal((GEOCODE, *clique), () if grouping is None else (grouping,))


def place_marginal(marginal: Marginal, geography: Geography) -> tuple[int, Marginal]:
    """Return the level at which a marginal counts units, and what it counts in each of them."""
    clique = tuple(name for name in marginal.clique if name != GEOCODE)
    groupings = tuple(grouping for grouping in marginal.groupings if grouping.column != GEOCODE)
    if len(clique) == len(marginal.clique):
        return 0, Marginal(clique, groupings)
    own = marginal.grouping(GEOCODE)
    if own is None:
        return geography.spine.depth - 1, Marginal(clique, groupings)
    for level in range(1, geography.spine.depth - 1):
        if np.array_equal(geography.spine.ancestors(level), own.lookup):
            return level, Marginal(clique, groupings)
    raise ReleaseError(
        f"the measurement of {marginal} is of no level of the geography.",
        hint="use measurements together with the schema they were made under",
    )
