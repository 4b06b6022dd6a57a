"""Propensities: near their expectation for a sample of the same population, far above it for another."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.evaluation.scores.propensity import score_propensity

DOMAIN = Domain({"a": 3, "b": 3, "c": 2, "d": 2})


def rows(count, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, size, count).astype(np.uint8) for name, size in DOMAIN.items()}
    codes["a"][rng.random(count) < shift] = 0
    return codes


def ratio(real, drawn):
    found = score_propensity(real, drawn, ({}, {}), domain=DOMAIN, ordered={})
    return found[1].value


@pytest.mark.slow
def test_the_ratio_is_about_one_for_the_same_population() -> None:
    # The mean of 6 ratios, each of a standard deviation of √(2/k) for k of about 30: within 0.4 but for 1 of 10⁴ seeds.
    found = [ratio(rows(1000, seed), rows(1000, seed + 100)) for seed in range(6)]
    assert abs(np.mean(found) - 1) < 0.4


def test_the_ratio_grows_with_the_difference_and_a_copy_has_none() -> None:
    real = rows(2000, 1)
    assert ratio(real, real) < 1e-6
    assert 1.5 < ratio(real, rows(2000, 2, shift=0.1)) < ratio(real, rows(2000, 2, shift=0.4))
