"""`topdown`: noisy tables of every unit of a geography, made consistent and whole from the root to the smallest."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.core.progress import Progress
from populace.inference.hierarchy.hierarchy_estimates import choose_filter
from populace.inference.hierarchy.measured_hierarchy import (
    MeasuredHierarchy,
    build_hierarchy_plan,
    cell_domain,
    known_counts,
    known_tables,
    require_geography,
    table_constraints,
)
from populace.inference.hierarchy.table_constraints import check_feasible
from populace.inference.model import Model
from populace.measurements.measurements import Measurement
from populace.methods.method import FitInput, Method, PlannedQuestion, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.topdown.counts_model import build_counts_model
from populace.methods.topdown.level_budget import LevelBudget
from populace.methods.topdown.linked_topdown import check_linked, fit_linked, list_linked_questions
from populace.methods.topdown.table_checks import check_cells, check_column_names
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import StepColumn
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
    questions = _list_questions(oracle.schema, workload)
    shares = [share / len(marginals) for share, marginals in questions for _ in marginals]
    noise = dict(zip(shares, oracle.budget.plan_noise(shares), strict=True))
    batches = [(marginals, noise[share / len(marginals)]) for share, marginals in questions]
    return (*exact, *oracle.measure_batches(batches))


def fit_topdown(given: FitInput) -> Model:
    """Return the model whose rows are the integer tables of the smallest units."""
    if given.schema.linked is not None:
        return fit_linked(given.schema, given.items)
    hierarchy = MeasuredHierarchy.of(given.schema, given.items)
    return build_counts_model(hierarchy.tables[-1], given.schema)


def plan_questions(schema: Schema, workload: Workload, budget: Budget) -> tuple[PlannedQuestion, ...]:
    """Return every query of every level with the noise that its share of the budget buys, from public facts alone."""
    asked = [
        (share / len(marginals), marginal)
        for share, marginals in _list_questions(schema, workload)
        for marginal in marginals
    ]
    noise = budget.plan_noise([share for share, _ in asked])
    return tuple(
        PlannedQuestion(marginal=marginal, share=share, noise=own)
        for (share, marginal), own in zip(asked, noise, strict=True)
    )


def _list_questions(schema: Schema, workload: Workload) -> list[tuple[Fraction, list[Marginal]]]:
    """Return marginals that are asked together with their share of the budget; all shares add up to 1."""
    if schema.linked is not None:
        return [(asked.share, [*asked.marginals]) for asked in list_linked_questions(schema, workload)]
    geography = require_geography(schema)
    levels = workload.levels or LevelBudget.default(schema.domain, geography)
    exact = [geography.spine.levels.index(name) for name in schema.invariants]
    found = []
    known = [(each.level, each.clique) for each in schema.level_totals]
    for asked in levels.allocate(geography, exact=exact, known=known):
        plain = geography.marginal(asked.level, asked.query.clique)
        marginal = replace(plain, groupings=(*plain.groupings, *asked.query.groupings))
        found.append((asked.share, [marginal]))
    return found


def check_topdown(schema: Schema, _epsilon: Fraction, _delta: Fraction) -> None:
    """Refuse, from public facts alone, a schema without units, and tables that are too large or cannot be."""
    geography = require_geography(schema)
    check_column_names(schema)
    _check_counted_values(schema)
    if schema.unit.rows > 1:
        raise UsageError(
            f"the method 'topdown' counts one row per {schema.unit.word}; rows_per_unit is {schema.unit.rows}.",
            hint="give each unit one row",
        )
    if schema.linked is not None:
        check_linked(schema)
    domain = cell_domain(schema)
    check_cells(domain.cells(domain), units=geography.spine.leaves)
    if any(
        each.level == geography.spine.depth - 1 and set(each.clique) == set(domain)
        for each in schema.level_totals
    ):
        raise UsageError(
            "[[totals]] declare every cell of every smallest unit.", hint="there is nothing left to protect"
        )
    exact = [geography.marginal(geography.spine.levels.index(name)) for name in schema.invariants]
    plan = build_hierarchy_plan(
        schema,
        [
            *((marginal, Fraction(0)) for marginal in exact),
            (geography.marginal(geography.spine.depth - 1, tuple(domain)), Fraction(1)),
        ],
    )
    constraints = table_constraints(schema, plan)
    totals = {each.level: each.sum_to(geography, level=each.level, clique=()) for each in schema.level_totals}
    check_feasible(constraints, totals=totals or None)
    known_tables(plan, known_counts(schema)).check(constraints.possible)
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
    own_model=True,
    counts_units=True,
    fixed_plan=True,
    plan_questions=plan_questions,
)
