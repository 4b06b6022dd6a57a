"""Estimates with their errors, from noisy sums: all after the barrier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

import numpy as np

from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema
from populace.survey.calibration.calibrated_counts import answer_count_plan
from populace.survey.estimate_notes import (
    CALIBRATED_WEIGHTS,
    HOT_DECK,
    RESPONSE_WEIGHTS,
    SAMPLE_ONLY,
    VARIANCE_NOT_ESTIMABLE,
)
from populace.survey.estimate_result import Estimate, Group, make_suppressed_row, suppress_nonfinite
from populace.survey.imputation.missing_values import estimate_missing
from populace.survey.queries.adjusted_plan import AdjustedPlan
from populace.survey.queries.queries import Query, Statistic
from populace.survey.queries.query_plan import QueryPlan, list_group_labels
from populace.survey.queries.sum_plan import SumPlan
from populace.survey.queries.sum_questions import SumQuestion
from populace.survey.sums import Sum
from populace.survey.survey_oracle import SurveyOracle
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance, half_width
from populace.survey.variance.linearization import QueryTotals, ask_sums
from populace.survey.variance.woodruff import woodruff_quantile

# A group whose size is not so many deviations of its noise above 0 is suppressed.
MIN_SIZE_Z = 4.0

# What these divide by, or are, is the sum of all weights.
_OF_ALL_WEIGHTS = frozenset(Statistic) - {Statistic.FREQUENCY, Statistic.TOTAL, Statistic.RATIO}
_RATIO_STATISTICS = frozenset(Statistic) - {Statistic.FREQUENCY, Statistic.TOTAL, Statistic.COUNT}


def answer_queries(oracle: SurveyOracle, *, plan: QueryPlan) -> tuple[Estimate, ...]:
    """Ask all that a plan needs, and return the estimates with their errors, in the order of the queries."""
    found: list[Estimate] = []
    if plan.sums is not None:
        found += answer_sum_plan(oracle, plan=plan.sums, budget=plan.budget)
    for adjusted in plan.adjusted:
        found += answer_adjusted_plan(oracle, plan=adjusted)
    for imputation, noise in plan.imputations:
        found += estimate_missing(oracle, imputation, noise=noise)
    if plan.counts is not None:
        found += answer_count_plan(oracle, plan=plan.counts)
    return tuple(
        suppress_nonfinite(row) for query in plan.queries for row in found if row.query == query.name
    )


def answer_adjusted_plan(oracle: SurveyOracle, *, plan: AdjustedPlan) -> tuple[Estimate, ...]:
    """Count the cells that weights are adjusted by, then answer queries by sums of adjusted weights."""
    cells = plan.adjust([answer for _, answer in ask_sums(oracle, [plan.first])])
    # The last adjustment decides what all rows weigh in the end.
    unsure = cells[-1].people * sum(each.unsure**2 for each in cells)
    rows = answer_sum_plan(
        oracle,
        plan=plan.plan_sums(cells),
        budget=plan.budget,
        unsure=unsure,
        imputation=plan.imputation_variance(cells),
    )
    words = [RESPONSE_WEIGHTS if plan.deck is None else HOT_DECK] * bool(plan.filled)
    words += [CALIBRATED_WEIGHTS] * bool(plan.design.totals and plan.weighted)
    return tuple(
        row
        if row.estimate is None
        else replace(row, note="; ".join([*words, *([row.note] if row.note else [])]))
        for row in rows
    )


def answer_sum_plan(
    oracle: SurveyOracle,
    *,
    plan: SumPlan,
    budget: Budget,
    unsure: float = 0.0,
    imputation: tuple[float, float] = (0.0, 0.0),
) -> tuple[Estimate, ...]:
    """Ask all sums of a plan in one go, then who is below which quantile of clusters, and return the estimates."""
    answers = dict(ask_sums(oracle, plan.batches(budget)))
    totals = [
        QueryTotals.of(question, answers, unsure=unsure, imputation=imputation) for question in plan.questions
    ]
    below = {
        place: totals[place].question.sums_below_quantiles(totals[place].totals)
        for place, share in enumerate(plan.second_shares)
        if share
    }
    batches = [
        (sums, budget.sum_noise(plan.second_shares[place], sums=len(sums))) for place, sums in below.items()
    ]
    # Two queries may ask the same: each has its own answer.
    found = iter(ask_sums(oracle, batches) if batches else ())
    for place, sums in below.items():
        totals[place] = replace(totals[place], answers={**answers, **dict(islice(found, len(sums)))})
    return tuple(row for place, each in enumerate(totals) for row in _list_rows(each, below.get(place, ())))


def estimate_weight_total(oracle: SurveyOracle, *, plan: QueryPlan) -> tuple[float, float] | None:
    """Return what all rows weigh that answer the query that most answer, and the deviation of its noise."""
    if plan.sums is None:
        return None
    answers = dict(ask_sums(oracle, plan.sums.batches(plan.budget)))
    found = []
    for question in plan.sums.questions:
        if question.weighted and question.query.where is None and question.query.statistic in _OF_ALL_WEIGHTS:
            totals = QueryTotals.of(question, answers)
            sizes = [totals.size(number) for number in range(len(totals.totals))]
            found.append((sum(size for size, _ in sizes), math.hypot(*(error for _, error in sizes))))
    return max(found, default=None)


def _list_rows(totals: QueryTotals, below: Sequence[Sum]) -> Iterator[Estimate]:
    """Yield the rows of one query: one for each group, and for each value or quantile in it."""
    question = totals.question
    query, schema, axis = question.query, question.design.schema, question.values
    values = [] if axis is None else [(axis.column, text) for text in list_group_labels(schema, axis.column)]
    for number, group in _list_groups(question):
        size, error = totals.size(number)
        lost = query.statistic in _RATIO_STATISTICS and not size > MIN_SIZE_Z * error
        if query.statistic is Statistic.QUANTILE:
            for place, share in enumerate(query.p):
                own = (*group, ("p", f"{float(share):g}"))
                if lost:
                    yield make_suppressed_row(query.name, group=own)
                else:
                    later = below[place] if below else None
                    value, interval, spread, noise, slope = woodruff_quantile(
                        totals, number, float(share), later
                    )
                    yield _make_row(
                        totals, own, value, interval=interval, spread=spread, noise=noise, slope=slope
                    )
        else:
            for place in range(totals.found.values.shape[1]):
                own = (*group, *values[place : place + 1])
                value, gradient = totals.found.values[number, place], totals.found.gradient[number, place]
                if lost or not np.isfinite(value) or not np.isfinite(gradient).all():
                    yield make_suppressed_row(query.name, group=own)
                    continue
                noise, spread = totals.noise(gradient, number), totals.spread(gradient, number)
                half = half_width(spread, noise=noise)
                interval = float(value) - half, float(value) + half
                yield _make_row(totals, own, float(value), interval=interval, spread=spread, noise=noise)


def _make_row(
    totals: QueryTotals,
    group: Group,
    value: float,
    *,
    interval: tuple[float, float],
    spread: SamplingVariance | None,
    noise: NoiseTerms,
    slope: float = 1.0,
) -> Estimate:
    """Return an estimate with its errors: `slope` is how many units of it one of their spread and noise is."""
    question = totals.question
    sampled = question.weighted and spread is not None
    variance = 0.0 if spread is None else spread.variance
    # Of the two parts of a variance, the one that imputation adds.
    part = totals.imputation[0] / (1 + totals.imputation[0]) if sampled else 1.0
    found = Estimate(
        query=question.query.name,
        group=group,
        estimate=value,
        sampling_error=slope * math.sqrt((1 - part) * variance) if sampled else None,
        imputation_error=slope * math.sqrt(part * variance),
        privacy_error=slope * noise.deviation,
        low=interval[0],
        high=interval[1],
        degrees=spread.degrees if sampled and spread else None,
        note=SAMPLE_ONLY
        if spread is None or not sampled
        else VARIANCE_NOT_ESTIMABLE
        if spread.hidden
        else "",
    )
    return found.clip_to(*possible_range(question.query, question.design.schema))


def possible_range(query: Query, schema: Schema) -> tuple[float, float]:
    """Return between which numbers the truth of a query lies, whatever the rows."""
    kind, anything = query.statistic, (-np.inf, np.inf)
    if kind not in (Statistic.MEAN, Statistic.QUANTILE, Statistic.TOTAL):
        fixed = {
            Statistic.CORRELATION: (-1.0, 1.0),
            Statistic.PROPORTION: (0.0, 1.0),
            Statistic.RATIO: anything,
        }
        return fixed.get(kind, (0.0, np.inf))
    low, high = map(float, query.span(query.column or "", schema))
    if kind is Statistic.TOTAL:
        # Weights are above 0, so a total has the sign of its values.
        return 0.0 if low >= 0 else -np.inf, 0.0 if high <= 0 else np.inf
    return low, high


def _list_groups(question: SumQuestion) -> Iterator[tuple[int, Group]]:
    """Yield the number and the texts of each group that rows can be in."""
    schema, names = question.design.schema, [axis.column for axis in question.by]
    texts = [list_group_labels(schema, name) for name in names]
    for number, (cell, can) in enumerate(zip(product(*texts), question.possible.ravel(), strict=True)):
        if can:
            yield number, tuple(zip(names, cell, strict=True))
