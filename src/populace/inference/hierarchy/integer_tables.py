"""Non-negative integer tables of every unit of a hierarchy, from the top down.

The children of a unit share out its table along a chain of column sets ∅ ⊂ c1 ⊂ … ⊂ all columns: first their totals,
then, within each cell of the marginal known so far, the cells of the next marginal. Each step is a set of independent
two-way transportation problems (`transportation`), nearest to the unbiased estimates of its own marginal. So totals and
coarse marginals are as accurate as their own estimates; tables fitted by cells alone add up the positive bias of every
cell that is cut at 0. Where facts about units stand in the way, the family is solved as one network (`family_program`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import InternalError, UsageError
from populace.inference.constraints.known_marginals import KnownTables
from populace.inference.hierarchy.family_program import Family, meets_needs, repair_family, solve_family
from populace.inference.hierarchy.table_constraints import (
    Needs,
    TableConstraints,
    UnitNeeds,
    aggregate_needs,
    check_feasible,
    exact_totals,
)
from populace.inference.hierarchy.transportation import split_tables


def chain_order(
    shape: Sequence[int], *, variance: Callable[[tuple[int, ...]], float] | None = None
) -> tuple[int, ...]:
    """Return the order in which columns join the chain: best-known marginals first.

    `variance(clique)` is the variance of a cell of the marginal over columns, in increasing order. Each time the column
    joins whose marginal, with those before, has the smallest total variance (cells × variance); without variances, and
    among equals, the one with fewest values. The expected squared error of the tables fixed first is then smallest.

    >>> chain_order((3, 2, 2)), chain_order((3, 2), variance=lambda clique: 1.0 if clique == (0,) else 9.0)
    ((1, 2, 0), (0, 1))
    """
    order: list[int] = []
    while len(order) < len(shape):
        rest = [column for column in range(len(shape)) if column not in order]
        costs = []
        for column in rest:
            clique = tuple(sorted([*order, column]))
            cells = float(np.prod([shape[place] for place in clique]))
            # Sums of the same variances in another order are equal.
            cost = 0.0 if variance is None else float(f"{cells * variance(clique):.9e}")
            costs.append((cost, shape[column], column))
        order.append(min(costs)[2])
    return tuple(order)


def integer_tables(
    estimates: Sequence[Floats],
    *,
    constraints: TableConstraints,
    totals: Mapping[int, Ints],
    order: Sequence[int] | None = None,
    variances: Sequence[Floats] | None = None,
    known: KnownTables | None = None,
) -> tuple[Ints, ...]:
    """Return integer tables of every level, nearest to unbiased estimates, that satisfy all constraints.

    `estimates[level]` has the shape (units, *cells); `totals[level]` are the totals of the exact levels; `known` are
    public marginals over columns, for which facts about units leave no room;
    `variances[level]`, one for each unit, weigh siblings against each other; `order` is that of the chain.

    >>> from populace.core.spine import Spine
    >>> spine = Spine(("all", "county"), (np.array([0, 0]),))
    >>> found = integer_tables(
    ...     [np.array([[3.2, 1.1]]), np.array([[2.4, -0.2], [0.7, 2.0]])],
    ...     constraints=TableConstraints(spine=spine, shape=(2,), exact_levels=(0,)), totals={0: np.array([4])})
    >>> found[0].tolist(), found[1].tolist()
    ([[3, 1]], [[2, 0], [1, 1]])
    """
    spine, shape = constraints.spine, constraints.shape
    known = known or KnownTables(spine=spine, shape=shape)
    axes = known.first_columns(chain_order(shape) if order is None else tuple(order))
    _check_estimates(estimates, constraints, axes, variances)
    check_feasible(constraints, totals=totals)
    exact = exact_totals(constraints, totals=totals)
    needs = _reorder(aggregate_needs(constraints, totals=totals), shape, axes)
    sizes = tuple(shape[axis] for axis in axes)
    possible = constraints.possible.reshape(shape).transpose(axes).reshape(-1)
    tables: list[Ints] = []
    for level in range(spine.depth):
        targets = _to_chain(estimates[level], axes)
        variance = np.ones(len(targets)) if variances is None else variances[level]
        total = exact[level] if level < len(exact) else None
        if level == 0 and known.items:
            solved = known.solve_root(np.ravel(estimates[0]), possible=constraints.possible)
            tables.append(solved.reshape(shape).transpose(axes).reshape(1, -1))
            continue
        if level == 0:
            need = needs[0].get(0, UnitNeeds(allowed=possible, demands=()))
            tables.append(_root_table(targets, sizes=sizes, need=need, total=total))
            continue
        starts = np.append(spine.first_children(level), spine.units(level))
        tables.append(
            _split_level(
                targets,
                parents=tables[-1],
                starts=starts,
                sizes=sizes,
                variance=variance,
                totals=total,
                known=known.at_level(level, axes=axes),
                needs=needs[level],
                possible=possible,
            )
        )
    back = np.argsort(axes)
    return tuple(_from_chain(table, sizes, back) for table in tables)


def _root_table(targets: Floats, *, sizes: Sequence[int], need: UnitNeeds, total: Ints | None) -> Ints:
    if total is None:
        wanted = max(need.least, round(float(targets.sum()))) if need.allowed.any() else 0
        total = np.array([wanted], dtype=np.int64)
    found = np.zeros(targets.shape[1], dtype=np.int64)
    coarse, places = total, np.flatnonzero(need.allowed)
    for depth in range(1, len(sizes) + 1):
        group, finer = (_groups(sizes, stage)[places] for stage in (depth - 1, depth))
        sums = np.zeros(int(np.prod(sizes[:depth])), dtype=np.int64)
        for coarse_cell in np.unique(group):
            cells, inverse = np.unique(finer[group == coarse_cell], return_inverse=True)
            target: Floats = np.zeros(len(cells))
            np.add.at(target, inverse, targets[0][places[group == coarse_cell]])
            sums[cells] = round_to_total(target, total=int(coarse[coarse_cell]))
        coarse = sums
    found[:] = coarse
    if meets_needs(found, needs=need):
        return found[None]
    family = Family(needs=[need], targets=targets, variance=np.ones(1), cells=None, totals=total)
    solved = solve_family(family, groups=_stages(sizes))
    if solved is None:
        raise InternalError("the table of the root could not be found.")
    return solved


def _split_level(
    targets: Floats,
    *,
    parents: Ints,
    starts: Ints,
    sizes: Sequence[int],
    variance: Floats,
    totals: Ints | None,
    known: Ints | None,
    needs: Mapping[int, UnitNeeds],
    possible: Truth,
) -> Ints:
    """Split the tables of a level's parents among the units of the level, along the chain."""
    allowed: Truth | None = None
    if needs:
        allowed = np.ones(targets.shape, dtype=np.bool_)
        for unit, need in needs.items():
            allowed[unit] = need.allowed
    rows = _split_totals(targets, parents, starts, variance) if totals is None else totals
    tables, failed = _follow_chain(
        targets,
        parents=parents,
        starts=starts,
        sizes=sizes,
        variance=variance,
        rows=rows[:, None] if known is None else known,
        allowed=allowed,
    )
    plain = UnitNeeds(allowed=possible, demands=())
    for parent in sorted({int(np.searchsorted(starts, unit, side="right")) - 1 for unit in needs}):
        units = range(int(starts[parent]), int(starts[parent + 1]))
        here = slice(units.start, units.stop)
        if failed[parent]:
            # Facts come second, so that there are tables to repair.
            tables[here], _ = _follow_chain(
                targets[here],
                parents=parents[parent : parent + 1],
                starts=np.array([0, len(units)]),
                sizes=sizes,
                variance=variance[here],
                rows=rows[here, None],
                allowed=None,
            )
        if all(meets_needs(tables[unit], needs=needs[unit]) for unit in units if unit in needs):
            continue
        family = Family(
            needs=[needs.get(unit, plain) for unit in units],
            targets=targets[here],
            variance=variance[here] / max(1e-9, float(variance[here].mean())),
            cells=parents[parent],
            totals=None if totals is None else totals[here],
        )
        tables[here] = repair_family(family, tables=tables[here], groups=_stages(sizes))
    return tables


