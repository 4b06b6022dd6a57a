"""Domain compression: codes whose noisy count is lost in the noise share one group."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from populace.marginals import Grouping
from populace.measurements import Measurement

THRESHOLD = 3.0


def compress(columns: Iterable[Measurement]) -> tuple[Grouping, ...]:
    """Return a grouping for every column with two or more codes counted below three standard deviations.

    It is a function of noisy counts over a public domain, so it costs nothing more.
    Source: McKenna, Miklau and Sheldon 2021, section 3.2.
    """
    found = (group_rare(item) for item in columns)
    return tuple(grouping for grouping in found if grouping is not None)


def group_rare(column: Measurement) -> Grouping | None:
    """Return the grouping of one measured column, or None if fewer than two of its codes are rare.

    Frequent codes keep a group of their own, in order; the rare ones share the last group.
    """
    rare = column.counts < THRESHOLD * math.sqrt(column.variance)
    if rare.sum() < 2:
        return None
    groups = np.where(rare, (~rare).sum(), np.cumsum(~rare) - 1)
    return Grouping(column.marginal.clique[0], tuple(int(group) for group in groups))
