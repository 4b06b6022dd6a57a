"""Numbers, days and seconds drawn inside the bins that codes stand for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from populace.schema.codec.cell_texts import Floats, Integers, Numbers
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import BinDensity, RangeColumn, StepColumn
from populace.schema.exact_numbers import MAX_EXACT_INTEGER

# A bin is drawn in steps of at most this part of its width; more digits would claim what nobody knows.
_FINENESS = 1000
# Up to here every whole number and its quotient by a power of ten is a float of its own.
_TELLABLE = 10**15
_RAKING_ROUNDS = 60


def draw_values(column: Column, levels: Integers, *, rng: np.random.Generator) -> Numbers:
    """Return one number (day, second) for each bin, drawn evenly or as it was learnt how values lie inside bins.

    Top and bottom codes are their own number.
    """
    if not isinstance(column, DecimalColumn | StepColumn):
        raise TypeError(f"a {column.kind} column has no numbers to draw")
    if column.density is not None and column.density.known:
        units = _draw_units(column, column.density, levels, rng=rng)
        unit = column.density.unit
        return _quotients(units, unit) if isinstance(column, DecimalColumn) else units * int(unit)
    if isinstance(column, DecimalColumn):
        return _draw_decimals(column, levels, rng=rng)
    if isinstance(column.starts, range):
        # A column of single numbers may have billions of them.
        first = column.min + levels * column.starts.step
        last = np.minimum(first + column.starts.step - 1, column.max)
    else:
        starts = column.starts_in_units(Fraction(1))
        first, last = starts[levels], starts[levels + 1] - 1
    return rng.integers(first, last, endpoint=True) if column.binned else first


def _draw_units(
    column: RangeColumn, density: BinDensity, levels: Integers, *, rng: np.random.Generator
) -> Integers:
    """Return one value for each bin, in units of the density.

    The rows of a bin are spread over its density as evenly as whole rows can be: sorted by value, each comes from
    its own equal part of it. Which row gets which is random.
    """
    classes = column.heaping_classes(density.steps)
    starts, edges = np.array(density.starts, dtype=np.int64), column.starts_in_units(density.unit)
    stretch_bins = np.searchsorted(edges, starts, side="right") - 1
    sizes = classes.sizes(starts, np.append(starts[1:], edges[-1]))
    # For every stretch and class with a value in it: bin, first unit, class, share of the bin, values.
    place, kinds = np.nonzero(sizes)
    bins, first, held = stretch_bins[place], starts[place], sizes[place, kinds]
    shares = _rake(
        sizes.astype(np.float64),
        np.array(density.weights, dtype=np.float64),
        np.array(density.class_weights, dtype=np.float64),
        bins=stretch_bins,
    )[place, kinds]
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
    drawn[order] = classes.values(kinds[cells], first[cells], places)
    return drawn


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


def _quotients(units: Integers, unit: Fraction) -> Floats:
    """Return multiples of a unit as floats, each the one that its decimal text means."""
    above, below = unit.numerator, unit.denominator
    furthest = int(np.abs(units).max(initial=0))
    if max(furthest, 1) * above < MAX_EXACT_INTEGER and below < MAX_EXACT_INTEGER:
        # A quotient of whole numbers below 2**53 is rounded once.
        return units * above / below
    # So is one of Python's, however long they are.
    return np.array([each * above / below for each in units.tolist()], dtype=np.float64)


def _draw_decimals(column: DecimalColumn, levels: Integers, *, rng: np.random.Generator) -> Floats:
    """Return one number for each bin: a decimal of few places, or any float where decimals are too coarse for floats.

    The decimals of a bin run from its lower edge to just below its upper one, so none falls into another bin.
    """
    bounds = [column.bounds(level) for level in range(column.levels)]
    bins = [_steps(low, high, most=column.decimals) for low, high in bounds]
    if column.ends[0]:
        # The bin above a bottom code begins just above that code's number.
        start, stop, scale = bins[1]
        bins[1] = (start + 1, stop, scale)
    tellable = np.array([max(abs(first), abs(last), scale) <= _TELLABLE for first, last, scale in bins])
    first, last, scales = np.array(
        [steps if fine else (0, 1, 1) for steps, fine in zip(bins, tellable, strict=True)], dtype=np.int64
    ).T
    drawn: Floats = rng.integers(first[levels], last[levels]) / scales[levels]
    if not tellable.all():
        lows = np.array([float(low) for low, _ in bounds])
        highs = np.array([float(high) for _, high in bounds])
        least = lows.copy()
        if column.ends[0]:
            least[1] = np.nextafter(lows[1], np.inf)
        low, high = lows[levels], highs[levels]
        share = rng.random(len(levels))
        # Weighted ends cannot overflow as high − low can; rounding must not reach the next bin.
        between = np.clip(low * (1 - share) + high * share, least[levels], np.nextafter(high, low))
        drawn = np.where(tellable[levels], drawn, between)
    return drawn


def _steps(low: Fraction, high: Fraction, *, most: int | None = None) -> tuple[int, int, int]:
    """Return a bin in whole steps of 1/scale: the first inside, the first beyond, and the power of ten that scale is.

    The step is the largest that divides the bin in a thousand and writes both edges; `most` decimals are enough.

    >>> _steps(Fraction(15), Fraction(20)), _steps(Fraction("2.5"), Fraction(5000))
    ((15000, 20000, 1000), (25, 50000, 10))
    >>> _steps(Fraction(15), Fraction(20), most=1), _steps(Fraction(15), Fraction(15))
    ((150, 200, 10), (15, 16, 1))
    """
    scale = 1
    limit = None if most is None else 10**most
    while (
        (scale != limit and low != high and (high - low) * scale < _FINENESS)
        or (low * scale).denominator > 1
        or (high * scale).denominator > 1
    ):
        scale *= 10
    first = int(low * scale)
    return first, max(int(high * scale), first + 1), scale
