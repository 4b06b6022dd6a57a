"""Exact integer noise and exact private choices, drawn from random words; no float decides an outcome."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from populace.core.array_types import Ints
from populace.core.errors import UsageError
from populace.privacy.noise.block_rejection import build_blocks, draw_blocks
from populace.privacy.noise.distributions import (
    ExponentialDecay,
    ScoreLevels,
    gaussian_distribution,
    laplace_distribution,
)
from populace.privacy.noise.entropy import Entropy
from populace.privacy.noise.table_inversion import (
    WORD_BITS,
    Thresholds,
    draw_from_table,
    noise_table,
    resolve_tie,
)

# Up to here a table has at most 400,000 entries and takes half a second; beyond, blocks are used.
MAX_TABLED_VARIANCE = 20_000**2
MAX_TABLED_SCALE = 4_000


def draw_discrete_gaussian(variance: Fraction, *, size: int, entropy: Entropy) -> Ints:
    """Return independent draws of the discrete Gaussian distribution: P[z] ∝ exp(−z²/(2·variance)), exactly.

    Proof: docs/proofs/table-inversion.md

    >>> from populace.privacy.noise.entropy import RehearsalEntropy
    >>> draw_discrete_gaussian(Fraction(9), size=8, entropy=RehearsalEntropy(1))
    array([...])
    """
    tabled = variance <= MAX_TABLED_VARIANCE
    return _draw(gaussian_distribution(variance), tabled=tabled, size=size, entropy=entropy)


def draw_discrete_laplace(scale: Fraction, *, size: int, entropy: Entropy) -> Ints:
    """Return independent draws of the discrete Laplace distribution: P[z] ∝ exp(−|z|/scale), exactly.

    Proof: docs/proofs/table-inversion.md

    >>> from populace.privacy.noise.entropy import RehearsalEntropy
    >>> draw_discrete_laplace(Fraction(3), size=8, entropy=RehearsalEntropy(1))
    array([...])
    """
    tabled = scale <= MAX_TABLED_SCALE
    return _draw(laplace_distribution(scale), tabled=tabled, size=size, entropy=entropy)


def draw_exponential_counts(counts: Ints, *, scale: Fraction, most: int, entropy: Entropy) -> Ints:
    """Return for every count x an a of 0 … most with P[a] ∝ exp(−|a − x|/scale), exactly.

    Laplace noise is drawn again where the sum leaves the range; an x above `most` is drawn as `most` is.
    Proof: docs/proofs/exponential-histogram.md

    >>> from populace.privacy.noise.entropy import RehearsalEntropy
    >>> draw_exponential_counts(np.array([0, 7]), scale=Fraction(2), most=3, entropy=RehearsalEntropy(1))
    array([...])
    """
    if most < scale:
        raise UsageError(f"counts up to {most} are below their noise.", hint="give a scale of at most `most`")
    inside = np.clip(counts, 0, most).ravel()
    found = np.full(inside.size, -1, dtype=np.int64)
    waiting = np.arange(inside.size)
    while waiting.size:
        drawn = inside[waiting] + draw_discrete_laplace(scale, size=waiting.size, entropy=entropy)
        fits = (drawn >= 0) & (drawn <= most)
        found[waiting[fits]] = drawn[fits]
        waiting = waiting[~fits]
    return found.reshape(counts.shape)


def draw_exponential_choice(scores: Ints, *, rate: Fraction, entropy: Entropy) -> int:
    """Return index i with probability proportional to exp(rate·scores[i]), exactly.

    One uniform number picks the level of the score, another the candidate among those with that score.
    McSherry and Talwar 2007. Proof: docs/proofs/table-inversion.md

    >>> from populace.privacy.noise.entropy import RehearsalEntropy
    >>> draw_exponential_choice(np.array([0, 10**9, 5]), rate=Fraction(1, 2), entropy=RehearsalEntropy(1))
    1
    """
    if scores.ndim != 1 or scores.dtype != np.int64 or not len(scores):
        raise UsageError("a choice needs one whole number per candidate.", hint="give a row of int64 scores")
    heights, sizes = np.unique(scores, return_counts=True)
    distribution = ScoreLevels(
        rate=rate, heights=tuple(heights[::-1].tolist()), sizes=tuple(sizes[::-1].tolist())
    )
    # Its table is not kept between calls, as the tables of noise are: scores are private.
    level = resolve_tie(
        lambda bits: Thresholds(distribution, bits=bits), prefix=0, bits=0, step=WORD_BITS, entropy=entropy
    )
    members = np.flatnonzero(scores == distribution.heights[level])
    return int(members[entropy.below(len(members))])


def _draw(distribution: ExponentialDecay, *, tabled: bool, size: int, entropy: Entropy) -> Ints:
    if size < 0:
        raise UsageError(f"asked for {size} noise values.", hint="ask for 0 or more")
    if tabled:
        return draw_from_table(noise_table(distribution), size=size, entropy=entropy)
    return draw_blocks(build_blocks(distribution), size=size, entropy=entropy)
