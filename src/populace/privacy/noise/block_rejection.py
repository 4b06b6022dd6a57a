"""Exact noise at very large scales, where a table of all values would be too long.

The magnitude is cut into blocks of m = 2^j values: |Z| = m·H + L. A block H is drawn from the table of
P[H = h] ∝ exp(−rate·(m·h)^power), which is the same distribution at a smaller scale; a place L in it is uniform; the
pair is kept with probability exp(−rate·((m·H + L)^power − (m·H)^power)); a coin gives the sign, and minus
zero is drawn again. Proof: docs/proofs/block-rejection.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from populace.core.errors import ResourceError
from populace.privacy.accounting.interval_arithmetic import ball, precision
from populace.privacy.noise.distributions import ExponentialDecay
from populace.privacy.noise.entropy import Entropy, Words
from populace.privacy.noise.table_inversion import (
    WORD_BITS,
    InversionTable,
    build_inversion_table,
    draw_from_table,
)

_GUARD_BITS = 32

# With narrow blocks under two in a hundred pairs are not kept at once.
_BLOCKS_PER_SCALE = 64

_BATCH = 1 << 16


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockTable:
    """A distribution cut into blocks: the table of their starts, and for each the words that keep any place in it."""

    distribution: ExponentialDecay
    width_bits: int
    starts: InversionTable
    kept_below: Words


@lru_cache(maxsize=32)
def build_blocks(distribution: ExponentialDecay) -> BlockTable:
    """Cut a symmetric distribution into blocks of 1/64 to 1/128 of its scale."""
    return build_blocks_of_width(
        distribution, width_bits=max(0, (distribution.scale // _BLOCKS_PER_SCALE).bit_length() - 1)
    )


def build_blocks_of_width(distribution: ExponentialDecay, *, width_bits: int) -> BlockTable:
    """Cut a symmetric distribution into blocks of some width. Any width is right; wide ones keep fewer pairs."""
    width = 1 << width_bits
    starts = build_inversion_table(
        ExponentialDecay(
            rate=distribution.rate * width**distribution.power, power=distribution.power, symmetric=False
        )
    )
    farthest = [_loss(distribution, start=width * h, place=width - 1) for h in range(len(starts.thresholds))]
    with precision(WORD_BITS + _GUARD_BITS):
        # Rounded down: what it keeps at once would be kept anyway.
        lower = [int((2**WORD_BITS * (-ball(loss)).exp()).lower().floor().unique_fmpz()) for loss in farthest]
    kept_below = np.array([min(max(low, 0), 2**WORD_BITS - 1) for low in lower], dtype=np.uint64)
    return BlockTable(distribution=distribution, width_bits=width_bits, starts=starts, kept_below=kept_below)


def draw_blocks(blocks: BlockTable, *, size: int, entropy: Entropy) -> npt.NDArray[np.int64]:
    """Return independent draws of the distribution that was cut, three random words for each pair tried."""
    parts: list[npt.NDArray[np.int64]] = []
    missing = size
    while missing > 0:
        part = _try_draws(blocks, tries=min(_BATCH, missing + missing // 32 + 8), entropy=entropy)[:missing]
        parts.append(part)
        missing -= len(part)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _try_draws(blocks: BlockTable, *, tries: int, entropy: Entropy) -> npt.NDArray[np.int64]:
    block = draw_from_table(blocks.starts, size=tries, entropy=entropy)
    if int(block.max(initial=0)) >> (62 - blocks.width_bits):
        # Less likely than exp(−2^20); an error then, rather than noise that wrapped around.
        raise ResourceError("a noise value does not fit 64 bits.", hint="run again")
    second, third = entropy.words(tries), entropy.words(tries)
    place = ((second >> np.uint64(1)) & np.uint64((1 << blocks.width_bits) - 1)).astype(np.int64)
    negative = (second & np.uint64(1)).astype(bool)
    within = np.minimum(block, len(blocks.kept_below) - 1)
    keep = (third < blocks.kept_below[within]) & (within == block)
    for i in np.flatnonzero(~keep):
        loss = _loss(blocks.distribution, start=int(block[i]) << blocks.width_bits, place=int(place[i]))
        keep[i] = decide_event(loss, prefix=int(third[i]), entropy=entropy)
    magnitude = (block << blocks.width_bits) + place
    keep &= ~(negative & (magnitude == 0))
    kept: npt.NDArray[np.int64] = np.where(negative, -magnitude, magnitude)[keep]
    return kept


def _loss(distribution: ExponentialDecay, *, start: int, place: int) -> Fraction:
    """Return how much the exponent falls from the start of a block to a place in it."""
    fall: int = (start + place) ** distribution.power - start**distribution.power
    return distribution.rate * fall


def decide_event(loss: Fraction, *, prefix: int, entropy: Entropy) -> bool:
    """Decide an event of probability exp(−loss) by U < exp(−loss), where U begins with the word `prefix`."""
    bits = WORD_BITS
    while True:
        with precision(bits + _GUARD_BITS):
            bound = arb(2) ** bits * (-ball(loss)).exp()
            # Comparisons of balls are true only when they are certain.
            if arb(prefix + 1) <= bound:
                return True
            if arb(prefix) >= bound:
                return False
        prefix, bits = prefix << WORD_BITS | int(entropy.words(1)[0]), bits + WORD_BITS
