"""Whether pairs of a release would be closer to the truth than independent exact columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from populace.core.marginals import Clique, Marginal
from populace.inference.gls.observations import common_groupings
from populace.measurements.measurements import Measurement
from populace.planning.simulated.populations import SimulatedPopulation
from populace.planning.simulated.total_variation import total_variation

# Pairs that are compared: so many, of no more cells than these.
MAX_COMPARED_PAIRS, MAX_COMPARED_CELLS = 300, 2**18


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependenceComparison:
    """The mean error of all pairs in a release, and that of independent exact columns."""

    release_error: float
    independence_error: float


def compare_with_independence(
    items: Sequence[Measurement],
    *,
    population: SimulatedPopulation,
    columns: Mapping[str, float],
    pairs: Mapping[Clique, float],
) -> IndependenceComparison:
    """Return both errors, from those of the columns and the pairs that a run measured.

    A pair that was not measured is as far from the truth as independence is, and the noise of its columns comes on top;
    independent errors add as squares. A measured pair is known in its groups of codes, up
    to its noise.
    """
    domain = population.schema.domain
    every = [pair for pair in combinations(domain, 2) if domain.cells(pair) <= MAX_COMPARED_CELLS]
    chosen = np.random.default_rng(0).permutation(len(every))[:MAX_COMPARED_PAIRS]
    known = {frozenset(pair): error for pair, error in pairs.items()}
    together = [item for item in items if len(item.marginal.clique) > 1]
    groups = common_groupings(together, classes=population.schema.rules.classes)
    left, alone = 0.0, 0.0
    for pair in (every[number] for number in chosen.tolist()):
        away = _dependence(population, Marginal(pair))
        error = known.get(frozenset(pair))
        alone += away
        if error is None:
            left += float(np.sqrt(away**2 + columns[pair[0]] ** 2 + columns[pair[1]] ** 2))
        else:
            grouped = Marginal(pair, tuple(groups[name] for name in pair if name in groups))
            left += max(0.0, away - _dependence(population, grouped)) + error
    count = max(1, len(chosen))
    return IndependenceComparison(release_error=left / count, independence_error=alone / count)


def _dependence(population: SimulatedPopulation, marginal: Marginal) -> float:
    exact = population.exact(marginal)
    return total_variation(exact, np.outer(exact.sum(axis=1), exact.sum(axis=0)).astype(np.float64))
