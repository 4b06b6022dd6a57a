"""The noisy totals of a query: the statistic that they give, the noise in it, and how much another sample differs."""

from __future__ import annotations

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
from populace.survey.variance.statistics_of_totals import ValueAndGradient, ratios

# So many rows of a stratum at least are taken to be there, however noise has it.
MIN_STRATUM_ROWS = 2.0


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
    """The totals of a query (groups × terms), the noise behind them, and the statistic that they give.

    `parts` has the answer behind each term, and `weights` by how much each of its cells counts (units × groups): noise
    of a term is the sum over units.
    """

    question: SumQuestion
    answers: Answers
    totals: Floats
    parts: tuple[NoisySum, ...]
    weights: Floats
    found: ValueAndGradient

    @classmethod
    def of(cls, question: SumQuestion, answers: Answers) -> QueryTotals:
        """Return the totals of a query."""
        cells = question.cells
        asked = [answers[each] for each in question.sums]
        sums, parts = _arrange_answers(question, cells, asked, values=question.values)
        totals = np.einsum("u,ugk->gk", cells.weights, sums)
        here = cells.arrange(np.ones_like(parts[0].values), question.axes)
        weights = cells.weights[:, None] * here.reshape(len(cells.weights), len(totals), -1)[:, :, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = question.statistic(totals)
        return cls(
            question=question, answers=answers, totals=totals, parts=parts, weights=weights, found=found
        )

    def noise(self, gradient: Floats, group: int) -> NoiseTerms:
        """Return the privacy noise of a number with this gradient by the terms of a group."""
        parts = zip(self.parts, gradient, strict=True)
        return sum((part.terms(slope * self.weights[:, group]) for part, slope in parts), NoiseTerms())

    def size(self, group: int) -> tuple[float, float]:
        """Return what a group's numbers are divided by, and the deviation of its noise."""
        query = self.question.query
        ones = np.zeros(self.totals.shape[1])
        if self.question.values is not None:
            ones[:] = 1
        else:
            ones[1 if self.question.statistic is ratios else 0] = 1
        size = float(ones @ self.totals[group])
        return abs(size) if query.statistic is Statistic.RATIO else size, self.noise(ones, group).deviation

    def variance_below(
        self, gradient: Floats, group: int, *, below: Sequence[Sum], share: float
    ) -> SamplingVariance:
        """Return the sampling variance of the share of rows below a quantile, from what each psu has below it."""
        size = float(self.totals[group].sum())
        found = self._between_psus(below, np.array([-share, 1.0]) / size, group, values=None)
        return self._bound_by_effect(found, gradient, group)

    def spread(self, gradient: Floats, group: int) -> SamplingVariance | None:
        """Return the sampling variance of a number with this gradient, or None where it has none."""
        question = self.question
        if not question.weighted:
            return None
        if question.design.replicates is not None:
            found = self._between_replicates(question.design.replicates, gradient, group)
        elif question.design.clustered:
            found = self._between_psus(question.psu_sums, gradient, group, values=question.values)
        else:
            return self._between_rows(gradient, group)
        return self._bound_by_effect(found, gradient, group)

    def _bound_by_effect(self, found: SamplingVariance, gradient: Floats, group: int) -> SamplingVariance:
        """Return a variance between units, held to the largest design effect where one is declared."""
        effect = self.question.design.max_design_effect
        if effect is None or not self.question.squared:
            return found
        return replace(found, most=float(effect) * self._between_rows(gradient, group).draws())

    def _between_psus(
        self, asked: Sequence[Sum], gradient: Floats, group: int, *, values: Axis | None
    ) -> SamplingVariance:
        """Compare psus: from their noisy sums, less what the noise adds."""
        question, design = self.question, self.question.design
        cells, found = question.psus, [self.answers[each] for each in asked]
        sums, parts = _arrange_answers(question, cells, found, values=values)
        sums = cells.weights[:, None] * sums[:, group]
        own = cells.weights[:, None] ** 2 * np.array([part.variance for part in parts])
        noise = np.einsum("uk,k->u", own, gradient**2)
        units = SampledUnits.of(design)
        each = units.strata.factors[units.stratum] * (own @ gradient**2)
        return SamplingVariance(
            value=float(units.variance(np.einsum("uk,k->u", sums, gradient))),
            bias=float(units.bias(noise)),
            degrees=float(design.degrees or 1),
            bias_degrees=_effective_number(each) * (design.degrees or 1) / len(each),
        )

    def _between_rows(self, gradient: Floats, group: int) -> SamplingVariance:
        """Compare rows of a stratum, or all rows where units were drawn: from noisy sums of squares and products."""
        question, design, cells = self.question, self.question.design, self.question.cells
        sizes = np.maximum(cells.arrange(self.answers[question.rows].values, ()), MIN_STRATUM_ROWS)
        direct = not design.clustered and design.replicates is None
        # Without a finite population where units were drawn: what rows are told apart by is not what was drawn from.
        strata = (
            StratumFactors.of(design, sizes=sizes)
            if direct
            else StratumFactors(sizes=sizes, unsampled_fraction=np.ones_like(sizes))
        )
        base, values = cells.weights, question.values
        sums, _ = _arrange_answers(question, cells, self.parts, values=values)
        count, noise = len(gradient), []
        squares = np.zeros((len(base), count, count))
        factors = strata.factors * base**2
        for (one, other), asked in question.products.items():
            part = self.answers[asked]
            found = _arrange_answers(question, cells, [part], values=values)[0][:, group]
            if values is not None:
                # Each row has one value: products of two of them are 0.
                squares[:, np.arange(count), np.arange(count)] = found
                noise.append(part.terms(np.outer(factors, gradient**2)))
                break
            squares[:, one, other] = squares[:, other, one] = found[:, 0]
            noise.append(part.terms(factors * gradient[one] * gradient[other] * (1 if one == other else 2)))
        own = base[:, None] ** 2 * np.array([part.variance for part in self.parts])
        value, bias = moment_variance(
            strata,
            sums=np.einsum("uk,k->u", base[:, None] * sums[:, group], gradient),
            squares=np.einsum("i,uij,j->u", gradient, base[:, None, None] ** 2 * squares, gradient),
            noise=np.einsum("uk,k->u", own, gradient**2),
        )
        return SamplingVariance(
            value=float(value),
            bias=float(bias),
            noise=sum(noise, NoiseTerms()),
            degrees=max(float(sizes.sum()) - len(sizes), 1.0),
        )

    def _between_replicates(
        self, replicates: ReplicateDesign, gradient: Floats, group: int
    ) -> SamplingVariance:
        """Compare replicates, less what the noise of their sums adds."""
        question, cells = self.question, DesignUnits.whole(self.question.design)
        scores, noise = np.zeros((2, len(question.replicate_sums)))
        for place, asked in enumerate(question.replicate_sums):
            found = [self.answers[each] for each in asked]
            sums, parts = _arrange_answers(question, cells, found, values=question.values)
            scores[place] = gradient @ sums.sum(axis=0)[group]
            noise[place] = sum(part.variance * g**2 for part, g in zip(parts, gradient, strict=True))
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


def _arrange_answers(
    question: SumQuestion, cells: DesignUnits, parts: Sequence[NoisySum], *, values: Axis | None
) -> tuple[Floats, tuple[NoisySum, ...]]:
    """Return answers as units × groups × terms, and the answer behind each term.

    With `values`, those of one answer are the terms.
    """
    axes = question.by if values is None else (*question.by, values)
    groups = int(np.prod([axis.levels for axis in question.by], dtype=np.int64))
    held = [
        cells.arrange(part.values, axes).reshape(len(cells.weights), groups, -1)
        for part in (parts if values is None else parts[:1])
    ]
    return np.concatenate(held, axis=-1), tuple(parts) if values is None else (parts[0],) * values.levels
