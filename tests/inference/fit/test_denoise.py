"""Cleaning of noisy tables, on tables whose truth is known."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from populace.inference.fit import denoise as module
from populace.inference.fit.denoise import denoise
from populace.inference.fit.projection import project_to_simplex
from tests.helpers.sampled_cases import sample_cases

ROWS = 40_000


def independent(table):
    """The table's columns as if they had nothing to do with each other."""
    found = table.sum()
    for axis in range(table.ndim):
        others = tuple(i for i in range(table.ndim) if i != axis)
        found = found * (table.sum(axis=others, keepdims=True) / table.sum())
    return found


def no_pattern(rng, shape):
    return ROWS * math.prod(np.ix_(*(rng.dirichlet(np.ones(size)) for size in shape)), start=np.ones(1))


def one_pattern(rng, shape):
    """Log-linear in one score of the rows and one of the columns: nearly of rank one beside independence."""
    tilt = np.multiply.outer(*(rng.normal(size=size) for size in shape))
    table = no_pattern(rng, shape) * np.exp(0.7 * tilt)
    return ROWS * table / table.sum()


def nearly_function(rng, shape):
    """Nine rows of ten lie in one column that follows from the row."""
    table = 0.1 * no_pattern(rng, shape)
    place = np.arange(shape[0]) * shape[1] // shape[0]
    table[np.arange(shape[0]), place] += 0.9 * ROWS * rng.dirichlet(np.ones(shape[0]))
    return table


def cleaned(table, noisy, *, deviation, seed=0, allowed=None):
    return denoise(
        noisy,
        baseline=independent(table),
        deviation=deviation,
        allowed=allowed,
        rng=np.random.default_rng(seed),
    )


def alone(estimator, table, noisy, *, deviation):
    """What one estimator says of the whole evidence."""
    beside = independent(table)
    given = module._NoisyTable(
        baseline=beside,
        residual=module.centre(noisy - beside),
        deviation=deviation,
        total=float(beside.sum()),
        free=math.prod(size - 1 for size in table.shape),
    )
    return estimator(given)


@cache
def errors(make, *, deviation, shape=(20, 15), tables=20):
    """Return mean squared errors per cell, in variances of the noise: all of it, norm-sub, each estimator alone."""
    rng = np.random.default_rng(7)
    found = []
    for seed in range(tables):
        table = make(rng, shape)
        noisy = table + rng.normal(0, deviation, shape)
        guesses = [
            cleaned(table, noisy, deviation=deviation, seed=seed),
            project_to_simplex(noisy, total=float(table.sum())),
            *(alone(each, table, noisy, deviation=deviation) for each in module._ESTIMATORS),
        ]
        found.append([((guess - table) ** 2).mean() / deviation**2 for guess in guesses])
    together, raw, *each = np.mean(found, axis=0)
    return together, raw, np.array(each)


