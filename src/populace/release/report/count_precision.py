"""The precision of the counts of each measured marginal, once all measurements are combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from populace.core.marginals import Marginal
from populace.inference.gls.count_intervals import CountInterval, CountIntervals
from populace.measurements.measurements import Measurements
from populace.measurements.pooled_counts import combine_repeats, group_repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPrecision:
    """One measured marginal: the 95 % margin of error of its counts, in rows and as a share of all rows.

    `margin` is that of the median cell; cells that are certain are left out, unless all of them are. `deviation` is
    the standard deviation of the noise in one measured count, repeats combined; the number of rows may have none.
    """

    columns: tuple[str, ...]
    cells: int
    margin: float
    share: float
    deviation: float | None


def summarize_precision(
    found: CountIntervals, *, measurements: Measurements, total: float
) -> tuple[CountPrecision, ...]:
    """Return the precision of each measured marginal: the number of rows, columns, pairs, the least precise first."""
    deviations = {
        item.marginal: float(item.variance) ** 0.5
        for item in map(combine_repeats, group_repeats(measurements.items))
    }
    shown = [_summarize_interval(each, deviations, total=total) for each in _measured_intervals(found)]
    return tuple(sorted(shown, key=lambda each: (len(each.columns), -each.margin, each.columns)))


def _measured_intervals(found: CountIntervals) -> Iterator[CountInterval]:
    """Yield the number of rows, which everything tells, and all that was measured but tables that learnt bins."""
    yield found.of()
    for marginal in found.measured:
        if len(marginal.clique) > 1 or (marginal.clique and not marginal.groupings):
            yield found.at(marginal)


def _summarize_interval(
    interval: CountInterval, deviations: Mapping[Marginal, float], *, total: float
) -> CountPrecision:
    open_cells = interval.half_width[interval.half_width > 0]
    margin = float(np.median(open_cells)) if open_cells.size else 0.0
    return CountPrecision(
        columns=interval.marginal.clique,
        cells=interval.estimate.size,
        margin=margin,
        share=margin / total,
        deviation=deviations.get(interval.marginal),
    )
