"""Queries whose weights are adjusted by cells first: what is asked, in two steps, and for which share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from populace.privacy.accounting.budget import Budget
from populace.survey.calibration.weight_adjustment import AdjustedCells, Adjustment, list_adjustments
from populace.survey.design.design import Design
from populace.survey.design.design_parts import MissingHandling
from populace.survey.queries.queries import Queries, Query, Statistic
from populace.survey.queries.sum_plan import SumPlan
from populace.survey.sums import CellWeights, HotDeck, Sum, multiply_weights
from populace.survey.survey_oracle import SumBatch
from populace.survey.variance.linearization import NoisySum

# Of the budget of adjusted queries, the part for the cells that weights are adjusted by.
CELLS_SHARE = Fraction(1, 5)


@dataclass(frozen=True, kw_only=True, eq=False)
class AdjustedPlan:
    """Queries about one set of columns whose missing answers are filled, or about none, where totals are met."""

    design: Design
    queries: Queries
    filled: tuple[str, ...]
    budget: Budget
    share: Fraction

    @classmethod
    def of(
        cls,
        queries: Sequence[Query],
        *,
        design: Design,
        filled: Sequence[str],
        budget: Budget,
        share: Fraction,
    ) -> AdjustedPlan:
        """Return the plan, and refuse what could not be asked in its second step either."""
        plan = cls(
            design=design,
            queries=Queries(schema=design.schema, queries=tuple(queries)),
            filled=tuple(filled),
            budget=budget,
            share=share,
        )
        plan.plan_sums(None)
        return plan

    @cached_property
    def adjustments(self) -> tuple[Adjustment, ...]:
        """What adjusts the weights, or rows where a frequency counts them."""
        return list_adjustments(self.design, filled=self.filled, weighted=self.weighted)

    @property
    def weighted(self) -> bool:
        """Whether queries are about the population: frequencies, which are not, have a plan of their own."""
        return self.queries.queries[0].statistic is not Statistic.FREQUENCY

    @property
    def deck(self) -> HotDeck | None:
        """How missing answers are filled before rows are added up; None where respondents stand for all."""
        inside = [name for name in self.filled if self.design.handling(name) is MissingHandling.IMPUTE]
        return self.design.missing[inside[0]].hot_deck(self.design.schema) if inside else None

    @property
    def first(self) -> SumBatch:
        """The sums by cells, and their noise."""
        asked: list[Sum] = [each for own in self.adjustments for each in own.sums]
        return asked, self.budget.sum_noise(self.share * CELLS_SHARE, sums=len(asked))

    def adjust(self, answers: Sequence[NoisySum]) -> tuple[AdjustedCells, ...]:
        """Return the factors that follow from the answers to the first step."""
        found, rest = [], list(answers)
        for each in self.adjustments:
            own, rest = rest[: len(each.sums)], rest[len(each.sums) :]
            found.append(each.adjust(own))
        return tuple(found)

    def imputation_variance(self, cells: Sequence[AdjustedCells]) -> tuple[float, float]:
        """Return what imputation adds to a variance, as a part of what it is without: in the worst of all cells.

        The second number is what rows that no donor serves add to that of a total, of its weighted squares.

        With f rows for each respondent, one donor for each of the others makes a variance of n rows (2f − 1) times as
        large, and what donors of other sampling units hide of these f² times: the latter holds both. Respondents that
        are weighted up have weights that tell it; of a frequency, which has no sampling error, it is f − 1.
        """
        most, unserved = (
            max(each.per_respondent for each in cells),
            max(each.unserved for each in cells),
        )
        if self.deck is not None:
            weight = self.design.weight
            return most**2 - 1 + unserved, unserved * (1.0 if weight is None else float(weight.most))
        return (0.0 if self.weighted else most - 1), 0.0

    def plan_sums(self, cells: Sequence[AdjustedCells] | None) -> SumPlan:
        """Return the sums of the second step; without factors, those of a sample that needs no adjustment."""
        domain, whole = self.design.schema.domain, None
        for place, each in enumerate(self.adjustments):
            count = math.prod(each.by.shape(domain))
            ones = CellWeights(by=each.by, values=(Fraction(1),) * count)
            own = ones if cells is None else cells[place].weights
            whole = own if whole is None else multiply_weights(own, whole, domain=domain)
        return SumPlan.of(
            self.design,
            self.queries,
            budget=self.budget,
            share=self.share * (1 - CELLS_SHARE),
            adjusted=whole,
            filled=self.deck,
        )
