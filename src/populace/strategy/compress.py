"""Domain compression: codes whose noisy count is lost in the noise share a group."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import numpy as np

from populace.marginals import Grouping
from populace.measurements import Measurement

THRESHOLD = 3.0


def compress(columns: Iterable[Measurement], *, ordered: Collection[str]) -> tuple[Grouping, ...]:
    """Return a grouping for every measured column that has rare codes: counted below three standard deviations.

    Columns in their natural order merge neighbours; in others all rare codes share one group.
    It is a function of noisy counts over a public domain, so it costs nothing more.
    Source: McKenna, Miklau and Sheldon 2021, section 3.2; merging neighbours is ours.
    """
    found = []
    for item in columns:
        name = item.marginal.clique[0]
        groups = merge_neighbours(item) if name in ordered else merge_rare(item)
        if max(groups) + 1 < len(groups):
            found.append(Grouping(name, tuple(groups)))
    return tuple(found)


def merge_rare(column: Measurement) -> list[int]:
    """Return groups in which frequent codes keep one of their own, in order, and rare ones share the last.

    >>> from fractions import Fraction
    >>> from populace.marginals import Marginal
    >>> merge_rare(Measurement(Marginal(("city",)), np.array([1, 50, -2, 40]), Fraction(4)))
    [2, 0, 2, 1]
    """
    frequent = column.counts >= THRESHOLD * math.sqrt(column.variance)
    own = np.cumsum(frequent) - 1
    return [int(group) for group in np.where(frequent, own, frequent.sum())]


def merge_neighbours(column: Measurement) -> list[int]:
    """Return groups of neighbouring codes, each frequent as a whole.

    Rare codes gather from left to right until their sum stands out of its noise; what has not when a frequent
    code comes joins the group before it, or that code if there is none before.

    >>> from fractions import Fraction
    >>> from populace.marginals import Marginal
    >>> merge_neighbours(Measurement(Marginal(("age",)), np.array([1, 50, 5, 5, 40, 2, 0]), Fraction(4)))
    [0, 0, 1, 1, 2, 2, 2]
    """
    deviation = math.sqrt(column.variance)
    groups: list[int] = []
    group, gathered, codes = 0, 0, 0
    for count in column.counts.tolist():
        if codes and count >= THRESHOLD * deviation and group > 0:
            groups[-codes:] = [group - 1] * codes
            gathered, codes = 0, 0
        groups.append(group)
        gathered, codes = gathered + count, codes + 1
        if gathered >= THRESHOLD * deviation * math.sqrt(codes):
            group, gathered, codes = group + 1, 0, 0
    if codes and group > 0:
        groups[-codes:] = [group - 1] * codes
    return groups
