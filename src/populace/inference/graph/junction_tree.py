"""The junction tree of a set of cliques: which columns must be held together for exact inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from populace._native.kernels import eliminate_variables
from populace.core.marginals import Clique, Domain

_EliminationCost = Callable[[int, Sequence[int], Sequence[int]], tuple[bool, int, int]]

# Logarithms of sizes as whole numbers: sums of them do not depend on the order, so equal tables always tie.
_LOG_UNIT = 2**32


@dataclass(frozen=True, kw_only=True)
class JunctionTree:
    """Sets of columns joined into a tree in which every column's nodes are connected.

    `nodes[0]` is the root, a node's parent stands before it (`parents[0]` is −1), and `separators[i]` holds the
    columns node i shares with its parent. Each node lists its separator first, and the rest with the largest
    column last: loops over a table are then long.
    """

    nodes: tuple[Clique, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]

    @cached_property
    def tops(self) -> dict[str, int]:
        """The topmost node of every column: a node's parent stands before it, so it is the first that holds it."""
        return {column: i for i in range(len(self.nodes) - 1, -1, -1) for column in self.nodes[i]}

    @cached_property
    def parts(self) -> list[int]:
        """The part of the forest that each node lies in: nothing is shared across an empty separator."""
        found = list(range(len(self.nodes)))
        for i, parent in enumerate(self.parents):
            if self.separators[i]:
                found[i] = found[parent]
        return found

    @cached_property
    def children(self) -> list[list[int]]:
        """The nodes right below each node."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for node, parent in enumerate(self.parents[1:], 1):
            found[parent].append(node)
        return found

    @cached_property
    def _nodes_of(self) -> dict[str, int]:
        """The nodes of every column, as bits."""
        found = dict.fromkeys(self.tops, 0)
        for i, node in enumerate(self.nodes):
            for name in node:
                found[name] |= 1 << i
        return found

    def shared_nodes(self, columns: Iterable[str]) -> int:
        """Return the nodes that hold some columns together, as bits."""
        found = (1 << len(self.nodes)) - 1
        for name in columns:
            found &= self._nodes_of.get(name, 0)
        return found

    def holding(self, clique: Iterable[str], *, domain: Domain) -> list[int]:
        """Return the nodes that hold a clique, the one with the smallest table first."""
        return sorted(_bits(self.shared_nodes(clique)), key=lambda i: (domain.cells(self.nodes[i]), i))

    def cells(self, domain: Domain) -> int:
        """Return how many numbers the tables of all nodes hold together."""
        return sum(domain.cells(node) for node in self.nodes)


def junction_tree(
    cliques: Iterable[Sequence[str]], *, domain: Domain, root: Iterable[str] = ()
) -> JunctionTree:
    """Build a junction tree whose nodes cover the cliques and every column of the domain; the root holds `root`.

    Columns are eliminated greedily: first those whose neighbours are joined already (a chordal graph thus gains no
    edge), else the one with the smallest table, or with the lightest new edges if that ends smaller. The maximal
    tables are joined by a spanning tree of largest separators (Jensen and Jensen 1994), which has the
    running-intersection property.
    The result depends on the set of cliques alone, not on their order or on the order of columns inside them.

    >>> tree = junction_tree([("a", "b"), ("c", "b")], domain=Domain({"a": 2, "b": 3, "c": 2}))
    >>> tree.nodes, tree.separators
    ((('a', 'b'), ('b', 'c')), ((), ('b',)))
    """
    columns = tuple(domain)
    bit = {column: 1 << i for i, column in enumerate(columns)}
    sizes = domain.shape(columns)
    masks = maximal_tables([sum(bit[column] for column in clique) for clique in cliques], sizes=sizes)
    masks.sort(key=_bits)
    top = sum(bit[column] for column in root)
    first = next((i for i, mask in enumerate(masks) if mask & top == top), 0)
    parents, order = _widest_spanning_tree(masks, first=first)
    place = {node: i for i, node in enumerate(order)}
    separators = [masks[node] & masks[parents[node]] if parents[node] >= 0 else 0 for node in order]
    return JunctionTree(
        nodes=tuple(
            tuple(
                columns[i]
                for part in (_bits(separator), sorted(_bits(masks[node] & ~separator), key=sizes.__getitem__))
                for i in part
            )
            for node, separator in zip(order, separators, strict=True)
        ),
        parents=tuple(place[parents[node]] if parents[node] >= 0 else -1 for node in order),
        separators=tuple(tuple(columns[i] for i in _bits(separator)) for separator in separators),
    )


def maximal_tables(cliques: Iterable[int], *, sizes: Sequence[int]) -> list[int]:
    """Return the node tables of a junction tree as bit masks over the columns, without building the tree.

    Where edges must be added, columns are eliminated a second time by the least weight of added edges (the product
    of two columns' sizes), and the smaller tables of the two are taken.
    `table_cells` prices the answer.
    """
    joined = sorted(set(cliques))
    tables, chordal = eliminate(joined, costs=_logs(tuple(sizes)), by_edges=False)
    if chordal:
        return tables
    other, _ = eliminate(joined, costs=sizes, by_edges=True)
    return min(tables, other, key=lambda found: table_cells(found, sizes=sizes))


@lru_cache(maxsize=8)
def _logs(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(round(_LOG_UNIT * math.log2(size)) for size in sizes)


def eliminate(cliques: Sequence[int], *, costs: Sequence[int], by_edges: bool) -> tuple[list[int], bool]:
    """Return the tables of an elimination that takes the cheapest column first, and whether it added no edge.

    A column that adds no edge comes before all others. It costs the sum of `costs` over its table or, with
    `by_edges`, the sum over the edges to add of the products of their ends' costs.
    """
    found = eliminate_variables(cliques, costs=costs, by_edges=by_edges)
    if found is None:
        return _eliminate_in_python(cliques, costs=costs, price=_edge_price if by_edges else _table_price)
    return found


def _eliminate_in_python(
    cliques: Iterable[int], *, costs: Sequence[int], price: _EliminationCost
) -> tuple[list[int], bool]:
    neighbours = [1 << i for i in range(len(costs))]
    for mask in cliques:
        for i in _bits(mask):
            neighbours[i] |= mask
    prices = {i: price(i, neighbours, costs) for i in range(len(neighbours))}
    kept: list[int] = []
    # The tables so far that hold a column: one of them may hold the table of its elimination too.
    holding: list[list[int]] = [[] for _ in neighbours]
    chordal = True
    while prices:
        adds_edges, _, column = min(prices.values())
        del prices[column]
        chordal = chordal and not adds_edges
        table = neighbours[column]
        if all(table & ~other for other in holding[column]):
            kept.append(table)
        rest = touched = table & ~(1 << column)
        for i in _bits(rest):
            holding[i].append(table)
            neighbours[i] = (neighbours[i] | rest) & ~(1 << column)
            touched |= neighbours[i]
        # New edges may complete the neighbourhood of columns next to their ends.
        for i in _bits(touched if adds_edges else rest):
            prices[i] = price(i, neighbours, costs)
    return kept, chordal


def table_cells(tables: Iterable[int], *, sizes: Sequence[int]) -> int:
    """Return how many cells some tables, given as bit masks over the columns, hold together."""
    return sum(math.prod(sizes[i] for i in _bits(mask)) for mask in tables)


def _widest_spanning_tree(masks: Sequence[int], *, first: int) -> tuple[list[int], list[int]]:
    """Join the tables by Prim's algorithm; return each table's parent and the order in which they joined."""
    parents = [-1] * len(masks)
    width = [-1] * len(masks)
    waiting = list(range(len(masks)))
    order: list[int] = []
    while waiting:
        node = max(waiting, key=lambda i: (width[i], -i)) if order else first
        waiting.remove(node)
        order.append(node)
        for other in waiting:
            shared = (masks[node] & masks[other]).bit_count()
            if shared > width[other]:
                width[other], parents[other] = shared, node
    return parents, order


def _table_price(column: int, neighbours: Sequence[int], costs: Sequence[int]) -> tuple[bool, int, int]:
    """Price the elimination of a column: whether it joins columns that were apart, and the cost of its table."""
    table = neighbours[column]
    joins = any(table & ~neighbours[i] for i in _bits(table))
    return joins, sum(costs[i] for i in _bits(table)), column


def _edge_price(column: int, neighbours: Sequence[int], costs: Sequence[int]) -> tuple[bool, int, int]:
    """Price the elimination of a column: whether it joins columns that were apart, and twice what these edges cost."""
    table, twice = neighbours[column], 0
    for i in _bits(table):
        if apart := table & ~neighbours[i]:
            twice += costs[i] * sum(costs[j] for j in _bits(apart))
    return twice > 0, twice, column


@lru_cache(maxsize=2**16)
def _bits(mask: int) -> tuple[int, ...]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def split_spanning_forest(cliques: Sequence[Clique]) -> tuple[list[Clique], list[Clique]]:
    """Return the cliques that join columns not joined before, and the others, both in their order.

    A forest costs few cells. In the order of what they say alone, cliques of a few columns would fill the tree, and
    columns that are close to one other column each would stand by themselves.

    >>> split_spanning_forest([("a", "b"), ("b", "c"), ("a", "c")])
    ([('a', 'b'), ('b', 'c')], [('a', 'c')])
    """
    part = {name: name for clique in cliques for name in clique}
    forest, others = [], []
    for clique in cliques:
        parts = {part[name] for name in clique}
        if len(parts) < len(clique):
            others.append(clique)
            continue
        forest.append(clique)
        part = {name: clique[0] if where in parts else where for name, where in part.items()}
    return forest, others
