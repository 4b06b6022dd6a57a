"""Claims asked of rows: which sums, for which shares, and how often answers are right."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.fixed_point import STEPS
from populace.privacy.accounting.mechanisms import DiscreteLaplace, Spend
from populace.privacy.accounting.privacy_loss import price
from populace.private.survey.exact_sums import add_up
from populace.private.survey.survey_rows import SurveyRows
from populace.survey.claims.claim_answers import Answer, CheckedClaim, ClaimPlan, answer_claims
from populace.survey.claims.claim_parser import parse_claim
from populace.survey.claims.claim_questions import Reference
from populace.survey.claims.claim_rows import ClaimRows, decide_claim, evaluate_combination
from populace.survey.claims.claim_syntax import Combination
from populace.survey.claims.claims import Claims
from tests.helpers.small_claims import CLAIMS, SCHEMA, make_rows

PURE = Budget.of(Fraction(1), Fraction(0), unit=SCHEMA.unit)
GAUSSIAN = Budget.of(Fraction(1), Fraction("1e-9"), unit=SCHEMA.unit)


class NoisyRows:
    """An oracle about rows that nobody protects: exact sums, and noise of the law that is asked for, times `factor`."""

    def __init__(self, rows: ClaimRows, *, seed: int | None, factor: float = 1.0) -> None:
        self._rows = SurveyRows(codes=rows.codes, numbers=rows.numbers)
        self._rng = None if seed is None else np.random.default_rng(seed)
        self._factor = factor
        self._exact = {}

    def draw_noise(self, mechanism, shape):
        if self._rng is None:
            return np.zeros(shape, dtype=np.int64)
        if isinstance(mechanism, DiscreteLaplace):
            drawn = self._rng.laplace(0, float(mechanism.scale), shape)
        else:
            drawn = self._rng.normal(0, float(mechanism.variance) ** 0.5, shape)
        return np.rint(self._factor * drawn).astype(np.int64)

    def sum_batches(self, batches):
        found = []
        for sums, mechanism in batches:
            for each in sums:
                if each not in self._exact:
                    self._exact[each] = add_up(self._rows, each, schema=SCHEMA)
                exact = self._exact[each]
                found.append(exact + self.draw_noise(mechanism, exact.shape))
        return tuple(found)


def plan_claims(text: str, release: ClaimRows, *, budget: Budget = GAUSSIAN) -> ClaimPlan:
    claims = Claims.parse(text, schema=SCHEMA)
    return ClaimPlan.of(claims, [Reference.of(claim, release) for claim in claims], budget=budget)


def rows_of(count: int, seed: int) -> ClaimRows:
    return ClaimRows.of(make_rows(count, seed=seed), schema=SCHEMA)


def test_without_noise_every_claim_is_answered_as_it_is() -> None:
    real, release = rows_of(5000, 1), rows_of(4000, 2)
    plan = plan_claims(CLAIMS, release, budget=Budget.of(Fraction(20), Fraction("1e-9"), unit=SCHEMA.unit))
    found = answer_claims(NoisyRows(real, seed=None), plan=plan)
    truth = [
        decide_claim(claim, real, estimate=None if each.estimate is None else each.estimate)
        for claim, each in zip(plan.claims, found, strict=True)
    ]
    assert [each.answer is Answer.YES for each in found] == truth
    assert {each.answer for each in found} == {Answer.YES, Answer.NO}
    assert [CheckedClaim.from_json(each.to_json()) for each in found] == list(found)


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_all_sums_together_cost_the_budget_and_no_more(budget: Budget) -> None:
    plan = plan_claims(CLAIMS, rows_of(1000, 2), budget=budget)
    assert sum(plan.shares.values()) == 1
    spent = sum(
        price(
            Spend(verb="measure", what="", mechanism=noise, answers=len(sums), l1=STEPS, l2_squared=STEPS**2),
            currency=budget.currency,
        )
        for sums, noise in plan.batches
    )
    assert Fraction(999, 1000) * budget.cap < spent <= budget.cap


def test_a_mean_against_a_number_is_one_sum_that_is_centred_there() -> None:
    plan = plan_claims("[[claims]]\nclaim = '2 * mean(income | age < 30) > 500'", rows_of(100, 2))
    ((asked,), _), *others = plan.batches
    assert not others
    assert asked.factors[0].centre == 250
    assert asked.most == 750
    assert asked.where == "age < 30"


def test_two_thresholds_cost_little_more_than_one() -> None:
    """An estimate within 5 % has two thresholds; the count between them takes a small share."""
    plan = plan_claims("[[claims]]\nclaim = 'mean(income)'\nwithin = '5 %'", rows_of(3000, 2))
    shares = {len(asked.factors): share for asked, share in plan.shares.items()}
    assert shares[1] > Fraction(9, 10)
    assert shares[0] + shares[1] == 1


def test_a_sum_that_two_claims_need_is_asked_once() -> None:
    text = "[[claims]]\nclaim = 'count(age < 30) > 10'\n[[claims]]\nclaim = 'count(age < 30) < 900'"
    assert len(plan_claims(text, rows_of(100, 2)).batches) == 1


def test_a_sum_that_one_claim_names_twice_has_one_noise() -> None:
    """count − count/2 has half the noise of the count, not √1.25 of it."""
    twice, half = (
        answer_claims(
            NoisyRows(rows_of(200, 1), seed=1),
            plan=plan_claims(f"[[claims]]\nclaim = '{text} > 1'", rows_of(100, 2)),
        )[0]
        for text in ("count() - 0.5 * count()", "0.5 * count()")
    )
    assert twice.noise_margin == pytest.approx(half.noise_margin, rel=1e-6)


def test_estimates_that_the_release_does_not_have_are_refused() -> None:
    nobody = ClaimRows.of(make_rows(0), schema=SCHEMA)
    with pytest.raises(UsageError, match="no estimate"):
        plan_claims("[[claims]]\nclaim = 'mean(income)'\nwithin = '5 %'", nobody)
    with pytest.raises(UsageError, match="no distance"):
        plan_claims("[[claims]]\nclaim = 'count(age < 1)'\nwithin = '5 %'", nobody)
    plan = plan_claims("[[claims]]\nclaim = 'mean(income)'\nwithin = '5 %'\nvalue = 300", nobody)
    assert answer_claims(NoisyRows(nobody, seed=None), plan=plan)[0].answer is Answer.UNDECIDED


def test_an_empty_table_is_no_answer_for_means_and_an_answer_for_counts() -> None:
    plan = plan_claims(CLAIMS, rows_of(1000, 2))
    nobody = ClaimRows.of(make_rows(0), schema=SCHEMA)
    found = {each.name: each.answer for each in answer_claims(NoisyRows(nobody, seed=3), plan=plan)}
    assert found["gap"] is found["together"] is found["slope"] is Answer.UNDECIDED
    assert found["all pay"] is Answer.NO


# ----------------------------------------------------------------------------------------- how often answers are right

KINDS = {
    "mean": "mean(income | sex == 'f')",
    "share": "share(work == 'employed' | age >= 65)",
    "count": "count(age >= 65)",
    "total": "total(income | sex == 'm')",
    "difference": "mean(income | sex == 'm') - mean(income | sex == 'f')",
    "shares": "share(work == 'employed' | sex == 'f') - share(work == 'employed' | sex == 'm')",
    "correlation": "correlation(age, income)",
    "coefficient": "coefficient(income ~ (sex == 'm') + age)",
}
REAL, RELEASE = rows_of(3000, 1), rows_of(3000, 2)


def ask_once(
    text: str, *, seed: int | None, budget: Budget, factor: float = 1.0
) -> tuple[CheckedClaim, bool]:
    """The answer to one claim, and the truth."""
    plan = plan_claims(f'[[claims]]\nclaim = "{text}', RELEASE, budget=budget)
    (checked,) = answer_claims(NoisyRows(REAL, seed=seed, factor=factor), plan=plan)
    (claim,) = plan.claims
    return checked, bool(decide_claim(claim, REAL))


def truth_and_margin(kind: str, *, budget: Budget) -> tuple[float, float]:
    """The statistic among the real rows, and the noise margin of a check near it."""
    says = parse_claim(KINDS[kind], schema=SCHEMA)
    assert isinstance(says, Combination)
    true = evaluate_combination(says, REAL)
    checked, _ = ask_once(f'{KINDS[kind]} > {true:.9g}"', seed=None, budget=budget)
    assert checked.noise_margin is not None
    return true, checked.noise_margin


def count_wrong(kind: str, *, runs: int, budget: Budget, factor: float = 1.0) -> int:
    """How often the answer is wrong where the truth is all but at the threshold."""
    true, margin = truth_and_margin(kind, budget=budget)
    text = f'[[claims]]\nclaim = "{KINDS[kind]} > {true - 1e-3 * margin:.12g}"'
    plan, oracle = plan_claims(text, RELEASE, budget=budget), NoisyRows(REAL, seed=1, factor=factor)
    return sum(answer_claims(oracle, plan=plan)[0].answer is Answer.NO for _ in range(runs))


LARGE = Budget.of(Fraction(4), Fraction("1e-9"), unit=SCHEMA.unit)
LARGE_PURE = Budget.of(Fraction(4), Fraction(0), unit=SCHEMA.unit)


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        pytest.param(
            kind,
            budget,
            id=f"{kind}-{name}",
            marks=[] if (kind, name) == ("share", "gaussian") else pytest.mark.slow,
        )
        for kind in KINDS
        for name, budget in (("gaussian", LARGE), ("pure", LARGE_PURE))
    ],
)
def test_at_the_threshold_the_wrong_answer_is_given_as_often_as_is_said(kind: str, budget: Budget) -> None:
    """In 2.5 % of the cases: 10 of 400 on average; 1 to 24 but for 1 in 10,000 times. Seeds are fixed.

    With half the noise none would be wrong (4 in 100,000 for the normal distribution), with twice the noise 60.
    """
    assert 1 <= count_wrong(kind, runs=400, budget=budget) <= 24
    if kind == "share":
        assert count_wrong(kind, runs=400, budget=budget, factor=2.0) > 24
        if budget is LARGE:
            assert count_wrong(kind, runs=400, budget=budget, factor=0.5) == 0


@pytest.mark.slow
@pytest.mark.parametrize("budget", [LARGE, LARGE_PURE], ids=["gaussian", "pure"])
def test_answers_are_right_and_given_where_noise_allows(budget: Budget) -> None:
    """1,000 runs, each with a threshold of its own up to five noise margins from the truth; seeds are fixed.

    An answer of yes or no is right in at least 95 % of the cases, and given for at least 80 % of the claims whose truth
    lies two noise margins or more from the threshold.
    """
    decided = right = far_decided = far = 0
    for run in range(1000):
        kind = list(KINDS)[run % len(KINDS)]
        true, margin = truth_and_margin(kind, budget=budget)
        distance = np.random.default_rng([7, run]).uniform(-5, 5)
        if run % 3:
            text = f'{KINDS[kind]} > {true - distance * margin:.9g}"'
            away = abs(distance)
        else:
            # An estimate that is off, and a tolerance of four noise margins.
            text = f'{KINDS[kind]}"\nwithin = {4 * margin:.9g}\nvalue = {true + 1.6 * distance * margin:.9g}'
            away = abs(4 - 1.6 * abs(distance))
        checked, truth = ask_once(text, seed=run, budget=budget)
        said = checked.answer is not Answer.UNDECIDED
        decided += said
        right += said and (checked.answer is Answer.YES) == truth
        if away >= 2:
            far += 1
            far_decided += said
    print(f"right {right} of {decided}, decided {far_decided} of {far} beyond two noise margins")
    assert decided > 500
    assert right >= 0.95 * decided
    assert far > 400
    assert far_decided >= 0.8 * far
