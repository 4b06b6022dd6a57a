"""Design-based estimates of a table that is public: exact, with sampling errors, and without any protection.

For the tables that an agency has published, or made up, and to compare with R's survey package. Rows are summed by
psu, and from there on everything is what noisy sums go through as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.schema.hints import quote_names
from populace.survey.design import survey_columns as columns
from populace.survey.design.design import Design
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_notes import NO_ROWS, SAMPLE_ONLY
from populace.survey.estimate_result import Estimate, Group
from populace.survey.queries.queries import Queries, Query, Statistic
from populace.survey.variance import statistics_of_totals as functions
from populace.survey.variance.confidence_intervals import errors_in_margin
from populace.survey.variance.sampled_rows import Function, SampledRows
from populace.survey.variance.statistics_of_totals import ValueAndGradient


def estimate_public_rows(frame: Any, *, design: Design, queries: Queries) -> list[Estimate]:
    """Return the estimates of a public table, each with its sampling error and an interval at 95 %.

    **Nothing is protected**: the answers are exact, no budget is spent, and no ledger is asked. Use it for tables that
    everybody may have, never for confidential rows.
    """
    if design.schema != queries.schema:
        raise UsageError("the design and the queries have other schemas.", hint="read both with one schema")
    named = dict.fromkeys(name for query in queries for name in query.named)
    if filled := [name for name in named if design.handling(name) is not MissingHandling.IGNORE]:
        raise UsageError(
            f"missing answers of {quote_names(filled)} are not filled in public tables.",
            hint="leave [missing] out of the design: rows without an answer do not count",
        )
    rows = SampledRows(frame, design)
    return [estimate for query in queries for estimate in _estimate_query(rows, query)]


def _sample_variances(totals: Floats, *, rows: int) -> ValueAndGradient:
    """Return variances as R's svyvar has them: as if the mean had taken one of so many rows."""
    found = functions.variances(totals)
    free = rows / (rows - 1) if rows > 1 else math.nan
    return ValueAndGradient(values=found.values * free, gradient=found.gradient * free)


def _estimate_query(rows: SampledRows, query: Query) -> Iterator[Estimate]:
    schema = rows.design.schema
    inside = rows.meets(query.where)
    for name in query.known:
        inside = inside & rows.known(name)
    scales = [columns.scale(schema, name, place=query.place) for name in query.by]
    for cell in product(*(range(scale.levels) for scale in scales)):
        members = inside.copy()
        for name, code in zip(query.by, cell, strict=True):
            members &= rows.codes(name) == code
        texts = [scale.text(code) for scale, code in zip(scales, cell, strict=True)]
        group: Group = tuple(zip(query.by, texts, strict=True))
        if not members.any() and query.statistic not in (Statistic.FREQUENCY, Statistic.COUNT):
            yield Estimate(query=query.name, group=group, estimate=None, note=NO_ROWS)
        else:
            yield from _estimate_group(rows, query, members=members, group=group)


def _estimate_group(rows: SampledRows, query: Query, *, members: Truth, group: Group) -> Iterator[Estimate]:
    if query.statistic is Statistic.FREQUENCY:
        count = float(members.sum())
        yield Estimate(
            query=query.name, group=group, estimate=count, privacy_error=0.0, low=count, high=count,
            note=SAMPLE_ONLY,
        )  # fmt: skip
        return
    if query.statistic is Statistic.QUANTILE:
        for p in query.p:
            own = (*group, ("p", f"{float(p):g}"))
            yield _estimate_quantile(rows, query, p=float(p), members=members, group=own)
        return
    terms, function = _row_terms(rows, query, members=members)
    values, variance = rows.estimate(terms, members=members, function=function)
    labels: list[Group] = [()]
    if query.values and query.column is not None:
        scale = columns.scale(rows.design.schema, query.column, place=query.place)
        labels = [((query.column, text),) for text in columns.values(scale)]
    # A proportion that meets a condition has a second number: the share that does not.
    for label, value, square in zip(labels, values.tolist(), variance.tolist(), strict=False):
        own = (*group, *label)
        if not math.isfinite(value):
            yield Estimate(query=query.name, group=own, estimate=None, note=NO_ROWS)
            continue
        error = math.sqrt(max(square, 0.0)) if math.isfinite(square) else math.nan
        wide = errors_in_margin(rows.degrees) * error if rows.degrees > 0 else math.inf
        yield _make_estimate(
            query, own, value, error=error, low=value - wide, high=value + wide, degrees=rows.degrees
        )


