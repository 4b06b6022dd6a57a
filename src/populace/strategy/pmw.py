"""`pmw`: wanted marginals asked one after the other, measured only where the estimate is far off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from populace.infer.estimator import Estimator
from populace.infer.weights import Weights
from populace.marginals import MOST_ROWS, Candidates, Clique, Marginal
from populace.measurements import Measurement
from populace.privacy.mechanisms import Noise
from populace.progress import Progress
from populace.strategy.candidates import MOST_CELLS, usual, wanted_marginals, whole_rows
from populace.strategy.independent import measure_columns
from populace.strategy.mwem import first_estimate
from populace.strategy.oracle import Oracle
from populace.strategy.workload import Workload

# What single columns take, what all tests together take, and how many updates there can be for every column.
COLUMN_SHARE, TEST_SHARE = Fraction(15, 100), Fraction(20, 100)
UPDATES = 6
# So many marginals are asked at most. A test is passed by what is so many deviations of its noise above its threshold.
MOST_ASKED = 2**10
SURE = 1.0


def pmw(oracle: Oracle, *, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then ask one wanted marginal after another, and measure it if the estimate is far off.

    The order is public: shuffled from a fixed seed. Each test is a noisy distance of the marginal's counts from the
    estimate; it is far if it exceeds the error of measuring and the noise of the test. Every test is paid for, near or
    far. After a measurement the estimate is updated by multiplicative weights. When all updates are used up, no more
    marginals are asked, and what is left measures once more those that were far.
    Source: Hardt and Rothblum 2010. Their tests that find nothing cost nothing, which is not proved here.
    """
    asked = _order(list(wanted_marginals(workload, domain=oracle.domain)))
    progress("measuring columns", 0.0)
    if not asked or len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=COLUMN_SHARE)
    estimate = first_estimate(oracle, measured)
    updates = min(len(asked), UPDATES * len(oracle.domain))
    left = 1 - COLUMN_SHARE
    test = oracle.budget.score_noise(TEST_SHARE, scores=len(asked))
    noise = oracle.budget.measure_noise(left - TEST_SHARE, marginals=updates)
    each = (left - TEST_SHARE) / updates
    far: list[Marginal] = []
    for number, clique in enumerate(asked):
        if len(far) == updates:
            break
        progress("asking marginals", 0.1 + 0.9 * number / len(asked))
        if not estimate.fits(clique, room=MOST_CELLS):
            continue
        question = _question(estimate, clique, noise=noise, test=test)
        left -= TEST_SHARE / len(asked)
        if oracle.score(question, noise=test)[0] > 0:
            found = oracle.measure(question.marginals, noise=noise)
            left -= each
            far += question.marginals
            measured += found
            estimate.add(found)
            estimate.refit()
    if left:
        again = far or [Marginal((name,)) for name in oracle.domain]
        measured += oracle.measure(again, noise=oracle.budget.measure_noise(left, marginals=len(again)))
    return measured


def pmw_bound(*, rows: float, queries: int, universe: float, epsilon: float, delta: float) -> float:
    """Return the source's bound on the error of every counting query, as a share of the rows, up to a constant.

    √(√(ln N · ln 1/δ) · ln k / εn) for k queries on n rows of N possible kinds; without δ ∛(ln N · ln k / εn).
    Source: Hardt and Rothblum 2010, theorem 1.1; in this form Dwork and Roth 2014, section 4.2.

    >>> [round(pmw_bound(rows=21574, queries=5000, universe=2**16, epsilon=1, delta=d), 3) for d in (1e-9, 0)]
    [0.077, 0.164]
    """
    size, many = math.log(universe), math.log(max(queries, 2))
    if delta:
        return math.sqrt(math.sqrt(size * math.log(1 / delta)) * many / (epsilon * rows))
    return math.cbrt(size * many / (epsilon * rows))


def _question(estimate: Weights | Estimator, clique: Clique, *, noise: Noise, test: Noise) -> Candidates:
    """Return the test of one marginal: its distance from the estimate less what has to be exceeded."""
    table = estimate.table(clique)
    threshold = usual(noise) * np.count_nonzero(table) + SURE * math.sqrt(test.variance)
    return Candidates((Marginal(clique),), (whole_rows(table),), (min(round(threshold), MOST_ROWS),))


def _order(cliques: Sequence[Clique]) -> list[Clique]:
    """Return the marginals that are asked, the smallest if there are many, in an order that depends on nothing else."""
    some = cliques[:MOST_ASKED]
    return [some[number] for number in np.random.default_rng(0).permutation(len(some))]
