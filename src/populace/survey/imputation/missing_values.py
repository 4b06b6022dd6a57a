"""Means and shares of a column with missing values, from answers that were paid for.

Three ways, for rows that were drawn with equal chances:

* ignore: complete rows speak for all. Wrong where the missing ones differ from them.
* impute: missing values are filled from the nearest rows on the private side. Every estimate needs an ε of its own,
  above ln 2, and noise that follows a smooth bound.
* model: each cell of the matching columns takes the noisy mean of its complete rows for its missing ones, after the
  barrier. All answers are sums, so their noise is that of counts.

Reasons and formulae: docs/decisions/imputation.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.privacy.accounting.mechanisms import Noise
from populace.privacy.sensitivity.nn_imputation import MatchingSpace, TieBreak
from populace.survey import estimate_notes as notes
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_result import Estimand, Estimate, ValueRange, make_suppressed_row
from populace.survey.imputation.imputation_error import ImputationCells
from populace.survey.imputation.imputation_plan import CellSum, CellSumKey, ImputationNoise, ImputationPlan
from populace.survey.imputation.matching_cells import MergedCells, cells_where, merge_small_cells, min_rows
from populace.survey.smooth_questions import ImputedQuestion, ImputedStatistic, imputed_bound
from populace.survey.survey_oracle import SurveyOracle
from populace.survey.variance.confidence_intervals import NoiseTerms, half_width
from populace.survey.variance.linearization import NoisySum, ask_sums
from populace.survey.variance.smooth_noise_error import DonorLoad, changed_rows_draws, distribution_draws

# Answers are rounded to so many steps for what one row can add.
_LATTICE_STEPS = 2**10


def estimate_missing(
    oracle: SurveyOracle, plan: ImputationPlan, *, noise: ImputationNoise
) -> tuple[Estimate, ...]:
    """Ask all that the estimands need, and return an estimate for each, with its errors and an interval.

    What is asked follows from public facts alone, so a run is paid for before anything is known.
    """
    asked = [([each], mechanism) for each, mechanism in zip(plan.sums.values(), noise.sums, strict=True)]
    answers = [answer for _, answer in ask_sums(oracle, asked)]
    tables = _NoisyTables(plan=plan, sums=dict(zip(plan.sums, answers, strict=True)))
    estimands = list(zip(plan.estimands, plan.inside, strict=True))
    if plan.how is not MissingHandling.IMPUTE:
        return tuple(tables.estimate(estimand, inside) for estimand, inside in estimands)
    if noise.size is None:
        raise UsageError("no noise is given for the size of a bound.", hint="give that of all questions")
    frequency = ImputedQuestion(statistic=ImputedStatistic.FREQUENCY, donors=plan.donors)
    size = oracle.bound_size(frequency, noise=noise.size)
    changed = tables.draw_changed(size, noise=noise.size)
    found = []
    for (estimand, inside), mechanism in zip(estimands, noise.answers, strict=True):
        question = plan.question(estimand)
        # The bound with no row changed, and what every further one adds.
        most = imputed_bound(question, 0)
        moved = imputed_bound(question, 1) - most
        answer = oracle.smooth(question, mechanism=mechanism, lattice=most / _LATTICE_STEPS)
        scales = (float(most) + changed * float(moved)) / float(mechanism.s)
        draws = scales * distribution_draws(mechanism.distribution)
        found.append(tables.estimate(estimand, inside, filled=(float(answer), draws)))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _NoisyTables:
    """The noisy sums of all cells, and what follows from them."""

    plan: ImputationPlan
    sums: dict[CellSumKey, NoisySum]

    def draw_changed(self, size: int, *, noise: Noise) -> Floats:
        """Return draws of how many filled rows may change with one row, from the noisy size of the bound and counts."""
        donors = self.plan.donors
        every, complete = self.sums[CellSum.ALL, None], self.sums[CellSum.KNOWN, None]
        known, lost = complete.values, every.values - complete.values
        variance = every.variance + complete.variance
        # More missing rows than there are, but for noise that happens once in many thousand times.
        most = max(1.0, float(lost.sum()) + 5 * math.sqrt(lost.size * variance))
        if donors.ties is not TieBreak.NEXT:
            return changed_rows_draws(size, noise=noise, most=most)
        # Labels are all that decides how many incomplete rows one complete row serves.
        cut = self._cut(np.ones_like(known, dtype=np.bool_))
        no_donors = (known < 2 * self._unsure) & (lost > 10 * math.sqrt(variance))
        served = DonorLoad(
            complete=cut.sums(known),
            incomplete=np.maximum(cut.sums(lost), 0.0),
            donors=donors.k,
            alone=float(np.max(lost, initial=0.0, where=no_donors)),
        )
        return changed_rows_draws(size, noise=noise, most=most, served=served)

    def estimate(
        self, estimand: Estimand, inside: Truth, *, filled: tuple[float, Floats] | None = None
    ) -> Estimate:
        """Return the estimate of an estimand from cells, or from an answer about filled rows and draws of its noise."""
        plan, cells = self.plan, self._cells(estimand, inside)
        if cells is None:
            return make_suppressed_row(estimand.query, group=estimand.group)
        # Between these the truth lies, whatever the rows.
        share = estimand.between is not None
        low, high = (0.0, 1.0) if share else (float(plan.donors.low), float(plan.donors.high))
        if filled is None:
            note = notes.COMPLETE_CASES if plan.how is MissingHandling.IGNORE else notes.CELL_MEANS
            (value, noise), other = cells.mean_and_noise(), None
        else:
            answer, draws = filled
            of_frame = cells_where(estimand.where, by=plan.frame, schema=plan.schema)
            rows = self.sums[CellSum.SIZE, None]
            size = max(1.0, float(rows.values[of_frame].sum()))
            value = min(max(answer / size, low), high)
            weights = np.full(np.count_nonzero(of_frame), rows.step * value / size)
            noise, other = NoiseTerms.of(rows.mechanism, weights=weights), draws / size
            note = notes.NEAREST_DONORS
        spread = cells.spread(value)
        sampling, imputation = cells.parts(spread, mean=value)
        width = half_width(spread, noise=noise, other=other)
        # Heavy tails have no use for a variance: the width of an interval, in the units of normal errors.
        alone = noise.deviation if other is None else half_width(None, noise=noise, other=other) / 1.96
        found = Estimate(
            query=estimand.query,
            group=estimand.group,
            estimate=value,
            sampling_error=math.sqrt(sampling),
            imputation_error=None if imputation is None else math.sqrt(imputation),
            privacy_error=alone,
            low=value - width,
            high=value + width,
            degrees=spread.degrees,
            note=note if imputation is not None else f"{note}; {notes.IMPUTATION_NOT_ESTIMABLE}",
        )
        return found.clip_to(low, high)

    def _cells(self, estimand: Estimand, inside: Truth) -> ImputationCells | None:
        """Return the joined cells of an estimand, or None where noise does not tell that there are rows."""
        plan, cut = self.plan, self._cut(inside)
        known = self._group_sums(CellSum.KNOWN, None, cut=cut)
        value = (CellSum.VALUE, None) if estimand.between is None else (CellSum.WITHIN, estimand.between)
        if known is None or np.any(known.values < min_rows(cut.sizes, few=self._few, deviation=self._unsure)):
            return None
        every = self._group_sums(CellSum.ALL, None, cut=cut) or known
        # Which part of the population the rows are.
        rows = self.sums.get((CellSum.ALL, None), self.sums[CellSum.KNOWN, None]).values.sum()
        people = math.inf if plan.population is None else float(plan.population)
        share = min(max(float(rows) / people, 0.0), 1.0)
        return ImputationCells(
            cut=cut,
            every=every,
            known=known,
            value=self._group_sums(*value, cut=cut),
            square=None if estimand.between else self._group_sums(CellSum.SQUARE, None, cut=cut),
            donors=plan.donors.k if plan.how is MissingHandling.IMPUTE else None,
            part=share,
        )

    def _cut(self, inside: Truth) -> MergedCells:
        plan = self.plan
        sizes = plan.by.shape(plan.schema.domain) or (1,)
        one_hot = plan.donors.one_hot
        ordered = tuple(plan.schema.variables[n].ordered and n not in one_hot for n in plan.by.clique) or (
            True,
        )
        return merge_small_cells(
            inside,
            counts=self.sums[CellSum.KNOWN, None].values,
            space=MatchingSpace(sizes=sizes, ordered=ordered),
            few=self._few,
            deviation=self._unsure,
        )

    @property
    def _few(self) -> float:
        """Cells whose means stand for missing rows are kept apart longer than those that only tell errors."""
        return 5.0 if self.plan.how is MissingHandling.MODEL else 20.0

    @property
    def _unsure(self) -> float:
        """The deviation of the noise of one cell's number of complete rows."""
        return math.sqrt(self.sums[CellSum.KNOWN, None].variance)

    def _group_sums(self, part: CellSum, between: ValueRange | None, *, cut: MergedCells) -> NoisySum | None:
        """Return one sum over groups of cells, if it was asked."""
        found = self.sums.get((part, between))
        return None if found is None else replace(found, values=cut.sums(found.values))
