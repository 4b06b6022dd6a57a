"""`topdown`: noisy tables of every unit of a geography, made consistent and whole from the root to the smallest."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.core.progress import Progress
from populace.inference.hierarchy.hierarchy_estimates import choose_filter
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from populace.inference.hierarchy.measured_hierarchy import (
    MeasuredHierarchy,
    cell_domain,
    possible_cells,
    require_geography,
    table_constraints,
)
from populace.inference.hierarchy.table_constraints import check_feasible
from populace.inference.model import Model
from populace.measurements.measurements import Measurement
from populace.methods.method import FitInput, Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.topdown.counts_model import build_counts_model
from populace.methods.topdown.level_budget import LevelBudget, LevelQuery
from populace.methods.workload import Workload
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import StepColumn
from populace.schema.geocodes import FILE_COLUMNS
from populace.schema.hints import quote_names
from populace.schema.schema import Schema


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
    return build_counts_model(hierarchy.tables[-1], given.schema)


def _questions(schema: Schema, workload: Workload) -> list[tuple[LevelQuery, Marginal]]:
    geography = require_geography(schema)
    budget = workload.levels or LevelBudget.default(schema.domain, geography)
    exact = [geography.spine.levels.index(name) for name in schema.invariants]
    found = []
    for asked in budget.allocate(geography, exact=exact):
        plain = geography.marginal(asked.level, asked.query.clique)
        found.append((asked, replace(plain, groupings=(*plain.groupings, *asked.query.groupings))))
    return found


def check_topdown(schema: Schema, _epsilon: Fraction, _delta: Fraction) -> None:
    """Refuse, from public facts alone, a schema without units, and tables that are too large or cannot be."""
    geography = require_geography(schema)
    if taken := [name for name in (*schema.columns, *schema.domain) if name in FILE_COLUMNS]:
        raise UsageError(
            f"column {taken[0]!r} has the name of a column of tables.parquet or noisy_measurements.parquet.",
            hint=f"rename it, in the file as well: {quote_names(FILE_COLUMNS)} are taken",
        )
    _check_counted_values(schema)
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


def _check_counted_values(schema: Schema) -> None:
    """Refuse bins where released rows are counted: one value would stand for all who are in the bin."""
    if schema.frequency is None:
        return
    for column in schema.variables.values():
        if isinstance(column, DecimalColumn) or (isinstance(column, StepColumn) and column.binned):
            raise UsageError(
                f"column {column.name!r} has bins, and a counted row has one value for all whom it counts.",
                hint="declare its bins as the values of a categorical column, in the file as well; or give a file with "
                "one row per unit, and take frequency out of the schema",
            )


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
    fixed_plan=True,
    unplannable="shares its budget over the units of a geography, and no population of units is simulated yet",
)
