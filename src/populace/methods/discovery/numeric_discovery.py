"""Learning columns of numbers and dates: their bins, and how values lie inside them.

A few rounds find where the rows are; then one table of the bins is measured, which the model uses as well, one of
stretches inside them, one of finer stretches where rows are many, and one of how round values are in each bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.core.marginals import Counts, Marginal
from populace.inference.fit.projection import project_to_simplex
from populace.measurements.measurements import Measurement
from populace.methods.discovery.bin_edges import (
    HistogramSketch,
    choose_bin_edges,
    decade_ranges,
    sketch_histogram,
    split_like,
)
from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG
from populace.methods.discovery.discovery_grid import CellRange, DiscoveryGrid, OpenColumn
from populace.methods.oracle import DomainOracle
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import BinDensity, StepColumn
from populace.schema.columns.unknown_columns import UnknownBins

BinnedColumn = StepColumn | DecimalColumn

# Weights are kept as whole numbers that sum to about this.
WEIGHT_SCALE = 10**7


@dataclass(frozen=True, eq=False)
class GridOracle:
    """Questions about the cells of one column's grid, each paid with a share of the budget."""

    finder: DomainOracle
    grid: DiscoveryGrid
    budget: Budget
    share: Fraction

    def measure_ranges(self, parts: Sequence[CellRange], part: Fraction) -> tuple[Floats, float]:
        """Return noisy counts of stretches of cells, and their variance. All other rows are counted together."""
        groups = np.full(self.grid.column.size, len(parts), dtype=np.int64)
        for number, (first, last) in enumerate(parts):
            groups[first:last] = number
        counts, noise = self.groups(groups, part)
        return counts[: len(parts)].astype(np.float64), float(noise.variance)

    def groups(self, groups: Counts, part: Fraction) -> tuple[Counts, Noise]:
        """Return noisy counts of groups of the grid's codes, for a part of the column's share."""
        noise = self.budget.measure_noise(part * self.share, marginals=1)
        return self.finder.discover_bins(self.grid.column.name, groups=groups, noise=noise), noise


def discover_numeric(
    finder: DomainOracle, column: OpenColumn, *, grid: DiscoveryGrid, budget: Budget, share: Fraction
) -> tuple[BinnedColumn, tuple[Measurement, ...]]:
    """Return a column with what was to be learnt about it, and the tables that tell of its bins.

    Bins that are declared stay as they are; then all of the share goes into what lies inside them.
    """
    oracle = GridOracle(finder, grid, budget, share)
    if not isinstance(column, UnknownBins):
        edges = grid.places(column)
        seen = np.union1d(edges, [first for first, _ in decade_ranges(grid)])
        flat = HistogramSketch(seen, np.ones(len(seen) - 1))
        extra = 1 / (1 - sum(DISCOVERY_CONFIG.sketch_parts) - DISCOVERY_CONFIG.bin_part)
        return replace(column, density=_discover_density(oracle, flat, edges, scale=extra, bins=None)), ()
    sketch = sketch_histogram(
        grid, lambda parts, number: oracle.measure_ranges(parts, DISCOVERY_CONFIG.sketch_parts[number])
    )
    noise = budget.measure_noise(DISCOVERY_CONFIG.bin_part * share, marginals=1)
    cuts = choose_bin_edges(grid, sketch, deviation=float(noise.variance) ** 0.5)
    bare = column.with_domain([grid.value(cut) for cut in cuts])
    edges = grid.places(bare)
    groups = np.concatenate(
        [np.repeat(np.arange(bare.levels), np.diff(edges)), np.arange(bare.levels, bare.size)]
    )
    counts, noise = oracle.groups(groups, DISCOVERY_CONFIG.bin_part)
    table = Measurement(Marginal((column.name,)), counts, noise.variance)
    if not isinstance(bare, DecimalColumn) and not bare.binned:
        # Every value has a bin of its own: nothing is left to ask.
        return bare, (table,)
    bins = counts[: bare.levels].astype(np.float64), float(noise.variance)
    density = _discover_density(oracle, sketch, edges, scale=Fraction(1), bins=bins)
    return replace(bare, density=density), (table,)


