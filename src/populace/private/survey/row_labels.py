"""Labels of rows, which order those that are otherwise alike: they follow from what rows hold, never from their place.

Proof: docs/proofs/nearest.md
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Ints, Truth
from populace.private.survey.survey_rows import SurveyRows

# Where the mixing of labels starts without a key, and its constants.
_KEY = 0x706F70756C616365
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

Hashes = npt.NDArray[np.uint64]


def label_rows(rows: SurveyRows, *, key: str = "") -> Ints:
    """Return a label for each row that follows from the row and a public key: numbers that order them, all different.

    A row's label is a hash, under the key, of all that it holds and of how many rows that hold the same come before it.
    Which of them that is makes no difference; when one leaves, it is the last one's label that leaves.
    Proof: docs/proofs/nearest.md
    """
    columns = [_bits(rows.codes[name]) for name in sorted(rows.codes)]
    columns += [_bits(rows.numbers[name]) for name in sorted(rows.numbers)]
    start = _KEY ^ (int.from_bytes(sha256(key.encode()).digest()[:8], "big") if key else 0)
    content = _mix(*columns, start=start)
    order = np.argsort(content, kind="stable")
    new = _differs([content], order)
    if np.any(_differs(columns, order) & ~new):
        # Rows that differ and have one hash are kept apart by what they hold.
        order = np.lexsort((*columns, content))
        new = _differs([content, *columns], order)
    group = np.cumsum(new)
    starts = np.flatnonzero(new)
    serial = np.arange(len(order)) - starts[group - 1] if len(order) else group
    labels = _mix(content[order], serial.astype(np.uint64), start=start)
    found = np.empty(len(order), dtype=np.int64)
    found[order[np.lexsort((serial, group, labels))]] = np.arange(len(order))
    return found


def _differs(columns: list[Hashes], order: Ints) -> Truth:
    """Say for each row, in an order, whether it differs from the one before."""
    found = np.zeros(len(order), dtype=np.bool_)
    found[:1] = True
    for column in columns:
        ordered = column[order]
        found[1:] |= ordered[1:] != ordered[:-1]
    return found


def _bits(column: npt.NDArray[Any]) -> Hashes:
    """Return codes or numbers as 64 bits each: one for every kind of NaN, and for both zeros."""
    if column.dtype.kind != "f":
        return column.astype(np.uint64)
    plain = np.where(np.isnan(column), np.nan, column + 0.0)
    return plain.astype(np.float64).view(np.uint64)


def _mix(*columns: Hashes, start: int) -> Hashes:
    """Return one hash of several columns, row by row; the steps are after SplitMix64."""
    first, second, third = (np.uint64(odd) for odd in _ODD)
    state = np.full(len(columns[0]), start, dtype=np.uint64)
    for column in columns:
        state = (state ^ column) * first + second
        state = (state ^ (state >> np.uint64(30))) * second
        state = (state ^ (state >> np.uint64(27))) * third
        state ^= state >> np.uint64(31)
    return state
