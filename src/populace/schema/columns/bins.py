"""Bins of whole numbers and of decimals: where each begins."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS


def compute_edges(name: str, *, low: Fraction, high: Fraction, width: Fraction) -> tuple[Fraction, ...]:
    """Return the edges of bins of one width from low to high; the last bin may be narrower.

    >>> [str(edge) for edge in compute_edges("x", low=Fraction(0), high=Fraction(5), width=Fraction(2))]
    ['0', '2', '4', '5']
    """
    check_range(name, low, high)
    if low == high:
        raise SchemaError(f"column {name!r}: min and max are both {low}.", hint="a bin needs min < max")
    if width <= 0:
        raise SchemaError(f"column {name!r} has width {width}.", hint="give a width above zero")
    bins = -((low - high) // width)
    if bins > LIMITS.max_decimal_bins:
        raise SchemaError(
            f"column {name!r} has {bins} bins; {LIMITS.max_decimal_bins} is the most.",
            hint='give a larger width, or kind = "integer" for whole numbers',
        )
    return (*(low + i * width for i in range(bins)), high)


def compute_starts(name: str, *, first: int, last: int, width: int) -> range:
    """Return the first numbers of bins of `width` whole numbers each from first to last.

    >>> list(compute_starts("AGE", first=0, last=99, width=25))
    [0, 25, 50, 75]
    """
    check_range(name, first, last)
    if width < 1:
        raise SchemaError(f"column {name!r} has width {width}.", hint="give a width of 1 or more")
    return range(first, last + 1, width)


def check_range(name: str, low: int | Fraction, high: int | Fraction) -> None:
    """Refuse a range that ends before it begins."""
    if low > high:
        raise SchemaError(f"column {name!r}: min {low} is above max {high}.", hint="swap them")


def to_range(starts: Sequence[int], *, stop: int) -> range | tuple[int, ...]:
    """Return equally spaced starts as a range: bins by width and by edges are then the same column.

    >>> to_range((0, 5), stop=10), to_range((0, 5), stop=11)
    (range(0, 10, 5), (0, 5))
    """
    if isinstance(starts, range):
        return range(starts.start, stop, min(starts.step, stop - starts.start))
    step = starts[1] - starts[0] if len(starts) > 1 else stop - starts[0]
    spaced = range(starts[0], stop, step)
    return spaced if len(spaced) == len(starts) and tuple(spaced) == tuple(starts) else tuple(starts)


def add_end_bins(
    name: str, starts: Sequence[int], *, low: int, high: int, bottom: int | None, top: int | None
) -> Sequence[int]:
    """Return the starts of the bins between low and high, where bottom and top are bins of their own.

    >>> add_end_bins("x", range(0, 30, 10), low=0, high=20, bottom=0, top=20)
    [0, 1, 10, 20]
    """
    if bottom is None and top is None:
        return starts
    if isinstance(starts, range) and starts.step == 1:
        return range(low, high + 1)
    if isinstance(starts, range) and bottom is None and top is not None and (top - low) % starts.step == 0:
        return range(low, top + 1, starts.step)
    if len(starts) > LIMITS.max_listed_bins:
        raise SchemaError(
            f"column {name!r} has more than {LIMITS.max_listed_bins} bins, and its top or bottom is no edge of them.",
            hint="let top be min and a multiple of width, or give a larger width",
        )
    first = low if bottom is None else bottom + 1
    last = high if top is None else top - 1
    inner = [first, *(start for start in starts if first < start <= last)] if first <= last else []
    return [*([] if bottom is None else [bottom]), *inner, *([] if top is None else [top])]
