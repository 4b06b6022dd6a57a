"""Numbers, days and seconds drawn inside the bins that codes stand for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from populace.schema.codec.cell_texts import Floats, Integers, Numbers
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import StepColumn
from populace.schema.exact_numbers import MAX_EXACT_INTEGER

# A bin is drawn in steps of at most this part of its width; more digits would claim what nobody knows.
_FINENESS = 1000
# Up to here every whole number and its quotient by a power of ten is a float of its own.
_TELLABLE = 10**15


def draw_values(column: Column, levels: Integers, *, rng: np.random.Generator) -> Numbers:
    """Return one number (day, second) for each bin, drawn evenly or as it was learnt how values lie inside bins.

    Top and bottom codes are their own number.
    """
    if not isinstance(column, DecimalColumn | StepColumn):
        raise TypeError(f"a {column.kind} column has no numbers to draw")
    if column.density is not None and column.density.known:
        units = column.density.draw(column, levels, rng=rng)
        unit = column.density.unit
        return _quotients(units, unit) if isinstance(column, DecimalColumn) else units * int(unit)
    if isinstance(column, DecimalColumn):
        return _draw_decimals(column, levels, rng=rng)
    if isinstance(column.starts, range):
        first = column.min + levels * column.starts.step
        last = np.minimum(first + column.starts.step - 1, column.max)
    else:
        starts = np.array([*column.starts, column.max + 1], dtype=np.int64)
        first, last = starts[levels], starts[levels + 1] - 1
    return rng.integers(first, last, endpoint=True) if column.binned else first


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
