"""Two-way tables of counts with given sums of rows and columns, nearest to a target: transportation problems.

For each: (1) the nearest non-negative real table x, in least squares weighted by the inverse variances v of the rows,

    x[i, j] = max(0, target[i, j] + v[i] · shift[j] − excess[i]),

where `excess` gives the rows their sums and Newton's method finds the shifts that give the columns theirs; (2) rounding
to integers with the same sums, and moves of single units around cycles until none lowers the error
(`integer_rounding`). Sums are exact because what Newton's method leaves open is settled in fixed point.
In C where the loops were built, in Python where they were not; both give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace._native import kernels
from populace.core.array_types import Floats, Ints, Truth
from populace.inference.hierarchy.integer_rounding import ONE, improve_table, round_table

MAX_COUNT = 1 << 40
_MAX_ROUNDS = 100
_MAX_TRIALS = 60

Grid = list[list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTables:
    """Counts of the children of every parent, and the parents whose cells could not be split."""

    counts: Ints
    failed: Truth


def split_tables(
    targets: Floats,
    *,
    rows: Ints,
    columns: Ints,
    starts: Ints,
    variance: Floats | None = None,
    allowed: Truth | None = None,
) -> SplitTables:
    """Split the cells of every parent among its children: for each group of cells, one transportation problem.

    `targets` has the shape (children, groups, cells of a group), `rows` are the sums over the cells of a group,
    `columns` the cells of the parents, `starts` the first child of each parent and, last, the number of children.
    Where `allowed` is false a count is 0. A parent fails if its sums differ, or if what is forbidden is in the way.

    >>> found = split_tables(
    ...     np.array([[[1.8, 0.1]], [[-0.5, 3.2]]]), rows=np.array([[2], [3]]), columns=np.array([[[2, 3]]]),
    ...     starts=np.array([0, 2]))
    >>> found.counts.tolist(), found.failed.tolist()
    ([[[2, 0]], [[0, 3]]], [False])
    """
    failed = np.zeros(len(starts) - 1, dtype=np.bool_)
    counts = np.zeros(targets.shape, dtype=np.int64)
    _split(targets, rows, columns, starts, variance, allowed, counts=counts, real=None, failed=failed)
    return SplitTables(counts=counts, failed=failed)


def _split(
    targets: Floats,
    rows: Ints,
    columns: Ints,
    starts: Ints,
    variance: Floats | None,
    allowed: Truth | None,
    *,
    counts: Ints,
    real: Floats | None,
    failed: Truth,
) -> None:
    given = np.ones(len(targets)) if variance is None else variance
    loop = kernels.split_tables if kernels.compiled() else split_in_python
    loop(
        np.ascontiguousarray(np.clip(targets, -MAX_COUNT, MAX_COUNT)),
        rows=np.ascontiguousarray(rows),
        columns=np.ascontiguousarray(columns),
        starts=np.ascontiguousarray(starts),
        # Only ratios count; beyond a million million of them the least certain unit takes everything anyway.
        variance=np.clip(given / (given.mean() or 1.0), 1e-6, 1e6),
        allowed=None if allowed is None else np.ascontiguousarray(allowed),
        counts=counts,
        real=real,
        failed=failed,
    )


def split_in_python(
    targets: Floats,
    *,
    rows: Ints,
    columns: Ints,
    starts: Ints,
    variance: Floats,
    allowed: Truth | None,
    counts: Ints,
    real: Floats | None,
    failed: Truth,
) -> None:
    """Do what the compiled loop does."""
    for parent in range(len(failed)):
        units = slice(int(starts[parent]), int(starts[parent + 1]))
        for group in range(targets.shape[1]):
            row_sums, column_sums = rows[units, group], columns[parent, group]
            if row_sums.sum() != column_sums.sum():
                failed[parent] = True
                break
            places = np.ix_(np.flatnonzero(row_sums), np.flatnonzero(column_sums))
            if not places[0].size:
                continue
            table = targets[units, group][places]
            mask = np.ones(table.shape, bool) if allowed is None else allowed[units, group][places]
            found, exact = _split_table(
                table.tolist(),
                row_sums[row_sums > 0].tolist(),
                column_sums[column_sums > 0].tolist(),
                variance[units][row_sums > 0].tolist(),
                mask.tolist(),
            )
            if real is not None:
                real[units, group][places] = found
            if exact is None:
                failed[parent] = True
                break
            counts[units, group][places] = exact


def _split_table(
    target: Grid,
    rows: Sequence[int],
    columns: Sequence[int],
    variance: Sequence[float],
    allowed: list[list[bool]],
) -> tuple[Grid, list[list[int]] | None]:
    real = _find_nearest(target, rows, columns, variance, allowed)
    fixed = _fix_sums(real, rows, columns, allowed)
    if fixed is None:
        return real, None
    round_table(fixed, target=target, variance=variance)
    improve_table(fixed, target=target, variance=variance, allowed=allowed)
    return real, [[value // ONE for value in row] for row in fixed]


def _find_nearest(
    target: Grid,
    rows: Sequence[int],
    columns: Sequence[int],
    variance: Sequence[float],
    allowed: list[list[bool]],
) -> Grid:
    """Return the nearest real table by Newton's method on the concave dual, whose gradient is the columns' lack.

    A step ends before the maximum along it, where the slope has at least halved: the dual rises with every step.
    """
    size = len(columns)
    spread = _add(variance)
    shift = []
    for j, total in enumerate(columns):
        lack = float(total)
        for row, mask in zip(target, allowed, strict=True):
            lack -= row[j] if mask[j] else 0.0
        shift.append(lack / spread)
    tolerance, before = 1e-8 + 1e-12 * sum(columns), math.inf
    real, residual = _evaluate(shift, target, rows, columns, variance, allowed)
    for _ in range(_MAX_ROUNDS):
        worst = max(map(abs, residual))
        # In large tables the sums themselves are no more exact than this.
        if worst <= tolerance or (worst < 1e-4 and worst > 0.5 * before):
            break
        before = worst
        step = _newton_step(real, residual, variance)
        slope, low, high, length = _inner(residual, step), 0.0, 0.0, 1.0
        if not slope > 0.0:
            break
        for _ in range(_MAX_TRIALS):
            trial = [shift[j] + length * step[j] for j in range(size)]
            real, following = _evaluate(trial, target, rows, columns, variance, allowed)
            here = _inner(following, step)
            if here > 0.5 * slope:
                low = length
                length = 0.5 * (low + high) if high > 0.0 else 2.0 * length
            elif here < -1e-6 * slope:
                high = length
                length = 0.5 * (low + high)
            else:
                break
        shift, residual = trial, following
    return real


def _evaluate(
    shift: Sequence[float],
    target: Grid,
    rows: Sequence[int],
    columns: Sequence[int],
    variance: Sequence[float],
    allowed: list[list[bool]],
) -> tuple[Grid, list[float]]:
    """Return the nearest rows that have their sums, given what each column adds, and what columns then lack."""
    residual = [float(total) for total in columns]
    real: Grid = []
    for values, total, scale, mask in zip(target, rows, variance, allowed, strict=True):
        moved = [value + by * scale for value, by in zip(values, shift, strict=True)]
        above = sorted((value for value, free in zip(moved, mask, strict=True) if free), reverse=True)
        added, excess = 0.0, 0.0
        for k, value in enumerate(above):
            added += value
            mean = (added - total) / (k + 1)
            if not value > mean:
                break
            excess = mean
        row = [
            value - excess if free and value > excess else 0.0
            for value, free in zip(moved, mask, strict=True)
        ]
        real.append(row)
        for j, value in enumerate(row):
            residual[j] -= value
    return real, residual


def _newton_step(real: Grid, residual: Sequence[float], variance: Sequence[float]) -> list[float]:
    size = len(residual)
    system = [[0.0] * size for _ in range(size)]
    for row, scale in zip(real, variance, strict=True):
        held = [j for j, value in enumerate(row) if value > 0.0]
        share = scale / len(held) if held else 0.0
        for j in held:
            system[j][j] += scale
            for k in held:
                system[j][k] -= share
    # Parts of the table that share no row leave the system singular; the ridge fades as the columns get their sums.
    ridge = 1e-3 * min(1.0, max(map(abs, residual)))
    return _solve(system, ridge * _add(variance) / len(variance), residual)


def _solve(system: Grid, ridge: float, residual: Sequence[float]) -> list[float]:
    """Return the solution of (system + ridge) step = residual by Cholesky's decomposition, in place."""
    size = len(residual)
    for j in range(size):
        held = system[j][j] + ridge
        for k in range(j):
            held -= system[j][k] * system[j][k]
        root = math.sqrt(held if held > ridge * 1e-3 else ridge * 1e-3)
        system[j][j] = root
        for i in range(j + 1, size):
            value = system[i][j]
            for k in range(j):
                value -= system[i][k] * system[j][k]
            system[i][j] = value / root
    step = [0.0] * size
    for j in range(size):
        value = residual[j]
        for k in range(j):
            value -= system[j][k] * step[k]
        step[j] = value / system[j][j]
    for j in reversed(range(size)):
        value = step[j]
        for k in range(j + 1, size):
            value -= system[k][j] * step[k]
        step[j] = value / system[j][j]
    return step


