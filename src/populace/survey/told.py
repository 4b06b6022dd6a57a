"""The noisy totals of a query: the statistic that they give, the noise in it, and how much another sample differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from populace.marginals import Counts
from populace.privacy.mechanisms import Noise
from populace.records import dataclass
from populace.survey.cells import Axis, Cells, Floats
from populace.survey.estimators import Moments, Strata, Units, replicate_variance
from populace.survey.functions import Found, ratios
from populace.survey.intervals import Spread, Terms, combined
from populace.survey.plan import Question
from populace.survey.queries import Statistic
from populace.survey.sums import Sum

# So many rows of a stratum at least are taken to be there, however noise has it.
FEWEST_ROWS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Noisy:
    """A sum as it was answered: numbers in its own units, and the noise of each of them."""

    values: Floats
    step: float
    law: Noise

    @classmethod
    def of(cls, asked: Sum, counts: Counts, law: Noise) -> Noisy:
        """Return an answer in steps as numbers."""
        return cls(values=asked.values(counts), step=float(asked.step), law=law)

    @property
    def variance(self) -> float:
        """The variance of the noise of each number."""
        return float(self.law.variance) * self.step**2

    def terms(self, weights: npt.ArrayLike) -> Terms:
        """Return the noise of a weighted sum of its numbers."""
        return Terms.of(self.law, weights=np.asarray(weights) * self.step)


Answers = Mapping[Sum, Noisy]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """The totals of a query (groups × terms), the noise behind them, and the statistic that they give.

    `parts` has the answer behind each term, and `weights` by how much each of its cells counts (units × groups): noise
    of a term is the sum over units.
    """

    question: Question
    answers: Answers
    totals: Floats
    parts: tuple[Noisy, ...]
    weights: Floats
    found: Found

    @classmethod
    def of(cls, question: Question, answers: Answers) -> Told:
        """Return the totals of a query."""
        cells = question.cells
        parts = tuple(answers[asked] for asked in question.sums)
        sums = _arranged(question, cells, parts, values=question.values)
        if question.values is not None:
            parts *= question.values.levels
        totals = np.einsum("u,ugk->gk", cells.weights, sums)
        here = cells.arranged(np.ones_like(parts[0].values), question.axes)
        weights = cells.weights[:, None] * here.reshape(len(cells.weights), len(totals), -1)[:, :, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = question.statistic(totals)
        return cls(
            question=question, answers=answers, totals=totals, parts=parts, weights=weights, found=found
        )

    def noise(self, gradient: Floats, group: int) -> Terms:
        """Return the privacy noise of a number with this gradient by the terms of a group."""
        return combined(
            [
                part.terms(slope * self.weights[:, group])
                for part, slope in zip(self.parts, gradient, strict=True)
            ]
        )

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

    def spread_below(self, gradient: Floats, group: int, *, located: Sequence[Sum], share: float) -> Spread:
        """Return the sampling variance of the share of rows below a quantile: those of each psu were counted later."""
        size = float(self.totals[group].sum())
        told = self._between(located, np.array([-share, 1.0]) / size, group, values=None)
        return self._held(told, gradient, group)

    def spread(self, gradient: Floats, group: int) -> Spread | None:
        """Return the sampling variance of a number with this gradient, or None where it has none."""
        question = self.question
        if not question.weighted:
            return None
        if question.design.replicates is not None:
            return self._held(self._replicated(gradient, group), gradient, group)
        if not question.design.clustered:
            return self._within(gradient, group)
        told = self._between(question.psu_sums, gradient, group, values=question.values)
        return self._held(told, gradient, group)

    def _held(self, told: Spread, gradient: Floats, group: int) -> Spread:
        """Return a variance between units, held to the largest design effect where one is declared."""
        effect = self.question.design.most_effect
        if effect is None or not self.question.squared:
            return told
        return replace(told, most=float(effect) * self._within(gradient, group).draws())

    def _between(self, asked: Sequence[Sum], gradient: Floats, group: int, *, values: Axis | None) -> Spread:
        """Compare psus: from their noisy sums, less what the noise adds."""
        question, design = self.question, self.question.design
        cells, found = question.psus, _linear(gradient)
        parts = [self.answers[each] for each in asked]
        sums = cells.weights[:, None] * _arranged(question, cells, parts, values=values)[:, group]
        if values is not None:
            parts *= values.levels
        noise = cells.weights[:, None] ** 2 * np.array([part.variance for part in parts])
        units = Units.of(design)
        told = units.variances(found, sums=sums[:, None], noise=noise[:, None])
        each = units.strata.factors[units.stratum] * (noise @ gradient**2)
        return Spread(
            value=float(told.spread[0, 0]),
            bias=float(told.bias[0, 0]),
            degrees=float(design.degrees or 1),
            bias_degrees=_alike(each) * (design.degrees or 1) / len(each),
        )

    def _within(self, gradient: Floats, group: int) -> Spread:
        """Compare rows of a stratum, or all rows where units were drawn: from noisy sums of squares and products."""
        question, design = self.question, self.question.design
        cells = question.cells
        rows = self.answers[question.rows]
        sizes = np.maximum(cells.arranged(rows.values, ()), FEWEST_ROWS)
        direct = not design.clustered and design.replicates is None
        # Without a finite population where units were drawn: what rows are told apart by is not what was drawn from.
        strata = (
            Strata.of(design, sizes=sizes) if direct else Strata(sizes=sizes, undrawn=np.ones_like(sizes))
        )
        count = self.totals.shape[1]
        base = cells.weights
        sums = _arranged(
            question, cells, self.parts[:1] if question.values else self.parts, values=question.values
        )[:, group]
        squares = np.zeros((len(base), count, count))
        noise = []
        factors = strata.factors * base**2
        for (one, other), asked in question.products.items():
            part = self.answers[asked]
            told = _arranged(question, cells, [part], values=question.values)[:, group]
            if question.values is not None:
                squares[:, np.arange(count), np.arange(count)] = told
                noise.append(part.terms(np.outer(factors, gradient**2)))
                break
            squares[:, one, other] = squares[:, other, one] = told[:, 0]
            noise.append(part.terms(factors * gradient[one] * gradient[other] * (1 if one == other else 2)))
        moments = Moments(
            strata=strata,
            sums=(base[:, None] * sums)[:, None],
            products=(base[:, None, None] ** 2 * squares)[:, None],
        )
        own = base[:, None] ** 2 * np.array([part.variance for part in self.parts])
        found_variances = moments.variances(_linear(gradient), noise=own[:, None])
        return Spread(
            value=float(found_variances.spread[0, 0]),
            bias=float(found_variances.bias[0, 0]),
            noise=combined(noise),
            degrees=max(float(sizes.sum()) - len(sizes), 1.0),
        )

    def _replicated(self, gradient: Floats, group: int) -> Spread:
        """Compare replicates, less what the noise of their sums adds."""
        question, told = self.question, self.question.design.replicates
        cells = Cells.whole(question.design)
        parts = [[self.answers[asked] for asked in sums] for sums in question.replicate_sums]
        scores = np.array(
            [
                gradient @ _arranged(question, cells, each, values=question.values).sum(axis=0)[group]
                for each in parts
            ]
        )
        if told is None:
            raise ValueError("there are no replicate weights")
        own = float(gradient @ self.totals[group])
        terms = [each * question.values.levels if question.values is not None else each for each in parts]
        noise = np.array(
            [sum(part.variance * g**2 for part, g in zip(each, gradient, strict=True)) for each in terms]
        )
        units = np.sqrt(noise)
        # The form is quadratic, so independent noise adds the sum of its values at each replicate's noise alone.
        bias = sum(
            float(
                replicate_variance(
                    np.zeros(()), replicates=units * (np.arange(len(units)) == place), design=told
                )
            )
            for place in range(len(units))
        )
        value = float(replicate_variance(np.array(own), replicates=scores, design=told))
        degrees = float(len(scores) - 1)
        return Spread(
            value=value, bias=bias, degrees=degrees, bias_degrees=_alike(noise) * degrees / len(noise)
        )


def _alike(variances: Floats) -> float:
    """Return how many equal variances have the same sum and the same sum of squares.

    >>> _alike(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    return float(variances.sum() ** 2 / max(float((variances**2).sum()), 1e-300))


def _linear(gradient: Floats) -> Found:
    """Return the one number that changes with totals by this gradient."""
    return Found(values=np.zeros((1, 1)), gradient=gradient[None, None])


def _arranged(question: Question, cells: Cells, parts: Sequence[Noisy], *, values: Axis | None) -> Floats:
    """Return answers as units × groups × terms; with `values`, those of one answer are the terms."""
    axes = question.by if values is None else (*question.by, values)
    held = [cells.arranged(part.values, axes) for part in parts]
    groups = int(np.prod([axis.levels for axis in question.by], dtype=np.int64))
    if values is not None:
        return held[0].reshape(len(cells.weights), groups, values.levels)
    return np.stack([each.reshape(len(cells.weights), groups) for each in held], axis=-1)
