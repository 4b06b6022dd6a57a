"""Learning domains: the values and the bins of columns that the schema leaves open, before anything else is asked.

Values come from a stability threshold; bins, and how values lie inside them, from counts of groups of a public grid.
Everything after a noisy answer is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TypeGuard

from populace.core.errors import UsageError
from populace.core.progress import Progress
from populace.measurements.measurements import Measurement
from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG
from populace.methods.discovery.discovery_grid import DiscoveryGrid, OpenColumn, max_grid_cells
from populace.methods.discovery.numeric_discovery import discover_numeric
from populace.methods.oracle import DomainOracle
from populace.privacy.accounting.budget import Budget
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import StepColumn
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues, as_declared
from populace.schema.schema import Schema


def discovery_delta_share(schema: Schema, *, delta: Fraction) -> Fraction:
    """Return the part of δ that learning takes, or refuse before anything is spent what no budget can pay for."""
    learnt = [
        name
        for name, column in schema.columns.items()
        if not column.needs_learning and as_declared(column).needs_learning
    ]
    if learnt:
        raise UsageError(
            f"the domain of column {learnt[0]!r} was learnt by another run.",
            hint='declare its values or edges in the schema, or let this run learn them again with "learn"',
        )
    values = _unknown_values(schema)
    if values and not delta:
        raise UsageError(
            f"the values of column {next(iter(values))!r} cannot be learnt with delta 0.",
            hint="give a delta above 0, or list the values in the schema",
        )
    return DISCOVERY_CONFIG.delta_share * delta if values else Fraction(0)


def largest_schema(schema: Schema) -> Schema:
    """Return a schema as large as the one that learning counts by, to be checked before any grid is built."""
    wide = {
        name: max_grid_cells(column) + len(column.specials)
        for name, column in schema.columns.items()
        if _is_open_numeric(column)
    }
    return replace(Schema.from_sizes({**schema.domain, **wide}), max_rows=schema.max_rows)


def build_grids(schema: Schema) -> dict[str, DiscoveryGrid]:
    """Return the grids of columns to learn about, or refuse, from public facts alone, what could not be learnt."""
    found = {}
    for name, column in schema.columns.items():
        if _is_open_numeric(column):
            found[name] = DiscoveryGrid.of(column)
            found[name].check(column)
    return found


def with_grid_columns(schema: Schema, *, grids: Mapping[str, DiscoveryGrid]) -> Schema:
    """Return the schema in which columns that are learnt about have the finest bins that learning looks at.

    Public totals of such columns count codes that it does not have; they say nothing about how rows are read.
    """
    totals = tuple(each for each in schema.totals if not grids.keys() & set(each.clique))
    return replace(schema, totals=totals).replace_columns({name: grid.column for name, grid in grids.items()})


def discover_domains(
    opened: Callable[[Schema], DomainOracle],
    schema: Schema,
    *,
    grids: Mapping[str, DiscoveryGrid],
    progress: Progress,
    keys: Fraction | None = None,
) -> tuple[Schema, tuple[Measurement, ...]]:
    """Return the schema with every open domain learnt, and the noisy tables that were measured for it.

    `opened` gives the questions about the table under a schema; `grids` are its `build_grids`. All values are learnt
    first, then bins on rows that are read with them: rules between the two hold while bins are learnt as they do
    later. What is not needed is left for later questions. `keys` is the part of δ for values, if not all that is set
    aside.
    """
    names = schema.columns_to_learn
    values = _unknown_values(schema)
    finder = opened(with_grid_columns(schema, grids=grids))
    budget = finder.budget
    values_share, number_share = column_shares(schema, budget=budget)
    learnt: dict[str, Column] = {}
    for place, (name, unknown) in enumerate(values.items()):
        progress("learning domains", place / len(names))
        delta = (budget.keys if keys is None else keys) / len(values)
        mechanism = budget.key_mechanism(values_share, delta=delta)
        # Sorted by text: the order of the file is private.
        learnt[name] = unknown.with_domain(sorted(finder.discover_values(name, mechanism=mechanism)))
    tables: list[Measurement] = []
    if values:
        schema = schema.replace_columns(learnt)
        finder = opened(with_grid_columns(schema, grids=grids))
    for place, name in enumerate(schema.columns_to_learn):
        progress("learning domains", (len(values) + place) / len(names))
        column = schema.columns[name]
        if _is_open_numeric(column):
            learnt[name], found = discover_numeric(
                finder, column, grid=grids[name], budget=budget, share=number_share
            )
            tables += found
    return schema.replace_columns(learnt), tuple(tables)


def discovery_share(schema: Schema, *, budget: Budget) -> Fraction:
    """Return the share of the budget that learning takes at most, of everything that the schema leaves open."""
    values = len(_unknown_values(schema))
    values_share, number_share = column_shares(schema, budget=budget)
    return values * values_share + (len(schema.columns_to_learn) - values) * number_share


def column_shares(schema: Schema, *, budget: Budget) -> tuple[Fraction, Fraction]:
    """Return the share of the budget for the values of one column, and for one of numbers.

    For numbers it is the more, the less noise there is in all.
    """
    count = max(len(schema.columns_to_learn), 1)
    number = DISCOVERY_CONFIG.base_numeric_share + DISCOVERY_CONFIG.extra_numeric_share * _inverse_deviation(
        budget
    )
    return (
        min(DISCOVERY_CONFIG.values_share, DISCOVERY_CONFIG.base_share / count),
        min(number, max_discovery_share(budget) / count),
    )


def max_discovery_share(budget: Budget) -> Fraction:
    """Return the share of the budget for all that is learnt, at most: the more, the less noise there is in all."""
    return min(
        DISCOVERY_CONFIG.base_share + DISCOVERY_CONFIG.extra_share * _inverse_deviation(budget),
        DISCOVERY_CONFIG.max_share,
    )


def _inverse_deviation(budget: Budget) -> Fraction:
    """Return 1 over the deviation, in rows, of noise that would take the whole budget."""
    deviation = float(budget.measure_noise(Fraction(1), marginals=1).variance) ** 0.5
    return Fraction(1 / deviation).limit_denominator(1000)


def _unknown_values(schema: Schema) -> dict[str, UnknownValues]:
    return {name: column for name, column in schema.columns.items() if isinstance(column, UnknownValues)}


def _is_open_numeric(column: Column) -> TypeGuard[OpenColumn]:
    """Say whether something about a column of numbers or dates is to be learnt."""
    return column.needs_learning and isinstance(column, UnknownBins | StepColumn | DecimalColumn)
