"""The memory engine: exact counts over columns of small integer codes held in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from populace._native import kernels
from populace.core.marginals import Counts, Domain, Grouping, Marginal

Codes = Mapping[str, npt.NDArray[Any]]

CHUNK = 1 << 18
# Numbers of rows stay below this.
LONGEST = 1 << 62


class MemoryEngine:
    """Counts marginals over `codes`, columns of uint8, uint16 or uint32 of one length.

    A row stands for one unit, or for as many as `frequencies` says.
    """

    __slots__ = ("_codes", "_domain", "_frequencies", "_grouped", "_kept", "_rows")

    def __init__(self, codes: Codes, frequencies: Counts | None = None, *, domain: Domain) -> None:
        self._codes = codes
        self._frequencies = frequencies
        self._domain = domain
        self._rows = len(next(iter(codes.values()))) if codes else 0
        self._grouped: dict[Grouping, npt.NDArray[Any]] = {}
        self._kept: dict[Marginal, Counts] = {}

    def __repr__(self) -> str:
        return f"MemoryEngine({len(self._domain)} columns)"

    def prepare(self, marginals: Sequence[Marginal], *, memory: int) -> None:
        """Count marginals in one pass and keep them, as far as `memory` bytes reach for all that is kept.

        Those of earlier calls stay as long as there is room beside them, the latest of them longest.
        """
        asked: dict[Marginal, None] = {}
        for marginal in dict.fromkeys(marginals):
            memory -= self._bytes(marginal)
            if memory < 0:
                break
            asked[marginal] = None
        for marginal in [kept for kept in reversed(self._kept) if kept not in asked]:
            memory -= self._bytes(marginal)
            if memory < 0:
                del self._kept[marginal]
        wanted = [marginal for marginal in asked if marginal not in self._kept]
        self._kept.update(zip(wanted, self._count(wanted), strict=True))

    def _bytes(self, marginal: Marginal) -> int:
        return 8 * math.prod(marginal.shape(self._domain))

    def counts(self, marginals: Sequence[Marginal]) -> tuple[Counts, ...]:
        """Return the exact counts of each marginal, in its public shape."""
        missing = [m for m in dict.fromkeys(marginals) if m not in self._kept]
        fresh = dict(zip(missing, self._count(missing), strict=True))
        return tuple(self._kept[m] if m in self._kept else fresh[m] for m in marginals)

    def tally(self) -> tuple[npt.NDArray[Any], Counts]:
        """Return the rows that occur, sorted, a row of codes each, and how often.

        Rows are numbered column by column; numbers that would grow too long are replaced by their ranks.
        """
        numbers, most = np.zeros(self._rows, dtype=np.int64), 1
        for name, size in self._domain.items():
            codes = self._codes[name]
            if codes.max(initial=0) >= size:
                raise IndexError(kernels.OUTSIDE)
            if most * size > LONGEST:
                numbers = np.unique(numbers, return_inverse=True)[1].reshape(-1)
                most = self._rows
            numbers = numbers * size + codes
            most *= size
        _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        counts: Counts = np.zeros(len(first), dtype=np.int64)
        np.add.at(counts, places.reshape(-1), 1 if self._frequencies is None else self._frequencies)
        # Rows that stand for nobody do not occur.
        first, counts = first[counts > 0], counts[counts > 0]
        # As narrow as codes are: there may be as many different rows as rows.
        rows = np.empty((len(first), len(self._domain)), dtype=np.result_type(*self._codes.values()))
        for place, name in enumerate(self._domain):
            rows[:, place] = self._codes[name][first]
        return rows, counts

    def _count(self, marginals: Sequence[Marginal]) -> list[Counts]:
        columns = [[self._column(m, name) for name in m.clique] for m in marginals]
        shapes = [m.shape(self._domain) for m in marginals]
        if not kernels.compiled() or self._frequencies is not None:
            return count_in_chunks(columns, shapes, rows=self._rows, frequencies=self._frequencies)
        return [
            kernels.count_columns(held, sizes=shape) if held else np.array(self._rows, dtype=np.int64)
            for held, shape in zip(columns, shapes, strict=True)
        ]

    def _column(self, marginal: Marginal, name: str) -> npt.NDArray[Any]:
        grouping = marginal.grouping(name)
        if grouping is None:
            return self._codes[name]
        if grouping not in self._grouped:
            small = np.min_scalar_type(max(grouping.size - 1, 0))
            try:
                self._grouped[grouping] = grouping.lookup.astype(small)[self._codes[name]]
            except IndexError:
                # NumPy's own words would tell the code.
                raise IndexError(kernels.OUTSIDE) from None
        return self._grouped[grouping]


def count_in_chunks(
    columns: Sequence[Sequence[npt.NDArray[Any]]],
    shapes: Sequence[tuple[int, ...]],
    *,
    rows: int,
    frequencies: Counts | None = None,
) -> list[Counts]:
    """Count the cells of many marginals in one pass over the rows, chunk by chunk, without the compiled loops.

    A row counts once, or as often as `frequencies` says.
    Codes outside their domain are refused as `kernels.count_columns` refuses them.

    >>> a, b = np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint8)
    >>> count_in_chunks([[a, b]], [(2, 3)], rows=3)[0].tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    answers = [np.zeros(int(np.prod(shape, dtype=np.int64)), dtype=np.int64) for shape in shapes]
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        # A column serves many marginals: widen each chunk of it, and find its largest code, once.
        wide: dict[int, npt.NDArray[np.intp]] = {}
        largest: dict[int, int] = {}
        for held, shape, answer in zip(columns, shapes, answers, strict=True):
            flat: npt.NDArray[np.intp] | None = None
            for column, size in zip(held, shape, strict=True):
                if id(column) not in wide:
                    wide[id(column)] = column[part].astype(np.intp)
                    largest[id(column)] = int(column[part].max())
                if largest[id(column)] >= size:
                    raise IndexError(kernels.OUTSIDE)
                flat = wide[id(column)] if flat is None else flat * size + wide[id(column)]
            if frequencies is not None:
                # In whole numbers: a sum of floats could round away, or double, one unit.
                np.add.at(
                    answer,
                    np.zeros(len(frequencies[part]), np.intp) if flat is None else flat,
                    frequencies[part],
                )
            elif flat is None:
                answer += part.stop - part.start
            else:
                answer += np.bincount(flat, minlength=answer.size)
    return [answer.reshape(shape) for answer, shape in zip(answers, shapes, strict=True)]
