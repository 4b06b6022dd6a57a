"""A table without rows behind the checks of the barrier: what is refused here is refused for any table.

A run that goes the whole way on it finds all that could be refused once a part of the budget is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from populace.marginals import Counts
from populace.privacy.budget import Budget
from populace.privacy.mechanisms import Exponential, Noise
from populace.privacy.smooth_noise import SmoothNoise
from populace.private.statistics.smooth import check_choice, check_law, check_question
from populace.private.statistics.sums import check_noise, check_sums
from populace.records import dataclass
from populace.schema.schema import Schema
from populace.survey.design import Design
from populace.survey.estimate import answer
from populace.survey.oracle import SumBatch
from populace.survey.queries import Queries
from populace.survey.questions import BinChoice, SmoothQuestion


def check(design: Design, queries: Queries, *, budget: Budget) -> None:
    """Refuse, before anything is spent, what could not be asked or answered: for public facts alone."""
    answer(Empty(schema=design.schema, budget=budget), design=design, queries=queries)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Empty:
    """An oracle about no rows, told exactly. Nothing is charged, for nothing is read."""

    schema: Schema
    budget: Budget

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums of nothing."""
        for sums, noise in batches:
            check_sums(sums, schema=self.schema)
            check_noise(noise)
        domain = self.schema.domain
        return tuple(np.zeros(each.by.shape(domain), dtype=np.int64) for sums, _ in batches for each in sums)

    def smooth(self, question: SmoothQuestion, *, law: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return an answer about nothing."""
        check_question(question, schema=self.schema)
        check_law(question, law=law, lattice=lattice)
        return Fraction(0)

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Return the size of the bound of nothing."""
        check_question(question, schema=self.schema)
        check_noise(noise)
        return 0

    def choose_bins(self, question: BinChoice, *, law: Exponential) -> int:
        """Return the first set of bins."""
        del law
        check_choice(question, schema=self.schema)
        return 0
