"""The junction tree of a set of cliques: which columns must be held together for exact inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from populace.marginals import Clique, Domain

_Price = Callable[[int, Sequence[int], "_Logs"], tuple[bool, float, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JunctionTree:
    """Sets of columns joined into a tree in which every column's nodes are connected.

    `nodes[0]` is the root, a node's parent stands before it (`parents[0]` is −1), and `separators[i]` holds the
    columns node i shares with its parent. Each node lists its separator first, and the rest with the largest
    column last: loops over a table are then long.
    """

    nodes: tuple[Clique, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]

    def holding(self, clique: Iterable[str], *, domain: Domain) -> list[int]:
        """Return the nodes that hold a clique, the one with the smallest table first."""
        wanted = set(clique)
        return sorted(
            (i for i, node in enumerate(self.nodes) if wanted <= set(node)),
            key=lambda i: (domain.cells(self.nodes[i]), i),
        )

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
    Fast enough to be asked of every candidate of an adaptive round; `table_cells` prices the answer.
    """
    joined = set(cliques)
    logs = _logs(tuple(sizes))
    tables, chordal = _eliminate(joined, logs=logs, price=_table_price)
    if chordal:
        return tables
    other, _ = _eliminate(joined, logs=logs, price=_edge_price)
    return min(tables, other, key=lambda found: table_cells(found, sizes=sizes))


class _Logs(dict[int, float]):
    """The logarithms of the cells of tables, given as bit masks; kept, because candidates ask for the same ones."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.columns = [math.log(size) for size in sizes]

    def __missing__(self, mask: int) -> float:
        # fsum does not depend on the order of its terms, so equal tables always tie exactly.
        self[mask] = found = math.fsum(self.columns[i] for i in _bits(mask))
        return found


@lru_cache(maxsize=8)
def _logs(sizes: tuple[int, ...]) -> _Logs:
    return _Logs(sizes)


def _eliminate(cliques: Iterable[int], *, logs: _Logs, price: _Price) -> tuple[list[int], bool]:
    """Return the tables of an elimination that takes the lowest price first, and whether it added no edge."""
    reach = [1 << i for i in range(len(logs.columns))]
    for mask in cliques:
        for i in _bits(mask):
            reach[i] |= mask
    prices = {i: price(i, reach, logs) for i in range(len(reach))}
    tables: list[int] = []
    chordal = True
    while prices:
        adds_edges, _, column = min(prices.values())
        del prices[column]
        chordal = chordal and not adds_edges
        table = reach[column]
        tables.append(table)
        rest = table & ~(1 << column)
        for i in _bits(rest):
            reach[i] = (reach[i] | rest) & ~(1 << column)
        # New edges may complete the neighbourhood of columns further away.
        for i in tuple(prices) if adds_edges else _bits(rest):
            prices[i] = price(i, reach, logs)
    tables.sort(key=int.bit_count, reverse=True)
    kept: list[int] = []
    for mask in tables:
        if not any(mask & other == mask for other in kept):
            kept.append(mask)
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


def _table_price(column: int, reach: Sequence[int], logs: _Logs) -> tuple[bool, float, int]:
    """Price the elimination of a column: whether it joins columns that were apart, and the log size of its table."""
    table = reach[column]
    return _joins(table, reach), logs[table], column


def _edge_price(column: int, reach: Sequence[int], logs: _Logs) -> tuple[bool, float, int]:
    """Price the elimination of a column: whether it joins columns that were apart, and the weight of these edges."""
    table = reach[column]
    if not _joins(table, reach):
        return False, 0.0, column
    apart = [1 << i | 1 << j for i in _bits(table) for j in _bits(table & ~reach[i]) if i < j]
    return True, math.fsum(math.exp(logs[edge]) for edge in apart), column


def _joins(table: int, reach: Sequence[int]) -> bool:
    return any(table & ~reach[i] for i in _bits(table))


@lru_cache(maxsize=2**16)
def _bits(mask: int) -> tuple[int, ...]:
    return tuple(_iterate(mask))


def _iterate(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
