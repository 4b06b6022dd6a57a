"""`topdown`: noisy tables of every unit of a geography, made consistent and whole from the root to the smallest."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from populace.core.array_types import Ints
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.core.progress import Progress
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.hierarchy.hierarchy_estimates import choose_filter
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from populace.inference.hierarchy.measured_hierarchy import (
    MeasuredHierarchy,
    cell_domain,
    level_marginal,
    possible_cells,
    require_geography,
    table_constraints,
)
from populace.inference.hierarchy.table_constraints import check_feasible
from populace.inference.model import Model
from populace.measurements.measurements import Measurement
from populace.methods.method import FitInput, Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.topdown.level_budget import LevelBudget, LevelQuery
from populace.methods.workload import Workload
from populace.schema.geocodes import GEOCODE
from populace.schema.schema import Schema

# The model of an empty table expects as good as no rows.
MIN_TOTAL = 1e-9


def measure_topdown(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Publish exact totals that are invariant, then count every query in every unit of every level, with noise.

    One person lies in one unit of a level and in one cell of a query, so each level and query is one marginal. Units
    come from the schema: one without rows is counted like any other. All questions are fixed before the first answer.
    Cost: the whole budget, shared out by the levels and queries of the workload; exact totals change the neighbours.
    Source: Abowd et al. 2022, the 2020 Census Disclosure Avoidance System TopDown Algorithm.
    """
    progress("measuring all levels", 0.0)
    exact = [oracle.publish_totals(level) for level in oracle.schema.invariants]
    batches = [
        ([question], oracle.budget.measure_noise(asked.share, marginals=1))
        for asked, question in _questions(oracle.schema, workload)
    ]
    return (*exact, *oracle.measure_batches(batches))


def fit_topdown(given: FitInput) -> Model:
    """Return the model whose rows are the integer tables of the smallest units."""
    hierarchy = MeasuredHierarchy.of(given.schema, given.items)
    return _counts_model(hierarchy.tables[-1], given.schema)


def _questions(schema: Schema, workload: Workload) -> list[tuple[LevelQuery, Marginal]]:
    geography = require_geography(schema)
    budget = workload.levels or LevelBudget.default(schema.domain, geography)
    exact = [geography.spine.levels.index(name) for name in schema.invariants]
    found = []
    for asked in budget.allocate(geography, exact=exact):
        plain = level_marginal(geography, asked.level, asked.query.clique)
        found.append((asked, replace(plain, groupings=(*plain.groupings, *asked.query.groupings))))
    return found


def _counts_model(tables: Ints, schema: Schema) -> Model:
    """Return the model that has just these counts, over units and cells."""
    clique = (GEOCODE, *(name for name in schema.domain if name != GEOCODE))
    potential = np.full(tables.shape, FORBIDDEN)
    np.log(tables, out=potential, where=tables > 0)
    total = int(tables.sum())
    return Model(
        domain=schema.domain,
        groupings={},
        potentials={clique: potential} if total else {},
        total=float(total) if total else MIN_TOTAL,
        within={},
        exact=(clique,) if total else (),
    )


def check_topdown(schema: Schema, _epsilon: Fraction, _delta: Fraction) -> None:
    """Refuse, from public facts alone, a schema without units, and tables that are too large or cannot be."""
    geography = require_geography(schema)
    if schema.unit.rows > 1:
        raise UsageError(
            f"the method 'topdown' counts one row per {schema.unit.word}; rows_per_unit is {schema.unit.rows}.",
            hint="give each unit one row",
        )
    domain = cell_domain(schema)
    cells = domain.cells(domain) * geography.spine.leaves
    if cells > LIMITS.max_hierarchy_cells:
        raise UsageError(
            f"{geography.spine.leaves} units of {domain.cells(domain)} cells are {cells} counts; the most is "
            f"{LIMITS.max_hierarchy_cells}.",
            hint="leave out or coarsen columns, or release one region after the other",
        )
    detailed = MeasuredQuery(marginal=Marginal(tuple(domain)), variance=1)
    levels = geography.spine.levels
    plan = HierarchyPlan(
        spine=geography.spine,
        domain=domain,
        levels=tuple(
            LevelQueries(queries=(detailed,), has_exact_total=name in schema.invariants) for name in levels
        ),
        possible=possible_cells(schema),
    )
    check_feasible(table_constraints(schema, plan))
    choose_filter(plan)


TOPDOWN = Method(
    name="topdown",
    title="Hierarchical tables from the top down",
    reference="Abowd et al. 2022",
    measure=measure_topdown,
    fit=fit_topdown,
    check=check_topdown,
    workload=WorkloadUse.LISTED,
    learns_domains=False,
    meets_totals=False,
    own_model=True,
    counts_units=True,
    unplannable="shares its budget over the units of a geography, and no population of units is simulated yet",
)
