"""Round bins for a range of numbers, chosen from its ends alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from populace.schema.writer import format_value

# So many whole numbers keep a code each; up to `MAX_EVEN_RANGE` bins are equally wide; beyond, they widen with
# the numbers.
MAX_SINGLE_CODES = 128
MAX_EVEN_RANGE = 1000
_MAX_EVEN = 40
_LADDER = tuple(Fraction(tenths, 10) for tenths in (10, 12, 15, 20, 25, 30, 40, 50, 60, 80))
_DECADES = 3


def integer_bins(low: int, high: int, *, single: int = MAX_SINGLE_CODES) -> dict[str, Any]:
    """Return the keys that give whole numbers from low to high sensible bins.

    >>> integer_bins(0, 99)
    {'min': 0, 'max': 99}
    >>> integer_bins(0, 501)
    {'min': 0, 'max': 501, 'width': 20}
    """
    if high - low < single:
        return {"min": low, "max": high}
    if high - low <= MAX_EVEN_RANGE:
        # The smallest of 1, 2, 5, 10, 20, 50 … that makes few enough bins.
        widths = (step * int(10**power) for power in range(20) for step in (1, 2, 5))
        return {
            "min": low,
            "max": high,
            "width": next(each for each in widths if high - low <= _MAX_EVEN * each),
        }
    return {"edges": [int(edge) for edge in round_edges(Fraction(low), Fraction(high), whole=True)]}


def decimal_bins(low: Fraction, high: Fraction) -> dict[str, Any]:
    """Return the keys that give numbers from low to high sensible bins."""
    return {"edges": list(round_edges(low, high, whole=False))}


def round_edges(low: Fraction, high: Fraction, *, whole: bool) -> tuple[Fraction, ...]:
    """Return round edges from low to high whose distances grow with the numbers; zero has a bin of its own.

    The finest ones lie three decades below the largest number: nobody tells incomes of millions apart by the dollar.

    >>> [int(edge) for edge in round_edges(Fraction(-3000), Fraction(1_000_000), whole=True)][:8]
    [-3000, -2500, -2000, -1500, -1200, -1000, 0, 1]
    """
    largest = max(abs(low), abs(high))
    top = math.floor(math.log10(largest)) if largest else 0
    powers = [Fraction(10) ** power for power in range(top - _DECADES, top + 1)]
    steps = [step * power for power in powers for step in _LADDER]
    if whole:
        steps = [Fraction(1), *(step for step in steps if step.denominator == 1)]
    edges = {low, high, *(-step for step in steps), Fraction(0), *steps}
    if whole and steps[1] > 1:
        # Below zero the finest bin ends at −1, above it begins at 1.
        edges -= {Fraction(-1)}
    return tuple(sorted(edge for edge in edges if low <= edge <= high))


def lowest_number(keys: dict[str, Any]) -> str:
    """Return the smallest number of a range as a text.

    >>> lowest_number({"min": 0, "max": 9}), lowest_number({"edges": [5, 10]})
    ('0', '5')
    """
    return format_value(keys["min"] if "min" in keys else keys["edges"][0])
