"""Contradictions are found before anything is spent; what is feasible is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from populace.core.errors import PopulaceError, SchemaError
from populace.core.spine import Spine
from populace.inference.hierarchy.table_constraints import (
    ForbiddenCells,
    LowerBound,
    TableConstraints,
    aggregate_needs,
    check_feasible,
)

SPINE = Spine(("all", "county", "tract"), (np.array([0, 0]), np.array([0, 0, 1])))
A, B, BOTH, NONE = ([True, False], [False, True], [True, True], [False, False])


def forbid(level: int, unit: int, cells: list[bool]) -> ForbiddenCells:
    return ForbiddenCells(level=level, unit=unit, cells=np.array(cells))


def bound(level: int, unit: int, cells: list[bool], count: int) -> LowerBound:
    return LowerBound(level=level, unit=unit, cells=np.array(cells), count=count)


def make(**given: Any) -> TableConstraints:
    return TableConstraints(**({"spine": SPINE, "shape": (2,)} | given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"zeros": np.array(BOTH), "exact_levels": (0,)}, "structural zero"),
        ({"forbidden": (forbid(2, 2, BOTH),), "exact_levels": (2,)}, "no cell"),
        ({"forbidden": (forbid(2, 2, BOTH),), "exact_levels": (1,)}, "no cell"),
        ({"forbidden": (forbid(2, 0, BOTH), forbid(1, 1, BOTH)), "exact_levels": (1,)}, "no cell"),
        ({"forbidden": (forbid(2, 2, B),), "zeros": np.array(A), "exact_levels": (2,)}, "no cell"),
        ({"forbidden": (forbid(2, 0, A),), "bounds": (bound(2, 0, A, 1),)}, "cannot have"),
        ({"forbidden": (forbid(1, 0, A),), "bounds": (bound(2, 0, A, 1),)}, "cannot have"),
        ({"forbidden": (forbid(2, 2, A),), "bounds": (bound(1, 1, A, 1),)}, "cannot have"),
        ({"zeros": np.array(A), "bounds": (bound(2, 1, A, 1),)}, "cannot have"),
        ({"bounds": (bound(0, 0, A, 1),), "exact_levels": (1,)}, "above exact totals"),
        ({"exact_levels": (3,)}, "does not exist"),
        ({"zeros": np.array([True])}, "shape"),
        ({"forbidden": (forbid(2, 3, A),)}, "unit"),
        ({"bounds": (bound(3, 0, A, 1),)}, "unit"),
        ({"bounds": (bound(2, 0, [True], 1),)}, "unit"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        check_feasible(make(**given))


def test_lower_bounds_that_overlap_in_part_are_refused() -> None:
    spine = Spine(("all", "unit"), (np.array([0, 0]),))
    first, second = np.array([[1, 1], [0, 0]], dtype=bool), np.array([[1, 0], [1, 0]], dtype=bool)
    bounds = tuple(LowerBound(level=1, unit=0, cells=cells, count=1) for cells in (first, second))
    with pytest.raises(SchemaError, match="overlap"):
        check_feasible(TableConstraints(spine=spine, shape=(2, 2), bounds=bounds))
    apart = (bounds[0], LowerBound(level=1, unit=1, cells=second, count=1))
    check_feasible(TableConstraints(spine=spine, shape=(2, 2), bounds=apart))


@pytest.mark.parametrize(
    ("given", "totals", "words"),
    [
        ({"exact_levels": (1,)}, {1: np.array([1])}, "each unit"),
        ({"exact_levels": (1,)}, {1: np.array([1, -1])}, "negative"),
        ({"exact_levels": (1,)}, {}, "other levels"),
        ({"exact_levels": (0, 1)}, {0: np.array([4]), 1: np.array([1, 2])}, "sums"),
        (
            {"exact_levels": (1,), "bounds": (bound(2, 0, A, 2), bound(2, 1, B, 2))},
            {1: np.array([3, 9])},
            "of 4 together, above its exact total of 3",
        ),
    ],
)
def test_totals_that_do_not_fit_are_refused(
    given: dict[str, Any], totals: dict[int, Any], words: str
) -> None:
    check_feasible(make(**given))
    with pytest.raises(PopulaceError, match=words):
        check_feasible(make(**given), totals=totals)


def test_what_is_feasible_is_accepted() -> None:
    check_feasible(make(zeros=np.array(BOTH)))
    check_feasible(make(forbidden=(forbid(2, 2, BOTH),), exact_levels=(0,)))
    check_feasible(make(bounds=(bound(2, 0, NONE, 0), bound(0, 0, A, 0)), exact_levels=(2,)))
    given = {"exact_levels": (1,), "bounds": (bound(2, 0, A, 2), bound(2, 1, B, 2))}
    check_feasible(make(**given), totals={1: np.array([4, 0])})


def test_needs_add_up() -> None:
    """Tract 0 may only have A and needs 2 of them; tract 1 needs 3 of B; the exact county has 9."""
    constraints = make(
        forbidden=(forbid(2, 0, B), forbid(2, 2, B)),
        bounds=(bound(2, 0, A, 2), bound(2, 1, B, 3), bound(1, 0, BOTH, 6), bound(1, 0, A, 1)),
        exact_levels=(1,),
    )
    needs = aggregate_needs(constraints, totals={1: np.array([9, 4])})
    county = {demand.cells.tobytes(): demand.count for demand in needs[1][0].demands}
    assert county == {np.array(cells).tobytes(): n for cells, n in ((A, 2), (B, 3), (BOTH, 1))}
    # The second county is one tract without B: all 4 must be A, which the root must have besides.
    assert needs[1][1].allowed.tolist() == A
    root = {demand.cells.tobytes(): demand.count for demand in needs[0][0].demands}
    assert root == {np.array(cells).tobytes(): n for cells, n in ((A, 6), (B, 3), (BOTH, 1))}
    assert needs[0][0].allowed.tolist() == BOTH
    assert needs[0][0].least == 10


def test_a_lower_bound_counts_in_larger_sets() -> None:
    constraints = make(bounds=(bound(2, 0, BOTH, 5), bound(1, 0, A, 3)))
    needs = aggregate_needs(constraints, totals=None)
    county = {demand.cells.tobytes(): demand.count for demand in needs[1][0].demands}
    assert county == {np.array(cells).tobytes(): n for cells, n in ((A, 3), (BOTH, 2))}
