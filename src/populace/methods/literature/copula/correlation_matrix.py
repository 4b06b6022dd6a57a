"""Matrices of noisy correlations: shrunk towards 0 as far as they are noise, and mended to be positive definite."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# No combination of columns is left with less variance than this.
MIN_EIGENVALUE = 0.02
_ROUNDS, _PROJECTIONS, _CLOSE = 200, 30, 1e-4


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
    return _raise_eigenvalues(found)


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


def _raise_eigenvalues(matrix: Floats) -> Floats:
    """Return a matrix with its low eigenvalues raised, scaled to ones on its diagonal."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < MIN_EIGENVALUE:
        matrix = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
    spread = np.sqrt(np.diag(matrix))
    matrix = matrix / np.outer(spread, spread)
    return np.asarray((matrix + matrix.T) / 2)
