"""`pmw`: wanted marginals asked one after the other, measured only where the estimate is far off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from populace.core.marginals import MAX_ESTIMATE_ROWS, Candidates, Clique, Marginal
from populace.core.progress import Progress
from populace.inference.fit.round_estimate import RoundEstimate
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.literature.mwem import fit_multiplicative_weights, max_tree_cells, start_estimate
from populace.methods.method import Method
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import compare_candidates, workload_candidates
from populace.methods.selection.measure_batch import measure_evenly
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import Noise
from populace.privacy.accounting.privacy_loss import Currency


@dataclass(frozen=True, slots=True, kw_only=True)
class PmwConfig:
    """The numbers by which `pmw` is tuned."""

    column_share: Fraction = Fraction(15, 100)
    """Of the budget, for single columns, which come first."""
    search_share: Fraction = Fraction(20, 100)
    """Of the budget, for all searches together: as many as there may be updates."""
    updates_per_column: int = 6
    """Updates for every column at most."""
    pure_updates_per_column: int = 4
    """The same without δ, where noise grows with the number of updates and not with its root."""
    doubt_part: float = 0.2
    """What is far exceeds the threshold by this part of what a search can err by."""


PMW_CONFIG = PmwConfig()


# So many marginals are asked at most.
MAX_QUERIES = 2**10


def measure_pmw(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then search the wanted marginals for the first that the estimate answers badly, and so on.

    The order is public: shuffled from a fixed seed. A search looks at all marginals that are left and tells the first
    whose counts are farther from the estimate than measuring would leave them, and than the search can err by. It has
    one price, however many it passes over. The one that was found is measured, and the estimate updated by
    multiplicative weights. Those that were passed over are not asked again. When no far one is left, or all updates are
    used up, what is left measures once more those that were far.
    Source: Hardt and Rothblum 2010.
    """
    some = list(workload_candidates(workload, domain=oracle.domain))[:MAX_QUERIES]
    asked = [some[number] for number in np.random.default_rng(0).permutation(len(some))]
    progress("measuring columns", 0.0)
    if not asked or len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=PMW_CONFIG.column_share)
    estimate = start_estimate(oracle, measured)
    pure = oracle.budget.currency is Currency.PURE
    each = PMW_CONFIG.pure_updates_per_column if pure else PMW_CONFIG.updates_per_column
    updates = min(len(asked), each * len(oracle.domain))
    left = 1 - PMW_CONFIG.column_share
    search = oracle.budget.choice(PMW_CONFIG.search_share, choices=updates)
    noise = oracle.budget.measure_noise(left - PMW_CONFIG.search_share, marginals=updates)
    # A marginal so far above the threshold is told where those before it are as far below, but for one time in so many.
    error = math.log(len(asked)) / float(search.rate(sensitivity=oracle.budget.unit.score_shift))
    max_cells, rest = max_tree_cells(asked), asked
    far: list[Marginal] = []
    while len(far) < updates:
        progress("searching marginals", 0.1 + 0.9 * len(far) / updates)
        rest = [clique for clique in rest if estimate.fits(clique, max_cells=max_cells)]
        if not rest:
            break
        question = _ask_distances(estimate, rest, noise=noise, doubt=PMW_CONFIG.doubt_part * error)
        found = oracle.find_far(question, among=range(len(rest)), mechanism=search)
        left -= PMW_CONFIG.search_share / updates
        if found is None:
            break
        far.append(question.marginals[found])
        rest = rest[found + 1 :]
        tables = oracle.measure(far[-1:], noise=noise)
        left -= (1 - PMW_CONFIG.column_share - PMW_CONFIG.search_share) / updates
        measured += tables
        estimate.add(tables)
        estimate.refit()
    if left:
        again = far or [Marginal((name,)) for name in oracle.domain]
        measured += measure_evenly(oracle, again, share=left)
    return measured


def _ask_distances(
    estimate: RoundEstimate, cliques: Sequence[Clique], *, noise: Noise, doubt: float
) -> Candidates:
    """Return marginals with their estimates; scores are distances, less what has to be exceeded."""
    question = compare_candidates(estimate, dict.fromkeys(cliques, 1), noise=noise)
    penalties = (min(round(penalty + doubt), MAX_ESTIMATE_ROWS) for penalty in question.penalties)
    return replace(question, penalties=tuple(penalties))


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
