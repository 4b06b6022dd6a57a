"""What is known of the values inside the bins of a column: where they lie, and how round they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from populace.core.errors import SchemaError
from populace.schema.columns.heaping_classes import DayClasses, HeapingClasses, Places, StepClasses

if TYPE_CHECKING:
    from populace.schema.columns.date_columns import TemporalColumn
    from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn

Binned: TypeAlias = "IntegerColumn | DecimalColumn | TemporalColumn"

Floats = npt.NDArray[np.float64]

_ROUNDS = 60
_MOST_WEIGHT = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class BinDensity:
    """The law of values inside bins, or, where it is empty, that there is one still to be learnt.

    Everything is counted in units, of which all values are whole multiples. `starts` cuts the bins into stretches with
    a `weight` each; `rounds` gives for every bin a weight to each class of values: those divided by the same one of
    `steps` (days have classes of their own, and no steps). Weights compare within one bin only.
    """

    starts: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    rounds: tuple[tuple[int, ...], ...] = ()
    unit: Fraction = Fraction(1)

    @property
    def known(self) -> bool:
        """Whether the law was learnt."""
        return bool(self.starts)

    def draw(self, column: Binned, levels: Places, *, rng: np.random.Generator) -> Places:
        """Return one value for each bin, in units.

        The rows of a bin are spread over its law as evenly as whole rows can be: sorted by value, each comes from its
        own equal part of it. Which row gets which is random.
        """
        bins, first, kinds, shares, held = self._cells(column)
        whole = np.bincount(bins, weights=shares, minlength=column.levels)[bins]
        ends = np.cumsum(shares)
        final = np.flatnonzero(np.diff(bins, append=-1))
        ends -= np.concatenate([[0.0], ends[final[:-1]]])[bins]
        # A bin ends with its last cell above 0 at exactly 1, so that no point falls behind it.
        ends /= ends[final][bins]
        lows = ends - shares / whole
        order = rng.permutation(len(levels))
        order = order[np.argsort(levels[order], kind="stable")]
        mine = levels[order]
        counts = np.bincount(levels, minlength=column.levels)
        rank = np.arange(len(levels)) - (np.cumsum(counts) - counts)[mine]
        points = np.minimum((rank + rng.random(len(levels))) / counts[mine], 1 - 2**-40)
        cells = _first_above(ends, points, first=np.append(0, final[:-1] + 1)[mine], last=final[mine])
        part = (points - lows[cells]) / (ends - lows)[cells]
        places = np.clip((part * held[cells]).astype(np.int64), 0, held[cells] - 1)
        drawn = np.empty(len(levels), dtype=np.int64)
        drawn[order] = heaping_classes(column, self).values(kinds[cells], first[cells], places)
        return drawn

    def check(self, column: Binned) -> None:
        """Refuse a law that does not fit the bins of its column; files could have been altered."""
        bins = bin_starts_in_units(column, self.unit)
        steps = self.steps or (1,)
        fits = (
            {*self.starts} >= {*bins[:-1].tolist()}
            and self.starts[0] == bins[0]
            and self.starts[-1] < bins[-1]
            and all(a < b for a, b in pairwise(self.starts))
            and len(self.weights) == len(self.starts)
            and steps[0] == 1
            and all(a < b and b % a == 0 for a, b in pairwise(steps))
            and len(self.rounds) == column.levels
            and all(len(row) == heaping_classes(column, self).size for row in self.rounds)
            and all(0 <= w < _MOST_WEIGHT for row in (self.weights, *self.rounds) for w in row)
        )
        if not fits:
            raise SchemaError(
                f"column {column.name!r}: what is said of values inside its bins does not fit them.",
                hint='write inside = "learn", or use the file as populace wrote it',
            )

    def _cells(self, column: Binned) -> tuple[Places, Places, Places, Floats, Places]:
        """Return for every stretch and class with a value in it: bin, first unit, class, share of the bin, values."""
        starts = np.array(self.starts, dtype=np.int64)
        edges = bin_starts_in_units(column, self.unit)
        bins = np.searchsorted(edges, starts, side="right") - 1
        held = heaping_classes(column, self).sizes(starts, np.append(starts[1:], edges[-1]))
        shares = _joined(
            held.astype(np.float64),
            np.array(self.weights, dtype=np.float64),
            np.array(self.rounds, dtype=np.float64),
            bins=bins,
        )
        place, kind = np.nonzero(held)
        return bins[place], starts[place], kind, shares[place, kind], held[place, kind]


def _first_above(ends: Floats, points: Floats, *, first: Places, last: Places) -> Places:
    """Return for every point the first place from `first` to `last` whose end is above it; the last one's is."""
    while (first < last).any():
        middle = (first + last) // 2
        after = ends[middle] <= points
        first, last = np.where(after, middle + 1, first), np.where(after, last, middle)
    return first


