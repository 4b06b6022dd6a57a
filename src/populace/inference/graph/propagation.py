"""Belief propagation on a junction tree: from potentials to the marginals of every node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from populace._native.kernels import compiled, scale_to_separator
from populace.core.marginals import Clique, Domain
from populace.inference.factor import AxisMap, Table, cell_strides
from populace.inference.graph.joint_tables import JointTables
from populace.inference.graph.junction_tree import JunctionTree

# The potential of cells in which no row can be: so far below all others that their probability is exactly 0.
FORBIDDEN = -1e6


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

    def joint(self, beliefs: Sequence[Table], clique: Clique) -> Table:
        """Return the probability table of any columns, from the tables of all nodes."""
        return self.joints(beliefs).table(clique)

    def joints(self, beliefs: Sequence[Table]) -> JointTables:
        """Return who answers many questions about the tables of all nodes."""
        return JointTables(beliefs, tree=self.tree, domain=self.domain)

    def carry(self, beliefs: Sequence[Table], *, source: int, target: int) -> None:
        """Rescale a node's table so that it agrees with a neighbour's on the columns they share."""
        lower, upper = max(source, target), min(source, target)
        if compiled():
            self._carry(beliefs, source=source, target=target, lower=lower)
            return
        above = self.above[lower - 1]
        up = above.collapse(beliefs[upper])
        matrix = beliefs[lower].reshape(self._rows[lower], -1)
        down = matrix.sum(axis=1).reshape(up.shape)
        if target == lower:
            matrix *= _divide_or_zero(up, down).reshape(-1, 1)
        else:
            beliefs[upper][...] *= above.spread(_divide_or_zero(down, up))

    def _carry(self, beliefs: Sequence[Table], *, source: int, target: int, lower: int) -> None:
        shared, nodes = self.tree.separators[lower], self.tree.nodes
        scale_to_separator(
            beliefs[source].reshape(-1),
            beliefs[target].reshape(-1),
            np.empty(2 * self._rows[lower]),
            leaving=cell_strides(shared, nodes[source], self.shapes[source]),
            into=cell_strides(shared, nodes[target], self.shapes[target]),
            cells=self._rows[lower],
        )

    def lowest(self, costs: Sequence[Table]) -> float:
        """Return the smallest sum of costs that one row can have; costs are used up as working space."""
        tables = list(costs)
        for i in range(len(tables) - 1, 0, -1):
            least = tables[i].reshape(self._rows[i], -1).min(axis=1)
            tables[self.tree.parents[i]] += self.above[i - 1].spread(least.reshape(self.separator_shapes[i]))
        return float(tables[0].min()) if tables else 0.0


def _divide_or_zero(wanted: Table, found: Table) -> Table:
    return np.divide(wanted, found, out=np.zeros(found.shape), where=found > 0)
