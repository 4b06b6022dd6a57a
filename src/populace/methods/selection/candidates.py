"""Candidates of a round: the marginals of a workload, with their weights and what an estimate answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np

from populace.core.marginals import MAX_ESTIMATE_ROWS, Candidates, Clique, Counts, Domain, Grouping, Marginal
from populace.inference.factor import Table
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Noise

# The junction tree of a model that is fitted in every round, in cells: 2 MB. A round takes about 0.1 seconds there.
MAX_TREE_CELLS = 2**18
# What is scored in every round: so many marginals, and cells of all of them together.
MAX_CANDIDATES, MAX_SCORED_CELLS = 2**13, 2**23
# Weights become whole numbers up to this one.
MAX_WEIGHT = 1000


class RoundEstimate(Protocol):
    """What is known so far: the expected counts of any columns, and which tables it could take in."""

    domain: Domain
    groupings: Mapping[str, Grouping]
    total: float

    def tables(self, cliques: Iterable[Clique], /) -> Mapping[Clique, Table]:
        """Return the expected counts of many cliques."""
        ...

    def fits(self, clique: Clique, /, *, max_cells: int) -> bool:
        """Say whether it could take in a table without becoming larger than so many cells."""
        ...


def answer_candidates(
    estimate: RoundEstimate, weights: Mapping[Clique, int], *, noise: Noise, max_cells: int = MAX_TREE_CELLS
) -> Candidates:
    """Return the marginals that are worth measuring, with what the estimate answers.

    Marginals of several columns whose noise would exceed any distance there can be, twice the rows, are left out, and
    so are those that the estimate has no room for.
    """
    most = 2 * estimate.total / mean_absolute_noise(noise)
    return compare_candidates(
        estimate,
        {
            clique: weight
            for clique, weight in weights.items()
            if (len(clique) == 1 or estimate.domain.cells(clique) <= most)
            and estimate.fits(clique, max_cells=max_cells)
        },
        noise=noise,
    )


def compare_candidates(estimate: RoundEstimate, weights: Mapping[Clique, int], *, noise: Noise) -> Candidates:
    """Return marginals with the estimate that their counts are compared with, columns seen as it groups them.

    The penalty of measuring is the usual noise of all cells that can hold rows, weighted as the distance is.
    """
    tables = estimate.tables(weights)
    return Candidates(
        tuple(Marginal.with_groupings(clique, estimate.groupings) for clique in weights),
        tuple(round_table(tables[clique], weight=weights[clique]) for clique in weights),
        tuple(
            min(
                round(weights[c] * mean_absolute_noise(noise) * np.count_nonzero(tables[c])),
                MAX_ESTIMATE_ROWS,
            )
            for c in weights
        ),
        tuple(weights.values()),
    )


def round_table(table: Table, *, weight: int = 1) -> Counts:
    """Return a table in whole rows, scaled down where noise has made more of them than a score in 64 bits can bear.

    >>> round_table(np.array([0.6, 7.2])).tolist(), round_table(np.array([1e30, 1e30])).tolist() == 2 * [2**58]
    ([1, 7], True)
    """
    over = 2 * weight * float(np.abs(table).sum()) / MAX_ESTIMATE_ROWS
    return np.rint(table if over <= 1 else table / over).astype(np.int64)


def workload_candidates(workload: Workload, *, domain: Domain) -> dict[Clique, int]:
    """Return the marginals of a workload, small ones first, with their weights as whole numbers.

    A column of one code says nothing and is left out of them. Where there are very many the smallest are taken.

    >>> wanted = Workload(weights={("a", "b", "c"): Fraction(1), ("a", "c"): Fraction(2), ("c",): Fraction(1)})
    >>> workload_candidates(wanted, domain=Domain({"a": 2, "b": 3, "c": 1}))
    {('a',): 1000, ('a', 'b'): 500}
    """
    found: dict[Clique, Fraction] = {}
    for clique, weight in workload.weights.items():
        telling = tuple(name for name in clique if domain[name] > 1)
        if telling:
            found[telling] = found.get(telling, Fraction(0)) + weight
    weights = scale_weights(found)
    kept = take_smallest(found, domain=domain, cells=MAX_SCORED_CELLS)[:MAX_CANDIDATES]
    return {clique: weights[clique] for clique in kept}


def take_smallest(cliques: Iterable[Clique], *, domain: Domain, cells: int) -> list[Clique]:
    """Return cliques in the order of their sizes, as far as so many cells reach for all of them together.

    >>> take_smallest([("b",), ("a", "b"), ("a",)], domain=Domain({"a": 3, "b": 4}), cells=18)
    [('a',), ('b',)]
    """
    ordered = sorted(cliques, key=domain.cells)
    ends = accumulate(map(domain.cells, ordered))
    return [clique for clique, end in zip(ordered, ends, strict=True) if end <= cells]


def scale_weights(weights: Mapping[Clique, Fraction]) -> dict[Clique, int]:
    """Return weights as whole numbers, the heaviest of them the same for every workload.

    >>> scale_weights({("a",): Fraction(1, 3), ("b",): Fraction(2, 3), ("c",): Fraction(1, 10**9)})
    {('a',): 500, ('b',): 1000, ('c',): 1}
    """
    heaviest = max(weights.values(), default=Fraction(1))
    return {clique: max(1, round(MAX_WEIGHT * weight / heaviest)) for clique, weight in weights.items()}


def mean_absolute_noise(noise: Noise) -> float:
    """Return how large noise is on average, its sign left out.

    >>> round(mean_absolute_noise(DiscreteGaussian(Fraction(100))), 3)
    7.979
    """
    deviation = math.sqrt(noise.variance)
    return deviation * math.sqrt(2 / math.pi if isinstance(noise, DiscreteGaussian) else 1 / 2)
