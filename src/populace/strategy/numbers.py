"""Learning columns of numbers and dates: their bins, and how values lie inside them.

A few looks find where the rows are; then one table of the bins is measured, which the model uses as well, one of
stretches inside them, one of finer stretches where rows are many, and one of how round values are in each bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

import numpy as np

from populace.marginals import Counts, Marginal
from populace.measurements import Measurement
from populace.privacy.budget import Budget
from populace.privacy.mechanisms import Noise
from populace.records import dataclass
from populace.schema.dates import Dated
from populace.schema.inside import Inside
from populace.schema.ranges import Integer, Numeric
from populace.schema.unknown import UnknownBins
from populace.strategy.grid import Grid, Open, Stretch
from populace.strategy.law import settle, shared_classes, smooth, whole_weights
from populace.strategy.places import CERTAIN, Floats, Sketch, decades, place_bins, sketch

# What a column's share is spent on: looks, bins, stretches inside them, finer stretches, classes.
LOOK_PARTS, BIN_PART = (Fraction(8, 100), Fraction(4, 100), Fraction(4, 100)), Fraction(24, 100)
COARSE_PART, FINE_PART, CLASS_PART = Fraction(32, 100), Fraction(18, 100), Fraction(10, 100)
# Every bin is cut in so many stretches, and those that hold rows in so many again.
COARSE, FINE = 4, 12

Binned = Integer | Numeric | Dated


class BinFinder(Protocol):
    """The question of the barrier about groups of a column's codes."""

    def discover_bins(self, column: str, *, groups: Counts, noise: Noise) -> Counts:
        """Return noisy counts of groups of the column's codes: `groups` numbers the group of every code."""
        ...


@dataclass(frozen=True, eq=False)
class Asker:
    """Questions about the cells of one column's grid, each paid with a share of the budget."""

    finder: BinFinder
    grid: Grid
    budget: Budget
    share: Fraction

    def stretches(self, parts: Sequence[Stretch], part: Fraction) -> tuple[Floats, float]:
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


def learn_number(
    finder: BinFinder, column: Open, *, grid: Grid, budget: Budget, share: Fraction
) -> tuple[Binned, tuple[Measurement, ...]]:
    """Return a column with what was to be learnt about it, and the tables that tell of its bins.

    Bins that are declared stay as they are; then all of the share goes into what lies inside them.
    """
    asker = Asker(finder, grid, budget, share)
    if not isinstance(column, UnknownBins):
        edges = grid.places(column)
        seen = np.union1d(edges, [first for first, _ in decades(grid)])
        flat = Sketch(seen, np.ones(len(seen) - 1))
        extra = 1 / (1 - sum(LOOK_PARTS) - BIN_PART)
        return replace(column, within=_learn_inside(asker, flat, edges, scale=extra, bins=None)), ()
    drawn = sketch(grid, lambda parts, look: asker.stretches(parts, LOOK_PARTS[look]))
    noise = budget.measure_noise(BIN_PART * share, marginals=1)
    cuts = place_bins(grid, drawn, deviation=float(noise.variance) ** 0.5)
    bare = column.learnt([grid.value(cut) for cut in cuts])
    edges = grid.places(bare)
    groups = np.concatenate(
        [np.repeat(np.arange(bare.levels), np.diff(edges)), np.arange(bare.levels, bare.size)]
    )
    counts, noise = asker.groups(groups, BIN_PART)
    table = Measurement(Marginal((column.name,)), counts, noise.variance)
    if not isinstance(bare, Numeric) and not bare.binned:
        # Every value has a bin of its own: nothing is left to ask.
        return bare, (table,)
    bins = counts[: bare.levels].astype(np.float64), float(noise.variance)
    within = _learn_inside(asker, drawn, edges, scale=Fraction(1), bins=bins)
    return replace(bare, within=within), (table,)