SHAPES = [
    (1, 5),
    (2, 2),
    (2, 7),
    (6, 2),
    (3, 3),
    (8, 5),
    (25, 40),
    (2, 2, 2),
    (3, 4, 5),
    (1, 3, 4),
    (3, 2, 2, 3),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("deviation", [1e-6, 1.0, 50.0, 1e7])
def test_cleaned_tables_are_counts_of_as_many_rows(shape, deviation):
    rng = np.random.default_rng([*shape, round(deviation)])
    for _ in range(3):
        beside = no_pattern(rng, shape) * rng.gamma(0.5, size=shape)
        noisy = beside + rng.normal(0, max(deviation, 100.0), shape)
        kept = beside.copy(), noisy.copy()
        found = denoise(noisy, baseline=beside, deviation=deviation, rng=rng)
        assert found.shape == shape
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(beside.sum(), rel=1e-9)
        np.testing.assert_array_equal(beside, kept[0])
        np.testing.assert_array_equal(noisy, kept[1])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("deviation", [1e-6, 30.0, 1e5])
def test_forbidden_cells_stay_empty(shape, deviation):
    rng = np.random.default_rng([*shape, round(deviation), 1])
    for _ in range(3):
        allowed = rng.random(shape) < 0.6
        allowed.flat[0] = True
        beside = np.where(allowed, no_pattern(rng, shape), 0.0)
        noisy = beside + rng.normal(0, 100.0, shape)
        found = denoise(noisy, baseline=beside, deviation=deviation, allowed=allowed, rng=rng)
        assert (found[~allowed] == 0).all()
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(beside.sum(), rel=1e-9)


def test_noise_in_forbidden_cells_says_nothing():
    rng = np.random.default_rng(2)
    allowed = np.tri(9, dtype=bool)
    beside = np.where(allowed, no_pattern(rng, (9, 9)), 0.0)
    noisy = beside + rng.normal(0, 30.0, (9, 9))
    options = {"baseline": beside, "deviation": 30.0, "allowed": allowed}
    found = denoise(noisy, **options, rng=np.random.default_rng(1))
    other = denoise(np.where(allowed, noisy, 1e6), **options, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(found, other)


def test_one_seed_gives_one_table():
    rng = np.random.default_rng(3)
    table = one_pattern(rng, (12, 9))
    noisy = table + rng.normal(0, 60.0, table.shape)
    first, again, other = (cleaned(table, noisy, deviation=60.0, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("shape", [(2, 9), (5, 7), (20, 15), (3, 4, 5)])
def test_only_what_lies_beyond_the_margins_counts(shape):
    """Rows, columns and, with three columns, pairs are known better from elsewhere."""
    rng = np.random.default_rng([*shape, 4])
    table = no_pattern(rng, shape) * rng.gamma(1.0, size=shape)
    noisy = table + rng.normal(0, 40.0, shape)
    found = cleaned(table, noisy, deviation=40.0)
    for axis in range(len(shape)):
        shifted = noisy + 500.0 * rng.normal(size=shape).mean(axis=axis, keepdims=True)
        np.testing.assert_allclose(cleaned(table, shifted, deviation=40.0), found, atol=1e-6)


@pytest.mark.parametrize("deviation", [1.0, 10.0, 100.0, 1000.0])
def test_noise_alone_leaves_the_baseline(deviation):
    together, raw, _ = errors(no_pattern, deviation=deviation)
    assert together < 0.02
    assert raw > 5 * together


@pytest.mark.parametrize("deviation", [10.0, 30.0, 100.0])
def test_one_strong_pattern_is_kept_with_a_third_of_the_noise(deviation):
    together, raw, _ = errors(one_pattern, deviation=deviation)
    assert together < 0.4 * raw


@pytest.mark.parametrize(("deviation", "part"), [(30.0, 0.75), (100.0, 0.4)])
def test_near_functions_need_more_than_low_rank(deviation, part):
    together, raw, each = errors(nearly_function, deviation=deviation)
    assert together < part * each[0]
    assert together < raw


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [no_pattern, one_pattern, nearly_function])
@pytest.mark.parametrize("deviation", [1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("shape", [pytest.param((20, 15), marks=pytest.mark.slow), (6, 8)])
def test_never_much_worse_than_the_best_estimator(make, deviation, shape):
    """The price of choosing is at most the temperature × log(1 / prior) (Dai, Rigollet and Zhang 2012, theorem 3.1)."""
    together, _, each = errors(make, deviation=deviation, shape=shape)
    price = module._TEMPERATURE * (1 + 1 / module._SPLIT_RATIO**2) * math.log(10) / math.prod(shape)
    assert together < 1.05 * each.min() + price


def test_shrinking_by_hand():
    """2 × 3: the residual ±(10, −4, −6) has square 304 and 2 degrees of freedom; variance 38 takes a quarter of it."""
    residual = np.array([[10.0, -4.0, -6.0], [-10.0, 4.0, 6.0]])
    beside = np.full((2, 3), 50.0)
    found = denoise(
        beside + residual, baseline=beside, deviation=math.sqrt(38.0), rng=np.random.default_rng(0)
    )
    np.testing.assert_allclose(found, beside + 0.75 * residual, atol=1e-9)
    lost = denoise(beside + residual, baseline=beside, deviation=13.0, rng=np.random.default_rng(0))
    np.testing.assert_allclose(lost, beside, atol=1e-9)


@pytest.mark.parametrize("shape", [(2, 12), (12, 2), (2, 3, 2)])
def test_small_tables_are_shrunk_towards_the_baseline(shape):
    """James and Stein: far better than the raw residual where there is nothing, no worse where there is much."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(60):
        beside = np.full(shape, 1000.0)
        signal = module.centre(rng.normal(0, 200.0, shape))
        for truth in (beside, beside + signal):
            noisy = truth + rng.normal(0, 20.0, shape)
            guess = denoise(noisy, baseline=beside, deviation=20.0, rng=rng)
            raw = beside + module.centre(noisy - beside)
            found.append([((guess - truth) ** 2).sum(), ((raw - truth) ** 2).sum()])
    nothing, much = np.array(found)[0::2].mean(axis=0), np.array(found)[1::2].mean(axis=0)
    assert nothing[0] < 0.6 * nothing[1]
    assert much[0] < 1.02 * much[1]


def test_three_columns_keep_what_only_three_columns_show():
    """A parity: no pair of columns shows it. It is far above the noise, so it comes back, and cleaner."""
    signs = [np.where(np.arange(size) % 2 == 0, 1.0, -1.0) for size in (4, 6, 4)]
    parity = 300.0 * np.multiply.outer(np.multiply.outer(signs[0], signs[1]), signs[2])
    truth = np.full(parity.shape, 500.0) + parity
    rng = np.random.default_rng(6)
    found = []
    for seed in range(10):
        noisy = truth + rng.normal(0, 40.0, truth.shape)
        guess = cleaned(truth, noisy, deviation=40.0, seed=seed)
        raw = project_to_simplex(noisy, total=float(truth.sum()))
        found.append([((guess - truth) ** 2).mean(), ((raw - truth) ** 2).mean()])
    guess, raw = np.mean(found, axis=0)
    assert guess < 0.4 * raw


def test_no_rows_stay_no_rows():
    nothing = np.zeros((4, 5))
    found = denoise(np.ones((4, 5)), baseline=nothing, deviation=2.0, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found, nothing)


@pytest.mark.parametrize(("shape", "part"), [((2, 6), 0.7), ((12, 10), 0.3)])
def test_huge_noise_leaves_most_of_the_baseline(shape, part):
    """Small tables keep less: shrinking as a whole lets noise pass where there happens to be more than is usual."""
    rng = np.random.default_rng(8)
    moved, raw = [], []
    for seed in range(40):
        table = no_pattern(rng, shape)
        noisy = table + rng.normal(0, 1e9, shape)
        moved.append(np.abs(cleaned(table, noisy, deviation=1e9, seed=seed) - table).sum())
        raw.append(np.abs(project_to_simplex(noisy, total=float(table.sum())) - table).sum())
    assert np.mean(moved) < part * np.mean(raw)


@pytest.mark.parametrize("shape", [(2, 6), (12, 10), (3, 4, 5)])
def test_next_to_no_noise_leaves_the_values(shape):
    rng = np.random.default_rng(9)
    table = no_pattern(rng, shape) * rng.gamma(1.0, size=shape) + 5.0
    # The margins of all pairs are known, so that three columns come back whole too.
    beside = table - module.centre(rng.normal(0, 1.0, shape))
    found = denoise(table, baseline=beside, deviation=1e-6, rng=rng)
    np.testing.assert_allclose(found, table, atol=1e-3)


def test_singular_values_shrink_by_the_closed_formula():
    """Optimal for the Frobenius norm: y → √((y² − β − 1)² − 4β) / y for y ≥ 1 + √β, in units of σ√n.

    A centred table of 3 × 5 has 2 × 4 degrees of freedom: β is ½, the unit of σ = 3 is 6. By hand, 3 units become
    √54.25 / 3 = 2.4551 and 1.75 become √.44140625 / 1.75 = .3796; 1.7 are below 1 + √½ and vanish.
    """
    for units, kept in ((3.0, 2.45515), (1.75, 0.379649), (1.7, 0.0)):
        residual = np.zeros((3, 5))
        residual[0, 0], residual[1, 1] = 6 * 3.0, 6 * units
        wanted = np.zeros((3, 5))
        wanted[0, 0], wanted[1, 1] = 6 * 2.45515, 6 * kept
        np.testing.assert_allclose(module._shrink_singular_values(residual, deviation=3.0), wanted, atol=1e-4)
        np.testing.assert_allclose(
            module._shrink_singular_values(residual.T, deviation=3.0), wanted.T, atol=1e-4
        )


@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_no_other_shrinkage_does_better(factor):
    rng = np.random.default_rng(10)
    lost = []
    for _ in range(20):
        left, right = rng.normal(size=41), rng.normal(size=31)
        truth = module.centre(3.0 * np.outer(left, right) / 41**0.5)
        found = module._shrink_singular_values(
            module.centre(truth + rng.normal(size=truth.shape)), deviation=1.0
        )
        lost.append([((found - truth) ** 2).sum(), ((factor * found - truth) ** 2).sum()])
    best, other = np.mean(lost, axis=0)
    assert best < other


def test_noise_alone_has_no_pattern():
    rng = np.random.default_rng(11)
    kept = sum(
        bool(module._shrink_singular_values(module.centre(rng.normal(size=(40, 30))), deviation=1.0).any())
        for _ in range(40)
    )
    assert kept <= 12


def test_cells_that_stand_out_are_taken_as_they_are():
    """Four cells of ±5σ are kept, of ±3.9σ they are not; a pattern elsewhere is shrunk as if they were not there."""
    beside = np.full((12, 12), 1000.0)
    pattern = np.zeros((12, 12))
    pattern[4:8, 4:8], pattern[8:, 4:8], pattern[4:8, 8:], pattern[8:, 8:] = 30.0, -30.0, -30.0, 30.0
    for size, kept in ((50.0, True), (39.0, False)):
        cells = np.zeros((12, 12))
        cells[:2, :2] = [[size, -size], [-size, size]]
        for rest in (np.zeros((12, 12)), pattern):
            found = alone(module._keep_outliers, beside, beside + cells + rest, deviation=10.0)
            shrunk = module._shrink_singular_values(rest if kept else rest + cells, deviation=10.0)
            np.testing.assert_allclose(found, beside + (cells if kept else 0.0) + shrunk, atol=1e-9)


def test_the_judge_has_not_seen_what_the_estimators_saw(monkeypatch):
    """Residual ± noise: 1.25 and 5 times the variance, and no covariance, so that their difference has 6.25 times.

    Each mean square has a relative deviation of √(2 / (266 · 60)) = 1.1 %; 5 % both ways raise fewer than one
    false alarm in 10⁵ sets of seeds. A split of which the halves were dependent would show 1.25 + 5 ± 2 · covariance.
    """
    shown = []

    def known(given):
        return given.baseline

    def linear(given):
        assert given.deviation == pytest.approx(3.0 * math.sqrt(1.25))
        shown.append((given.residual**2).sum() / given.free)
        return given.baseline + given.residual

    def spy(products, *, temperature):
        assert temperature == pytest.approx(4 * 5 * 9.0)
        shown.extend((np.diag(products) / (19 * 14)).tolist())
        return np.array([1.0, 0.0])

    monkeypatch.setattr(module, "_ESTIMATORS", (known, linear))
    monkeypatch.setattr(module, "_aggregation_weights", spy)
    rng = np.random.default_rng(12)
    table = no_pattern(rng, (20, 15))
    for seed in range(60):
        cleaned(table, table + rng.normal(0, 3.0, table.shape), deviation=3.0, seed=seed)
    seen, unseen, apart = np.reshape(shown, (60, 3)).mean(axis=0) / 9.0
    assert seen == pytest.approx(1.25, rel=0.05)
    assert unseen == pytest.approx(5.0, rel=0.05)
    assert apart == pytest.approx(6.25, rel=0.05)


@pytest.mark.parametrize("seed", sample_cases(range(10), to=5))
def test_weights_minimise_what_they_should(seed):
    """At the minimum, slope + temperature × log(weight / prior) is the same for all."""
    rng = np.random.default_rng(seed)
    missed = rng.normal(size=(6, 40)) * rng.uniform(0.2, 2.0, (6, 1))
    products, temperature = missed @ missed.T, 20.0
    found = module._aggregation_weights(products, temperature=temperature)
    assert found.sum() == pytest.approx(1.0)
    level = products @ found + 0.5 * np.diag(products) + temperature * np.log(found / module._PRIOR)
    assert np.ptp(level) < 1e-6 * temperature


def test_tables_are_seen_as_square_as_they_can_be():
    shapes = {(7, 9): (7, 9), (2, 3, 4): (6, 4), (30, 2, 3): (30, 6), (2, 2, 2, 2): (4, 4)}
    assert {shape: module._matrix_shape(shape) for shape in shapes} == shapes
