"""Weights of bins and the choice among sets of bins: golden numbers, and every tiny sample with all its neighbours."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest
from scipy.special import softmax

from populace.core.errors import UsageError
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.sensitivity.poststratification import (
    Bin,
    Binning,
    binning_score_sensitivity,
    score_binning,
    smooth_weight_bound,
)
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(8)

# ----------------------------------------------------------------------------------------- the running example

POPULATIONS = [100_000] * 5  # ages 0–12, 13–18, 19–39, 40–64, 65+
A = [1300, 100, 1200, 1200, 1200]
B = [1600, 100, 1600, 1600, 100]
STRATEGY = [
    Binning(name="separate", bins=((0,), (1,), (2,), (3,), (4,))),
    Binning(name="minors", bins=((0, 1), (2,), (3,), (4,))),
    Binning(name="adults", bins=((0,), (1,), (2, 3, 4))),
    Binning(name="minors-adults", bins=((0, 1), (2, 3, 4))),
    Binning(name="all", bins=((0, 1, 2, 3, 4),)),
]
HIGHEST = {"A": [1000, 143, 1000, 143, 100], "B": [1000, 1000, 1000, 118, 100]}
CHANCES = {"A": [0.0629, 0.6273, 0.0515, 0.1547, 0.1037], "B": [0.1300, 0.1176, 0.1064, 0.4316, 0.2143]}
ROUNDED = {"A": [0.063, 0.627, 0.052, 0.155, 0.104], "B": [0.130, 0.118, 0.107, 0.430, 0.215]}
EXPECTED = {"A": 1418.7, "B": 2557.6}


def joined_bins(binning, weights, populations, *, largest=1):
    """The bins of a sample from the base weights in each base bin."""
    return [
        Bin(total=total, weights=np.concatenate([weights[base] for base in group]), largest=largest)
        for total, group in zip(binning.totals(populations), binning.bins, strict=True)
    ]


def max_weight_within(bins, *, steps):
    """W_k: the highest weight that anyone has, or could have, k rows away from the sample."""
    return max(each.highest(steps) for each in bins)


def binning_probabilities(scores, *, rate):
    """How likely the exponential mechanism chooses each set of bins: ∝ exp(α·score), which costs ε = 2αΔ."""
    return softmax([float(rate * score) for score in scores])


def sample(name, binning):
    return joined_bins(binning, [np.ones(count) for count in {"A": A, "B": B}[name]], POPULATIONS)


@pytest.fixture(params=["A", "B"])
def name(request):
    return request.param


def test_highest_weights_and_scores(name):
    found = [max_weight_within(sample(name, binning), steps=0) for binning in STRATEGY]
    assert [round(weight) for weight in found] == HIGHEST[name]
    scores = [score_binning(sample(name, binning)) for binning in STRATEGY]
    assert scores == [size / weight for size, weight in zip([5, 4, 3, 2, 1], found, strict=True)]


def test_choice_probabilities(name):
    sensitivity = binning_score_sensitivity(STRATEGY, populations=POPULATIONS)
    assert sensitivity == Fraction("5e-5")
    rate = Fraction("0.01") / (2 * sensitivity)
    assert rate == 100
    scores = [score_binning(sample(name, binning)) for binning in STRATEGY]
    assert binning_probabilities(scores, rate=rate) == pytest.approx(CHANCES[name], abs=5.1e-5)
    rounded = [Fraction(size, weight) for size, weight in zip([5, 4, 3, 2, 1], HIGHEST[name], strict=True)]
    assert binning_probabilities(rounded, rate=rate) == pytest.approx(ROUNDED[name], abs=1.1e-3)
    clear = binning_probabilities(scores, rate=10 * rate)
    assert max(clear) > 0.999
    assert clear.argmax() == scores.index(max(scores))


def test_weights_some_steps_away():
    separate = sample("A", STRATEGY[0])
    for steps in (0, 1, 50, 99):
        assert max_weight_within(separate, steps=steps) == Fraction(100_000, 100 - steps)
    assert max_weight_within(separate, steps=100) == max_weight_within(separate, steps=5000) == 100_000


def test_smooth_weight_of_the_running_example(name):
    scores = [score_binning(sample(name, binning)) for binning in STRATEGY]
    deviations = []
    for binning in STRATEGY:
        bins = sample(name, binning)
        low, high = bounds(lambda bins=bins: smooth_weight_bound(bins, beta=Fraction(1, 6)))
        assert low <= max_weight_within(bins, steps=0) <= high
        assert high - low < Fraction(1, 2**60)
        deviations.append(6 * float(high))  # γ = 4 has variance 1, and the source divides by ε/6
    expected = np.dot(binning_probabilities(scores, rate=Fraction(100)), deviations)
    assert expected == pytest.approx(EXPECTED[name], abs=0.06)


def test_smooth_weight_looks_ahead():
    bins = sample("A", STRATEGY[0])
    beta = Fraction(1, 1000)
    value = float(bounds(lambda: smooth_weight_bound(bins, beta=beta))[1])
    brute = max(math.exp(-k / 1000) * max_weight_within(bins, steps=k) for k in range(1400))
    assert value == pytest.approx(brute, rel=1e-12)
    assert value > 50 * max_weight_within(bins, steps=0)


# ----------------------------------------------------------------------------------------- every tiny sample

# The populations of two bins, and the base weights that rows may have.
WORLDS = {
    "equal": ((12, 20), (1,)),
    "two": ((12, 20), (1, 3)),
    "odd": ((21, 30), (2, 5)),
    "three": ((9, 10), (1, 2, 5)),
}


def bags(weights, most):
    """All multisets of base weights of at most this size."""
    return [bag for size in range(most + 1) for bag in combinations_with_replacement(weights, size)]


def distance(one, other):
    return sum(
        sum(((Counter(a) - Counter(b)) + (Counter(b) - Counter(a))).values())
        for a, b in zip(one, other, strict=True)
    )


@cache
def potential(populations, weights, rows):
    """W₀ by its definition: who is there, who could be added, and empty bins."""
    found = []
    for total, bag in zip(populations, rows, strict=True):
        found += [Fraction(total * weight, sum(bag)) for weight in bag]
        found += [Fraction(total * weight, sum(bag) + weight) for weight in weights]
        found += [] if bag else [Fraction(total)]
    return max(found)


def bins_of(populations, weights, rows):
    return [
        Bin(total=Fraction(n), weights=np.array(bag, dtype=np.int64), largest=max(weights))
        for n, bag in zip(populations, rows, strict=True)
    ]


CASES = [
    (world, rows)
    for world, (_, weights) in WORLDS.items()
    for rows in product(bags(weights, 3), repeat=2)
    if world != "three" or len(rows[0]) + len(rows[1]) <= 3
]


@pytest.mark.parametrize(("world", "rows"), sample_cases(CASES, to=15))
def test_weights_against_all_samples_near(world, rows):
    populations, weights = WORLDS[world]
    near = product(bags(weights, 4), repeat=2)
    reached = Counter()
    for other in near:
        away = distance(rows, other)
        if away <= 4:
            reached[away] = max(reached[away], potential(populations, weights, other))
    bins = bins_of(populations, weights, rows)
    brute = [max(reached[away] for away in range(k + 1)) for k in range(5)]
    assert [max_weight_within(bins, steps=k) for k in range(5)] == brute
    for each in bins:
        exact = [float(each.highest(k)) for k in range(len(each.heights()))]
        assert each.heights() == pytest.approx(exact, rel=1e-12)
    # Every bin is empty after at most 3 steps: later steps do not raise the weight any more.
    for beta in (Fraction(1, 10), Fraction(1, 2), Fraction(2)):
        expected = max(math.exp(-beta * k) * float(brute[k]) for k in range(5))
        low, high = bounds(lambda beta=beta: smooth_weight_bound(bins, beta=beta))
        assert float(low) == pytest.approx(expected, rel=1e-12)
        assert low <= high


def neighbours(rows, weights):
    """All samples with one row more."""
    for place, weight in product(range(len(rows)), weights):
        yield (
            place,
            weight,
            tuple(tuple(sorted((*bag, weight))) if here == place else bag for here, bag in enumerate(rows)),
        )


def furthest(populations, rows, place, weight):
    """How far any weighted count can move when a row comes to a bin: over all ways to say who is counted."""
    total, bag = populations[place], rows[place]
    moved = []
    for counted in product((0, 1), repeat=len(bag) + 1):
        before = sum(w for w, c in zip(bag, counted, strict=False) if c)
        after = before + weight * counted[-1]
        share = Fraction(before, sum(bag)) if bag else Fraction(0)
        moved.append(abs(total * (Fraction(after, sum(bag) + weight) - share)))
    return max(moved)


SMALL = [case for case in CASES if len(case[1][0]) < 3 and len(case[1][1]) < 3]


@pytest.mark.parametrize(("world", "rows"), sample_cases(SMALL, to=15))
def test_smooth_weight_is_smooth_and_bounds_every_count(world, rows):
    populations, weights = WORLDS[world]
    beta = Fraction(1, 3)
    here = bins_of(populations, weights, rows)
    below = float(bounds(lambda: smooth_weight_bound(here, beta=beta))[0])
    for place, weight, other in neighbours(rows, weights):
        there = bins_of(populations, weights, other)
        above = float(bounds(lambda there=there: smooth_weight_bound(there, beta=beta))[0])
        assert math.exp(-1 / 3) - 1e-12 <= above / below <= math.exp(1 / 3) + 1e-12
        moved = furthest(populations, rows, place, weight)
        assert moved <= max_weight_within(here, steps=0)
        assert moved <= max_weight_within(there, steps=0)


@pytest.mark.parametrize("world", WORLDS)
def test_scores_move_by_no_more_than_said(world):
    populations, weights = WORLDS[world]
    strategy = [Binning(name="apart", bins=((0,), (1,))), Binning(name="whole", bins=((0, 1),))]
    most = binning_score_sensitivity(strategy, populations=populations)
    moved = Fraction(0)
    for rows in product(bags(weights, 2), repeat=2):
        for _, _, other in neighbours(rows, weights):
            for binning in strategy:
                before, after = (
                    score_binning(
                        joined_bins(
                            binning,
                            [np.array(bag, dtype=np.int64) for bag in each],
                            populations,
                            largest=max(weights),
                        )
                    )
                    for each in (rows, other)
                )
                assert before <= after, "a row that comes lowers no score"
                moved = max(moved, after - before)
    assert moved <= most
    assert moved >= most / 2, "the sensitivity must be of the right size"


def test_the_sensitivity_is_reached():
    # From one respondent in each bin to two in the smallest: 2/10 − … moves by |S|/min N̂ exactly when it is alone.
    alone = Binning(name="whole", bins=((0,),))
    before, after = (score_binning(joined_bins(alone, [np.ones(n)], [10])) for n in (1, 2))
    assert after - before == binning_score_sensitivity([alone], populations=[10])


# ----------------------------------------------------------------------------------------- refusals


def test_equal_base_weights_are_one_case_of_any():
    for count, steps in product(range(6), range(7)):
        same = Bin(total=Fraction(60), weights=np.full(count, 4), largest=4)
        ones = Bin(total=Fraction(60), weights=np.ones(count))
        assert same.highest(steps) == ones.highest(steps) == Fraction(60, max(1, count - steps))


def test_steps_never_lower_a_weight():
    bins = [Bin(total=Fraction(60), weights=np.array([5, 1, 4, 4, 2]), largest=6)]
    found = [max_weight_within(bins, steps=k) for k in range(8)]
    assert all(before <= after for before, after in pairwise(found))


@pytest.mark.parametrize(
    "bins", [(), ((0,), (0, 1)), ((0,), (2,)), ((0, 1), ())], ids=["none", "twice", "gap", "empty"]
)
def test_bins_hold_every_base_bin_once(bins):
    with pytest.raises(UsageError, match="every base bin once"):
        Binning(name="bad", bins=bins)


def test_refusals():
    whole = Binning(name="whole", bins=((0, 1),))
    with pytest.raises(UsageError, match="population"):
        binning_score_sensitivity([Binning(name="apart", bins=((0,), (1,)))], populations=[10, 0])
    with pytest.raises(UsageError, match="below 0"):
        binning_score_sensitivity([whole], populations=[10, -1])
    assert binning_score_sensitivity([whole], populations=[10, 0]) == Fraction(1, 10)
    with pytest.raises(UsageError, match="other base bins"):
        whole.totals([10])
    with pytest.raises(UsageError, match="no set of bins"):
        binning_score_sensitivity([], populations=[10])
    with pytest.raises(UsageError, match="beta"):
        smooth_weight_bound([Bin(total=Fraction(1), weights=np.ones(0))], beta=Fraction(0))
