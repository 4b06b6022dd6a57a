"""The tables of the children of one unit where facts about them stand in the way of plain transportation problems.

One network: a child's total flows through its demands, and freely, to the cells that they allow, and on to the cells
of the parent. The nearest sums of a child over groups of cells, coarse groups first, are fixed one stage after another.
The squared error is linear between neighbouring integers, so that a linear program (HiGHS) finds the nearest integers;
it is solved again with unit steps around its solution until that stays, which makes it the nearest of all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import InternalError
from populace.inference.hierarchy.table_constraints import UnitNeeds

_MAX_REFINEMENTS = 20
_MIN_SIBLINGS = 12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """The children of a unit: what each needs, estimates and variances, totals where they are exact.

    `cells` is the unit's own table, on one axis; without it the only child, the root, has any table of its total.
    """

    needs: Sequence[UnitNeeds]
    targets: Floats
    variance: Floats
    cells: Ints | None
    totals: Ints | None


def meets_needs(table: Ints, *, needs: UnitNeeds) -> bool:
    """Tell whether a unit's table lies where it may, and holds all demands at once.

    >>> from populace.inference.hierarchy.table_constraints import Demand
    >>> demand = Demand(cells=np.array([True, False]), count=2)
    >>> needs = UnitNeeds(allowed=np.array([True, True]), demands=(demand,))
    >>> meets_needs(np.array([2, 5]), needs=needs), meets_needs(np.array([1, 9]), needs=needs)
    (True, False)
    """
    if table[~needs.allowed].any() or any(table[d.cells].sum() < d.count for d in needs.demands):
        return False
    if len(needs.demands) < 2:
        return True
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    least, number, size = needs.least, len(needs.demands), len(table)
    if least >= 2**31:
        return False
    # The source, the demands, the cells, the sink.
    graph = np.zeros((number + size + 2, number + size + 2), dtype=np.int32)
    graph[1 + number : -1, -1] = np.minimum(table, least)
    for place, demand in enumerate(needs.demands, 1):
        graph[0, place] = demand.count
        graph[place, 1 + number : -1][demand.cells] = demand.count
    return int(maximum_flow(csr_array(graph), 0, number + size + 1).flow_value) == least


def repair_family(family: Family, *, tables: Ints, groups: Sequence[Ints]) -> Ints:
    """Return tables that meet all needs, by changing those that do not, with some siblings to give and take.

    Siblings with most in the cells that are demanded come first; there are more of them where some do not suffice.
    """
    pairs = list(zip(tables, family.needs, strict=True))
    broken = np.array([not meets_needs(table, needs=need) for table, need in pairs])
    demanded = np.zeros(tables.shape[1], dtype=np.bool_)
    for _, need in itertools.compress(pairs, broken):
        for demand in need.demands:
            demanded |= demand.cells
    others = np.lexsort((-tables.sum(axis=1), -tables[:, demanded].sum(axis=1)))
    others = others[~broken[others]]
    helpers = max(_MIN_SIBLINGS, 4 * int(broken.sum()))
    while True:
        members = np.sort(np.concatenate([np.flatnonzero(broken), others[:helpers]]))
        part = Family(
            needs=[family.needs[int(place)] for place in members],
            targets=family.targets[members],
            variance=family.variance[members],
            cells=tables[members].sum(axis=0),
            totals=None if family.totals is None else family.totals[members],
        )
        solved = solve_family(part, groups=groups)
        if solved is not None:
            repaired = tables.copy()
            repaired[members] = solved
            return repaired
        if helpers >= len(others):
            raise InternalError("the tables of a family of units could not be found.")
        helpers *= 4


def solve_family(family: Family, *, groups: Sequence[Ints]) -> Ints | None:
    """Return integer tables of the children that meet all needs, nearest to the targets stage by stage, or None.

    `groups` gives, for each stage, the group that every cell lies in; the last stage is the cells themselves. A stage
    is left out if a demand overlaps one of its groups in part: what it fixed could then not be split further.
    """
    network = _make_network(family)
    stages = [stage for stage in groups if _is_nested(stage, family.needs)]
    fixed: list[tuple[Ints, Ints]] = []
    if family.totals is not None:
        fixed.append((np.zeros(family.targets.shape[1], dtype=np.int64), family.totals[:, None]))
    else:
        stages = [np.zeros(family.targets.shape[1], dtype=np.int64), *stages]
    for stage in stages:
        sums = _solve_stage(family, network, stage, fixed)
        if sums is None:
            return None
        fixed.append((stage, sums))
    tables = fixed[-1][1]
    if not _is_solution(tables, family):
        raise InternalError("the tables of a family of units do not meet their needs.")
    return tables


def _is_solution(tables: Ints, family: Family) -> bool:
    return bool(
        (tables >= 0).all()
        and (family.cells is None or np.array_equal(tables.sum(axis=0), family.cells))
        and (family.totals is None or np.array_equal(tables.sum(axis=1), family.totals))
        and all(meets_needs(table, needs=need) for table, need in zip(tables, family.needs, strict=True))
    )


def _is_nested(stage: Ints, needs: Sequence[UnitNeeds]) -> bool:
    number = int(stage.max()) + 1
    for need in needs:
        size = np.bincount(stage[need.allowed], minlength=number)
        for demand in need.demands:
            held = np.bincount(stage[demand.cells & need.allowed], minlength=number)
            if (held > 0).sum() > 1 and ((held > 0) & (held < size)).any():
                return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Network:
    """The flows from (child, source) to cells, one variable each; sources are demands and, last, what is left."""

    child: Ints
    cell: Ints
    source: Ints
    supply: Ints


def _make_network(family: Family) -> _Network:
    child: list[Ints] = []
    cell: list[Ints] = []
    source: list[Ints] = []
    supply: list[int] = []
    free: Truth = np.ones(family.targets.shape[1], bool) if family.cells is None else family.cells > 0
    for number, need in enumerate(family.needs):
        sources = [(d.cells & need.allowed, d.count) for d in need.demands] + [(need.allowed, -1)]
        for cells, count in sources:
            places = np.flatnonzero(cells & free)
            child.append(np.full(len(places), number))
            cell.append(places)
            source.append(np.full(len(places), len(supply)))
            supply.append(count)
    return _Network(
        child=np.concatenate(child),
        cell=np.concatenate(cell),
        source=np.concatenate(source),
        supply=np.array(supply),
    )


def _solve_stage(
    family: Family, network: _Network, stage: Ints, fixed: Sequence[tuple[Ints, Ints]]
) -> Ints | None:
    """Return the sums of every child over the groups of a stage, nearest to the targets, given earlier sums."""
    number, size = len(family.needs), int(stage.max()) + 1
    wanted: Floats = np.zeros((number, size))
    for row, values in zip(wanted, family.targets, strict=True):
        np.add.at(row, stage, values)
    if family.cells is None:
        cap = np.full(size, 0 if family.totals is None else int(family.totals.sum()))
    else:
        cap = np.bincount(stage, weights=family.cells, minlength=size).astype(np.int64)
    caps = np.broadcast_to(cap, wanted.shape)
    scale = np.broadcast_to(family.variance[:, None], wanted.shape)
    centre = np.clip(np.rint(wanted), 0, caps).astype(np.int64)
    places = network.child * size + stage[network.cell]
    found, error = centre, np.inf
    for _ in range(_MAX_REFINEMENTS):
        trial = _solve_program(family, network, places, fixed, wanted, caps, scale, centre)
        if trial is None:
            return None
        sums = np.bincount(places, weights=trial, minlength=number * size).reshape(number, size)
        centre = np.rint(sums).astype(np.int64)
        reached = float((((centre - wanted) ** 2) / scale).sum())
        if not reached < error - 1e-9 * (1.0 + abs(reached)):
            break
        found, error = centre, reached
    return found


def _solve_program(
    family: Family,
    network: _Network,
    places: Ints,
    fixed: Sequence[tuple[Ints, Ints]],
    wanted: Floats,
    caps: Ints,
    scale: Floats,
    centre: Ints,
) -> Floats | None:
    """Return the flows of the linear program whose costs are exact near the centre and between powers of 2 from it."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, csr_array, vstack

    flows = len(network.cell)
    owner, width, slope = _cost_segments(wanted.ravel(), caps.ravel(), scale.ravel(), centre.ravel())
    columns = flows + len(owner)

    def sums_of(keys: Ints, count: int) -> csr_array:
        return coo_array((np.ones(flows), (keys, np.arange(flows))), shape=(count, columns)).tocsr()

    segments = coo_array(
        (np.ones(len(owner)), (owner, flows + np.arange(len(owner)))), shape=(wanted.size, columns)
    ).tocsr()
    parts, values = [sums_of(places, wanted.size) - segments], [np.zeros(wanted.size)]
    demanded = network.supply >= 0
    parts.append(sums_of(network.source, len(network.supply))[demanded])
    values.append(network.supply[demanded].astype(float))
    if family.cells is not None:
        parts.append(sums_of(network.cell, len(family.cells)))
        values.append(family.cells.astype(float))
    for stage, sums in fixed:
        size = sums.shape[1]
        parts.append(sums_of(network.child * size + stage[network.cell], sums.size))
        values.append(sums.ravel().astype(float))
    right = np.concatenate(values)
    kinds = np.concatenate([np.ones(flows), np.zeros(len(owner))])
    # The corners of a network are integers; branching is for what rounding in the solver may leave.
    for integrality in (np.zeros(columns), kinds):
        solved = milp(
            np.concatenate([np.zeros(flows), slope]),
            constraints=LinearConstraint(vstack(parts), right, right),
            bounds=Bounds(0, np.concatenate([np.full(flows, np.inf), width])),
            integrality=integrality,
            options={"mip_rel_gap": 0.0},
        )
        if solved.x is None:
            return None
        found: Floats = solved.x[:flows]
        if np.abs(found - np.rint(found)).max(initial=0.0) < 1e-4:
            break
    return np.rint(found)


def _cost_segments(wanted: Floats, caps: Ints, scale: Floats, centre: Ints) -> tuple[Ints, Floats, Floats]:
    """Return the owner, width and slope of the pieces of the squared error, linear between integers around a centre."""
    steps = np.concatenate([[0], 2 ** np.arange(41)])
    points = np.concatenate([centre[:, None] - steps, centre[:, None] + steps], axis=1)
    points = np.sort(np.clip(points, 0, caps[:, None]), axis=1)
    width = np.diff(points, axis=1)
    slope = (points[:, 1:] + points[:, :-1] - 2 * wanted[:, None]) / scale[:, None]
    owner, place = np.nonzero(width)
    return owner, width[owner, place].astype(float), slope[owner, place]
