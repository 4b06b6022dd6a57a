"""Whole rows change places between units: strata stay as they are, and members come nearer to what is wanted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Marginal
from populace.core.spine import Spine
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.inference.hierarchy.table_constraints import TableConstraints
from populace.sampling.place_households import (
    UnitTarget,
    _Deficit,
    _pair_rows,
    exchange_rows,
    expect_members,
    place_households,
    shrink_target,
)
from populace.schema.geocodes import Geography
from populace.schema.linked.table_cells import MemberCells

ROWS, PLACES, CELLS, UNITS = 120, 3, 5, 4


def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random rows: their unit, their stratum, and the cells of their members."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, CELLS, (ROWS, PLACES))
    cells[np.arange(PLACES) >= rng.integers(0, PLACES + 1, ROWS)[:, None]] = -1
    return rng.integers(0, UNITS, ROWS), rng.integers(0, 6, ROWS), cells


def count(cells: np.ndarray, units: np.ndarray) -> np.ndarray:
    found = np.zeros((UNITS, CELLS))
    for unit, members in zip(units, cells, strict=True):
        for cell in members[members >= 0]:
            found[unit, cell] += 1
    return found


def cost(target: UnitTarget, units: np.ndarray) -> float:
    return target.weight * float(((target.wanted - count(target.cells, units)) ** 2).sum())


def test_the_change_in_cost_is_that_of_counting_again() -> None:
    for seed in range(3):
        units, strata, cells = draw(seed)
        rng = np.random.default_rng(seed)
        target = UnitTarget(cells=cells, wanted=rng.normal(20, 5, (UNITS, CELLS)), weight=0.7)
        deficit = _Deficit.of(target, units=units)
        one, other = _pair_rows(strata, rng=rng)
        apart = units[one] != units[other]
        one, other = one[apart], other[apart]
        told = deficit.weigh(one, other, units[one], units[other])
        for a, b, change in zip(one, other, told, strict=True):
            swapped = units.copy()
            swapped[[a, b]] = swapped[[b, a]]
            assert change == pytest.approx(cost(target, swapped) - cost(target, units))
        a, b = one[:5], other[:5]
        deficit.exchange(a, b, units[a], units[b])
        units[a], units[b] = units[b], units[a].copy()
        assert np.allclose(deficit.lack[:, :-1], target.wanted - count(cells, units))


def test_pairs_are_of_one_stratum_and_a_row_is_in_one_at_most() -> None:
    strata = np.random.default_rng(0).integers(0, 7, 101)
    one, other = _pair_rows(strata, rng=np.random.default_rng(1))
    assert (strata[one] == strata[other]).all()
    both = np.concatenate([one, other])
    assert len(set(both.tolist())) == len(both) == sum(2 * (n // 2) for n in np.bincount(strata))


def test_exchanges_keep_strata_and_lower_the_cost() -> None:
    for seed in range(5):
        units, strata, cells = draw(seed)
        rng = np.random.default_rng(seed)
        # What another assignment of the same rows would have: it can be reached.
        hidden = units.copy()
        for stratum in range(6):
            rows = np.flatnonzero(strata == stratum)
            hidden[rows] = rng.permutation(hidden[rows])
        target = UnitTarget(cells=cells, wanted=count(cells, hidden), weight=1.0)
        found = exchange_rows(units, own=np.arange(UNITS), strata=strata, targets=[target], rng=rng)
        for stratum in range(6):
            here = strata == stratum
            assert np.bincount(found[here], minlength=UNITS).tolist() == (
                np.bincount(units[here], minlength=UNITS).tolist()
            )
        assert cost(target, found) < 0.2 * cost(target, units)


def test_what_strata_let_expect_is_the_mean_of_random_deals() -> None:
    units, strata, cells = draw(3)
    rng = np.random.default_rng(0)
    found = expect_members(cells, units=units, strata=strata, shape=(UNITS, CELLS))
    deals = []
    for _ in range(400):
        dealt = units.copy()
        for stratum in range(6):
            rows = np.flatnonzero(strata == stratum)
            dealt[rows] = rng.permutation(dealt[rows])
        deals.append(count(cells, dealt))
    # 20 means, each within 5 standard errors: false alarms below 2e-5, and the seed is fixed.
    error = np.std(deals, axis=0) / np.sqrt(len(deals))
    assert (np.abs(np.mean(deals, axis=0) - found) <= 5 * error + 1e-9).all()
    assert found.sum() == pytest.approx((cells >= 0).sum())


def hierarchy(noisy: np.ndarray, *, variance: float) -> MeasuredHierarchy:
    """Four units below the whole, in which one column of members was measured."""
    geography = Geography.of_paths([(str(unit),) for unit in range(UNITS)], levels=("tract",))
    asked = MeasuredQuery(marginal=Marginal(("age",)), variance=Fraction(variance))
    plan = HierarchyPlan(
        spine=Spine(("all", "tract"), (np.zeros(UNITS, dtype=np.int64),)),
        domain=Domain({"age": CELLS}),
        levels=(LevelQueries(), LevelQueries(queries=(asked,))),
    )
    return MeasuredHierarchy(
        geography=geography,
        plan=plan,
        constraints=TableConstraints(spine=plan.spine, shape=plan.shape),
        noisy=((), (noisy,)),
        totals={},
        known={},
    )


def test_estimates_that_are_noise_alone_say_nothing_and_precise_ones_are_kept() -> None:
    units, strata, cells = draw(4)
    expected = expect_members(cells, units=units, strata=strata, shape=(UNITS, CELLS))
    asked = {"units": units, "strata": strata, "level": 1}
    quiet = hierarchy(np.rint(expected).astype(np.int64), variance=10_000)
    assert shrink_target(("age",), cells, measured=quiet, **asked) is None
    told = np.rint(expected).astype(np.int64) + np.array([15, -15, 0, 0, 0])
    target = shrink_target(("age",), cells, measured=hierarchy(told, variance=1), **asked)
    assert target is not None
    assert np.abs(target.wanted - told).max() < 1


def test_rows_find_their_units_from_the_top_down() -> None:
    """Rows of two kinds that were dealt at random end up where precise counts have them, at both levels."""
    spine = Spine(("all", "county", "tract"), (np.array([0, 0]), np.array([0, 0, 1, 1])))
    truth = np.array([[40, 0], [25, 15], [10, 30], [0, 40]])
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(4), 40)
    codes = {"age.1": rng.permutation(np.repeat([0, 1], truth.sum(axis=0))).astype(np.uint8)}
    members = MemberCells(
        table="person",
        domain=Domain({"age": 2}),
        wide=Domain({"age.1": 3}),
        places=({"age": "age.1"},),
        absent={"age": 2},
        telling="age",
    )
    asked = MeasuredQuery(marginal=Marginal(("age",)), variance=Fraction(1))
    plan = HierarchyPlan(
        spine=spine,
        domain=members.domain,
        levels=(LevelQueries(), LevelQueries(queries=(asked,)), LevelQueries(queries=(asked,))),
    )
    measured = MeasuredHierarchy(
        geography=Geography.of_paths(
            [("A", "1"), ("A", "2"), ("B", "1"), ("B", "2")], levels=("county", "tract")
        ),
        plan=plan,
        constraints=TableConstraints(spine=spine, shape=plan.shape),
        noisy=((), (spine.sum_children(truth, level=2),), (truth,)),
        totals={},
        known={},
    )
    strata = np.zeros(len(units), dtype=np.int64)
    found = place_households(codes, units, strata=strata, members=members, measured=measured, rng=rng)
    assert np.bincount(found).tolist() == [40] * 4
    counts = np.stack([np.bincount(codes["age.1"][found == unit], minlength=2) for unit in range(4)])
    assert np.abs(counts - truth).max() <= 2
