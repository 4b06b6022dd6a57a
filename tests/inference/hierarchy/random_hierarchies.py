"""Random small hierarchies with a true population, facts that are true of it, and noisy estimates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.spine import Spine
from populace.inference.hierarchy.table_constraints import ForbiddenCells, LowerBound, TableConstraints


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Constraints, the true tables of every level, unbiased estimates of them, and exact totals."""

    constraints: TableConstraints
    truth: tuple[Ints, ...]
    estimates: tuple[Floats, ...]
    totals: dict[int, Ints]


def random_spine(rng: np.random.Generator, *, depth: int, children: int) -> Spine:
    parents, above = [], 1
    for _ in range(depth - 1):
        sizes = rng.integers(1, children + 1, above)
        parents.append(np.repeat(np.arange(above), sizes))
        above = int(sizes.sum())
    return Spine(tuple(f"level {k}" for k in range(depth)), tuple(parents))


def random_hierarchy(rng: np.random.Generator, *, facts: bool) -> Hierarchy:
    """Return a hierarchy whose facts hold in its true tables: sparse or dense, with or without zeros and invariants."""
    depth = int(rng.integers(2, 5))
    spine = random_spine(rng, depth=depth, children=int(rng.integers(1, 5)))
    shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 4)))
    zeros = rng.random(shape) < 0.2 if rng.random() < 0.5 else None
    if zeros is not None and zeros.all():
        zeros = None
    mean = float(rng.choice([0.2, 2.0, 30.0]))
    leaves = rng.poisson(
        mean * rng.gamma(0.5, 2.0, (spine.leaves, *[1] * len(shape))), (spine.leaves, *shape)
    )
    if zeros is not None:
        leaves[:, zeros] = 0
    # Facts are drawn first and the population is made to obey them.
    forbidden = []
    if facts:
        for _ in range(int(rng.integers(0, 5))):
            level = int(rng.integers(0, depth)) if rng.random() < 0.3 else depth - 1
            unit = int(rng.integers(spine.units(level)))
            axis = int(rng.integers(len(shape)))
            cells = np.zeros(shape, bool)
            np.moveaxis(cells, axis, 0)[int(rng.integers(shape[axis]))] = True
            if rng.random() < 0.3:
                cells = rng.random(shape) < 0.5
            leaves[spine.ancestors(level) == unit] *= ~cells
            forbidden.append(ForbiddenCells(level=level, unit=unit, cells=cells))
    truth = [leaves]
    for level in range(depth - 1, 0, -1):
        truth.insert(0, spine.sum_children(truth[0], level=level))
    exact = sorted(set(rng.choice(depth, rng.integers(0, 3)).tolist()))
    bounds = random_bounds(rng, spine, shape, truth, deepest=max(exact, default=0)) if facts else []
    noise = float(rng.choice([0.3, 3.0, 30.0]))
    estimates = [table + rng.normal(0, noise, table.shape) for table in truth]
    return Hierarchy(
        constraints=TableConstraints(
            spine=spine,
            shape=shape,
            zeros=zeros,
            exact_levels=tuple(exact),
            forbidden=tuple(forbidden),
            bounds=tuple(bounds),
        ),
        truth=tuple(truth),
        estimates=tuple(estimates),
        totals={level: truth[level].reshape(len(truth[level]), -1).sum(axis=1) for level in exact},
    )


def random_bounds(
    rng: np.random.Generator, spine: Spine, shape: tuple[int, ...], truth: list[Ints], *, deepest: int
) -> list[LowerBound]:
    """Return true lower bounds on values of one column and, sometimes, on all cells."""
    bounds = []
    axis = int(rng.integers(len(shape)))
    for _ in range(int(rng.integers(0, 5))):
        level = int(rng.integers(deepest, spine.depth))
        unit = int(rng.integers(spine.units(level)))
        cells = np.zeros(shape, bool)
        np.moveaxis(cells, axis, 0)[int(rng.integers(shape[axis]))] = True
        if rng.random() < 0.2:
            cells[:] = True
        held = int(truth[level][unit][cells].sum())
        bounds.append(LowerBound(level=level, unit=unit, cells=cells, count=int(rng.integers(0, held + 1))))
    return bounds


def violations(tables: tuple[Ints, ...], hierarchy: Hierarchy) -> list[str]:
    """Return what is wrong with integer tables, in words."""
    constraints, found = hierarchy.constraints, []
    spine = constraints.spine
    for level, table in enumerate(tables):
        if table.dtype != np.int64 or table.shape != hierarchy.truth[level].shape or (table < 0).any():
            found.append(f"level {level}: not counts")
        if level and not np.array_equal(spine.sum_children(table, level=level), tables[level - 1]):
            found.append(f"level {level}: children do not sum to their parents")
        if constraints.zeros is not None and table[:, constraints.zeros].any():
            found.append(f"level {level}: a structural zero")
    for level, values in hierarchy.totals.items():
        if not np.array_equal(tables[level].reshape(len(values), -1).sum(axis=1), values):
            found.append(f"level {level}: totals")
    for fact in constraints.forbidden:
        if tables[fact.level][fact.unit][fact.cells].any():
            found.append("a forbidden cell")
        below = spine.ancestors(fact.level) == fact.unit
        if tables[-1][below][:, fact.cells].any():
            found.append("a forbidden cell below")
    for bound in constraints.bounds:
        if tables[bound.level][bound.unit][bound.cells].sum() < bound.count:
            found.append("a lower bound")
    return found
