"""Orthonormal contrasts of the cells of a unit, in which every marginal query is diagonal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints, Truth
from populace.core.marginals import Clique, Domain

# Neighbouring axes up to so many cells are transformed by one matrix product.
_MAX_BLOCK = 64


@dataclass(frozen=True)
class EffectBasis:
    """Contrasts of a product domain: along every axis the mean first, then deviations from it.

    A contrast belongs to the effect of the axes along which it is not the mean: effects are numbered by bit masks,
    the first column being bit 0. The projector P_τ keeps the contrasts of effect τ. Along an axis of n codes the
    matrix is the reflection that exchanges the first code with 1/√n · 1: symmetric, orthogonal, its own inverse.

    >>> basis = EffectBasis(Domain({"sex": 2, "age": 3}))
    >>> basis.effects, basis.effect_of.tolist()
    (4, [0, 2, 2, 1, 3, 3])
    >>> np.abs(basis.transform(np.ones((1, 6)))).round(6).tolist()
    [[2.44949, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """

    domain: Domain

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the cells."""
        return self.domain.shape(self.domain)

    @cached_property
    def cells(self) -> int:
        """The number of cells, and of contrasts."""
        return math.prod(self.shape)

    @property
    def effects(self) -> int:
        """The number of effects: sets of columns."""
        return 1 << len(self.shape)

    @cached_property
    def effect_of(self) -> Ints:
        """The effect of every contrast, in the order of the cells."""
        found = np.zeros(self.shape, dtype=np.int64)
        for bit, index in enumerate(np.indices(self.shape)):
            found += (index > 0) << bit
        return found.ravel()

    def transform(self, cells: Floats) -> Floats:
        """Return the contrasts of cells, or the cells of contrasts: (units, cells) both ways."""
        return reflect_axes(cells.reshape(len(cells), *self.shape)).reshape(len(cells), -1)

    def mask(self, clique: Clique) -> int:
        """Return the effect of all columns of a clique."""
        return sum(1 << bit for bit, name in enumerate(self.domain) if name in clique)

    def rest(self, clique: Clique) -> int:
        """Return the number of cells that are summed into one of a clique's."""
        return self.cells // self.domain.cells(clique)

    def contained(self, clique: Clique) -> Truth:
        """Say of every effect whether its columns are in a clique."""
        return np.asarray((np.arange(self.effects) & ~self.mask(clique)) == 0)

    def query_precision(self, clique: Clique) -> Floats:
        """Return the precision that counts of a clique with variance 1 have for every effect.

        QᵀQ = n_{C∖c} Σ_{τ⊆c} P_τ.
        """
        return np.where(self.contained(clique), float(self.rest(clique)), 0.0)

    def add_query(
        self, contrasts: Floats, clique: Clique, *, counts: npt.NDArray[Any], precision: float
    ) -> None:
        """Add Qᵀ·counts·precision to contrasts, in place; counts are (units, *shape), axes in the clique's order."""
        ordered = [name for name in self.domain if name in clique]
        axes = [0, *(1 + clique.index(name) for name in ordered)]
        own = reflect_axes(counts.transpose(axes))
        own *= precision * math.sqrt(self.rest(clique))
        view = contrasts.reshape(len(contrasts), *self.shape)
        view[(slice(None), *(slice(None) if name in clique else 0 for name in self.domain))] += own

    def cell_loadings(self, clique: Clique) -> Floats:
        """Return the squared length of each effect in a cell of a marginal: the same for all its cells.

        n_{C∖m} · Π_{i∈τ} (1 − 1/n_i) · Π_{i∈m∖τ} 1/n_i for τ ⊆ m, else 0.
        """
        found = self.query_precision(clique)
        for bit, (name, size) in enumerate(self.domain.items()):
            if name in clique:
                has = (np.arange(self.effects) >> bit) & 1
                found *= np.where(has, 1 - 1 / size, 1 / size)
        return found

    def row_loadings(self, rows: Floats) -> Floats:
        """Return the squared length of each effect in given sums of cells: (sums, effects)."""
        squares = self.transform(rows) ** 2
        return np.stack(
            [squares[:, self.effect_of == effect].sum(axis=1) for effect in range(self.effects)], axis=1
        )


def reflect_axes(tables: npt.NDArray[Any]) -> Floats:
    """Return tables (units, *shape) transformed along every axis but the first; twice gives them back.

    >>> reflect_axes(np.array([[3.0, 1.0]])).round(9).tolist()
    [[2.828427125, 1.414213562]]
    """
    shape = tables.shape
    units = shape[0]
    # What is returned is never what was given: callers go on with it in place.
    found: Floats = np.array(tables, dtype=np.float64, order="C", copy=True if len(shape) == 1 else None)
    for before, sizes, behind in _blocks(shape[1:]):
        size = math.prod(sizes)
        if len(sizes) == 1 and size > _MAX_BLOCK:
            normal = _reflection_normal(size)
            table = found.reshape(units * before, size, behind)
            found = table - (normal[:, None] * 2.0) * (normal @ table)[:, None, :]
        elif behind == 1:
            found = found.reshape(units * before, size) @ _block_matrix(sizes)
        else:
            found = np.matmul(_block_matrix(sizes), found.reshape(units * before, size, behind))
    return found.reshape(shape)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Yield runs of axes to transform together: cells before, the sizes of the run, cells behind."""
    end, behind = len(shape), 1
    while end:
        begin, size = end - 1, shape[end - 1]
        while begin and size * shape[begin - 1] <= _MAX_BLOCK:
            begin -= 1
            size *= shape[begin]
        yield math.prod(shape[:begin]), shape[begin:end], behind
        end, behind = begin, behind * size


def _reflection_normal(size: int) -> Floats:
    """Return the unit normal of the reflection between the first code and the mean of all."""
    normal = np.full(size, -1 / math.sqrt(size))
    normal[0] += 1
    length = np.linalg.norm(normal)
    return normal / length if length > 0 else normal


@lru_cache(maxsize=256)
def _block_matrix(sizes: tuple[int, ...]) -> Floats:
    found: Floats = np.ones((1, 1))
    for size in sizes:
        normal = _reflection_normal(size)
        found = np.kron(found, np.eye(size) - 2 * np.outer(normal, normal)).astype(np.float64)
    found.setflags(write=False)
    return found
