"""The compiled counting loops agree with NumPy on every kind of column."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from populace.errors import UsageError
from populace.kernels import count_columns, count_pair

KINDS = [np.uint8, np.uint16, np.uint32]


def columns(sizes: tuple[int, ...], *, rows: int) -> list[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, size, rows) for size in sizes]


def expected(held: list[npt.NDArray[np.int64]], sizes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    flat = np.ravel_multi_index(held, sizes)
    return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes)


@pytest.mark.parametrize(("first", "second"), list(product(KINDS, KINDS)))
@pytest.mark.parametrize("sizes", [(3, 250), (200, 256)])  # few cells and many are counted differently
def test_pairs(first: type, second: type, sizes: tuple[int, int]) -> None:
    for rows in (0, 1, 2, 10_001):
        a, b = columns(sizes, rows=rows)
        counts = count_pair(a.astype(first), b.astype(second), sizes=sizes)
        assert counts.dtype == np.int64
        assert (counts == expected([a, b], sizes)).all()


def test_any_number_of_columns() -> None:
    for sizes in ((7,), (7, 300), (3, 2, 70_000), (2, 3, 4, 5, 6)):
        held = columns(sizes, rows=40_001)
        typed = [
            column.astype(np.min_scalar_type(size - 1)) for column, size in zip(held, sizes, strict=True)
        ]
        assert (count_columns(typed, sizes=sizes) == expected(held, sizes)).all()


def test_columns_mapped_or_cut_from_others() -> None:
    a, b = (column.astype(np.uint8) for column in columns((4, 9), rows=1_000))
    a.flags.writeable = False
    both = np.stack([a, b], axis=1)
    assert (count_pair(a, b, sizes=(4, 9)) == count_pair(both[:, 0], both[:, 1], sizes=(4, 9))).all()
    assert (count_columns([a, b], sizes=(4, 9)) == count_columns(list(both.T), sizes=(4, 9))).all()


@pytest.mark.parametrize(
    ("held", "sizes"),
    [
        ([[0, 2], [0, 0]], (2, 1)),  # a code outside its domain
        ([[0, 0], [0, 1]], (2, 1)),
        ([[0, 0], [0]], (1, 1)),
        ([[0]], (1, 1)),
    ],
)
def test_columns_that_would_write_outside_are_refused(held: list[list[int]], sizes: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        count_columns([np.array(column, dtype=np.uint8) for column in held], sizes=sizes)


def test_signed_codes_are_refused() -> None:
    with pytest.raises(UsageError, match="uint8"):
        count_pair(np.zeros(3, np.int64), np.zeros(3, np.uint8), sizes=(1, 1))
