"""Scores of pairs that are alike learn from each other: nearer to the truth on average, and honest about it."""

from __future__ import annotations

import numpy as np
import pytest

from populace.methods.adaptive.pooled_scores import pool_scores


def test_pooled_scores_err_less_and_as_much_as_they_say() -> None:
    rng = np.random.default_rng(0)
    rows = np.tile([20000.0, 14000.0, 7000.0, 4000.0, 2000.0, 700.0], 60)
    kinds = np.repeat(np.arange(60), 6).tolist()
    rates = np.repeat(rng.gamma(1.0, 0.05, 60), 6) * rng.normal(1.0, 0.3, 360)
    truth, noise = rates * rows, 600.0
    off, said, raw = [], [], []
    for _ in range(20):
        scores = truth + rng.normal(0, noise, 360)
        found, left = pool_scores(scores, np.full(360, noise), rows=rows, kinds=kinds)
        off.append((found - truth) ** 2)
        said.append(left**2)
        raw.append((scores - truth) ** 2)
    assert np.mean(off) < 0.5 * np.mean(raw)
    assert np.mean(said) == pytest.approx(np.mean(off), rel=0.35)


def test_a_score_alone_or_without_noise_stays_as_it_is() -> None:
    scores, rows = np.array([50.0, -20.0, 900.0, 10.0]), np.array([100.0, 100.0, 1000.0, 1000.0])
    found, left = pool_scores(scores, np.full(4, 30.0), rows=rows, kinds=["a", "b", "c", "d"])
    assert found.tolist() == scores.tolist()
    assert left.tolist() == [30.0] * 4
    found, left = pool_scores(scores, np.full(4, 1e-6), rows=rows, kinds=["a", "a", "b", "b"])
    assert found == pytest.approx(scores, abs=1e-6)
    assert left == pytest.approx(np.full(4, 1e-6), rel=1e-3)


def test_rates_that_are_the_same_become_one() -> None:
    found, left = pool_scores(
        np.array([90.0, 22.0]), np.array([10.0, 10.0]), rows=np.array([100.0, 20.0]), kinds=["a", "a"]
    )
    # Rates .9 ± .1 and 1.1 ± .5 do not differ: both are (.9/.01 + 1.1/.25) / (1/.01 + 1/.25).
    rate = (0.9 / 0.01 + 1.1 / 0.25) / (1 / 0.01 + 1 / 0.25)
    assert found == pytest.approx([100 * rate, 20 * rate])
    assert left == pytest.approx(np.array([100, 20]) / np.sqrt(1 / 0.01 + 1 / 0.25))
