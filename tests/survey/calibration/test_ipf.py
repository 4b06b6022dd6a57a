"""Raking a noisy table to public totals: what is met, what is joined, and what is refused before anything is spent."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.inference.fit.raking import max_raking_error, rake
from populace.survey.calibration.ipf import TableTotals, _merge_small_cells, rake_noisy_table

ROWS, COLUMNS = np.array([400.0, 250.0, 350.0]), np.array([600.0, 400.0])


def test_totals_are_met_and_the_odds_of_the_sample_are_kept():
    totals = TableTotals.of([ROWS, COLUMNS])
    noisy = np.array([[30.0, 5.0], [12.0, 20.0], [4.0, 31.0]])
    found = rake_noisy_table(noisy, totals=totals)
    assert max_raking_error(found.populations, totals.targets) < 1e-6
    assert found.bins.ravel().tolist() == list(range(6))
    assert found.sample.tolist() == noisy.ravel().tolist()

    def odds(table):
        return table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])

    assert odds(found.populations) == pytest.approx(odds(noisy), rel=1e-8)
    # So weights are a factor of the row times a factor of the column.
    assert odds(found.weights.reshape(3, 2)) == pytest.approx(1, rel=1e-8)


def test_totals_of_three_columns():
    totals = TableTotals.of([np.array([30.0, 70.0]), np.array([45.0, 55.0]), np.array([40.0, 60.0])])
    noisy = np.random.default_rng(1).integers(1, 30, size=(2, 2, 2))
    assert max_raking_error(rake_noisy_table(noisy, totals=totals).populations, totals.targets) < 1e-7


def test_cells_below_are_joined_with_the_smallest_that_helps():
    totals = TableTotals.of([ROWS, COLUMNS])
    noisy = np.array([[30.0, 5.0], [12.0, -3.0], [4.0, 31.0]])
    found = rake_noisy_table(noisy, totals=totals, ordered=(True, False))
    # Beside the cell of −3 lie 5, 12 and 31, and 5 is enough.
    assert found.bins.tolist() == [[0, 1], [2, 1], [3, 4]]
    assert found.sample.tolist() == [30, 2, 12, 4, 31]
    assert max_raking_error(found.populations, totals.targets) < 1e-6
    assert found.populations.min() > 0
    assert found.totals.sum() == pytest.approx(1000)
    # With more to reach, 5 does not do any more, and the joined cells are split as the totals have it.
    found = rake_noisy_table(noisy, totals=totals, ordered=(True, False), least=4.5)
    assert found.sample.min() > 4.5
    assert (
        rake_noisy_table(noisy, totals=totals, ordered=(True, False), least=4.5).bins.tolist()
        == found.bins.tolist()
    )


def test_neighbours_of_ordered_axes_are_next_to_each_other():
    totals = TableTotals.of([np.array([10.0, 10.0, 10.0, 10.0])])
    noisy = np.array([-2.0, 9.0, 8.0, 4.0])
    assert rake_noisy_table(noisy, totals=totals, ordered=(True,)).bins.tolist() == [0, 0, 1, 2]
    assert rake_noisy_table(noisy, totals=totals).bins.tolist() == [0, 1, 2, 0]


def test_impossible_cells_stay_empty_whatever_noise_says():
    possible = np.array([[True, False], [True, True], [True, True]])
    totals = TableTotals.of([ROWS, COLUMNS], possible=possible)
    noisy = np.array([[30.0, 50.0], [12.0, 9.0], [4.0, 31.0]])
    found = rake_noisy_table(noisy, totals=totals, ordered=(True, True))
    assert found.populations[0, 1] == 0
    assert found.sample.sum() == pytest.approx(86), (
        "what noise put into an impossible cell counts for nothing"
    )
    assert max_raking_error(found.populations, totals.targets) < 1e-6
    assert found.totals.min() > 0
    # A total of 0 makes its cells impossible too.
    nobody = TableTotals.of([np.array([5.0, 0.0, 5.0])])
    assert not nobody.possible[1]
    assert rake_noisy_table(np.array([3.0, 8.0, 4.0]), totals=nobody).populations.tolist() == pytest.approx(
        [5, 0, 5]
    )


def test_where_noise_left_nothing_the_totals_are_all_there_is():
    totals = TableTotals.of([ROWS, COLUMNS])
    found = rake_noisy_table(np.full((3, 2), -4), totals=totals)
    assert len(found.sample) == 1
    assert found.populations == pytest.approx(totals.expected)


@pytest.mark.parametrize(
    ("totals", "message"),
    [
        ([ROWS, np.array([600.0, 401.0])], "contradict"),
        ([ROWS, COLUMNS, np.array([600.0, 399.0])], "contradict"),
        ([np.array([1.0, -2.0, 3.0])], "below 0"),
        ([np.array([1.0, np.nan, 3.0])], "below 0"),
        ([np.zeros(3)], "below 0"),
    ],
)
def test_totals_that_contradict_are_refused(totals, message):
    with pytest.raises(UsageError, match=message):
        TableTotals.of(totals)


def test_totals_that_impossible_cells_contradict_are_refused():
    # Everybody of the first row would have to be in a column that is too small for them.
    possible = np.array([[False, True], [True, True], [True, True]])
    with pytest.raises(UsageError, match="cannot be met"):
        TableTotals.of([np.array([500.0, 250.0, 250.0]), COLUMNS], possible=possible)
    with pytest.raises(UsageError, match="cannot be met"):
        TableTotals.of([ROWS, COLUMNS], possible=np.array([[False, False], [True, True], [True, True]]))


def test_raking_stops_when_nothing_moves():
    table, targets = np.arange(1.0, 7.0).reshape(3, 2), [((0,), ROWS), ((1,), COLUMNS)]
    assert rake(table, targets, rounds=3) != pytest.approx(rake(table, targets, rounds=500), abs=1e-9)
    close = rake(table, targets, rounds=500, close=1e-9)
    assert close == pytest.approx(rake(table, targets, rounds=500), abs=1e-7)


def plainly_joined(table, *, possible, ordered, least):
    """Which cells share a bin, by looking at all of them anew after every step."""
    bins, held = np.arange(table.size), dict(enumerate(table.ravel().tolist()))
    barren = set(np.flatnonzero(~possible.ravel()).tolist())
    while len(held) > 1 and (low := [p for p, value in held.items() if p in barren or value <= least]):
        lowest = min(low, key=lambda place: (place not in barren, held[place], place))
        near = set()
        for one in np.flatnonzero(bins == lowest):
            for two in range(table.size):
                apart = [
                    (axis, abs(int(a) - int(b)))
                    for axis, (a, b) in enumerate(
                        zip(
                            np.unravel_index(one, table.shape),
                            np.unravel_index(two, table.shape),
                            strict=True,
                        )
                    )
                    if a != b
                ]
                if len(apart) == 1 and (apart[0][1] == 1 or not ordered[apart[0][0]]):
                    near.add(int(bins[two]))
        near -= {lowest}
        near = (near - barren) or near
        enough = [place for place in sorted(near) if held[place] + held[lowest] > least]
        chosen = min(enough, key=held.get) if enough else max(sorted(near), key=held.get)
        bins[bins == lowest] = chosen
        held[chosen] += held.pop(lowest)
        barren.discard(lowest)
    return bins


@pytest.mark.parametrize("seed", range(12))
def test_cells_are_joined_as_if_all_were_looked_at_after_every_step(seed):
    rng = np.random.default_rng(seed)
    shape = [(5, 4), (3, 3, 2), (12,)][seed % 3]
    ordered = tuple(rng.random(len(shape)) < 0.5)
    possible = rng.random(shape) < 0.8
    possible[(0,) * len(shape)] = True
    table = np.where(possible, rng.integers(-3, 12, shape), 0).astype(float)
    targets = [((axis,), rng.uniform(1, 9, length)) for axis, length in enumerate(shape)]
    totals = TableTotals(targets=tuple(targets), possible=possible, expected=possible.astype(float))
    found = _merge_small_cells(table, totals=totals, ordered=ordered, least=2.0)
    plain = plainly_joined(table, possible=possible, ordered=ordered, least=2.0)
    assert (np.equal.outer(found.ravel(), found.ravel()) == np.equal.outer(plain, plain)).all()
