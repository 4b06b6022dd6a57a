"""Second questions about quantiles of clustered samples: once a quantile is located, how much of each psu lies below.

By bin, a psu's rows are below with the noise of all bins. Below a value that is known by then, they are one number.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Marginal
from populace.survey.queries.sum_questions import SumQuestion
from populace.survey.sums import CellWeights, Sum
from populace.survey.variance.quantiles import QuantileBins

# Parts of the bin that holds a quantile are told in so many steps: two machines then ask the same.
BIN_PARTS = 64


def sums_below_quantiles(question: SumQuestion, totals: Floats) -> tuple[Sum, ...]:
    """Return, by psu and group, the sum of all rows, and for each share of a query that of rows below its quantile.

    `totals` are noisy counts of the sample, groups × bins.
    """
    query, schema = question.query, question.design.schema
    bins = QuantileBins.of(query, schema)
    by = Marginal.with_groupings(
        (*(axis.column for axis in question.by), bins.axis.column),
        {} if bins.axis.grouping is None else {bins.axis.column: bins.axis.grouping},
    )
    found = [question.psu_rows]
    for share in query.p:
        parts = np.array([_parts_below(bins, counts, float(share)) for counts in totals])
        levels = tuple(axis.levels for axis in (*question.by, bins.axis))
        values = np.zeros(by.shape(schema.domain), dtype=np.int64)
        values[tuple(slice(size) for size in levels)] = parts.reshape(levels)
        weights = CellWeights(by=by, values=tuple(Fraction(int(each), BIN_PARTS) for each in values.ravel()))
        found.append(replace(question.psu_rows, weights=weights))
    return tuple(found)


def _parts_below(bins: QuantileBins, counts: Floats, share: float) -> Floats:
    """Return how many of its parts each bin has below a quantile; the lower half where noise leaves no rows.

    >>> from populace.survey.queries.cells import Axis
    >>> _parts_below(QuantileBins(axis=Axis(column="A", levels=2), edges=(0.0, 1.0, 3.0)), np.array([1.0, 1.0]), 0.75)
    array([64., 32.])
    """
    size = len(counts)
    known = counts.sum() > 0
    parts = bins.below(counts, share) if known else (np.arange(size) < size / 2).astype(np.float64)
    below: Floats = np.rint(parts * BIN_PARTS)
    # Something lies below every quantile.
    below[0] = max(below[0], 1.0)
    return below
