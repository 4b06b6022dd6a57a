"""Families with facts: the linear program finds the nearest tables, and repairs change no more than they must."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from populace.core.array_types import Ints
from populace.core.errors import InternalError
from populace.inference.hierarchy.family_program import Family, meets_needs, repair_family, solve_family
from populace.inference.hierarchy.table_constraints import Demand, UnitNeeds
from tests.helpers.sampled_cases import sample_cases

CELLS = 3
STAGES = [np.arange(CELLS)]


def every_table(cells: Ints, units: int) -> list[Ints]:
    """Return every way to split a table of cells among units."""
    ways = [
        [split for split in itertools.product(range(int(n) + 1), repeat=units) if sum(split) == n]
        for n in cells
    ]
    return [np.array(chosen).T for chosen in itertools.product(*ways)]


def draw_family(seed: int) -> Family:
    """Return three children, of exact totals, whose needs hold in some table."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(0.8, (3, CELLS))
    needs = []
    for row in truth:
        allowed = (row > 0) | (rng.random(CELLS) < 0.6)
        demands = []
        for _ in range(int(rng.integers(0, 3))):
            cells = allowed & (rng.random(CELLS) < 0.7)
            spare = int(row[cells].sum()) - sum(d.count for d in demands if (d.cells & cells).any())
            if spare > 0:
                demands.append(Demand(cells=cells, count=spare))
        needs.append(UnitNeeds(allowed=allowed, demands=tuple(demands)))
    return Family(
        needs=needs,
        targets=truth + rng.normal(0, 2, truth.shape),
        variance=rng.choice([0.5, 2.0], 3),
        cells=truth.sum(axis=0),
        totals=truth.sum(axis=1),
    )


def squared_error(tables: Ints, family: Family) -> float:
    return float(((tables - family.targets) ** 2 / family.variance[:, None]).sum())


@pytest.mark.parametrize("seed", sample_cases(range(120), to=15))
def test_no_tables_that_meet_all_needs_are_nearer(seed: int) -> None:
    family = draw_family(seed)
    assert family.cells is not None
    found = solve_family(family, groups=STAGES)
    assert found is not None
    possible = [
        tables
        for tables in every_table(family.cells, 3)
        if np.array_equal(tables.sum(axis=1), family.totals)
        and all(meets_needs(table, needs=need) for table, need in zip(tables, family.needs, strict=True))
    ]
    assert squared_error(found, family) <= min(squared_error(tables, family) for tables in possible) + 1e-6


def place_by_hand(table: Ints, demands: list[Demand]) -> bool:
    if not demands:
        return True
    first, *rest = demands
    for split in itertools.product(*(range(int(n) + 1) for n in table * first.cells)):
        if sum(split) == first.count and place_by_hand(table - np.array(split), rest):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_demands_are_met_at_once_or_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.poisson(1.2, CELLS)
    demands = [Demand(cells=rng.random(CELLS) < 0.6, count=int(rng.integers(1, 3))) for _ in range(3)]
    needs = UnitNeeds(allowed=np.ones(CELLS, bool), demands=tuple(demands))
    assert meets_needs(table, needs=needs) == place_by_hand(table, demands)


def test_a_repair_leaves_most_siblings_alone() -> None:
    rng = np.random.default_rng(3)
    tables = rng.poisson(5.0, (60, CELLS))
    tables[0] = [4, 0, 0]
    plain = UnitNeeds(allowed=np.ones(CELLS, bool), demands=())
    first = UnitNeeds(
        allowed=np.ones(CELLS, bool), demands=(Demand(cells=np.array([False, True, False]), count=2),)
    )
    family = Family(
        needs=[first] + [plain] * 59,
        targets=tables.astype(float),
        variance=np.ones(60),
        cells=tables.sum(axis=0),
        totals=None,
    )
    found = repair_family(family, tables=tables, groups=STAGES)
    assert found[0, 1] == 2
    assert np.array_equal(found.sum(axis=0), tables.sum(axis=0))
    assert (found != tables).any(axis=1).sum() == 3
    # Two units change cells in the first table, and one in each of two others.
    assert ((found - tables) ** 2).sum() == 8 + 4


def test_more_siblings_help_where_some_do_not_suffice() -> None:
    """The only sibling that can give the demanded cell up is the smallest of 40: all others need it themselves."""
    cell = np.array([False, False, True])
    tables = np.tile(np.array([5, 5, 3]), (40, 1))
    tables[0], tables[39] = [3, 0, 0], [0, 0, 1]
    own = UnitNeeds(allowed=np.ones(CELLS, bool), demands=(Demand(cells=cell, count=3),))
    one = UnitNeeds(allowed=np.ones(CELLS, bool), demands=(Demand(cells=cell, count=1),))
    plain = UnitNeeds(allowed=np.ones(CELLS, bool), demands=())
    family = Family(
        needs=[one] + [own] * 38 + [plain],
        targets=tables.astype(float),
        variance=np.ones(40),
        cells=tables.sum(axis=0),
        totals=None,
    )
    found = repair_family(family, tables=tables, groups=STAGES)
    assert found[0, 2] == 1
    assert found[39, 2] == 0
    hopeless = Family(
        needs=[own] * 40,
        targets=family.targets,
        variance=family.variance,
        cells=family.cells,
        totals=None,
    )
    with pytest.raises(InternalError):
        repair_family(hopeless, tables=tables, groups=STAGES)
