"""The filter of a hierarchy with removed cells or grouped columns: dense matrices over the possible cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints, Truth
from populace.core.marginals import Clique, Marginal
from populace.inference.hierarchy.dense_matrices import (
    LevelMatrices,
    build_matrices,
    build_precision,
    chunk_units,
    exact_rows,
    possible_cells,
    query_places,
)
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan


@dataclass(frozen=True, eq=False, kw_only=True)
class DenseFilter:
    """Least squares of a hierarchy over the possible cells of each unit, by dense matrices (`build_matrices`).

    Going down, with gain K = vW⁺: V(child) = v − Kv + KV(parent)Kᵀ. What is known exactly conditions a message z on
    Cx = T: with K = vCᵀ(CvCᵀ)⁺ it becomes z + K(T − Cz). Units whose subtrees have the same form share their
    matrices, smallest units all.
    """

    plan: HierarchyPlan
    precision: Floats
    levels: tuple[LevelMatrices, ...]

    @staticmethod
    def of(plan: HierarchyPlan) -> DenseFilter:
        """Return the filter of a plan; time and memory grow with the cube and the square of possible cells."""
        precision = build_precision(plan)
        return DenseFilter(plan=plan, precision=precision, levels=build_matrices(plan, precision=precision))

    @cached_property
    def kept(self) -> Ints:
        """The possible cells."""
        return possible_cells(self.plan)

    @property
    def width(self) -> int:
        """The number of possible cells."""
        return len(self.kept)

    def collect(self, counts: Sequence[npt.NDArray[Any]], *, level: int, units: int) -> Floats:
        """Return t = Σ Qᵀy/σ² over the possible cells."""
        found = np.zeros((units, self.width))
        for query, values in zip(self.plan.levels[level].queries, counts, strict=True):
            places = query_places(self.plan, marginal=query.marginal)
            found += values.reshape(units, -1)[:, places] / float(query.variance)
        return found

    def combine(
        self,
        information: Floats,
        *,
        level: int,
        units: slice,
        children: Floats | None,
        exact: Sequence[Floats],
    ) -> Floats:
        """Return z̄ + v·(t − Λz̄) + K·(T − Cz̄)."""
        own = self.levels[level]
        sums = np.zeros(information.shape) if children is None else children
        found = _apply(own.message, own.form_of[units], information - sums @ self.precision[level])
        found += sums
        cliques = self.plan.new_exact(level)
        if cliques:
            held = dict(zip(self.plan.levels[level].exact, exact, strict=True))
            wanted = np.concatenate([held[clique].reshape(len(found), -1) for clique in cliques], axis=1)
            missing = wanted - sums @ exact_rows(self.plan, cliques).T
            found += (own.to_exact[own.form_of[units]] @ missing[:, :, None])[:, :, 0]
        return found

    def descend(self, messages: Floats, *, level: int, units: slice, above: slice, gap: Floats) -> Floats:
        """Return z + v·W⁺·(x of parent − Σ z)."""
        own, upper = self.levels[level], self.levels[level - 1]
        pull = _apply(upper.child_inverse, upper.form_of[above], gap)
        parents = self.plan.spine.parents[level - 1][units] - above.start
        if len(own.message) == 1:
            messages += (pull @ own.message[0])[parents]
        else:
            messages += _apply(own.message, own.form_of[units], pull[parents])
        return messages

    def to_cells(self, states: Floats) -> Floats:
        """Return cells, 0 where no record can be."""
        cells = np.zeros((len(states), self.plan.cells))
        cells[:, self.kept] = states
        return cells.reshape(len(states), *self.plan.shape)

    def variance(self, clique: Clique, *, level: int, units: slice) -> Floats:
        """Return the diagonal of M·V·Mᵀ, where M sums cells into those of a marginal, for every unit."""
        rows, form_of = self._rows(clique), self.levels[level].form_of[units]
        parents = (
            self.plan.spine.parents[level - 1][units] if level else np.zeros(len(form_of), dtype=np.int64)
        )
        # Units of one form below one parent share their covariance.
        pairs = np.stack([parents, form_of])
        _, first, places = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        found = np.empty((len(first), len(rows)))
        for chunk in chunk_units(len(first), cells=self.width):
            found[chunk] = _quadratic(rows, self._covariances(level, units.start + first[chunk]))
        return found[places.reshape(-1)].reshape(len(form_of), *self.plan.domain.shape(clique))

    def area_variance(self, clique: Clique, *, members: Truth) -> Floats:
        """Return the variance of a sum of smallest units; only units that lie partly in it cost more than a number.

        The recursion is that of `EffectFilter.area_variance`, with a matrix G for g: G = (Σ G_c v_c)W⁺ and
        r = Σ r_c + diag(Σ G_c v_c G_cᵀ − (Σ G_c v_c)W⁺(Σ G_c v_c)ᵀ).
        """
        rows, depth = self._rows(clique), self.plan.spine.depth
        slopes: dict[int, Floats] = {}
        rests: dict[int, Floats] = {}
        inside = members
        outside = ~members
        for level in reversed(range(depth - 1)):
            below, own, offsets = self.levels[level + 1], self.levels[level], self.plan.child_offsets[level]
            all_in = np.logical_and.reduceat(inside, offsets[:-1])
            all_out = np.logical_and.reduceat(outside, offsets[:-1])
            above: dict[int, Floats] = {}
            rests_above: dict[int, Floats] = {}
            for unit in np.flatnonzero(~(all_in | all_out)).tolist():
                weighted, rest = np.zeros(rows.shape), np.zeros(len(rows))
                children = np.arange(offsets[unit], offsets[unit + 1])
                # Children that are members as a whole are all alike but for the form of their subtree.
                forms, counts = np.unique(below.form_of[children[inside[children]]], return_counts=True)
                parts = [(rows, form, count) for form, count in zip(forms, counts, strict=True)]
                for child in children[~inside[children] & ~outside[children]].tolist():
                    parts.append((slopes[child], below.form_of[child], 1))
                    rest += rests[child]
                for slope, form, count in parts:
                    product = slope @ below.message[form]
                    weighted += count * product
                    rest += count * (product * slope).sum(axis=1)
                above[unit] = weighted @ own.child_inverse[own.form_of[unit]]
                rests_above[unit] = rest - (above[unit] * weighted).sum(axis=1)
            slopes, rests, inside, outside = above, rests_above, all_in, all_out
        slope = slopes.get(0, rows * float(inside[0]))
        found = _quadratic(slope, self.levels[0].message)[0] + rests.get(0, np.zeros(len(rows)))
        return np.asarray(found.reshape(self.plan.domain.shape(clique)))

    def _covariances(self, level: int, units: Ints) -> Floats:
        """Return the covariances of the estimates of units; above, they are worked out for their ancestors only."""
        own = self.levels[level]
        message = own.message[own.form_of[units]]
        if level == 0:
            return message
        upper = self.levels[level - 1]
        parents, places = np.unique(self.plan.spine.parents[level - 1][units], return_inverse=True)
        given = self._covariances(level - 1, parents)[places]
        gain = message @ upper.child_inverse[upper.form_of[parents[places]]]
        return message - gain @ message + gain @ given @ gain.transpose(0, 2, 1)

    def _rows(self, clique: Clique) -> Floats:
        """Return the matrix that sums the possible cells into those of a marginal."""
        places = query_places(self.plan, marginal=Marginal(clique))
        return np.equal.outer(np.arange(self.plan.domain.cells(clique)), places).astype(np.float64)


def _apply(matrices: Floats, form_of: Ints, vectors: Floats) -> Floats:
    """Return the product of each unit's symmetric matrix and vector, one matrix product for each form."""
    if len(matrices) == 1:
        return np.asarray(vectors @ matrices[0])
    found = np.empty(vectors.shape)
    order = np.argsort(form_of, kind="stable")
    forms, begins = np.unique(form_of[order], return_index=True)
    for form, units in zip(forms, np.split(order, begins[1:]), strict=True):
        found[units] = vectors[units] @ matrices[form]
    return found


def _quadratic(rows: Floats, matrices: Floats) -> Floats:
    """Return the diagonals of rows · matrix · rowsᵀ."""
    return np.asarray(((rows @ matrices) * rows).sum(axis=-1))
