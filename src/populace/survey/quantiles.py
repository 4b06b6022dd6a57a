"""Quantiles from weighted counts in bins: a few dozen groups of a column's codes, and lines between their ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from populace.errors import SchemaError
from populace.marginals import Grouping
from populace.schema.ranges import Integer, Numeric
from populace.schema.schema import Schema
from populace.survey.cells import Axis
from populace.survey.queries import Query

# More would hold little but noise each, fewer would leave too much to the drawing of lines between them.
MOST_BINS = 48

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """The bins of one column of numbers: which code is in which, and where they begin and end.

    >>> bins = Bins.of(Query(statistic="quantile", column="AGE", p=(0.5,)), Schema.from_sizes({"AGE": 4}))
    >>> bins.edges, bins.axis.levels
    ((-0.5, 0.5, 1.5, 2.5, 3.5), 4)
    """

    axis: Axis
    edges: tuple[float, ...]

    @classmethod
    def of(cls, query: Query, schema: Schema) -> Bins:
        """Return the bins of the column of a query; what lies beyond its range is in the first or the last."""
        column = schema.columns[query.column or ""]
        if not isinstance(column, Integer | Numeric) or len(column.variables) > 1:
            raise SchemaError(
                f"{query.place}: column {column.name!r} has no bins to look for quantiles in.",
                hint="ask for quantiles of a column of numbers that is not split",
            )
        low, high = query.span(column.name, schema)
        ends = [_ends(column, level) for level in range(column.levels)]
        own = [level for level, (first, last) in enumerate(ends) if last > low and first < high]
        starts = own[:: math.ceil(len(own) / MOST_BINS)]
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

    def below(self, value: float) -> Floats:
        """Return the share of each bin that lies below a value."""
        edges = np.array(self.edges)
        return np.clip((value - edges[:-1]) / np.diff(edges), 0, 1)

    def quantile(self, counts: Floats, share: float) -> float:
        """Return the value below which a share of noisy counts lies; the shares are made to climb first.

        >>> Bins.quantile(Bins(axis=Axis(column="A", levels=2), edges=(0.0, 1.0, 3.0)), np.array([1.0, 1.0]), 0.75)
        2.0
        """
        climbed = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
        # Noise makes counts negative here and there: the middle of the lowest and highest climbing line.
        climbed = (np.maximum.accumulate(climbed) + np.minimum.accumulate(climbed[::-1])[::-1]) / 2
        return float(np.interp(share, np.clip(climbed, 0, 1), self.edges))


def _ends(column: Integer | Numeric, level: int) -> tuple[Fraction, Fraction]:
    """Return from where to where a code goes; a whole number stands for all that round to it."""
    first, last = column.bounds(level)
    half = Fraction(1, 2) if isinstance(column, Integer) else Fraction(0)
    return first - half, last + half
