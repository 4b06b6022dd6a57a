"""Exact inversion: a distribution function in whole numbers, each of them certain, and draws from it.

A distribution function F is tabled as T_k = ⌊2^b·F(k)⌋. A uniform number U whose first b bits are u
is certainly below F(k) when u < T_k, and certainly not when u > T_k. When u = T_k, more bits decide.
A value is the count of thresholds at or below a uniform random number.
Proof: docs/proofs/table-inversion.md
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from populace.core.errors import PopulaceError
from populace.privacy.accounting.interval_arithmetic import precision
from populace.privacy.noise.distributions import Distribution, ExponentialDecay
from populace.privacy.noise.entropy import Entropy, Words

WORD_BITS = 64

# Bits computed beyond those asked for; they double whenever a ball reaches over a whole number.
_GUARD_BITS = 32
_GUARD_LIMIT = 1 << 14

# A guide of 2^16 entries of 4 bytes stays in the second-level cache.
GUIDE_BITS = 16

# Words are drawn and used in pieces that stay there too.
_BATCH = 1 << 16

# Making a guide takes about as long as this many draws without one.
_GUIDED_FROM = 1 << 15

Indices = npt.NDArray[np.intp]


class Thresholds:
    """Whole numbers T_k with T_k ≤ 2^b·F(k) ≤ T_k + 1, for k = low, low + 1, …, computed when asked for.

    The first is 0 and the last 2^b − 1: what lies beyond either end is never cut off but left to more bits,
    that is to a longer table.
    """

    def __init__(self, distribution: Distribution, *, bits: int) -> None:
        self._distribution = distribution
        self._bits = bits
        self._top = distribution.tail_cutoff(bits)
        self.low = -self._top - 1 if distribution.symmetric else -1

    @cached_property
    def _balls(self) -> Sequence[arb]:
        return self._distribution.balls(bits=self._bits, guard=_GUARD_BITS)

    def __len__(self) -> int:
        return self._top - self.low + 1

    def __getitem__(self, index: int) -> int:
        k = self.low + index
        if not self.low <= k <= self._top:
            raise IndexError(index)
        if k < 0 and not self._distribution.symmetric:
            return 0  # F(−1) = 0
        with precision(self._bits + _GUARD_LIMIT):
            # A symmetric distribution has F(−k − 1) = 1 − F(k).
            return self._floor(k) if k >= 0 else (1 << self._bits) - 1 - self._floor(-k - 1)

    def from_zero(self) -> list[int]:
        """Return the thresholds of 0, 1, … up to the last."""
        with precision(self._bits + _GUARD_LIMIT):
            return [self._floor(k) for k in range(self._top + 1)]

    def _floor(self, k: int) -> int:
        if k == self._top:
            return (1 << self._bits) - 1
        floor = self._balls[k].floor().unique_fmpz()
        guard = _GUARD_BITS
        while floor is None:
            guard *= 2
            if guard > _GUARD_LIMIT:
                # 2^b·F(k) would have to be a whole number. No noise is better than noise of another distribution.
                raise PopulaceError("a noise threshold cannot be decided.", hint="change the budget slightly")
            floor = self._distribution.balls(bits=self._bits, guard=guard)[k].floor().unique_fmpz()
        return int(floor)


@dataclass(frozen=True, eq=False, kw_only=True)
class InversionTable:
    """The thresholds of a distribution at the bits of one random word, ready for many draws.

    `bits` below 64 serve tests: with short words the branch that asks for more bits is often taken.
    """

    distribution: Distribution
    bits: int
    low: int
    thresholds: Words
    _deeper: dict[int, Thresholds] = field(default_factory=dict, repr=False)

    def deeper(self, bits: int) -> Thresholds:
        """Return the thresholds at more bits."""
        if bits not in self._deeper:
            self._deeper[bits] = Thresholds(self.distribution, bits=bits)
        return self._deeper[bits]

    @cached_property
    def guide(self) -> npt.NDArray[np.int32]:
        """How many thresholds are at or below a word, by its first 16 bits; −1 where these do not settle it.

        They settle it when no threshold begins with the same 16 bits.
        """
        edges = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(self.bits - GUIDE_BITS)
        below = np.append(np.searchsorted(self.thresholds, edges, side="left"), len(self.thresholds))
        return np.where(below[1:] == below[:-1], below[:-1], -1).astype(np.int32)


def build_inversion_table(distribution: Distribution, *, bits: int = WORD_BITS) -> InversionTable:
    """Return the table of a distribution for words of some bits."""
    thresholds = Thresholds(distribution, bits=bits)
    upper = np.array(thresholds.from_zero(), dtype=np.uint64)
    lower = (upper[-1] - upper)[::-1] if distribution.symmetric else np.zeros(1, dtype=np.uint64)
    both = np.concatenate([lower, upper])
    both.flags.writeable = False
    return InversionTable(distribution=distribution, bits=bits, low=thresholds.low, thresholds=both)


@lru_cache(maxsize=32)
def noise_table(distribution: ExponentialDecay) -> InversionTable:
    """Return the table of a distribution of noise; those of the last ones are kept.

    >>> from fractions import Fraction
    >>> from populace.privacy.noise.distributions import gaussian_distribution
    >>> table = noise_table(gaussian_distribution(Fraction(1)))
    >>> table.low, float(table.thresholds[-table.low]) / 2**64  # P[Z ≤ 0]
    (-10, 0.6994711391334308)
    """
    return build_inversion_table(distribution)


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
