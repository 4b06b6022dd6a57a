"""Counts of a population from a sample calibrated to public totals: choose bins, count, rake, weight.

The sample is counted once by the cells of all totals together, with noise; that table is raked, not the rows. From then
on the weights of cells are public, and a count is one sum of them, whose noise is as large as the largest weight. Or it
is asked by the same cells, each with noise of its own; or with weights that are made inside the barrier, from the raked
populations and the exact sample, and noise that follows a smooth bound. Which of them is best follows from what is
public and paid for by then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from populace.core.array_types import Truth
from populace.privacy.accounting.interval_arithmetic import bounds, round_down
from populace.privacy.sensitivity.poststratification import Bin, Binning, smooth_weight_bound
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.survey import estimate_notes as notes
from populace.survey.calibration.calibrated_sample import CalibratedCount, CalibratedSample, NoisyCellSums
from populace.survey.calibration.contingency_table import ContingencyTable
from populace.survey.calibration.count_plan import (
    MIN_SMOOTH_EPSILON,
    SAMPLING_ERROR_SHARE,
    Calibration,
    CountMethod,
    CountPlan,
)
from populace.survey.design.design_parts import ControlTotals
from populace.survey.estimate_result import Estimand, Estimate, make_public_row, make_suppressed_row
from populace.survey.smooth_questions import WeightedQuestion
from populace.survey.sums import CellWeights, Sum, SumFactor
from populace.survey.survey_oracle import SurveyOracle
from populace.survey.variance.confidence_intervals import NoiseTerms, half_width
from populace.survey.variance.linearization import ask_sums
from populace.survey.variance.smooth_noise_error import distribution_draws

# How smooth bounds are made, in parts of ε, to look for the least noise.
SMOOTHNESS_GRID = (Fraction(1, 32), Fraction(1, 12), Fraction(1, 5))
LATTICE = Fraction(1, 1024)
# Smooth noise is looked at where the noise of one sum is this much smaller than the best of the others.
_MIN_SMOOTH_RATIO = 1.5
_WEIGHT_BITS = 16


def answer_count_plan(oracle: SurveyOracle, *, plan: CountPlan) -> tuple[Estimate, ...]:
    """Return the counts of a plan: those that the totals decide as they are, the others from the sample."""
    asked: Iterator[Estimate] = iter(() if plan.decided else _ask_counts(oracle, plan))
    return tuple(
        next(asked) if total is None else make_public_row(count.query, float(total), group=count.group)
        for count, total in zip(plan.counts, plan.known, strict=True)
    )


def _ask_counts(oracle: SurveyOracle, plan: CountPlan) -> tuple[Estimate, ...]:
    """Choose bins, count the sample, and ask for each count that the totals do not decide."""
    calibration = plan.calibration
    binnings = [_choose_binning(oracle, plan, control) for control in calibration.controls]
    table = ContingencyTable.of(calibration.controls, schema=plan.schema, binnings=binnings)
    first, each = plan.split_share(cells=int(table.possible.sum()))
    sample = CalibratedSample(
        table=table,
        answer=_ask_table(oracle, plan, table, where=None, share=first),
        largest_base=float(calibration.base.unit * calibration.base.largest),
        shrink=float(calibration.shrink),
    )
    if sample.lost:
        return tuple(make_suppressed_row(count.query, group=count.group) for count in plan.unknown)
    asking = _CountAsking(oracle=oracle, plan=plan, sample=sample, share=each)
    return tuple(asking.estimate(count) for count in plan.unknown)


def _choose_binning(oracle: SurveyOracle, plan: CountPlan, control: ControlTotals) -> Binning | None:
    """Return the set of bins of one control, chosen by the exponential mechanism where there are several."""
    if len(control.binnings) < 2:
        return control.binnings[0] if control.binnings else None
    mechanism = plan.budget.choice(plan.bins_share(control), choices=1)
    question = control.bin_choice(plan.calibration.base)
    return control.binnings[oracle.choose_bins(question, mechanism=mechanism)]


def _ask_table(
    oracle: SurveyOracle, plan: CountPlan, table: ContingencyTable, *, where: str | None, share: Fraction
) -> NoisyCellSums:
    """Return noisy sums of base weights by cells, and of their squares where they are not all 1."""
    factors, positive = _base_factors(plan.calibration)
    asked = [Sum(by=table.by, where=where, factors=factors, positive=positive)]
    if factors:
        asked.append(replace(asked[0], factors=factors * 2))
    noise = plan.budget.sum_noise(share, sums=len(asked))
    found = [replace(each, values=each.values.ravel()) for _, each in ask_sums(oracle, [(asked, noise)])]
    return NoisyCellSums(sums=found[0], squares=found[-1])


def _base_factors(calibration: Calibration) -> tuple[tuple[SumFactor, ...], tuple[str, ...]]:
    """Return the base weight as a factor of sums, and the column without which, or at 0 or less, no row counts."""
    base = calibration.base
    if base.column is None:
        return (), ()
    return (SumFactor(column=base.column, low=base.unit, high=base.unit * base.largest),), (base.column,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _CountAsking:
    """What asks for single counts, once the sample is counted and calibrated: each for the same share."""

    oracle: SurveyOracle
    plan: CountPlan
    sample: CalibratedSample
    share: Fraction

    @property
    def alone(self) -> Fraction:
        """The share of a count that is one number; the rest is for the table of its sampling error."""
        return self.share * (1 - SAMPLING_ERROR_SHARE)

    def estimate(self, count: Estimand) -> Estimate:
        """Ask for one count by the best method, and for the table that tells its sampling error."""
        sample, budget = self.sample, self.plan.budget
        among = sample.table.where(count.where, schema=self.plan.schema)
        wanted = CountMethod.SMOOTH if count.smooth else self.plan.calibration.method
        method, smooth = self._choose_method(among, wanted=wanted)
        part = self.share if method is CountMethod.TABLE else self.share * SAMPLING_ERROR_SHARE
        table = _ask_table(self.oracle, self.plan, sample.table, where=count.where, share=part)
        found = CalibratedCount(sample=sample, answer=table, among=among)
        draws = np.zeros(1)
        if method is CountMethod.TABLE:
            value, noise = found.value, found.table_noise()
        elif smooth is None:
            asked = self._weighted_sum(count, among)
            ((_, answer),) = ask_sums(self.oracle, [([asked], budget.sum_noise(self.share - part, sums=1))])
            value, noise = float(answer.values), answer.terms(1.0) + found.weight_noise()
        else:
            question = self._weighted_question(count, beta=smooth.t)
            value = float(self.oracle.smooth(question, mechanism=smooth, lattice=LATTICE))
            draws = distribution_draws(smooth.distribution) * (self._guess_bound(smooth.t) / float(smooth.s))
            noise = found.population_noise()
        spread = found.spread()
        wide = half_width(spread, noise=noise, other=draws)
        moved = f"; {notes.SHRINKAGE_MOVED}{found.moved:.6g}{notes.SHRINKAGE_UNCOVERED}"
        row = Estimate(
            query=count.query,
            group=count.group,
            estimate=value,
            sampling_error=math.sqrt(spread.variance),
            privacy_error=math.sqrt(noise.variance + float(draws.var())),
            low=value - wide,
            high=value + wide,
            degrees=spread.degrees,
            note=method.value + (moved if sample.shrink else ""),
        )
        return row.clip_to(0.0, sample.table.totals.people)

    def _choose_method(
        self, among: Truth, *, wanted: CountMethod | None
    ) -> tuple[CountMethod, SmoothNoise | None]:
        """Return the method of least noise, as the noisy table that is paid for foretells it, and any smooth noise.

        Of the table's own noise two methods have about half of what the weights are, and smooth noise has hardly any.
        """
        sample, budget, calibration = self.sample, self.plan.budget, self.plan.calibration
        if wanted is not None:
            return wanted, self._choose_smooth_noise() if wanted is CountMethod.SMOOTH else None
        weights = np.where(among, sample.weights[sample.bins], 0.0)
        table, step = sample.answer.sums.terms(weights / 2).variance, sample.answer.sums.step
        cells = budget.sum_noise(self.share, sums=1 if calibration.base.column is None else 2)
        largest = [float(weights.max()) * step]
        alone = NoiseTerms.of(budget.sum_noise(self.alone, sums=1), weights=largest).variance
        found = {
            CountMethod.SUM: alone + table,
            CountMethod.TABLE: NoiseTerms.of(cells, weights=weights * step).variance + table,
        }
        best = min(found, key=found.__getitem__)
        # Smooth noise is larger than that of one sum would be with the largest weight of all.
        least = alone * float(sample.weights.max() / weights.max()) ** 2
        if (
            _MIN_SMOOTH_RATIO * least < found[best]
            and budget.smooth_epsilon(self.alone) >= MIN_SMOOTH_EPSILON
        ):
            smooth = self._choose_smooth_noise()
            if (self._guess_bound(smooth.t) * smooth.standard_deviation) ** 2 < found[best]:
                return CountMethod.SMOOTH, smooth
        return best, None

    def _choose_smooth_noise(self) -> SmoothNoise:
        """Return the smooth noise of least deviation, as far as a sample of noisy size tells."""
        epsilon = self.plan.smooth_epsilon(self.alone)
        noises = [
            self.plan.budget.smooth_noise(self.alone, t=round_down(epsilon * part, bits=16))
            for part in SMOOTHNESS_GRID
        ]
        return min(noises, key=lambda noise: noise.standard_deviation * self._guess_bound(noise.t))

    def _weighted_sum(self, count: Estimand, among: Truth) -> Sum:
        """Return a count as one sum of the weights that are public by now; rows that cannot count have none."""
        factors, positive = _base_factors(self.plan.calibration)
        weights = np.where(among, self.sample.weights[self.sample.bins], 0.0)
        return Sum(
            where=count.where,
            factors=factors,
            positive=positive,
            weights=CellWeights(by=self.sample.table.by, values=tuple(map(_round_exact, weights.tolist()))),
        )

    def _bin_totals(self) -> list[Fraction]:
        """Return the population of each bin, as the barrier gets it."""
        return [_round_exact(total) for total in self.sample.weights * self.sample.fitted.sample]

    def _weighted_question(self, count: Estimand, *, beta: Fraction) -> WeightedQuestion:
        """Return a count by weights that are made inside the barrier, from populations that are public by now."""
        table, totals = self.sample.table, self._bin_totals()
        groups: list[list[int]] = [[] for _ in totals]
        for cell, number in enumerate(self.sample.bins.tolist()):
            groups[number].append(cell)
        # Only the populations of joined bins matter: each is put into one of its cells.
        populations = [Fraction(0)] * len(table.joined)
        for total, group in zip(totals, groups, strict=True):
            populations[group[0]] = total
        return WeightedQuestion(
            by=table.by,
            binning=Binning(name="raked", bins=tuple(map(tuple, groups))),
            populations=tuple(populations),
            where=count.where,
            base=self.plan.calibration.base,
            beta=beta,
            nobody=tuple(np.flatnonzero(~table.possible).tolist()),
        )

    def _guess_bound(self, beta: Fraction) -> float:
        """Return about the smooth bound, from the noisy sample that is paid for: the bound itself stays private."""
        held = self.sample.fitted.sample.tolist()
        counts = [max(0, round(rows / self.sample.largest_base)) for rows in held]
        bins = [
            Bin(total=total, weights=np.ones(count))
            for total, count in zip(self._bin_totals(), counts, strict=True)
        ]
        return float(bounds(lambda: smooth_weight_bound(bins, beta=beta))[1])


def _round_exact(number: float) -> Fraction:
    """Return a weight or a population with few digits: machines that differ in the last ones must ask the same."""
    return round_down(Fraction(number) * (1 + Fraction(1, 2 ** (_WEIGHT_BITS + 1))), bits=_WEIGHT_BITS)