def _discover_density(
    oracle: GridOracle,
    sketch: HistogramSketch,
    edges: Counts,
    *,
    scale: Fraction,
    bins: tuple[Floats, float] | None,
) -> BinDensity:
    """Return the distribution of values in bins that begin at some cells of the grid; `bins` are their noisy counts."""
    grid = oracle.grid
    levels = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    coarse = [_split_bin(grid, sketch, level) for level in levels]
    flat = [part for parts in coarse for part in parts]
    counts, variance = oracle.measure_ranges(flat, DISCOVERY_CONFIG.coarse_part * scale)
    known: list[Floats] = []
    for number, here in enumerate(split_like(counts, coarse)):
        total, spread = (here.sum(), 1.0) if bins is None else (bins[0][number], bins[1])
        known.append(reconcile_counts(here, variance=variance, total=float(total), spread=spread))
    weights = np.concatenate(known)
    rows = np.array([part.sum() for part in known])
    starts, fine = _refine_ranges(
        oracle, flat, weights, part=DISCOVERY_CONFIG.fine_part * scale, spread=variance
    )
    classes = _measure_classes(oracle, levels, rows, part=DISCOVERY_CONFIG.class_part * scale)
    total = float(rows.sum())
    return BinDensity(
        starts=tuple(grid.starts[starts].tolist()),
        weights=integer_weights(fine, total=total),
        steps=grid.steps,
        class_weights=tuple(integer_weights(row, total=total) for row in classes),
        unit=grid.unit,
    )


