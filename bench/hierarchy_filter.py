"""Unbiased estimates of every unit of a hierarchy: time and memory, in memory and streamed.

    python bench/hierarchy_filter.py [--blocks 20000]

Three spines of random shape with made-up counts. A nation: 159,898 units in four levels with 16 cells each and exact
totals in one level, as a product domain and with a structural zero (dense matrices). And blocks of 2,016 cells
(8 × 2 × 2 × 63) in six levels, county by county: 300,000 of them are those of a large state. CPU seconds of one core,
peak memory of the process. Nothing here is private.

Claim: the nation takes at most 5 CPU seconds and 1 GiB, variances of all cells and of an area included; blocks at most
0.5 CPU seconds per 1,000, and memory does not grow with them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import platform
import resource
import time
from datetime import UTC, datetime

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Domain, Marginal
from populace.core.spine import Spine
from populace.inference.hierarchy.hierarchy_estimates import choose_filter, estimate_hierarchy
from populace.inference.hierarchy.hierarchy_plan import (
    HierarchyPlan,
    LevelQueries,
    MeasuredQuery,
    NoisyCounts,
)
from populace.inference.hierarchy.two_pass import Subtree, estimate_subtrees

EXACT_LEVEL = 1


def random_spine(units: tuple[int, ...], *, rng: np.random.Generator) -> Spine:
    parents, above = [], 1
    for count in units:
        extra = rng.integers(0, above, count - above)
        parents.append(np.sort(np.concatenate([np.arange(above), extra])))
        above = count
    return Spine(("all", *(f"level {number}" for number in range(1, len(units) + 1))), tuple(parents))


def plan_of(spine: Spine, domain: Domain, *, possible: np.ndarray | None = None) -> HierarchyPlan:
    """The total, every column and all columns together, at every level."""
    cliques = ((), *((name,) for name in domain), tuple(domain))
    queries = tuple(
        MeasuredQuery(marginal=Marginal(clique), variance=4.0 + len(clique)) for clique in cliques
    )
    levels = tuple(
        LevelQueries(queries=queries, has_exact_total=level == EXACT_LEVEL) for level in range(spine.depth)
    )
    return HierarchyPlan(spine=spine, domain=domain, levels=levels, possible=possible)


def measure_all(plan: HierarchyPlan, *, rng: np.random.Generator) -> tuple[NoisyCounts, dict[int, Floats]]:
    cells = rng.poisson(3.0, (plan.spine.leaves, *plan.shape)).astype(np.float64)
    if plan.possible is not None:
        cells *= plan.possible
    noisy, totals = [], {}
    for level in reversed(range(plan.spine.depth)):
        if level == EXACT_LEVEL:
            totals[level] = cells.reshape(len(cells), -1).sum(axis=1)
        own = []
        for query in plan.levels[level].queries:
            lost = tuple(1 + i for i, name in enumerate(plan.domain) if name not in query.marginal.clique)
            exact = cells.sum(axis=lost)
            own.append(np.rint(exact + rng.normal(size=exact.shape) * float(query.variance) ** 0.5))
        noisy.append(own)
        if level:
            cells = np.asarray(plan.spine.sum_children(cells, level=level), dtype=np.float64)
    return noisy[::-1], totals


def peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"


def run_nation(*, possible: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    domain = Domain({"a": 2, "b": 2, "c": 2, "d": 2})
    plan = plan_of(random_spine((51, 3143, 156_703), rng=rng), domain, possible=possible)
    noisy, totals = measure_all(plan, rng=rng)
    members = rng.random(plan.spine.leaves) < 0.3
    begun = time.process_time()
    estimates = estimate_hierarchy(plan, noisy, totals=totals)
    estimated = time.process_time()
    for level in range(plan.spine.depth):
        estimates.standard_deviation(tuple(domain), level=level)
    known = time.process_time()
    estimates.area(members, clique=("a",))
    ended = time.process_time()
    name = type(estimates.form).__name__
    print(
        f"nation, {name}: estimates {estimated - begun:.2f} s, standard deviations of all cells "
        f"{known - estimated:.2f} s, an area off the spine {ended - known:.2f} s; peak {peak()}",
        flush=True,
    )


def run_blocks(blocks: int) -> None:
    rng = np.random.default_rng(0)
    domain = Domain({"a": 8, "b": 2, "c": 2, "d": 63})
    units = (max(1, blocks // 30_000), blocks // 1500, blocks // 400, blocks // 100, blocks)
    plan = plan_of(random_spine(units, rng=rng), domain)
    stock = rng.integers(0, 30, 2016 * 20_000)

    def measure(subtree: Subtree) -> NoisyCounts:
        """Give views of one array: what reading counts would take is not measured here."""
        found = []
        for level, at in zip(subtree.levels, subtree.units, strict=True):
            shapes = [(at.stop - at.start, *q.marginal.shape(domain)) for q in plan.levels[level].queries]
            found.append([stock[: int(np.prod(shape))].reshape(shape) for shape in shapes])
        return found

    before, begun = peak(), time.process_time()
    form = choose_filter(plan)
    totals = {EXACT_LEVEL: np.full(plan.spine.units(EXACT_LEVEL), 1e6)}
    for found in estimate_subtrees(form, measure, cut=2, totals=totals):
        form.variance(("a", "b"), level=found.subtree.level, units=found.subtree.units[0])
    spent = time.process_time() - begun
    print(
        f"{blocks} blocks of 2,016 cells, county by county: {spent:.1f} s, {spent / blocks * 1000:.3f} s per 1,000; "
        f"peak {before} before, {peak()} after",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=20_000)
    given = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, NumPy {np.__version__}, one core")
    run_nation(possible=None)
    zero = np.ones((2, 2, 2, 2), dtype=bool)
    zero[1, 1, 0, 0] = False
    run_nation(possible=zero)
    for blocks in (given.blocks // 4, given.blocks):
        run_blocks(blocks)


if __name__ == "__main__":
    main()
