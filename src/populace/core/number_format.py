"""Numbers for reading: one spelling of shares, counts, bounds and exact numbers for every page and message."""

from __future__ import annotations

import math
from fractions import Fraction

THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"


def format_percent(share: float) -> str:
    """Return a share as a percentage: one decimal place from 1 % on, two significant digits below.

    Noise can push distances beyond the whole; nothing above 0 is rounded to nothing.

    >>> format_percent(0.1234), format_percent(0.00123), format_percent(0.0), format_percent(7.0)
    ('12.3 %', '0.12 %', '0 %', '> 100 %')
    """
    return _percent(share, 100 * share)


def format_percent_bound(share: float) -> str:
    """Return an upper bound as a percentage, rounded up to the digits that `format_percent` shows.

    >>> format_percent_bound(0.0711), format_percent_bound(0.07), format_percent_bound(0.00123)
    ('7.2 %', '7 %', '0.13 %')
    """
    step = 10.0 ** -_decimals(100 * share)
    # A share that has these digits exactly may be a hair above them as a float.
    return _percent(share, math.ceil(100 * share / step - 1e-9) * step)


def _percent(share: float, percent: float) -> str:
    if share > 1:
        return "> 100 %"
    if 0 < share < 1e-6:
        return "< 0.0001 %"
    return f"{percent:.{_decimals(percent)}f}".removesuffix(".0") + " %"


def _decimals(percent: float) -> int:
    """Return how many decimal places a percentage is shown with."""
    size = abs(float(f"{percent:.2g}"))
    return 1 if size >= 1 or size < 1e-4 else 1 - math.floor(math.log10(size))


def format_number(value: float) -> str:
    """Return a number to three significant digits, or whole from 100 on, thousands apart.

    >>> format_number(12345.6).split(), format_number(0.01234), format_number(7.0)
    (['12', '346'], '0.0123', '7')
    """
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}".replace(",", THIN_SPACE)
    return f"{value:.3g}"


def count_of(number: int, word: str) -> str:
    """Return a number of things, with the word for one or for several.

    >>> count_of(1, "column"), count_of(12_000, "synthetic row")
    ('1 column', '12000 synthetic rows')
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def format_with_error(value: float | None, error: float | None) -> str:
    """Return a number to as many digits as its standard error leaves it, two of the error, thousands apart.

    >>> format_with_error(1234.5678, 0.123).split(), format_with_error(28734.2, 310.0).split()
    (['1', '234.57'], ['28', '730'])
    >>> format_with_error(None, None)
    '–'
    """
    if value is None:
        return "–"
    places = 2 if not error else 1 - math.floor(math.log10(error))
    rounded = round(value, max(places, -12))
    shown = f"{rounded:,.{max(0, min(places, 8))}f}"
    return shown.replace(",", THIN_SPACE).replace("-", "\N{MINUS SIGN}")


def format_exact(value: Fraction) -> str:
    """Return a number exactly: as a decimal where a short one exists, else as a fraction.

    >>> format_exact(Fraction("0.1")), format_exact(Fraction("1e-9")), format_exact(Fraction(1, 3))
    ('0.1', '1e-9', '1/3')
    """
    short = f"{float(value):.12g}".replace("e-0", "e-")
    return short if Fraction(short) == value else str(value)
