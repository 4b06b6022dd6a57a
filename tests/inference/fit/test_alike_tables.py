"""What measured pairs say of those that are alike: odds ratios are shared, single columns and empty cells are not."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.marginals import Grouping
from populace.inference.fit.alike_tables import NoisyPair, SuccessivePairs, pool_alike

ALIKE = {(f"a.{k}", f"b.{k}"): ("a", "b") for k in (1, 2, 3)}


def independent(rows, columns):
    return np.outer(rows, columns) / sum(rows)


def odds(table):
    return table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])


def pool(noisy, baselines, groupings=None):
    return pool_alike(
        noisy,
        alike=ALIKE,
        baseline=baselines.__getitem__,
        groupings=groupings or {},
        rng=np.random.default_rng(0),
    )


def test_a_pair_that_was_not_measured_has_the_odds_ratio_of_the_others() -> None:
    first = np.array([[6000.0, 2000.0], [1000.0, 9000.0]])
    baselines = {
        ("a.1", "b.1"): independent(first.sum(1), first.sum(0)),
        ("a.2", "b.2"): independent([500.0, 1500.0], [800.0, 1200.0]),
        ("a.3", "b.3"): independent([100.0, 20.0], [60.0, 60.0]),
    }
    known = ("a.1", "b.1")
    found = pool({known: NoisyPair(values=first, variance=1.0, baseline=baselines[known])}, baselines)
    assert list(found) == list(ALIKE)
    for pair, table in found.items():
        for axis in (0, 1):
            assert table.sum(axis) == pytest.approx(baselines[pair].sum(axis), rel=1e-3)
        # A fiftieth of independence is mixed in.
        assert 0.7 * odds(first) < odds(table) < odds(first)


def test_tables_of_one_kind_are_cleaned_as_one() -> None:
    rng = np.random.default_rng(1)
    shape = np.array([[3, 1, 1], [1, 3, 1], [1, 1, 3]]) / 15
    baselines = {pair: np.full((3, 3), 1000 / 9) for pair in ALIKE}
    noisy = {
        p: NoisyPair(values=1000 * shape + rng.normal(0, 40, (3, 3)), variance=1600.0, baseline=b)
        for p, b in baselines.items()
    }
    found = pool(noisy, baselines)
    errors = [np.abs(found[pair] - 1000 * shape).sum() for pair in ALIKE]
    alone = [np.abs(each.values - 1000 * shape).sum() for each in noisy.values()]
    assert max(errors) < min(alone)


def test_cells_that_cannot_be_filled_stay_empty_and_groups_differ_by_place() -> None:
    first = np.array([[400.0, 100.0], [100.0, 300.0], [0.0, 100.0]])
    baselines = {
        ("a.1", "b.1"): independent(first.sum(1), first.sum(0)),
        ("a.2", "b.2"): np.array([[50.0, 0.0], [0.0, 30.0]]),
        ("a.3", "b.3"): independent([5.0, 5.0, 5.0], [10.0, 5.0]),
    }
    noisy = {("a.1", "b.1"): NoisyPair(values=first, variance=1.0, baseline=baselines["a.1", "b.1"])}
    found = pool(noisy, baselines, {"a.2": Grouping("a.2", (0, 1, 1))})
    assert found["a.2", "b.2"] == pytest.approx(baselines["a.2", "b.2"])
    assert found["a.3", "b.3"].shape == (3, 2)
    assert found["a.3", "b.3"][2, 0] < found["a.3", "b.3"][0, 0]
    assert pool({}, baselines) == {}


def test_a_later_pair_has_the_odds_ratios_of_those_before_it_and_none_of_those_behind() -> None:
    kinds = {("a.1", f"a.{k}"): ("a.1", "a.5") for k in (3, 4, 5)} | {("a.1", "a.2"): ("a.1", "a.2")}
    places = SuccessivePairs(kinds, groupings={})
    third, fourth, fifth, second = kinds
    flat = independent([300.0, 100.0], [200.0, 200.0])
    assert np.array_equal(places.scale(flat, third), flat)
    strong = np.array([[900.0, 100.0], [100.0, 900.0]])
    places.add(strong, third)
    places.add(strong.T[::-1], third)
    scaled = places.scale(flat, fourth)
    assert odds(scaled) > 20
    assert scaled.sum(0) == pytest.approx(flat.sum(0))
    assert scaled.sum(1) == pytest.approx(flat.sum(1), rel=1e-3)
    assert np.array_equal(places.scale(flat, second), flat)
    assert set(places.fill(lambda _: flat)) == {fourth, fifth}
    impossible = np.array([[300.0, 0.0], [50.0, 50.0]])
    assert places.scale(impossible, fifth)[0, 1] == 0
    assert places.sort([fifth, ("x", "y"), third], clique_of=lambda pair: pair) == [("x", "y"), third, fifth]
