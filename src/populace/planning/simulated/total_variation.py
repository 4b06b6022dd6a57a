"""Errors of tables where the truth is known, as total variation: the share of rows in the wrong cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Counts, Marginal
from populace.inference.fit.projection import project_to_simplex, project_to_simplex_weighted
from populace.inference.gls.count_intervals import CountIntervals
from populace.inference.gls.observations import common_groupings
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.planning.simulated.populations import SimulatedPopulation
from populace.schema.schema import Schema

ExactCounts = Callable[[Marginal], Counts]
Numbers = npt.NDArray[np.float64] | Counts

_MIN_ERROR = 1e-3
# Pairs that are compared with independence: so many, of no more cells than these.
MAX_COMPARED_PAIRS, MAX_COMPARED_CELLS = 300, 2**18


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
        variances, total = np.maximum(interval.error, _MIN_ERROR) ** 2, float(interval.estimate.sum())
        table = project_to_simplex_weighted(interval.estimate, variances, total=max(1.0, total))
        columns[name] = total_variation(table, exact(interval.marginal))
    pairs: dict[Clique, float] = {}
    place = {name: number for number, name in enumerate(schema.domain)}
    cliques = [sorted(item.marginal.clique, key=place.__getitem__) for item in items]
    for pair in dict.fromkeys(pair for clique in cliques for pair in combinations(clique, 2)):
        interval = found.of(*pair)
        table = project_to_simplex(interval.estimate, total=max(1.0, float(interval.estimate.sum())))
        pairs[pair] = total_variation(table, exact(interval.marginal))
    return columns, pairs


def compare_with_independence(
    items: Sequence[Measurement],
    *,
    population: SimulatedPopulation,
    columns: Mapping[str, float],
    pairs: Mapping[Clique, float],
) -> tuple[float, float]:
    """Return the mean error of all pairs in a release, and that of independent exact columns.

    They follow from the errors of the columns and the pairs that a run measured. A pair that was not measured is as far
    from the truth as independence is, and the noise of its columns comes on top; independent errors add as squares. A
    measured pair is known in its groups of codes, up to its noise.
    """
    domain = population.schema.domain
    every = [pair for pair in combinations(domain, 2) if domain.cells(pair) <= MAX_COMPARED_CELLS]
    chosen = np.random.default_rng(0).permutation(len(every))[:MAX_COMPARED_PAIRS]
    together = [item for item in items if len(item.marginal.clique) > 1]
    groups = common_groupings(together, classes=population.schema.rules.classes)
    left, alone = 0.0, 0.0
    for pair in (every[number] for number in chosen.tolist()):
        away = _dependence(population, Marginal(pair))
        error = pairs.get(pair)
        alone += away
        if error is None:
            left += float(np.sqrt(away**2 + columns[pair[0]] ** 2 + columns[pair[1]] ** 2))
        else:
            grouped = Marginal.with_groupings(pair, groups)
            left += max(0.0, away - _dependence(population, grouped)) + error
    count = max(1, len(chosen))
    return left / count, alone / count


def _dependence(population: SimulatedPopulation, marginal: Marginal) -> float:
    exact = population.exact(marginal)
    return total_variation(exact, np.outer(exact.sum(axis=1), exact.sum(axis=0)).astype(np.float64))


def total_variation(first: Numbers, second: Numbers) -> float:
    """Return the total variation between two tables of counts, each as shares of its own sum.

    >>> total_variation(np.array([30, 10]), np.array([1, 1]))
    0.25
    """
    one, two = first / max(float(first.sum()), 1e-300), second / max(float(second.sum()), 1e-300)
    return float(0.5 * np.abs(one - two).sum())
