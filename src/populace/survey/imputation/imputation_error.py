"""Errors of estimates with missing values, from noisy sums over cells of matching columns.

Of n rows in a cell r are complete, with variance σ². Each of the others takes the mean of the k complete ones that come
next on a circle of random labels. A complete row then counts 1 + d/k times, where d has mean kρ and variance
kρ(1 + ρ), ρ = (n − r)/r, and the sum over the cell has variance nσ²·(1 + ρ + ρ/k): imputation adds nσ²·ρ·(1 + 1/k)
to what sampling does. The mean of all complete rows of the cell (k without end) adds nσ²·ρ.
Derived and simulated: docs/decisions/imputation.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats
from populace.survey.imputation.matching_cells import MergedCells
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance
from populace.survey.variance.linearization import NoisySum

_JITTERS = 128
_JITTER_SCALE = 1 / 16


@dataclass(frozen=True, kw_only=True)
class ImputationCells:
    """The groups of cells of one subpopulation: noisy numbers of rows, of complete ones, and their sums.

    `square` is None for values of 0 and 1, which are their own squares, and `value` where cells do not tell it.
    `donors` is k; None stands for all complete rows of a cell. `part` is the part of the population that was drawn.
    """

    cut: MergedCells
    every: NoisySum
    known: NoisySum
    value: NoisySum | None
    square: NoisySum | None
    donors: int | None
    part: float

    @property
    def size(self) -> float:
        """How many rows there are."""
        return float(self.every.values.sum())

    def mean_and_noise(self) -> tuple[float, NoiseTerms]:
        """Return the mean of all rows, the missing ones as the complete ones of their group, and its noise."""
        if self.value is None:
            raise TypeError("these cells do not tell the values")
        every, known, size = self.every.values, self.known.values, self.size
        means = self.value.values / known
        mean = float(every @ means) / size
        by_every, by_known = (means - mean) / size, -every * means / known / size
        noise = self._noise(self.value, every / known / size)
        if self.every is self.known:
            return mean, noise + self._noise(self.known, by_every + by_known)
        return mean, noise + self._noise(self.every, by_every) + self._noise(self.known, by_known)

    def _noise(self, table: NoisySum, weights: Floats) -> NoiseTerms:
        """Return the noise of a weighted sum of groups: every cell of a group has its own."""
        return table.terms(np.broadcast_to(weights, self.cut.sizes.shape)[self.cut.numbers])

    def _variance(self, table: NoisySum) -> Floats:
        """Return the variance of each group's noise."""
        return self.cut.sizes.astype(np.float64) * table.variance

    def spread(self, mean: float) -> SamplingVariance:
        """Return the variance of an estimate by sampling and imputation together, as noisy sums tell it."""
        tables = [self.every, self.known] + [each for each in (self.value, self.square) if each is not None]
        rng = np.random.default_rng(2026)
        moved = {
            id(table): table.values
            + rng.standard_normal((_JITTERS, len(table.values)))
            * np.sqrt(self._variance(table))
            * _JITTER_SCALE
            for table in tables
        }
        # Moved by a little of the noise only: where it is large, it would be in there twice.
        noise = np.sum(self._variances(mean, moved), axis=0).std() / _JITTER_SCALE
        value = sum(float(each[0]) for each in self._variances(mean, None))
        # Two digits: so many degrees make no difference, and their distribution is cached.
        degrees = float(f"{max(1.0, self.size - 1):.2g}")
        return SamplingVariance(value=value, degrees=degrees, noise=NoiseTerms(gaussian=float(noise) ** 2))

    def parts(self, spread: SamplingVariance, *, mean: float) -> tuple[float, float | None]:
        """Return the variance of a spread by its parts, sampling and imputation; None for the latter if noise hides it.

        It is in the sampling part then: the two together are known better than each.
        """
        sampling, imputation = (max(0.0, float(each[0])) for each in self._variances(mean, None))
        if not imputation and self.every is not self.known:
            return spread.variance, None
        share = sampling / (sampling + imputation) if sampling + imputation else 1.0
        return spread.variance * share, spread.variance * (1 - share)

    def _variances(self, mean: float, moved: dict[int, Floats] | None) -> tuple[Floats, Floats]:
        """Return the variances by sampling and by imputation, for the sums as they are or moved by noise."""

        def values_of(table: NoisySum) -> Floats:
            return table.values[None, :] if moved is None else moved[id(table)]

        every, known = values_of(self.every), np.maximum(values_of(self.known), 1.0)
        size = np.maximum(every.sum(axis=1), 1.0)
        if self.value is None:
            within = np.broadcast_to(np.array(mean * (1 - mean)), known.shape)
            whole = np.full(len(size), mean * (1 - mean))
        else:
            value = values_of(self.value)
            square = value if self.square is None else values_of(self.square)
            means, squares = value / known, square / known
            # The square of a noisy mean is too large by its noise's variance.
            noise = self._variance(self.value) / known**2
            within = (squares - means**2 + noise) * known / np.maximum(known - 1, 1.0)
            middle = (every * means).sum(axis=1) / size
            whole = (every * squares).sum(axis=1) / size - middle**2
            whole += ((every / size[:, None]) ** 2 * noise).sum(axis=1)
        again = 1.0 if self.donors is None else 1 + 1 / self.donors
        lost = every * (every - known) / known
        sampling: Floats = (1 - self.part) * whole / size
        imputation: Floats = again * (lost * within).sum(axis=1) / size**2
        return sampling, imputation
