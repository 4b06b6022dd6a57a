"""Estimates with their errors, from noisy sums: all after the barrier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from populace.marginals import Counts
from populace.privacy.mechanisms import Noise
from populace.schema.schema import Schema
from populace.survey.cells import Cells, Floats
from populace.survey.design import Design
from populace.survey.estimators import Moments, Strata, Units, replicate_variance
from populace.survey.functions import Found, ratios
from populace.survey.intervals import EFFECTS, TOTAL_EFFECTS, Spread, Terms, combined, half_width
from populace.survey.missing import estimate_missing
from populace.survey.oracle import SurveyOracle
from populace.survey.plan import Plan, Question
from populace.survey.quantiles import Bins
from populace.survey.queries import Queries, Query, Statistic
from populace.survey.result import TOO_FEW, Estimate, Group, possible_error
from populace.survey.sums import Sum
from populace.survey.ways import Ways, group_texts
from populace.survey.weighting import weighted_counts
from populace.survey.wishes import Laws

# A group whose size is not so many deviations of its noise above 0 is not told.
FEWEST = 4.0
# So many rows of a stratum at least are taken to be there, however noise has it.
FEWEST_ROWS = 2.0

OF_THE_SAMPLE = "of the sample: no sampling error"
HIDDEN = "sampling error from rows and a usual design effect"
UNKNOWN = "noise hides the sampling error"

_DIVIDED = (
    Statistic.MEAN,
    Statistic.PROPORTION,
    Statistic.VARIANCE,
    Statistic.CORRELATION,
    Statistic.QUANTILE,
    Statistic.RATIO,
)


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


def answer(oracle: SurveyOracle, *, design: Design, queries: Queries) -> tuple[Estimate, ...]:
    """Ask all that queries need, and return their estimates with errors, in the order of the queries."""
    ways = Ways.of(design, queries)
    found = [] if ways.plan is None else list(concluded(oracle, plan=ways.plan))
    for filling, share in ways.filled:
        laws = Laws.of(filling, budget=oracle.budget, share=share)
        found += estimate_missing(oracle, filling, laws=laws)
    if ways.counted is not None:
        told = ways.counted
        rows = weighted_counts(oracle, told.counts, weighting=told.weighting, share=told.share)
        found += [
            replace(row, query=query, group=group)
            for row, (query, group) in zip(rows, told.owners, strict=True)
        ]
    return tuple(row for query in queries for row in found if row.query == query.name)


def concluded(oracle: SurveyOracle, *, plan: Plan) -> tuple[Estimate, ...]:
    """Ask all sums of a plan in one go, and return the estimates."""
    batches = plan.batches(oracle.budget)
    asked = [(each, law) for sums, law in batches for each in sums]
    found = oracle.sum_batches(batches)
    answers = {each: Noisy.of(each, counts, law) for (each, law), counts in zip(asked, found, strict=True)}
    return tuple(row for question in plan.questions for row in estimates(question, answers))


def estimates(question: Question, answers: Answers) -> Iterator[Estimate]:
    """Yield the rows of one query: one for each group, and for each value or quantile in it."""
    told = Told.of(question, answers)
    query = question.query
    for number, group in _groups(question):
        if query.statistic is Statistic.QUANTILE:
            yield from _quantiles(told, number, group)
        else:
            values = _values(question)
            for place in range(told.found.values.shape[1]):
                own = group if values is None else (*group, values[place])
                yield _row(told, told.found, number, place, group=own)


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
        sums = _arranged(question, cells, parts)
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

    def spread(self, gradient: Floats, group: int) -> Spread | None:
        """Return the sampling variance of a number with this gradient, or None where it has none."""
        question = self.question
        if not question.weighted:
            return None
        found = Found(values=np.zeros((1, 1)), gradient=gradient[None, None])
        rows = self._within(found, gradient, group) if question.squared else None
        if question.design.replicates is not None:
            told = self._replicated(gradient, group)
        elif question.design.clustered:
            told = self._between(found, group)
        else:
            return rows
        effects = EFFECTS if question.query.statistic in _DIVIDED else TOTAL_EFFECTS
        return replace(told, rows=rows, effects=effects)

    def _between(self, found: Found, group: int) -> Spread:
        """Compare psus: from their noisy sums, less what the noise adds."""
        question, design = self.question, self.question.design
        cells = question.psus
        parts = [self.answers[asked] for asked in question.psu_sums]
        sums = cells.weights[:, None] * _arranged(question, cells, parts)[:, group]
        if question.values is not None:
            parts *= question.values.levels
        noise = cells.weights[:, None] ** 2 * np.array([part.variance for part in parts])
        units = Units.of(design)
        told = units.variances(found, sums=sums[:, None], noise=noise[:, None])
        each = units.strata.factors[units.stratum] * (noise @ found.gradient[0, 0] ** 2)
        return Spread(
            value=float(told.spread[0, 0]),
            bias=float(told.bias[0, 0]),
            degrees=float(design.degrees or 1),
            bias_degrees=_alike(each) * (design.degrees or 1) / len(each),
        )

    def _within(self, found: Found, gradient: Floats, group: int) -> Spread:
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
        sums = _arranged(question, cells, self.parts[:1] if question.values else self.parts)[:, group]
        squares = np.zeros((len(base), count, count))
        noise = []
        factors = strata.factors * base**2
        for (one, other), asked in question.products.items():
            part = self.answers[asked]
            told = _arranged(question, cells, [part])[:, group]
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
        found_variances = moments.variances(found, noise=own[:, None])
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
        scores = np.array([gradient @ _arranged(question, cells, each).sum(axis=0)[group] for each in parts])
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
        return Spread(value=value, bias=bias, degrees=float(len(scores) - 1))


def _alike(variances: Floats) -> float:
    """Return how many equal variances have the same sum and the same sum of squares.

    >>> _alike(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    return float(variances.sum() ** 2 / max(float((variances**2).sum()), 1e-300))


def _arranged(question: Question, cells: Cells, parts: Sequence[Noisy]) -> Floats:
    """Return answers as units × groups × terms."""
    held = [cells.arranged(part.values, question.axes) for part in parts]
    groups = int(np.prod([axis.levels for axis in question.by], dtype=np.int64))
    if question.values is not None:
        return held[0].reshape(len(cells.weights), groups, question.values.levels)
    return np.stack([each.reshape(len(cells.weights), groups) for each in held], axis=-1)


def _row(told: Told, found: Found, group_number: int, place: int, *, group: Group) -> Estimate:
    """Return one number with its errors and its interval, held to what is possible."""
    query, gradient = told.question.query, found.gradient[group_number, place]
    value = float(found.values[group_number, place])
    size, unsure = told.size(group_number)
    lost = query.statistic in _DIVIDED and not size > FEWEST * unsure
    if lost or not np.isfinite(value) or not np.isfinite(gradient).all():
        return Estimate(query=query.name, group=group, estimate=None, note=TOO_FEW)
    noise = told.noise(gradient, group_number)
    spread = told.spread(gradient, group_number)
    reach = half_width(spread, noise=noise)
    low, high = possible(query, told.question.design.schema)
    return Estimate(
        query=query.name,
        group=group,
        estimate=float(np.clip(value, low, high)),
        sampling_error=None
        if spread is None
        else possible_error(float(np.sqrt(spread.variance)), low=low, high=high),
        privacy_error=possible_error(noise.deviation, low=low, high=high),
        low=float(np.clip(value - reach, low, high)),
        high=float(np.clip(value + reach, low, high)),
        degrees=None if spread is None else spread.degrees,
        note=_note(spread),
    )


def _quantiles(told: Told, number: int, group: Group) -> Iterator[Estimate]:
    """Yield quantiles: the interval of the share below each one, turned into an interval of values."""
    query, schema = told.question.query, told.question.design.schema
    bins = Bins.of(query, schema)
    counts = told.totals[number]
    low, high = possible(query, schema)
    for share in query.p:
        own = (*group, ("p", f"{float(share):g}"))
        size, unsure = told.size(number)
        if not size > FEWEST * unsure:
            yield Estimate(query=query.name, group=own, estimate=None, note=TOO_FEW)
            continue
        value = bins.quantile(counts, float(share))
        gradient = (bins.below(counts, float(share)) - float(share)) / size
        # What lies inside a bin is a guess: two of them tell how good it is.
        guess = abs(value - bins.straight(counts, float(share)))
        noise, spread = told.noise(gradient, number), told.spread(gradient, number)
        reach = half_width(spread, noise=noise)
        ends = [bins.quantile(counts, float(share) + sign * reach) for sign in (-1, 1)]
        # One unit of the share below is so many of the value.
        slope = (ends[1] - ends[0]) / (2 * reach) if reach else 0.0
        yield Estimate(
            query=query.name,
            group=own,
            estimate=float(np.clip(value, low, high)),
            sampling_error=None
            if spread is None
            else possible_error(slope * float(np.sqrt(spread.variance)), low=low, high=high),
            privacy_error=possible_error(slope * noise.deviation, low=low, high=high),
            low=float(np.clip(ends[0] - guess, low, high)),
            high=float(np.clip(ends[1] + guess, low, high)),
            degrees=None if spread is None else spread.degrees,
            note=_note(spread),
        )


def _note(spread: Spread | None) -> str:
    if spread is None:
        return OF_THE_SAMPLE
    if not spread.hidden:
        return ""
    return UNKNOWN if spread.rows is None or spread.rows.hidden else HIDDEN


def possible(query: Query, schema: Schema) -> tuple[float, float]:
    """Return between which numbers the truth of a query lies, whatever the rows."""
    kind = query.statistic
    if kind in (Statistic.MEAN, Statistic.QUANTILE):
        low, high = query.span(query.column or "", schema)
        return float(low), float(high)
    if kind is Statistic.CORRELATION:
        return -1.0, 1.0
    if kind is Statistic.PROPORTION:
        return 0.0, 1.0
    if kind is Statistic.TOTAL:
        # Weights are above 0, so a total has the sign of its values.
        low, high = query.span(query.column or "", schema)
        return 0.0 if low >= 0 else -np.inf, 0.0 if high <= 0 else np.inf
    if kind in (Statistic.COUNT, Statistic.FREQUENCY, Statistic.VARIANCE):
        return 0.0, np.inf
    return -np.inf, np.inf


def _groups(question: Question) -> Iterator[tuple[int, Group]]:
    """Yield the number and the texts of each group that rows can be in."""
    schema, names = question.design.schema, [axis.column for axis in question.by]
    texts = [group_texts(schema, name) for name in names]
    for number, (cell, can) in enumerate(zip(product(*texts), question.possible.ravel(), strict=True)):
        if can:
            yield number, tuple(zip(names, cell, strict=True))


def _values(question: Question) -> list[tuple[str, str]] | None:
    axis = question.values
    if axis is None:
        return None
    return [(axis.column, text) for text in group_texts(question.design.schema, axis.column)]
