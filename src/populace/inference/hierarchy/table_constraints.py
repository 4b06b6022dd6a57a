"""What the integer tables of a hierarchy must satisfy, and what that means for the units above.

A unit *needs* its cells to lie where they are allowed, and *demands*: counts that must lie in a set of cells. A table
can be split among children exactly if it can hold all their demands at once, each in its own cells, and has nothing in
a cell that no child may have. So needs add up: those of a unit are the union of its children's cells and all their
demands together. A lower bound is a demand; where totals are exact, what is left of the total is one as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Ints, Truth
from populace.core.errors import SchemaError, UsageError
from populace.core.spine import Spine


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForbiddenCells:
    """Cells, an array of truth values over the cell's columns, that a unit and all units in it cannot have."""

    level: int
    unit: int
    cells: Truth


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LowerBound:
    """The least number of records that a unit has in a set of cells."""

    level: int
    unit: int
    cells: Truth
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableConstraints:
    """Public constraints on the tables of a spine: structural zeros, levels with exact totals, facts about units."""

    spine: Spine
    shape: tuple[int, ...]
    zeros: Truth | None = None
    exact_levels: tuple[int, ...] = ()
    forbidden: tuple[ForbiddenCells, ...] = ()
    bounds: tuple[LowerBound, ...] = ()

    @property
    def deepest_exact(self) -> int:
        """The deepest level with exact totals, -1 without any: levels above have exact totals by sums."""
        return max(self.exact_levels, default=-1)

    @property
    def possible(self) -> Truth:
        """The cells that are no structural zeros, on one axis."""
        size = int(np.prod(self.shape, dtype=np.int64))
        found: Truth = np.ones(size, bool) if self.zeros is None else ~self.zeros.reshape(-1)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """A count that must lie in a set of cells."""

    cells: Truth
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitNeeds:
    """The cells that a unit may have, and what it must have in some of them; the rest of it lies anywhere allowed."""

    allowed: Truth
    demands: tuple[Demand, ...]

    @property
    def least(self) -> int:
        """The least total that meets all demands."""
        return sum(demand.count for demand in self.demands)

    def map_cells(self, change: Callable[[Truth], Truth]) -> UnitNeeds:
        """Return the same needs for cells in another order."""
        demands = tuple(Demand(cells=change(d.cells), count=d.count) for d in self.demands)
        return UnitNeeds(allowed=change(self.allowed), demands=demands)


Needs = tuple[dict[int, UnitNeeds], ...]


def check_feasible(constraints: TableConstraints, *, totals: Mapping[int, Ints] | None = None) -> None:
    """Refuse constraints that contradict each other, from public input alone.

    Without totals: whatever the exact totals are, as long as no unit's total is below the lower bounds in it, there is
    a table. With them, that is checked too; they are known before any budget is spent.
    """
    _check_input(constraints)
    needs = aggregate_needs(constraints, totals=None)
    for level in range(constraints.deepest_exact + 1):
        for unit, need in needs[level].items():
            if not need.allowed.any():
                raise SchemaError(
                    f"unit {unit} of level {constraints.spine.levels[level]!r} has an exact total and no cell "
                    "that it may have.",
                    hint="leave the unit out of the spine, or allow a cell",
                )
    if constraints.exact_levels and not constraints.possible.any():
        raise SchemaError(
            "every cell is a structural zero, and totals are exact.", hint="allow at least one cell"
        )
    if totals is not None:
        _check_totals(constraints, totals, needs)


def _check_input(constraints: TableConstraints) -> None:
    spine, shape = constraints.spine, constraints.shape
    if any(not 0 <= level < spine.depth for level in constraints.exact_levels):
        raise SchemaError("a level with exact totals does not exist.", hint="count levels from 0, the root")
    if constraints.zeros is not None and constraints.zeros.shape != shape:
        raise SchemaError("structural zeros have another shape than the cells.", hint="give one for each")
    facts: list[ForbiddenCells | LowerBound] = [*constraints.forbidden, *constraints.bounds]
    for fact in facts:
        known = 0 <= fact.level < spine.depth and 0 <= fact.unit < spine.units(fact.level)
        if not known or fact.cells.shape != shape:
            raise SchemaError(
                "a fact is about a unit that does not exist, or its cells have another shape.",
                hint="check the level, the number of the unit and the shape of its cells",
            )
    for bound in constraints.bounds:
        if bound.count > 0 and bound.level < constraints.deepest_exact:
            raise SchemaError(
                f"a lower bound is given for level {spine.levels[bound.level]!r}, above exact totals of units in it.",
                hint=f"give lower bounds for units of level {spine.levels[constraints.deepest_exact]!r} or below",
            )


def exact_totals(constraints: TableConstraints, *, totals: Mapping[int, Ints]) -> tuple[Ints, ...]:
    """Return the exact totals of every level down to the deepest that has them: those above are sums."""
    deepest = constraints.deepest_exact
    if deepest < 0:
        return ()
    found = [np.asarray(totals[deepest], dtype=np.int64)]
    for level in range(deepest, 0, -1):
        found.append(constraints.spine.sum_children(found[-1], level=level).astype(np.int64))
    return tuple(reversed(found))


