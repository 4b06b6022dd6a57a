"""A table without rows behind the checks of the barrier: what is refused here is refused for any table.

A run that goes the whole way on it finds all that could be refused once a part of the budget is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from populace.core.marginals import Counts
from populace.privacy.accounting.mechanisms import Exponential, Noise
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.private.survey.exact_sums import check_noise, check_sums
from populace.private.survey.smooth_answers import check_choice, check_noise_and_lattice, check_question
from populace.schema.schema import Schema
from populace.survey.answer_queries import answer_queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.smooth_questions import BinChoice, SmoothQuestion
from populace.survey.survey_oracle import SumBatch


def check_answerable(plan: QueryPlan) -> None:
    """Refuse, before anything is spent, what could not be asked or answered: for public facts alone."""
    answer_queries(EmptyTableOracle(schema=plan.design.schema), plan=plan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmptyTableOracle:
    """An oracle about no rows, answered exactly. Nothing is charged, for nothing is read."""

    schema: Schema

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums of nothing."""
        for sums, noise in batches:
            check_sums(sums, schema=self.schema)
            check_noise(noise)
        domain = self.schema.domain
        return tuple(np.zeros(each.shape(domain), dtype=np.int64) for sums, _ in batches for each in sums)

    def smooth(self, question: SmoothQuestion, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return an answer about nothing."""
        check_question(question, schema=self.schema)
        check_noise_and_lattice(question, mechanism=mechanism, lattice=lattice)
        return Fraction(0)

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Return the size of the bound of nothing."""
        check_question(question, schema=self.schema)
        check_noise(noise)
        return 0

    def choose_bins(self, question: BinChoice, *, mechanism: Exponential) -> int:
        """Return the first set of bins."""
        del mechanism
        check_choice(question, schema=self.schema)
        return 0
