"""How far tables are from the truth where the truth is at hand, as total variation: the share of rows to move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.infer.intervals import Intervals
from populace.infer.projection import norm_sub, weighted_norm_sub
from populace.marginals import Clique, Counts, Marginal
from populace.measurements import Measurement
from populace.schema.schema import Schema

Exact = Callable[[Marginal], Counts]
Numbers = npt.NDArray[np.float64] | Counts

_LEAST_ERROR = 1e-3


def noise_errors(
    items: Sequence[Measurement], *, schema: Schema, exact: Exact
) -> tuple[dict[str, float], dict[Clique, float]]:
    """Return the error that noise leaves in each column and in each pair that the measured tables hold.

    Tables are estimated by least squares from all measurements together and made non-negative; nothing else that
    would be known of them, such as which pattern a pair follows, is put to use. Pairs are seen in the groups in
    which they were measured.
    """
    found = Intervals(items, domain=schema.domain, rules=schema.rules, totals=schema.totals)
    columns = {}
    for name in schema.domain:
        told = found.of(name)
        variance = np.maximum(told.error, _LEAST_ERROR) ** 2
        table = weighted_norm_sub(told.estimate, variance, total=max(1.0, float(told.estimate.sum())))
        columns[name] = distance(table, exact(told.marginal))
    pairs: dict[Clique, float] = {}
    for pair in dict.fromkeys(pair for item in items for pair in combinations(item.marginal.clique, 2)):
        told = found.of(*pair)
        table = norm_sub(told.estimate, total=max(1.0, float(told.estimate.sum())))
        pairs[pair] = distance(table, exact(told.marginal))
    return columns, pairs


def distance(first: Numbers, second: Numbers) -> float:
    """Return the total variation between two tables of counts, each as shares of its own sum.

    >>> distance(np.array([30, 10]), np.array([1, 1]))
    0.25
    """
    one, two = first / max(float(first.sum()), 1e-300), second / max(float(second.sum()), 1e-300)
    return float(0.5 * np.abs(one - two).sum())
