"""Estimates of ever more blocks of 2,016 cells, county by county, and what each step of a release costs per cell.

    python bench/hierarchy_growth.py [--most 300000]

Simulated blocks of 8 × 2 × 2 × 63 cells in six levels, the shape of the 2020 redistricting data; 300,000 of them are
those of a large state. Noisy counts are views of one array: what reading them takes is not in these times. Each size
runs in a process of its own. Before it single steps: drawing noise, the estimate, rounding to integers from the top
down, and writing counts of blocks. CPU seconds of one core. Nothing here is private.

Claim: the time per block does not grow: no size takes more than 1.25 times as long per block as a smaller one, and none
more than 0.5 CPU seconds per 1,000. The peak stays below 8 GiB, and from the first size to the last it grows by less
than a twentieth of what all estimates would take.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from populace.core.marginals import Domain, Marginal
from populace.core.spine import Spine
from populace.inference.hierarchy.hierarchy_estimates import choose_filter, estimate_hierarchy
from populace.inference.hierarchy.hierarchy_plan import (
    HierarchyPlan,
    LevelQueries,
    MeasuredQuery,
    NoisyCounts,
)
from populace.inference.hierarchy.integer_tables import integer_tables
from populace.inference.hierarchy.table_constraints import TableConstraints
from populace.inference.hierarchy.two_pass import Subtree, estimate_subtrees
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise

DOMAIN = Domain({"housing": 8, "age": 2, "ethnicity": 2, "race": 63})
SIZES = (10_000, 30_000, 100_000, 300_000)
EXACT_LEVEL = 1
SMALL = 2_000
MOST_SECONDS, MOST_GIB, MOST_GROWTH = 0.5, 8, 1.25


def random_spine(units: tuple[int, ...], *, rng: np.random.Generator) -> Spine:
    parents, above = [], 1
    for count in units:
        extra = rng.integers(0, above, count - above)
        parents.append(np.sort(np.concatenate([np.arange(above), extra])))
        above = count
    return Spine(("all", "state", "county", "tract", "block_group", "block"), tuple(parents))


def plan_of(blocks: int) -> HierarchyPlan:
    """The total, every column and all columns together, at every level; exact totals of states."""
    units = (1, max(1, blocks // 4500), max(1, blocks // 90), max(1, blocks // 30), blocks)
    queries = tuple(
        MeasuredQuery(marginal=Marginal(clique), variance=4.0 + len(clique))
        for clique in ((), *((name,) for name in DOMAIN), tuple(DOMAIN))
    )
    spine = random_spine(units, rng=np.random.default_rng(0))
    levels = tuple(
        LevelQueries(queries=queries, has_exact_total=level == EXACT_LEVEL) for level in range(spine.depth)
    )
    return HierarchyPlan(spine=spine, domain=DOMAIN, levels=levels)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def stream(blocks: int) -> None:
    """Estimate all units, county by county, and print CPU seconds and the peak before and after."""
    plan = plan_of(blocks)
    stock = np.random.default_rng(1).integers(0, 30, DOMAIN.cells(DOMAIN) * 12_000)

    def measure(subtree: Subtree) -> NoisyCounts:
        found = []
        for level, at in zip(subtree.levels, subtree.units, strict=True):
            shapes = [
                (at.stop - at.start, *query.marginal.shape(DOMAIN)) for query in plan.levels[level].queries
            ]
            found.append([stock[: int(np.prod(shape))].reshape(shape) for shape in shapes])
        return found

    before, begun = peak(), time.process_time()
    form = choose_filter(plan)
    totals = {EXACT_LEVEL: np.full(plan.spine.units(EXACT_LEVEL), 1e6)}
    for found in estimate_subtrees(form, measure, cut=2, totals=totals):
        form.variance(("age", "ethnicity"), level=found.subtree.level, units=found.subtree.units[0])
    print(time.process_time() - begun, before, peak())


def grow(most: int) -> int:
    """Stream each size in its own process; return how many bars are missed."""
    missed, rates, peaks = 0, [], []
    for blocks in (size for size in SIZES if size <= most):
        done = subprocess.run(
            [sys.executable, __file__, "--stream", str(blocks)], capture_output=True, text=True, check=True
        )
        seconds, before, after = map(float, done.stdout.split())
        rates.append(seconds / blocks * 1000)
        peaks.append(after)
        whole = blocks * DOMAIN.cells(DOMAIN) * 8 / 2**30
        print(
            f"{blocks:>9,} blocks: {seconds:7.1f} s, {rates[-1]:.3f} s per 1,000; peak {before:.2f} GiB before, "
            f"{after:.2f} after; all estimates would take {whole:.1f} GiB",
            flush=True,
        )
        missed += rates[-1] > MOST_SECONDS or after > MOST_GIB or rates[-1] > MOST_GROWTH * min(rates)
    return missed + (peaks[-1] - peaks[0] > whole / 20)


def timed(work: Callable[[], object]) -> tuple[float, object]:
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def show_steps() -> None:
    """Print what each step costs, per block and per cell."""
    cells, plan = DOMAIN.cells(DOMAIN), plan_of(SMALL)
    rng, spine = np.random.default_rng(2), plan.spine
    # A block of 40 people in few of its cells, as they are.
    truth = [rng.poisson(rng.gamma(0.02, 1.0, (SMALL, cells))).astype(np.int64)]
    for level in range(spine.depth - 1, 0, -1):
        truth.insert(0, np.asarray(spine.sum_children(truth[0], level=level)))
    noise = ExactNoise(SystemEntropy())
    drawing, noisy_cells = timed(lambda: noise.add(truth[-1], mechanism=DiscreteGaussian(Fraction("9.7"))))
    noisy = []
    for level, table in enumerate(truth):
        full = table.reshape(-1, *DOMAIN.shape(DOMAIN))
        own = []
        for query in plan.levels[level].queries:
            lost = tuple(1 + k for k, name in enumerate(DOMAIN) if name not in query.marginal.clique)
            exact = full.sum(axis=lost)
            own.append(np.rint(exact + rng.normal(size=exact.shape) * float(query.variance) ** 0.5))
        noisy.append(own)
    totals = {EXACT_LEVEL: truth[EXACT_LEVEL].sum(axis=1)}
    estimating, found = timed(lambda: estimate_hierarchy(plan, noisy, totals=totals))
    constraints = TableConstraints(spine=spine, shape=plan.shape, exact_levels=(EXACT_LEVEL,))
    rounding, tables = timed(
        lambda: integer_tables(
            found.cells, constraints=constraints, totals={EXACT_LEVEL: totals[EXACT_LEVEL].astype(np.int64)}
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.parquet"
        ids = np.repeat(np.arange(SMALL, dtype=np.int32), cells)
        places = np.tile(np.arange(cells, dtype=np.int16), SMALL)

        def write(values: dict[str, np.ndarray]) -> tuple[float, int]:
            table = pa.table({"unit": ids[: values["n"].size], "cell": places[: values["n"].size], **values})
            seconds, _ = timed(lambda: pq.write_table(table, path, compression="zstd"))
            return seconds, path.stat().st_size

        whole = {
            "n": tables[-1].ravel().astype(np.int32),
            "unbiased": found.cells[-1].ravel().astype(np.float32),
        }
        writing, size = write(whole)
        measured_seconds, measured = write({"n": np.asarray(noisy_cells).ravel().astype(np.int32)})
        held = np.flatnonzero(tables[-1].ravel())
        kept = pa.table({"unit": ids[held], "cell": places[held], "n": tables[-1].ravel()[held]})
        rows, _ = timed(lambda: pq.write_table(kept, path, compression="zstd"))
        sparse = path.stat().st_size
    numbers = SMALL * cells
    print(f"\nsteps, {SMALL:,} blocks of {cells:,} cells, {int(truth[-1].sum()):,} people:")
    for name, seconds in {
        "noise of all cells": drawing,
        "estimates of all levels": estimating,
        "integer tables of all levels": rounding,
        "writing integers and estimates of blocks": writing,
        "writing noisy cells of blocks": measured_seconds,
        "writing counted rows (n > 0)": rows,
    }.items():
        print(f"  {name:42} {seconds / SMALL * 1e3:8.3f} ms a block {seconds / numbers * 1e9:8.1f} ns a cell")
    print(
        f"  bytes a cell: {size / numbers:.2f} for integers and estimates, {measured / numbers:.2f} for noisy cells; "
        f"{sparse / SMALL:.0f} a block for counted rows; peak {peak():.2f} GiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--stream", type=int)
    given = parser.parse_args()
    if given.stream is not None:
        stream(given.stream)
        return
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, Python {platform.python_version()}, "
        f"NumPy {version('numpy')}, one core"
    )
    show_steps()
    print("\nestimates, streamed county by county:")
    missed = grow(given.most)
    print(f"\n{missed or 'no'} bars missed")


if __name__ == "__main__":
    main()
