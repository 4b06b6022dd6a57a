"""What a release is good for and what it is not, in sentences that follow from its measurements alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from populace.core.number_format import format_number, format_percent_bound
from populace.release.report.comparison import Comparison, Quality

MAX_NAMES = 8
GOOD, POOR = (Quality.CLOSE,), (Quality.WEAK, Quality.LOST, Quality.FAR, Quality.OUTSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitnessForUse:
    """Uses that the measurements support, and uses that they do not."""

    good: tuple[str, ...]
    poor: tuple[str, ...]


def judge_fitness(
    columns: Sequence[tuple[str, Comparison]],
    tables: Sequence[tuple[tuple[str, ...], Comparison]],
    *,
    variables: Sequence[str],
    alone: Sequence[str],
    margin: float,
) -> FitnessForUse:
    """Return the uses of a release, from the comparisons of its columns and of its larger tables.

    `alone` are the columns in no measured table of two or more, `margin` the margin of error of a typical count.
    """
    good, poor = [], []
    close = [name for name, found in columns if found.quality in GOOD]
    if close:
        bound = max(found.error_bound for _, found in columns if found.quality in GOOD)
        good.append(
            f"Shares of single columns, off by {format_percent_bound(bound)} at most: {list_names(close)}."
        )
    pairs = [" × ".join(names) for names, found in tables if found.quality in GOOD]
    if pairs:
        good.append(f"Tables of these columns together, of an error bound below 10 %: {list_names(pairs)}.")
    weak = [name for name, found in columns if found.quality in POOR]
    if weak:
        poor.append(f"Shares of {list_names(weak)}: their error bounds are large.")
    weak = [" × ".join(names) for names, found in tables if found.quality in POOR]
    if weak:
        poor.append(f"Tables of {list_names(weak)}: their error bounds are large.")
    if alone and len(variables) > 1:
        poor.append(
            f"Any table with {list_names(alone)} beside other columns: they are in no measured table together."
        )
    measured = {frozenset(names) for names, _ in tables if len(names) == 2}
    inside = {
        frozenset((one, other)) for names, _ in tables for one in names for other in names if one != other
    }
    possible = len(variables) * (len(variables) - 1) // 2
    left = possible - len(measured | inside)
    if tables and left:
        poor.append(
            f"The {format_number(left)} of {format_number(possible)} pairs that no measured table holds, as far as the "
            "measured ones do not imply them."
        )
    order = max((len(names) for names, _ in tables), default=1)
    if order < len(variables):
        poor.append(describe_order(order))
    if margin > 0:
        poor.append(
            f"Groups of about {format_number(math.ceil(margin))} rows or fewer: the 95 % margin of error of a typical "
            "count of the noisiest measured table is as large as they are."
        )
    return FitnessForUse(good=tuple(good), poor=tuple(poor))


def describe_order(order: int) -> str:
    """Return what a release of tables of at most so many columns cannot carry.

    >>> describe_order(2)[:65]
    'Dependence that shows only among 3 or more columns together, such'
    """
    return (
        f"Dependence that shows only among {order + 1} or more columns together, such as a parity: the largest "
        f"measured table has {order}."
    )


def list_names(names: Sequence[str]) -> str:
    """Return some names, and how many more there are.

    >>> list_names(["a", "b"]), list_names(list("abcdefghij"))
    ('a, b', 'a, b, c, d, e, f, g, h and 2 more')
    """
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
