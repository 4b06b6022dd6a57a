"""What estimates of a survey will give for a budget: the privacy error of each, from public facts alone.

Rows are invented from the schema, spread evenly over the values of every column, and asked what the queries ask, with
the noise that the budget buys and without drawing it. How far noise moves an estimate follows from how many rows its
group has and what they weigh, and hardly from anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.core.marginals import Counts
from populace.privacy.accounting.budget import Budget, Number, parse_delta, parse_epsilon
from populace.private.dry_run import EmptyTableOracle, check_answerable
from populace.private.survey.exact_sums import add_up
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.codec.numeric_values import numeric_column_names
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.unknown_columns import fill_unknown_domain
from populace.schema.exact_numbers import MAX_EXACT_INTEGER
from populace.schema.schema import Schema
from populace.survey.answer_queries import answer_sum_plan
from populace.survey.design.design import Design
from populace.survey.estimate_result import Estimate
from populace.survey.queries.cells import DesignUnits
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.survey_oracle import SumBatch

# More invented rows than these add nothing: sums are scaled up.
MAX_SIMULATED_ROWS = 100_000
# Where the population is not public, rows are taken to weigh this part of the most: few designs have less.
ASSUMED_WEIGHT_SHARE = Fraction(1, 5)
_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """The privacy error to expect of one query: that of its median group and of its worst, None if all are hidden."""

    query: str
    groups: int
    suppressed: int
    """Groups that are indistinguishable from noise."""
    privacy_error: float | None
    worst_privacy_error: float | None


def predict_errors(
    *, schema: Schema, design: Design, queries: Queries, rows: int, epsilon: Number, delta: Number = 0
) -> tuple[ExpectedError, ...]:
    """Return what to expect of estimates of a sample of about so many rows; nothing private is read or spent.

    >>> schema = Schema.from_sizes({"SEX": 2, "AGE": 100})
    >>> queries = Queries.parse('[[query]]\\nstatistic = "mean"\\ncolumn = "AGE"', schema=schema)
    >>> (found,) = predict_errors(schema=schema, design=Design(schema=schema), queries=queries, rows=10_000, epsilon=1)
    >>> 0.005 < found.worst_privacy_error < 0.05
    True
    """
    if not 1 <= rows <= MAX_EXACT_INTEGER:
        raise UsageError(
            f"a sample of {rows} rows says nothing.",
            hint=f"give about how many rows there are, from 1 to {MAX_EXACT_INTEGER}",
        )
    budget = Budget.of(parse_epsilon(epsilon), parse_delta(delta), unit=schema.unit)
    plan = QueryPlan.of(design, queries, budget=budget)
    check_answerable(plan)
    found: tuple[Estimate, ...] = ()
    if plan.sums is not None:
        oracle = SimulatedSurveyOracle.of(design, rows=rows)
        found = answer_sum_plan(oracle, plan=plan.sums, budget=budget)
    return tuple(
        _summarize(query.name, [row for row in found if row.query == query.name]) for query in queries
    )


def assume_row_weight(design: Design, rows: int) -> float:
    """Return what a row is taken to weigh: its part of the population where that is public."""
    if design.weights is None:
        return 1.0
    most = design.weight_bound
    known = most * ASSUMED_WEIGHT_SHARE if design.population is None else design.population / rows
    return float(min(known, most))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedSurveyOracle(EmptyTableOracle):
    """An oracle about invented rows that answers exactly: the noise is that of a real run, and none is drawn."""

    rows: SurveyRows
    times: float

    @classmethod
    def of(cls, design: Design, *, rows: int) -> SimulatedSurveyOracle:
        """Return rows that are spread evenly over the values of every column."""
        schema, count = design.schema, min(rows, MAX_SIMULATED_ROWS)
        rng = np.random.default_rng(_SEED)
        # Of a column that is one variable, values and not special codes.
        values = {
            name: column.levels for name, column in schema.columns.items() if len(column.variables) == 1
        }
        codes = {n: rng.integers(0, values.get(n, size), count) for n, size in schema.domain.items()}
        if design.clustered:
            # Rows elsewhere would not count.
            units = DesignUnits.psus(design)
            drawn = rng.integers(0, len(units.weights), count)
            codes |= {
                name: own[drawn]
                for name, own in zip(units.columns, units.codes, strict=True)
                if name in schema.domain
            }
        numbers = {name: _draw_numbers(schema, name, codes, rng=rng) for name in numeric_column_names(schema)}
        replicates = () if design.replicates is None else design.replicates.columns
        for name in (*replicates, *([design.weights] if design.weights else [])):
            numbers[name] = np.full(count, assume_row_weight(design, rows))
        return cls(
            schema=schema,
            rows=SurveyRows(codes=codes, numbers=numbers),
            times=rows / count,
        )

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums of the invented rows."""
        return tuple(
            np.rint(add_up(self.rows, each, schema=self.schema) * self.times).astype(np.int64)
            for sums, _ in batches
            for each in sums
        )


def _draw_numbers(
    schema: Schema, name: str, codes: Mapping[str, Counts], *, rng: np.random.Generator
) -> Floats:
    """Return numbers that lie evenly within the codes of a column."""
    column = fill_unknown_domain(schema.columns[name])
    if not isinstance(column, IntegerColumn | DecimalColumn | TemporalColumn):
        raise TypeError(f"column {name!r} has no numbers")
    ends = np.array([[float(end) for end in column.bounds(level)] for level in range(column.levels)])
    own = codes[name] if name in codes else rng.integers(0, len(ends), len(next(iter(codes.values()))))
    low, high = ends[own].T
    found: Floats = low + (high - low) * rng.random(len(own))
    return found


def _summarize(query: str, rows: Sequence[Estimate]) -> ExpectedError:
    errors = sorted(row.privacy_error for row in rows if row.privacy_error is not None)
    return ExpectedError(
        query=query,
        groups=len(rows),
        suppressed=len(rows) - len(errors),
        privacy_error=errors[len(errors) // 2] if errors else None,
        worst_privacy_error=errors[-1] if errors else None,
    )
