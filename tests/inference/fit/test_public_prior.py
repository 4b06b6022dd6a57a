"""What a public column is trusted with: sums done by hand, and the number of rows it is scaled to."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Marginal
from populace.inference.fit.public_prior import shrink_counts_to_public, shrink_to_public
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicMarginals


def test_few_public_rows_say_little_about_many():
    """200 public rows and 20,000 private ones: κ is at least 1 + 20,000/200 = 101.

    A code of 100 public rows is expected 10,000 times, with variance 101 · 20,000 · 101/200 = 1,020,100.
    """
    public = np.array([100, 60, 40])
    expected = np.array([10_000.0, 6_000.0, 4_000.0])
    spread = 101 * 20_000 * (public + 1) / 200
    values, left = shrink_counts_to_public(expected, variance=np.inf, public=public, total=20_000.0)
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(left, spread)
    # Counts that agree with the public shares show no more than the least spread.
    noisy, variance = expected + np.array([300.0, -200.0, -100.0]), 250_000.0
    values, left = shrink_counts_to_public(noisy, variance=variance, public=public, total=20_000.0)
    trust = spread / (spread + variance)
    np.testing.assert_allclose(values, expected + trust * (noisy - expected))
    np.testing.assert_allclose(left, trust * variance)
    assert trust[0] == pytest.approx(0.8032, abs=1e-4)


def test_many_public_rows_leave_little_to_what_was_measured():
    """20,000 public rows and 200 private ones: κ is at least 1.01."""
    public = np.array([15_000, 5_000])
    values, left = shrink_counts_to_public(
        np.array([160.0, 40.0]), variance=900.0, public=public, total=200.0
    )
    spread = 1.01 * 200 * (public + 1) / 20_000
    np.testing.assert_allclose(left, 900 * spread / (spread + 900))
    np.testing.assert_allclose(values, [150 + left[0] / 90, 50 - left[1] / 90])


def test_what_counts_differ_by_is_their_noise_before_it_is_the_public_table():
    """Squares of one variance are noise alone; at five variances, four of them tell of the public table.

    All codes are alike, so κ·s with s = N·(p + 1/n) is what the squares have beyond the noise: 4·1,600 = 6,400 there.
    """
    public, total, variance = np.full(4, 250), 1000.0, 1600.0
    sampled = 1000 * 251 / 1000
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    for distance, spread in ((40.0, 2 * sampled), (40 * 5**0.5, 6400.0)):
        values, left = shrink_counts_to_public(
            250 + distance * signs, variance=variance, public=public, total=total
        )
        trust = spread / (spread + variance)
        np.testing.assert_allclose(left, trust * variance)
        np.testing.assert_allclose(values, 250 + trust * distance * signs)


def test_the_number_of_rows_is_weighed_by_the_noise_of_sums():
    """A sum of 100 cells has 100 times the noise of one cell: 1,000 ± 2 against 2,000 ± 20."""
    items = [
        Measurement(Marginal(("a",)), np.array([600, 400]), Fraction(2)),
        Measurement(Marginal(("b",)), np.full(100, 20), Fraction(4)),
    ]
    total = (1000 / 4 + 2000 / 400) / (1 / 4 + 1 / 400)
    found = shrink_to_public(items, PublicMarginals({("c",): np.array([1, 3])}))
    assert found[:2] == tuple(items)
    assert found[2].marginal == Marginal(("c",))
    np.testing.assert_array_equal(found[2].counts, np.rint([total / 4, 3 * total / 4]))