def _check_totals(constraints: TableConstraints, totals: Mapping[int, Ints], needs: Needs) -> None:
    spine = constraints.spine
    if set(totals) != set(constraints.exact_levels):
        raise UsageError("totals are given for other levels than exact ones.", hint="give one array for each")
    for level, values in totals.items():
        if np.shape(values) != (spine.units(level),) or np.min(values) < 0:
            raise UsageError(
                "exact totals are negative, or not one for each unit.", hint="give counts by unit"
            )
    exact = exact_totals(constraints, totals=totals)
    for level in constraints.exact_levels:
        if not np.array_equal(exact[level], totals[level]):
            raise UsageError(
                f"exact totals of level {spine.levels[level]!r} are not the sums of those below.",
                hint="take all exact totals from one table",
            )
    if exact:
        deepest = constraints.deepest_exact
        for unit, need in needs[deepest].items():
            if need.least > exact[deepest][unit]:
                raise SchemaError(
                    f"unit {unit} of level {spine.levels[deepest]!r} has lower bounds of {need.least} together, "
                    f"above its exact total of {exact[deepest][unit]}.",
                    hint="lower the bounds, or give no exact totals for this level",
                )


def aggregate_needs(constraints: TableConstraints, *, totals: Mapping[int, Ints] | None) -> Needs:
    """Return, by level, the needs of the units that have any beyond the structural zeros.

    Demands for what is left of exact totals are included if there are totals.
    """
    spine, possible = constraints.spine, constraints.possible
    exact = () if totals is None else exact_totals(constraints, totals=totals)
    allowed = _push_down(constraints)
    own: dict[tuple[int, int], list[LowerBound]] = {}
    for bound in constraints.bounds:
        if bound.count > 0:
            own.setdefault((bound.level, bound.unit), []).append(bound)
    needs: list[dict[int, UnitNeeds]] = [{} for _ in range(spine.depth)]
    for level in reversed(range(spine.depth)):
        below: dict[int, list[int]] = {}
        if level + 1 < spine.depth:
            sizes = np.bincount(spine.parents[level])
            for child in needs[level + 1]:
                below.setdefault(int(spine.parents[level][child]), []).append(child)
        else:
            below = {unit: [] for unit in allowed[level]}
        for unit in {*below, *(unit for at, unit in own if at == level)}:
            children = below.get(unit, [])
            if level + 1 == spine.depth:
                may = allowed[level].get(unit, possible)
            elif len(children) == sizes[unit]:
                may = np.logical_or.reduce([needs[level + 1][child].allowed for child in children])
            else:
                may = possible
            demands = _add_demands([needs[level + 1][child] for child in children])
            if level + 1 < len(exact):
                for child in children:
                    need = needs[level + 1][child]
                    rest = int(exact[level + 1][child]) - need.least
                    # What is left of a unit that may have every cell is left of its parent's total too.
                    if rest > 0 and not np.array_equal(need.allowed, possible):
                        demands = _merge([*demands, Demand(cells=need.allowed, count=rest)])
            demands = _add_bounds(demands, own.get((level, unit), []), may, where=spine.levels[level])
            if demands or not np.array_equal(may, possible):
                needs[level][unit] = UnitNeeds(allowed=may, demands=tuple(demands))
    return tuple(needs)


def _push_down(constraints: TableConstraints) -> list[dict[int, Truth]]:
    """Return the cells that units may have, by level: what a unit cannot have, no unit in it can."""
    spine = constraints.spine
    allowed: list[dict[int, Truth]] = [{} for _ in range(spine.depth)]
    for fact in constraints.forbidden:
        held = allowed[fact.level].get(fact.unit, constraints.possible)
        allowed[fact.level][fact.unit] = held & ~fact.cells.reshape(-1)
    for level in range(spine.depth - 1):
        starts = np.append(spine.first_children(level + 1), spine.units(level + 1))
        for unit, may in allowed[level].items():
            for child in range(int(starts[unit]), int(starts[unit + 1])):
                allowed[level + 1][child] = allowed[level + 1].get(child, may) & may
    return allowed


def _merge(demands: Sequence[Demand]) -> list[Demand]:
    merged: dict[bytes, Demand] = {}
    for demand in demands:
        key = demand.cells.tobytes()
        count = demand.count + (merged[key].count if key in merged else 0)
        merged[key] = Demand(cells=demand.cells, count=count)
    return [demand for demand in merged.values() if demand.count]


def _add_demands(needs: Sequence[UnitNeeds]) -> list[Demand]:
    return _merge([demand for need in needs for demand in need.demands])


def _add_bounds(
    demands: list[Demand], bounds: Sequence[LowerBound], allowed: Truth, *, where: str
) -> list[Demand]:
    """Return demands with those of a unit's own lower bounds: what is missing in their cells, smallest set first.

    What is added in a set of cells also counts in every larger one.
    """
    for bound in sorted(bounds, key=lambda bound: int((bound.cells.reshape(-1) & allowed).sum())):
        cells = bound.cells.reshape(-1) & allowed
        if not cells.any():
            raise SchemaError(
                f"a unit of level {where!r} must have {bound.count} in cells that it cannot have.",
                hint="allow one of the cells, or drop the lower bound",
            )
        inside = [not (demand.cells & ~cells).any() for demand in demands]
        around = [
            not held and not (cells & ~demand.cells).any()
            for demand, held in zip(demands, inside, strict=True)
        ]
        for demand, held, larger in zip(demands, inside, around, strict=True):
            if not held and not larger and (demand.cells & cells).any():
                raise SchemaError(
                    f"lower bounds of a unit of level {where!r}, or of units in it, overlap in part.",
                    hint="give lower bounds for sets of cells that are disjoint or lie one in another",
                )
        missing = bound.count - sum(
            demand.count for demand, held in zip(demands, inside, strict=True) if held
        )
        if missing <= 0:
            continue
        counts, rest = [demand.count for demand in demands], missing
        for place in sorted(np.flatnonzero(around), key=lambda place: int(demands[place].cells.sum())):
            taken = min(rest, counts[place])
            counts[place] -= taken
            rest -= taken
        lowered = [Demand(cells=d.cells, count=c) for d, c in zip(demands, counts, strict=True)]
        demands = _merge([*lowered, Demand(cells=cells, count=missing)])
    return demands
