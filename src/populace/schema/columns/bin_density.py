"""What is known of the values inside the bins of a column: where they lie, and how round they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from populace.core.errors import SchemaError
from populace.schema.columns.heaping_classes import HeapingClasses, Integers

Floats = npt.NDArray[np.float64]

_RAKING_ROUNDS = 60
_MAX_WEIGHT = 2**53


class BinnedColumn(Protocol):
    """What a density has to know of its column: its bins in units, and which values are round."""

    @property
    def name(self) -> str: ...

    @property
    def levels(self) -> int: ...

    def starts_in_units(self, unit: Fraction) -> Integers: ...

    def heaping_classes(self, steps: tuple[int, ...]) -> HeapingClasses: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BinDensity:
    """The density of values inside bins or, where it is empty, that there is one still to be learnt.

    Everything is counted in units, of which all values are whole multiples. `starts` cuts the bins into stretches with
    a weight each; `class_weights` gives for every bin a weight to each class of values: those divided by the same one
    of `steps` (days have classes of their own, and no steps). Weights compare within one bin only.
    """

    starts: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    class_weights: tuple[tuple[int, ...], ...] = ()
    unit: Fraction = Fraction(1)

    @property
    def known(self) -> bool:
        """Whether the density was learnt."""
        return bool(self.starts)

    def draw(self, column: BinnedColumn, levels: Integers, *, rng: np.random.Generator) -> Integers:
        """Return one value for each bin, in units.

        The rows of a bin are spread over its density as evenly as whole rows can be: sorted by value, each comes from
        its own equal part of it. Which row gets which is random.
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
        drawn[order] = column.heaping_classes(self.steps).values(kinds[cells], first[cells], places)
        return drawn

    def check(self, column: BinnedColumn) -> None:
        """Refuse a density that does not fit the bins of its column; files could have been altered."""
        bins = column.starts_in_units(self.unit)
        steps, classes = self.steps or (1,), column.heaping_classes(self.steps)
        fits = (
            {*self.starts} >= {*bins[:-1].tolist()}
            and self.starts[0] == bins[0]
            and self.starts[-1] < bins[-1]
            and all(a < b for a, b in pairwise(self.starts))
            and len(self.weights) == len(self.starts)
            and steps[0] == 1
            and all(a < b and b % a == 0 for a, b in pairwise(steps))
            and len(self.class_weights) == column.levels
            and all(len(row) == classes.size for row in self.class_weights)
            and all(0 <= w < _MAX_WEIGHT for row in (self.weights, *self.class_weights) for w in row)
        )
        if not fits:
            raise SchemaError(
                f"column {column.name!r}: what is said of values inside its bins does not fit them.",
                hint='write inside = "learn", or use the file as populace wrote it',
            )

    def _cells(self, column: BinnedColumn) -> tuple[Integers, Integers, Integers, Floats, Integers]:
        """Return for every stretch and class with a value in it: bin, first unit, class, share of the bin, values."""
        starts = np.array(self.starts, dtype=np.int64)
        edges = column.starts_in_units(self.unit)
        bins = np.searchsorted(edges, starts, side="right") - 1
        held = column.heaping_classes(self.steps).sizes(starts, np.append(starts[1:], edges[-1]))
        shares = _rake(
            held.astype(np.float64),
            np.array(self.weights, dtype=np.float64),
            np.array(self.class_weights, dtype=np.float64),
            bins=bins,
        )
        place, kind = np.nonzero(held)
        return bins[place], starts[place], kind, shares[place, kind], held[place, kind]


def _first_above(ends: Floats, points: Floats, *, first: Integers, last: Integers) -> Integers:
    """Return for every point the first place from `first` to `last` whose end is above it; the last one's is."""
    while (first < last).any():
        middle = (first + last) // 2
        after = ends[middle] <= points
        first, last = np.where(after, middle + 1, first), np.where(after, last, middle)
    return first


def _rake(held: Floats, weights: Floats, class_weights: Floats, *, bins: Integers) -> Floats:
    """Return shares of stretches and classes with given sums of both, otherwise spread evenly over the values.

    Found by raking rows and columns in turn (Deming and Stephan 1940); where they cannot agree, stretches win.
    """
    sizes = np.zeros(class_weights.shape)
    np.add.at(sizes, bins, held)
    # A bin of which nothing is known is drawn evenly.
    total = np.bincount(bins, weights=weights, minlength=len(class_weights))
    weights = np.where(total[bins] > 0, weights, held.sum(axis=1))
    total = np.bincount(bins, weights=weights, minlength=len(class_weights))
    class_weights = np.where(sizes > 0, class_weights, 0.0)
    unknown = class_weights.sum(axis=1) <= 0
    class_weights[unknown] = sizes[unknown]
    class_weights *= (total / class_weights.sum(axis=1))[:, None]
    shares = np.where(class_weights[bins] > 0, held, 0.0)
    # A stretch none of whose classes has weight keeps all its values.
    bare = (shares.sum(axis=1) <= 0) & (weights > 0)
    shares[bare] = held[bare]
    for _ in range(_RAKING_ROUNDS):
        sums = np.zeros(class_weights.shape)
        np.add.at(sums, bins, shares)
        weighted = (sums > 0) & (class_weights > 0)
        shares *= np.divide(class_weights, sums, out=np.ones(sums.shape), where=weighted)[bins]
        sums = shares.sum(axis=1)
        shares *= np.divide(weights, sums, out=np.zeros(len(bins)), where=sums > 0)[:, None]
    return shares
