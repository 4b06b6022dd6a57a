"""Summaries: hand-computed bias, variance and coverage, and the ε at which noise falls below sampling error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.studies.study_results import to_table
from populace.studies.study_summary import (
    RunSeries,
    bootstrap,
    find_crossover,
    interpolate_crossing,
    list_series,
    summarize_series,
)
from tests.studies.test_study_results import row


def series(estimate, *, epsilon=1.0, truth=10.0, alone=None, low=None, high=None):
    size = len(estimate)
    none = np.full(size, math.nan)
    return RunSeries(
        method="m", epsilon=epsilon, query="q", group="", truth=truth, seeds=np.arange(float(size)),
        estimate=np.array(estimate, dtype=float),
        low=none if low is None else np.array(low, dtype=float),
        high=none if high is None else np.array(high, dtype=float),
        sampling_only=none if alone is None else np.array(alone, dtype=float),
        cpu_seconds=np.ones(size), peak_mb=np.ones(size),
    )  # fmt: skip


def test_numbers_of_four_runs():
    found = summarize_series(
        series(
            [9, 12, 13, math.nan],
            alone=[10, 11, 11, 12],
            low=[8, 11, 9, math.nan],
            high=[11, 14, 20, math.nan],
        )
    )
    # Errors −1, 2, 3.
    assert found["bias"] == pytest.approx(4 / 3)
    assert found["variance"] == pytest.approx(13 / 3)
    assert found["mse"] == pytest.approx(14 / 3)
    assert found["coverage"] == pytest.approx(2 / 3)
    assert (found["runs"], found["suppressed"]) == (4, 1)
    assert found["privacy_error"] == pytest.approx(math.sqrt((1 + 1 + 4) / 3))
    assert found["sampling_error"] == pytest.approx(math.sqrt(2 / 3))
    assert found["asymmetry"] == pytest.approx((13 - 1) / 14)


def test_nothing_known_is_none():
    found = summarize_series(series([math.nan, math.nan]))
    assert found["bias"] is found["coverage"] is found["privacy_error"] is found["asymmetry"] is None


def test_monte_carlo_intervals_hold_the_mean_as_often_as_they_say():
    """95 % of 200 intervals of 40 normal runs: between 175 and 200 hold it but once in a million sets."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        _, (low, high) = bootstrap(rng.normal(5, 1, 40), lambda values: values.mean(axis=1))
        held += low <= 5 <= high
    assert 172 <= held <= 199


def test_the_crossing_is_found_on_a_logarithmic_scale():
    """Noise of deviation 1/ε and sampling of deviation 2 cross at ε = 0.5; the interval holds it and is not wide."""
    rng = np.random.default_rng(8)
    alone = 10 + 2 * rng.normal(size=300)
    runs = [
        series(alone + rng.normal(size=300) / epsilon, epsilon=epsilon, alone=alone)
        for epsilon in (0.1, 0.3, 1.0, 3.0)
    ]
    found = find_crossover(runs)
    assert found is not None
    assert found.bound == ""
    assert found.low < 0.5 < found.high
    assert found.high / found.low < 1.5
    assert found.low <= found.epsilon <= found.high


def test_ends_are_bounds():
    alone = np.random.default_rng(1).normal(size=50)
    small = [series(alone + 0.01, epsilon=epsilon, alone=alone) for epsilon in (1.0, 2.0)]
    large = [series(alone + 9.0, epsilon=epsilon, alone=alone) for epsilon in (1.0, 2.0)]
    lost = [series(np.full(50, math.nan), epsilon=1.0, alone=alone), small[1]]
    assert (find_crossover(small).epsilon, find_crossover(small).bound) == (1.0, "at most")
    assert (find_crossover(large).epsilon, find_crossover(large).bound) == (2.0, "above")
    assert (find_crossover(lost).epsilon, find_crossover(lost).bound) == (2.0, "at most")
    assert find_crossover(small[:1]) is None


def test_only_the_last_crossing_counts():
    found, bound = interpolate_crossing(
        np.array([1.0, 10.0, 100.0, 1000.0]), np.array([0.5, 10.0, 0.1, 0.05])
    )
    assert (found, bound) == (pytest.approx(10**1.5), "")


def test_rows_become_series_by_method_query_and_epsilon():
    table = to_table([row("b", 1), row("a", 1, 2.0), row("a", 0, 2.0), row("a", 0)])
    found = list_series(table)
    assert [(each.method, each.epsilon, each.seeds.tolist()) for each in found] == [
        ("a", 1.0, [0.0]),
        ("a", 2.0, [0.0, 1.0]),
        ("b", 1.0, [1.0]),
    ]
