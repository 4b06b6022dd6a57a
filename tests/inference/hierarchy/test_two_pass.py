"""Subtree by subtree the estimates are those of the whole tree, in memory that does not grow with the units."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Domain, Marginal
from populace.core.spine import Spine
from populace.inference.hierarchy.hierarchy_estimates import choose_filter, estimate_hierarchy
from populace.inference.hierarchy.hierarchy_plan import (
    HierarchyPlan,
    LevelQueries,
    MeasuredQuery,
    NoisyCounts,
)
from populace.inference.hierarchy.two_pass import Subtree, estimate_subtrees, subtree_below

from .brute_force import DenseProblem, exact_totals, random_plan, random_truth


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["plain", "dense"])
def test_subtrees_give_the_estimates_of_the_whole(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    special = {"has_zeros": True, "has_groupings": True} if kind == "dense" else {}
    plan = random_plan(rng, depth=5, columns=2, has_invariants=seed % 2 == 1, **special)
    truth = random_truth(rng, plan)
    noisy, totals = DenseProblem(plan).simulate(rng, truth=truth), exact_totals(plan, truth)
    whole = estimate_hierarchy(plan, noisy, totals=totals)
    asked: Counter[tuple[int, int]] = Counter()

    def measure(subtree: Subtree) -> NoisyCounts:
        asked[subtree.level, subtree.units[0].start] += 1
        return [[counts[subtree.at(level)] for counts in noisy[level]] for level in subtree.levels]

    for cut in range(plan.spine.depth):
        asked.clear()
        cells = [np.full(level.shape, np.nan) for level in whole.cells]
        for found in estimate_subtrees(choose_filter(plan), measure, cut=cut, totals=totals):
            for level, values in zip(found.subtree.levels, found.cells, strict=True):
                assert np.isnan(cells[level][found.subtree.at(level)]).all()
                cells[level][found.subtree.at(level)] = values
        for one, other in zip(cells, whole.cells, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        if cut:
            units = plan.spine.units(cut)
            assert asked == {(0, 0): 1} | {(cut, unit): 2 for unit in range(units)}
        else:
            assert asked == {(0, 0): 1}


def test_noisy_counts_are_left_as_they_are() -> None:
    rng = np.random.default_rng(0)
    plan = random_plan(rng, depth=3, columns=2)
    noisy = DenseProblem(plan).simulate(rng, truth=random_truth(rng, plan))
    for counts in (counts for level in noisy for counts in level):
        counts.setflags(write=False)
    first = estimate_hierarchy(plan, noisy)
    again = estimate_hierarchy(plan, noisy)
    for one, other in zip(first.cells, again.cells, strict=True):
        np.testing.assert_array_equal(one, other)


def wide_plan(counties: int) -> HierarchyPlan:
    """Return a plan of counties with 40 blocks of 512 cells each."""
    spine = Spine(
        ("all", "county", "block"),
        (np.zeros(counties, dtype=np.int64), np.repeat(np.arange(counties), 40)),
    )
    domain = Domain({"a": 8, "b": 64})
    queries = tuple(
        MeasuredQuery(marginal=Marginal(clique), variance=4.0) for clique in ((), ("a",), ("a", "b"))
    )
    return HierarchyPlan(spine=spine, domain=domain, levels=(LevelQueries(queries=queries),) * 3)


def streaming_peak(counties: int) -> int:
    plan = wide_plan(counties)
    form = choose_filter(plan)

    def measure(subtree: Subtree) -> NoisyCounts:
        return [
            [
                np.ones((subtree.at(level).stop - subtree.at(level).start, *q.marginal.shape(plan.domain)))
                for q in plan.levels[level].queries
            ]
            for level in subtree.levels
        ]

    tracemalloc.start()
    try:
        for found in estimate_subtrees(form, measure, cut=1):
            assert len(found.cells) <= 2
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_blocks() -> None:
    streaming_peak(2)  # Matrices are made once.
    few, many = streaming_peak(5), streaming_peak(50)
    cells = 50 * 40 * 512 * 8
    # Vectors of 45 more counties, a few times over, for 1,800 more blocks.
    assert many - few < 45 * 512 * 8 * 8
    assert many < cells / 2


def test_subtrees_are_units_with_all_below() -> None:
    spine = Spine(("all", "a", "b"), (np.array([0, 0]), np.array([0, 0, 1])))
    detailed = MeasuredQuery(marginal=Marginal(("x",)), variance=1.0)
    plan = HierarchyPlan(
        spine=spine,
        domain=Domain({"x": 2}),
        levels=(LevelQueries(), LevelQueries(), LevelQueries(queries=(detailed,))),
    )
    found = subtree_below(plan, level=1, unit=1)
    assert found == Subtree(level=1, units=(slice(1, 2), slice(2, 3)))
    assert list(found.levels) == [1, 2]
    for cut in (-1, 3):
        with pytest.raises(UsageError, match="below level"):
            estimate_subtrees(choose_filter(plan), lambda subtree: [], cut=cut)
