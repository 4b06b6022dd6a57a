"""What estimates of a survey will give for a budget: privacy errors and intervals, from public facts alone.

Rows are invented from the schema: categories evenly, numbers in a bell over their range, and so many copies of each
within its PSU that design effects are those of the design. They are asked what the queries ask, with noise of the
kinds that the budget buys, a few times over. How wide an interval gets follows from how many rows its group has, what
they weigh and how alike they are in a PSU, and hardly from anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.core.marginals import Counts
from populace.privacy.accounting.budget import Number, parse_delta, parse_epsilon
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.private.dry_run import EmptyTableOracle, check_answerable
from populace.private.public_table import read_public_rows
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
from populace.survey.queries.expected_variance import ASSUMED_WEIGHT_SHARE
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.survey_oracle import SumBatch

# More invented rows than these add nothing: sums are scaled up.
MAX_SIMULATED_ROWS = 100_000
# Numbers are taken to lie around this part of their range, and to deviate by this part of it.
ASSUMED_PLACE, ASSUMED_DEVIATION = 0.4, 0.2
# The deviation of the logarithm of weights.
ASSUMED_LOG_WEIGHT = 0.55
# So often noise is drawn; the median is told.
DRAWN_RUNS = 5
# Advice that helps less is not worth reading.
MIN_GAIN = 0.05
_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """What to expect of one query: of its median group and of its worst; None if all are suppressed."""

    query: str
    groups: int
    suppressed: int
    """Groups that are indistinguishable from noise."""
    privacy_error: float | None
    worst_privacy_error: float | None
    margin: float | None
    """Half of the interval's width, sampling error and noise together."""
    worst_margin: float | None


def predict_errors(
    *,
    design: Design,
    queries: Queries,
    rows: int,
    epsilon: Number,
    delta: Number = 0,
    like: Any | None = None,
) -> tuple[ExpectedError, ...]:
    """Return what to expect of estimates of a sample of about so many rows; nothing private is read or spent.

    `like` is a **public** table with the schema's columns, such as an earlier round or a synthetic release: rows are
    drawn from it then, and not invented.

    >>> schema = Schema.from_sizes({"SEX": 2, "AGE": 100})
    >>> queries = Queries.parse('[[query]]\\nstatistic = "mean"\\ncolumn = "AGE"', schema=schema)
    >>> (found,) = predict_errors(design=Design(schema=schema), queries=queries, rows=10_000, epsilon=1)
    >>> 0.005 < found.worst_privacy_error < found.worst_margin < 2
    True
    """
    if not 1 <= rows <= MAX_EXACT_INTEGER:
        raise UsageError(
            f"a sample of {rows} rows says nothing.",
            hint=f"give about how many rows there are, from 1 to {MAX_EXACT_INTEGER}",
        )
    plan, _ = QueryPlan.narrowest(design, queries, epsilon=parse_epsilon(epsilon), delta=parse_delta(delta))
    check_answerable(plan)
    runs: list[tuple[Estimate, ...]] = []
    if plan.sums is not None:
        oracle = SimulatedSurveyOracle.of(design, rows=rows, like=like)
        for _ in range(DRAWN_RUNS):
            runs.append(answer_sum_plan(oracle, plan=plan.sums, budget=plan.budget))
    return tuple(
        _summarize(query.name, [[row for row in run if row.query == query.name] for run in runs])
        for query in queries
    )


