"""The filter of a hierarchy with removed cells or grouped columns: dense matrices over the possible cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints, Truth
from populace.core.marginals import Clique, Marginal, cell_indices
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan

# Numbers in matrices that are worked on at once: 32 MiB.
_MAX_MATRIX_NUMBERS = 2**22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LevelMatrices:
    """The matrices of a level: units over subtrees of one form share them, `form_of` says which are a unit's.

    `message` is v, the covariance of messages; `child_sum` is W and `child_inverse` W⁺ (empty in smallest units);
    `to_total` is how a message moves with the exact total where that is new at this level, else 0.
    """

    form_of: Ints
    message: Floats
    child_sum: Floats
    child_inverse: Floats
    to_total: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class DenseFilter:
    """Least squares of a hierarchy over the possible cells of each unit, by dense matrices.

    Going up v = (I + WΛ)⁻¹W, W = Σ v of the children, v = Λ⁻¹ in smallest units; going down, with gain K = vW⁺,
    V(child) = v + K(V(parent) − W)Kᵀ. An exact total conditions a message on 1ᵀx = T: with k = v1/1ᵀv1 it becomes
    z + k(T − 1ᵀz), and v becomes v − k1ᵀv, singular along 1. Sums of such W are inverted on the other directions,
    W⁺ = (W + s·11ᵀ)⁻¹ for any s > 0 where it is applied: 11ᵀ and W do not meet, so nothing is made up.
    Units whose subtrees have the same form share their matrices, smallest units all.
    """

    plan: HierarchyPlan
    precision: Floats
    levels: tuple[_LevelMatrices, ...]

    @staticmethod
    def of(plan: HierarchyPlan) -> DenseFilter:
        """Return the filter of a plan; time and memory grow with the cube and the square of possible cells."""
        kept = _possible_cells(plan)
        precision = np.zeros((plan.spine.depth, len(kept), len(kept)))
        for own, measured in zip(precision, plan.levels, strict=True):
            for query in measured.queries:
                places = _query_places(plan, query.marginal)
                own += (places[:, None] == places[None, :]) / float(query.variance)
        exact = max(plan.exact_levels, default=-1)
        found: list[_LevelMatrices] = []
        for level in reversed(range(plan.spine.depth)):
            if not found:
                form_of = np.zeros(plan.spine.leaves, dtype=np.int64)
                sums = inverses = np.zeros((0, len(kept), len(kept)))
                message = np.linalg.inv(precision[-1])[None]
            else:
                form_of, sums = _join_forms(plan, found[-1], level=level)
                inverses, message = np.empty_like(sums), np.empty_like(sums)
                for chunk in _chunks(len(sums), cells=len(kept)):
                    inverses[chunk] = _invert(sums[chunk], is_constrained=level < exact)
                    message[chunk] = np.linalg.solve(
                        np.eye(len(kept)) + sums[chunk] @ precision[level], sums[chunk]
                    )
            message = (message + message.transpose(0, 2, 1)) / 2
            to_total = np.zeros(message.shape[:2])
            if level == exact:
                rows = message.sum(axis=1)
                to_total = rows / rows.sum(axis=1, keepdims=True)
                message = message - to_total[:, :, None] * rows[:, None, :]
            found.append(
                _LevelMatrices(
                    form_of=form_of,
                    message=message,
                    child_sum=sums,
                    child_inverse=inverses,
                    to_total=to_total,
                )
            )
        return DenseFilter(plan=plan, precision=precision, levels=tuple(found[::-1]))

    @cached_property
    def kept(self) -> Ints:
        """The possible cells."""
        return _possible_cells(self.plan)

    @property
    def width(self) -> int:
        """The number of possible cells."""
        return len(self.kept)

    def collect(self, counts: Sequence[npt.NDArray[Any]], *, level: int, units: int) -> Floats:
        """Return t = Σ Qᵀy/σ² over the possible cells."""
        found = np.zeros((units, self.width))
        for query, values in zip(self.plan.levels[level].queries, counts, strict=True):
            places = _query_places(self.plan, query.marginal)
            found += values.reshape(units, -1)[:, places] / float(query.variance)
        return found

    def combine(
        self,
        information: Floats,
        *,
        level: int,
        units: slice,
        children: Floats | None,
        totals: Floats | None,
    ) -> Floats:
        """Return z̄ + v·(t − Λz̄) + k·(T − 1ᵀz̄)."""
        own = self.levels[level]
        sums = np.zeros(information.shape) if children is None else children
        found = _apply(own.message, own.form_of[units], information - sums @ self.precision[level])
        found += sums
        if totals is not None:
            found += own.to_total[own.form_of[units]] * (totals - sums.sum(axis=1))[:, None]
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
        rows = self._rows(clique)
        found = np.empty((units.stop - units.start, len(rows)))
        for chunk in _chunks(len(found), cells=self.width):
            wanted = np.arange(units.start + chunk.start, units.start + chunk.stop)
            covariances, places = self._covariances(level, wanted)
            found[chunk] = _quadratic(rows, covariances)[places]
        return found.reshape(len(found), *self.plan.domain.shape(clique))

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

    def _covariances(self, level: int, units: Ints) -> tuple[Floats, Ints]:
        """Return the different covariances of the estimates of units, and which of them is each unit's.

        Units of one form below one parent share theirs. Those above are worked out for these units only.
        """
        own = self.levels[level]
        if level == 0:
            return own.message, np.zeros(len(units), dtype=np.int64)
        upper = self.levels[level - 1]
        parents = self.plan.spine.parents[level - 1][units]
        (wanted, form), places = np.unique(
            np.stack([parents, own.form_of[units]]), axis=1, return_inverse=True
        )
        uppers, order = np.unique(wanted, return_inverse=True)
        given, given_places = self._covariances(level - 1, uppers)
        forms = upper.form_of[wanted]
        gain = own.message[form] @ upper.child_inverse[forms]
        inner = given[given_places[order]] - upper.child_sum[forms]
        return own.message[form] + gain @ inner @ gain.transpose(0, 2, 1), places.reshape(-1)

    def _rows(self, clique: Clique) -> Floats:
        """Return the matrix that sums the possible cells into those of a marginal."""
        places = _query_places(self.plan, Marginal(clique))
        return np.equal.outer(np.arange(self.plan.domain.cells(clique)), places).astype(np.float64)


def _possible_cells(plan: HierarchyPlan) -> Ints:
    return np.arange(plan.cells) if plan.possible is None else np.flatnonzero(plan.possible)


def _query_places(plan: HierarchyPlan, marginal: Marginal) -> Ints:
    """Return the cell of a query that each possible cell is summed into."""
    kept = np.unravel_index(_possible_cells(plan), plan.shape)
    codes = dict(zip(plan.columns, kept, strict=True))
    return cell_indices(marginal, codes=codes, domain=plan.domain)


def _join_forms(plan: HierarchyPlan, below: _LevelMatrices, *, level: int) -> tuple[Ints, Floats]:
    """Return the form of each unit of a level, by the forms of its children, and W of every form."""
    offsets = plan.child_offsets[level]
    parents = plan.spine.parents[level]
    ordered = below.form_of[np.lexsort((below.form_of, parents))]
    known: dict[bytes, int] = {}
    form_of = np.empty(plan.spine.units(level), dtype=np.int64)
    sums: list[Floats] = []
    for unit, (begin, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        key = ordered[begin:end].tobytes()
        if key not in known:
            known[key] = len(sums)
            forms, counts = np.unique(ordered[begin:end], return_counts=True)
            sums.append(np.tensordot(counts.astype(np.float64), below.message[forms], axes=1))
        form_of[unit] = known[key]
    return form_of, np.stack(sums)


def _invert(sums: Floats, *, is_constrained: bool) -> Floats:
    """Return inverses; where totals are exact, on the directions that leave the total as it is."""
    cells = sums.shape[-1]
    if is_constrained:
        # Any weight of 11ᵀ will do; one of the size of the rest keeps digits.
        scale = np.trace(sums, axis1=1, axis2=2) / cells**2
        sums = sums + np.where(scale > 0, scale, 1.0)[:, None, None]
    return np.linalg.inv(sums).astype(np.float64)


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


def _chunks(count: int, *, cells: int) -> Iterator[slice]:
    step = max(1, _MAX_MATRIX_NUMBERS // cells**2)
    for begin in range(0, count, step):
        yield slice(begin, min(count, begin + step))
