"""`pmw`: wanted marginals asked one after the other, measured only where the estimate is far off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from populace.core.marginals import MAX_ESTIMATE_ROWS, Candidates, Marginal
from populace.core.progress import Progress
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.literature.mwem import fit_multiplicative_weights, start_estimate
from populace.methods.method import Method
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import (
    MAX_TREE_CELLS,
    mean_absolute_noise,
    round_table,
    workload_candidates,
)
from populace.methods.selection.measure_batch import measure_evenly
from populace.methods.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PmwConfig:
    """The numbers by which `pmw` is tuned."""

    column_share: Fraction = Fraction(15, 100)
    """Of the budget, for single columns, which come first."""
    test_share: Fraction = Fraction(20, 100)
    """Of the budget, for all tests together: each is paid for, near or far."""
    updates_per_column: int = 6
    """Updates for every column at most."""
    test_deviations: float = 1.0
    """A test is passed this many standard deviations of its noise above its threshold."""


PMW_CONFIG = PmwConfig()


# So many marginals are asked at most. A test is passed by what is so many deviations of its noise above its threshold.
MAX_QUERIES = 2**10


def measure_pmw(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then ask one wanted marginal after another, and measure it if the estimate is far off.

    The order is public: shuffled from a fixed seed. Each test is a noisy distance of the marginal's counts from the
    estimate; it is far if it exceeds the error of measuring and the noise of the test. Every test is paid for, near or
    far. After a measurement the estimate is updated by multiplicative weights. When all updates are used up, no more
    marginals are asked, and what is left measures once more those that were far.
    Source: Hardt and Rothblum 2010. Their tests that find nothing cost nothing, which is not proved here.
    """
    some = list(workload_candidates(workload, domain=oracle.domain))[:MAX_QUERIES]
    asked = [some[number] for number in np.random.default_rng(0).permutation(len(some))]
    progress("measuring columns", 0.0)
    if not asked or len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=PMW_CONFIG.column_share)
    estimate = start_estimate(oracle, measured)
    updates = min(len(asked), PMW_CONFIG.updates_per_column * len(oracle.domain))
    left = 1 - PMW_CONFIG.column_share
    test = oracle.budget.score_noise(PMW_CONFIG.test_share, scores=len(asked))
    noise = oracle.budget.measure_noise(left - PMW_CONFIG.test_share, marginals=updates)
    each = (left - PMW_CONFIG.test_share) / updates
    far: list[Marginal] = []
    for number, clique in enumerate(asked):
        if len(far) == updates:
            break
        progress("asking marginals", 0.1 + 0.9 * number / len(asked))
        if not estimate.fits(clique, max_cells=MAX_TREE_CELLS):
            continue
        # The distance from the estimate, less what has to be exceeded.
        table = estimate.table(clique)
        threshold = mean_absolute_noise(noise) * np.count_nonzero(table)
        threshold += PMW_CONFIG.test_deviations * math.sqrt(test.variance)
        penalty = min(round(threshold), MAX_ESTIMATE_ROWS)
        question = Candidates((Marginal(clique),), (round_table(table),), (penalty,))
        left -= PMW_CONFIG.test_share / len(asked)
        if oracle.score(question, noise=test)[0] > 0:
            found = oracle.measure(question.marginals, noise=noise)
            left -= each
            far += question.marginals
            measured += found
            estimate.add(found)
            estimate.refit()
    if left:
        again = far or [Marginal((name,)) for name in oracle.domain]
        measured += measure_evenly(oracle, again, share=left)
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


PMW = Method(
    name="pmw",
    title="Private multiplicative weights",
    reference="Hardt and Rothblum 2010",
    measure=measure_pmw,
    fit=fit_multiplicative_weights,
    scores_all_pairs=True,
)
