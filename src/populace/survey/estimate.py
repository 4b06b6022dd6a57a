"""Estimates with their errors, from noisy sums: all after the barrier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from populace.schema.schema import Schema
from populace.survey.design import Design
from populace.survey.functions import Found
from populace.survey.intervals import Spread, half_width
from populace.survey.located import located
from populace.survey.missing import estimate_missing
from populace.survey.oracle import SumBatch, SurveyOracle
from populace.survey.plan import Plan, Question
from populace.survey.quantiles import Bins
from populace.survey.queries import Queries, Query, Statistic
from populace.survey.result import TOO_FEW, Estimate, Group, finite, possible_error
from populace.survey.sums import Sum
from populace.survey.told import Answers, Noisy, Told
from populace.survey.ways import Ways, group_texts
from populace.survey.weighting import weighted_counts
from populace.survey.wishes import Laws

# A group whose size is not so many deviations of its noise above 0 is not told.
FEWEST = 4.0

OF_THE_SAMPLE = "of the sample: no sampling error"
UNKNOWN = "noise hides the sampling error, which may be smaller than told"

# What these divide by, or are, is the sum of all weights.
_WEIGHED = (
    Statistic.COUNT,
    Statistic.MEAN,
    Statistic.PROPORTION,
    Statistic.VARIANCE,
    Statistic.CORRELATION,
    Statistic.QUANTILE,
)
_DIVIDED = (
    Statistic.MEAN,
    Statistic.PROPORTION,
    Statistic.VARIANCE,
    Statistic.CORRELATION,
    Statistic.QUANTILE,
    Statistic.RATIO,
)


def answer(oracle: SurveyOracle, *, design: Design, queries: Queries) -> tuple[Estimate, ...]:
    """Ask all that queries need, and return their estimates with errors, in the order of the queries."""
    ways = Ways.of(design, queries)
    found = [] if ways.plan is None else list(concluded(oracle, plan=ways.plan))
    for filling, share in ways.filled:
        laws = Laws.of(filling, budget=oracle.budget, share=share)
        found += estimate_missing(oracle, filling, laws=laws)
    if ways.counted is not None:
        told = ways.counted
        rows = weighted_counts(oracle, told.counts, weighting=told.weighting, share=told.share)
        found += [
            replace(row, query=query, group=group)
            for row, (query, group) in zip(rows, told.owners, strict=True)
        ]
    return tuple(finite(row) for query in queries for row in found if row.query == query.name)


def concluded(oracle: SurveyOracle, *, plan: Plan) -> tuple[Estimate, ...]:
    """Ask all sums of a plan in one go, then who is below which quantile of clusters, and return the estimates."""
    answers = _answers(oracle, plan.batches(oracle.budget))
    told = [Told.of(question, answers) for question in plan.questions]
    later = {
        place: located(told[place].question, told[place].totals)
        for place, share in enumerate(plan.later)
        if share
    }
    second = [
        (sums, oracle.budget.sum_noise(plan.later[place], sums=len(sums))) for place, sums in later.items()
    ]
    # Two queries may ask the same: each has its own answer.
    found = oracle.sum_batches(second) if second else ()
    counts = iter(found)
    for (place, sums), (_, law) in zip(later.items(), second, strict=True):
        own = {each: Noisy.of(each, next(counts), law) for each in sums}
        told[place] = replace(told[place], answers={**answers, **own})
    return tuple(row for place, each in enumerate(told) for row in _rows(each, later.get(place, ())))


def weighed(oracle: SurveyOracle, *, plan: Plan) -> tuple[float, float] | None:
    """Return what all rows weigh that answer the query that most answer, and the deviation of its noise."""
    answers = _answers(oracle, plan.batches(oracle.budget))
    found = []
    for question in plan.questions:
        if question.weighted and question.query.where is None and question.query.statistic in _WEIGHED:
            told = Told.of(question, answers)
            sizes = [told.size(number) for number in range(len(told.totals))]
            found.append((sum(size for size, _ in sizes), math.hypot(*(unsure for _, unsure in sizes))))
    return max(found, default=None)


def _answers(oracle: SurveyOracle, batches: Sequence[SumBatch]) -> Answers:
    asked = [(each, law) for sums, law in batches for each in sums]
    found = oracle.sum_batches(batches)
    return {each: Noisy.of(each, counts, law) for (each, law), counts in zip(asked, found, strict=True)}


def _rows(told: Told, later: Sequence[Sum]) -> Iterator[Estimate]:
    """Yield the rows of one query: one for each group, and for each value or quantile in it."""
    question = told.question
    for number, group in _groups(question):
        if question.query.statistic is Statistic.QUANTILE:
            yield from _quantiles(told, number, group, later=later)
        else:
            values = _values(question)
            for place in range(told.found.values.shape[1]):
                own = group if values is None else (*group, values[place])
                yield _row(told, told.found, number, place, group=own)


def _row(told: Told, found: Found, group_number: int, place: int, *, group: Group) -> Estimate:
    """Return one number with its errors and its interval, held to what is possible."""
    query, gradient = told.question.query, found.gradient[group_number, place]
    value = float(found.values[group_number, place])
    size, unsure = told.size(group_number)
    lost = query.statistic in _DIVIDED and not size > FEWEST * unsure
    if lost or not np.isfinite(value) or not np.isfinite(gradient).all():
        return Estimate(query=query.name, group=group, estimate=None, note=TOO_FEW)
    noise = told.noise(gradient, group_number)
    spread = told.spread(gradient, group_number)
    reach = half_width(spread, noise=noise)
    low, high = possible(query, told.question.design.schema)
    return Estimate(
        query=query.name,
        group=group,
        estimate=float(np.clip(value, low, high)),
        sampling_error=None
        if spread is None
        else possible_error(float(np.sqrt(spread.variance)), low=low, high=high),
        privacy_error=possible_error(noise.deviation, low=low, high=high),
        low=float(np.clip(value - reach, low, high)),
        high=float(np.clip(value + reach, low, high)),
        degrees=None if spread is None else spread.degrees,
        note=_note(spread),
    )


def _quantiles(told: Told, number: int, group: Group, *, later: Sequence[Sum]) -> Iterator[Estimate]:
    """Yield quantiles: the interval of the share below each one, turned into an interval of values."""
    query, schema = told.question.query, told.question.design.schema
    bins = Bins.of(query, schema)
    counts = told.totals[number]
    low, high = possible(query, schema)
    for place, share in enumerate(query.p, start=1):
        own = (*group, ("p", f"{float(share):g}"))
        size, unsure = told.size(number)
        if not size > FEWEST * unsure:
            yield Estimate(query=query.name, group=own, estimate=None, note=TOO_FEW)
            continue
        value = bins.quantile(counts, float(share))
        gradient = (bins.below(counts, float(share)) - float(share)) / size
        # What lies inside a bin is a guess: two of them tell how good it is.
        guess = abs(value - bins.straight(counts, float(share)))
        noise = told.noise(gradient, number)
        spread = (
            told.spread_below(gradient, number, located=(later[0], later[place]), share=float(share))
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
            else possible_error(slope * float(np.sqrt(spread.variance)), low=low, high=high),
            privacy_error=possible_error(slope * noise.deviation, low=low, high=high),
            low=float(np.clip(ends[0] - guess, low, high)),
            high=float(np.clip(ends[1] + guess, low, high)),
            degrees=None if spread is None else spread.degrees,
            note=_note(spread),
        )


def _note(spread: Spread | None) -> str:
    if spread is None:
        return OF_THE_SAMPLE
    return UNKNOWN if spread.hidden else ""


def possible(query: Query, schema: Schema) -> tuple[float, float]:
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


def _groups(question: Question) -> Iterator[tuple[int, Group]]:
    """Yield the number and the texts of each group that rows can be in."""
    schema, names = question.design.schema, [axis.column for axis in question.by]
    texts = [group_texts(schema, name) for name in names]
    for number, (cell, can) in enumerate(zip(product(*texts), question.possible.ravel(), strict=True)):
        if can:
            yield number, tuple(zip(names, cell, strict=True))


def _values(question: Question) -> list[tuple[str, str]] | None:
    axis = question.values
    if axis is None:
        return None
    return [(axis.column, text) for text in group_texts(question.design.schema, axis.column)]
