"""`topdown` for linked tables: both tables of every unit of a geography, and whole wide rows that agree with them.

A unit and its members are one wide row, so every question is a marginal of wide rows, and one unit moves it by 1. The
cells of members are counted place by place: as many marginals as places, which is the price of a table that one unit
moves by as many rows. Proof: docs/proofs/linked-tables.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from populace.core.array_types import Ints
from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain, Marginal
from populace.inference.fit.fit_model import fit_model
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.hierarchy.hierarchy_estimates import choose_filter
from populace.inference.hierarchy.measured_hierarchy import (
    MeasuredHierarchy,
    cell_domain,
    possible_member_cells,
    require_geography,
)
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.level_queries import place_marginal
from populace.measurements.measurements import Measurement
from populace.methods.linked_workload import column_layers, linked_weights
from populace.methods.topdown.counts_model import build_counts_model
from populace.methods.topdown.level_budget import LevelBudget, UnitQuery
from populace.methods.topdown.table_checks import check_cells, plan_detailed
from populace.methods.workload import Workload
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.rules import Totals
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.linked.table_cells import MemberCells, require_linked, unit_domain, without_geography
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedBudgetConfig:
    """Which share of the budget each kind of question has; bench/linked_hierarchy.py shows what comes of it."""

    units: Fraction = Fraction(1, 4)
    """Tables of the units in every unit of the geography."""
    members: Fraction = Fraction(1, 2)
    """Tables of the members, place by place."""
    across: Fraction = Fraction(1, 4)
    """Who lives with whom, and where: pairs of columns of a unit and its members, and of two members, in the whole."""


CONFIG = LinkedBudgetConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedQuestion:
    """Marginals of wide rows that are asked together, each with the same noise, for a share of the budget."""

    level: int
    share: Fraction
    marginals: tuple[Marginal, ...]


def list_linked_questions(schema: Schema, workload: Workload) -> list[LinkedQuestion]:
    """Return everything that is asked, the whole first, with shares that add up to 1."""
    geography, cells = require_geography(schema), MemberCells.of(schema)
    exact = [geography.spine.levels.index(name) for name in schema.invariants]
    known = [(each.level, each.clique) for each in schema.level_totals]
    unit_queries = () if workload.levels is None else workload.levels.queries
    member_queries = () if workload.levels is None else workload.levels.member_queries
    found = [
        LinkedQuestion(
            level=asked.level,
            share=CONFIG.units * asked.share,
            marginals=(
                _at_level(Marginal(asked.query.clique, asked.query.groupings), geography, level=asked.level),
            ),
        )
        for asked in _budget(cell_domain(schema), geography, workload, unit_queries).allocate(
            geography, exact=exact, known=known
        )
    ]
    found += [
        LinkedQuestion(
            level=asked.level,
            share=CONFIG.members * asked.share,
            marginals=tuple(
                _at_level(cells.ask(asked.query.clique, place=place), geography, level=asked.level)
                for place in range(1, len(cells.places) + 1)
            ),
        )
        for asked in _budget(cells.domain, geography, workload, member_queries).allocate(geography)
    ]
    found += _list_pairs(schema)
    whole = sum((each.share for each in found), Fraction(0))
    ordered = sorted(found, key=lambda each: each.level)
    return [replace(each, share=each.share / whole) for each in ordered]


def _budget(
    domain: Domain, geography: Geography, workload: Workload, queries: tuple[UnitQuery, ...]
) -> LevelBudget:
    """Return the shares of the levels, with the queries of one of the tables; the default ones where none is given."""
    usual = LevelBudget.default(domain, geography)
    levels = usual.levels if workload.levels is None else workload.levels.levels
    return replace(usual, levels=levels, queries=queries or usual.queries)


def _at_level(marginal: Marginal, geography: Geography, *, level: int) -> Marginal:
    plain = geography.marginal(level, marginal.clique)
    return replace(plain, groupings=(*plain.groupings, *marginal.groupings))


def _list_pairs(schema: Schema) -> Iterator[LinkedQuestion]:
    """Yield the pairs across the tables, then those of two members; what is inside one is asked in every unit anyway.

    Shares are those of least error for the weights and the cells of all pairs.
    """
    inner, units = without_geography(schema), unit_domain(schema)
    inside, *_ = column_layers(inner)
    needs: tuple[dict[Clique, float], dict[Clique, float]] = ({}, {})
    for clique, weight in linked_weights(inner, require_linked(inner)).items():
        if not any(each.issuperset(clique) for each in inside):
            across = any(name in units for name in clique)
            needs[not across][clique] = float(weight * inner.domain.cells(clique)) ** (2 / 3)
    whole = sum(sum(each.values()) for each in needs)
    for each in needs:
        if each:
            part = max(Fraction(sum(each.values()) / whole).limit_denominator(1000), Fraction(1, 1000))
            pairs = tuple(Marginal(clique) for clique in each)
            yield LinkedQuestion(level=0, share=CONFIG.across * part, marginals=pairs)


def check_linked(schema: Schema) -> None:
    """Refuse, from public facts alone, facts and totals about members, and tables of members that are too large."""
    geography, cells, units = require_geography(schema), MemberCells.of(schema), unit_domain(schema)
    for totals in schema.level_totals:
        if strange := [name for name in totals.clique if name not in units]:
            raise UsageError(
                f"[[totals]] by {strange[0]!r}, which is no column of {require_linked(schema).units!r}.",
                hint=f"public totals count {require_linked(schema).units}s, by {', '.join(units)}",
            )
    for fact in schema.facts:
        place = f"[geography] facts, {fact.when!r}"
        condition = schema.layout.condition(parse_condition(fact.when), place=place)
        if strange := [name for name in condition.variables if name not in units]:
            raise UsageError(
                f"{place}: {strange[0]!r} is no column of {require_linked(schema).units!r}.",
                hint=f"facts are about {', '.join(units)}",
            )
    wide = cells.ask(tuple(cells.domain), place=1)
    check_cells(len(cells.places) * schema.domain.cells(wide.clique), units=geography.spine.leaves)
    choose_filter(plan_detailed(geography, cells.domain, exact=(), possible=possible_member_cells(schema)))


def fit_linked(schema: Schema, items: Sequence[Measurement]) -> Model:
    """Return the model of wide rows with their units: the integer tables of the units, and members given these.

    What was measured of the whole, or of all units of a level, gives the model of wide rows. It is held to the integer
    table of the whole, and rows are then shared out over the smallest units as their own integer tables say.
    """
    hierarchy = MeasuredHierarchy.of(schema, items)
    counts = hierarchy.tables[-1]
    clique = (GEOCODE, *hierarchy.plan.columns)
    if not counts.any():
        return build_counts_model(counts, schema)
    inner = without_geography(schema)
    known = Totals(clique=hierarchy.plan.columns, counts=counts.sum(axis=0))
    space = replace(ModelSpace.of(inner), layers=column_layers(inner), totals=(known,))
    rows = fit_model(list(_sum_over_units(items, geography=hierarchy.geography)), space=space)
    return _place_in_units(rows, counts, clique=clique, schema=schema)


def _sum_over_units(items: Sequence[Measurement], *, geography: Geography) -> Iterator[Measurement]:
    """Yield what every level says of the whole: the sums over its units, with as much more noise."""
    for item in items:
        level, marginal = place_marginal(item.marginal, geography)
        if item.variance and not marginal.groupings:
            counts = item.counts if GEOCODE not in item.marginal.clique else item.counts.sum(axis=0)
            yield Measurement(marginal, counts, item.variance * geography.spine.units(level))


def _place_in_units(model: Model, counts: Ints, *, clique: Clique, schema: Schema) -> Model:
    """Return a model of rows with their smallest unit, whose tables of the units are exactly these counts."""
    expected = model.grouped_marginal(clique[1:])
    potential = np.full(counts.shape, FORBIDDEN)
    np.log(counts / np.where(expected > 0, expected, 1.0), out=potential, where=counts > 0)
    return replace(
        model,
        domain=schema.domain,
        potentials={clique: potential, **model.potentials},
        exact=(clique,),
        total=float(counts.sum()),
    )
