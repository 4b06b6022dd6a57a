"""Claims asked of private rows: a plan fixed from public facts, noisy sums, and yes, no or can't say.

An answer is given where noise of the law that was drawn leaves no doubt. Yes is said where every margin of a claim is
above 0 by more than its 95 % margin of error: were the claim false, one of them would be at most 0, and noise would
have to lift it that far, which it does in 2.5 % of all cases. No is said where one margin of J is below 0 by more than
its margin of error of level 1 − 0.1/J, and at least 95 %: of a true claim all margins are above 0, and by the union
bound one of them is brought that low in at most 5 % of all cases (2.5 % where there is one).
Proof: docs/proofs/checks.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from populace.core.array_types import Floats
from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema
from populace.survey.claims.claim_margins import Margin
from populace.survey.claims.claim_questions import ClaimQuestion, Reference
from populace.survey.claims.claims import Claims, refuse_unbounded
from populace.survey.sums import Sum
from populace.survey.survey_oracle import SumBatch, SurveyOracle
from populace.survey.variance.confidence_intervals import LEVEL, NoiseTerms, half_width
from populace.survey.variance.linearization import NoisySum, ask_sums

# Of what a claim may spend, a sum that hardly matters by the release's numbers gets at least this part of the largest.
MIN_SUM_PART = 0.05
# Shares of the budget are whole numbers of such parts: short fractions, the same on every machine.
SHARE_PARTS = 1000


class Answer(StrEnum):
    """What can be said of a claim."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "can't say"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedClaim:
    """A claim with its answer about the private rows, and with what the release says of it.

    `estimate` is the release's own, where the claim is about one, and `holds` whether the release itself meets a
    comparison. `noise_margin` is the 95 % margin of error of the check, in units of the claim's statistic: truths
    closer to the threshold cannot be told from it.
    """

    name: str
    claim: str
    answer: Answer
    estimate: float | None
    holds: bool | None
    noise_margin: float | None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "name": self.name,
            "claim": self.claim,
            "answer": self.answer.value,
            "release_estimate": self.estimate,
            "release_holds": self.holds,
            "noise_margin": self.noise_margin,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> CheckedClaim:
        """Return what `to_json` wrote."""
        return cls(
            name=str(saved["name"]),
            claim=str(saved["claim"]),
            answer=Answer(saved["answer"]),
            estimate=saved["release_estimate"],
            holds=saved["release_holds"],
            noise_margin=saved["noise_margin"],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimPlan:
    """What is asked for all claims, and for which share of the budget: fixed before the first answer."""

    claims: Claims
    budget: Budget
    questions: tuple[ClaimQuestion, ...]
    shares: Mapping[Sum, Fraction]

    @classmethod
    def of(cls, claims: Claims, references: Sequence[Reference], *, budget: Budget) -> ClaimPlan:
        """Plan all claims; those of statistics without a bounded sensitivity are refused."""
        refuse_unbounded(claims)
        questions = tuple(
            ClaimQuestion.of(claim, reference, schema=claims.schema)
            for claim, reference in zip(claims, references, strict=True)
        )
        shares: dict[Sum, Fraction] = {}
        for question, share in zip(questions, claims.shares, strict=True):
            for asked, part in zip(question.sums, _share_sums(question, schema=claims.schema), strict=True):
                # A sum that several claims need is asked once, for the shares of all of them.
                shares[asked] = shares.get(asked, Fraction(0)) + share * part
        return cls(claims=claims, budget=budget, questions=questions, shares=shares)

    @property
    def batches(self) -> list[SumBatch]:
        """Every sum with its noise."""
        return [((asked,), self.budget.sum_noise(share, sums=1)) for asked, share in self.shares.items()]


def answer_claims(oracle: SurveyOracle, *, plan: ClaimPlan) -> tuple[CheckedClaim, ...]:
    """Ask all sums of a plan in one go, and return what can be said of each claim."""
    answers = dict(ask_sums(oracle, plan.batches))
    return tuple(_judge(question, answers) for question in plan.questions)


def predict_answers(plan: ClaimPlan) -> tuple[CheckedClaim, ...]:
    """Return what would be said of each claim were the release's own numbers the true ones, and noise nought.

    Nothing is read or spent. The noise margins are about those that answers will have.
    """
    mechanisms = {asked: noise for (asked,), noise in ((tuple(sums), noise) for sums, noise in plan.batches)}
    found = []
    for question in plan.questions:
        shapes = [asked.by.shape(plan.claims.schema.domain) for asked in question.sums]
        parts = np.split(question.expected, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        answers = {
            asked: NoisySum(values=part.reshape(shape), step=float(asked.step), mechanism=mechanisms[asked])
            for asked, part, shape in zip(question.sums, parts, shapes, strict=True)
        }
        found.append(_judge(question, answers))
    return tuple(found)


def _share_sums(question: ClaimQuestion, *, schema: Schema) -> list[Fraction]:
    """Return the part of a claim's budget for each of its sums.

    With Gaussian noise the variance of Σ g·S is smallest where the share of S is in proportion to |g| times the most
    that a row adds; g is what it would be were the release's numbers true.
    """
    most = np.array([float(each.most) for each in question.sums])
    cells = [math.prod(each.by.shape(schema.domain)) for each in question.sums]
    steps = np.repeat(most, cells)
    sizes = np.zeros(len(steps))
    for margin in question.margins:
        slopes = np.abs(margin.gradient(question.expected, steps=steps)) * steps
        sizes = np.maximum(sizes, np.where(np.isfinite(slopes), slopes, 0.0))
    starts = np.cumsum([0, *cells[:-1]])
    largest = np.maximum.reduceat(sizes, starts)
    if not largest.max() > 0:
        largest = np.ones(len(largest))
    parts = np.maximum(largest / largest.max(), MIN_SUM_PART)
    whole = [max(1, round(SHARE_PARTS * part)) for part in parts / parts.sum()]
    return [Fraction(part, sum(whole)) for part in whole]


def _judge(question: ClaimQuestion, answers: Mapping[Sum, NoisySum]) -> CheckedClaim:
    asked = [answers[each] for each in question.sums]
    cells = [each.values.size for each in asked]
    totals = np.concatenate([each.values.ravel() for each in asked])
    deviations = np.repeat([each.step * math.sqrt(float(each.mechanism.variance)) for each in asked], cells)
    most = np.repeat([float(each.most) for each in question.sums], cells)
    level = max(LEVEL, 1 - 0.1 / len(question.margins))
    found, widest = [], 0.0
    for margin in question.margins:
        value, gradient = _linearize(margin, totals, steps=most, deviations=deviations)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            found.append((math.nan, math.inf, math.inf))
            continue
        noise = _add_noise(question.sums, asked, np.split(gradient, np.cumsum(cells)[:-1]))
        widths = [half_width(None, noise=noise, level=each) for each in (LEVEL, level)]
        found.append((value, widths[0], widths[1]))
        widest = max(widest, widths[0] / margin.worth)
    reference = question.reference
    return CheckedClaim(
        name=question.claim.name,
        claim=question.claim.words,
        answer=_decide(found),
        estimate=None if reference.value is None else float(reference.value),
        holds=reference.holds,
        noise_margin=float(f"{widest:.6g}") if widest else None,
    )


def _add_noise(sums: Sequence[Sum], answers: Sequence[NoisySum], slopes: Sequence[Floats]) -> NoiseTerms:
    """Return the noise of a margin with such slopes; a sum that a claim names twice has one noise."""
    by_sum: dict[Sum, tuple[NoisySum, Floats]] = {}
    for asked, answer, own in zip(sums, answers, slopes, strict=True):
        _, held = by_sum.get(asked, (answer, np.zeros(len(own))))
        by_sum[asked] = answer, held + own
    terms = [
        NoiseTerms.of(answer.mechanism, weights=own[own != 0] * answer.step)
        for answer, own in by_sum.values()
    ]
    return reduce(add, terms, NoiseTerms())


def _linearize(margin: Margin, totals: Floats, *, steps: Floats, deviations: Floats) -> tuple[float, Floats]:
    """Return a margin and its gradient; NaN where noise hides what it divides by."""
    if not margin.is_clear(totals, deviations=deviations):
        return math.nan, np.full(len(totals), np.nan)
    return margin.value(totals), margin.gradient(totals, steps=steps)


def _decide(margins: Sequence[tuple[float, float, float]]) -> Answer:
    """Return the answer for margins, each with its margin of error for yes and for no.

    >>> _decide([(3.0, 2.0, 2.5)]), _decide([(3.0, 2.0, 2.5), (-2.2, 2.0, 2.5)]), _decide([(math.nan, 1.0, 1.0)])
    (<Answer.YES: 'yes'>, <Answer.UNDECIDED: "can't say">, <Answer.UNDECIDED: "can't say">)
    """
    if all(value > width for value, width, _ in margins):
        return Answer.YES
    return Answer.NO if any(value < -width for value, _, width in margins) else Answer.UNDECIDED
