"""How much a model can hold: which pairs may join those chosen before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from populace.infer.junction_tree import JunctionTree
from populace.infer.structure import Layout
from populace.marginals import Clique, Domain, Grouping
from populace.schema.rules import Rules

# Fitting takes seconds up to here.
MOST_ADDED = 2**20


class Room:
    """Keeps the model under rules small: a pair that would close a large cycle with rules and other pairs is refused.

    It looks at the rules and at the pairs chosen so far, which are public or paid for.
    """

    def __init__(self, rules: Rules, *, domain: Domain, groupings: Mapping[str, Grouping]) -> None:
        self._free = not rules.rules
        self._layout = Layout(rules, domain=domain, groupings=groupings)

    def admitted(self, among: Sequence[int], *, pairs: Sequence[Clique], chosen: Sequence[int]) -> list[int]:
        """Return the numbers of pairs that can join the chosen ones without making the model too large.

        A model holds the pair (a, b) if a is added to every node on the way from its own node to the nearest of b,
        or b the other way round; that bounds the cells it needs.
        """
        if self._free:
            return list(among)
        tree, domain = self._layout.tree([pairs[number] for number in chosen])
        if tree.cells(domain) * max(domain.values()) <= MOST_ADDED:
            return list(among)
        ways = _Ways(tree, domain)
        return [number for number in among if ways.cells(*pairs[number]) <= MOST_ADDED]


class _Ways:
    """Prices the ways between columns of one junction tree."""

    def __init__(self, tree: JunctionTree, domain: Domain) -> None:
        self._domain = domain
        self._tree = tree
        self._sets = [frozenset(node) for node in tree.nodes]
        self._cells = [domain.cells(node) for node in tree.nodes]
        self._home = {name: i for i in range(len(tree.nodes) - 1, -1, -1) for name in tree.nodes[i]}

    def cells(self, a: str, b: str) -> int:
        """Return how many cells are added at most, beside the pair itself, when two columns are joined."""
        way = self._way(self._home[a], self._home[b])
        # Across an empty separator the pair itself becomes the only connection.
        if not all(self._tree.separators[max(edge)] for edge in pairwise(way)):
            return 0
        last = max(i for i, node in enumerate(way) if a in self._sets[node])
        first = min(i for i, node in enumerate(way) if b in self._sets[node])
        if first <= last:
            return 0
        to_b = self._domain[a] * sum(self._cells[node] for node in way[last + 1 : first + 1])
        to_a = self._domain[b] * sum(self._cells[node] for node in way[last:first])
        return min(to_b, to_a)

    def _way(self, start: int, end: int) -> list[int]:
        up, down = [start], [end]
        # A node's parent stands before it, so the later of the two is never above the other.
        while up[-1] != down[-1]:
            side = up if up[-1] > down[-1] else down
            side.append(self._tree.parents[side[-1]])
        return up + down[-2::-1]
