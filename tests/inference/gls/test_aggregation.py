"""The weights of aggregated estimators are those of the stated minimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from populace.inference.fit import denoise as module


def cost(weights: np.ndarray, products: np.ndarray, *, temperature: float) -> float:
    """½ ‖Σ w e‖² + ½ Σ w ‖e‖² + temperature × KL(w, prior), in temperatures."""
    away = float((weights * np.log(np.maximum(weights, 1e-300) / module._PRIOR)).sum())
    squares = weights @ products @ weights + weights @ np.diag(products)
    return float(squares) / 2 / temperature + away


@pytest.mark.parametrize("seed", range(8))
def test_weights_minimise_what_they_should(seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(6, 40)) * 10 ** rng.uniform(-1, 1, size=(6, 1)) + rng.normal(size=40)
    products, temperature = errors @ errors.T, 10 ** rng.uniform(-1, 2)
    found = module._aggregation_weights(products, temperature=temperature)
    assert found.sum() == pytest.approx(1)
    assert (found > 0).all()

    def softened(logs: np.ndarray) -> float:
        weights = np.exp(logs - logs.max())
        return cost(weights / weights.sum(), products, temperature=temperature)

    best = min(
        float(minimize(softened, start, method="BFGS").fun)
        for start in (np.log(module._PRIOR), rng.normal(size=6), np.log(found))
    )
    assert cost(found, products, temperature=temperature) <= best + 1e-6 * (1 + abs(best))


@pytest.mark.parametrize(
    ("products", "expected"),
    [
        (np.zeros((6, 6)), module._PRIOR),
        (np.full((6, 6), 1e300), module._PRIOR),
        (np.diag([1e12] * 6), np.full(6, 1 / 6)),
        (np.diag([1e30, 0, *[1e30] * 4]), np.array([0, 1, 0, 0, 0, 0])),
    ],
    ids=["no errors", "equal errors", "independent errors", "one without error"],
)
@pytest.mark.parametrize("temperature", [1.0, 1e-9, 0.0])
def test_weights_at_the_edges(products: np.ndarray, expected: np.ndarray, temperature: float) -> None:
    assert module._aggregation_weights(products, temperature=temperature) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_weights_of_large_tables_with_little_noise(seed: int) -> None:
    """Convex, so the cost is within w·slopes − min slopes of its minimum."""
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(6, 300)) * 10 ** rng.uniform(-2, 0, size=(6, 1)) + rng.normal(size=300)
    products = errors @ errors.T
    temperature = float(np.abs(products).max()) / 10 ** rng.uniform(8, 11)
    found = module._aggregation_weights(products, temperature=temperature)
    scaled = (products - products.min()) / temperature
    slopes = scaled @ found + np.diag(scaled) / 2 + np.log(found / module._PRIOR)
    assert float(found @ slopes - slopes.min()) < 1e-3
