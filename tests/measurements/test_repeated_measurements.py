"""Several measurements of one marginal: their mean by precision."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from populace.core.marginals import Grouping, Marginal
from populace.measurements.measurements import Measurement
from populace.measurements.pooled_counts import combine_repeats, group_repeats, mean_counts

A = Marginal(("a",))


def of(counts, variance, *, marginal=A):
    return Measurement(marginal, np.array(counts), Fraction(variance))


def test_the_precise_one_counts_more():
    """(1·10 + 3·14) / 4 = 13 with variance 3/4 where variances are 3 and 1."""
    for order in permutations([of([10, 20], 3), of([14, 20], 1)]):
        found = combine_repeats(order)
        assert found.marginal == A
        assert found.counts.tolist() == [13, 20]
        assert found.variance == Fraction(3, 4)


def test_means_are_rounded_once_and_only_where_rows_are_wanted():
    """Of 0, 0 and 4 with variances 1, 1 and 2 the mean is 0.8; half way it would be 0."""
    same = [of([0], 1), of([0], 1), of([4], 2)]
    assert mean_counts(same)[0] == pytest.approx([0.8])
    assert combine_repeats(same).counts.tolist() == [1]
    assert combine_repeats(same).variance == Fraction(2, 5)


def test_the_order_of_measuring_does_not_matter():
    rng = np.random.default_rng(3)
    same = [of(rng.integers(0, 10**6, 50), 1 + Fraction(number, 7)) for number in range(4)]
    found = [mean_counts(order) for order in permutations(same)]
    assert all(
        mean.tobytes() == found[0][0].tobytes() and variance == found[0][1] for mean, variance in found
    )


def test_one_measurement_stays_as_it_is():
    found = combine_repeats([of([2**53 - 1, -7], "1/3")])
    assert found.counts.tolist() == [2**53 - 1, -7]
    assert found.variance == Fraction(1, 3)


def test_only_the_same_marginal_is_a_repeat():
    grouped = Marginal(("a",), (Grouping("a", (0, 0)),))
    items = [of([1, 2], 1), of([3], 1, marginal=grouped), of([5, 6], 2)]
    assert group_repeats(items) == [[items[0], items[2]], [items[1]]]
