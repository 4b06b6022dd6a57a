"""Belief propagation on a junction tree: from potentials, or products of factors, to the marginals of all nodes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace._native.kernels import compiled, scale_to_separator
from populace.core.marginals import Clique, Domain
from populace.inference.factor import AxisMap, Table, cached_ones, cell_strides, widen_axes
from populace.inference.graph.joint_tables import JointTables
from populace.inference.graph.junction_tree import JunctionTree
from populace.schema.conditions.rules import Allowed

# The potential of cells in which no row can be: so far below all others that their probability is exactly 0.
FORBIDDEN = -1e6
# Sums of weights below this may have lost digits: the logarithms decide then.
_MIN_WEIGHT = 1e-200


class Propagation:
    """The index plan of belief propagation on one tree; building it computes nothing and compiles nothing."""

    def __init__(self, tree: JunctionTree, *, domain: Domain) -> None:
        self.tree = tree
        self.domain = domain
        self.shapes = tuple(domain.shape(node) for node in tree.nodes)
        # A node lists its separator first, so as a matrix (separator cells × other cells) it needs no transposing.
        self.separator_shapes = tuple(domain.shape(separator) for separator in tree.separators)
        self._rows = tuple(math.prod(shape) for shape in self.separator_shapes)
        self.above = tuple(
            AxisMap.of(separator, inside=tree.nodes[parent], domain=domain)
            for parent, separator in zip(tree.parents[1:], tree.separators[1:], strict=True)
        )

    def on_nodes(self, tables: Iterable[tuple[Clique, Table]]) -> list[Table]:
        """Add up tables of cliques, each in the smallest node that holds it, into one fresh table per node."""
        nodes = [np.zeros(shape) for shape in self.shapes]
        for clique, table in tables:
            home = self.tree.holding(clique, domain=self.domain)[0]
            nodes[home] += AxisMap.of(clique, inside=self.tree.nodes[home], domain=self.domain).spread(table)
        return nodes

    def supports(self, hard: Iterable[tuple[Clique, Allowed]]) -> list[Table] | None:
        """Return tables of all nodes that are above 0 just where rows can be, or None where no row can be."""
        costs = self.on_nodes((clique, np.where(allowed, 0.0, np.inf)) for clique, allowed in hard)
        if self.lowest([cost.copy() for cost in costs]) > 0:
            return None
        return self.beliefs([np.where(cost > 0, FORBIDDEN, 0.0) for cost in costs])

    def beliefs(self, potentials: Sequence[Table]) -> list[Table]:
        """Return the probability table of every node of the distribution ∝ exp(Σ potentials).

        Potentials are logarithms, one table per node, and are used up as working space. After `conditionals`, on the
        way back from the root, every node is weighted by its separator's probabilities.
        """
        tables = self.conditionals(potentials)
        for i in range(1, len(tables)):
            matrix = tables[i].reshape(self._rows[i], -1)
            matrix *= self.above[i - 1].collapse(tables[self.tree.parents[i]]).reshape(-1, 1)
        return tables

    def conditionals(self, potentials: Sequence[Table]) -> list[Table]:
        """Return every node's probabilities given its separator; potentials are used up as working space.

        On the way to the root each node becomes its distribution given its separator, with one exponential per cell,
        and passes on the logarithm of what it divided by; each separator cell is scaled by its own largest term, so
        nothing over- or underflows however far apart potentials are.
        """
        tables = list(potentials)
        for i in range(len(tables) - 1, -1, -1):
            matrix = tables[i].reshape(self._rows[i], -1)
            largest = matrix.max(axis=1, keepdims=True)
            matrix -= largest
            np.exp(matrix, out=matrix)
            sums = np.add.reduce(matrix, axis=1, keepdims=True)
            matrix /= sums
            if i:
                message = (largest + np.log(sums)).reshape(self.separator_shapes[i])
                tables[self.tree.parents[i]] += self.above[i - 1].spread(message)
        return tables

    def joints(self, beliefs: Sequence[Table]) -> JointTables:
        """Return who answers questions about any columns from the tables of all nodes."""
        return JointTables(beliefs, tree=self.tree, domain=self.domain)

    def carry(self, beliefs: Sequence[Table], *, source: int, target: int) -> None:
        """Rescale a node's table so that it agrees with a neighbour's on the columns they share."""
        lower, upper = max(source, target), min(source, target)
        if compiled():
            shared, nodes = self.tree.separators[lower], self.tree.nodes
            scale_to_separator(
                beliefs[source].reshape(-1),
                beliefs[target].reshape(-1),
                np.empty(2 * self._rows[lower]),
                leaving=cell_strides(shared, nodes[source], self.shapes[source]),
                into=cell_strides(shared, nodes[target], self.shapes[target]),
                cells=self._rows[lower],
            )
            return
        above = self.above[lower - 1]
        up = above.collapse(beliefs[upper])
        matrix = beliefs[lower].reshape(self._rows[lower], -1)
        down = matrix.sum(axis=1).reshape(up.shape)
        if target == lower:
            matrix *= _divide_or_zero(up, down).reshape(-1, 1)
        else:
            beliefs[upper][...] *= above.spread(_divide_or_zero(down, up))

    def lowest(self, costs: Sequence[Table]) -> float:
        """Return the smallest sum of costs that one row can have; costs are used up as working space."""
        tables = list(costs)
        for i in range(len(tables) - 1, 0, -1):
            least = tables[i].reshape(self._rows[i], -1).min(axis=1)
            tables[self.tree.parents[i]] += self.above[i - 1].spread(least.reshape(self.separator_shapes[i]))
        return float(tables[0].min()) if tables else 0.0


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
        nodes, self._children = plan.tree.nodes, plan.tree.children
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
        self._orders = []
        for i in range(len(nodes)):
            shapes = [table.shape for table in self._fixed[i]]
            shapes += [slots[f].shape for f in self._factors[i]]
            shapes += [plan.above[k - 1].shape for k in self._children[i]]
            self._orders.append(_cheapest_order(shapes))
        self._work = [np.empty(shape) for shape in plan.shapes]
        self._sums: list[Table] = [np.ones(1)] * len(nodes)
        # Separator cells that no row can be in have no weight, whatever the factors say.
        self._alive: list[npt.NDArray[np.intp] | slice | None] = [None if hard else slice(None)] * len(nodes)
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
            matrix = tables[i].reshape(wanted.size, -1)
            matrix *= _divide_or_zero(wanted, self._sums[i])[:, None]
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


def _divide_or_zero(wanted: Table, found: Table) -> Table:
    return np.divide(wanted, found, out=np.zeros(found.shape), where=found > 0)
