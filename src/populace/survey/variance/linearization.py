"""The noisy totals of a query: the statistic that they give, the noise in it, and how much another sample differs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.privacy.accounting.mechanisms import Noise
from populace.survey.design.design_parts import ReplicateDesign
from populace.survey.queries.cells import Axis, DesignUnits
from populace.survey.queries.queries import Statistic
from populace.survey.queries.sum_questions import SumQuestion
from populace.survey.sums import Sum
from populace.survey.survey_oracle import SumBatch, SurveyOracle
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance
from populace.survey.variance.design_variance import (
    SampledUnits,
    StratumFactors,
    moment_variance,
    replicate_variance,
)
from populace.survey.variance.statistics_of_totals import ValueAndGradient

# So many rows of a stratum at least are taken to be there, however noise has it.
MIN_STRATUM_ROWS = 2.0
# A variance that is known.
_MANY_DEGREES = 1e6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisySum:
    """A sum as it was answered: numbers in its own units, and the noise of each of them."""

    values: Floats
    step: float
    mechanism: Noise

    @property
    def variance(self) -> float:
        """The variance of the noise of each number."""
        return float(self.mechanism.variance) * self.step**2

    def terms(self, weights: npt.ArrayLike) -> NoiseTerms:
        """Return the noise of a weighted sum of its numbers."""
        return NoiseTerms.of(self.mechanism, weights=np.asarray(weights) * self.step)


Answers = Mapping[Sum, NoisySum]


def ask_sums(oracle: SurveyOracle, batches: Sequence[SumBatch]) -> list[tuple[Sum, NoisySum]]:
    """Ask for batches of sums, and return each with its answer, from steps to numbers."""
    # Sums that no float holds are refused by the oracle.
    answers = oracle.sum_batches(batches)
    asked = [(each, float(each.step), mechanism) for sums, mechanism in batches for each in sums]
    return [
        (each, NoisySum(values=counts.astype(np.float64) * step, step=step, mechanism=mechanism))
        for (each, step, mechanism), counts in zip(asked, answers, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryTotals:
    """The totals of a query (groups × cells), the noise behind them, and the statistic that they give.

    `weights` says by how much each number of the answer counts (units × groups): noise of a cell is the sum over units.
    """

    question: SumQuestion
    answers: Answers
    totals: Floats
    weights: Floats
    found: ValueAndGradient
    unsure: float = 0.0
    imputation: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(
        cls,
        question: SumQuestion,
        answers: Answers,
        *,
        unsure: float = 0.0,
        imputation: tuple[float, float] = (0.0, 0.0),
    ) -> QueryTotals:
        """Return the totals of a query.

        `unsure` is the variance of factors of weights, times what they multiply; `imputation` what imputed values add
        to a sampling variance, as a part of it, and to that of a total, of its weighted squares.
        """
        cells, answer = question.cells, answers[question.sum]
        totals = np.einsum("u,ugk->gk", cells.weights, _arrange(question, cells, answer.values))
        here = _arrange(question, cells, np.ones_like(answer.values))[:, :, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = question.statistic(totals)
        return cls(
            question=question,
            answers=answers,
            totals=totals,
            weights=cells.weights[:, None] * here,
            found=found,
            unsure=unsure,
            imputation=imputation,
        )

    def noise(self, gradient: Floats, group: int) -> NoiseTerms:
        """Return the privacy noise of a number with this gradient by the cells of a group."""
        own = self.answers[self.question.sum].terms(np.outer(self.weights[:, group], gradient))
        if not self.unsure:
            return own
        # By Cauchy and Schwarz: a cell's sum of scores is at most what it weighs, times their squares, under the root.
        return own + NoiseTerms(gaussian=self.unsure * self._sum_squares(gradient, group))

    def size(self, group: int) -> tuple[float, float]:
        """Return what a group's numbers are divided by, and the deviation of its noise."""
        own = self.totals[group]
        if self.question.query.statistic is not Statistic.RATIO:
            ones = np.ones_like(own)
            return float(own.sum()), self.noise(ones, group).deviation
        # The number below the line of a ratio, whose slopes do not depend on where it is.
        below = self.question.divisor
        return abs(float(below @ own)), self.noise(below, group).deviation

    def variance_below(self, gradient: Floats, group: int, *, below: Sum) -> SamplingVariance:
        """Return the sampling variance of the share of rows below a quantile, from what psus have below it."""
        size = float(self.totals[group].sum())
        found = self._between_psus(below, np.ones(1) / size, group, axes=self.question.by)
        return self._add_imputation(self._bound_by_effect(found, gradient, group), gradient, group)

    def spread(self, gradient: Floats, group: int) -> SamplingVariance | None:
        """Return the variance of a number with this gradient, by sampling and imputation, or None where it has none."""
        question = self.question
        if not question.weighted:
            value = self.imputation[0] * self._sum_squares(gradient, group)
            return SamplingVariance(value=value, degrees=_MANY_DEGREES) if value else None
        if question.design.replicates is not None:
            found = self._between_replicates(question.design.replicates, gradient, group)
        elif question.design.clustered:
            found = self._between_psus(question.psu_sum, gradient, group)
        else:
            return self._add_imputation(self._between_rows(gradient, group), gradient, group)
        return self._add_imputation(self._bound_by_effect(found, gradient, group), gradient, group)

    def _add_imputation(self, found: SamplingVariance, gradient: Floats, group: int) -> SamplingVariance:
        """Return a sampling variance with what imputation adds to it."""
        part, of_totals = self.imputation
        if not part:
            return found
        found = found.times(1 + part)
        if not of_totals or not self.question.query.statistic.is_total:
            return found
        return replace(found, value=found.value + of_totals * self._sum_squares(gradient, group))

    def _bound_by_effect(self, found: SamplingVariance, gradient: Floats, group: int) -> SamplingVariance:
        """Return a variance between units with what to expect of it, and at most, by design effects."""
        found = replace(found, expected=self._expect_variance(gradient, group))
        effect = self.question.design.max_design_effect
        if effect is None or not self.question.squared:
            return found
        return replace(found, most=float(effect) * self._between_rows(gradient, group).draws())

    def _expect_variance(self, gradient: Floats, group: int) -> tuple[float, float] | None:
        """Return the median of a variance between units and the deviation of its logarithm, or None if noise hides it.

        It is that of rows drawn directly, as the cells of the estimate and the squares of all weights tell it, times a
        design effect.
        """
        question, effect = self.question, self.question.design.design_effect
        each = max(map(float, question.design.stratum_base))
        if question.weight_squares is not None:
            weights, squares = (self.answers[asked] for asked in question.weight_squares)
            whole, square = float(weights.values), float(squares.values)
            if whole <= 4 * math.sqrt(weights.variance) or square <= 4 * math.sqrt(squares.variance):
                return None
            each = square / whole
        rows = self._sum_squares(gradient, group)
        if not rows > 0:
            return None
        return float(effect.median) * each * rows, effect.log_deviation(question.query.statistic.is_total)

    def _sum_squares(self, gradient: Floats, group: int) -> float:
        """Return the weighted sum of squared scores of a group's rows, at least as much as its noise."""
        form = self.question.expected_form(gradient)
        noise = self.answers[self.question.sum].terms(np.outer(self.weights[:, group], form))
        return max(abs(float(form @ self.totals[group])), noise.deviation)

    def _between_psus(
        self, asked: Sum, gradient: Floats, group: int, *, axes: Sequence[Axis] | None = None
    ) -> SamplingVariance:
        """Compare psus: from their noisy sums, less what the noise adds."""
        question, design, answer = self.question, self.question.design, self.answers[asked]
        cells, units, degrees = question.psus, SampledUnits.of(design), float(design.degrees or 1)
        # Below a quantile, what rows of a psu weigh is in the sum already.
        counted = axes is not None and question.weights_in_sums
        weights = np.ones_like(cells.weights) if counted else cells.weights
        sums = weights[:, None] * _arrange(question, cells, answer.values, axes=axes)[:, group]
        noise = weights**2 * answer.variance * float(gradient @ gradient)
        each = units.strata.factors[units.stratum] * noise
        return SamplingVariance(
            value=float(units.variance(sums @ gradient)),
            bias=float(units.bias(noise)),
            degrees=degrees,
            bias_degrees=_effective_number(each) * degrees / len(each),
        )

    def _between_rows(self, gradient: Floats, group: int) -> SamplingVariance:
        """Compare rows of a stratum, or all rows where units were drawn: from noisy sums of squares."""
        question, design, cells = self.question, self.question.design, self.question.cells
        sizes = np.maximum(cells.arrange(self.answers[question.rows].values, ()), MIN_STRATUM_ROWS)
        direct = not design.clustered and design.replicates is None
        # Without a finite population where units were drawn: what rows are told apart by is not what was drawn from.
        strata = (
            StratumFactors.of(design, sizes=sizes)
            if direct
            else StratumFactors(sizes=sizes, unsampled_fraction=np.ones_like(sizes))
        )
        base, answer, squares = cells.weights, self.answers[question.sum], self.answers[question.squares]
        form = question.square_form(gradient)
        sums = _arrange(question, cells, answer.values)[:, group]
        found = _arrange(question, cells, squares.values)[:, group]
        value, bias = moment_variance(
            strata,
            sums=base * (sums @ gradient),
            squares=base**2 * (found @ form),
            noise=base**2 * answer.variance * float(gradient @ gradient),
        )
        return SamplingVariance(
            value=float(value),
            bias=float(bias),
            noise=squares.terms(np.outer(strata.factors * base**2, form)),
            degrees=max(float(sizes.sum()) - len(sizes), 1.0),
        )

    def _between_replicates(
        self, replicates: ReplicateDesign, gradient: Floats, group: int
    ) -> SamplingVariance:
        """Compare replicates, less what the noise of their sums adds."""
        question, cells = self.question, DesignUnits.whole(self.question.design)
        answers = [self.answers[each] for each in question.replicate_sums]
        scores = np.array(
            [gradient @ _arrange(question, cells, each.values).sum(axis=0)[group] for each in answers]
        )
        noise = np.array([each.variance for each in answers]) * float(gradient @ gradient)
        # The form is quadratic, so independent noise adds the sum of its values at each replicate's noise alone.
        alone = np.diag(np.sqrt(noise))
        bias = replicate_variance(np.zeros(()), replicates=alone, design=replicates).sum()
        own = np.array(gradient @ self.totals[group])
        degrees = float(len(scores) - 1)
        return SamplingVariance(
            value=float(replicate_variance(own, replicates=scores, design=replicates)),
            bias=float(bias),
            degrees=degrees,
            bias_degrees=_effective_number(noise) * degrees / len(noise),
        )


def _effective_number(variances: Floats) -> float:
    """Return how many equal variances have the same sum and the same sum of squares.

    >>> _effective_number(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    return float(variances.sum() ** 2 / max(float((variances**2).sum()), 1e-300))


def _arrange(
    question: SumQuestion,
    cells: DesignUnits,
    values: Floats,
    *,
    axes: Sequence[Axis] | None = None,
) -> Floats:
    """Return an answer as units × groups × cells; with `axes`, it is by these alone, and each group has one cell."""
    groups = int(np.prod([axis.levels for axis in question.by], dtype=np.int64))
    found = cells.arrange(values, question.axes if axes is None else axes)
    return found.reshape(len(cells.weights), groups, -1)