def assume_row_weight(design: Design, rows: int) -> float:
    """Return what a row is taken to weigh: its part of the population where that is public."""
    if design.weights is None:
        return 1.0
    most = float(design.weight_bound)
    known = most * ASSUMED_WEIGHT_SHARE if design.population is None else float(design.population) / rows
    return min(known, most)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedSurveyOracle(EmptyTableOracle):
    """An oracle about invented rows that answers with noise as large as that of a real run, drawn in floating point."""

    rows: SurveyRows
    times: float
    rng: np.random.Generator

    @classmethod
    def of(cls, design: Design, *, rows: int, like: Any | None = None) -> SimulatedSurveyOracle:
        """Return rows as they are assumed to be, or as a public table has them."""
        schema, count = design.schema, min(rows, MAX_SIMULATED_ROWS)
        rng = np.random.default_rng(_SEED)
        if like is not None:
            public = read_public_rows(like, schema=schema)
            size = len(next(iter(public.codes.values())))
            if not size:
                raise UsageError(
                    "the public table has no rows, so no sample can be like it.",
                    hint="give a public table with rows, or leave it out: rows are then invented",
                )
            # All of them as often as they go, and some once more.
            drawn = np.concatenate(
                [np.tile(np.arange(size), count // size), rng.permutation(size)[: count % size]]
            )
            return cls(
                schema=schema,
                rows=SurveyRows(
                    codes={name: own[drawn] for name, own in public.codes.items()},
                    numbers={name: own[drawn] for name, own in public.numbers.items()},
                ),
                times=rows / count,
                rng=rng,
            )
        # With copies of each row in its PSU, the variance of everything is that many times as large.
        alike = float(design.design_effect.median) if design.clustered else 1.0
        distinct = max(1, round(count / alike))
        row = rng.permutation(np.arange(count) % distinct)
        # Of a column that is one variable, values and not special codes.
        values = {
            name: column.levels for name, column in schema.columns.items() if len(column.variables) == 1
        }
        codes = {n: rng.integers(0, values.get(n, size), distinct) for n, size in schema.domain.items()}
        numbers: dict[str, Floats] = {}
        for name in numeric_column_names(schema):
            codes_of, numbers[name] = _draw_numbers(schema, name, distinct, rng=rng)
            if name in codes:
                codes[name] = codes_of
        if design.clustered:
            # Rows elsewhere would not count.
            units = DesignUnits.psus(design)
            drawn = rng.integers(0, len(units.weights), distinct)
            for name, own in zip(units.columns, units.codes, strict=True):
                if name in codes:
                    codes[name] = own[drawn]
        weight = assume_row_weight(design, rows) * np.exp(
            ASSUMED_LOG_WEIGHT * rng.standard_normal(distinct) - ASSUMED_LOG_WEIGHT**2 / 2
        )
        replicates = () if design.replicates is None else design.replicates.columns
        for name in (*replicates, *([design.weights] if design.weights else [])):
            numbers[name] = weight
        return cls(
            schema=schema,
            rows=SurveyRows(
                codes={name: own[row] for name, own in codes.items()},
                numbers={name: own[row] for name, own in numbers.items()},
            ),
            times=rows / count,
            rng=rng,
        )

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums of the invented rows, with noise."""
        found = []
        for sums, noise in batches:
            for each in sums:
                if each not in self.rows.kept:
                    self.rows.kept[each] = add_up(self.rows, each, schema=self.schema) * self.times
                exact = self.rows.kept[each]
                laplace = isinstance(noise, DiscreteLaplace)
                draw = self.rng.laplace if laplace else self.rng.normal
                moved = draw(0.0, math.sqrt(float(noise.variance) / (2 if laplace else 1)), exact.shape)
                found.append(np.rint(exact + moved).astype(np.int64))
        return tuple(found)


def _draw_numbers(
    schema: Schema, name: str, count: int, *, rng: np.random.Generator
) -> tuple[Counts, Floats]:
    """Return codes and numbers of a column, in a bell over its range."""
    column = fill_unknown_domain(schema.columns[name])
    if not isinstance(column, IntegerColumn | DecimalColumn | TemporalColumn):
        raise TypeError(f"column {name!r} has no numbers")
    ends = np.array([[float(end) for end in column.bounds(level)] for level in range(column.levels)])
    low, high = float(ends.min()), float(ends.max())
    place = np.clip(ASSUMED_PLACE + ASSUMED_DEVIATION * rng.standard_normal(count), 0.0, 1.0)
    found: Floats = low + (high - low) * place
    starts = ends[:, 0]
    order = np.argsort(starts, kind="stable")
    codes = order[np.clip(np.searchsorted(starts[order], found, side="right") - 1, 0, len(ends) - 1)]
    return codes.astype(np.int64), found


def _summarize(query: str, runs: Sequence[Sequence[Estimate]]) -> ExpectedError:
    """Return the median over runs of what the median and the worst group of a query have."""
    errors = [[row.privacy_error for row in run if row.privacy_error is not None] for run in runs]
    margins = [
        [(row.high - row.low) / 2 for row in run if row.low is not None and row.high is not None]
        for run in runs
    ]
    groups = max((len(run) for run in runs), default=0)
    suppressed = [len(run) - len(own) for run, own in zip(runs, errors, strict=True)]

    def middle(each: Sequence[Sequence[float]], pick: Callable[[Sequence[float]], float]) -> float | None:
        found = [pick(own) for own in each if own]
        return float(np.median(found)) if found else None

    return ExpectedError(
        query=query,
        groups=groups,
        suppressed=int(np.median(suppressed)) if suppressed else 0,
        privacy_error=middle(errors, lambda own: float(np.median(own))),
        worst_privacy_error=middle(errors, max),
        margin=middle(margins, lambda own: float(np.median(own))),
        worst_margin=middle(margins, max),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change of the public files, and the part by which it narrows the median margin of error."""

    change: str
    gain: float


def advise(
    *,
    design: Design,
    queries: Queries,
    rows: int,
    epsilon: Number,
    delta: Number = 0,
    like: Any | None = None,
) -> tuple[Advice, ...]:
    """Return what would narrow intervals, the most helpful first; only changes of 5 % or more."""
    epsilon, delta = parse_epsilon(epsilon), parse_delta(delta)
    now = predict_errors(design=design, queries=queries, rows=rows, epsilon=epsilon, delta=delta, like=like)

    def gain(other: Design, asked: Queries, spent: Fraction) -> float:
        found = predict_errors(design=other, queries=asked, rows=rows, epsilon=spent, delta=delta, like=like)
        by_name = {each.query: each.margin for each in found}
        ratios = [
            math.log(own / each.margin) for each in now if each.margin and (own := by_name.get(each.query))
        ]
        return 1 - math.exp(float(np.median(ratios))) if ratios else 0.0

    tried = [("twice the epsilon", gain(design, queries, 2 * epsilon))]
    if design.clustered or design.replicates is not None:
        known = replace(design, design_effect=replace(design.design_effect, factor=Fraction(2)))
        tried.append(
            (
                "design_effect = { median = …, factor = 2 } in the design, if earlier rounds published design effects",
                gain(known, queries, epsilon),
            )
        )
    if design.weights is not None:
        half = replace(design, max_weight=design.weight_bound / 2)
        tried.append(("half the max_weight, if few rows weigh more", gain(half, queries, epsilon)))
    if len(queries) > 1:
        fewer = Queries(schema=design.schema, queries=queries.queries[: (len(queries) + 1) // 2])
        tried.append(("half as many queries", gain(design, fewer, epsilon)))
    found = [Advice(change=change, gain=own) for change, own in tried if own >= MIN_GAIN]
    return tuple(sorted(found, key=lambda each: -each.gain))
