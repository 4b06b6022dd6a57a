"""Agreement of tables can be solved where public totals and noisy counts have weights many orders apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from populace.inference.fit.feasible_tables import _factorize


def test_conditions_that_follow_from_each_other_are_solved_at_any_weights() -> None:
    """Two tables of six cells agree on cells and on groups of them; the other tables are all but free."""
    loose = np.concatenate([np.full(6, 1e-12), np.full(6, 1 / 3e6), [4.9e5, 2.2e5, 4.1e5, 1.9e5, 5e-7]])
    groups = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
    one, two, rest = np.split(np.eye(17), [6, 12])
    sums = np.vstack([one.sum(axis=0), one, groups @ one, two, groups @ two, rest])
    cells, halves, more, none = np.eye(6, 10), np.eye(2, 10, 6), np.eye(2, 10, 8), np.zeros((1, 10))
    shared = np.vstack([none, cells, halves, cells, halves, more, more, none])
    free, total = np.arange(17.0), 30.0
    right = np.concatenate([-sums @ free, np.zeros(10)])
    right[0] += total
    stiff = sums @ np.diag(loose) @ sums.T
    found = _factorize(csr_matrix(stiff), csr_matrix(shared)).solve(right)
    tables = free + loose * (sums.T @ found[: len(stiff)])
    assert tables[:6].sum() == pytest.approx(total, rel=0.01)
    assert tables[6:12] == pytest.approx(tables[:6], rel=0.01)
