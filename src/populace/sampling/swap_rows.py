"""Rows exchanged for others of the same model, so that counts which must be met are met."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Counts

Cells = npt.NDArray[np.integer]

# Seconds that the integer programme may take.
MAX_SECONDS = 20.0


def swap_rows(
    have: Sequence[Cells], spare: Sequence[Cells], *, wanted: Sequence[Counts], rng: np.random.Generator
) -> tuple[Counts, Counts] | None:
    """Return rows to give away and, for each, the row to take in its place; None where these rows cannot do it.

    Tables count rows by cell: `have` and `spare` say for each table in which of its cells each row is, and the counts
    shall be those `wanted`. Rows that all tables count alike are of one kind. How many of each kind to give and to take
    is the integer programme of fewest exchanges; which of them is random. Rows from `have` follow `spare` in numbering,
    and any row may be taken more than once.

    >>> rng = np.random.default_rng(0)
    >>> swap_rows([np.array([0, 0, 0])], [np.array([0, 1])], wanted=[np.array([2, 1])], rng=rng)[1]
    array([1])
    """
    # SciPy is slow to import, and seldom needed here.
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix, hstack, vstack

    every = [np.concatenate(both).astype(np.int64) for both in zip(spare, have, strict=True)]
    kinds = np.zeros(len(every[0]), dtype=np.int64)
    for cells, counts in zip(every, wanted, strict=True):
        kinds = np.unique(kinds * counts.size + cells, return_inverse=True)[1].reshape(-1)
    own = kinds[len(spare[0]) :]
    firsts = np.unique(kinds, return_index=True)[1]
    size = len(firsts)
    sums = vstack(
        [
            csr_matrix((np.ones(size), (cells[firsts], np.arange(size))), shape=(counts.size, size))
            for cells, counts in zip(every, wanted, strict=True)
        ]
    )
    held = np.bincount(own, minlength=size)
    lack = np.concatenate([counts.ravel() for counts in wanted]) - sums @ held
    solution = milp(
        np.ones(2 * size),
        constraints=LinearConstraint(hstack([sums, -sums]), lack, lack),
        bounds=Bounds(0, np.concatenate([np.full(size, np.inf), held])),
        integrality=np.ones(2 * size),
        options={"time_limit": MAX_SECONDS},
    )
    if solution.x is None:
        return None
    taken, given = np.round(solution.x).astype(np.int64).reshape(2, size)
    return _pick_rows(own, given, rng=rng, again=False), rng.permutation(
        _pick_rows(kinds, taken, rng=rng, again=True)
    )


def _pick_rows(kinds: Counts, counts: Counts, *, rng: np.random.Generator, again: bool) -> Counts:
    """Return random rows, so many of each kind; `again` says whether one may be picked more than once."""
    found = [np.zeros(0, dtype=np.int64)]
    for kind in np.flatnonzero(counts):
        found.append(rng.choice(np.flatnonzero(kinds == kind), counts[kind], replace=again))
    return np.concatenate(found)