def _joined(held: Floats, weights: Floats, rounds: Floats, *, bins: Places) -> Floats:
    """Return shares of stretches and classes with given sums of both, otherwise spread evenly over the values.

    Found by scaling rows and columns in turn (Deming and Stephan 1940); where they cannot agree, stretches win.
    """
    sizes = np.zeros(rounds.shape)
    np.add.at(sizes, bins, held)
    # A bin of which nothing is known is drawn evenly.
    total = np.bincount(bins, weights=weights, minlength=len(rounds))
    weights = np.where(total[bins] > 0, weights, held.sum(axis=1))
    total = np.bincount(bins, weights=weights, minlength=len(rounds))
    rounds = np.where(sizes > 0, rounds, 0.0)
    unknown = rounds.sum(axis=1) <= 0
    rounds[unknown] = sizes[unknown]
    rounds *= (total / rounds.sum(axis=1))[:, None]
    shares = np.where(rounds[bins] > 0, held, 0.0)
    # A stretch none of whose classes has weight keeps all its values.
    bare = (shares.sum(axis=1) <= 0) & (weights > 0)
    shares[bare] = held[bare]
    for _ in range(_ROUNDS):
        sums = np.zeros(rounds.shape)
        np.add.at(sums, bins, shares)
        shares = (
            shares * np.divide(rounds, sums, out=np.ones(rounds.shape), where=(sums > 0) & (rounds > 0))[bins]
        )
        sums_of_rows = shares.sum(axis=1)
        shares = (
            shares
            * np.divide(weights, sums_of_rows, out=np.zeros(len(bins)), where=sums_of_rows > 0)[:, None]
        )
    return shares


def heaping_classes(column: Binned, inside: BinDensity) -> HeapingClasses:
    """Return the classes of a column's values."""
    from populace.schema.columns.date_columns import DateColumn

    if isinstance(column, DateColumn):
        return DayClasses(column.min, column.max + 1)
    return StepClasses(inside.steps or (1,))


def bin_starts_in_units(column: Binned, unit: Fraction) -> Places:
    """Return where the codes of a column begin, in units, and where the last one stops.

    >>> from populace.schema.columns.numeric_columns import IntegerColumn
    >>> bin_starts_in_units(IntegerColumn(name="AGE", min=0, max=99, starts=(0, 18, 65)), Fraction(1)).tolist()
    [0, 18, 65, 100]
    """
    from populace.schema.columns.date_columns import TemporalColumn
    from populace.schema.columns.numeric_columns import DecimalColumn

    if isinstance(column, TemporalColumn):
        step = int(unit)
        return np.append(_array(column.starts) // step, column.max // step + 1)
    if not isinstance(column, DecimalColumn):
        return np.append(_array(column.starts), column.max + 1)
    edges = [int(edge / unit) for edge in column.edges]
    bottom, top = column.ends
    inner = [edges[0] + int(bottom), *edges[1:-1]]
    return np.array(
        [*edges[: int(bottom)], *inner, *(edges[-1:] if top else []), edges[-1] + 1], dtype=np.int64
    )


def _array(starts: Sequence[int]) -> Places:
    if isinstance(starts, range):
        return np.arange(starts.start, starts.stop, starts.step, dtype=np.int64)
    return np.array(starts, dtype=np.int64)