def _split_bin(grid: DiscoveryGrid, sketch: HistogramSketch, level: CellRange) -> list[CellRange]:
    """Return a bin in stretches of about one weight, as far as the sketch tells, cut at the powers of ten as well.

    So no stretch with rows in it spans very different magnitudes, inside which rows are spread evenly.
    """
    first, last = level
    if last - first <= DISCOVERY_CONFIG.coarse_ranges:
        return [(cell, cell + 1) for cell in range(first, last)]
    wanted = sketch.quantiles(grid, level, DISCOVERY_CONFIG.coarse_ranges)
    gaps = np.diff([int(grid.starts[first]), *wanted, int(grid.starts[last])])
    parts = grid.cut(level, wanted, slack=int(gaps.min()) // 3)
    inner = {start for start, _ in decade_ranges(grid) if first < start < last}
    return list(pairwise(sorted({last, *inner, *(start for start, _ in parts)})))


def _refine_ranges(
    oracle: GridOracle, parts: Sequence[CellRange], weights: Floats, *, part: Fraction, spread: float
) -> tuple[list[int], Floats]:
    """Return stretches, by the cells they begin at, with their weights; those that hold rows are cut once more."""
    noise = oracle.budget.measure_noise(part * oracle.share, marginals=1)
    least = DISCOVERY_CONFIG.certain_deviations * float(noise.variance) ** 0.5
    grid = oracle.grid
    inner = {
        place: grid.split_evenly(cells, DISCOVERY_CONFIG.fine_ranges)
        for place, (cells, weight) in enumerate(zip(parts, weights.tolist(), strict=True))
        if cells[1] - cells[0] > 1 and weight > least
    }
    if not inner:
        return [first for first, _ in parts], weights
    counts, variance = oracle.measure_ranges([each for held in inner.values() for each in held], part)
    answers = dict(zip(inner, split_like(counts, list(inner.values())), strict=True))
    starts: list[int] = []
    found: list[float] = []
    for place, (cells, weight) in enumerate(zip(parts, weights.tolist(), strict=True)):
        held, clean = [cells], None
        if place in inner:
            held, here = inner[place], answers[place]
            widths = np.diff(grid.starts[[*(first for first, _ in held), cells[1]]]).astype(np.float64)
            own = variance * len(held)
            total = (weight * own + float(here.sum()) * spread) / (own + spread)
            clean = shrink_counts(here, widths=widths, variance=variance, total=total)
        starts += [cells[0]] if clean is None else [first for first, _ in held]
        found += [weight] if clean is None else clean.tolist()
    return starts, np.array(found)


def _measure_classes(
    oracle: GridOracle, levels: Iterable[CellRange], rows: Floats, *, part: Fraction
) -> Floats:
    """Return how the rows of every bin are shared out over classes of values."""
    grid = oracle.grid
    sizes = [last - first for first, last in levels]
    size = grid.column.heaping_classes(grid.steps).size
    keys = np.repeat(np.arange(len(sizes)), sizes) * size + grid.classes
    seen, groups = np.unique(keys, return_inverse=True)
    there = np.zeros((len(sizes), size), dtype=np.bool_)
    there.flat[seen] = True
    found = np.zeros(there.shape)
    beyond = np.full(grid.column.size - grid.cells, len(seen), dtype=np.int64)
    counts, noise = oracle.groups(np.concatenate([groups.reshape(-1), beyond]), part)
    found.flat[seen] = counts[: len(seen)]
    return shrink_class_shares(found, there, rows, variance=float(noise.variance))


def reconcile_counts(counts: Floats, *, variance: float, total: float, spread: float) -> Floats:
    """Return non-negative counts of parts whose total is known from elsewhere, too, with variance `spread`.

    Where some stand out of the noise, those that do not are empty: rows that noise puts far out in a tail do more
    harm there than the few that are missing.
    """
    own = variance * len(counts)
    whole = max((total * own + counts.sum() * spread) / (own + spread), 0.0)
    seen = counts > DISCOVERY_CONFIG.visible_deviations * variance**0.5
    if not seen.any():
        return project_to_simplex(counts, total=whole)
    found = np.zeros(len(counts))
    found[seen] = project_to_simplex(counts[seen], total=whole)
    return found


def shrink_counts(counts: Floats, *, widths: Floats, variance: float, total: float) -> Floats | None:
    """Return the counts of parts of a stretch with much of their noise taken out, or None where nothing is seen but it.

    What stands out keeps its count. The rest moves towards an even spread, the nearer the less it differs from one
    by more than noise (James and Stein 1961).
    """
    if len(counts) < 2 or total <= 0:
        return None
    spread = widths / widths.sum()
    even = total * spread
    heaps = np.zeros(len(counts), dtype=np.bool_)
    # What heaps hold is missing from the rest, which makes further heaps visible.
    for _ in range(len(counts) - 1):
        more = ~heaps & (counts - even > DISCOVERY_CONFIG.heap_deviations * variance**0.5)
        if not more.any():
            break
        heaps |= more
        left = max(total - float(counts[heaps].sum()), 0.0)
        even = np.where(heaps, counts, left * spread / max(float(spread[~heaps].sum()), 1e-300))
    rest = ~heaps
    size = int(rest.sum())
    power = float(((counts - even)[rest] ** 2).sum())
    kept = max(0.0, 1 - (size - 2) * variance / power) if size > 2 and power > 0 else 0.0
    if not heaps.any() and kept < 0.05:
        return None
    found = np.where(rest, even + kept * (counts - even), counts)
    return project_to_simplex(found, total=total)


def shrink_class_shares(
    counts: Floats, there: npt.NDArray[np.bool_], rows: Floats, *, variance: float
) -> Floats:
    """Return for every bin (a row) the rows in each class, noise taken out by what other bins say of the class.

    The share of a class moves towards its mean over all bins that have it, the nearer the less these differ by more
    than noise.
    """
    rows = np.maximum(rows, 1.0)
    shares = counts / rows[:, None]
    noise = variance / rows**2
    found = np.zeros(counts.shape)
    for kind in range(counts.shape[1]):
        here = there[:, kind]
        if not here.any():
            continue
        own, doubt = shares[here, kind], noise[here]
        mean = float(np.average(own, weights=1 / doubt))
        between = max(float(((own - mean) ** 2 - doubt).mean()), 0.0)
        kept = between / (between + doubt) if here.sum() > 2 else np.ones(len(own))
        clean = mean + kept * (own - mean)
        # What noise alone could be is taken for none: cut at 0, it would add up.
        left = kept * doubt + (1 - kept) / float((1 / doubt).sum())
        found[here, kind] = np.where(clean > np.sqrt(left), clean, 0.0)
    empty = found.sum(axis=1) <= 0
    found[empty] = np.where(there[empty], np.maximum(shares[empty], 0.0), 0.0)
    whole = found.sum(axis=1, keepdims=True)
    return np.asarray(rows[:, None] * np.divide(found, whole, out=np.zeros(found.shape), where=whole > 0))


def integer_weights(weights: Floats, *, total: float) -> tuple[int, ...]:
    """Return weights as whole numbers, in about ten-millionths of the total."""
    scale = WEIGHT_SCALE / max(total, 1.0)
    return tuple(int(each) for each in np.rint(np.maximum(weights, 0.0) * scale))
