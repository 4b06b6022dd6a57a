"""Weights that are adjusted by cells before sums are asked: for item nonresponse, and to meet public totals.

Two steps. First the sample is counted by cells, with noise: from then on the factors of cells are public numbers. Then
every sum of a query multiplies weights by the factor of the row's cell, so whatever sums can tell, of whatever design,
they tell of adjusted weights too. Factors count as fixed in sampling errors, as adjusted weights of published files do;
where totals explain an answer, that errs on the safe side. The noise of factors is part of the privacy error.
Source: Särndal and Lundström 2005, chapters 5 to 7 (weighting classes, calibration).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Marginal
from populace.survey.calibration.calibrated_sample import CalibratedSample, NoisyCellSums
from populace.survey.calibration.contingency_table import ContingencyTable
from populace.survey.design.design import Design
from populace.survey.design.design_parts import MissingHandling
from populace.survey.sums import CellWeights, Sum
from populace.survey.variance.linearization import NoisySum

# Factors are whole numbers of this part, and never beyond the most: one row would then stand for too many.
FACTOR_UNIT, MAX_RESPONSE_FACTOR = Fraction(1, 2**10), 5.0
# A cell whose respondents do not stand out of their noise by so many deviations has the factor of all.
MIN_RESPONDENTS_Z = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AdjustedCells:
    """The factor of each cell, what all rows weigh, and how unsure factors are.

    `unsure` is the square root of the greatest product of a cell's part of all weights and the relative variance of its
    factor. By Cauchy and Schwarz, noise in factors moves a sum of scores by a variance of at most its square, times
    what all rows weigh, times the weighted sum of squared scores; that holds for any group, wherever it lies.
    `per_respondent` is how many rows each respondent stands for, in the cell where that is most. Of rows that no donor
    serves it is left to chance how many there are: `unserved` is the variance of that, over all rows of a cell.
    """

    weights: CellWeights
    people: float
    unsure: float
    per_respondent: float = 1.0
    unserved: float = 0.0

    @classmethod
    def of(cls, by: Marginal, factors: Floats, *, people: float, unsure: float) -> AdjustedCells:
        """Return factors as exact numbers."""
        steps = np.maximum(np.rint(np.nan_to_num(factors, nan=1.0) / float(FACTOR_UNIT)), 0).astype(np.int64)
        if not steps.any():
            steps[:] = FACTOR_UNIT.denominator
        values = tuple(int(each) * FACTOR_UNIT for each in steps.ravel().tolist())
        return cls(weights=CellWeights(by=by, values=values), people=people, unsure=unsure)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResponseAdjustment:
    """Respondents of a cell stand for all of its rows: by the weights of both, for one column.

    Where `max_uses` is given, donors fill the other rows first, each up to so many of them, and all that have a value
    then stand for those that do not: of a cell of which the part q does not answer, q^(max_uses + 1), labels being
    random.
    """

    by: Marginal
    sums: tuple[Sum, Sum]
    max_uses: int | None = None

    @classmethod
    def of(cls, column: str, design: Design, *, weighted: bool) -> ResponseAdjustment:
        """Return the adjustment for missing answers of a column."""
        missing, schema = design.missing[column], design.schema
        by, deck = missing.cells(schema), missing.hot_deck(schema)
        universe = schema.columns[column].universe
        return cls(
            by=by,
            sums=(
                _sum_weights(by, design, where=universe, weighted=weighted),
                _sum_weights(by, design, known=(column,), weighted=weighted),
            ),
            max_uses=deck.max_uses if missing.how is MissingHandling.IMPUTE else None,
        )

    def adjust(self, answers: Sequence[NoisySum]) -> AdjustedCells:
        """Return all over respondents, cell by cell; where noise hides these, of all cells together."""
        everyone, answered = (np.asarray(each.values, dtype=np.float64) for each in answers)
        noise = [math.sqrt(each.variance) for each in answers]
        whole = max(float(everyone.sum()), noise[0])
        shared = whole / max(float(answered.sum()), noise[1])
        clear = answered > MIN_RESPONDENTS_Z * noise[1]
        factors = np.where(clear, everyone / np.where(clear, answered, 1.0), shared)
        # Noise of all cells is in the factor that those share whose respondents are hidden.
        alike = math.sqrt(answered.size) * math.hypot(noise[0], noise[1] * shared) / whole
        part = np.clip(everyone, noise[0], None) / whole
        relative = np.hypot(noise[0], noise[1] * factors) / np.where(clear, everyone, 1.0)
        factors = np.clip(factors, 1.0, MAX_RESPONSE_FACTOR)
        per_respondent, unserved = float(factors.max()), 0.0
        if self.max_uses is not None:
            lost = 1 - 1 / factors
            left = lost ** (self.max_uses + 1)
            slope = (self.max_uses + 1) * lost**self.max_uses / (1 - left)
            # Rows that no donor serves come in clumps, of those that wait for the same one.
            unserved = float((left * (1 + lost) / (1 - lost)).max())
            relative = relative / factors * slope
            alike *= float(slope.max())
            factors = 1 / (1 - left)
        hidden = min(float(part[~clear].sum()), 1.0) * alike**2
        unsure = math.sqrt(max(float(np.where(clear, part * relative**2, 0.0).max()), hidden))
        found = AdjustedCells.of(self.by, factors, people=whole, unsure=unsure)
        return replace(found, per_respondent=per_respondent, unserved=unserved)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TotalsAdjustment:
    """Weights meet public totals: the table of the sample is raked, and a cell's factor is what that changes."""

    table: ContingencyTable
    largest: float
    shrink: float
    sums: tuple[Sum, ...]

    @property
    def by(self) -> Marginal:
        """The cells of all totals together."""
        return self.table.by

    @classmethod
    def of(cls, design: Design) -> TotalsAdjustment:
        """Return the adjustment to all totals of a design; of several sets of bins, the finest is used."""
        table = ContingencyTable.of(design.totals, schema=design.schema)
        return cls(
            table=table,
            largest=float(design.weight_bound),
            shrink=float(design.shrink),
            sums=(_sum_weights(table.by, design),),
        )

    def adjust(self, answers: Sequence[NoisySum]) -> AdjustedCells:
        """Return the raked weight of each cell, for a base weight of 1; all alike where the sample is lost in noise."""
        (answer,) = answers
        flat = NoisySum(values=answer.values.ravel(), step=answer.step, mechanism=answer.mechanism)
        sample = CalibratedSample(
            table=self.table,
            answer=NoisyCellSums(sums=flat, squares=flat),
            largest_base=self.largest,
            shrink=self.shrink,
        )
        people = float(self.table.totals.people)
        if sample.lost:
            return AdjustedCells.of(self.table.by, np.ones_like(answer.values), people=people, unsure=1.0)
        weights = np.where(self.table.possible, sample.weights[sample.bins], 0.0)
        noise = math.sqrt(flat.variance)
        # A cell that noise hides may hold as many rows as the noise is large, with a factor that says nothing.
        held = np.maximum(flat.values, noise)
        unsure = math.sqrt(float((weights * noise**2 / held).max()) / people)
        return AdjustedCells.of(
            self.table.by,
            weights.reshape(answer.values.shape),
            people=people,
            unsure=unsure,
        )


Adjustment = ResponseAdjustment | TotalsAdjustment


def list_adjustments(
    design: Design, *, filled: Sequence[str], weighted: bool = True
) -> tuple[Adjustment, ...]:
    """Return what adjusts the weights of queries about some columns whose missing answers are filled.

    Frequencies are of rows: no weights and no totals adjust them.
    """
    found: list[Adjustment] = [ResponseAdjustment.of(column, design, weighted=weighted) for column in filled]
    return (*found, *([TotalsAdjustment.of(design)] if design.totals and weighted else []))


def _sum_weights(
    by: Marginal,
    design: Design,
    *,
    where: str | None = None,
    known: tuple[str, ...] = (),
    weighted: bool = True,
) -> Sum:
    """Return the sum of weights by cells, of rows that the design counts."""
    weight = design.weight if weighted else None
    return Sum(
        by=by,
        where=where,
        factors=() if weight is None else (weight,),
        known=tuple(sorted({*known, *design.cells} - set(by.clique))),
    )
