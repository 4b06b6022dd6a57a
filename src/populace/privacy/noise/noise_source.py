"""Noise as the barrier sees it: add it to integers, let it pick among scores, or let it follow a private bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from flint import arb

from populace.core.marginals import Counts
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    ExponentialCount,
    Noise,
    PartitionSelection,
)
from populace.privacy.noise.entropy import Entropy, SystemEntropy
from populace.privacy.noise.samplers import (
    draw_discrete_gaussian,
    draw_discrete_laplace,
    draw_exponential_choice,
    draw_exponential_counts,
)
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.privacy.smooth.smooth_sampler import draw_smooth_answer

# Encloses a positive number at the working precision.
Bound = Callable[[], arb]


class NoiseSource(Protocol):
    """Where noise comes from: the operating system, a rehearsal, or the transcript of a replay."""

    def add(self, exact: Counts, *, mechanism: Noise | ExponentialCount) -> Counts:
        """Return the counts with independent noise of this distribution in every cell."""

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Return an index, i with probability proportional to exp(rate · scores[i])."""

    def reveal(self, keys: Any, counts: Counts, *, mechanism: PartitionSelection) -> Mapping[Any, int]:
        """Return the keys, sorted as they are given, whose count with noise exceeds the threshold, and that sum."""

    def smooth(self, exact: Fraction, bound: Bound, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return a number with noise of this distribution that follows a private bound, rounded to a public lattice."""


class ExactNoise:
    """Integer noise drawn exactly from a source of random words."""

    __slots__ = ("_entropy",)

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    @property
    def entropy(self) -> Entropy:
        """Where its random words come from."""
        return self._entropy

    def add(self, exact: Counts, *, mechanism: Noise | ExponentialCount) -> Counts:
        """Return the counts with independent noise of this distribution in every cell."""
        if isinstance(mechanism, ExponentialCount):
            return draw_exponential_counts(
                exact, scale=mechanism.scale, most=mechanism.most, entropy=self._entropy
            )
        return exact + self._draw(mechanism, size=exact.size).reshape(exact.shape)

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Return an index, i with probability proportional to exp(rate · scores[i])."""
        return draw_exponential_choice(scores, rate=rate, entropy=self._entropy)

    def reveal(self, keys: Any, counts: Counts, *, mechanism: PartitionSelection) -> Mapping[Any, int]:
        """Return the keys whose count with noise exceeds the threshold, and that sum.

        `keys` is a row of texts, or a table with a row of codes for every key; of those that stay below nothing is
        kept. One that does not occur has no place.
        """
        noisy = counts + self._draw(mechanism.noise, size=counts.size)
        selected = np.flatnonzero((counts > 0) & (noisy > mechanism.threshold))
        return {to_key(keys[int(place)]): int(noisy[place]) for place in selected}

    def smooth(self, exact: Fraction, bound: Bound, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return a number with noise of this distribution that follows a private bound, rounded to a public lattice."""
        return draw_smooth_answer(
            exact, bound=bound, mechanism=mechanism, lattice=lattice, entropy=self._entropy
        )

    def _draw(self, mechanism: Noise, *, size: int) -> Counts:
        if isinstance(mechanism, DiscreteGaussian):
            return draw_discrete_gaussian(mechanism.variance, size=size, entropy=self._entropy)
        return draw_discrete_laplace(mechanism.scale, size=size, entropy=self._entropy)


def to_key(held: Any) -> str | tuple[int, ...]:
    """Return a key as it is released: a text, or the codes of a row."""
    return tuple(held.tolist()) if isinstance(held, np.ndarray) else str(held)


def is_secret(source: NoiseSource) -> bool:
    """Say whether noise is exact and drawn from the operating system; everything else is a rehearsal.

    Decided by the very types, not by what a source says of itself: nothing can pass for secret by claiming it.
    """
    return type(source) is ExactNoise and type(source.entropy) is SystemEntropy