def _fix_sums(
    real: Grid, rows: Sequence[int], columns: Sequence[int], allowed: list[list[bool]]
) -> list[list[int]] | None:
    """Return the table in fixed point with exactly its sums, or None if what is forbidden does not let it."""
    size = len(columns)
    lack = [total * ONE for total in columns]
    fixed = []
    for values, total, mask in zip(real, rows, allowed, strict=True):
        rest, row, top = total * ONE, [0] * size, -1
        for j in range(size):
            value = values[j] * ONE + 0.5
            row[j] = min(math.floor(value), rest) if value < rest else rest
            rest -= row[j]
            if mask[j] and (top < 0 or row[j] > row[top]):
                top = j
        if rest and top < 0:
            return None
        if rest:
            row[top] += rest
        for j in range(size):
            lack[j] -= row[j]
        fixed.append(row)
    for j in range(size):
        for row, mask in zip(fixed, allowed, strict=True):
            if lack[j] >= 0:
                break
            for l in range(size):
                if lack[l] > 0 and mask[l]:
                    moved = min(-lack[j], lack[l], row[j])
                    row[j] -= moved
                    row[l] += moved
                    lack[j] += moved
                    lack[l] -= moved
    return None if any(lack) else fixed


def _add(values: Sequence[float]) -> float:
    """Return a sum from left to right: `sum` is more exact in newer Pythons, and the compiled loop is not."""
    total = 0.0
    for value in values:
        total += value
    return total


def _inner(one: Sequence[float], other: Sequence[float]) -> float:
    return _add([a * b for a, b in zip(one, other, strict=True)])
