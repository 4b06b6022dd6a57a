"""Belief propagation in probabilities instead of logarithms: one exponential per cell of a factor, not of a node."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique
from populace.inference.factor import AxisMap, Table, cached_ones, widen_axes
from populace.inference.graph.propagation import Propagation
from populace.schema.conditions.rules import Allowed

Index = npt.NDArray[np.intp]

# Sums of weights below this may have lost digits: the logarithms decide then.
_MIN_WEIGHT = 1e-200


class ProductPropagation:
    """The plan that multiplies factors into the nodes of a junction tree and makes neighbours agree.

    Each node's factors, and what its children tell it, are multiplied smallest product first, so that the whole table
    is written only once or twice.
    """

    def __init__(
        self,
        plan: Propagation,
        *,
        factors: Sequence[Clique],
        homes: Sequence[int],
        slots: Sequence[AxisMap],
        hard: Mapping[int, Allowed],
    ) -> None:
        self._plan = plan
        self._slots = tuple(slots)
        nodes, parents = plan.tree.nodes, plan.tree.parents
        # With a table of a single one there are always two to multiply.
        self._fixed = [
            [
                np.ones((1,) * len(node)),
                hard[i].astype(np.float64) if i in hard else np.ones((1,) * len(node)),
            ]
            for i, node in enumerate(nodes)
        ]
        self._factors: list[list[int]] = [[] for _ in nodes]
        for f, home in enumerate(homes):
            self._factors[home].append(f)
        self._children: list[list[int]] = [[] for _ in nodes]
        for k, parent in enumerate(parents):
            if parent >= 0:
                self._children[parent].append(k)
        self._orders = []
        for i in range(len(nodes)):
            shapes = [table.shape for table in self._fixed[i]]
            shapes += [slots[f].shape for f in self._factors[i]]
            shapes += [plan.above[k - 1].shape for k in self._children[i]]
            self._orders.append(_cheapest_order(shapes))
        self._work = [np.empty(shape) for shape in plan.shapes]
        self._sums: list[Table] = [np.ones(1)] * len(nodes)
        # Separator cells that no row can be in have no weight, whatever the factors say.
        self._alive: list[Index | slice | None] = [None if hard else slice(None)] * len(nodes)
        if hard:
            self._gather([np.ones(plan.domain.shape(factor)) for factor in factors])

    def beliefs(self, weights: Sequence[Table]) -> list[Table] | None:
        """Return the probability table of every node of the distribution ∝ the product of the factors' weights.

        The tables are overwritten by the next call. Returns None if weights are so far apart that sums vanish.
        """
        if not self._gather(weights):
            return None
        tables = self._work
        if tables:
            tables[0] /= self._sums[0]
        for i in range(1, len(tables)):
            wanted = self._plan.above[i - 1].collapse(tables[self._plan.tree.parents[i]]).reshape(-1)
            sums = self._sums[i]
            ratio = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
            matrix = tables[i].reshape(sums.size, -1)
            matrix *= ratio[:, None]
        return tables

    def _gather(self, weights: Sequence[Table]) -> bool:
        """Fill every node's table, and its sums over its separator, from the leaves up; say whether sums are safe."""
        above, shapes = self._plan.above, self._plan.separator_shapes
        messages: dict[int, Table] = {}
        for i in range(len(self._work) - 1, -1, -1):
            parts = [*self._fixed[i]]
            parts += [self._slots[f].spread(weights[f]) for f in self._factors[i]]
            parts += [messages.pop(k) for k in self._children[i]]
            table = _multiply_pairwise(parts, order=self._orders[i], out=self._work[i])
            matrix = table.reshape(math.prod(shapes[i]), -1)
            sums = self._sums[i] = matrix @ cached_ones(matrix.shape[1])
            alive = self._alive[i]
            if alive is None:
                alive = self._alive[i] = np.flatnonzero(sums)
            most, least = float(sums.max()), float(sums[alive].min())
            if not (_MIN_WEIGHT < most < 1 / _MIN_WEIGHT and least > _MIN_WEIGHT * most):
                return False
            if i:
                messages[i] = above[i - 1].spread((sums / most).reshape(shapes[i]))
        return True


def _multiply_pairwise(parts: list[Table], *, order: Sequence[tuple[int, int]], out: Table) -> Table:
    """Multiply tables that broadcast over `out` into it, two at a time."""
    for one, other in order[:-1]:
        parts.append(parts[one] * parts[other])
    left, right = (widen_axes(parts[k], out.shape) for k in order[-1])
    return np.multiply(left, right, out=out)


def _cheapest_order(shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Return which two of several tables to multiply next, the smallest product first; it becomes the last table.

    Of equal products the one of the earliest tables comes first. Tables of one shape cost the same, so only the first
    ones of each shape are compared: the root of a wide model has thousands of branches, and few shapes.
    """
    held: dict[tuple[int, ...], deque[int]] = {}
    for number, shape in enumerate(shapes):
        held.setdefault(shape, deque()).append(number)
    order: list[tuple[int, int]] = []
    for number in range(len(shapes), 2 * len(shapes) - 1):
        found = [
            (math.prod(map(max, one, other)), min(a[0], b[0]), max(a[0], b[0]), one, other)
            for (one, a), (other, b) in combinations(held.items(), 2)
        ]
        found += [(math.prod(one), same[0], same[1], one, one) for one, same in held.items() if len(same) > 1]
        _, first, second, one, other = min(found)
        for shape in (one, other):
            held[shape].popleft()
        held = {shape: same for shape, same in held.items() if same}
        held.setdefault(tuple(map(max, one, other)), deque()).append(number)
        order.append((first, second))
    return order
