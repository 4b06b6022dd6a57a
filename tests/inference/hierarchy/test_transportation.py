"""Two-way tables: sums are exact, the real table is the nearest, and no integer table is nearer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, nnls

from populace.core.array_types import Floats, Ints
from populace.inference.hierarchy.transportation import _split, split_tables
from tests.helpers.sampled_cases import sample_cases


def draw_problem(seed: int, *, size: int, mean: float, masked: bool = False) -> dict[str, Any]:
    """Return a problem that has a solution: sparse or dense, noisy or not, with ties in every third."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(1, size + 1, 2)
    counts = rng.poisson(mean, (rows, 1, columns))
    targets = counts + rng.normal(0, float(rng.choice([0.3, 3.0, 30.0])), counts.shape)
    return {
        "targets": np.round(2 * targets) / 2 if seed % 3 == 0 else targets,
        "rows": counts.sum(axis=2),
        "columns": counts.sum(axis=0)[None],
        "starts": np.array([0, rows]),
        "variance": rng.choice([0.2, 1.0, 5.0], rows) if seed % 2 else None,
        "allowed": (counts > 0) | (rng.random(counts.shape) < 0.5) if masked else None,
    }


def split(problem: dict[str, Any]) -> Ints:
    found = split_tables(problem["targets"], **{k: v for k, v in problem.items() if k != "targets"})
    assert not found.failed.any()
    return found.counts[:, 0]


def find_nearest(problem: dict[str, Any]) -> Floats:
    """Return the real tables that are then rounded."""
    real, counts = np.zeros(problem["targets"].shape), np.zeros(problem["targets"].shape, dtype=np.int64)
    failed = np.zeros(1, dtype=np.bool_)
    _split(*problem.values(), counts=counts, real=real, failed=failed)
    return real[:, 0]


def squared_error(counts: Any, problem: dict[str, Any]) -> float:
    weights = np.ones(len(counts)) if problem["variance"] is None else 1 / problem["variance"]
    return float((weights[:, None] * (counts - problem["targets"][:, 0]) ** 2).sum())


@pytest.mark.parametrize("seed", sample_cases(range(300), to=30))
def test_sums_are_exact_and_forbidden_entries_are_empty(seed: int) -> None:
    problem = draw_problem(seed, size=9, mean=[0.2, 3.0, 1e4][seed % 3], masked=seed % 4 == 0)
    counts = split(problem)
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) == problem["rows"][:, 0]).all()
    assert (counts.sum(axis=0) == problem["columns"][0, 0]).all()
    if problem["allowed"] is not None:
        assert not counts[~problem["allowed"][:, 0]].any()


def solve_independently(problem: dict[str, Any]) -> Floats:
    """Return the nearest real table by non-negative least squares in which the sums weigh a million times more."""
    rows, _, columns = problem["targets"].shape
    weights = np.ones(rows) if problem["variance"] is None else problem["variance"] ** -0.5
    near = np.repeat(weights, columns)
    sums = np.vstack([np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns))])
    right = np.concatenate([problem["rows"][:, 0], problem["columns"][0, 0]])
    system = np.vstack([np.diag(near), 1e5 * sums])
    values = np.concatenate([near * problem["targets"].ravel(), 1e5 * right])
    if problem["allowed"] is not None:
        system = system * problem["allowed"].ravel()
    found, _ = nnls(system, values)
    table: Floats = found.reshape(rows, columns)
    return table if problem["allowed"] is None else table * problem["allowed"][:, 0]


@pytest.mark.parametrize("seed", sample_cases(range(200), to=30))
def test_the_real_table_is_the_nearest(seed: int) -> None:
    problem = draw_problem(seed, size=6, mean=[0.5, 4.0][seed % 2], masked=seed % 4 == 0)
    real = find_nearest(problem)
    assert np.abs(real - solve_independently(problem)).max() < 1e-5
    assert np.abs(real.sum(axis=1) - problem["rows"][:, 0]).max() < 1e-7


