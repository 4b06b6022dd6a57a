"""`mst`: 1-ways, then a private choice of the tree of pairs that independence describes worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.infer.projection import norm_sub
from populace.marginals import Candidates, Counts, Domain, Grouping, Marginal
from populace.measurements import Measurement
from populace.strategy.compress import compress
from populace.strategy.independent import measure_columns
from populace.strategy.oracle import Oracle, Progress

COLUMN_SHARE = Fraction(15, 100)
CHOICE_SHARE = Fraction(10, 100)
PAIR_SHARE = 1 - COLUMN_SHARE - CHOICE_SHARE
MOST_PAIR_CELLS = 2**24


def mst(oracle: Oracle, *, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, choose a spanning tree of pairs privately, and measure its pairs.

    Each choice is one exponential mechanism among the pairs that join two parts of the tree so far (Kruskal),
    scored by the distance of the pair's counts from the product of its noisy 1-ways.
    Source: McKenna, Miklau and Sheldon 2021.
    """
    progress("measuring columns", 0.0)
    measured = measure_columns(oracle, share=COLUMN_SHARE if len(oracle.domain) > 1 else Fraction(1))
    total, columns = float(measured[0].counts), measured[1:]
    groupings = compress(columns)
    candidates = pair_candidates(oracle.domain, columns, groupings=groupings, total=max(total, 1.0))
    if not candidates.marginals:
        return measured
    progress("choosing pairs", 0.2)
    chosen = choose_tree(oracle, candidates, progress=progress)
    progress("measuring pairs", 0.8)
    pairs = [candidates.marginals[number] for number in chosen]
    noise = oracle.budget.measure_noise(PAIR_SHARE, marginals=len(pairs))
    return measured + oracle.measure(pairs, noise=noise)


def choose_tree(oracle: Oracle, candidates: Candidates, *, progress: Progress) -> list[int]:
    """Return the numbers of the pairs of a spanning tree (a forest, if pairs are missing), chosen privately."""
    part = {name: number for number, name in enumerate(oracle.domain)}
    rounds = forest_size(candidates)
    law = oracle.budget.choice(CHOICE_SHARE, choices=rounds)
    chosen: list[int] = []
    while len(chosen) < rounds:
        among = [
            number
            for number, marginal in enumerate(candidates.marginals)
            if part[marginal.clique[0]] != part[marginal.clique[1]]
        ]
        number = oracle.choose(candidates, among=among, law=law)
        kept, merged = (part[name] for name in candidates.marginals[number].clique)
        part = {name: kept if at == merged else at for name, at in part.items()}
        chosen.append(number)
        progress("choosing pairs", 0.2 + 0.6 * len(chosen) / rounds)
    return chosen


def forest_size(candidates: Candidates) -> int:
    """Return how many pairs a largest forest over the candidates has: a public number."""
    part: dict[str, str] = {}

    def root(name: str) -> str:
        while part.setdefault(name, name) != name:
            name = part[name]
        return name

    joined = 0
    for marginal in candidates.marginals:
        first, second = (root(name) for name in marginal.clique)
        if first != second:
            part[first] = second
            joined += 1
    return joined


def pair_candidates(
    domain: Domain,
    columns: Sequence[Measurement],
    *,
    groupings: tuple[Grouping, ...],
    total: float,
) -> Candidates:
    """Return every pair small enough to count, with the product of its noisy 1-ways as estimate."""
    seen = {grouping.column: grouping for grouping in groupings}
    grouped = domain.grouped(groupings)
    shares = {item.marginal.clique[0]: _shares(item, seen, total=total) for item in columns}
    marginals, estimates = [], []
    for clique in combinations(domain, 2):
        if grouped.cells(clique) <= MOST_PAIR_CELLS:
            marginals.append(Marginal(clique, tuple(seen[name] for name in clique if name in seen)))
            estimates.append(_rounded(total * np.outer(shares[clique[0]], shares[clique[1]])))
    return Candidates(tuple(marginals), tuple(estimates), (0,) * len(marginals))


def _shares(item: Measurement, groupings: Mapping[str, Grouping], *, total: float) -> npt.NDArray[np.float64]:
    """Return the non-negative shares of a column's groups, from its noisy counts."""
    name = item.marginal.clique[0]
    counts = item.counts.astype(np.float64)
    if name in groupings:
        counts = np.zeros(groupings[name].size)
        np.add.at(counts, groupings[name].lookup, item.counts)
    return norm_sub(counts, total=total) / total


def _rounded(estimate: npt.NDArray[np.float64]) -> Counts:
    return np.rint(estimate).astype(np.int64)
