"""A release simulated from a release: its published tables are taken for the truth, and noise is drawn once more.

Of a real release nobody may see how far it is from the truth. Of a simulated one everybody may: its truth is published.
Noise has the variances of the run and comes from a fixed seed, so the same release gives the same simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Counts, cell_indices
from populace.inference.hierarchy.hierarchy_plan import MeasuredQuery
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.release.report.bootstrap_error import add_simulated_noise
from populace.release.report.comparison import GAUSSIAN, LAPLACE
from populace.release.report.hierarchy.published_hierarchy import PublishedHierarchy

# Tables of more counts than these are not simulated again: the report would take longer than the run.
MAX_SIMULATED_COUNTS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedRelease:
    """Tables that stand for the truth, and the estimates and integer tables of one more run on them."""

    truth: tuple[Ints, ...]
    tables: tuple[Ints, ...]
    estimates: tuple[Floats, ...]

    def total_errors(self, level: int) -> tuple[Ints, Floats]:
        """Return how far the totals of a level are from the truth, published and unbiased."""
        lost = tuple(range(1, self.truth[level].ndim))
        true = self.truth[level].sum(axis=lost)
        return self.tables[level].sum(axis=lost) - true, self.estimates[level].sum(axis=lost) - true


def simulate_release(shown: PublishedHierarchy) -> SimulatedRelease | None:
    """Return one more run on the published tables; None where they are too many."""
    if sum(table.size for table in shown.tables) > MAX_SIMULATED_COUNTS:
        return None
    rng = np.random.default_rng(0)
    shape = LAPLACE if shown.laplace else GAUSSIAN
    noisy = tuple(
        tuple(
            add_simulated_noise(_count_query(shown, query, level), float(query.variance), shape, rng=rng)
            for query in measured.queries
        )
        for level, measured in enumerate(shown.measured.plan.levels)
    )
    again: MeasuredHierarchy = replace(shown.measured, noisy=noisy)
    return SimulatedRelease(truth=shown.tables, tables=again.tables, estimates=again.estimates.cells)


def _count_query(shown: PublishedHierarchy, query: MeasuredQuery, level: int) -> Counts:
    marginal, plan = query.marginal, shown.measured.plan
    if not marginal.groupings:
        return shown.sum_tables(marginal.clique, level=level)
    table = shown.tables[level].reshape(len(shown.tables[level]), -1)
    codes: Sequence[Ints] = np.unravel_index(np.arange(plan.cells), plan.shape)
    places = cell_indices(marginal, codes=dict(zip(plan.columns, codes, strict=True)), domain=plan.domain)
    found = np.zeros((len(table), int(np.prod(marginal.shape(plan.domain)))), dtype=np.int64)
    np.add.at(found.T, places, table.T)
    return found.reshape(len(table), *marginal.shape(plan.domain))