def tables_with_sums(rows: tuple[int, ...], columns: tuple[int, ...]) -> list[tuple[tuple[int, ...], ...]]:
    """Return every table of counts with these sums."""
    if not rows:
        return [()] if not any(columns) else []
    found = []
    for row in itertools.product(*(range(min(rows[0], most) + 1) for most in columns)):
        if sum(row) == rows[0]:
            rest = tuple(have - used for have, used in zip(columns, row, strict=True))
            found += [(row, *below) for below in tables_with_sums(rows[1:], rest)]
    return found


@pytest.mark.parametrize("seed", sample_cases(range(150), to=30))
def test_no_integer_table_is_nearer(seed: int) -> None:
    problem = draw_problem(seed, size=3, mean=1.0, masked=seed % 4 == 0)
    every = tables_with_sums(tuple(problem["rows"][:, 0].tolist()), tuple(problem["columns"][0, 0].tolist()))
    if problem["allowed"] is not None:
        every = [table for table in every if not np.array(table)[~problem["allowed"][:, 0]].any()]
    best = min(squared_error(np.array(table), problem) for table in every)
    assert squared_error(split(problem), problem) <= best + 1e-6


def least_error(problem: dict[str, Any]) -> float:
    """Return the error of the nearest integer table, by a linear program in which every unit has its own price."""
    rows, _, columns = problem["targets"].shape
    weights = np.ones(rows) if problem["variance"] is None else 1 / problem["variance"]
    prices, owners = [], []
    for i, j in itertools.product(range(rows), range(columns)):
        if problem["allowed"] is None or problem["allowed"][i, 0, j]:
            for unit in range(min(problem["rows"][i, 0], problem["columns"][0, 0, j])):
                prices.append(weights[i] * (2 * unit + 1 - 2 * problem["targets"][i, 0, j]))
                owners.append((i, j))
    start = squared_error(np.zeros((rows, columns)), problem)
    if not owners:
        return start
    sums = [[i == row for i, _ in owners] for row in range(rows)]
    sums += [[j == column for _, j in owners] for column in range(columns)]
    right = np.concatenate([problem["rows"][:, 0], problem["columns"][0, 0]])
    return start + float(linprog(prices, A_eq=np.array(sums, float), b_eq=right, bounds=(0, 1)).fun)


@pytest.mark.parametrize("seed", sample_cases(range(200), to=30))
def test_the_error_is_that_of_an_independent_solver(seed: int) -> None:
    problem = draw_problem(seed, size=9, mean=3.0, masked=seed % 4 == 0)
    assert squared_error(split(problem), problem) == pytest.approx(least_error(problem), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_tables_that_fit_come_back(seed: int) -> None:
    counts = np.random.default_rng(seed).poisson(2.0, (7, 2, 5))
    found = split_tables(
        counts.astype(float),
        rows=counts.sum(axis=2),
        columns=np.stack([counts[:3].sum(axis=0), counts[3:].sum(axis=0)]),
        starts=np.array([0, 3, 7]),
    )
    assert np.array_equal(found.counts, counts)


def test_what_cannot_be_split_fails() -> None:
    targets, starts = np.zeros((2, 1, 2)), np.array([0, 2])
    rows, columns = np.array([[1], [1]]), np.array([[[2, 0]]])
    allowed = np.array([[[True, True]], [[False, True]]])
    assert split_tables(targets, rows=rows, columns=columns, starts=starts, allowed=allowed).failed.all()
    assert split_tables(targets, rows=rows, columns=columns + 1, starts=starts).failed.all()
    assert not split_tables(targets, rows=rows, columns=columns, starts=starts).failed.any()


def test_a_large_sparse_table_is_as_near_as_rounding_allows() -> None:
    """Rounding alone adds about a twelfth for each positive entry; the moves at the end must not leave more."""
    rng = np.random.default_rng(5)
    counts = rng.poisson(rng.gamma(0.3, 20, (3000, 1, 1)), (3000, 1, 8))
    problem = {
        "targets": counts + rng.normal(0, 3, counts.shape),
        "rows": counts.sum(axis=2),
        "columns": counts.sum(axis=0)[None],
        "starts": np.array([0, 3000]),
        "variance": None,
        "allowed": None,
    }
    real = find_nearest(problem)
    gap = squared_error(split(problem), problem) - squared_error(real, problem)
    assert 0 < gap < 0.15 * (real > 0).sum()
