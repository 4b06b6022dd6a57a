"""Exact numbers: from text and floats to fractions, and back to the shortest decimal text."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from populace.core.limits import LIMITS

# One grammar for numbers, shared by the schema and by the rows (RE2 reads it too): no blanks, no underscores.
NUMBER_PATTERN = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"

# Beyond this a float no longer tells neighbouring whole numbers apart.
MAX_EXACT_INTEGER = 2**53

_NUMBER = re.compile(NUMBER_PATTERN)


def parse_number(text: str) -> Fraction | None:
    """Return the number that a text stands for, exactly, or None where it is not a finite number.

    >>> parse_number("1.50"), parse_number("+17"), parse_number("N"), parse_number("1e999")
    (Fraction(3, 2), Fraction(17, 1), None, None)
    """
    stripped = text.strip(" \t")
    if (
        len(stripped) > LIMITS.max_number_length
        or not _NUMBER.fullmatch(stripped)
        or not math.isfinite(float(stripped))
    ):
        return None
    if float(stripped) == 0:
        return Fraction(0)
    return Fraction(Decimal(stripped))


def to_fraction(value: object) -> Fraction | None:
    """Return a Python number as the fraction its shortest text names, or None where there is none.

    >>> to_fraction(0.1), to_fraction(7), to_fraction(float("inf")), to_fraction(True)
    (Fraction(1, 10), Fraction(7, 1), None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    if isinstance(value, float | Decimal):
        return parse_number(str(value))
    try:
        float(value)
    except OverflowError:
        return None
    return Fraction(value)


def format_decimal(value: Fraction) -> str | None:
    """Return the decimal text of a fraction, exactly, or None where the decimals never end.

    >>> format_decimal(Fraction(3, 2)), format_decimal(Fraction(10) ** 30), format_decimal(Fraction(1, 3))
    ('1.5', '1E+30', None)
    """
    if value.denominator == 1 and abs(value) < 2**63:
        return str(value)
    # A divisor of a power of ten has more binary digits than the power has noughts.
    places = value.denominator.bit_length()
    digits, rest = divmod(value.numerator * 10**places, value.denominator)
    if rest:
        return None
    noughts = len(str(digits)) - len(str(digits).rstrip("0"))
    return str(Decimal(f"{digits // 10**noughts}E{noughts - places}"))
