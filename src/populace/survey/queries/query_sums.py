"""From a query to the sum that answers it: which cells rows are shared out over, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import SchemaError
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.cells import Axis
from populace.survey.queries.queries import Query, Statistic
from populace.survey.queries.sum_questions import LINEAR, Statistics, SumQuestion
from populace.survey.sums import Indicator, MomentSplit, SumFactor
from populace.survey.variance import statistics_of_totals as functions
from populace.survey.variance.quantiles import QuantileBins
from populace.survey.variance.statistics_of_totals import ValueAndGradient


def make_sum_question(query: Query, design: Design) -> SumQuestion:
    """Return a query as a sum."""
    by = tuple(Axis.of(design.schema, name, place=query.place) for name in query.by)
    values = None
    if query.values:
        values = Axis.of(design.schema, query.column or "", place=query.place)
    elif query.statistic is Statistic.QUANTILE:
        values = QuantileBins.of(query, design.schema).axis
    if values is not None and values.column in (*query.by, *design.cells):
        raise SchemaError(
            f"{query.place}: rows are grouped by {values.column!r} twice.",
            hint="ask for groups by other columns than the one whose values are asked for, strata and psus included",
        )
    by_units = design.clustered or design.replicates is not None
    factors, splits, statistic = _split_numbers(query, design.schema, by_units=by_units)
    return SumQuestion(
        query=query, design=design, by=by, values=values, splits=splits, factors=factors, statistic=statistic
    )


_DEGREES = {Statistic.VARIANCE: 2, Statistic.CORRELATION: 2}


def _split_numbers(
    query: Query, schema: Schema, *, by_units: bool
) -> tuple[tuple[SumFactor, ...], tuple[MomentSplit, ...], Statistics]:
    """Return what is multiplied with weights, what rows are shared out by, and what becomes of the cells."""
    kind = query.statistic
    if kind is Statistic.PROPORTION and query.that is not None:
        return (
            (),
            (MomentSplit(of=Indicator(that=query.that)),),
            _of_moments(functions.ratios, [[0, 1], [1, 1]]),
        )
    if not query.numbers or kind is Statistic.QUANTILE:
        return (), (), functions.shares if query.values else functions.totals
    spans = [query.span(column, schema) for column in query.numbers]
    numbers = [
        SumFactor(column=column, low=low, high=high)
        for column, (low, high) in zip(query.numbers, spans, strict=True)
    ]
    if kind is Statistic.TOTAL and not by_units:
        return tuple(numbers), (), functions.totals
    # To the second degree, cells tell how rows differ, which says what to expect of units.
    own = 2 if by_units and kind in LINEAR else 1
    splits = tuple(MomentSplit(of=each, degree=_DEGREES.get(kind, own)) for each in numbers)
    lows, widths = [float(low) for low, _ in spans], [float(high - low) for low, high in spans]
    if len(splits) == 1:
        moments = [splits[0].moment(power) * widths[0] ** power for power in range(splits[0].degree + 1)]
        if kind is Statistic.TOTAL:
            return (), splits, _of_moments(functions.totals, [lows[0] * moments[0] + moments[1]])
        if kind is Statistic.VARIANCE:
            return (), splits, _of_moments(functions.variances, moments)
        return (), splits, _of_moments(partial(functions.means, centre=lows[0]), moments[:2])

    def moment(first: int, second: int) -> Floats:
        held = [split.moment(power) for split, power in zip(splits, (first, second), strict=True)]
        scale = widths[0] ** first * widths[1] ** second
        return scale * np.multiply.outer(*held).ravel()

    if kind is Statistic.RATIO:
        above, below = (low * moment(0, 0) + moment(1 - turn, turn) for turn, low in enumerate(lows))
        return (), splits, _of_moments(functions.ratios, [above, below])
    powers = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    return (), splits, _of_moments(functions.correlations, [moment(*each) for each in powers])


def _of_moments(statistic: Statistics, moments: Sequence[Sequence[float] | Floats]) -> Statistics:
    """Return a statistic of moments as one of cells, from which moments are linear sums."""
    matrix = np.array(moments, dtype=np.float64)

    def of_cells(cells: Floats) -> ValueAndGradient:
        found = statistic(cells @ matrix.T)
        return ValueAndGradient(values=found.values, gradient=found.gradient @ matrix)

    return of_cells
