"""Tables of numbers over cliques, and how a smaller clique lies inside a larger one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain

Table = npt.NDArray[np.float64]
Strides = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
_SHORT_AXIS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisMap:
    """Where a clique lies inside a larger table: which axes are summed out, and how the others are ordered.

    `sums` are the steps of the summing: the table seen as (before, summed, behind), the longest run of axes first.
    """

    sums: tuple[tuple[int, int, int], ...]
    kept: tuple[int, ...]
    order: tuple[int, ...]
    back: tuple[int, ...]
    shape: tuple[int, ...]

    @staticmethod
    def of(clique: Clique, *, inside: Clique, domain: Domain) -> AxisMap:
        """Return the slot of a clique inside a table over `inside`."""
        return _axis_map(clique, inside, domain.shape(inside))

    def collapse(self, table: Table) -> Table:
        """Sum a table over everything but the clique.

        Products with ones: NumPy's own sums are many times slower where the axes behind are short.
        """
        if not self.sums:
            return table.transpose(self.order)
        for before, summed, behind in self.sums:
            if behind == 1:
                table = table.reshape(before, summed) @ cached_ones(summed)
            else:
                table = cached_ones(summed) @ table.reshape(before, summed, behind)
        return table.reshape(self.kept).transpose(self.order)

    def spread(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """View values over the clique in a shape that broadcasts against the table."""
        return values.transpose(self.back).reshape(self.shape)

    def scale(self, table: Table, values: Table) -> None:
        """Multiply a table, in place, by values over the clique."""
        table *= widen_axes(self.spread(values), table.shape)


# The same slots are asked for in every round of a method that goes in rounds.
@lru_cache(maxsize=2**14)
def _axis_map(clique: Clique, inside: Clique, sizes: tuple[int, ...]) -> AxisMap:
    held = [column in clique for column in inside]
    kept = [column for column in inside if column in clique]
    return AxisMap(
        sums=_sum_steps(sizes, held),
        kept=tuple(size for size, keep in zip(sizes, held, strict=True) if keep),
        order=tuple(kept.index(column) for column in clique),
        back=tuple(clique.index(column) for column in kept),
        shape=tuple(size if keep else 1 for size, keep in zip(sizes, held, strict=True)),
    )


@lru_cache(maxsize=2**14)
def cell_strides(clique: Clique, inside: Clique, sizes: tuple[int, ...]) -> Strides:
    """Return how the cells of a table over `inside`, in order, lie in that of a clique: (length, stride) of its axes.

    Axes that follow each other in both are one, and those of a single code are none.

    >>> cell_strides(("b", "c"), ("a", "b", "c"), (2, 3, 4)).tolist(), cell_strides(("b", "a"), ("a", "b"), (2,
    ... 3)).tolist()
    ([[2, 0], [12, 1]], [[2, 1], [3, 2]])
    """
    stride, strides = 1, dict.fromkeys(inside, 0)
    for column in reversed(clique):
        strides[column] = stride
        stride *= sizes[inside.index(column)]
    axes: list[tuple[int, int]] = []
    for column, size in zip(inside, sizes, strict=True):
        if axes and axes[-1][1] == strides[column] * size:
            axes[-1] = (axes[-1][0] * size, strides[column])
        elif size > 1:
            axes.append((size, strides[column]))
    found = np.array(axes or [(1, 0)], dtype=np.int64)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=4096)
def cached_ones(size: int) -> Table:
    """Return a vector of ones, made once."""
    found = np.ones(size)
    found.setflags(write=False)
    return found


def widen_axes(values: Table, shape: tuple[int, ...]) -> Table:
    """Return values that broadcast over a shape with the last axes written out, where those are so short that loops
    over them would cost more than the work in them.
    """
    at, width = len(shape), 1
    while at and width < _SHORT_AXIS:
        at -= 1
        width *= shape[at]
    behind = values.shape[at:]
    if behind == shape[at:] or all(size == 1 for size in behind):
        return values
    return np.ascontiguousarray(np.broadcast_to(values, (*values.shape[:at], *shape[at:])))


def _sum_steps(sizes: Sequence[int], kept: Sequence[bool]) -> tuple[tuple[int, int, int], ...]:
    """Return the steps that sum out neighbouring axes at once, the run of most cells first."""
    runs = [
        (keep, math.prod(size for _, size in run))
        for keep, run in groupby(zip(kept, sizes, strict=True), key=lambda pair: pair[0])
    ]
    lengths = [length for _, length in runs]
    steps = []
    for at in sorted((i for i, (keep, _) in enumerate(runs) if not keep), key=lambda i: -lengths[i]):
        steps.append((math.prod(lengths[:at]), lengths[at], math.prod(lengths[at + 1 :])))
        lengths[at] = 1
    return tuple(steps)


def centre(table: Table) -> Table:
    """Return a table without what its margins say: the mean along every axis is subtracted."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def sum_onto(table: npt.NDArray[Scalar], clique: Clique, columns: Sequence[str]) -> npt.NDArray[Scalar]:
    """Return the sums of a table over a clique by some of its columns, in the order of these.

    >>> sum_onto(np.array([[1, 2], [3, 4]]), ("a", "b"), ("b",)), sum_onto(np.eye(2), ("a", "b"), ("b", "a")).shape
    (array([4, 6]), (2, 2))
    """
    others = tuple(axis for axis, name in enumerate(clique) if name not in columns)
    left = [name for name in clique if name in columns]
    return np.asarray(table.sum(axis=others)).transpose([left.index(name) for name in columns])


def sum_codes(table: Table, lookup: npt.NDArray[np.int64], *, size: int, axis: int) -> Table:
    """Sum along one axis what falls into the same place: `lookup` has the place of every code, of `size` in all."""
    found = np.zeros((size, *np.delete(table.shape, axis)))
    np.add.at(found, lookup, np.moveaxis(table, axis, 0))
    return np.moveaxis(found, 0, axis)


def add_potential(potentials: dict[Clique, Table], clique: Clique, table: Table) -> None:
    """Add a table of logarithms to the potentials of a model, in place."""
    potentials[clique] = potentials[clique] + table if clique in potentials else table