def _follow_chain(
    targets: Floats,
    *,
    parents: Ints,
    starts: Ints,
    sizes: Sequence[int],
    variance: Floats,
    rows: Ints,
    allowed: Truth | None,
) -> tuple[Ints, Truth]:
    """Return the tables of units, and the parents that could not be split into allowed cells.

    `rows` are what is known of the units: their totals, or their marginals over the first columns of the chain.
    """
    failed, mask = np.zeros(len(starts) - 1, dtype=np.bool_), None
    for depth, size in enumerate(sizes):
        if np.prod(sizes[: depth + 1], dtype=np.int64) <= rows.shape[1] and rows.shape[1] > 1:
            continue
        coarse = int(np.prod(sizes[:depth], dtype=np.int64))
        view = (-1, coarse, size, targets.shape[1] // (coarse * size))
        if allowed is not None:
            mask = np.asarray(allowed.reshape(view).any(axis=3))
        found = split_tables(
            targets.reshape(view).sum(axis=3),
            rows=rows,
            columns=parents.reshape(view).sum(axis=3),
            starts=starts,
            variance=variance,
            allowed=mask,
        )
        failed |= found.failed
        rows = found.counts.reshape(len(targets), -1)
    if allowed is None and failed.any():
        raise InternalError("the tables of a family of units could not be found.")
    return rows.copy(), failed


def _split_totals(targets: Floats, parents: Ints, starts: Ints, variance: Floats) -> Ints:
    wanted, given = targets.sum(axis=1), parents.sum(axis=1)
    found = np.zeros(len(targets), dtype=np.int64)
    for parent, total in enumerate(given):
        here = slice(starts[parent], starts[parent + 1])
        found[here] = round_to_total(wanted[here], total=int(total), variance=variance[here])
    return found


def round_to_total(target: Floats, *, total: int, variance: Floats | None = None) -> Ints:
    """Return the nearest non-negative integers with a sum, in least squares weighted by inverse variances.

    The nearest real numbers are max(0, target + shift · variance); they are rounded down, units are added where they
    cost least, and moved while that lowers the error.

    >>> round_to_total(np.array([1.6, 0.3, -2.0]), total=3).tolist()
    [2, 1, 0]
    """
    spread = np.ones(len(target)) if variance is None else np.maximum(variance, 1e-9)
    falling = np.argsort(-target / spread, kind="stable")
    shifts = (total - np.cumsum(target[falling])) / np.cumsum(spread[falling])
    kept = np.flatnonzero(target[falling] + shifts * spread[falling] > 0)
    shift = shifts[kept[-1]] if len(kept) else shifts[0]
    found = (
        np.floor(np.clip(target + shift * spread, 0, total)).astype(np.int64)
        if total
        else np.zeros(len(target), dtype=np.int64)
    )
    while (rest := total - int(found.sum())) > 0:
        cheapest = np.argsort((1 + 2 * (found - target)) / spread, kind="stable")
        found[cheapest[:rest]] += 1
    while True:
        more = (1 + 2 * (found - target)) / spread
        less = np.where(found > 0, (1 - 2 * (found - target)) / spread, np.inf)
        giver, taker = int(np.argmin(less)), int(np.argmin(more))
        over = int(found.sum()) > total
        if not over and (giver == taker or not less[giver] + more[taker] < -1e-7):
            return found
        found[giver] -= 1
        if not over:
            found[taker] += 1


def _groups(sizes: Sequence[int], depth: int) -> Ints:
    """Return the cell of the marginal over the first columns of the chain that each cell lies in."""
    cells = int(np.prod(sizes, dtype=np.int64))
    found: Ints = np.arange(cells) // max(1, cells // int(np.prod(sizes[:depth], dtype=np.int64)))
    return found


def _stages(sizes: Sequence[int]) -> list[Ints]:
    return [_groups(sizes, depth) for depth in range(1, len(sizes) + 1)]


def _to_chain(table: Floats, axes: Sequence[int]) -> Floats:
    moved = np.transpose(np.asarray(table, dtype=np.float64), (0, *(axis + 1 for axis in axes)))
    return np.ascontiguousarray(moved).reshape(len(table), -1)


def _from_chain(table: Ints, sizes: Sequence[int], back: Ints) -> Ints:
    moved = np.transpose(table.reshape(len(table), *sizes), (0, *(axis + 1 for axis in back)))
    return np.ascontiguousarray(moved)


def _reorder(needs: Needs, shape: Sequence[int], axes: Sequence[int]) -> Needs:
    """Return needs whose cells are in the order of the chain."""

    def moved(cells: Truth) -> Truth:
        return cells.reshape(shape).transpose(axes).reshape(-1)

    return tuple({unit: need.map_cells(moved) for unit, need in level.items()} for level in needs)


def _check_estimates(
    estimates: Sequence[Floats],
    constraints: TableConstraints,
    axes: Sequence[int],
    variances: Sequence[Floats] | None,
) -> None:
    spine = constraints.spine
    wanted = [(spine.units(level), *constraints.shape) for level in range(spine.depth)]
    if [np.shape(table) for table in estimates] != wanted or not all(
        np.isfinite(table).all() for table in estimates
    ):
        raise UsageError(
            "estimates are not one table of numbers for every unit.", hint="give an array for each level"
        )
    if sorted(axes) != list(range(len(constraints.shape))):
        raise UsageError("the order of the chain does not name every column once.", hint="leave it out")
    if variances is not None and (
        [np.shape(row) for row in variances] != [(units,) for units, *_ in wanted]
        or not all(np.isfinite(row).all() and np.min(row) >= 0 for row in variances)
    ):
        raise UsageError(
            "variances are not one number, 0 or more, for every unit.", hint="give an array for each level"
        )
