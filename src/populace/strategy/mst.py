"""`mst`: 1-ways, then a private choice of the tree of pairs that independence describes worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.infer.projection import norm_sub
from populace.marginals import Candidates, Domain, Grouping, Marginal
from populace.measurements import Measurement
from populace.privacy.mechanisms import Noise
from populace.progress import Progress
from populace.strategy.compress import compress
from populace.strategy.independent import measure_columns
from populace.strategy.oracle import Oracle

COLUMN_SHARE = Fraction(50, 100)
CHOICE_SHARE = Fraction(8, 100)
# All candidate pairs together: they are counted, estimated and kept at once, 8 bytes a cell each time.
MOST_CELLS = 2**25

Shares = npt.NDArray[np.float64]


def mst(oracle: Oracle, *, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, choose a tree of pairs privately, and measure the pairs that are worth their noise.

    Each choice is one exponential mechanism among the pairs that join two parts of the tree so far (Kruskal).
    A pair's score is the distance of its counts from the product of its noisy 1-ways, less the error that
    measuring it would bring; "no further pair" is among the choices too. Columns in no pair are measured
    again beside the pairs.
    Source: McKenna, Miklau and Sheldon 2021; the penalty and the stop are ours.
    """
    progress("measuring columns", 0.0)
    if len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=COLUMN_SHARE)
    columns = measured[1:]
    noise = oracle.budget.measure_noise(1 - COLUMN_SHARE - CHOICE_SHARE, marginals=len(columns) - 1)
    total = max(1.0, float(measured[0].counts))
    groupings = compress(columns, ordered=oracle.ordered, classes=oracle.rules.classes)
    candidates = pair_candidates(oracle.domain, columns, groupings, total=total, noise=noise)
    progress("choosing pairs", 0.1)
    chosen, left = choose_tree(oracle, candidates, progress=progress)
    progress("measuring pairs", 0.9)
    pairs = [candidates.marginals[number] for number in chosen]
    paired = {name for pair in pairs for name in pair.clique}
    asked = [*pairs, *(Marginal((name,)) for name in oracle.domain if name not in paired)]
    return measured + oracle.measure(asked, noise=oracle.budget.measure_noise(left, marginals=len(asked)))


def choose_tree(oracle: Oracle, candidates: Candidates, *, progress: Progress) -> tuple[list[int], Fraction]:
    """Return the numbers of the pairs of a tree or forest, chosen privately, and the share of the budget left."""
    left = 1 - COLUMN_SHARE
    part = {name: number for number, name in enumerate(oracle.domain)}
    most = len(part) - 1
    law = oracle.budget.choice(CHOICE_SHARE, choices=most)
    chosen: list[int] = []
    while among := [
        n for n, pair in enumerate(candidates.marginals) if len({part[c] for c in pair.clique}) == 2
    ]:
        number = oracle.choose(candidates, among=among, law=law)
        left -= CHOICE_SHARE / most
        if number is None:
            break
        kept, merged = (part[name] for name in candidates.marginals[number].clique)
        part = {name: kept if at == merged else at for name, at in part.items()}
        chosen.append(number)
        progress("choosing pairs", 0.1 + 0.8 * len(chosen) / most)
    return chosen, left


def pair_candidates(
    domain: Domain,
    columns: Sequence[Measurement],
    groupings: Sequence[Grouping],
    *,
    total: float,
    noise: Noise,
) -> Candidates:
    """Return the pairs, smallest first as far as memory reaches, with the product of their noisy 1-ways as estimate.

    A column that is all one group has nothing to say about another and stands in no pair. A pair's penalty is
    the error that remains when the estimate itself is measured with this noise and made non-negative again:
    a simulation with public random numbers, which costs nothing.
    """
    seen = {grouping.column: grouping for grouping in groupings}
    grouped = domain.grouped(groupings)
    shares = {item.marginal.clique[0]: column_shares(item, seen, total=total) for item in columns}
    deviation = float(noise.variance) ** 0.5
    rng = np.random.default_rng(0)
    marginals, estimates, penalties = [], [], []
    left = MOST_CELLS
    for clique in sorted(combinations([name for name in domain if grouped[name] > 1], 2), key=grouped.cells):
        left -= grouped.cells(clique)
        if left < 0:
            break
        estimate = total * np.outer(shares[clique[0]], shares[clique[1]])
        again = norm_sub(estimate + rng.normal(0.0, deviation, estimate.shape), total=total)
        marginals.append(Marginal(clique, tuple(seen[name] for name in clique if name in seen)))
        estimates.append(np.rint(estimate).astype(np.int64))
        penalties.append(round(float(np.abs(again - estimate).sum())))
    return Candidates(tuple(marginals), tuple(estimates), tuple(penalties))


def column_shares(item: Measurement, groupings: Mapping[str, Grouping], *, total: float) -> Shares:
    """Return the non-negative shares of a column's groups, from its noisy counts."""
    name = item.marginal.clique[0]
    counts = item.counts.astype(np.float64)
    if name in groupings:
        counts = np.zeros(groupings[name].size)
        np.add.at(counts, groupings[name].lookup, item.counts)
    return norm_sub(counts, total=total) / total
