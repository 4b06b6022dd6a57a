"""Tiny random problems for the estimator, and slow, obviously right ways to solve them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.optimize import nnls

from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.gls.observations import Observation
from populace.measurements.measurements import Measurement


def random_domain(rng: np.random.Generator, *, columns: int = 4, largest: int = 4) -> Domain:
    return Domain({name: int(rng.integers(1, largest + 1)) for name in "abcdefgh"[:columns]})


def random_clique(rng: np.random.Generator, domain: Domain, *, most: int = 3) -> tuple[str, ...]:
    size = int(rng.integers(1, min(most, len(domain)) + 1))
    return tuple(str(name) for name in rng.permutation(list(domain))[:size])


def random_counts(rng: np.random.Generator, domain: Domain, *, rows: int) -> np.ndarray:
    shares = rng.dirichlet(np.full(domain.cells(domain), 0.3))
    return rng.multinomial(rows, shares).reshape(domain.shape(domain))


def margin(joint: np.ndarray, clique: tuple[str, ...], domain: Domain) -> np.ndarray:
    """Sum a joint table down to a clique."""
    kept = [name for name in domain if name in clique]
    axes = tuple(axis for axis, name in enumerate(domain) if name not in clique)
    return joint.sum(axis=axes).transpose([kept.index(name) for name in clique])


def measured(
    rng: np.random.Generator, joint: np.ndarray, marginal: Marginal, domain: Domain, *, deviation: int
) -> Measurement:
    """Measure a joint table with rounded Gaussian noise."""
    table = margin(joint, marginal.clique, domain).astype(float)
    for axis, name in enumerate(marginal.clique):
        grouping = marginal.grouping(name)
        if grouping is not None:
            table = group(table, grouping, axis=axis)
    noisy = np.rint(table + rng.normal(0, deviation, table.shape)).astype(np.int64)
    return Measurement(marginal, noisy, Fraction(deviation**2))


def group(table: np.ndarray, grouping: Grouping, *, axis: int) -> np.ndarray:
    return np.stack(
        [table.take(members, axis=axis).sum(axis=axis) for members in grouping.members], axis=axis
    )


def design(observations: list[Observation], domain: Domain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the matrix from joint cells to observed cells, the observed values and their variances."""
    blocks = [incidence(o.clique, domain) for o in observations]
    values = np.concatenate([o.values.ravel() for o in observations])
    return np.vstack(blocks), values, np.concatenate([o.variance.ravel() for o in observations])


def incidence(clique: tuple[str, ...], domain: Domain) -> np.ndarray:
    cells = np.indices(domain.shape(domain)).reshape(len(domain), -1)
    place = {name: i for i, name in enumerate(domain)}
    number = np.zeros(cells.shape[1], dtype=int)
    for name in clique:
        number = number * domain[name] + cells[place[name]]
    return (number == np.arange(domain.cells(clique))[:, None]).astype(float)


def least_loss(
    observations: list[Observation], domain: Domain, *, total: float, allowed: np.ndarray | None = None
) -> float:
    """Return the smallest loss of any distribution with this total, from non-negative least squares on all cells.

    With shares that sum to 1 the error is M·shares for M = (matrix − values·1ᵀ), so the least loss is the squared norm
    of the point of a polytope nearest to 0; non-negative least squares on M with a row of equal numbers below finds
    a multiple of it (Lawson and Hanson 1974, chapter 23). Its duality gap shows that it is the minimum.
    """
    matrix, values, variance = design(observations, domain)
    if allowed is not None:
        matrix = matrix[:, allowed.ravel()]
    errors = (matrix * total - values[:, None]) / np.sqrt(variance)[:, None]
    scale = max(1.0, float(np.median(np.linalg.norm(errors, axis=0))))
    shares, _ = nnls(
        np.vstack([errors, np.full((1, errors.shape[1]), scale)]),
        np.append(np.zeros(len(errors)), scale),
        maxiter=20_000,
    )
    shares = shares / shares.sum()
    missed = errors @ shares
    slope = errors.T @ missed
    loss = 0.5 * float(missed @ missed)
    assert slope @ shares - slope.min() <= 1e-7 * max(1.0, loss)
    return loss
