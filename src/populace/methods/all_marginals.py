"""All pairs and small triples of some columns, with the weights of key columns, listed only when somebody looks."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain

_ONE = Fraction(1)
# What a pair with a key column weighs beside one without.
KEY_WEIGHT = Fraction(4)
_Sizes = npt.NDArray[np.int64]


class AllMarginals(Mapping[Clique, Fraction]):
    """All pairs of the columns of a domain and its triples of at most so many cells: of weight 1, pairs with a key 4.

    A wide table has millions of pairs, and most methods never look at them: how many there are is known without a
    list of them.

    >>> both = AllMarginals(Domain({"a": 2, "b": 3, "c": 2}), cells=12)
    >>> len(both), list(both)
    (4, [('a', 'b'), ('a', 'c'), ('b', 'c'), ('a', 'b', 'c')])
    """

    def __init__(
        self, domain: Domain, *, cells: int = 0, most: int = sys.maxsize, keys: Collection[str] = ()
    ) -> None:
        self.domain = domain
        self._keys = frozenset(keys)
        self._triples = SmallTriples(list(domain), domain=domain, cells=cells, most=most)

    def __len__(self) -> int:
        return math.comb(len(self.domain), 2) + len(self._triples)

    def __iter__(self) -> Iterator[Clique]:
        return iter(self._weights)

    def __getitem__(self, clique: Clique) -> Fraction:
        return self._weights[clique]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.domain)}: {len(self)} marginals)"

    @cached_property
    def _weights(self) -> dict[Clique, Fraction]:
        weights = dict.fromkeys([*combinations(self.domain, 2), *self._triples], _ONE)
        # A pair matters as much as the heaviest marginal that holds it: triples with a key would lift all pairs.
        for pair in combinations(self.domain, 2) if self._keys else ():
            weights[pair] = _ONE if self._keys.isdisjoint(pair) else KEY_WEIGHT
        return weights


class SmallTriples:
    """The triples of some columns of at most so many cells; where there are more than `most`, the smallest of them.

    Among triples of one size the first in the order of the columns stay. Columns are sorted by size, so that no triple
    is met that is not kept.

    >>> list(SmallTriples("abcd", domain=Domain({"a": 2, "b": 30, "c": 4, "d": 50}), cells=2**16, most=2))
    [('a', 'b', 'c'), ('a', 'c', 'd')]
    """

    def __init__(self, names: Sequence[str], *, domain: Domain, cells: int, most: int) -> None:
        self._names, self._cells, self._most = names, cells, most
        # No triple holds a column that has more codes alone, and products of what is left fit 64 bits.
        self._sizes: _Sizes = np.array([min(domain[name], cells + 1) for name in names], dtype=np.int64)
        self._order = np.argsort(self._sizes, kind="stable")

    def __len__(self) -> int:
        return min(self._most, self._count)

    @cached_property
    def _count(self) -> int:
        return self._number(self._cells)

    def __iter__(self) -> Iterator[Clique]:
        return (tuple(self._names[place] for place in triple) for triple in self._places)

    @cached_property
    def _places(self) -> list[tuple[int, int, int]]:
        if self._count <= self._most:
            return sorted(self._within(self._cells))
        # The largest bound under which all triples can stay, and the first of those one cell above it.
        few, many = 0, self._cells
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if self._number(middle) <= self._most else (few, middle)
        kept = list(self._within(few))
        return sorted([*kept, *islice(self._exactly(many), self._most - len(kept))])

    def _thirds(self, cells: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Yield each column, by size, with how many columns can be third beside it and each one after it."""
        sizes = self._sizes[self._order]
        for first in range(len(sizes) - 2):
            if sizes[first] ** 3 > cells:
                return
            second = np.arange(first + 1, len(sizes) - 1)
            ends = np.searchsorted(sizes, cells // (sizes[first] * sizes[second]), side="right")
            yield first, np.maximum(ends - second - 1, 0)

    def _number(self, cells: int) -> int:
        return sum(int(thirds.sum()) for _, thirds in self._thirds(cells))

    def _within(self, cells: int) -> Iterator[tuple[int, int, int]]:
        """Yield the triples of at most so many cells, in no particular order."""
        order = self._order.tolist()
        for first, thirds in self._thirds(cells):
            for place in np.flatnonzero(thirds).tolist():
                second = first + 1 + place
                for third in range(second + 1, second + 1 + int(thirds[place])):
                    i, j, k = sorted((order[first], order[second], order[third]))
                    yield i, j, k

    def _exactly(self, cells: int) -> Iterator[tuple[int, int, int]]:
        """Yield the triples of so many cells, in the order of the columns."""
        sizes = self._sizes.tolist()
        where = defaultdict(list)
        for place, size in enumerate(sizes):
            where[size].append(place)
        for i, j in combinations(range(len(sizes)), 2):
            rest, over = divmod(cells, sizes[i] * sizes[j])
            if not over and rest in where:
                found = where[rest]
                yield from ((i, j, k) for k in found[bisect_right(found, j) :])