def _learn_inside(
    asker: Asker, drawn: Sketch, edges: Counts, *, scale: Fraction, bins: tuple[Floats, float] | None
) -> Inside:
    """Return the law of values inside bins that begin at some cells of the grid; `bins` are their noisy counts."""
    grid = asker.grid
    levels = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    coarse = [_quarters(grid, drawn, level) for level in levels]
    flat = [part for parts in coarse for part in parts]
    counts, variance = asker.stretches(flat, COARSE_PART * scale)
    known: list[Floats] = []
    place = 0
    for number, parts in enumerate(coarse):
        here = counts[place : place + len(parts)]
        total, spread = (here.sum(), 1.0) if bins is None else (bins[0][number], bins[1])
        known.append(settle(here, variance=variance, total=float(total), spread=spread))
        place += len(parts)
    weights = np.concatenate(known)
    rows = np.array([part.sum() for part in known])
    starts, fine = _refined(asker, flat, weights, part=FINE_PART * scale, spread=variance)
    classes = _classes(asker, levels, rows, part=CLASS_PART * scale)
    total = float(rows.sum())
    return Inside(
        starts=tuple(grid.starts[starts].tolist()),
        weights=whole_weights(fine, total=total),
        steps=grid.steps,
        rounds=tuple(whole_weights(row, total=total) for row in classes),
        unit=grid.unit,
    )


def _quarters(grid: Grid, drawn: Sketch, level: Stretch) -> list[Stretch]:
    """Return a bin in stretches of about one weight, as far as the sketch tells, cut at the powers of ten as well.

    So no stretch with rows in it spans very different magnitudes, inside which rows are spread evenly.
    """
    first, last = level
    if last - first <= COARSE:
        return [(cell, cell + 1) for cell in range(first, last)]
    wanted = drawn.quantiles(grid, level, COARSE)
    gaps = np.diff([int(grid.starts[first]), *wanted, int(grid.starts[last])])
    parts = grid.cut(level, wanted, slack=int(gaps.min()) // 3)
    inner = {start for start, _ in decades(grid) if first < start < last}
    return list(pairwise(sorted({last, *inner, *(start for start, _ in parts)})))


def _refined(
    asker: Asker, parts: Sequence[Stretch], weights: Floats, *, part: Fraction, spread: float
) -> tuple[list[int], Floats]:
    """Return stretches, by the cells they begin at, with their weights; those that hold rows are cut once more."""
    noise = asker.budget.measure_noise(part * asker.share, marginals=1)
    least = CERTAIN * float(noise.variance) ** 0.5
    grid = asker.grid
    inner = {
        place: grid.parted(stretch, FINE)
        for place, (stretch, weight) in enumerate(zip(parts, weights.tolist(), strict=True))
        if stretch[1] - stretch[0] > 1 and weight > least
    }
    if not inner:
        return [first for first, _ in parts], weights
    counts, variance = asker.stretches([each for held in inner.values() for each in held], part)
    starts: list[int] = []
    found: list[float] = []
    taken = 0
    for place, (stretch, weight) in enumerate(zip(parts, weights.tolist(), strict=True)):
        held = inner.get(place, [])
        here = counts[taken : taken + len(held)]
        taken += len(held)
        clean = None
        if held:
            widths = np.diff(grid.starts[[*(first for first, _ in held), stretch[1]]]).astype(np.float64)
            own = variance * len(held)
            total = (weight * own + float(here.sum()) * spread) / (own + spread)
            clean = smooth(here, widths=widths, variance=variance, total=total)
        starts += [stretch[0]] if clean is None else [first for first, _ in held]
        found += [weight] if clean is None else clean.tolist()
    return starts, np.array(found)


def _classes(asker: Asker, levels: Iterable[Stretch], rows: Floats, *, part: Fraction) -> Floats:
    """Return how the rows of every bin are shared out over classes of values."""
    grid = asker.grid
    sizes = [last - first for first, last in levels]
    size = grid.ladder.size
    keys = np.repeat(np.arange(len(sizes)), sizes) * size + grid.classes
    seen, groups = np.unique(keys, return_inverse=True)
    there = np.zeros((len(sizes), size), dtype=np.bool_)
    there.flat[seen] = True
    found = np.zeros(there.shape)
    beyond = np.full(grid.column.size - grid.cells, len(seen), dtype=np.int64)
    counts, noise = asker.groups(np.concatenate([groups.reshape(-1), beyond]), part)
    found.flat[seen] = counts[: len(seen)]
    return shared_classes(found, there, rows, variance=float(noise.variance))
