"""Design-based variances by linearisation: from sums of psus, from moments of strata, from replicate weights.

A statistic is a function of weighted totals (statistics_of_totals.py). Its gradient turns the terms of each psu into
one score, and how the scores of a stratum's psus differ is the variance, as R's svydesign has it: first stage with
replacement, or with a finite population correction. Rows and noisy sums go the same way; noise adds to the variance
what is known in advance, so that it can be taken off again.
Source: Särndal, Swensson and Wretman 1992, sections 5.5 and 4.3; Lumley 2004.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import UsageError
from populace.survey.design.design import Design
from populace.survey.design.design_parts import LonelyPsu, ReplicateCentre, ReplicateDesign

# What R takes for a stratum that was drawn whole.
_CENSUS_FRACTION = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratumFactors:
    """How squares of scores, stratum by stratum, add up to a variance.

    `sizes` are the numbers of psus (or rows) that were drawn, `unsampled_fraction` the part of each stratum that was
    not. `present` says, where rows may be looked at, in which strata a subpopulation has any: only those are averaged.
    """

    sizes: Floats
    unsampled_fraction: Floats
    lonely: LonelyPsu = LonelyPsu.FAIL
    present: Truth | None = None

    @classmethod
    def of(cls, design: Design, *, sizes: Floats | None = None) -> StratumFactors:
        """Return the strata of a design; `sizes` are given where rows are drawn directly."""
        count = len(design.strata_values)
        if sizes is None:
            sizes = np.bincount(design.stratum, minlength=count).astype(np.float64)
        return cls(sizes=sizes, unsampled_fraction=design.unsampled_fraction(sizes), lonely=design.lonely)

    @property
    def alone(self) -> Truth:
        """Which strata show no spread: with a single psu, of a population that has more."""
        return (self.sizes > 0) & (self.sizes <= 1) & (self.unsampled_fraction > _CENSUS_FRACTION)

    @property
    def apart(self) -> Truth:
        """Which strata are compared with 0, not from their own mean."""
        return (self.sizes <= 1) & (self.lonely is LonelyPsu.ADJUST)

    @property
    def factors(self) -> Floats:
        """What the squares of each stratum count: (1 − f)·n/(n − 1), all of them more where some are left out."""
        free = np.where(self.sizes > 1, self.sizes / np.maximum(self.sizes - 1, 1e-9), 1.0)
        factors = np.where(self.unsampled_fraction > _CENSUS_FRACTION, self.unsampled_fraction * free, 0.0)
        if not self.alone.any() or self.lonely is LonelyPsu.ADJUST:
            return factors
        if self.lonely is LonelyPsu.AVERAGE:
            present = np.ones_like(self.alone) if self.present is None else self.present
            known = int((present & ~self.alone).sum())
            # Where no stratum tells a variance, nobody knows it.
            whole = present.sum() / known if known else np.nan
            return np.where(self.alone & (known > 0), 0.0, factors * whole)
        if self.lonely is LonelyPsu.FAIL:
            raise UsageError(
                "a stratum has one psu, or one row, which shows no variance.",
                hint='choose lonely = "adjust", "average" or "remove", or join strata',
            )
        return np.where(self.alone, 0.0, factors)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledUnits:
    """Units that were drawn (psus, or rows themselves), each in a stratum.

    >>> units = SampledUnits(stratum=np.array([0, 0, 1, 1]), strata=StratumFactors(sizes=np.full(2, 2.0),
    ... unsampled_fraction=np.ones(2)))
    >>> units.variance(np.array([1.0, 3.0, 5.0, 5.0]))   # 2/(2 − 1)·((1 − 2)² + (3 − 2)²) + 0
    array(4.)
    """

    stratum: Ints
    strata: StratumFactors

    @classmethod
    def of(cls, design: Design) -> SampledUnits:
        """Return the psus of a design.

        Where rows were drawn within them, sums of psus cannot tell that stage apart: then no finite population is taken
        off, which errs on the safe side.
        """
        strata = StratumFactors.of(design)
        if design.fpc_within is not None:
            strata = replace(strata, unsampled_fraction=np.ones_like(strata.unsampled_fraction))
        return cls(stratum=design.stratum, strata=strata)

    def variance(self, scores: Floats) -> Floats:
        """Return the variance of the sum of scores (units first)."""
        return _sum_over_strata(self.strata.factors, self.squares(scores))

    def squares(self, scores: Floats) -> Floats:
        """Return for each stratum the squared distances of scores from their mean."""
        sums = self._sum_by_stratum(scores)
        around = sums / _as_column(np.maximum(self.strata.sizes, 1), sums.ndim)
        around[self.strata.apart] = 0.0
        return self._sum_by_stratum((scores - around[self.stratum]) ** 2)

    def bias(self, noise: Floats) -> Floats:
        """Return what independent noise of these variances in the scores adds to their variance on average."""
        left = np.where(self.strata.apart, 1.0, 1 - 1 / np.maximum(self.strata.sizes, 1))
        return _sum_over_strata(self.strata.factors * left, self._sum_by_stratum(noise))

    def _sum_by_stratum(self, values: Floats) -> Floats:
        found = np.zeros((len(self.strata.sizes), *values.shape[1:]))
        np.add.at(found, self.stratum, values)
        return found


def moment_variance(
    strata: StratumFactors, *, sums: Floats, squares: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Return the variance of the sum of scores, and its bias, from their sums and sums of squares by stratum.

    That is enough where rows are drawn directly. `noise` is the variance of each sum; noise in the squares is as often
    above as below, and adds nothing on average.

    >>> strata = StratumFactors(sizes=np.array([2.0]), unsampled_fraction=np.ones(1))
    >>> moment_variance(strata, sums=np.array([4.0]), squares=np.array([10.0]), noise=np.zeros(1))[0]
    array(4.)
    """
    own = np.where(strata.apart, 0.0, 1 / np.maximum(strata.sizes, 1))
    bias = -_sum_over_strata(strata.factors * own, noise)
    return _sum_over_strata(strata.factors, squares - sums**2 * _as_column(own, sums.ndim)), bias


def replicate_variance(estimate: Floats, *, replicates: Floats, design: ReplicateDesign) -> Floats:
    """Return the variance of an estimate from those of replicate weights (replicates first).

    >>> two = ReplicateDesign(columns=("W1", "W2"), type="BRR")
    >>> float(replicate_variance(np.array(5.0), replicates=np.array([4.0, 6.0]), design=two))
    1.0
    """
    scales = np.array([float(each) for each in design.rscales])
    around = estimate if design.around is ReplicateCentre.ESTIMATE else replicates[scales > 0].mean(axis=0)
    squares: Floats = np.tensordot(scales, (replicates - around) ** 2, axes=1)
    return float(design.scale or 1) * squares


def _sum_over_strata(factors: Floats, squares: Floats) -> Floats:
    """Return the sum over strata."""
    return np.asarray(np.tensordot(factors, squares, axes=1))


def _as_column(values: Floats, dimensions: int) -> Floats:
    return values.reshape(-1, *(1,) * (dimensions - 1))
