"""Generalised least squares over a tree of units: one pass up, one pass down, whole or subtree by subtree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.core.marginals import Clique
from populace.inference.hierarchy.hierarchy_plan import (
    HierarchyPlan,
    KnownMarginals,
    NoisyCounts,
    Totals,
    check_totals,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtree:
    """Units of neighbouring levels, from `level` down: `units[k]` are those of level + k, all below the first."""

    level: int
    units: tuple[slice, ...]

    @property
    def levels(self) -> range:
        """The levels, widest first."""
        return range(self.level, self.level + len(self.units))

    def at(self, level: int) -> slice:
        """Return the units of a level."""
        return self.units[level - self.level]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubtreeEstimates:
    """The estimates of all units of a subtree: `cells[k]` are (units, *shape) of its level + k."""

    subtree: Subtree
    cells: tuple[Floats, ...]


Measure = Callable[[Subtree], NoisyCounts]
"""Gives the noisy counts of the units of a subtree, the same each time it is called."""


Exact = Mapping[int, tuple[Floats, ...]]
"""The counts of all marginals that are known exactly, by level."""


class HierarchyFilter(Protocol):
    """The algebra of one form of the filter: a unit's state is a vector of `width` coordinates.

    With information t = Σ Qᵀy/σ², own precision Λ, messages z with covariance v from children and W = Σ v:
    combining gives z = z̄ + v·(t − Λz̄), z̄ = Σ z, v = (I + WΛ)⁻¹W; descending x = z + v·W⁺·(x of parent − Σ z).
    """

    @property
    def plan(self) -> HierarchyPlan:
        """What is measured."""

    @property
    def width(self) -> int:
        """The number of coordinates of a unit."""

    def collect(self, counts: Sequence[npt.NDArray[Any]], *, level: int, units: int) -> Floats:
        """Return the information of a level's units in their noisy counts."""

    def combine(
        self,
        information: Floats,
        *,
        level: int,
        units: slice,
        children: Floats | None,
        exact: Sequence[Floats],
    ) -> Floats:
        """Return the messages of units: the best estimates from themselves and all below; may use up its input.

        `exact` are the counts of the marginals that the plan knows exactly.
        """

    def descend(self, messages: Floats, *, level: int, units: slice, above: slice, gap: Floats) -> Floats:
        """Return the estimates of units given how far their parents' estimates are from the sums of messages."""

    def to_cells(self, states: Floats) -> Floats:
        """Return states as cells: (units, *shape)."""

    def variance(self, clique: Clique, *, level: int, units: slice) -> Floats:
        """Return the exact variance of each cell of a marginal of units of a level: (units, *shape)."""

    def area_variance(self, clique: Clique, *, members: Truth) -> Floats:
        """Return the exact variance of each cell of a marginal of the sum of some smallest units."""


def estimate_subtrees(
    form: HierarchyFilter,
    measure: Measure,
    *,
    cut: int = 0,
    totals: Totals | None = None,
    known: KnownMarginals | None = None,
) -> Iterator[SubtreeEstimates]:
    """Yield the estimates of the levels above `cut` together, then of each unit of level `cut` with all below it.

    Only one subtree and one vector for each unit of the level `cut` are held at a time: a first round over the
    subtrees keeps the message of each, and a second one descends from the estimates above. So `measure` is called
    twice for every subtree, and once for the levels above. With cut 0 there is one subtree, the whole tree.
    """
    spine = form.plan.spine
    if not 0 <= cut < spine.depth:
        raise UsageError(
            f"subtrees were asked for below level {cut}.", hint=f"give a level from 0 to {spine.depth - 1}"
        )
    return _estimate(form, measure, cut=cut, exact=check_totals(form.plan, totals=totals, known=known))


