"""The compiled loop that splits tables: the same numbers as its twin in Python, and never led outside its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from populace._native import kernels
from populace.inference.hierarchy import integer_rounding, transportation
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.skipif(not kernels.compiled(), reason="the loops in C were not built")

NAMES = ("targets", "rows", "columns", "starts", "variance", "allowed", "counts", "real", "failed")


def draw_arrays(seed: int) -> dict[str, Any]:
    """Return the arrays of two parents and two groups of cells; in some, forbidden entries leave no solution."""
    rng = np.random.default_rng(seed)
    units, first, size = int(rng.integers(2, 10)), 1, int(rng.integers(1, 7))
    shape = (units, 2, size)
    counts = rng.poisson(float(rng.choice([0.3, 3.0, 2000.0])), shape)
    targets = counts + rng.normal(0, float(rng.choice([0.3, 3.0, 100.0])), shape)
    allowed = rng.random(shape) < 0.8 if seed % 3 == 0 else None
    return {
        "targets": np.round(2 * targets) / 2 if seed % 2 else targets,
        "rows": counts.sum(axis=2),
        "columns": np.stack([counts[:first].sum(axis=0), counts[first:].sum(axis=0)]),
        "starts": np.array([0, first, units]),
        "variance": rng.choice([0.2, 1.0, 5.0], units),
        "allowed": allowed,
        "counts": np.zeros(shape, dtype=np.int64),
        "real": np.zeros(shape),
        "failed": np.zeros(2, dtype=np.bool_),
    }


def call(loop: Any, arrays: dict[str, Any]) -> None:
    loop(arrays["targets"], **{name: value for name, value in arrays.items() if name != "targets"})


@pytest.mark.parametrize("seed", sample_cases(range(300), to=40))
def test_the_loop_and_its_twin_agree_bit_for_bit(seed: int) -> None:
    one, other = draw_arrays(seed), draw_arrays(seed)
    call(kernels.split_tables, one)
    call(transportation.split_in_python, other)
    for name in ("failed", "counts"):
        assert np.array_equal(one[name], other[name]), name
    if not one["failed"].any():
        assert np.array_equal(one["real"], other["real"])


def test_some_cases_fail_and_most_do_not() -> None:
    failed = []
    for seed in range(0, 60, 3):
        arrays = draw_arrays(seed)
        call(kernels.split_tables, arrays)
        failed.append(arrays["failed"].any())
    assert 1 <= sum(failed) < len(failed)


def test_the_twin_serves_where_there_is_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = draw_arrays(1)
    given = {name: arrays[name] for name in ("rows", "columns", "starts", "variance")}
    compiled = transportation.split_tables(arrays["targets"], **given)
    monkeypatch.setattr(kernels, "_native", None)
    assert np.array_equal(transportation.split_tables(arrays["targets"], **given).counts, compiled.counts)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("targets", np.zeros((4, 2, 3), dtype=np.float32)),
        ("targets", np.full((4, 2, 3), np.nan)),
        ("targets", np.full((4, 2, 3), 1e13)),
        ("targets", np.zeros((4, 2, 2))),
        ("targets", np.zeros((4, 2, 6))[:, :, ::2]),
        ("rows", np.zeros((4, 3), dtype=np.int64)),
        ("rows", np.full((4, 2), -1)),
        ("rows", np.full((4, 2), 2**41)),
        ("columns", np.zeros((2, 2, 4), dtype=np.int64)),
        ("columns", np.full((2, 2, 3), -1)),
        ("starts", np.array([0, 5, 4])),
        ("starts", np.array([-1, 2, 4])),
        ("starts", np.array([0, 2, 5])),
        ("starts", np.array([0, 4])),
        ("variance", np.zeros(4)),
        ("variance", np.full(4, np.inf)),
        ("variance", np.ones(3)),
        ("allowed", np.ones((4, 2, 2), dtype=np.bool_)),
        ("allowed", np.ones((4, 2, 3))),
        ("counts", np.zeros((4, 2, 2), dtype=np.int64)),
        ("counts", np.zeros((4, 2, 3))),
        ("real", np.zeros((4, 2, 2))),
        ("failed", np.zeros(3, dtype=np.bool_)),
    ],
)
def test_wrong_arrays_are_refused(name: str, wrong: Any) -> None:
    arrays: dict[str, Any] = {
        "targets": np.zeros((4, 2, 3)),
        "rows": np.zeros((4, 2), dtype=np.int64),
        "columns": np.zeros((2, 2, 3), dtype=np.int64),
        "starts": np.array([0, 2, 4]),
        "variance": np.ones(4),
        "allowed": None,
        "counts": np.zeros((4, 2, 3), dtype=np.int64),
        "real": None,
        "failed": np.zeros(2, dtype=np.bool_),
    }
    call(kernels.split_tables, arrays)
    with pytest.raises((ValueError, BufferError)):
        call(kernels.split_tables, arrays | {name: wrong})


def test_arrays_that_share_memory_are_refused() -> None:
    native: Any = kernels._native
    table = np.zeros((2, 1, 2))
    rows, columns, starts = (
        np.zeros((2, 1), dtype=np.int64),
        np.zeros((1, 1, 2), dtype=np.int64),
        np.array([0, 2]),
    )
    failed = np.zeros(1, dtype=np.bool_)
    with pytest.raises(ValueError, match="share"):
        native.split_tables(
            table, rows, columns, starts, np.ones(2), None, table.view(np.int64), None, failed
        )
    counts = np.zeros((2, 1, 2), dtype=np.int64)
    with pytest.raises(ValueError, match="share"):
        native.split_tables(
            table, rows, columns, starts, np.ones(2), None, counts, counts.view(float), failed
        )


@pytest.mark.parametrize("seed", range(20))
def test_rounding_moves_entries_by_less_than_one(seed: int) -> None:
    """A table in fixed point of whole sums: the twin of the loop's rounding leaves each between its neighbours."""
    rng = np.random.default_rng(seed)
    one = integer_rounding.ONE
    table = rng.integers(0, 5, (6, 4)) * one
    for _ in range(30):
        rows, columns = rng.choice(6, 2, replace=False), rng.choice(4, 2, replace=False)
        part = int(rng.integers(1, one))
        table[rows[0], columns[0]] += part
        table[rows[1], columns[1]] += part
        table[rows[0], columns[1]] += one - part
        table[rows[1], columns[0]] += one - part
    found = table.tolist()
    integer_rounding.round_table(found, target=(table / one).tolist(), variance=[1.0] * 6)
    moved = np.array(found) - table
    assert (np.array(found) % one == 0).all()
    assert np.abs(moved).max() < one
    assert not moved.sum(axis=0).any()
    assert not moved.sum(axis=1).any()
