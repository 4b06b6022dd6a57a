"""Raking: a table scaled to known sums, one after the other, again and again (Deming and Stephan 1940)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from populace.inference.factor import Table

# The axes that are kept, in order, and what the table shall sum to over all others.
RakingTarget = tuple[tuple[int, ...], Table]


def rake(table: Table, targets: Sequence[RakingTarget], *, rounds: int, close: float = 0.0) -> Table:
    """Return the table after so many rounds, or fewer where a round moves no cell by more than `close`.

    Cells that are 0 stay 0. Where sums can be met at all, this comes to the table that has them and is closest, in
    relative entropy, to the one given.

    >>> rows, columns = ((0,), np.array([1.0, 3.0])), ((1,), np.array([2.0, 2.0]))
    >>> rake(np.ones((2, 2)), [rows, columns], rounds=9)
    array([[0.5, 0.5],
           [1.5, 1.5]])
    """
    for _ in range(rounds):
        before = table
        for axes, wanted in targets:
            have = margin_sums(table, axes)
            want = wanted.reshape(have.shape)
            table = table * np.divide(want, have, out=np.zeros(have.shape), where=have > 0)
        if close and np.abs(table - before).max(initial=0.0) <= close:
            break
    return table


def max_raking_error(table: Table, targets: Sequence[RakingTarget]) -> float:
    """Return by how much any sum is missed at most."""
    return max(
        (float(np.abs(margin_sums(table, axes).ravel() - wanted.ravel()).max()) for axes, wanted in targets),
        default=0.0,
    )


def margin_sums(table: Table, axes: Sequence[int]) -> Table:
    """Return the sums of a table over all other axes, which are kept with length 1."""
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    return np.asarray(table.sum(axis=others, keepdims=True))
