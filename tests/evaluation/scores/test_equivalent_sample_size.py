"""The expected distance of a sample against sums over all samples, and the size that is found against known ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.evaluation.scores import equivalent_sample_size as size
from populace.evaluation.scores.marginal_distance import pair_tables, pair_total_variation


@pytest.mark.parametrize("rows", [1, 2, 7, 40])
@pytest.mark.parametrize("share", [0.013, 0.25, 0.5, 0.9])
def test_binomial_deviation_is_the_sum_over_all_counts(rows, share) -> None:
    chances = [math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(rows + 1)]
    expected = sum(abs(k - rows * share) * chance for k, chance in enumerate(chances))
    assert size.binomial_deviation(rows, np.array([share]))[0] == pytest.approx(expected, rel=1e-10)


def test_hypergeometric_deviation_is_the_sum_over_all_samples() -> None:
    rows = 11
    for held in range(rows + 1):
        for sample in range(1, rows + 1):
            expected = sum(
                abs(k - sample * held / rows)
                * math.comb(held, k)
                * math.comb(rows - held, sample - k)
                / math.comb(rows, sample)
                for k in range(max(0, sample - rows + held), min(sample, held) + 1)
            )
            found = size.hypergeometric_deviation(sample, np.array([float(held)]), rows=rows)[0]
            assert found == pytest.approx(expected, abs=1e-12), (held, sample)


def test_large_counts_join_the_normal_distribution_smoothly() -> None:
    share = np.array([0.3])
    below, above = (
        size.binomial_deviation(rows, share)[0] / math.sqrt(rows) for rows in (4_761_000, 4_763_000)
    )
    assert below == pytest.approx(above, rel=1e-6)


def population(rows, seed, columns=5):
    """Rows whose columns depend on one another."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 4, rows)
    names = [f"c{place}" for place in range(columns)]
    codes = {
        name: ((hidden + rng.integers(0, 3, rows)) % (4 + place)).astype(np.uint8)
        for place, name in enumerate(names)
    }
    return codes, Domain({name: 4 + place for place, name in enumerate(names)})


def score(real, domain, drawn):
    cells = size.CellShares.of(
        (table for _, table, _ in pair_tables(real, real, domain)), rows=len(real["c0"])
    )
    distances = list(pair_total_variation(real, drawn, domain).values())
    return size.score_sample_size(real, cells=cells, distance=sum(distances) / len(distances), domain=domain)


def test_the_expected_distance_is_the_mean_over_samples() -> None:
    # 400 samples: their mean is within 4 standard errors of the expectation but for 6 of 100,000 seeds.
    real, domain = population(1000, 1)
    cells = size.CellShares.of((table for _, table, _ in pair_tables(real, real, domain)), rows=1000)
    rng = np.random.default_rng(2)
    for replace, expected in (
        (True, cells.expect_distance(150)),
        (False, cells.expect_distance_without_replacement(150)),
    ):
        means = []
        for _ in range(400):
            places = rng.choice(1000, 150, replace=replace)
            found = pair_total_variation(real, {n: c[places] for n, c in real.items()}, domain)
            means.append(np.mean(list(found.values())))
        assert abs(np.mean(means) - expected) < 4 * np.std(means) / 20


def test_a_copy_is_worth_all_rows_and_a_sample_its_own_size() -> None:
    real, domain = population(2000, 3)
    whole, fraction = score(real, domain, real)
    assert whole.value == size.MAX_SAMPLE
    assert fraction.value == 1.0
    rng = np.random.default_rng(4)
    places = rng.choice(2000, 500, replace=False)
    _, fraction = score(real, domain, {n: c[places] for n, c in real.items()})
    assert fraction.interval[0] < 0.25 < fraction.interval[1]


def test_nothing_in_common_is_worth_a_row() -> None:
    domain = Domain({"c0": 3, "c1": 3})
    real = {name: np.array([0, 0, 1]) for name in domain}
    drawn = {name: np.array([2, 2, 2]) for name in domain}
    assert score(real, domain, drawn)[0].value == 1


@pytest.mark.slow
def test_intervals_hold_the_size_of_samples_with_replacement() -> None:
    # 200 samples, 95 %: fewer than 179 or more than 199 hits have a probability below 0.0002 and 0.004.
    real, domain = population(3000, 5)
    rng = np.random.default_rng(6)
    hits, values = 0, []
    for _ in range(200):
        places = rng.integers(0, 3000, 700)
        found = score(real, domain, {n: c[places] for n, c in real.items()})[0]
        values.append(found.value)
        hits += found.interval[0] <= 700 <= found.interval[1]
    assert 179 <= hits <= 199
    # The mean is within 3 % of the size: sizes differ by about 9 % from sample to sample.
    assert abs(np.mean(values) / 700 - 1) < 0.03
