"""Combining rules for synthetic tables: arithmetic, refusals, and whether intervals hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.survey.variance.combining_rules import ImplicateOrigin, combine_implicates

pytestmark = pytest.mark.sampled(3)


def test_by_hand():
    found = combine_implicates([1.0, 3.0], [2.0, 4.0], noise=0.5, size=2.0)
    assert (found.estimate, found.within, found.between) == (2.0, 6.0, 2.0)
    assert found.total == pytest.approx(6 + 1 + 0.5)
    assert found.degrees == pytest.approx(7.5**2)
    again = combine_implicates([1.0, 3.0], [2.0, 4.0], origin=ImplicateOrigin.NOISE_AGAIN)
    assert again.total == pytest.approx(3 + 1.5 * 2)
    assert again.degrees == pytest.approx((6 / 3) ** 2)
    assert again.error == pytest.approx(math.sqrt(6))


def test_one_table_has_nothing_between():
    found = combine_implicates([5.0], [4.0], noise=5.0)
    assert (found.total, found.degrees) == (9.0, math.inf)
    low, high = found.interval
    assert (high - low) / 2 == pytest.approx(1.96 * 3, rel=1e-3)


@pytest.mark.parametrize(
    ("estimates", "variances", "words"),
    [
        ([], [], {}),
        ([1.0], [1.0, 2.0], {}),
        ([1.0], [1.0], {"origin": ImplicateOrigin.NOISE_AGAIN}),
        ([1.0, 2.0], [1.0, -1.0], {}),
        ([1.0, 2.0], [1.0, 1.0], {"noise": -1.0}),
        ([1.0, 2.0], [1.0, 1.0], {"size": 0.0}),
        ([1.0, 2.0], [1.0, 1.0], {"noise": 1.0, "origin": ImplicateOrigin.NOISE_AGAIN}),
    ],
)
def test_refusals(estimates, variances, words):
    with pytest.raises(UsageError):
        combine_implicates(estimates, variances, **words)


@pytest.mark.parametrize("origin", ImplicateOrigin)
def test_intervals_hold_the_truth_and_plain_rules_do_not(origin):
    # A share: a sample, noise on its count, and synthetic tables of as many rows. Seed and size are fixed: the share
    # of 800 runs that hold the truth has a standard error of 0.8 points.
    rng = np.random.default_rng(2026)
    truth, rows, deviation, count, runs = 0.3, 2_000, 25.0, 10, 800
    told = rng.binomial(rows, truth, size=runs) + rng.normal(scale=deviation, size=runs)
    held = plain = 0
    for noisy in told:
        models = np.full(count, noisy)
        if origin is ImplicateOrigin.NOISE_AGAIN:
            models = models + rng.normal(scale=deviation, size=count)
        shares = rng.binomial(rows, np.clip(models / rows, 0, 1)) / rows
        variances = shares * (1 - shares) / rows
        noise = (deviation / rows) ** 2 if origin is ImplicateOrigin.ONE_MODEL else 0.0
        low, high = combine_implicates(shares, variances, origin=origin, noise=noise).interval
        held += low <= truth <= high
        low, high = combine_implicates(shares, variances).interval
        plain += low <= truth <= high
    # Noise that is added again comes with the drawing of rows, which makes its intervals a little too wide.
    assert 0.925 < held / runs < (0.975 if origin is ImplicateOrigin.ONE_MODEL else 0.995)
    assert plain / runs < 0.9
