"""Errors of tables where the truth is known, as total variation: the share of rows in the wrong cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Counts, Marginal
from populace.inference.fit.projection import project_to_simplex, project_to_simplex_weighted
from populace.inference.gls.count_intervals import CountIntervals
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema

ExactCounts = Callable[[Marginal], Counts]
Numbers = npt.NDArray[np.float64] | Counts

_MIN_ERROR = 1e-3


def compute_noise_errors(
    items: Sequence[Measurement], *, schema: Schema, exact: ExactCounts
) -> tuple[dict[str, float], dict[Clique, float]]:
    """Return the error that noise leaves in each column and in each pair that the measured tables hold.

    Tables are estimated by least squares from all measurements together and made non-negative, without any model. Pairs
    are seen in the groups in which they were measured.
    """
    found = CountIntervals(items, space=ModelSpace.of(schema))
    columns = {}
    for name in schema.domain:
        interval = found.of(name)
        table = project_to_simplex_weighted(
            interval.estimate, np.maximum(interval.error, _MIN_ERROR) ** 2, total=_total(interval.estimate)
        )
        columns[name] = total_variation(table, exact(interval.marginal))
    pairs: dict[Clique, float] = {}
    for pair in dict.fromkeys(pair for item in items for pair in combinations(item.marginal.clique, 2)):
        interval = found.of(*pair)
        table = project_to_simplex(interval.estimate, total=_total(interval.estimate))
        pairs[pair] = total_variation(table, exact(interval.marginal))
    return columns, pairs


def _total(estimate: npt.NDArray[np.float64]) -> float:
    return max(1.0, float(estimate.sum()))


def total_variation(first: Numbers, second: Numbers) -> float:
    """Return the total variation between two tables of counts, each as shares of its own sum.

    >>> total_variation(np.array([30, 10]), np.array([1, 1]))
    0.25
    """
    one, two = first / max(float(first.sum()), 1e-300), second / max(float(second.sum()), 1e-300)
    return float(0.5 * np.abs(one - two).sum())
