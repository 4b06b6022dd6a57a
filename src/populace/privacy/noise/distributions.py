"""The distribution functions of our noise and choices, as balls at any number of bits.

`ExponentialDecay` holds the discrete Gaussian and Laplace distributions and their one-sided forms, `ScoreLevels` the
exponential mechanism.
Proof: docs/proofs/table-inversion.md
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, islice, pairwise, repeat
from math import isqrt
from operator import mul
from typing import Literal

from flint import arb

from populace.core.errors import UsageError
from populace.privacy.accounting.interval_arithmetic import ball, precision

# A little above ln 2: exp(−0.7·b) < 2^−b.
_LN_2_ABOVE = Fraction(7, 10)

# Above this the sum of a count and its noise could come near 2^63.
MAX_SCALE = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialDecay:
    """P[k] ∝ w_k = exp(−rate·|k|^power), on all whole numbers or only on those from 0.

    >>> distribution = ExponentialDecay(rate=Fraction(1), power=1, symmetric=False)
    >>> print(distribution.balls(bits=2, guard=64)[0])  # 4·F(0) = 4·(1 − 1/e)
    [2.52848223531423 +/- ...]
    """

    rate: Fraction
    power: Literal[1, 2]
    symmetric: bool

    @property
    def scale(self) -> int:
        """About how far the values spread: 1/rate, or its root, rounded down."""
        return int(1 / self.rate) if self.power == 1 else isqrt(int(1 / (2 * self.rate)))

    def tail_cutoff(self, bits: int) -> int:
        """Return some k with P[more than k] ≤ 2^−bits.

        w_{i+j} ≤ w_i·w_j, so P[more than k] ≤ w_{k+1} (with equality for one-sided power 1).
        """
        least = _LN_2_ABOVE * bits / self.rate  # (k + 1)^power must not be less
        return _ceil(least) - 1 if self.power == 1 else isqrt(_ceil(least) - 1)

    def balls(self, *, bits: int, guard: int) -> Sequence[arb]:
        """Return balls around 2^bits·F(k) for 0 ≤ k < tail_cutoff(bits), computed with guard bits more.

        The weights follow w_{k+1} = w_k·r_k with r_{k+1} = r_k·exp(−2·rate), or r constant for power 1.
        The sum R of the weights after the last one computed, w_n, obeys R ≤ w_{n+1}·(S_n + R), S_n ≤ n + 1.
        """
        count = self.tail_cutoff(bits)
        last = max(self.tail_cutoff(bits + guard), count + 1)
        with precision(bits + guard + 2 * last.bit_length()):
            first = (-ball(self.rate)).exp()
            step = first * first if self.power == 2 else arb(1)
            ratios = accumulate(repeat(step, last), mul, initial=first)
            weights = list(accumulate(ratios, mul, initial=arb(1)))
            beyond = weights.pop()
            rest = arb(0).union(beyond * (last + 1) / (1 - beyond))
            tails = list(accumulate(reversed(weights), initial=rest))  # Σ of weights after n, n − 1, …, 0, −1
            total = tails.pop()
            scale = arb(2) ** bits / (2 * total - 1 if self.symmetric else total)
            whole = arb(2) ** bits
            return [whole - tail * scale for tail in islice(reversed(tails), count)]


@dataclass(frozen=True, kw_only=True)
class ScoreLevels:
    """P[k] ∝ sizes[k]·exp(rate·heights[k]), heights strictly falling: the exponential mechanism.

    Candidates with the same score form one level, so that no sum of probabilities is a round number
    (Lindemann–Weierstrass) and every threshold can be decided.
    """

    rate: Fraction
    heights: tuple[int, ...]
    sizes: tuple[int, ...]

    symmetric = False

    def __post_init__(self) -> None:
        _check_exact(self.rate, name="rate of a choice")
        if not self.heights or any(a <= b for a, b in pairwise(self.heights)):
            raise UsageError(
                "the levels of a choice do not fall.", hint="give each height once, highest first"
            )
        if len(self.sizes) != len(self.heights) or min(self.sizes) < 1:
            raise UsageError("a level of a choice is empty.", hint="give each level at least one candidate")

    @cached_property
    def _depths(self) -> list[int]:
        top = self.heights[0]
        return [top - height for height in self.heights]

    def tail_cutoff(self, bits: int) -> int:
        """Return some k with P[more than k] ≤ 2^−bits.

        N candidates at depth d or more below the best have together at most N·exp(−rate·d).
        """
        depth = _ceil(_LN_2_ABOVE * (bits + sum(self.sizes).bit_length()) / self.rate)
        return bisect_left(self._depths, depth) - 1

    def balls(self, *, bits: int, guard: int) -> Sequence[arb]:
        """Return balls around 2^bits·F(k) for 0 ≤ k < tail_cutoff(bits), computed with guard bits more."""
        last = self.tail_cutoff(bits + guard)
        depths, sizes = self._depths[: last + 1], self.sizes[: last + 1]
        with precision(bits + guard + 2 * len(depths).bit_length()):
            fall = -ball(self.rate)
            sums = list(
                accumulate((fall * depth).exp() * size for depth, size in zip(depths, sizes, strict=True))
            )
            total = sums[-1]
            if last + 1 < len(self.heights):
                total += arb(0).union((fall * self._depths[last + 1]).exp() * sum(self.sizes))
            scale = arb(2) ** bits / total
            return [scale * partial for partial in islice(sums, self.tail_cutoff(bits))]


# A distribution on whole numbers that starts at 0, or is symmetric about 0.
Distribution = ExponentialDecay | ScoreLevels


def gaussian_distribution(variance: Fraction) -> ExponentialDecay:
    """Return the discrete Gaussian distribution: P[z] ∝ exp(−z²/(2·variance)).

    Canonne, Kamath and Steinke 2020.
    """
    exact = _check_exact(variance, name="noise variance", largest=MAX_SCALE**2)
    return ExponentialDecay(rate=1 / (2 * exact), power=2, symmetric=True)


def laplace_distribution(scale: Fraction) -> ExponentialDecay:
    """Return the discrete Laplace distribution: P[z] ∝ exp(−|z|/scale).

    Ghosh, Roughgarden and Sundararajan 2009 (the geometric mechanism).
    """
    exact = _check_exact(scale, name="noise scale", largest=MAX_SCALE)
    return ExponentialDecay(rate=1 / exact, power=1, symmetric=True)


def _check_exact(number: object, *, name: str, largest: int | None = None) -> Fraction:
    if isinstance(number, bool) or not isinstance(number, Fraction | int):
        raise UsageError(f"the {name} is a {type(number).__name__}.", hint="give a Fraction")
    if number <= 0:
        raise UsageError(f"the {name} is {number}.", hint="give a number above 0")
    if largest is not None and number > largest:
        raise UsageError(
            f"the {name} is above 2^{largest.bit_length() - 1}; noisy counts might not fit 64 bits.",
            hint="raise epsilon or ask for fewer answers",
        )
    return Fraction(number)


def _ceil(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)
