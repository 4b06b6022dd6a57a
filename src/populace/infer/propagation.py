"""Belief propagation on a junction tree: from potentials to the marginals of every node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from populace.infer.junction_tree import JunctionTree
from populace.marginals import Clique, Domain

Table = npt.NDArray[np.float64]

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a clique lies inside a larger table: which axes are summed out, and how the others are ordered."""

    drop: tuple[int, ...]
    order: tuple[int, ...]
    back: tuple[int, ...]
    shape: tuple[int, ...]

    @staticmethod
    def of(clique: Clique, *, inside: Clique, domain: Domain) -> Slot:
        """Return the slot of a clique inside a table over `inside`."""
        kept = [column for column in inside if column in clique]
        return Slot(
            drop=tuple(i for i, column in enumerate(inside) if column not in clique),
            order=tuple(kept.index(column) for column in clique),
            back=tuple(clique.index(column) for column in kept),
            shape=tuple(domain[column] if column in clique else 1 for column in inside),
        )

    def collapse(self, table: Table) -> Table:
        """Sum a table over everything but the clique."""
        kept = np.add.reduce(table, axis=self.drop) if self.drop else table
        return kept.transpose(self.order)

    def spread(self, values: Table) -> Table:
        """View values over the clique in a shape that broadcasts against the table."""
        return values.transpose(self.back).reshape(self.shape)


class Propagation:
    """The index plan of belief propagation on one tree; building it computes nothing and compiles nothing."""

    def __init__(self, tree: JunctionTree, *, domain: Domain) -> None:
        self.tree = tree
        self.domain = domain
        self.shapes = tuple(domain.shape(node) for node in tree.nodes)
        # A node lists its separator first, so as a matrix (separator cells × other cells) it needs no transposing.
        self._rows = tuple(math.prod(domain.shape(separator)) for separator in tree.separators)
        self._above = tuple(
            Slot.of(separator, inside=tree.nodes[parent], domain=domain)
            for parent, separator in zip(tree.parents[1:], tree.separators[1:], strict=True)
        )

    def beliefs(self, potentials: Sequence[Table]) -> list[Table]:
        """Return the probability table of every node of the distribution ∝ exp(Σ potentials).

        Potentials are logarithms, one table per node, and are used up as working space. Collecting messages
        towards the root takes one exponential per cell; logarithms are taken on separators alone, each message after
        subtracting its largest exponent, so that nothing overflows and a table never vanishes as a whole.
        """
        count = len(potentials)
        sums: list[Table] = [np.empty(0)] * count
        tables: list[Table] = list(potentials)
        for i in range(count - 1, -1, -1):
            table = tables[i]
            table -= table.max()
            np.exp(table, out=table)
            matrix = table.reshape(self._rows[i], -1)
            sums[i] = np.maximum(np.add.reduce(matrix, axis=1), _TINY)
            if i:
                above = self._above[i - 1]
                shape = tuple(self.domain[column] for column in self.tree.separators[i])
                tables[self.tree.parents[i]] += above.spread(np.log(sums[i]).reshape(shape))
        if count:
            tables[0] /= sums[0]
        for i in range(1, count):
            wanted = self._above[i - 1].collapse(tables[self.tree.parents[i]])
            matrix = tables[i].reshape(self._rows[i], -1)
            matrix *= (wanted.reshape(-1) / sums[i])[:, None]
        return tables
