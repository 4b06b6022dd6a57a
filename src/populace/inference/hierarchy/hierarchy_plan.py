"""What was measured in a hierarchy: the spine, the cells of a unit, and the queries of every level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain, Marginal
from populace.core.spine import Spine
from populace.inference.factor import sum_onto

NoisyCounts = Sequence[Sequence[npt.NDArray[Any]]]
"""For each level and each of its queries the noisy counts: (units, *shape of the query)."""
Totals = Mapping[int, npt.NDArray[Any]]
"""For each level with exact totals the totals of its units."""
KnownMarginals = Mapping[int, Sequence[npt.NDArray[Any]]]
"""For each level with other marginals known exactly their counts, in the plan's order: (units, *shape)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQuery:
    """A marginal of every unit of a level, with independent noise of one variance in every cell.

    `weights`, where units differ, are the precision of each beside 1/variance: 0 where a unit was not measured.
    """

    marginal: Marginal
    variance: Fraction | float
    weights: Floats | None = None

    def __post_init__(self) -> None:
        if not 0 < self.variance < float("inf"):
            raise UsageError(
                f"the query {self.marginal} has variance {self.variance}.",
                hint="give a finite number above 0; an exact total is an invariant",
            )

    @property
    def unit_weights(self) -> Floats:
        """The weight of every unit, or the one of all."""
        return np.ones(1) if self.weights is None else self.weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelQueries:
    """What was measured of every unit of a level; with `has_exact_total` its totals are known exactly.

    `known` are marginals over columns that are known exactly as well, being public.
    """

    queries: tuple[MeasuredQuery, ...] = ()
    has_exact_total: bool = False
    known: tuple[Clique, ...] = ()

    def __post_init__(self) -> None:
        if self.known and not self.has_exact_total:
            raise UsageError(
                "a marginal is known exactly, and its total is not.", hint="its sum is the total"
            )

    @property
    def exact(self) -> tuple[Clique, ...]:
        """All marginals that are known exactly; the total is the one over no column."""
        return (*(((),) if self.has_exact_total else ()), *self.known)


@dataclass(frozen=True, eq=False, kw_only=True)
class HierarchyPlan:
    """The queries of every level of a spine, root first, over the cells of a domain.

    `possible` is False in cells that no record can be in (structural zeros), the same in every unit. The smallest
    level must measure all columns ungrouped, so that every estimate is determined.

    >>> spine = Spine(("all", "county"), (np.array([0, 0]),))
    >>> detailed = MeasuredQuery(marginal=Marginal(("sex",)), variance=Fraction(4))
    >>> plan = HierarchyPlan(
    ...     spine=spine,
    ...     domain=Domain({"sex": 2}),
    ...     levels=(LevelQueries(has_exact_total=True), LevelQueries(queries=(detailed,))),
    ... )
    >>> plan.shape, plan.exact_levels
    ((2,), (0,))
    """

    spine: Spine
    domain: Domain
    levels: tuple[LevelQueries, ...]
    possible: Truth | None = None

    def __post_init__(self) -> None:
        if len(self.levels) != self.spine.depth:
            raise UsageError(
                f"{len(self.levels)} lists of queries came for {self.spine.depth} levels.",
                hint="give one for every level, the root first; a list may be empty",
            )
        for query in (query for level in self.levels for query in level.queries):
            _check_marginal(query.marginal, domain=self.domain)
        for clique in (clique for level in self.levels for clique in level.known):
            _check_marginal(Marginal(clique), domain=self.domain)
        if not any(_is_detailed(q.marginal, domain=self.domain) for q in self.levels[-1].queries):
            raise UsageError(
                f"the smallest level, {self.spine.levels[-1]!r}, does not measure all columns together.",
                hint="add the query of all columns, ungrouped, to it",
            )
        if self.possible is None:
            return
        if self.possible.shape != self.shape or self.possible.dtype != np.bool_ or not self.possible.any():
            raise UsageError(
                f"structural zeros have shape {self.possible.shape} and type {self.possible.dtype}.",
                hint=f"give truth values of shape {self.shape}, true in at least one cell",
            )
        own = None if self.possible.all() else self.possible.copy()
        if own is not None:
            own.setflags(write=False)
        object.__setattr__(self, "possible", own)

    @property
    def columns(self) -> Clique:
        """The columns of the cells, in order."""
        return tuple(self.domain)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of a unit's cells."""
        return self.domain.shape(self.domain)

    @cached_property
    def cells(self) -> int:
        """The number of cells of a unit, impossible ones included."""
        return self.domain.cells(self.domain)

    @cached_property
    def exact_levels(self) -> tuple[int, ...]:
        """The levels whose totals are known exactly."""
        return tuple(number for number, level in enumerate(self.levels) if level.has_exact_total)

    def new_exact(self, level: int) -> tuple[Clique, ...]:
        """Return the marginals that are known exactly at a level and do not follow from others, there or below."""
        below = [set(clique) for deeper in self.levels[level + 1 :] for clique in deeper.exact]
        own = self.levels[level].exact
        return tuple(
            clique
            for clique in own
            if not any(set(clique) <= other for other in below)
            and not any(set(clique) < set(other) for other in own)
        )

    @cached_property
    def has_weights(self) -> bool:
        """Whether units of a level were measured with different noise."""
        return any(query.weights is not None for level in self.levels for query in level.queries)

    @cached_property
    def has_groupings(self) -> bool:
        """Whether a query groups a column."""
        return any(query.marginal.groupings for level in self.levels for query in level.queries)

    @cached_property
    def child_offsets(self) -> tuple[Ints, ...]:
        """For each level but the smallest: where the children of each unit begin in the level below, and the end."""
        return tuple(
            np.append(self.spine.first_children(level), self.spine.units(level))
            for level in range(1, self.spine.depth)
        )

    def list_tables(self) -> list[Clique]:
        """Return the tables that precision is shown of: the total, each column, others measured, and all columns."""
        asked = {query.marginal.clique for level in self.levels for query in level.queries}
        more = sorted(clique for clique in asked if 1 < len(clique) < len(self.columns))
        return list(dict.fromkeys([(), *((name,) for name in self.columns), *more, self.columns]))

    def possible_in(self, clique: Clique) -> Truth:
        """Return which cells of a marginal a record can be in."""
        cells = np.ones(self.shape, dtype=np.bool_) if self.possible is None else self.possible
        return np.asarray(sum_onto(cells.astype(np.float64), self.columns, clique) > 0)

    def clique(self, columns: Clique) -> Clique:
        """Return columns that a marginal is asked for, after a check of their names."""
        _check_marginal(Marginal(columns), domain=self.domain)
        return columns


