"""Draws from exact tables: a value is the count of thresholds at or below a uniform random number.

Proof: docs/proofs/table-inversion.md
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from populace.privacy.noise.cdf_tables import GUIDE_BITS, WORD_BITS, InversionTable, Thresholds
from populace.privacy.noise.entropy import Entropy, Words

# Words are drawn and used in pieces that stay in the second-level cache.
_BATCH = 1 << 16

# Making a guide takes about as long as this many draws without one.
_GUIDED_FROM = 1 << 15

Indices = npt.NDArray[np.intp]


def draw_from_table(table: InversionTable, *, size: int, entropy: Entropy) -> npt.NDArray[np.int64]:
    """Return independent draws of the table's distribution, one random word each unless a word equals a threshold."""
    out = np.empty(size, dtype=np.int64)
    count = count_thresholds_guided if size >= _GUIDED_FROM and table.bits >= GUIDE_BITS else count_thresholds
    for start in range(0, size, _BATCH):
        part = out[start : start + _BATCH]
        words = entropy.words(len(part)) >> np.uint64(WORD_BITS - table.bits)
        counts, undecided = count(table, words)
        np.add(counts, table.low, out=part)
        for place in undecided:
            part[place] = resolve_tie(
                table.deeper, prefix=int(words[place]), bits=table.bits, step=table.bits, entropy=entropy
            )
    return out


def count_thresholds(table: InversionTable, words: Words) -> tuple[npt.NDArray[np.int64], Indices]:
    """Count the thresholds at or below each word, and name the words that equal one."""
    counts = np.searchsorted(table.thresholds, words, side="right")
    return counts, np.flatnonzero(table.thresholds[counts - 1] == words)


def count_thresholds_guided(table: InversionTable, words: Words) -> tuple[npt.NDArray[np.int32], Indices]:
    """Do the same, looking up most words by their first bits; ten times as fast where the table is short."""
    first_bits = (words >> np.uint64(table.bits - GUIDE_BITS)).view(np.int64)
    counts = table.guide.take(first_bits, mode="clip")
    unsettled = np.flatnonzero(counts < 0)
    found, undecided = count_thresholds(table, words[unsettled])
    counts[unsettled] = found
    return counts, unsettled[undecided]


def resolve_tie(
    thresholds_at: Callable[[int], Thresholds], *, prefix: int, bits: int, step: int, entropy: Entropy
) -> int:
    """Return the least k with U < F(k), where U begins with `bits` bits of `prefix` and goes on at random.

    Each turn appends `step` new bits and asks the table of that many bits.
    """
    while True:
        word = int(entropy.words(1)[0]) >> (WORD_BITS - step)
        prefix, bits = prefix << step | word, bits + step
        thresholds = thresholds_at(bits)
        count = bisect_right(thresholds, prefix)
        if thresholds[count - 1] != prefix:
            return thresholds.low + count
