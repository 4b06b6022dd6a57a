"""Whole hierarchical runs on a small made-up population, with the library's own plan, noise and estimates.

The barrier answers the questions of `topdown` about known people, with rehearsed noise, and books exact totals. How
often the margins of a release hold the truth is counted by level and by area, run by run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from populace.core.progress import silent
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates
from populace.inference.hierarchy.hierarchy_margins import area_margins, unit_margins
from populace.inference.hierarchy.measured_hierarchy import (
    MeasuredHierarchy,
    possible_cells,
    require_geography,
)
from populace.methods.topdown.topdown import measure_topdown
from populace.methods.workload import Workload
from populace.privacy.ledger.exact_totals import ExactTotals
from populace.privacy.ledger.run_record import Adaptivity
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.schema.geocodes import GEOCODE
from populace.schema.schema import Schema
from tests.audit.transcripts import Workspace

LEVELS = ("county", "tract", "block")
COLUMNS = """
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
[columns.age]
kind = "integer"
min = 0
max = 3
other = "0"
"""
ZEROS = "[[zeros]]\nwhen = \"sex == 'm' and age == 3\"\nelse = { sex = 'f' }\n"
AREAS = 200


@dataclass(frozen=True, kw_only=True)
class RunCase:
    """What is asked: the invariant levels, whether a cell is a structural zero, and the budget."""

    invariants: tuple[str, ...] = ()
    zero: bool = False
    epsilon: str = "1"
    delta: str = "1e-10"

    def __str__(self) -> str:
        exact = f"exact totals of {', '.join(self.invariants)}" if self.invariants else "no invariants"
        return f"ε = {self.epsilon}, δ = {self.delta}, {exact}{', a structural zero' if self.zero else ''}"

    @cached_property
    def schema(self) -> Schema:
        """The schema: counties with few and many tracts, tracts with one block and with many."""
        rng = np.random.default_rng(7)
        units = [
            f"{county}|{tract}|{block}"
            for county in range(4)
            for tract in range(1 + 2 * county)
            for block in range(int(rng.choice([1, 2, 5, 9])))
        ]
        listed = ", ".join(f'"{unit}"' for unit in units)
        exact = "".join(
            f"[[invariants]]\nby = [{'' if level == 'all' else repr(level)}]\n" for level in self.invariants
        )
        names = ", ".join(f'"{level}"' for level in LEVELS)
        return Schema.parse(
            f"[geography]\nlevels = [{names}]\nunits = [{listed}]\n{exact}{ZEROS * self.zero}{COLUMNS}"
        )

    @cached_property
    def truth(self) -> np.ndarray:
        """The counts of every block, (blocks, sex, age): most are small, and some blocks are empty."""
        rng = np.random.default_rng(8)
        leaves = require_geography(self.schema).spine.leaves
        means = rng.gamma(0.5, 12.0, (leaves, 1, 1)) * rng.dirichlet(np.ones(8)).reshape(2, 4) * 8
        counts = rng.poisson(means * (rng.random((leaves, 1, 1)) > 0.2))
        possible = possible_cells(self.schema)
        return counts if possible is None else counts * possible

    @cached_property
    def table(self) -> PrivateTable:
        """The people behind the counts, a row for each."""
        codes = np.repeat(np.indices(self.truth.shape).reshape(3, -1), self.truth.ravel(), axis=1)
        rows = dict(zip((GEOCODE, "sex", "age"), codes.astype(np.uint8), strict=True))
        return PrivateTable(lambda: MemoryEngine(rows, domain=self.schema.domain), schema=self.schema)

    @cached_property
    def areas(self) -> np.ndarray:
        """Random sets of blocks, few and many, that are no units: (areas, blocks)."""
        rng, leaves = np.random.default_rng(9), len(self.truth)
        return rng.random((AREAS, leaves)) < rng.uniform(0.05, 0.7, (AREAS, 1))


def run(case: RunCase, *, seed: int) -> HierarchyEstimates:
    """Return the unbiased estimates of one run: reserved, charged and answered by the barrier, with noise of a seed."""
    reserved = Workspace().reserve(
        "counted",
        epsilon=case.epsilon,
        delta=case.delta,
        unit=case.schema.unit,
        method="topdown",
        schema_digest=case.schema.digest,
        rehearsal=True,
        plan=Adaptivity.FIXED,
        exact=ExactTotals.of(case.schema),
    )
    barrier = Barrier(case.table, run=reserved, noise=ExactNoise(RehearsalEntropy(seed)))
    items = measure_topdown(barrier, Workload(weights={}), silent)
    booked = [totals.level for totals in reserved.record().invariants]
    assert booked == list(case.schema.invariants), "exact totals leave with their event, and no other way"
    return MeasuredHierarchy.of(case.schema, items).estimates


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """For each group of intervals, a level's or an area's, the share that held the truth, run by run."""

    by_level: dict[str, np.ndarray]
    by_area: np.ndarray
    cells: dict[str, int]
    area_cells: np.ndarray

    def pooled(self) -> dict[str, float]:
        """Return the share of all intervals of each level, and of all areas together."""
        found = {name: float(shares.mean()) for name, shares in self.by_level.items()}
        return {**found, "areas": float(np.average(self.by_area.mean(axis=0), weights=self.area_cells))}

    def strange(self, *, false_alarms: float = 1e-3) -> list[str]:
        """Return the groups that are further from 95 % than chance allows, corrected for their number."""
        groups = {name: (shares, self.cells[name]) for name, shares in self.by_level.items()}
        groups |= {
            f"area {number}": (self.by_area[:, number], int(cells))
            for number, cells in enumerate(self.area_cells)
        }
        most = NormalDist().inv_cdf(1 - false_alarms / (2 * len(groups)))
        found = []
        for name, (shares, cells) in groups.items():
            # Intervals of one run are dependent, so runs are what varies; never less than independent intervals do.
            spread = max(float(shares.std(ddof=1)), (0.05 * 0.95 / cells) ** 0.5) / len(shares) ** 0.5
            if abs(float(shares.mean()) - 0.95) > most * spread:
                found.append(f"{name}: {shares.mean():.3f}")
        return found


def cover(case: RunCase, *, runs: int, factor: float = 1.0) -> Coverage:
    """Count how often intervals hold the truth; `factor` falsifies the variance that they are made from.

    Counts that are known exactly are left out. Margins follow from the plan, so those of one run are those of all.
    """
    first, laplace = run(case, seed=0), case.delta == "0"
    plan, clique = first.form.plan, tuple(first.form.plan.domain)
    names = {}
    for level, name in enumerate(plan.spine.levels):
        names |= {f"{name} totals": (level, ()), f"{name} cells": (level, clique)}
    truths, widths = {}, {}
    for name, (level, columns) in names.items():
        exact = np.zeros((plan.spine.units(level), *plan.shape), dtype=np.int64)
        np.add.at(exact, plan.spine.ancestors(level), case.truth)
        truths[name] = exact if columns else exact.sum(axis=(1, 2))
        widths[name] = factor**0.5 * unit_margins(first, columns, level=level, laplace=laplace)
    flat = case.areas.astype(np.int64)
    area_truth = np.tensordot(flat, case.truth, axes=1)
    reach = factor**0.5 * np.stack(
        [
            area_margins(
                first,
                clique,
                members=members,
                variance=first.area(members, clique=clique).variance,
                laplace=laplace,
            )
            for members in case.areas
        ]
    )
    open_cells = reach > 1e-6
    hits: dict[str, list[float]] = {name: [] for name in names}
    area_hits = []
    for seed in range(runs):
        found = run(case, seed=seed + 1)
        for name, (level, columns) in names.items():
            told = widths[name] > 1e-6
            held = np.abs(found.marginal(columns, level=level) - truths[name]) <= widths[name]
            if told.any():
                hits[name].append(float(held[told].mean()))
        inside = np.abs(np.tensordot(flat, found.cells[-1], axes=1) - area_truth) <= reach
        area_hits.append((inside & open_cells).sum(axis=(1, 2)) / open_cells.sum(axis=(1, 2)))
    return Coverage(
        by_level={name: np.array(shares) for name, shares in hits.items() if shares},
        by_area=np.array(area_hits),
        cells={name: int((widths[name] > 1e-6).sum()) for name in names},
        area_cells=open_cells.sum(axis=(1, 2)),
    )
