"""The memory engine: exact counts over columns of small integer codes, in memory or mapped from a private file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from populace._native import kernels
from populace.core.marginals import Counts, Domain, Grouping, Marginal
from populace.core.memory_limit import count_cores, memory_limit
from populace.private.code_store import FREQUENCY, CodeStore

Codes = Mapping[str, npt.NDArray[Any]]

CHUNK = 1 << 18
# The codes of so many rows stay in a cache while many marginals are counted.
TILE = 1 << 17
# Fewer rows times marginals are counted before a thread has begun.
MIN_SHARED_WORK = 1 << 24
# Numbers of rows stay below this.
LONGEST = 1 << 62
# Counts that are kept take this part of the memory that the process may use.
KEPT_SHARE = 4


class MemoryEngine:
    """Counts marginals over codes, columns of uint8, uint16 or uint32 of one length, or a store of them.

    A row stands for one unit, or for as many as `frequencies` says.
    """

    __slots__ = ("_codes", "_domain", "_grouped", "_kept")

    def __init__(
        self, codes: Codes | CodeStore, frequencies: Counts | None = None, *, domain: Domain
    ) -> None:
        self._codes: dict[str, npt.NDArray[Any]] | CodeStore = (
            codes if isinstance(codes, CodeStore) else dict(codes)
        )
        if frequencies is not None and isinstance(self._codes, dict):
            self._codes[FREQUENCY] = frequencies
        self._domain = domain
        # By the block in memory that they are of: one that is mapped is gone when the next comes.
        self._grouped: dict[Grouping, npt.NDArray[Any]] = {}
        self._kept: dict[Marginal, Counts] = {}

    def __repr__(self) -> str:
        return f"MemoryEngine({len(self._domain)} columns)"

    def prepare(self, marginals: Sequence[Marginal], *, memory: int) -> None:
        """Count marginals in one pass and keep them, as far as `memory` bytes reach for all that is kept.

        Those of earlier calls stay as long as there is room beside them, the latest of them longest.
        """
        memory = min(memory, memory_limit() // KEPT_SHARE)
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
        """Return the rows that occur, sorted, a row of codes each, and how often."""
        found = [self._tally_block(block) for block in self._blocks()]
        if len(found) == 1:
            return found[0]
        rows, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return self._tally_block({**dict(zip(self._domain, rows.T, strict=True)), FREQUENCY: counts})

    def _tally_block(self, block: Codes) -> tuple[npt.NDArray[Any], Counts]:
        """Return the rows that occur in a block, sorted, and how often.

        Rows are numbered column by column; numbers that would grow too long are replaced by their ranks.
        """
        own = [block[name] for name in self._domain]
        numbers, most = np.zeros(len(own[0]), dtype=np.int64), 1
        for codes, size in zip(own, self._domain.values(), strict=True):
            if codes.max(initial=0) >= size:
                raise IndexError(kernels.OUTSIDE)
            if most * size > LONGEST:
                numbers = np.unique(numbers, return_inverse=True)[1].reshape(-1)
                most = len(numbers)
            numbers = numbers * size + codes
            most *= size
        _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        counts: Counts = np.zeros(len(first), dtype=np.int64)
        np.add.at(counts, places.reshape(-1), block.get(FREQUENCY, 1))
        # Rows that stand for nobody do not occur.
        first, counts = first[counts > 0], counts[counts > 0]
        # As narrow as codes are: there may be as many different rows as rows.
        rows = np.empty((len(first), len(own)), dtype=np.result_type(*own))
        for place, codes in enumerate(own):
            rows[:, place] = codes[first]
        return rows, counts

    def _blocks(self) -> Iterator[Codes]:
        """Yield the rows: those in memory at once, those of a file one block after the other."""
        if isinstance(self._codes, dict):
            yield self._codes
            return
        for block in self._codes.blocks():
            if not self._codes.is_in_memory:
                # Before a block, not after it: counting may have broken off inside the one before.
                self._grouped.clear()
            yield block

    def _count(self, marginals: Sequence[Marginal]) -> list[Counts]:
        shapes = [marginal.shape(self._domain) for marginal in marginals]
        answers = [np.zeros(shape, dtype=np.int64) for shape in shapes]
        if not marginals:
            return answers
        for block in self._blocks():
            columns = [
                [self._column(block, marginal, name) for name in marginal.clique] for marginal in marginals
            ]
            rows = len(next(iter(block.values()), ()))
            if not kernels.compiled() or FREQUENCY in block:
                frequencies = block.get(FREQUENCY)
                found = count_in_chunks(columns, shapes, rows=rows, frequencies=frequencies)
                for answer, counts in zip(answers, found, strict=True):
                    answer += counts
            else:
                count_in_tiles(columns, answers, rows=rows)
        return answers

    def _column(self, block: Codes, marginal: Marginal, name: str) -> npt.NDArray[Any]:
        grouping = marginal.grouping(name)
        if grouping is None:
            return block[name]
        if grouping not in self._grouped:
            small = np.min_scalar_type(max(grouping.size - 1, 0))
            try:
                self._grouped[grouping] = grouping.lookup.astype(small)[block[name]]
            except IndexError:
                # NumPy's own words would tell the code.
                raise IndexError(kernels.OUTSIDE) from None
        return self._grouped[grouping]


def count_in_tiles(
    columns: Sequence[Sequence[npt.NDArray[Any]]], answers: Sequence[Counts], *, rows: int
) -> None:
    """Add the rows of each marginal's columns to its answer, compiled: tile by tile, and on all cores if it is much.

    Each core has marginals of its own and goes through all rows, so that no table is held twice.

    >>> counts = np.zeros(2, np.int64)
    >>> count_in_tiles([[np.array([0, 1, 1], np.uint8)]], [counts], rows=3)
    >>> counts.tolist()
    [1, 2]
    """

    def count(numbers: Sequence[int]) -> None:
        for start in range(0, rows, TILE):
            for number in numbers:
                tile = [column[start : start + TILE] for column in columns[number]]
                if tile:
                    kernels.add_counts(tile, answers[number])
                else:
                    answers[number][...] += min(TILE, rows - start)

    threads = count_cores() if rows * len(answers) >= MIN_SHARED_WORK else 1
    shares = [range(first, len(answers), threads) for first in range(min(threads, len(answers)))]
    if len(shares) == 1:
        count(shares[0])
        return
    with ThreadPoolExecutor(len(shares)) as pool:
        for done in [pool.submit(count, share) for share in shares]:
            done.result()


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
