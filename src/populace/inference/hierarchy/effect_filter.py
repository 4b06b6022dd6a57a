"""The filter of a hierarchy on a product domain: one scalar recursion for every effect and unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.core.marginals import Clique, Marginal, cell_indices
from populace.inference.hierarchy.effect_basis import EffectBasis
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan
from populace.inference.hierarchy.two_pass import sum_children

# Numbers in rows of weights that are transformed at once.
_MAX_ROW_NUMBERS = 2**22


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectFilter:
    """Least squares of a hierarchy in the contrasts of `EffectBasis`, with variances for each unit and effect.

    Per effect, with own precision λ: going up v = W/(1 + λW), W = Σ v of the children, v = 1/λ in smallest units;
    going down V(child) = v − v²/W + (v/W)²·V(parent), V(root) = v. An exact total is v = 0 in the effect ∅, an
    exact marginal v = 0 in the effects of its columns, with 0/0 = 0. All variances follow from the plan, so they are
    known before anything is measured.

    Structural zeros are not used here: estimates ignore them, are unbiased all the same, and their variances are
    exact. The noise found in impossible cells is then moved evenly to the possible ones, x̃ = Ax̂, so that
    impossible cells are exactly 0 and totals stay; A is the same in every unit, so that children still add up to
    their parents. Variances of cells, marginals and areas are those of x̃. What the zeros would add to precision is
    given up; `DenseFilter` uses it where the cells are few enough.

    `message_variances` is v, (units, effects) by level; smallest units share one row. `child_sums` is W for each level
    but the smallest. `precision` is λ, one row for all units of a level or one for each.
    """

    plan: HierarchyPlan
    basis: EffectBasis
    precision: tuple[Floats, ...]
    message_variances: tuple[Floats, ...]
    child_sums: tuple[Floats, ...]

    @staticmethod
    def of(plan: HierarchyPlan) -> EffectFilter:
        """Return the filter of a plan whose queries group no column."""
        if plan.has_groupings:
            raise UsageError(
                "a query groups a column, which mixes effects.",
                hint="use the dense filter, or ungrouped columns",
            )
        basis = EffectBasis(plan.domain)
        precision = [np.zeros((1, basis.effects)) for _ in plan.levels]
        for level, measured in enumerate(plan.levels):
            for query in measured.queries:
                own = basis.query_precision(query.marginal.clique) / float(query.variance)
                precision[level] = precision[level] + query.unit_weights[:, None] * own
        messages, sums = [1 / precision[-1]], []
        for level in reversed(range(plan.spine.depth)):
            if level < plan.spine.depth - 1:
                summed = _weighted_sums(plan, np.ones((plan.spine.units(level + 1), 1)), messages[-1], level)
                sums.append(summed)
                messages.append(summed / (1 + precision[level] * summed))
            for clique in plan.levels[level].exact:
                messages[-1][:, basis.contained(clique)] = 0.0
        return EffectFilter(
            plan=plan,
            basis=basis,
            precision=tuple(precision),
            message_variances=tuple(messages[::-1]),
            child_sums=tuple(sums[::-1]),
        )

    @property
    def width(self) -> int:
        """The number of contrasts."""
        return self.basis.cells

    def effect_variances(self, level: int, *, units: slice) -> Floats:
        """Return the variance of every effect in the estimates of units of a level: (units, effects)."""
        own = self.message_variances[level]
        if level == 0:
            return own
        parents = self.plan.spine.parents[level - 1][units]
        above = slice(int(parents[0]), int(parents[-1]) + 1)
        upper, places = self.effect_variances(level - 1, units=above), parents - above.start
        if len(own) > 1:
            own = own[units]
        share = _divide(own, self.child_sums[level - 1][parents])
        # Written so that an only child has exactly its parent's variance.
        return own * (1 - share) + share**2 * upper[places]

    def collect(self, counts: Sequence[npt.NDArray[Any]], *, level: int, units: int) -> Floats:
        """Return the contrasts of t = Σ Qᵀy/σ²."""
        found = np.zeros((units, self.width))
        for query, values in zip(self.plan.levels[level].queries, counts, strict=True):
            precision = 1 / float(query.variance)
            if query.weights is not None:
                values = values * query.weights.reshape(-1, *[1] * (values.ndim - 1))
            self.basis.add_query(found, query.marginal.clique, counts=values, precision=precision)
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
        """Return z̄ + v·(t − λz̄), and what is known exactly in the effects where v is 0."""
        found = information
        if children is not None:
            found -= self._spread(_rows_of(self.precision[level], units)) * children
        found *= self._spread(_rows_of(self.message_variances[level], units))
        if children is not None:
            found += children
        for clique, counts in zip(self.plan.levels[level].exact, exact, strict=True):
            found[:, self.basis.contained(clique)[self.basis.effect_of]] = 0.0
            self.basis.add_query(found, clique, counts=counts, precision=1 / self.basis.rest(clique))
        return found

    def descend(self, messages: Floats, *, level: int, units: slice, above: slice, gap: Floats) -> Floats:
        """Return z + v/W · (x of parent − Σ z)."""
        own = self.message_variances[level]
        pull = gap * self._spread(_divide(np.ones(1), self.child_sums[level - 1][above]))
        parents = self.plan.spine.parents[level - 1][units] - above.start
        if len(own) == 1:
            pull *= self._spread(own)
            messages += pull[parents]
        else:
            moves = pull[parents]
            moves *= self._spread(own[units])
            messages += moves
        return messages

    def to_cells(self, states: Floats) -> Floats:
        """Return cells: impossible ones are 0, and what was found in them is spread over the possible ones."""
        cells = self.basis.transform(states)
        if self.plan.possible is not None:
            possible = self.plan.possible.ravel()
            cells += cells @ (~possible / float(possible.sum()))[:, None]
            cells[:, ~possible] = 0.0
        return cells.reshape(len(states), *self.plan.shape)

    def variance(self, clique: Clique, *, level: int, units: slice) -> Floats:
        """Return Σ_τ V_τ·|P_τ b|² for the sum of cells b of every cell of a marginal."""
        loadings = self._loadings(clique)
        found = self.effect_variances(level, units=units) @ loadings.T
        shape = (len(found), *self.plan.domain.shape(clique))
        return np.broadcast_to(found, (len(found), self.plan.domain.cells(clique))).reshape(shape)

    def area_variance(self, clique: Clique, *, members: Truth) -> Floats:
        """Return the variance of a sum of smallest units, linear in the units of the spine.

        Given its own total x, the sum of the members in a unit has mean g·x + constant and variance r. In a smallest
        unit g is 1 for members and r = 0; above, g = Σ g_c v_c / W and r = Σ r_c + Σ g_c² v_c − (Σ g_c v_c)²/W.
        The variance is g²V + r of the root.
        """
        slope, rest = members.astype(np.float64)[:, None], np.zeros((len(members), 1))
        for level in reversed(range(self.plan.spine.depth - 1)):
            own, summed = self.message_variances[level + 1], self.child_sums[level]
            units = slice(0, self.plan.spine.units(level))
            weighted = _weighted_sums(self.plan, slope, own, level)
            squares = _weighted_sums(self.plan, slope**2, own, level)
            slope = _divide(weighted, summed)
            rest = sum_children(self.plan, rest, level=level, units=units) + squares - slope * weighted
        by_effect = (slope**2 * self.message_variances[0] + rest)[0]
        found = self._loadings(clique) @ by_effect
        return np.broadcast_to(found, self.plan.domain.cells(clique)).reshape(self.plan.domain.shape(clique))

    def _spread(self, values: Floats) -> Floats:
        """Return values of effects for every contrast."""
        return np.take(values, self.basis.effect_of, axis=1)

    def _loadings(self, clique: Clique) -> Floats:
        """Return the squared length of each effect in the cells of a marginal: one row where all are alike."""
        if self.plan.possible is None:
            return self.basis.cell_loadings(clique)[None, :]
        possible = self.plan.possible.ravel()
        codes = dict(zip(self.plan.columns, np.indices(self.plan.shape).reshape(-1, self.width), strict=True))
        places = cell_indices(Marginal(clique), codes=codes, domain=self.plan.domain)
        cells = self.plan.domain.cells(clique)
        shares = np.bincount(places[possible], minlength=cells) / possible.sum()
        found, step = [], max(1, _MAX_ROW_NUMBERS // self.width)
        for begin in range(0, cells, step):
            wanted = np.arange(begin, min(cells, begin + step))[:, None]
            rows = np.where(possible, (places == wanted).astype(np.float64), shares[wanted])
            found.append(self.basis.row_loadings(rows))
        return np.concatenate(found)


def _weighted_sums(plan: HierarchyPlan, values: Floats, weights: Floats, level: int) -> Floats:
    """Return Σ weight × value over the children of each unit of a level; a single weight is that of all."""
    units = slice(0, plan.spine.units(level))
    if len(weights) == 1:
        return sum_children(plan, values, level=level, units=units) * weights
    return sum_children(plan, values * weights, level=level, units=units)


def _rows_of(values: Floats, units: slice) -> Floats:
    """Return the rows of some units; a single row is that of all."""
    return values if len(values) == 1 else values[units]


def _divide(values: Floats, by: Floats) -> Floats:
    """Return quotients, 0 where the divisor is: there an exact total leaves nothing to share out."""
    shape = np.broadcast_shapes(values.shape, by.shape)
    return np.divide(values, by, out=np.zeros(shape), where=by > 0)
