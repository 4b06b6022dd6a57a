"""Correlations behind tables of a bivariate normal distribution, shrunk as far as they are noise, and their matrix."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from populace.core.array_types import Floats

# Correlations further from 0 are not told apart: tables of so few cells hardly change beyond.
MAX_CORRELATION = 0.98
# Points of the integral over the angle; with twice as many nothing changes in the seventh digit up to MOST.
_NODES = 48
_HALVINGS = 26
# No combination of columns is left with less variance than this.
MIN_EIGENVALUE = 0.02
_ROUNDS, _PROJECTIONS, _CLOSE = 200, 30, 1e-4


def quadrant_probability(first: Floats, second: Floats, correlation: Floats) -> Floats:
    """Return P(X ≤ first, Y ≤ second) for standard normal X and Y of a correlation within ±MOST; arrays broadcast.

    Φ(h)·Φ(k) + 1/2π ∫ exp(−(h² + k² − 2hk·sin θ) / 2cos²θ) dθ from 0 to arcsin ρ, by the rule of Gauss and Legendre.
    Source: Drezner and Wesolowsky 1990.

    >>> quadrant_probability(np.zeros(2), np.zeros(2), np.array([0.0, 0.5])).round(6)
    array([0.25    , 0.333333])
    """
    from scipy.special import ndtr

    h, k, rho = np.broadcast_arrays(first, second, correlation)
    angle = np.arcsin(rho)
    squares, product = h**2 + k**2, 2 * h * k
    found = np.zeros(h.shape)
    for node, weight in _gauss_legendre():
        sine = np.sin(angle * (node + 1) / 2)
        found += weight * np.exp((product * sine - squares) / (2 * (1 - sine**2)))
    return np.asarray(ndtr(h) * ndtr(k) + angle * found / (4 * math.pi))


def rectangle_probabilities(rows: Floats, columns: Floats, correlation: Floats) -> Floats:
    """Return the probabilities of the cells that cuts of both variables make, for many correlations at once.

    `rows` and `columns` hold rising cuts along their last axis; a table has one cell more each way than there are cuts.

    >>> rectangle_probabilities(np.zeros((1, 1)), np.zeros((1, 1)), np.array([0.5])).round(3)
    array([[[0.333, 0.167],
            [0.167, 0.333]]])
    """
    from scipy.special import ndtr

    inner = quadrant_probability(rows[:, :, None], columns[:, None, :], correlation[:, None, None])
    whole = np.zeros((len(inner), rows.shape[1] + 2, columns.shape[1] + 2))
    whole[:, 1:-1, 1:-1] = inner
    whole[:, 1:-1, -1] = ndtr(rows)
    whole[:, -1, 1:-1] = ndtr(columns)
    whole[:, -1, -1] = 1.0
    return np.diff(np.diff(whole, axis=1), axis=2)


def fit_correlations(tables: Floats, rows: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """Return the correlation whose rectangles are nearest to each table, and how much a table tells of it.

    Tables are shares with noise; the distance is that of least squares over their cells, which for two by two cells
    with known sums is the tetrachoric correlation. Halving an interval finds where the distance stops falling.
    Noise of variance v in every cell leaves about v / information in the correlation: the information is the mean of
    (dπ/dρ)², summed over cells, on the way from independence, so that a table within its noise tells little.

    >>> cut = np.zeros((1, 1))
    >>> fit_correlations(np.array([[[0.35, 0.15], [0.15, 0.35]]]), cut, cut)[0].round(3)  # sin(2π(0.35 − 0.25))
    array([0.588])
    """
    low, high = np.full(len(tables), -MAX_CORRELATION), np.full(len(tables), MAX_CORRELATION)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rises = _cell_slopes(rows, columns, middle) * (
            rectangle_probabilities(rows, columns, middle) - tables
        )
        falling = rises.sum(axis=(1, 2)) < 0
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    found = (low + high) / 2
    reached = rectangle_probabilities(rows, columns, found) - rectangle_probabilities(
        rows, columns, np.zeros(len(found))
    )
    far = (reached**2).sum(axis=(1, 2)) / np.maximum(found**2, 1e-12)
    near = (_cell_slopes(rows, columns, np.zeros(len(found))) ** 2).sum(axis=(1, 2))
    return found, np.where(np.abs(found) < 1e-3, near, far)


@cache
def _gauss_legendre() -> tuple[tuple[float, float], ...]:
    """Return the points within ±1 and the weights of the rule of Gauss and Legendre."""
    return tuple(zip(*(each.tolist() for each in np.polynomial.legendre.leggauss(_NODES)), strict=True))


def _cell_slopes(rows: Floats, columns: Floats, correlation: Floats) -> Floats:
    """Return how the cells change with the correlation: dΦ₂/dρ is the density at a corner."""
    h, k, rho = rows[:, :, None], columns[:, None, :], correlation[:, None, None]
    rest = 1 - rho**2
    density = np.exp((2 * rho * h * k - h**2 - k**2) / (2 * rest)) / (2 * math.pi * np.sqrt(rest))
    corners = np.pad(density, ((0, 0), (1, 1), (1, 1)))
    return np.diff(np.diff(corners, axis=1), axis=2)


def shrink_correlations(values: Floats, *, variance: Floats) -> Floats:
    """Return noisy correlations shrunk towards 0, each by its own noise.

    They are taken for draws from a normal distribution around 0, whose variance follows from all of them: the mean of
    what each is expected to be squared, given its noise (expectation and maximisation).

    >>> shrink_correlations(np.array([0.5, -0.5, 0.1, 0.0]), variance=np.array([1e-6, 1e-6, 1.0, 1.0])).round(2)
    array([ 0.5 , -0.5 ,  0.02,  0.  ])
    """
    prior = 1.0
    for _ in range(_ROUNDS):
        kept = prior / (prior + variance)
        prior = max(float(np.mean((kept * values) ** 2 + prior * (1 - kept))), 1e-12)
    return np.asarray(values * prior / (prior + variance))


def nearest_correlation_matrix(matrix: Floats, *, weights: Floats) -> Floats:
    """Return a correlation matrix without eigenvalues below LEAST, near to a symmetric one where it weighs most.

    Steps down the weighted distance, each followed by a projection onto such matrices. A matrix that is one of them is
    returned as it is.
    Source: Higham 2002 for the projection.
    """
    scale = weights / max(float(weights.max(initial=0.0)), 1e-300)
    found = _project_correlation(matrix)
    for _ in range(_ROUNDS):
        last = found
        found = _project_correlation(last + scale * (matrix - last))
        if np.abs(found - last).max() < _CLOSE:
            break
    # Low eigenvalues that are left are raised, and the diagonal is scaled to ones.
    values, vectors = np.linalg.eigh(found)
    if values[0] < MIN_EIGENVALUE:
        found = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
    spread = np.sqrt(np.diag(found))
    found = found / np.outer(spread, spread)
    return np.asarray((found + found.T) / 2)


def unique_variances(matrix: Floats) -> Floats:
    """Return variances that can be taken off the diagonal of a correlation matrix and leave it semidefinite.

    What no other column explains of each, 1 / (R⁻¹)ᵢᵢ, is the most that could be taken off it alone; all are lowered by
    one factor until they can be taken off together.
    """
    inverse = np.linalg.inv(matrix)
    alone = 1 / np.diag(inverse)
    root = np.sqrt(alone)
    return np.asarray(alone / np.linalg.eigvalsh(root[:, None] * inverse * root)[-1])


def _project_correlation(matrix: Floats) -> Floats:
    """Return nearly the nearest matrix with ones on its diagonal and no low eigenvalues."""
    found, correction = matrix.copy(), np.zeros(matrix.shape)
    np.fill_diagonal(found, 1.0)
    for _ in range(_PROJECTIONS):
        values, vectors = np.linalg.eigh(found - correction)
        if values[0] >= MIN_EIGENVALUE * (1 - 1e-3):
            break
        raised = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
        correction = raised - (found - correction)
        found = (raised + raised.T) / 2
        np.fill_diagonal(found, 1.0)
    return found
