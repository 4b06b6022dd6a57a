"""Probability tables of many sets of columns from one calibrated junction tree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from populace.core.marginals import Clique, Domain
from populace.inference.factor import AxisMap, Table
from populace.inference.graph.junction_tree import JunctionTree


class JointTables:
    """Answers questions about one set of node tables, and keeps what answers have in common.

    Columns of one node are summed out of its table. Columns of several nodes are gathered from the leaves of the
    smallest subtree that holds them: each branch tells the wanted columns' probabilities given its separator, and a
    separator is summed out by one product of matrices. The message of a branch is kept, so all pairs of a tree cost
    little more than its longest ways.
    """

    def __init__(self, beliefs: Sequence[Table], *, tree: JunctionTree, domain: Domain) -> None:
        self._beliefs = beliefs
        self._tree = tree
        self._domain = domain
        self._sets = [frozenset(node) for node in tree.nodes]
        self._top, self._part = tree.tops, tree.parts
        self._apart: dict[Clique, Table] = {}
        self._sums: dict[tuple[int, Clique], Table] = {}
        self._messages: dict[tuple[int, Clique], Table] = {}

    def table(self, clique: Clique) -> Table:
        """Return the probabilities of the cells of any columns, in their order.

        Columns in parts of the forest that nothing joins are independent: what each part tells is kept.
        """
        parts: dict[int, list[str]] = {}
        for column in clique:
            parts.setdefault(self._part[self._top[column]], []).append(column)
        if len(parts) <= 1:
            return self._joint_table(clique)
        whole = np.ones((1,) * len(clique))
        for columns in parts.values():
            own = tuple(columns)
            if own not in self._apart:
                self._apart[own] = self._joint_table(own)
            message = self._apart[own]
            whole = whole * message.reshape([self._domain[c] if c in columns else 1 for c in clique])
        return whole

    def _joint_table(self, clique: Clique) -> Table:
        """Return the probabilities of columns of one part of the forest."""
        if homes := self._tree.holding(clique, domain=self._domain):
            slot = AxisMap.of(clique, inside=self._tree.nodes[homes[0]], domain=self._domain)
            return slot.collapse(self._beliefs[homes[0]])
        meeting = self._meeting(clique)
        columns, table = self._gather(meeting, clique, given=())
        return table.transpose([columns.index(column) for column in clique])

    def _meeting(self, clique: Clique) -> int:
        """Return the lowest node above, or among, the top nodes of some columns."""
        nodes = {self._top[column] for column in clique}
        while len(nodes) > 1:
            lowest = max(nodes)
            nodes.remove(lowest)
            nodes.add(self._tree.parents[lowest])
        return nodes.pop()

    def _message(self, node: int, wanted: Clique) -> Table:
        """Return the probabilities of columns at or below a node given its separator's cells."""
        key = node, wanted
        if key not in self._messages:
            separator = self._tree.separators[node]
            columns, table = self._gather(node, wanted, given=separator)
            self._messages[key] = table.transpose([columns.index(column) for column in (*separator, *wanted)])
        return self._messages[key]

    def _gather(self, node: int, wanted: Clique, *, given: Clique) -> tuple[Clique, Table]:
        """Return a table of the wanted columns, and of those given, from a node and the branches below it."""
        branches: dict[int, list[str]] = {}
        for column in wanted:
            if column not in self._sets[node]:
                branches.setdefault(self._step(node, column), []).append(column)
        separators = [set(self._tree.separators[child]) for child in branches]
        kept = {*given, *wanted}
        columns: Clique = tuple(c for c in self._tree.nodes[node] if c in kept.union(*separators))
        table = self._condition_on_separator(node, columns) if given else self._sum(node, columns)
        for number, (child, below) in enumerate(branches.items()):
            later = kept.union(*separators[number + 1 :])
            columns, table = self._through(table, columns, child=child, below=tuple(below), later=later)
        return columns, table

    def _through(
        self, table: Table, columns: Clique, *, child: int, below: Clique, later: set[str]
    ) -> tuple[Clique, Table]:
        """Join what a branch tells to a table, and sum out the columns of its separator that are not needed later."""
        separator = self._tree.separators[child]
        shared = tuple(c for c in separator if c in later)
        inner = tuple(c for c in separator if c not in later)
        outer = tuple(c for c in columns if c not in separator)
        sizes = [math.prod(self._domain.shape(part)) for part in (shared, outer, inner, below)]
        left = table.transpose([columns.index(c) for c in (*shared, *outer, *inner)])
        message = self._message(child, below)
        right = message.transpose(
            [separator.index(c) for c in (*shared, *inner)] + list(range(len(separator), message.ndim))
        )
        product = np.matmul(
            left.reshape(sizes[0], sizes[1], sizes[2]), right.reshape(sizes[0], sizes[2], sizes[3])
        )
        found = (*shared, *outer, *below)
        return found, product.reshape(self._domain.shape(found))

    def _step(self, node: int, column: str) -> int:
        """Return the child of a node on the way to the top node of a column below it."""
        below = self._top[column]
        while self._tree.parents[below] != node:
            below = self._tree.parents[below]
        return below

    def _sum(self, node: int, columns: Clique) -> Table:
        key = node, columns
        if key not in self._sums:
            slot = AxisMap.of(columns, inside=self._tree.nodes[node], domain=self._domain)
            self._sums[key] = slot.collapse(self._beliefs[node])
        return self._sums[key]

    def _condition_on_separator(self, node: int, columns: Clique) -> Table:
        """Return the probabilities of some columns of a node given its separator, which stands first among them."""
        table = self._sum(node, columns)
        separator = self._tree.separators[node]
        matrix = table.reshape(math.prod(self._domain.shape(separator)), -1)
        sums = matrix.sum(axis=1, keepdims=True)
        given: Table = np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)
        return given.reshape(table.shape)