def check_totals(
    plan: HierarchyPlan, *, totals: Totals | None, known: KnownMarginals | None = None
) -> dict[int, tuple[Floats, ...]]:
    """Return the counts of all marginals that are known exactly, by level, after a check that they fit each other."""
    given = {} if totals is None else {level: np.asarray(t, dtype=np.float64) for level, t in totals.items()}
    more = {
        level: tuple(np.asarray(t, dtype=np.float64) for t in own) for level, own in (known or {}).items()
    }
    for level, measured in enumerate(plan.levels):
        shapes = [(plan.spine.units(level), *plan.domain.shape(clique)) for clique in measured.known]
        if [each.shape for each in more.get(level, ())] != shapes:
            raise UsageError(
                f"known marginals of level {plan.spine.levels[level]!r} have other shapes than the plan says.",
                hint=f"give counts of shapes {shapes}",
            )
    if sorted(given) != list(plan.exact_levels):
        raise UsageError(
            f"totals came for the levels {sorted(given)}; invariants are those of {list(plan.exact_levels)}.",
            hint="give the totals of the units of every level whose total is exact, and of no other",
        )
    for level, values in given.items():
        if values.shape != (plan.spine.units(level),) or not np.isfinite(values).all():
            raise UsageError(
                f"the totals of level {plan.spine.levels[level]!r} have shape {values.shape}.",
                hint=f"give a finite number for each of its {plan.spine.units(level)} units",
            )
    for above, below in zip(plan.exact_levels, plan.exact_levels[1:], strict=False):
        units = plan.spine.ancestors(above, of_level=below)
        summed = np.bincount(units, weights=given[below], minlength=plan.spine.units(above))
        if not np.allclose(summed, given[above], rtol=1e-12, atol=1e-9):
            raise UsageError(
                f"exact totals of level {plan.spine.levels[below]!r} do not add up to those of "
                f"{plan.spine.levels[above]!r}.",
                hint="take both from the same table",
            )
    return {level: (values, *more.get(level, ())) for level, values in given.items()}


def _is_detailed(marginal: Marginal, *, domain: Domain) -> bool:
    return not marginal.groupings and set(marginal.clique) == set(domain)


def _check_marginal(marginal: Marginal, *, domain: Domain) -> None:
    if not set(marginal.clique) <= set(domain):
        raise UsageError(
            f"{marginal} names a column that is not in the domain.", hint=f"columns are {', '.join(domain)}"
        )
    for grouping in marginal.groupings:
        if len(grouping.groups) != domain[grouping.column]:
            raise UsageError(
                f"the grouping of column {grouping.column!r} has {len(grouping.groups)} codes; the column has "
                f"{domain[grouping.column]}.",
                hint="give every code its group",
            )
