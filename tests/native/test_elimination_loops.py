"""The compiled elimination of columns does what the one in Python does, and nothing leads it outside its arrays."""

from __future__ import annotations

import numpy as np
import pytest

from populace._native import kernels
from populace.inference.graph import junction_tree

pytestmark = pytest.mark.skipif(not kernels.compiled(), reason="the loops in C were not built")


def graph(rng, *, most):
    columns = int(rng.integers(1, most + 1))
    cliques = [
        sum(1 << int(i) for i in rng.choice(columns, min(columns, int(rng.integers(1, 5))), replace=False))
        for _ in range(rng.integers(0, 2 * columns))
    ]
    return cliques, rng.choice([1, 2, 3, 4, 6, 12, 1000], columns).tolist()


@pytest.mark.parametrize("most", [5, 12, 63, 64, 65, 130])
@pytest.mark.parametrize("by_edges", [False, True])
def test_both_find_the_same_tables(monkeypatch, most, by_edges):
    rng = np.random.default_rng(most)
    for _ in range(400 // most):
        cliques, sizes = graph(rng, most=most)
        costs = sizes if by_edges else junction_tree._logs(tuple(sizes))
        compiled = junction_tree.eliminate(cliques, costs=costs, by_edges=by_edges)
        with monkeypatch.context() as patched:
            patched.setattr(kernels, "_native", None)
            assert junction_tree.eliminate(cliques, costs=costs, by_edges=by_edges) == compiled


def test_costs_whose_products_overflow_are_left_to_python():
    assert kernels.eliminate_variables([3], costs=[2**40, 2**40], by_edges=True) is None
    tables, chordal = junction_tree.eliminate([3], costs=[2**40, 2**40], by_edges=True)
    assert (tables, chordal) == ([3], True)


def test_no_columns_have_no_tables():
    assert junction_tree.eliminate([], costs=[], by_edges=False) == ([], True)


def call(**changed):
    given = {
        "sets": np.array([[3], [6]], np.uint64),
        "costs": np.array([2, 3, 4], np.int64),
        "tables": np.zeros((3, 1), np.uint64),
        "kept": np.zeros(3, np.uint8),
    } | changed
    kernels._native.eliminate_variables(given["sets"], given["costs"], True, given["tables"], given["kept"])


def test_the_call_that_is_changed_below_is_right():
    call()


SHARED = np.zeros(16, np.uint64)


@pytest.mark.parametrize(
    "changed",
    [
        {"sets": np.array([[8]], np.uint64)},
        {"sets": np.array([[2**63]], np.uint64)},
        {"sets": np.array([[3, 1]], np.uint64)},
        {"sets": np.array([[3]], np.int64)},
        {"sets": np.zeros((1, 0), np.uint64), "tables": np.zeros((3, 0), np.uint64)},
        {"costs": np.ones(4, np.int64)},
        {"costs": np.ones(3)},
        {
            "costs": np.ones(65, np.int64),
            "tables": np.zeros((65, 1), np.uint64),
            "kept": np.zeros(65, np.uint8),
        },
        {"tables": np.zeros((2, 1), np.uint64)},
        {"tables": np.zeros((3, 2), np.uint64)},
        {"kept": np.zeros(2, np.uint8)},
        {"sets": SHARED[:1].reshape(1, 1), "tables": SHARED[:3].reshape(3, 1)},
        {"costs": SHARED[:3].view(np.int64), "tables": SHARED[2:5].reshape(3, 1)},
        {"kept": SHARED[:1].view(np.uint8)[:3], "tables": SHARED[:3].reshape(3, 1)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed):
    with pytest.raises(ValueError, match=r"fit|number|shares memory"):
        call(**changed)
