"""Noise as the barrier sees it: add it to integers, or let it pick among scores."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from populace.marginals import Counts
from populace.privacy.entropy import Entropy
from populace.privacy.mechanisms import DiscreteGaussian, Noise
from populace.privacy.samplers import discrete_gaussian, discrete_laplace, exponential_choice


class NoiseSource(Protocol):
    """Where noise comes from. `secret` is False when it could be repeated, as in rehearsals and replays."""

    @property
    def secret(self) -> bool: ...

    def add(self, exact: Counts, *, law: Noise) -> Counts:
        """Return the counts with independent noise of this law in every cell."""
        ...

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Return an index, i with probability proportional to exp(rate · scores[i])."""
        ...


class ExactNoise:
    """Integer noise drawn exactly from a source of random words."""

    __slots__ = ("_entropy",)

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    @property
    def secret(self) -> bool:
        """Whether the words come from the operating system's secret randomness."""
        return self._entropy.secret

    def add(self, exact: Counts, *, law: Noise) -> Counts:
        """Return the counts with independent noise of this law in every cell."""
        if isinstance(law, DiscreteGaussian):
            drawn = discrete_gaussian(law.variance, size=exact.size, entropy=self._entropy)
        else:
            drawn = discrete_laplace(law.scale, size=exact.size, entropy=self._entropy)
        return exact + drawn.reshape(exact.shape)

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Return an index, i with probability proportional to exp(rate · scores[i])."""
        return exponential_choice(scores, rate=rate, entropy=self._entropy)
