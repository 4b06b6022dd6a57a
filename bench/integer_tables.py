"""Integer tables of the nation's voting districts from noisy counts: time, memory and errors.

    python bench/integer_tables.py

Counts of 2010 by race and age (shared/data beside the checkout) get Gaussian errors of variance 10 at every level, and
each cell is estimated from all levels by the two-pass filter of a tree. Time is the processor's.
"""

from __future__ import annotations

import resource
import time

import numpy as np
import pandas as pd
from error import SHARED

from populace.core.spine import Spine, number_paths
from populace.inference.hierarchy.integer_tables import integer_tables
from populace.inference.hierarchy.table_constraints import TableConstraints

LEVELS = ["state", "county", "vtd"]
VARIANCE = 10.0


def estimate(spine: Spine, truth: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Return the best estimate of every cell from noisy counts of all levels."""
    noisy = [table + rng.normal(0, VARIANCE**0.5, table.shape) for table in truth]
    up, spread = noisy[-1], np.full((len(truth[-1]), 1, 1), VARIANCE)
    levels = [(up, spread)]
    for level in range(spine.depth - 1, 0, -1):
        below, wide = (spine.sum_children(each, level=level) for each in levels[0])
        spread = 1 / (1 / VARIANCE + 1 / wide)
        levels.insert(0, ((noisy[level - 1] / VARIANCE + below / wide) * spread, spread))
    found = [levels[0][0]]
    for level in range(1, spine.depth):
        below, wide = (spine.sum_children(each, level=level) for each in levels[level])
        share = levels[level][1] / wide[spine.parents[level - 1]]
        found.append(levels[level][0] + share * (found[-1] - below)[spine.parents[level - 1]])
    return found


def main() -> None:
    table = pd.read_parquet(SHARED / "data" / "us-2010-redistricting" / "vtd.parquet")
    table[LEVELS] = table[LEVELS].fillna("").astype(str)
    table = table.sort_values(LEVELS, kind="stable")
    spine, _ = number_paths(list(table[LEVELS].itertuples(index=False, name=None)), levels=LEVELS)
    truth = [table.drop(columns=LEVELS).to_numpy().reshape(-1, 8, 2)]
    for level in range(spine.depth - 1, 0, -1):
        truth.insert(0, spine.sum_children(truth[0], level=level))
    estimates = estimate(spine, truth, np.random.default_rng(0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for exact in ((), (1,)):
        constraints = TableConstraints(spine=spine, shape=(8, 2), exact_levels=exact)
        totals = {level: truth[level].sum(axis=(1, 2)) for level in exact}
        start = time.process_time()
        tables = integer_tables(estimates, constraints=constraints, totals=totals)
        taken, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"exact totals of levels {exact}: {taken:.1f} s, {peak:.2f} GiB, {before:.2f} before")
        print("  root mean squared errors     cells: estimate  published   totals: estimate  published")
        for level, name in enumerate(spine.levels):
            errors = [each[level] - truth[level] for each in (estimates, tables)]
            cells = [float(np.sqrt((error**2).mean())) for error in errors]
            sums = [float(np.sqrt((error.sum(axis=(1, 2)) ** 2).mean())) for error in errors]
            numbers = f"{cells[0]:15.2f} {cells[1]:10.2f} {sums[0]:18.2f} {sums[1]:10.2f}"
            print(f"  {name:8} {spine.units(level):8,} units {numbers}")
        if not (taken < 10 and peak < 1):
            print("  * slower or larger than claimed")


if __name__ == "__main__":
    main()
