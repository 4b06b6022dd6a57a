"""A sample as noisy sums by cells, with weights that meet public totals: values of counts, and what makes them unsure.

Raking works, to first order, as a regression on the bins of all totals: a row that counts moves an estimate by its
weight times what the regression leaves unexplained (Deville and Särndal 1992). Sampling error and noise both follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.survey.calibration.contingency_table import ContingencyTable
from populace.survey.calibration.ipf import RakedTable, rake_noisy_table, sum_by_bin
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance
from populace.survey.variance.linearization import NoisySum

# Cells that do not stand out of their noise by this many deviations join others.
MIN_CELL_Z = 2.0
# Of the largest: what a regression takes to be the same as no variance at all.
PINV_TOLERANCE = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyCellSums:
    """Noisy sums of base weights, and of their squares, by the cells of a table. Equal weights are their squares."""

    sums: NoisySum
    squares: NoisySum


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedSample:
    """A sample by the cells of public totals.

    It was drawn from the population of the totals without replacement. `largest_base` is the largest base weight;
    `shrink` pulls weights towards equal ones.
    """

    table: ContingencyTable
    answer: NoisyCellSums
    largest_base: float = 1.0
    shrink: float = 0.0

    @cached_property
    def fitted(self) -> RakedTable:
        """The sample raked to the totals."""
        table = self.table
        sums = np.where(table.possible, self.answer.sums.values, 0.0)
        size = table.totals.expected.size
        whole = np.bincount(table.joined, weights=sums, minlength=size).reshape(table.totals.expected.shape)
        least = MIN_CELL_Z * self.answer.sums.terms(np.ones(1)).deviation
        return rake_noisy_table(whole, totals=table.totals, ordered=table.ordered, least=least)

    @cached_property
    def bins(self) -> Ints:
        """The bin of each cell."""
        return self.fitted.bins.ravel()[self.table.joined]

    @property
    def lost(self) -> bool:
        """Whether the whole sample is lost in noise."""
        return (
            float(self.answer.sums.values[self.table.possible].sum())
            <= MIN_CELL_Z * self.answer.sums.terms(self.table.possible).deviation
        )

    @cached_property
    def even(self) -> float:
        """The weight that everyone would have if all had the same."""
        return self.table.totals.people / float(self.fitted.sample.sum())

    @cached_property
    def weights(self) -> Floats:
        """The weight of each bin, of a base weight of 1."""
        return (1 - self.shrink) * self.fitted.weights + self.shrink * self.even

    @cached_property
    def members(self) -> Floats:
        """For each bin the parts of its population in every bin of all totals."""
        fitted = self.fitted
        columns = []
        shape = fitted.populations.shape
        for length, levels in zip(shape, np.indices(shape), strict=True):
            part = np.zeros((len(fitted.sample), length))
            np.add.at(part, (fitted.bins, levels), fitted.populations)
            columns.append(part)
        return np.hstack(columns) / fitted.totals[:, None]

    @cached_property
    def _taken(self) -> Floats:
        """How the bins of all totals are fitted to the parts of bins that count, in a regression by populations."""
        fitted, members = self.fitted, self.members
        # The normal equations are small; that bins of every set sum to the same leaves some of them without a say.
        normal = np.linalg.pinv(
            members.T @ (fitted.totals[:, None] * members), rcond=PINV_TOLERANCE, hermitian=True
        )
        return np.asarray(normal @ members.T * (fitted.totals / fitted.sample))

    @property
    def _raked(self) -> Floats:
        """The part of each bin's weight that follows the totals, and not all rows alike."""
        return (1 - self.shrink) * self.fitted.weights

    @property
    def _alike(self) -> float:
        """By how much a row beside any other lowers an estimate, as far as all have the same weight."""
        return self.shrink * self.even / float(self.fitted.sample.sum())

    def effect_beside(self, part: Floats) -> Floats:
        """Return by how much a count's own rows, so many in each bin, make a row beside them lower the estimate.

        The fit is a regression of the part of each bin that counts on the bins of all totals, weighted by populations.
        It is never written out as bins by bins, of which there can be many.
        """
        return np.asarray(self._raked * (self.members @ (self._taken @ part)) + self._alike * part.sum())

    def squared_effect_beside(self, part: Floats) -> Floats:
        """Return the same with the square of what each row in a bin lowers a row beside it by."""
        fits = np.einsum(
            "bl,lm,bm->b", self.members, (self._taken * part) @ self._taken.T, self.members, optimize=True
        )
        once = self._raked * (self.members @ (self._taken @ part))
        return np.asarray(self._raked**2 * fits + 2 * self._alike * once + self._alike**2 * part.sum())

    @property
    def own(self) -> Floats:
        """By how much a row that counts lowers the weight of others in its own bin."""
        return np.asarray(self._raked * np.einsum("bl,lb->b", self.members, self._taken) + self._alike)

    def by_bin(self, cells: Floats, *, among: Truth) -> Floats:
        """Return the sums of some cells by bin."""
        return sum_by_bin(np.where(among, cells, 0.0), bins=self.bins)


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedCount:
    """A count by the cells of a sample: noisy sums of the rows that count, `among` the cells where there can be any."""

    sample: CalibratedSample
    answer: NoisyCellSums
    among: Truth

    @cached_property
    def part(self) -> Floats:
        """What counts of each bin."""
        return self.sample.by_bin(self.answer.sums.values, among=self.among)

    @cached_property
    def outside(self) -> Floats:
        """By how much a row that does not count moves the estimate, in each bin."""
        return -self.sample.effect_beside(self.part)

    @property
    def value(self) -> float:
        """The weighted count."""
        return float(self.sample.weights @ self.part)

    @property
    def moved(self) -> float:
        """By how much shrinking the weights moved it."""
        return self.value - float(self.sample.fitted.weights @ self.part)

    @property
    def rows(self) -> float:
        """About how many rows of equal weight count."""
        sums = float(self.answer.sums.values[self.among].sum())
        squares = float(self.answer.squares.values[self.among].sum())
        return sums**2 / squares if sums > 0 and squares > 0 else 1.0

    def spread(self) -> SamplingVariance:
        """Return the sampling variance: Σ (1 − π)·(weight × what is unexplained)² over the rows.

        Noise in the fit makes rows look better explained than they are, on average by what is added here.
        """
        sample = self.sample
        possible = sample.table.possible
        squares = sample.by_bin(sample.answer.squares.values, among=possible)
        drawn = np.ones(len(squares))
        np.divide(sample.fitted.sample, sample.fitted.weights * squares, out=drawn, where=squares > 0)
        left = np.clip(1 - drawn, 0.0, 1.0)
        inside = sample.weights + self.outside
        counts, beside = left * (inside**2 - self.outside**2), left * self.outside**2
        part = sample.by_bin(self.answer.squares.values, among=self.among)
        noise = self.answer.squares.terms(np.where(self.among, counts[sample.bins], 0.0))
        noise += sample.answer.squares.terms(np.where(possible, beside[sample.bins], 0.0))
        value = float(counts @ part + beside @ squares)
        value -= self._overfitting(left * sample.weights, left * squares)
        return SamplingVariance(value=value, degrees=max(1.0, self.rows), noise=noise)

    def _overfitting(self, weights: Floats, squares: Floats) -> float:
        """Return what noise adds to the variance on average, through the fit: for the most part it takes away."""
        sample = self.sample
        noise = sample.by_bin(np.ones(len(self.among)), among=self.among)
        noise *= self.answer.sums.terms(np.ones(1)).variance
        wrong = float(squares @ sample.squared_effect_beside(noise))
        if self.answer.squares is not self.answer.sums:
            return wrong  # sums and squares have noise of their own
        return wrong - 2 * float(weights @ (sample.own * noise))

    def table_noise(self) -> NoiseTerms:
        """Return the noise of the count itself and of the weights, both by cells."""
        sample = self.sample
        own = self.answer.sums.terms(np.where(self.among, sample.weights[sample.bins], 0.0))
        return own + self.weight_noise()

    def weight_noise(self) -> NoiseTerms:
        """Return the noise that weights bring, which they have from the table."""
        sample = self.sample
        return sample.answer.sums.terms(np.where(sample.table.possible, self.outside[sample.bins], 0.0))

    def population_noise(self) -> NoiseTerms:
        """Return the noise that populations of bins bring where the rest is counted exactly."""
        sample = self.sample
        moved = (self.outside + sample.weights * self.part / sample.fitted.sample)[sample.bins]
        return sample.answer.sums.terms(np.where(sample.table.possible, moved, 0.0))
