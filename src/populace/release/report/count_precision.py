"""How sure the counts of each measured marginal are, once all measurements are combined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from populace.inference.gls.count_intervals import CountInterval, CountIntervals


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPrecision:
    """One measured marginal: how far 19 of 20 true counts are from their estimates at most, in rows and as a share.

    `reach` is that of the cell in the middle; cells that are certain are left out, unless all of them are.
    """

    columns: tuple[str, ...]
    cells: int
    reach: float
    share: float


def summarize_precision(found: CountIntervals, *, total: float) -> tuple[CountPrecision, ...]:
    """Return how sure each measured marginal is: the number of rows, columns, pairs, the least sure of each first."""
    shown = [_summarize_interval(interval, total=total) for interval in _measured_intervals(found)]
    return tuple(sorted(shown, key=lambda sure: (len(sure.columns), -sure.reach, sure.columns)))


def _measured_intervals(found: CountIntervals) -> Iterator[CountInterval]:
    """Yield the number of rows, which everything tells, and all that was measured but tables that taught bins."""
    yield found.of()
    for marginal in found.measured:
        if len(marginal.clique) > 1 or (marginal.clique and not marginal.groupings):
            yield found.at(marginal)


def _summarize_interval(interval: CountInterval, *, total: float) -> CountPrecision:
    open_cells = interval.half_width[interval.half_width > 0]
    reach = float(np.median(open_cells)) if open_cells.size else 0.0
    return CountPrecision(
        columns=interval.marginal.clique, cells=interval.estimate.size, reach=reach, share=reach / total
    )
