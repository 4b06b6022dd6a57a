"""Rounding a two-way table to integers with the same sums, and moving single units while that lowers the error.

Controlled rounding (Cox 1987): the fractional entries are the edges of a graph between rows and columns. Each cycle in
it is pushed round, in the direction of the smaller squared error, until an entry is an integer; a forest of fractional
entries cannot be, for its leaves would be the only fraction of a row or column whose sum is an integer.

Then, as long as the error falls, units move: a cycle of columns, each giving one unit of some row to the next, keeps
all sums. A table that no such cycle improves is the nearest integer table, because the error is separable and convex
(the residual graph of the flow has no negative cycle).

These loops are the twins of `_native/integer_transportation.c`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# A count in fixed point: fractions are multiples of 1 / ONE.
ONE = 1 << 20
# Rows looked at while units are moved, for one table.
_MAX_WORK = 200_000_000

Grid = list[list[float]]
FixedGrid = list[list[int]]


def round_table(fixed: FixedGrid, *, target: Grid, variance: Sequence[float]) -> None:
    """Round a table in fixed point to integers with the same sums, in place; each entry moves by less than 1.

    >>> table = [[ONE // 2, ONE // 2], [ONE // 2, ONE // 2]]
    >>> round_table(table, target=[[0.6, 0.4], [0.4, 0.6]], variance=[1.0, 1.0])
    >>> [[value // ONE for value in row] for row in table]
    [[1, 0], [0, 1]]
    """
    live: dict[int, list[int]] = {}
    for i, row in enumerate(fixed):
        live[i] = []
        for j, value in enumerate(row):
            if value % ONE:
                path = _find_path(live, len(row), i, j)
                live[i].append(j)
                if path:
                    _push_cycle(fixed, target, variance, live, path)
        live = {row: columns for row, columns in live.items() if columns}


def _find_path(live: dict[int, list[int]], size: int, row: int, column: int) -> list[tuple[int, int]]:
    """Return the entries of the cycle that an entry closes in the forest of fractional entries, that entry first."""
    slots = list(live)
    parents: dict[int, int] = {size + len(slots) - 1: -1}
    nodes = list(parents)
    for node in nodes:
        if node < size:
            others = [size + k for k, i in enumerate(slots) if node in live[i]]
        else:
            others = sorted(live[slots[node - size]])
        for other in others:
            if other not in parents:
                parents[other] = node
                nodes.append(other)
        if column in parents:
            break
    if column not in parents:
        return []
    path, node = [(row, column)], column
    while parents[node] >= 0:
        ends = sorted((node, parents[node]))
        path.append((slots[ends[1] - size], ends[0]))
        node = parents[node]
    return path


def _push_cycle(
    fixed: FixedGrid,
    target: Grid,
    variance: Sequence[float],
    live: dict[int, list[int]],
    path: list[tuple[int, int]],
) -> None:
    most = [ONE, ONE]
    for place, (i, j) in enumerate(path):
        part = fixed[i][j] % ONE
        up, down = (ONE - part, part) if place % 2 == 0 else (part, ONE - part)
        most = [min(most[0], up), min(most[1], down)]
    change = [0.0, 0.0]
    for place, (i, j) in enumerate(path):
        off = fixed[i][j] / ONE - target[i][j]
        for way in (0, 1):
            size = most[way] / ONE
            by = size if (place % 2 == 0) == (way == 0) else -size
            change[way] += (2.0 * off * by + by * by) / variance[i]
    moved = -most[1] if change[1] < change[0] else most[0]
    for place, (i, j) in enumerate(path):
        fixed[i][j] += moved if place % 2 == 0 else -moved
        if not fixed[i][j] % ONE:
            live[i].remove(j)


def improve_table(
    fixed: FixedGrid, *, target: Grid, variance: Sequence[float], allowed: list[list[bool]]
) -> None:
    """Move single units around cycles of columns until none lowers the squared error, or a limit of work is met."""
    size = len(fixed[0])
    pairs = [(j, l) for j in range(size) for l in range(size) if l != j]

    def cost_of(i: int, j: int, l: int) -> float:
        if not fixed[i][j] or not allowed[i][l]:
            return math.inf
        less, more = fixed[i][j] // ONE - target[i][j], fixed[i][l] // ONE - target[i][l]
        return ((1.0 - 2.0 * less) + (1.0 + 2.0 * more)) / variance[i]

    def scan(j: int, l: int) -> tuple[float, int]:
        found = (math.inf, -1)
        for i in range(len(fixed)):
            cost = cost_of(i, j, l)
            if cost < found[0]:
                found = (cost, i)
        return found

    best = {pair: scan(*pair) for pair in pairs}
    work = len(fixed) * size * size
    while work < _MAX_WORK:
        cycle = _find_cycle(best, size)
        if not cycle or not _add_costs(best, cycle) < -1e-7:
            return
        moved = []
        for j, l in cycle:
            row = best[j, l][1]
            fixed[row][j] -= ONE
            fixed[row][l] += ONE
            moved.append(row)
        for pair in pairs:
            if best[pair][1] in moved:
                best[pair] = scan(*pair)
                work += len(fixed)
        for row in moved:
            for pair in pairs:
                cost = cost_of(row, *pair)
                if cost < best[pair][0]:
                    best[pair] = (cost, row)
        work += size**3


def _find_cycle(best: dict[tuple[int, int], tuple[float, int]], size: int) -> list[tuple[int, int]]:
    """Return the pairs of columns of a cycle whose moves cost less than nothing (Bellman and Ford), last move first."""
    distance, before, last = [0.0] * size, [-1] * size, -1
    for _ in range(size + 1):
        last = -1
        for (j, l), (cost, _) in best.items():
            if distance[j] + cost < distance[l] - 1e-9:
                distance[l] = distance[j] + cost
                before[l] = j
                last = l
        if last < 0:
            return []
    for _ in range(size):
        last = before[last] if last >= 0 else last
    if last < 0:
        return []
    cycle = [(before[last], last)]
    while cycle[-1][0] != last:
        cycle.append((before[cycle[-1][0]], cycle[-1][0]))
    return cycle


def _add_costs(best: dict[tuple[int, int], tuple[float, int]], cycle: list[tuple[int, int]]) -> float:
    total = 0.0
    for pair in cycle:
        total += best[pair][0]
    return total