def _row_terms(rows: SampledRows, query: Query, *, members: Truth) -> tuple[Floats, Function]:
    """Return the terms of a query for each row, 0 outside the group, and the statistic as a function of totals."""
    kind = query.statistic
    one = members.astype(np.float64)
    if kind is Statistic.COUNT:
        return one[:, None], functions.totals
    if kind is Statistic.PROPORTION and query.column is not None:
        scale = columns.scale(rows.design.schema, query.column, place=query.place)
        here = rows.codes(query.column)[:, None] == np.arange(scale.levels)
        return one[:, None] * here, functions.shares
    if kind is Statistic.PROPORTION:
        holds = rows.meets(query.that).astype(np.float64)
        return one[:, None] * np.stack([holds, 1 - holds], axis=1), functions.shares
    x, y = (_clip_numbers(rows, query, name, members=members) for name in (query.column, query.y))
    if kind is Statistic.TOTAL:
        return x[:, None], functions.totals
    if kind is Statistic.RATIO:
        return np.stack([y, x], axis=1), partial(functions.means, centre=0.0)
    # Squares of what lies around the mean keep their digits.
    weight = rows.weight * one
    centre = float(weight @ x / weight.sum())
    x = (x - centre) * one
    if kind is Statistic.MEAN:
        return np.stack([one, x], axis=1), partial(functions.means, centre=centre)
    if kind is Statistic.VARIANCE:
        return np.stack([one, x, x**2], axis=1), partial(_sample_variances, rows=int(members.sum()))
    y = (y - float(weight @ y / weight.sum())) * one
    return np.stack([one, x, y, x**2, x * y, y**2], axis=1), functions.correlations


def _clip_numbers(rows: SampledRows, query: Query, name: str | None, *, members: Truth) -> Floats:
    """Return the numbers of a column, held to the range of the query, 0 outside the group."""
    if name is None:
        return np.zeros(len(members))
    low, high = query.span(name, rows.design.schema)
    return np.where(members, np.clip(rows.numbers(name), float(low), float(high)), 0.0)


def _estimate_quantile(
    rows: SampledRows, query: Query, *, p: float, members: Truth, group: Group
) -> Estimate:
    """Return a quantile with Woodruff's interval: that of the share below it, seen as quantiles again.

    Source: Woodruff 1952; R's svyquantile with its defaults.
    """
    values = _clip_numbers(rows, query, query.column, members=members)
    order = np.argsort(values[members], kind="stable")
    ordered, weight = values[members][order], rows.weight[members][order]
    reached = np.cumsum(weight) / weight.sum()

    def at(share: float) -> float:
        if not 0 <= share <= 1:
            return math.nan
        return float(ordered[min(int(np.searchsorted(reached, share - 1e-12)), len(ordered) - 1)])

    middle = at(p)
    below = (members & (values <= middle)).astype(np.float64)
    terms = np.stack([below, members - below], axis=1)
    shares, variance = rows.estimate(terms, members=members, function=functions.shares)
    error = math.sqrt(max(float(variance[0]), 0.0))
    wide = errors_in_margin(rows.degrees)
    low, high = (at(float(shares[0]) + side * wide * error) for side in (-1, 1))
    own = (high - low) / (2 * wide)
    return _make_estimate(query, group, middle, error=own, low=low, high=high, degrees=rows.degrees)


def _make_estimate(
    query: Query, group: Group, value: float, *, error: float, low: float, high: float, degrees: float
) -> Estimate:
    """Return an estimate; what is not finite is not known."""

    def keep_finite(number: float) -> float | None:
        return number if math.isfinite(number) else None

    return Estimate(
        query=query.name,
        group=group,
        estimate=value,
        sampling_error=keep_finite(error),
        privacy_error=0.0,
        low=keep_finite(low),
        high=keep_finite(high),
        degrees=degrees,
    )
