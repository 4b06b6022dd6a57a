"""The noise of simulations: repeatable noise of the real mechanisms, or none at all. Never for a release."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from populace.core.marginals import Counts
from populace.privacy.accounting.mechanisms import ExponentialCount, Noise, PartitionSelection
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import Bound, ExactNoise, NoiseSource, to_key
from populace.privacy.smooth.smooth_noise import SmoothNoise


class NoNoise:
    """Answers as they are: what a method would give if nothing had to be protected.

    The barrier takes it for a rehearsal, as it does everything but the noise of the operating system.
    """

    def add(self, exact: Counts, *, mechanism: Noise | ExponentialCount) -> Counts:
        """Return the counts as they are."""
        del mechanism
        return exact

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Return the best choice."""
        del rate
        return int(np.argmax(scores))

    def reveal(self, keys: Any, counts: Counts, *, mechanism: PartitionSelection) -> Mapping[Any, int]:
        """Return every key that occurs, with its count."""
        del mechanism
        return {to_key(keys[int(place)]): int(counts[place]) for place in np.flatnonzero(counts > 0)}

    def smooth(self, exact: Fraction, bound: Bound, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return the number, rounded to the lattice."""
        del bound, mechanism
        return lattice * round(exact / lattice)


def make_noise(seed: int | None) -> NoiseSource:
    """Return repeatable noise of a seed, or no noise without one.

    >>> make_noise(None).add(np.array([3, 4]), mechanism=None).tolist()
    [3, 4]
    """
    return NoNoise() if seed is None else ExactNoise(RehearsalEntropy(seed))
