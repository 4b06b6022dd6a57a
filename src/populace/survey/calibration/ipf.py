"""Public totals and a noisy table: the population of every cell, by raking what the noise left of the sample.

Everything here is post-processing of a table that was paid for, and of totals that are public. Totals that cannot be
met together are refused by `TableTotals.of`, before anything is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import UsageError
from populace.inference.fit.raking import RakingTarget, max_raking_error, rake

MAX_ROUNDS = 2000
# Of the whole population: what a cell may move in the last round, and what a total may be missed by.
CELL_TOLERANCE = 1e-10
TOTAL_TOLERANCE = 1e-6
# Of the whole population: by how much totals of the same people may differ.
CONTRADICTION_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableTotals:
    """Public totals over each axis of a table, which cells can have anybody, and the plainest table that meets both.

    `expected` is what the cells would hold if nothing but the totals were known.
    """

    targets: tuple[RakingTarget, ...]
    possible: Truth
    expected: Floats

    @classmethod
    def of(cls, populations: Sequence[Floats], *, possible: Truth | None = None) -> TableTotals:
        """Check the totals of each axis against each other and against the cells that must be empty.

        >>> TableTotals.of([np.array([1.0, 3.0]), np.array([2.0, 2.0])]).expected.tolist()
        [[0.5, 0.5], [1.5, 1.5]]
        """
        anybody = (
            np.ones([len(wanted) for wanted in populations], dtype=np.bool_) if possible is None else possible
        )
        for wanted in populations:
            if not np.isfinite(wanted).all() or wanted.min() < 0 or wanted.sum() <= 0:
                raise UsageError("a total is below 0, or all are 0.", hint="give numbers of people")
        people, *others = (float(wanted.sum()) for wanted in populations)
        for ours, theirs in combinations((people, *others), 2):
            if abs(ours - theirs) > CONTRADICTION_TOLERANCE * people:
                raise UsageError(
                    f"totals contradict each other: {ours:.10g} people by one, {theirs:.10g} by another.",
                    hint="scale them to one whole population first",
                )
        targets = tuple(((axis,), wanted) for axis, wanted in enumerate(populations))
        expected = rake(anybody.astype(np.float64), targets, rounds=MAX_ROUNDS, close=CELL_TOLERANCE * people)
        off = max_raking_error(expected, targets)
        if off > TOTAL_TOLERANCE * people:
            raise UsageError(
                f"the totals cannot be met together: after {MAX_ROUNDS} rounds one is missed by {off:.6g} people.",
                hint="compare the totals with the cells that are declared impossible",
            )
        return cls(targets=targets, possible=anybody & (expected > 0), expected=expected)

    @property
    def people(self) -> float:
        """The whole population."""
        return float(self.expected.sum())

    def rake(self, table: Floats) -> Floats:
        """Return a table raked to the totals."""
        return rake(table, self.targets, rounds=MAX_ROUNDS, close=CELL_TOLERANCE * self.people)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RakedTable:
    """A noisy table after raking: which cells share a bin, what the bins held, and everybody's place in public.

    `bins` numbers the bin of each cell, in the order of cells; impossible cells have the bin of a neighbour.
    `sample` holds the noisy count of each bin, `populations` the population of each cell.
    """

    bins: Ints
    sample: Floats
    populations: Floats

    @property
    def totals(self) -> Floats:
        """The population of each bin."""
        return sum_by_bin(self.populations, bins=self.bins)

    @property
    def weights(self) -> Floats:
        """How many people one respondent of each bin stands for."""
        return self.totals / self.sample


def rake_noisy_table(
    noisy: npt.ArrayLike, *, totals: TableTotals, ordered: Sequence[bool] = (), least: float = 0.0
) -> RakedTable:
    """Return the population of every cell: cells that noise left at `least` or below are joined, then raked.

    The lowest bin joins one beside it, along any axis (next to it where the axis is ordered, else anywhere): the
    smallest that lifts both above `least`, or the largest there is. What a joined bin holds is split over its cells as
    the totals alone would have it. Only noisy and public numbers decide. Impossible cells hold nobody.
    """
    table = np.where(totals.possible, np.asarray(noisy, dtype=np.float64), 0.0)
    along = tuple(ordered) or (False,) * table.ndim
    bins = _merge_small_cells(table, totals=totals, ordered=along, least=least)
    sample, expected = sum_by_bin(table, bins=bins), sum_by_bin(totals.expected, bins=bins)
    if sample.min() <= 0:
        # Noise left nothing at all: the totals are all there is.
        sample = np.full(len(sample), max(float(sample.sum()), 1.0) / len(sample))
    raked = totals.rake(totals.expected * (sample / expected)[bins])
    return RakedTable(bins=bins, sample=sample, populations=raked)


def sum_by_bin(table: npt.ArrayLike, *, bins: Ints) -> Floats:
    """Return what each bin holds of a table of cells."""
    values = np.asarray(table, dtype=np.float64).ravel()
    return np.bincount(bins.ravel(), weights=values).astype(np.float64)


def _merge_small_cells(table: Floats, *, totals: TableTotals, ordered: Sequence[bool], least: float) -> Ints:
    """Return the number of each cell's bin, in the order of their first cells."""
    bins = np.arange(table.size)
    held = dict(enumerate(map(float, table.ravel())))
    cells = {place: [place] for place in held}
    barren = set(np.flatnonzero(~totals.possible.ravel()).tolist())
    # Where nobody can be comes first, then the lowest; ties go by place. What has changed since is in the queue again.
    queue = [(p not in barren, value, p) for p, value in held.items() if p in barren or value <= least]
    heapify(queue)
    while queue and len(held) > 1:
        _, value, lowest = heappop(queue)
        if held.get(lowest) != value:
            continue
        near = _adjacent_bins(cells[lowest], bins.reshape(table.shape), ordered=ordered) - {lowest}
        near = (near - barren) or near
        enough = [place for place in sorted(near) if held[place] + value > least]
        if enough:
            chosen = min(enough, key=held.__getitem__)
        else:
            chosen = max(sorted(near), key=held.__getitem__)
        bins[cells[lowest]] = chosen
        cells[chosen] += cells.pop(lowest)
        held[chosen] += held.pop(lowest)
        barren.discard(lowest)
        if held[chosen] <= least or chosen in barren:
            heappush(queue, (chosen not in barren, held[chosen], chosen))
    _, first, found = np.unique(bins, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[found].reshape(table.shape)


def _adjacent_bins(cells: Sequence[int], bins: Ints, *, ordered: Sequence[bool]) -> set[int]:
    """Return the bins of all cells that differ from one of these in one axis alone."""
    found: set[int] = set()
    for cell in zip(*np.unravel_index(cells, bins.shape), strict=True):
        for axis, here in enumerate(cell):
            line = bins[(*cell[:axis], slice(None), *cell[axis + 1 :])]
            found.update((line[max(0, here - 1) : here + 2] if ordered[axis] else line).tolist())
    return found
