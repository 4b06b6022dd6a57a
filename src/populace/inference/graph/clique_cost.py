"""How large a model would become: the cells of its junction tree if one more clique joined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from populace.core.marginals import Clique, Domain
from populace.inference.graph.junction_tree import JunctionTree, junction_tree, maximal_tables, table_cells


class CliqueCost:
    """Prices cliques that may join those of a junction tree; fast enough for every candidate of an adaptive round."""

    def __init__(
        self,
        cliques: Iterable[Clique],
        *,
        domain: Domain,
        tree: JunctionTree | None = None,
        earlier: CliqueCost | None = None,
    ) -> None:
        """Price cliques that may join some others; `earlier` priced them when there were fewer of these."""
        cliques = list(cliques)
        self._domain = domain
        self._tree = tree or junction_tree(cliques, domain=domain)
        self._sets = [frozenset(node) for node in self._tree.nodes]
        self._cells = [domain.cells(node) for node in self._tree.nodes]
        self._held = sum(self._cells)
        self._home, self._part = self._tree.tops, self._tree.parts
        self._bit = {name: 1 << i for i, name in enumerate(domain)}
        self._sizes = domain.shape(domain)
        self._masks = {self._mask(clique) for clique in cliques}
        self._found: dict[int, int] = {}
        # What a clique needed beside fewer others: it needs no less beside more.
        known = earlier is not None and earlier._domain == domain
        self._needed: dict[int, int] = earlier._needed if earlier is not None and known else {}

    def cells(self, clique: Clique) -> int:
        """Return the number of cells of the tree that holds a clique too."""
        return self._held if self._tree.shared_nodes(clique) else self._elimination_cost(clique)

    def fits(self, clique: Clique, *, max_cells: int) -> bool:
        """Say whether the tree that holds a clique too has at most so many cells."""
        if self._tree.shared_nodes(clique):
            return self._held <= max_cells
        if self._domain.cells(clique) > max_cells:
            return False
        joined = len({self._part[self._home[name]] for name in clique}) > 1
        most = self._held + self.added_cells(clique) + (self._domain.cells(clique) if joined else 0)
        if most <= max_cells:
            return True
        return (
            self._needed.get(self._mask(clique), 0) <= max_cells
            and self._elimination_cost(clique) <= max_cells
        )

    def added_cells(self, clique: Clique) -> int:
        """Return how many cells are added at most, beside those of the clique itself, when its columns are joined.

        The model holds them together if each is added to every node on the way from its own to one of them. Across an
        empty separator the clique itself becomes the only connection.
        """
        parts: dict[int, list[str]] = {}
        for name in clique:
            parts.setdefault(self._part[self._home[name]], []).append(name)
        return sum(self._gathering_cost(names) for names in parts.values() if len(names) > 1)

    def _gathering_cost(self, names: Sequence[str]) -> int:
        """Return the least number of cells added when columns of one part come together in the node of one of them."""
        if self._tree.shared_nodes(names):
            return 0
        least = math.inf
        for meeting in {self._home[name] for name in names}:
            grown: dict[int, int] = {}
            for name in names:
                # Beyond the last node that has the column, every node on the way gets it.
                for node in reversed(self._path(self._home[name], meeting)):
                    if name in self._sets[node]:
                        break
                    grown[node] = grown.get(node, 1) * self._domain[name]
            least = min(least, sum(self._cells[node] * (factor - 1) for node, factor in grown.items()))
        return int(least)

    def _path(self, start: int, end: int) -> list[int]:
        up, down = [start], [end]
        # A node's parent stands before it, so the later of the two is never above the other.
        while up[-1] != down[-1]:
            side = up if up[-1] > down[-1] else down
            side.append(self._tree.parents[side[-1]])
        return up + down[-2::-1]

    def _elimination_cost(self, clique: Clique) -> int:
        mask = self._mask(clique)
        if mask not in self._found:
            nodes = maximal_tables([*self._masks, mask], sizes=self._sizes)
            self._found[mask] = self._needed[mask] = table_cells(nodes, sizes=self._sizes)
        return self._found[mask]

    def _mask(self, clique: Sequence[str]) -> int:
        return sum(self._bit[name] for name in clique)
