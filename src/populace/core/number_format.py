"""Shares of rows, in words."""

from __future__ import annotations


def format_percent(share: float) -> str:
    """Return a share as a short percentage, never rounded to nothing; noise can push distances beyond the whole.

    >>> format_percent(0.1234), format_percent(0.00004), format_percent(0.0), format_percent(7.0)
    ('12.3 %', '< 0.1 %', '0 %', '> 100 %')
    """
    if share > 1:
        return "> 100 %"
    if 0 < abs(share) < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"