def _estimate(
    form: HierarchyFilter, measure: Measure, *, cut: int, exact: Exact
) -> Iterator[SubtreeEstimates]:
    spine = form.plan.spine
    if cut == 0:
        whole = subtree_below(form.plan, level=0, unit=0)
        messages = _pass_up(form, whole, counts=measure(whole), exact=exact)
        yield _to_estimates(form, whole, _pass_down(form, messages, root=messages.states[0]))
        return
    roots = np.empty((spine.units(cut), form.width))
    subtrees = [subtree_below(form.plan, level=cut, unit=unit) for unit in range(spine.units(cut))]
    for unit, subtree in enumerate(subtrees):
        roots[unit] = _pass_up(form, subtree, counts=measure(subtree), exact=exact).states[0][0]
    above = Subtree(level=0, units=tuple(slice(0, spine.units(level)) for level in range(cut)))
    messages = _pass_up(form, above, counts=measure(above), exact=exact, below=roots)
    *states, roots = _pass_down(form, messages, root=messages.states[0])
    yield _to_estimates(form, above, states)
    for unit, subtree in enumerate(subtrees):
        messages = _pass_up(form, subtree, counts=measure(subtree), exact=exact)
        yield _to_estimates(form, subtree, _pass_down(form, messages, root=roots[unit : unit + 1]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Messages:
    """The messages of the units of a subtree, and for every level but the last the sums of its children's."""

    subtree: Subtree
    states: list[Floats]
    sums: list[Floats]


def _pass_up(
    form: HierarchyFilter,
    subtree: Subtree,
    *,
    counts: NoisyCounts,
    exact: Exact,
    below: Floats | None = None,
) -> _Messages:
    """Return the messages of a subtree, smallest units first; `below` are those of all children of its last level."""
    plan, states, sums = form.plan, [] if below is None else [below], []
    for level in reversed(subtree.levels):
        units = subtree.at(level)
        own = counts[level - subtree.level]
        _check_counts(own, plan=plan, level=level, units=units.stop - units.start)
        if states:
            sums.append(sum_children(plan, states[-1], level=level, units=units))
        states.append(
            form.combine(
                form.collect(own, level=level, units=units.stop - units.start),
                level=level,
                units=units,
                children=sums[-1] if sums else None,
                exact=[counts[units] for counts in exact.get(level, ())],
            )
        )
    if below is not None:
        last = slice(0, len(below))
        subtree = Subtree(level=subtree.level, units=(*subtree.units, last))
    return _Messages(subtree=subtree, states=states[::-1], sums=sums[::-1])


def _pass_down(form: HierarchyFilter, messages: _Messages, *, root: Floats) -> list[Floats]:
    """Return the estimates of all units of a subtree, given that of its first unit; the messages are used up."""
    subtree, found = messages.subtree, [root]
    for place, level in enumerate(subtree.levels[1:], 1):
        found.append(
            form.descend(
                messages.states[place],
                level=level,
                units=subtree.at(level),
                above=subtree.at(level - 1),
                gap=found[-1] - messages.sums[place - 1],
            )
        )
    return found


def _to_estimates(form: HierarchyFilter, subtree: Subtree, states: Sequence[Floats]) -> SubtreeEstimates:
    return SubtreeEstimates(subtree=subtree, cells=tuple(map(form.to_cells, states)))


def _check_counts(counts: Sequence[npt.NDArray[Any]], *, plan: HierarchyPlan, level: int, units: int) -> None:
    wanted = [(units, *query.marginal.shape(plan.domain)) for query in plan.levels[level].queries]
    given = [values.shape for values in counts]
    if given != wanted:
        raise UsageError(
            f"noisy counts of level {plan.spine.levels[level]!r} have shapes {given}.",
            hint=f"its queries and units need {wanted}",
        )


def subtree_below(plan: HierarchyPlan, *, level: int, unit: int) -> Subtree:
    """Return a unit of a level with all units below it."""
    units = [slice(unit, unit + 1)]
    for offsets in plan.child_offsets[level:]:
        units.append(slice(int(offsets[units[-1].start]), int(offsets[units[-1].stop])))
    return Subtree(level=level, units=tuple(units))


def sum_children(plan: HierarchyPlan, values: Floats, *, level: int, units: slice) -> Floats:
    """Return for units of a level the sums over their children of values of the children."""
    begins = plan.child_offsets[level][units]
    summed: Floats = np.add.reduceat(values, begins - begins[0], axis=0)
    return summed
