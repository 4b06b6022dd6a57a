"""The compiled loops that clean tables: as near as their NumPy twins, and never led outside their arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from populace._native import kernels
from populace.inference.fit import denoise, projection
from populace.inference.fit.projection import project_to_simplex
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.skipif(not kernels.compiled(), reason="the loops in C were not built")


@pytest.mark.parametrize("seed", sample_cases(range(60), to=20))
def test_projections_are_those_of_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.normal(rng.choice([0, 50, -500]), rng.choice([1, 100, 1e4]), rng.integers(1, 400))
    table = np.round(table) if seed % 3 == 0 else table
    total = float(rng.choice([1e-3, 1.0, 100.0, 1e5]))
    found = project_to_simplex(table, total=total)
    scale = max(total, float(np.abs(table).max()))
    assert np.abs(found - projection._project_by_sorting(table, total=total)).max() < 1e-13 * scale
    assert found.sum() == pytest.approx(total, rel=1e-12)
    # The conditions of the nearest point: one constant for all cells above 0, and not less than it elsewhere.
    given_up = (table - found)[found > 0]
    assert np.ptp(given_up) < 1e-11 * scale
    assert (table[found == 0] <= given_up.min() + 1e-11 * scale).all()


def test_a_table_of_any_shape_and_order_is_projected() -> None:
    table = np.arange(12.0).reshape(3, 4).T
    assert project_to_simplex(table, total=5.0).shape == (4, 3)
    assert np.allclose(project_to_simplex(table, total=5.0), projection._project_by_sorting(table, total=5.0))
    assert not project_to_simplex(table, total=0.0).any()
    assert project_to_simplex(np.zeros((0, 3)), total=1.0).shape == (0, 3)


@pytest.mark.parametrize("seed", sample_cases(range(60), to=20))
def test_weights_are_those_of_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.normal(0, 1, (6, rng.integers(2, 60))) * rng.choice([0.1, 1, 10, 1000], (6, 1))
    products = errors @ errors.T
    temperature = float(rng.choice([0.01, 1.0, 100.0]))
    found = denoise._aggregation_weights(products, temperature=temperature)
    scaled = products - products.min()
    plain = denoise._newton_weights(scaled / max(temperature, 1e-12 * float(scaled.max())))
    assert found.sum() == pytest.approx(1.0)
    assert np.abs(found - plain).max() < 1e-6


@pytest.mark.parametrize("seed", [1967, *range(40)])
def test_weights_are_never_much_worse_than_the_best_estimator(seed: int) -> None:
    """Errors of any size, beyond what the method can follow included."""
    rng = np.random.default_rng(seed)
    errors = rng.normal(0, 1, (6, rng.integers(1, 60))) * 10.0 ** rng.uniform(-6, 6, (6, 1))
    products = errors @ errors.T
    temperature = float(10.0 ** rng.uniform(-8, 8))
    found = denoise._aggregation_weights(products, temperature=temperature)
    least = float(np.diag(products).min())
    mean = 0.5 * float(found @ products @ found) + 0.5 * float(found @ np.diag(products))
    # To leave the prior for one estimator alone costs ln 10 temperatures at most.
    assert mean <= least + 2.5 * max(temperature, 1e-12 * float(products.max())) + 1e-9 * least


def test_equal_estimators_keep_their_prior() -> None:
    assert np.allclose(denoise._aggregation_weights(np.ones((6, 6)), temperature=1.0), denoise._PRIOR)


def test_wrong_arrays_are_refused() -> None:
    eight, nine, whole = np.zeros(8), np.zeros(9), np.zeros(8, dtype=np.int64)
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    native: Any = kernels._native
    for given, wanted in ((eight, nine), (whole, eight), (eight, whole), (eight, eight), (eight, eight[::2])):
        with pytest.raises(ValueError, match=r"\w"):
            native.project_onto_simplex(given, wanted, 1.0)
    with pytest.raises((ValueError, BufferError)):
        native.project_onto_simplex(eight, frozen, 1.0)
    square, prior, out = np.zeros((6, 6)), np.full(6, 1 / 6), np.zeros(6)
    for first, second, third in (
        (square[:5], prior, out),
        (square[:, :5].copy(), prior, out),
        (square, prior[:5], out),
        (square, out, out),
        (square.astype(np.float32), prior, out),
        (np.zeros((17, 17)), np.ones(17), np.zeros(17)),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            native.weight_estimators(first, second, third, 100, 1e-6)
    with pytest.raises(TypeError):
        native.weight_estimators(square, prior, out)


def test_totals_are_right_where_subtraction_loses_digits() -> None:
    for table, total in (([1e15, 1e15 + 0.5, 1e15 - 1], 1.3), ([3e9 + 0.1, 3e9, 3e9 - 0.7], 1e-3)):
        assert project_to_simplex(np.array(table), total=total).sum() == pytest.approx(total, rel=1e-12)
