"""The bivariate normal law against SciPy, and correlations against tables whose correlation is known."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import multivariate_normal

from populace.methods.literature.copula.correlations import (
    MAX_CORRELATION,
    MIN_EIGENVALUE,
    fit_correlations,
    nearest_correlation_matrix,
    quadrant_probability,
    rectangle_probabilities,
    shrink_correlations,
    unique_variances,
)


def exact(h, k, rho):
    return multivariate_normal.cdf([h, k], cov=[[1, rho], [rho, 1]])


@pytest.mark.parametrize("rho", [-MAX_CORRELATION, -0.9, -0.3, 0.0, 0.5, 0.95, MAX_CORRELATION])
def test_quadrants_are_those_of_scipy(rho):
    cuts = np.array(list(product([-4.0, -1.5, -0.2, 0.0, 0.7, 2.5], repeat=2)))
    found = quadrant_probability(cuts[:, 0], cuts[:, 1], np.full(len(cuts), rho))
    assert np.abs(found - [exact(h, k, rho) for h, k in cuts]).max() < 1e-6


@pytest.mark.parametrize("rho", [-0.8, 0.0, 0.6])
def test_rectangles_fill_the_plane(rho):
    rows, columns = np.array([[-1.0, 0.3]]), np.array([[-0.5, 0.0, 2.0]])
    (table,) = rectangle_probabilities(rows, columns, np.array([rho]))
    assert table.shape == (3, 4)
    assert math.isclose(table.sum(), 1, abs_tol=1e-9)
    assert (table > 0).all()
    middle = exact(0.3, 2.0, rho) - exact(-1.0, 2.0, rho) - exact(0.3, 0.0, rho) + exact(-1.0, 0.0, rho)
    assert math.isclose(table[1, 2], middle, abs_tol=1e-6)


@pytest.mark.parametrize(("h", "k"), [(0.0, 0.0), (1.0, -0.5), (-1.6, -1.2)])
@pytest.mark.parametrize("rho", [-0.7, 0.05, 0.9])
def test_two_by_two_cells_give_the_tetrachoric_correlation(h, k, rho):
    """Found once more by searching for the quadrant of SciPy."""
    table = rectangle_probabilities(np.array([[h]]), np.array([[k]]), np.array([rho]))
    brute = brentq(lambda r: exact(h, k, r) - table[0, 0, 0], -0.99, 0.99, xtol=1e-9)
    (found,), _ = fit_correlations(table, np.array([[h]]), np.array([[k]]))
    assert abs(found - brute) < 1e-4
    assert abs(found - rho) < 1e-4


def test_tables_beyond_reach_end_at_the_ends():
    cut = np.zeros((2, 1))
    tables = np.array([[[0.6, -0.1], [-0.1, 0.6]], [[-0.1, 0.6], [0.6, -0.1]]])
    assert np.allclose(fit_correlations(tables, cut, cut)[0], [MAX_CORRELATION, -MAX_CORRELATION], atol=1e-4)


def test_noise_moves_a_correlation_as_its_information_says():
    """Half the noise, or twice as much, would lie ten deviations away."""
    rows, columns = np.array([[-0.7, 0.1, 1.0]]), np.array([[0.2]])
    (table,) = rectangle_probabilities(rows, columns, np.array([0.4]))
    rng = np.random.default_rng(0)
    noisy = table + rng.normal(0, 0.004, (400, *table.shape))
    found, told = fit_correlations(noisy, np.repeat(rows, 400, axis=0), np.repeat(columns, 400, axis=0))
    assert abs(found.mean() - 0.4) < 0.01
    assert 0.85 < found.std() / (0.004 / math.sqrt(told.mean())) < 1.15


def random_matrix(columns, *, seed):
    """A symmetric matrix with ones on its diagonal that is not positive definite."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-0.9, 0.9, (columns, columns))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1)
    return matrix


@pytest.mark.parametrize("seed", range(5))
def test_mended_matrices_are_correlations_and_near(seed):
    matrix = random_matrix(8, seed=seed)
    assert np.linalg.eigvalsh(matrix)[0] < 0
    found = nearest_correlation_matrix(matrix, weights=np.ones(matrix.shape))
    assert np.linalg.eigvalsh(found)[0] > 0.9 * MIN_EIGENVALUE
    assert np.allclose(np.diag(found), 1)
    assert np.array_equal(found, found.T)
    # Nearer than by raising eigenvalues once.
    values, vectors = np.linalg.eigh(matrix)
    clipped = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
    spread = np.sqrt(np.diag(clipped))
    assert (
        np.linalg.norm(found - matrix) <= np.linalg.norm(clipped / np.outer(spread, spread) - matrix) + 1e-9
    )


def test_a_correlation_matrix_is_left_as_it_is():
    matrix = np.array([[1, 0.5, 0.2], [0.5, 1, -0.3], [0.2, -0.3, 1]])
    assert np.allclose(nearest_correlation_matrix(matrix, weights=np.ones((3, 3))), matrix, atol=1e-9)


def test_what_is_known_well_moves_least():
    matrix = np.array([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]])
    weights = np.ones((3, 3))
    weights[0, 1] = weights[1, 0] = 100
    moved = np.abs(nearest_correlation_matrix(matrix, weights=weights) - matrix)
    assert moved[0, 1] < 0.2 * moved[1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_own_variances_leave_a_semidefinite_matrix_and_no_more_could_go(seed):
    matrix = nearest_correlation_matrix(random_matrix(6, seed=seed), weights=np.ones((6, 6)))
    own = unique_variances(matrix)
    assert (own > 0).all()
    assert abs(np.linalg.eigvalsh(matrix - np.diag(own))[0]) < 1e-8
    assert np.linalg.eigvalsh(matrix - 1.01 * np.diag(own))[0] < -1e-8


def test_noise_alone_shrinks_to_nothing_and_signal_stays():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, 300)
    assert np.abs(shrink_correlations(noise, variance=np.full(300, 0.01))).max() < 0.1
    assert np.allclose(shrink_correlations(noise, variance=np.full(300, 1e-8)), noise, rtol=1e-4)
