"""`mwem`: round after round, the wanted marginal that multiplicative weights answer worst."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from populace.infer.estimator import Estimator
from populace.infer.weights import Weights, dense
from populace.marginals import Candidates, Clique, Domain, Marginal
from populace.measurements import Measurement
from populace.privacy.mechanisms import Noise
from populace.progress import Progress
from populace.strategy.aim import HEAVIEST, MOST_CANDIDATES, MOST_CELLS, MOST_SCORED, usual
from populace.strategy.independent import measure_columns
from populace.strategy.oracle import Oracle
from populace.strategy.workload import Workload

# What single columns take, the rounds for every column, and how much of a round goes into measuring.
COLUMN_SHARE = Fraction(15, 100)
ROUNDS = 2
MEASURED = Fraction(3, 4)


def mwem(oracle: Oracle, *, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then in every round choose the wanted marginal that is answered worst, and measure it.

    One exponential mechanism chooses, with the distance of a marginal's counts from the estimate as score, less the
    error that measuring it would bring. After each round the estimate is updated with all tables so far, by
    multiplicative weights over the whole domain where that is small enough and free of rules, else on a junction
    tree of limited size: what multiplicative weights come to when they are repeated is a model of that kind.
    The number of rounds is public and all are alike.
    Source: Hardt, Ligett and McSherry 2012. They start from an even distribution, know the number of rows, give half
    of a round to choosing, and score single queries; that columns come first, and the penalty, are ours.
    """
    wanted = wanted_marginals(workload, domain=oracle.domain)
    progress("measuring columns", 0.0)
    if not wanted or len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=COLUMN_SHARE)
    estimate = first_estimate(oracle, measured)
    rounds = ROUNDS * len(oracle.domain)
    each = (1 - COLUMN_SHARE) / rounds
    noise = oracle.budget.measure_noise(each * MEASURED, marginals=1)
    law = oracle.budget.choice(each * (1 - MEASURED), choices=1)
    for number in range(rounds):
        progress("choosing marginals", 0.1 + 0.9 * number / rounds)
        candidates = answered(estimate, wanted, noise=noise)
        if not candidates.marginals:
            return measured + _again(oracle, share=each * (rounds - number))
        chosen = oracle.choose(candidates, among=range(len(candidates.marginals)), law=law, none=False)
        found = oracle.measure([candidates.marginals[chosen or 0]], noise=noise)
        measured += found
        if number < rounds - 1:
            estimate.add(found)
            estimate.refit()
    return measured


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
    heaviest = max(found.values(), default=Fraction(1))
    kept, left = {}, MOST_SCORED
    for clique in sorted(found, key=domain.cells)[:MOST_CANDIDATES]:
        left -= domain.cells(clique)
        if left < 0:
            break
        kept[clique] = max(1, round(HEAVIEST * found[clique] / heaviest))
    return kept


def first_estimate(oracle: Oracle, measured: tuple[Measurement, ...]) -> Weights | Estimator:
    """Return the estimate that columns give: over the whole domain where it can be held, else a graphical model."""
    estimate: Weights | Estimator
    if dense(oracle.domain, rules=oracle.rules, totals=oracle.totals):
        estimate = Weights(oracle.domain)
    else:
        estimate = Estimator(oracle.domain, rules=oracle.rules, totals=oracle.totals)
    estimate.add(measured)
    estimate.refit()
    return estimate


def answered(estimate: Weights | Estimator, wanted: Mapping[Clique, int], *, noise: Noise) -> Candidates:
    """Return the marginals that can be measured, with what the estimate answers.

    Marginals of several columns whose noise would exceed any distance there can be, twice the rows, are left out, and
    so are those that a graphical model has no room for.
    """
    most = 2 * estimate.total / usual(noise)
    cliques = [
        clique
        for clique in wanted
        if (len(clique) == 1 or estimate.domain.cells(clique) <= most) and holds(estimate, clique)
    ]
    tables = estimate.tables(cliques)
    return Candidates(
        tuple(Marginal(clique) for clique in cliques),
        tuple(np.rint(tables[clique]).astype(np.int64) for clique in cliques),
        tuple(round(wanted[c] * usual(noise) * np.count_nonzero(tables[c])) for c in cliques),
        tuple(wanted[clique] for clique in cliques),
    )


def holds(estimate: Weights | Estimator, clique: Clique) -> bool:
    """Say whether an estimate can take in a table: a distribution over all cells always can."""
    if isinstance(estimate, Weights):
        return True
    return estimate.fits(clique, room=max(MOST_CELLS, estimate.cells_with(())))


def _again(oracle: Oracle, *, share: Fraction) -> tuple[Measurement, ...]:
    """Measure all columns once more, with what no marginal is worth."""
    columns = [Marginal((name,)) for name in oracle.domain]
    return oracle.measure(columns, noise=oracle.budget.measure_noise(share, marginals=len(columns)))
