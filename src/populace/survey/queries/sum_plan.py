"""All sums of some queries and the budget that each takes: settled before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.privacy.accounting.budget import Budget
from populace.survey.design.design import Design
from populace.survey.queries.expected_variance import expected_log_ratio
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_sums import make_sum_question
from populace.survey.queries.sum_questions import SumQuestion
from populace.survey.queries.variance_share import choose_units_share, unit_noise
from populace.survey.sums import CellWeights, HotDeck, Sum
from populace.survey.survey_oracle import SumBatch

# Shares of queries are whole numbers of this part, found in so many rounds.
SHARE_STEPS, ALLOCATION_ROUNDS = 1024, 6
# No query is starved, however little it gains.
MIN_ELASTICITY = 0.15


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumPlan:
    """All questions of some queries, and the share of the budget that each distinct sum takes.

    `second_shares` has the share of what each question asks about quantiles once they are located.
    """

    questions: tuple[SumQuestion, ...]
    shares: Mapping[Sum, Fraction]
    second_shares: tuple[Fraction, ...] = ()
    log_width: float = 0.0
    """The sum of the logarithms of expected widths, to compare plans of the same queries by."""

    @classmethod
    def of(
        cls,
        design: Design,
        queries: Queries,
        *,
        budget: Budget,
        share: Fraction = Fraction(1),
        adjusted: CellWeights | None = None,
        filled: HotDeck | None = None,
    ) -> SumPlan:
        """Return the plan of queries that are answered by sums, within a share of a budget."""
        questions = [
            replace(make_sum_question(query, design), adjusted=adjusted, filled=filled) for query in queries
        ]
        expected = [ExpectedWidth(each, budget) for each in questions]
        parts = allocate_shares(expected, queries=queries, share=share)
        questions = [each.choose_share(part) for each, part in zip(expected, parts, strict=True)]
        shares: dict[Sum, Fraction] = {}
        for asked, part in zip(questions, parts, strict=True):
            for each, own in asked.shares():
                shares[each] = shares.get(each, Fraction(0)) + part * own
        for each in shares:
            if (cells := math.prod(each.shape(design.schema.domain))) > LIMITS.max_query_sum_cells:
                raise SchemaError(
                    f"the {each} has {cells} cells; {LIMITS.max_query_sum_cells} is the most.",
                    hint="ask for fewer groups, or for columns with fewer values",
                )
        second_shares = tuple(part * asked.second_share for asked, part in zip(questions, parts, strict=True))
        return cls(
            questions=tuple(questions),
            shares=shares,
            second_shares=second_shares,
            log_width=sum(each.log_width(part) for each, part in zip(expected, parts, strict=True)),
        )

    def batches(self, budget: Budget) -> list[SumBatch]:
        """Return the sums with the noise that their shares pay for, those of equal shares together."""
        alike: dict[Fraction, list[Sum]] = {}
        for asked, share in self.shares.items():
            alike.setdefault(share, []).append(asked)
        return [(sums, budget.sum_noise(share * len(sums), sums=len(sums))) for share, sums in alike.items()]


@dataclass(frozen=True, kw_only=False, eq=False)
class ExpectedWidth:
    """How wide the interval of a question may be for a share of a budget, from public quantities."""

    question: SumQuestion
    budget: Budget

    @cached_property
    def estimates(self) -> int:
        """How many numbers it gives."""
        asked = self.question
        values = asked.values.levels if asked.query.values and asked.values else max(len(asked.query.p), 1)
        return max(int(asked.possible.sum()) * values, 1)

    @property
    def power(self) -> int:
        """How fast the variance of the noise falls with the share: by its square where noise is Laplace."""
        return 2 if unit_noise(self.budget, Fraction(1))[1] else 1

    def choose_share(self, share: Fraction) -> SumQuestion:
        """Return the question, with the part of its budget for units that gives the least expected interval."""
        return replace(self.question, units_share=self._choose(self._log_ratio(share))[0])

    def elasticity(self, share: Fraction) -> float:
        """Return by which part of a percent the interval shrinks where the share grows by one percent."""
        ratio = self._log_ratio(share)
        (_, below), (_, above) = self._choose(ratio - 1), self._choose(ratio + 1)
        return self.power * math.log(below / above) / 2

    def log_width(self, share: Fraction) -> float:
        """Return the logarithm of the expected width, over that of the sampling deviation, of all its numbers."""
        return self.estimates * math.log(self._choose(self._log_ratio(share))[1])

    def _log_ratio(self, share: Fraction) -> float:
        noise, _ = unit_noise(self.budget, share)
        groups = int(self.question.possible.sum())
        return expected_log_ratio(self.question.query, self.question.design, noise=noise, groups=groups)

    def _choose(self, ratio: float) -> tuple[Fraction, float]:
        question, design = self.question, self.question.design
        if not (design.clustered and design.replicates is None and question.weighted):
            return question.units_share, math.sqrt(question.weighted + math.exp(-ratio))
        return choose_units_share(
            round(2 * ratio) / 2,
            psus=len(design.psu_list),
            degrees=max(design.degrees or 1, 1),
            pure=self.power == 2,
            deviation=round(design.design_effect.log_deviation(question.query.statistic.is_total), 2),
            beside=question.rows_share,
        )


def allocate_shares(
    expected: Sequence[ExpectedWidth], *, queries: Queries, share: Fraction
) -> tuple[Fraction, ...]:
    """Return the share of each query: as it says, or so that relative widths are small for as many as possible.

    The weighted sum of logarithms of widths is least where shares are in proportion to the weight of a query times how
    much its intervals gain from a larger share. The weight is the root of how many numbers it gives.
    """
    given = queries.shares
    if len(set(given)) > 1:
        return tuple(share * part for part in given)
    parts = list(given)
    for _ in range(ALLOCATION_ROUNDS):
        wanted = [
            math.sqrt(each.estimates) * max(each.elasticity(share * part), MIN_ELASTICITY)
            for each, part in zip(expected, parts, strict=True)
        ]
        whole = sum(wanted)
        parts = [
            (part + Fraction(round(want / whole * SHARE_STEPS) + 1, SHARE_STEPS)) / 2
            for part, want in zip(parts, wanted, strict=True)
        ]
        parts = [part / sum(parts) for part in parts]
    rounded = [Fraction(max(1, math.floor(part * SHARE_STEPS)), SHARE_STEPS) for part in parts]
    return tuple(share * part / sum(rounded) for part in rounded)
