"""Candidates of a round: the marginals of a workload, with their weights and what an estimate answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np

from populace.infer.tables import Table
from populace.marginals import MOST_ROWS, Candidates, Clique, Counts, Domain, Grouping, Marginal
from populace.privacy.mechanisms import DiscreteGaussian, Noise
from populace.strategy.workload import Workload

# The junction tree of a model that is fitted in every round, in cells: 2 MB. A round takes about 0.1 seconds there.
MOST_CELLS = 2**18
# What is scored in every round: so many marginals, and cells of all of them together.
MOST_CANDIDATES, MOST_SCORED = 2**13, 2**23
# Weights become whole numbers up to this one.
HEAVIEST = 1000


class Estimate(Protocol):
    """What is known so far: the expected counts of any columns, and which tables it could take in."""

    domain: Domain
    total: float

    def tables(self, cliques: Iterable[Clique], /) -> Mapping[Clique, Table]:
        """Return the expected counts of many cliques."""
        ...

    def fits(self, clique: Clique, /, *, room: int) -> bool:
        """Say whether it could take in a table without becoming larger than so many cells."""
        ...


def answered(
    estimate: Estimate, weights: Mapping[Clique, int], *, noise: Noise, room: int = MOST_CELLS
) -> Candidates:
    """Return the marginals that are worth measuring, with what the estimate answers.

    Marginals of several columns whose noise would exceed any distance there can be, twice the rows, are left out, and
    so are those that the estimate has no room for.
    """
    most = 2 * estimate.total / usual(noise)
    return compared(
        estimate,
        {
            clique: weight
            for clique, weight in weights.items()
            if (len(clique) == 1 or estimate.domain.cells(clique) <= most)
            and estimate.fits(clique, room=room)
        },
        noise=noise,
    )


def compared(
    estimate: Estimate,
    weights: Mapping[Clique, int],
    *,
    noise: Noise,
    groupings: Mapping[str, Grouping] | None = None,
) -> Candidates:
    """Return marginals with the estimate that their counts are compared with, some columns seen in groups.

    The penalty of measuring is the usual noise of all cells that can hold rows, weighted as the distance is.
    """
    tables = estimate.tables(weights)
    return Candidates(
        tuple(Marginal.grouped(clique, groupings or {}) for clique in weights),
        tuple(whole_rows(tables[clique], weight=weights[clique]) for clique in weights),
        tuple(
            min(round(weights[c] * usual(noise) * np.count_nonzero(tables[c])), MOST_ROWS) for c in weights
        ),
        tuple(weights.values()),
    )


def whole_rows(table: Table, *, weight: int = 1) -> Counts:
    """Return a table in whole rows, scaled down where noise has made more of them than a score in 64 bits can bear.

    >>> whole_rows(np.array([0.6, 7.2])).tolist(), whole_rows(np.array([1e30, 1e30])).tolist() == 2 * [2**58]
    ([1, 7], True)
    """
    over = 2 * weight * float(np.abs(table).sum()) / MOST_ROWS
    return np.rint(table if over <= 1 else table / over).astype(np.int64)


def wanted_marginals(workload: Workload, *, domain: Domain) -> dict[Clique, int]:
    """Return the marginals of a workload, small ones first, with their weights as whole numbers.

    A column of one code says nothing and is left out of them. Where there are very many the smallest are taken.

    >>> wanted = Workload(weights={("a", "b", "c"): Fraction(1), ("a", "c"): Fraction(2), ("c",): Fraction(1)})
    >>> wanted_marginals(wanted, domain=Domain({"a": 2, "b": 3, "c": 1}))
    {('a',): 1000, ('a', 'b'): 500}
    """
    found: dict[Clique, Fraction] = {}
    for clique, weight in workload.weights.items():
        telling = tuple(name for name in clique if domain[name] > 1)
        if telling:
            found[telling] = found.get(telling, Fraction(0)) + weight
    weights = whole_weights(found)
    kept = smallest(found, domain=domain, cells=MOST_SCORED)[:MOST_CANDIDATES]
    return {clique: weights[clique] for clique in kept}


def smallest(cliques: Iterable[Clique], *, domain: Domain, cells: int) -> list[Clique]:
    """Return cliques in the order of their sizes, as far as so many cells reach for all of them together.

    >>> smallest([("b",), ("a", "b"), ("a",)], domain=Domain({"a": 3, "b": 4}), cells=18)
    [('a',), ('b',)]
    """
    ordered = sorted(cliques, key=domain.cells)
    ends = accumulate(map(domain.cells, ordered))
    return [clique for clique, end in zip(ordered, ends, strict=True) if end <= cells]


def whole_weights(weights: Mapping[Clique, Fraction]) -> dict[Clique, int]:
    """Return weights as whole numbers, the heaviest of them the same for every workload.

    >>> whole_weights({("a",): Fraction(1, 3), ("b",): Fraction(2, 3), ("c",): Fraction(1, 10**9)})
    {('a',): 500, ('b',): 1000, ('c',): 1}
    """
    heaviest = max(weights.values(), default=Fraction(1))
    return {clique: max(1, round(HEAVIEST * weight / heaviest)) for clique, weight in weights.items()}


def usual(noise: Noise) -> float:
    """Return how large noise is on average, its sign left out.

    >>> round(usual(DiscreteGaussian(Fraction(100))), 3)
    7.979
    """
    deviation = math.sqrt(noise.variance)
    return deviation * math.sqrt(2 / math.pi if isinstance(noise, DiscreteGaussian) else 1 / 2)
