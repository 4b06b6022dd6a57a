"""Where the bins of a column go: many of about one weight, cut at round numbers, and heaps by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Counts
from populace.inference.fit.projection import project_to_simplex
from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG
from populace.methods.discovery.discovery_grid import CellRange, DiscoveryGrid

# Noisy counts of ranges of cells in the round of this number, and their variance.
AskCounts = Callable[[Sequence[CellRange], int], tuple[Floats, float]]

# The first look follows the powers of ten over so many decades.
_DECADES = 7


@dataclass(frozen=True, eq=False)
class HistogramSketch:
    """A rough picture of a column: edges of stretches, as cells of its grid, and the rows in each."""

    edges: Counts
    counts: Floats

    @property
    def rows(self) -> float:
        """The rows in all stretches."""
        return max(1.0, float(self.counts.sum()))

    def quantiles(self, grid: DiscoveryGrid, cells: CellRange, parts: int) -> list[int]:
        """Return the units that cut a stretch into parts of one weight, rows being spread evenly between edges."""
        units = grid.starts[self.edges].astype(np.float64)
        weight = np.concatenate([[0.0], np.cumsum(self.counts)])
        # A little is everywhere, so that no part is left without an inner.
        weight += np.linspace(0.0, 1e-3 * self.rows, len(weight))
        low, high = (float(np.interp(grid.starts[cell], units, weight)) for cell in cells)
        wanted = low + (high - low) * np.arange(1, parts) / parts
        return [int(unit) for unit in np.interp(wanted, weight, units)]


def sketch_histogram(grid: DiscoveryGrid, ask: AskCounts) -> HistogramSketch:
    """Return a rough picture of a column, from rounds that each cost the same: first at the powers of ten.

    What holds many rows is looked into again.
    """
    parts = decade_ranges(grid)
    counts, variance = ask(parts, 0)
    rows = max(1.0, float(counts.sum()))
    # Cut at 0, the noise of many empty parts would look like rows.
    counts = project_to_simplex(counts, total=rows)
    known = dict(zip(parts, counts.tolist(), strict=True))
    for number in range(1, len(DISCOVERY_CONFIG.sketch_parts)):
        least = max(DISCOVERY_CONFIG.heavy_share * rows, DISCOVERY_CONFIG.certain_deviations * variance**0.5)
        heavy = [part for part, count in known.items() if part[1] - part[0] > 1 and count > least]
        if not heavy:
            break
        inner = [grid.split_evenly(part, DISCOVERY_CONFIG.fan_out) for part in heavy]
        counts, variance = ask([each for held in inner for each in held], number)
        for part, held, here in zip(heavy, inner, split_like(counts, inner), strict=True):
            found = project_to_simplex(here, total=known.pop(part))
            known |= zip(held, found.tolist(), strict=True)
    order = sorted(known)
    edges = np.array([*(first for first, _ in order), grid.cells], dtype=np.int64)
    return HistogramSketch(edges, np.array([known[part] for part in order]))


def split_like(counts: Floats, parts: Sequence[Sequence[CellRange]]) -> list[Floats]:
    """Return counts of ranges, those of each part together.

    >>> [each.tolist() for each in split_like(np.arange(3.0), [[(0, 1), (1, 2)], [(2, 3)]])]
    [[0.0, 1.0], [2.0]]
    """
    return np.split(counts, np.cumsum([len(each) for each in parts])[:-1])


def choose_bin_edges(grid: DiscoveryGrid, sketch: HistogramSketch, *, deviation: float) -> list[int]:
    """Return the cells at which bins begin: of about one weight, so heavy that noise of this deviation is small in it.

    A cell that holds as many rows as a bin should is a bin by itself.
    """
    weight = max(
        sketch.rows / DISCOVERY_CONFIG.target_bins, 2 * DISCOVERY_CONFIG.certain_deviations * deviation
    )
    while True:
        cuts = _cut_at_weight(grid, sketch, weight=weight)
        if len(cuts) <= DISCOVERY_CONFIG.max_bins:
            return cuts
        weight *= 1.15


def _cut_at_weight(grid: DiscoveryGrid, sketch: HistogramSketch, *, weight: float) -> list[int]:
    pieces: list[tuple[CellRange, float]] = []
    for first, last, count in zip(
        sketch.edges[:-1].tolist(), sketch.edges[1:].tolist(), sketch.counts, strict=True
    ):
        times = min(int(count / weight + 0.5), last - first)
        inner = grid.split_evenly((first, last), times) if times > 1 else [(first, last)]
        pieces += [(part, count / len(inner)) for part in inner]
    cuts, gathered, alone = [0], 0.0, False
    for (first, last), count in pieces:
        heap = last - first == 1 and count > weight / 2
        full = gathered + count / 2 > weight and gathered > weight / 2
        if first > cuts[-1] and (heap or alone or full):
            cuts.append(first)
            gathered = 0.0
        gathered += count
        alone = heap
    # What is left at the end joins the bin before it, unless that is a heap.
    if len(cuts) > 1 and gathered < weight / 4 and not alone and cuts[-1] - cuts[-2] > 1:
        cuts.pop()
    return cuts


def decade_ranges(grid: DiscoveryGrid) -> list[CellRange]:
    """Return the parts that every column is first seen in: eight of one width, and 1, 2 and 5 times powers of ten."""
    low, high = grid.value(0), grid.value(grid.cells)
    furthest = max(abs(low), abs(high))
    wanted = {Fraction(0), grid.unit}
    power = Fraction(10) ** (len(str(int(furthest / grid.unit))) - 1) * grid.unit
    for _ in range(_DECADES):
        if power >= grid.unit:
            wanted |= {sign * lead * power for lead in (1, 2, 5) for sign in (1, -1)}
        power /= 10
    cells = {0, grid.cells, *(first for first, _ in grid.split_evenly((0, grid.cells), 8))}
    cells |= {
        int(np.searchsorted(grid.starts, int(each / grid.unit))) for each in wanted if low <= each < high
    }
    return list(pairwise(sorted(cells)))
