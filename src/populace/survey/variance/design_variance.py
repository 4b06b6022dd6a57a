"""Design-based variances by linearisation: from sums of psus, from moments of strata, from replicate weights.

A statistic is a function of weighted totals (survey/variance/statistics_of_totals.py). Its gradient turns the
terms of each psu into one
score, and the scores' spread between the psus of a stratum is the variance, as R's svydesign has it: first stage with
replacement, or with the finite population left over. Rows and noisy sums take the same way; noise adds to the spread
what is known in advance, so it can be taken off again.
Source: Särndal, Swensson and Wretman 1992, sections 5.5 and 4.3; Lumley 2004.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from populace.core.errors import UsageError
from populace.survey.design.design import Design
from populace.survey.design.design_parts import LonelyPsu, ReplicateCentre, ReplicateDesign
from populace.survey.variance.statistics_of_totals import ValueAndGradient

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# What R takes for a stratum that was drawn whole.
_CENSUS_FRACTION = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VarianceEstimates:
    """Variances of the numbers of a statistic (groups × numbers).

    `spread` is the sampling variance as the sums show it, `bias` what their noise adds to it on average, and `privacy`
    the variance that the noise gives the numbers themselves.
    """

    spread: Floats
    bias: Floats
    privacy: Floats

    @property
    def sampling(self) -> Floats:
        """The sampling variance without bias, 0 where noise leaves less."""
        return np.maximum(self.spread - self.bias, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratumFactors:
    """How squares of scores, stratum by stratum, add up to a variance.

    `sizes` are the numbers of psus (or rows) that were drawn, `undrawn` the part of each stratum that was not.
    `present` says, where rows may be looked at, in which strata a subpopulation has any: only those are averaged.
    """

    sizes: Floats
    unsampled_fraction: Floats
    lonely: LonelyPsu = LonelyPsu.FAIL
    present: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, design: Design, *, sizes: Floats | None = None) -> StratumFactors:
        """Return the strata of a design; `sizes` are told where rows are drawn directly."""
        count = len(design.strata_values)
        if sizes is None:
            sizes = np.bincount(design.stratum, minlength=count).astype(np.float64)
        return cls(sizes=sizes, unsampled_fraction=design.unsampled_fraction(sizes), lonely=design.lonely)

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """Which strata show no spread: with a single psu, of a population that has more."""
        return (self.sizes > 0) & (self.sizes <= 1) & (self.unsampled_fraction > _CENSUS_FRACTION)

    @property
    def apart(self) -> npt.NDArray[np.bool_]:
        """Which strata are told from 0, not from their own mean."""
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
    >>> units.spread(np.array([1.0, 3.0, 5.0, 5.0]))   # 2/(2 − 1)·((1 − 2)² + (3 − 2)²) + 0
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

    def spread(self, scores: Floats) -> Floats:
        """Return the variance of the sum of scores (units first)."""
        return _sum_over_strata(self.strata.factors, self.squares(scores))

    def squares(self, scores: Floats) -> Floats:
        """Return for each stratum the squared distances of scores from their mean."""
        sums = self._summed(scores)
        around = sums / _as_column(np.maximum(self.strata.sizes, 1), sums.ndim)
        around[self.strata.apart] = 0.0
        return self._summed((scores - around[self.stratum]) ** 2)

    def bias(self, noise: Floats) -> Floats:
        """Return what independent noise of these variances in the scores adds to their spread on average."""
        left = np.where(self.strata.apart, 1.0, 1 - 1 / np.maximum(self.strata.sizes, 1))
        return _sum_over_strata(self.strata.factors * left, self._summed(noise))

    def variances(
        self, found: ValueAndGradient, *, sums: Floats, noise: Floats | None = None
    ) -> VarianceEstimates:
        """Return the variances of a statistic from the sums of units (units × groups × terms).

        `noise` is the variance of each sum, or anything of a shape that spreads to theirs.
        """
        spread = self.spread(np.einsum("pgk,gnk->pgn", sums, found.gradient))
        if noise is None:
            return VarianceEstimates(spread=spread, bias=np.zeros_like(spread), privacy=np.zeros_like(spread))
        told = np.broadcast_to(noise, sums.shape)
        noisy = np.einsum("pgk,gnk->pgn", told, found.gradient**2)
        return VarianceEstimates(spread=spread, bias=self.bias(noisy), privacy=noisy.sum(axis=0))

    def _summed(self, values: Floats) -> Floats:
        found = np.zeros((len(self.strata.sizes), *values.shape[1:]))
        np.add.at(found, self.stratum, values)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratumMoments:
    """Sums of terms and of their products by stratum, where rows are drawn directly: enough for the same variance.

    `sums` is strata × groups × terms, `products` strata × groups × terms × terms: Σ t·tᵀ over rows.

    >>> rows = np.array([[1.0], [3.0]])
    >>> strata = StratumFactors(sizes=np.array([2.0]), unsampled_fraction=np.ones(1))
    >>> moments = StratumMoments(strata=strata, sums=rows.sum(axis=0)[None, None], products=(rows.T @ rows)[None, None])
    >>> moments.variances(ValueAndGradient(values=np.array([[4.0]]), gradient=np.ones((1, 1, 1)))).spread
    array([[4.]])
    """

    strata: StratumFactors
    sums: Floats
    products: Floats

    def variances(self, found: ValueAndGradient, *, noise: Floats | None = None) -> VarianceEstimates:
        """Return the variances of a statistic; `noise` is the variance of each of the sums.

        Noise in the products is as often above as below: it adds nothing on average.
        """
        totals = np.einsum("hgk,gnk->hgn", self.sums, found.gradient)
        squares = np.einsum("gni,hgij,gnj->hgn", found.gradient, self.products, found.gradient)
        own = np.where(self.strata.apart, 0.0, 1 / np.maximum(self.strata.sizes, 1))
        spread = _sum_over_strata(self.strata.factors, squares - totals**2 * _as_column(own, 3))
        if noise is None:
            return VarianceEstimates(spread=spread, bias=np.zeros_like(spread), privacy=np.zeros_like(spread))
        noisy = np.einsum("hgk,gnk->hgn", np.broadcast_to(noise, self.sums.shape), found.gradient**2)
        bias = -_sum_over_strata(self.strata.factors * own, noisy)
        return VarianceEstimates(spread=spread, bias=bias, privacy=noisy.sum(axis=0))


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
