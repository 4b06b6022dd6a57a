"""Estimates with their errors, from noisy sums: all after the barrier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from populace.schema.schema import Schema
from populace.survey.calibration.calibrated_counts import estimate_counts
from populace.survey.design.design import Design
from populace.survey.estimate_result import SUPPRESSED, Estimate, Group, cap_error, suppress_nonfinite
from populace.survey.imputation.imputation_plan import ImputationNoise
from populace.survey.imputation.missing_values import estimate_missing
from populace.survey.queries.queries import Queries, Query, Statistic
from populace.survey.queries.query_plan import QueryPlan, list_group_labels
from populace.survey.queries.sum_questions import SumPlan, SumQuestion
from populace.survey.sums import Sum
from populace.survey.survey_oracle import SumBatch, SurveyOracle
from populace.survey.variance.confidence_intervals import SamplingVariance, half_width
from populace.survey.variance.linearization import Answers, NoisySum, QueryTotals
from populace.survey.variance.quantiles import QuantileBins
from populace.survey.variance.statistics_of_totals import ValueAndGradient
from populace.survey.variance.woodruff import sums_below_quantiles

# A group whose size is not so many deviations of its noise above 0 is not told.
MIN_SIZE_Z = 4.0

SAMPLE_ONLY = "of the sample: no sampling error"
VARIANCE_NOT_ESTIMABLE = "noise hides the sampling error, which may be smaller than told"

# What these divide by, or are, is the sum of all weights.
_OF_ALL_WEIGHTS = (
    Statistic.COUNT,
    Statistic.MEAN,
    Statistic.PROPORTION,
    Statistic.VARIANCE,
    Statistic.CORRELATION,
    Statistic.QUANTILE,
)
_RATIO_STATISTICS = (
    Statistic.MEAN,
    Statistic.PROPORTION,
    Statistic.VARIANCE,
    Statistic.CORRELATION,
    Statistic.QUANTILE,
    Statistic.RATIO,
)


def answer_queries(oracle: SurveyOracle, *, design: Design, queries: Queries) -> tuple[Estimate, ...]:
    """Ask all that queries need, and return their estimates with errors, in the order of the queries."""
    ways = QueryPlan.of(design, queries)
    found = [] if ways.plan is None else list(answer_sum_plan(oracle, plan=ways.plan))
    for filling, share in ways.filled:
        laws = ImputationNoise.of(filling, budget=oracle.budget, share=share)
        found += estimate_missing(oracle, filling, laws=laws)
    if ways.counted is not None:
        told = ways.counted
        rows = estimate_counts(oracle, told.counts, weighting=told.weighting, share=told.share)
        found += [
            replace(row, query=query, group=group)
            for row, (query, group) in zip(rows, told.owners, strict=True)
        ]
    return tuple(suppress_nonfinite(row) for query in queries for row in found if row.query == query.name)


def answer_sum_plan(oracle: SurveyOracle, *, plan: SumPlan) -> tuple[Estimate, ...]:
    """Ask all sums of a plan in one go, then who is below which quantile of clusters, and return the estimates."""
    answers = _ask_sums(oracle, plan.batches(oracle.budget))
    told = [QueryTotals.of(question, answers) for question in plan.questions]
    later = {
        place: sums_below_quantiles(told[place].question, told[place].totals)
        for place, share in enumerate(plan.later)
        if share
    }
    second = [
        (sums, oracle.budget.sum_noise(plan.later[place], sums=len(sums))) for place, sums in later.items()
    ]
    # Two queries may ask the same: each has its own answer.
    found = oracle.sum_batches(second) if second else ()
    counts = iter(found)
    for (place, sums), (_, mechanism) in zip(later.items(), second, strict=True):
        own = {each: NoisySum.of(each, next(counts), mechanism) for each in sums}
        told[place] = replace(told[place], answers={**answers, **own})
    return tuple(row for place, each in enumerate(told) for row in _list_rows(each, later.get(place, ())))


def estimate_weight_total(oracle: SurveyOracle, *, plan: SumPlan) -> tuple[float, float] | None:
    """Return what all rows weigh that answer the query that most answer, and the deviation of its noise."""
    answers = _ask_sums(oracle, plan.batches(oracle.budget))
    found = []
    for question in plan.questions:
        if question.weighted and question.query.where is None and question.query.statistic in _OF_ALL_WEIGHTS:
            told = QueryTotals.of(question, answers)
            sizes = [told.size(number) for number in range(len(told.totals))]
            found.append((sum(size for size, _ in sizes), math.hypot(*(unsure for _, unsure in sizes))))
    return max(found, default=None)


def _ask_sums(oracle: SurveyOracle, batches: Sequence[SumBatch]) -> Answers:
    asked = [(each, mechanism) for sums, mechanism in batches for each in sums]
    found = oracle.sum_batches(batches)
    return {
        each: NoisySum.of(each, counts, mechanism)
        for (each, mechanism), counts in zip(asked, found, strict=True)
    }


def _list_rows(told: QueryTotals, later: Sequence[Sum]) -> Iterator[Estimate]:
    """Yield the rows of one query: one for each group, and for each value or quantile in it."""
    question = told.question
    for number, group in _list_groups(question):
        if question.query.statistic is Statistic.QUANTILE:
            yield from _list_quantiles(told, number, group, later=later)
        else:
            values = _list_values(question)
            for place in range(told.found.values.shape[1]):
                own = group if values is None else (*group, values[place])
                yield _make_row(told, told.found, number, place, group=own)


def _make_row(
    told: QueryTotals, found: ValueAndGradient, group_number: int, place: int, *, group: Group
) -> Estimate:
    """Return one number with its errors and its interval, held to what is possible."""
    query, gradient = told.question.query, found.gradient[group_number, place]
    value = float(found.values[group_number, place])
    size, unsure = told.size(group_number)
    lost = query.statistic in _RATIO_STATISTICS and not size > MIN_SIZE_Z * unsure
    if lost or not np.isfinite(value) or not np.isfinite(gradient).all():
        return Estimate(query=query.name, group=group, estimate=None, note=SUPPRESSED)
    noise = told.noise(gradient, group_number)
    spread = told.spread(gradient, group_number)
    reach = half_width(spread, noise=noise)
    low, high = possible_range(query, told.question.design.schema)
    return Estimate(
        query=query.name,
        group=group,
        estimate=float(np.clip(value, low, high)),
        sampling_error=None
        if spread is None
        else cap_error(float(np.sqrt(spread.variance)), low=low, high=high),
        privacy_error=cap_error(noise.deviation, low=low, high=high),
        low=float(np.clip(value - reach, low, high)),
        high=float(np.clip(value + reach, low, high)),
        degrees=None if spread is None else spread.degrees,
        note=_make_note(spread),
    )


def _list_quantiles(
    told: QueryTotals, number: int, group: Group, *, later: Sequence[Sum]
) -> Iterator[Estimate]:
    """Yield quantiles: the interval of the share below each one, turned into an interval of values."""
    query, schema = told.question.query, told.question.design.schema
    bins = QuantileBins.of(query, schema)
    counts = told.totals[number]
    low, high = possible_range(query, schema)
    for place, share in enumerate(query.p, start=1):
        own = (*group, ("p", f"{float(share):g}"))
        size, unsure = told.size(number)
        if not size > MIN_SIZE_Z * unsure:
            yield Estimate(query=query.name, group=own, estimate=None, note=SUPPRESSED)
            continue
        value = bins.quantile(counts, float(share))
        gradient = (bins.below(counts, float(share)) - float(share)) / size
        # What lies inside a bin is a guess: two of them tell how good it is.
        guess = abs(value - bins.straight(counts, float(share)))
        noise = told.noise(gradient, number)
        spread = (
            told.variance_below(gradient, number, located=(later[0], later[place]), share=float(share))
            if later
            else told.spread(gradient, number)
        )
        reach = half_width(spread, noise=noise)
        ends = [bins.quantile(counts, float(share) + sign * reach) for sign in (-1, 1)]
        # One unit of the share below is so many of the value.
        slope = (ends[1] - ends[0]) / (2 * reach) if reach else 0.0
        yield Estimate(
            query=query.name,
            group=own,
            estimate=float(np.clip(value, low, high)),
            sampling_error=None
            if spread is None
            else cap_error(slope * float(np.sqrt(spread.variance)), low=low, high=high),
            privacy_error=cap_error(slope * noise.deviation, low=low, high=high),
            low=float(np.clip(ends[0] - guess, low, high)),
            high=float(np.clip(ends[1] + guess, low, high)),
            degrees=None if spread is None else spread.degrees,
            note=_make_note(spread),
        )


def _make_note(spread: SamplingVariance | None) -> str:
    if spread is None:
        return SAMPLE_ONLY
    return VARIANCE_NOT_ESTIMABLE if spread.hidden else ""


def possible_range(query: Query, schema: Schema) -> tuple[float, float]:
    """Return between which numbers the truth of a query lies, whatever the rows."""
    kind = query.statistic
    if kind in (Statistic.MEAN, Statistic.QUANTILE):
        low, high = query.span(query.column or "", schema)
        return float(low), float(high)
    if kind is Statistic.CORRELATION:
        return -1.0, 1.0
    if kind is Statistic.PROPORTION:
        return 0.0, 1.0
    if kind is Statistic.TOTAL:
        # Weights are above 0, so a total has the sign of its values.
        low, high = query.span(query.column or "", schema)
        return 0.0 if low >= 0 else -np.inf, 0.0 if high <= 0 else np.inf
    if kind in (Statistic.COUNT, Statistic.FREQUENCY, Statistic.VARIANCE):
        return 0.0, np.inf
    return -np.inf, np.inf


def _list_groups(question: SumQuestion) -> Iterator[tuple[int, Group]]:
    """Yield the number and the texts of each group that rows can be in."""
    schema, names = question.design.schema, [axis.column for axis in question.by]
    texts = [list_group_labels(schema, name) for name in names]
    for number, (cell, can) in enumerate(zip(product(*texts), question.possible.ravel(), strict=True)):
        if can:
            yield number, tuple(zip(names, cell, strict=True))


def _list_values(question: SumQuestion) -> list[tuple[str, str]] | None:
    axis = question.values
    if axis is None:
        return None
    return [(axis.column, text) for text in list_group_labels(question.design.schema, axis.column)]
