"""Quantiles from weighted counts in bins: a few dozen groups of a column's codes, and a curve through their ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import SchemaError
from populace.core.marginals import Grouping
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.schema import Schema
from populace.survey.queries.cells import Axis
from populace.survey.queries.queries import Query

# More would hold little but noise each, fewer would leave too much to the drawing of a curve through them.
MAX_QUANTILE_BINS = 48
# Points of the curve in each bin.
CURVE_POINTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileBins:
    """The bins of one column of numbers: which code is in which, and where they begin and end.

    >>> bins = QuantileBins.of(Query(statistic="quantile", column="AGE", p=(0.5,)), Schema.from_sizes({"AGE": 4}))
    >>> bins.edges, bins.axis.levels
    ((-0.5, 0.5, 1.5, 2.5, 3.5), 4)
    """

    axis: Axis
    edges: tuple[float, ...]

    @classmethod
    def of(cls, query: Query, schema: Schema) -> QuantileBins:
        """Return the bins of the column of a query; what lies beyond its range is in the first or the last."""
        column = schema.columns[query.column or ""]
        if not isinstance(column, IntegerColumn | DecimalColumn) or len(column.variables) > 1:
            raise SchemaError(
                f"{query.place}: column {column.name!r} has no bins to look for quantiles in.",
                hint="ask for quantiles of a column of numbers that is not split",
            )
        low, high = query.span(column.name, schema)
        # A whole number stands for all that round to it.
        half = Fraction(1, 2) if isinstance(column, IntegerColumn) else Fraction(0)
        bounds = [column.bounds(level) for level in range(column.levels)]
        ends = [(first - half, last + half) for first, last in bounds]
        own = [level for level, (first, last) in enumerate(ends) if last > low and first < high]
        starts = own[:: math.ceil(len(own) / MAX_QUANTILE_BINS)]
        groups = np.searchsorted(starts, range(column.levels), side="right") - 1
        groups = np.clip(groups, 0, None).tolist()
        special = range(len(starts), len(starts) + column.size - column.levels)
        return cls(
            axis=Axis(
                column=column.name,
                levels=len(starts),
                grouping=Grouping(column.name, (*groups, *special)),
            ),
            edges=tuple(float(edge) for edge in (*(ends[level][0] for level in starts), ends[own[-1]][1])),
        )

    def below(self, counts: Floats, share: float) -> Floats:
        """Return the part of each bin that lies below the quantile of a share.

        >>> bins = QuantileBins(axis=Axis(column="A", levels=2), edges=(0.0, 1.0, 3.0))
        >>> bins.below(np.array([1.0, 1.0]), 0.75).tolist()
        [1.0, 0.5]
        """
        climbed = _monotone_shares(counts)
        rise = np.diff(climbed)
        return np.where(
            rise > 0, np.clip((share - climbed[:-1]) / np.maximum(rise, 1e-300), 0, 1), climbed[1:] <= share
        )

    def quantile(self, counts: Floats, share: float) -> float:
        """Return the value below which a share of noisy counts lies.

        Shares at the ends of bins are made to climb, and a smooth climbing curve is drawn through them.

        >>> bins = QuantileBins(axis=Axis(column="A", levels=3), edges=(0.0, 1.0, 2.0, 3.0))
        >>> bins.quantile(np.array([1.0, 2.0, 1.0]), 0.5)
        1.5
        """
        values, shares = self._curve(_monotone_shares(counts))
        return float(np.interp(share, shares, values))

    def straight(self, counts: Floats, share: float) -> float:
        """Return the same with straight lines between the ends of bins: the difference tells what bins leave open."""
        return float(np.interp(share, _monotone_shares(counts), self.edges))

    def _curve(self, shares: Floats) -> tuple[Floats, Floats]:
        """Return points of a smooth curve that climbs wherever the shares do. Source: Fritsch and Butland 1984."""
        edges = np.array(self.edges)
        width, rise = np.diff(edges), np.diff(shares)
        slope = rise / width
        # The harmonic mean of neighbouring slopes, weighted by widths; none where one of them is level.
        first, second = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
        level = (slope[:-1] <= 0) | (slope[1:] <= 0)
        safe = np.where(slope > 0, slope, 1.0)
        inner = np.where(level, 0.0, (first + second) / (first / safe[:-1] + second / safe[1:]))
        ends = np.concatenate([slope[:1], inner, slope[-1:]])
        part = np.linspace(0, 1, CURVE_POINTS, endpoint=False)[None]
        curve = (
            shares[:-1, None] * (1 + 2 * part) * (1 - part) ** 2
            + shares[1:, None] * part**2 * (3 - 2 * part)
            + (width * ends[:-1])[:, None] * part * (1 - part) ** 2
            - (width * ends[1:])[:, None] * part**2 * (1 - part)
        )
        values = edges[:-1, None] + part * width[:, None]
        climbing = np.maximum.accumulate(np.append(curve.ravel(), shares[-1]))
        return np.append(values.ravel(), edges[-1]), climbing


def _monotone_shares(counts: Floats) -> Floats:
    """Return the shares below the ends of bins, made to climb: the middle of the lowest and highest climbing line."""
    climbed = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
    climbed = (np.maximum.accumulate(climbed) + np.minimum.accumulate(climbed[::-1])[::-1]) / 2
    return np.clip(climbed, 0, 1)
