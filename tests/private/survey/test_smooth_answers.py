"""Answers whose noise follows a private bound, the size of that bound and the choice of bins: law, price, refusals."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import LedgerError, OverBudget, PopulaceError, UsageError
from populace.core.marginals import Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.fixed_point import LOG_STEPS, SCORE_STEPS
from populace.privacy.accounting.gaussian_dp import pure_mu_squared
from populace.privacy.accounting.interval_arithmetic import ball, bounds
from populace.privacy.accounting.mechanisms import (
    DiscreteLaplace,
    Exponential,
    Spend,
    mechanism_from_json,
)
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.sensitivity.poststratification import Binning
from populace.privacy.smooth.smooth_distributions import Cauchy, LaplaceLogNormal, PolyPlace, Student
from populace.privacy.smooth.smooth_noise import LN_2, SmoothNoise, calibrate_family
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.private.survey import smooth_answers as smooth
from populace.release.statement.limitations import MeasuredContent, list_limitations
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from populace.survey.smooth_questions import (
    BaseWeights,
    BinChoice,
    Donors,
    ImputedQuestion,
    ImputedStatistic,
    WeightedQuestion,
)
from tests.audit import replay
from tests.audit.replay import (
    LeakError,
    RecordingNoise,
    ReplayingNoise,
    SmoothNoisyAnswer,
    check_sensitivities,
    privacy_loss,
)

pytestmark = pytest.mark.sampled(8)

SCHEMA = Schema.parse("""
[columns.SEX]
kind = "categorical"
values = ["1", "2"]
other = "2"
[columns.AGE]
kind = "integer"
min = 0
max = 9
other = "0"
[columns.INC]
kind = "integer"
min = 0
max = 20
missing = ["-1"]
""")
ROWS = [("1", 3, 7), ("1", 4, -1), ("2", 8, 20), ("2", 8, -1), ("1", 0, 12)]
FAR = Binning(name="apart", bins=((0,), (1,)))
WEIGHTED = WeightedQuestion(
    by=Marginal(("SEX",)),
    binning=FAR,
    populations=(Fraction(40), Fraction(60)),
    where="AGE >= 4",
    beta=Fraction(1, 2),
)
FILLED = ImputedQuestion(
    statistic=ImputedStatistic.SUM,
    donors=Donors(
        column="INC", match=Marginal(("AGE",)), low=Fraction(0), high=Fraction(20), default=Fraction(5)
    ),
    size=Fraction(4),
)
CHOICE = BinChoice(
    by=Marginal(("SEX",)),
    binnings=(FAR, Binning(name="whole", bins=((0, 1),))),
    populations=(Fraction(40), Fraction(60)),
)
QUICK = SmoothNoise(distribution=PolyPlace(Fraction(4)), s=Fraction(1), t=LN_2)
FINE = Fraction(1, 2**30)


def table(rows=ROWS, schema=SCHEMA):
    sexes, ages, incomes = zip(*rows, strict=True)
    return PrivateTable.of(pa.table({"SEX": sexes, "AGE": ages, "INC": incomes}), schema=schema)


class Paid:
    """A run that pays for everything and remembers what it was charged."""

    rehearsal = True
    id = "0" * 32
    left = Budget.of(Fraction(10), Fraction(0), unit=SCHEMA.unit)

    def __init__(self):
        self.spends = []

    def charge(self, *spends):
        self.spends += spends


def barrier(rows=ROWS, *, schema=SCHEMA, noise=None, seed=3):
    return Barrier(table(rows, schema), run=Paid(), noise=noise or ExactNoise(RehearsalEntropy(seed)))


def exact(question, rows=ROWS):
    number, bound = smooth.answer(table(rows).survey_rows(), question, schema=SCHEMA, key=Paid.id)
    return number, float(bounds(bound)[1])


# ----------------------------------------------------------------------------------------- the law of what comes back


def sizes_fit(sizes, tail):
    """Whether sizes have a law's tail: a distance that is passed with probability 1e-6 (Massart)."""
    ordered = np.sort(sizes)
    n = len(ordered)
    true = 1 - np.array([tail(x) for x in ordered])
    gap = max((np.arange(1, n + 1) / n - true).max(), (true - np.arange(n) / n).max())
    return gap <= math.sqrt(math.log(2e6) / (2 * n))


def poly_tail(x, gamma=4.0):
    beyond = math.exp(-gamma) * gamma / (gamma - 1)
    whole = 1 - math.exp(-gamma) + beyond
    above = math.exp(-x) - math.exp(-gamma) + beyond if x <= gamma else beyond * (x / gamma) ** (1 - gamma)
    return above / whole


@pytest.mark.parametrize("question", [WEIGHTED, FILLED], ids=["weighted", "filled"])
def test_answers_carry_noise_as_wide_as_their_bound(question):
    number, bound = exact(question)
    asked = barrier()
    answers = [asked.smooth(question, mechanism=QUICK, lattice=FINE) for _ in range(250)]
    assert all((answer / FINE).denominator == 1 for answer in answers)
    sizes = np.array([abs(float(answer - number)) for answer in answers]) / bound
    assert sizes_fit(sizes, poly_tail)
    assert not sizes_fit(sizes / 2, poly_tail), "halved noise must be seen"
    assert not sizes_fit(sizes * 2, poly_tail), "doubled noise must be seen"
    above = sum(answer > number for answer in answers)
    assert abs(above - 125) < 40  # five standard deviations


def test_bounds_are_those_of_the_tables():
    # Three rows of 40 and two of 60: the bound is 60/2 now, or 60/1 one row away.
    assert exact(WEIGHTED) == (Fraction(40, 3) + 60, pytest.approx(60 * math.exp(-0.5)))
    assert exact(FILLED)[0] == Fraction(7 + 7 + 20 + 20 + 12, 4)


def noise_fits(values, variance):
    return 0.55 < float(np.mean(np.square(values))) / float(variance) < 1.7


def test_sizes_of_bounds_carry_the_noise_that_was_charged():
    mechanism, asked = DiscreteLaplace(Fraction(3000)), barrier()
    told = np.array([asked.bound_size(FILLED, noise=mechanism) for _ in range(400)], dtype=float)
    size = math.ceil(LOG_STEPS * math.log(exact(FILLED)[1]) / float(LN_2) - 1e-9)
    assert noise_fits(told - size, mechanism.variance)
    assert not noise_fits((told - size) / 2, mechanism.variance)
    assert not noise_fits((told - size) * 2, mechanism.variance)
    assert {spend.l1 for spend in asked._run.spends} == {LOG_STEPS}
    assert {spend.verb for spend in asked._run.spends} == {"score"}


def test_sizes_of_bounds_move_by_no_more_than_is_charged():
    tables = [ROWS[:2], ROWS[:3], ROWS]
    for question in (WEIGHTED, FILLED):
        for rows in tables:
            for place in range(len(rows)):
                fewer = [*rows[:place], *rows[place + 1 :]]
                if not fewer:
                    continue
                steps = [
                    int(
                        smooth.log_bound_steps(
                            table(each).survey_rows(), question, schema=SCHEMA, key=Paid.id
                        )
                    )
                    for each in (rows, fewer)
                ]
                assert abs(steps[0] - steps[1]) <= LOG_STEPS


def share_fits(share, chance, *, of):
    """Five standard deviations: a false alarm in less than one of a million."""
    return abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / of)


def test_sets_of_bins_are_chosen_with_the_chances_that_were_charged():
    # Scores 2/max(40/3, 60/2) and 1/(100/5); Δ = 2/40.
    scores, step = np.array([2 / 30, 1 / 20]), 2 / 40
    epsilon = Fraction(6)
    weights = np.exp(float(epsilon) * scores / (2 * step))
    chance, asked, times = weights[0] / weights.sum(), barrier(), 900
    picked = [asked.choose_bins(CHOICE, mechanism=Exponential(epsilon)) for _ in range(times)]
    share = picked.count(0) / times
    assert share_fits(share, chance, of=times)
    for wrong in (epsilon / 2, epsilon * 2):
        other = np.exp(float(wrong) * scores / (2 * step))
        assert not share_fits(share, other[0] / other.sum(), of=times)
    (shift,) = {spend.l1 for spend in asked._run.spends}
    assert SCORE_STEPS <= shift <= SCORE_STEPS + 1


@pytest.mark.parametrize(
    ("rows", "neighbours", "group"), [(1, "add-remove", 1), (3, "add-remove", 3), (3, "replace-one", 6)]
)
def test_a_unit_of_several_rows_is_charged_for_each(rows, neighbours, group):
    unit = PrivacyUnit(rows=rows, id="who" if rows > 1 else None, neighbours=Neighbours(neighbours))
    schema = Schema(columns=SCHEMA.columns, unit=unit)
    held = pa.table({"SEX": ["1"], "AGE": [3], "INC": [4], "who": ["a"]})
    asked = Barrier(PrivateTable.of(held, schema=schema), run=Paid(), noise=ExactNoise(RehearsalEntropy(1)))
    asked.smooth(WEIGHTED, mechanism=QUICK, lattice=FINE)
    asked.bound_size(WEIGHTED, noise=DiscreteLaplace(Fraction(9)))
    asked.choose_bins(CHOICE, mechanism=Exponential(Fraction(1)))
    spends = asked._run.spends
    assert [spend.verb for spend in spends] == ["smooth", "score", "choose"]
    assert [spend.l1 for spend in spends] == [group, group * LOG_STEPS, group * SCORE_STEPS]
    assert price(spends[0], currency=Currency.PURE) == group * QUICK.price


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_bins_are_chosen_at_the_rate_that_was_charged(rows, neighbours):
    """A choice is priced by its epsilon alone, so nothing else tells whether it was drawn for the whole unit."""

    class Ear:
        def pick(self, scores, *, rate):
            self.rate = rate
            return 0

    unit = PrivacyUnit(rows=rows, id="who" if rows > 1 else None, neighbours=Neighbours(neighbours))
    held = pa.table({"SEX": ["1", "2"], "AGE": [3, 4], "INC": [4, 5], "who": ["a", "b"]})
    ear, run = Ear(), Paid()
    asked = Barrier(
        PrivateTable.of(held, schema=Schema(columns=SCHEMA.columns, unit=unit)), run=run, noise=ear
    )
    asked.choose_bins(CHOICE, mechanism=Exponential(Fraction(1)))
    (spend,) = run.spends
    assert ear.rate == spend.mechanism.rate(sensitivity=spend.l1)


# ----------------------------------------------------------------------------------------- what the ledger holds

LAWS = [
    SmoothNoise(distribution=Cauchy(Fraction("3.7")), s=Fraction(1, 3), t=LN_2),
    SmoothNoise(distribution=Student(Fraction(5, 2)), s=Fraction(2), t=Fraction(1, 6)),
    QUICK,
    SmoothNoise(distribution=LaplaceLogNormal(Fraction(1, 2)), s=Fraction(1), t=Fraction(1, 8)),
]


def spend(mechanism, *, l1=1, verb="smooth"):
    return Spend(verb=verb, what="a question", mechanism=mechanism, answers=1, l1=l1, l2_squared=l1**2)


@pytest.mark.parametrize("mechanism", LAWS, ids=str)
def test_laws_come_back_from_json(mechanism):
    told = json.loads(json.dumps(mechanism.to_json()))
    assert mechanism_from_json(told) == mechanism
    assert set(told) == {"law", "family", "s", "t", *mechanism.to_json()}
    with pytest.raises(UsageError, match="unknown field may be a spend"):
        mechanism_from_json(told | {"scale": "3"})
    with pytest.raises(UsageError, match="is called"):
        mechanism_from_json(told | {"family": "normal"})
    with pytest.raises((UsageError, KeyError, ValueError)):
        mechanism_from_json(told | {"s": "0"})
    record = SpendRecord(spend=spend(mechanism), price=Fraction(100))
    assert SpendRecord.from_event(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize("mechanism", LAWS[:3], ids=str)
@pytest.mark.parametrize("currency", [Currency.PURE, Currency.GDP, Currency.ZCDP])
def test_prices_are_those_of_groups_of_rows(mechanism, currency):
    epsilon = 3 * mechanism.price
    expected = {
        Currency.PURE: epsilon,
        Currency.GDP: pure_mu_squared(epsilon),
        Currency.ZCDP: epsilon**2 / 2,
    }
    assert price(spend(mechanism, l1=3), currency=currency) == expected[currency]


def test_laplace_log_normal_noise_is_priced_in_zcdp_alone():
    mechanism = LAWS[3]
    assert price(spend(mechanism, l1=3), currency=Currency.ZCDP) == 9 * mechanism.price
    for currency in (Currency.PURE, Currency.GDP):
        with pytest.raises(UsageError, match="zCDP alone"):
            price(spend(mechanism), currency=currency)


@pytest.mark.parametrize("currency", [Currency.PURE, Currency.GDP])
def test_a_forged_price_is_refused(currency):
    unit = PrivacyUnit(rows=3, id="who")
    honest = SpendRecord(spend=spend(QUICK, l1=3), price=price(spend(QUICK, l1=3), currency=currency))
    honest.check(unit=unit, currency=currency, run="r")
    cheap = SpendRecord(spend=honest.spend, price=honest.price * (1 - Fraction(1, 2**40)))
    with pytest.raises(LedgerError, match="below its price"):
        cheap.check(unit=unit, currency=currency, run="r")
    # As if one row were all that a unit has.
    few = SpendRecord(spend=spend(QUICK, l1=1), price=price(spend(QUICK, l1=1), currency=currency))
    with pytest.raises(LedgerError, match="for less than one row can move"):
        few.check(unit=unit, currency=currency, run="r")


def test_verbs_and_laws_go_together():
    for verb in ("measure", "score", "choose", "discover"):
        with pytest.raises(UsageError, match="does not go with"):
            spend(QUICK, verb=verb)
    for mechanism in (DiscreteLaplace(Fraction(1)), Exponential(Fraction(1))):
        with pytest.raises(UsageError, match="does not go with"):
            spend(mechanism)


class Cheap(Cauchy):
    """A law that says it costs nothing."""

    def price(self, *, s, t):
        return Fraction(0)


def test_a_law_cannot_name_its_own_price():
    with pytest.raises(UsageError, match="no smooth noise follows"):
        SmoothNoise(distribution=Cheap(Fraction(4)), s=Fraction(1), t=LN_2)
    for s, t in ((Fraction(0), LN_2), (Fraction(1), Fraction(0)), (1.0, LN_2), (Fraction(2**65), LN_2)):
        with pytest.raises(UsageError):
            SmoothNoise(distribution=Cauchy(Fraction(4)), s=s, t=t)


# ----------------------------------------------------------------------------------------- refusals


def unread():
    pytest.fail("rows were read")


def replaced(question, **changes):
    from dataclasses import replace

    return replace(question, **changes)


SMALL_T = SmoothNoise(distribution=PolyPlace(Fraction(4)), s=Fraction(1), t=Fraction(1, 4))
REFUSED = {
    "t below the smoothness": lambda b: b.smooth(WEIGHTED, mechanism=SMALL_T, lattice=FINE),
    "t below ln 2": lambda b: b.smooth(FILLED, mechanism=replaced(QUICK, t=Fraction("0.69")), lattice=FINE),
    "no smooth law": lambda b: b.smooth(WEIGHTED, mechanism=DiscreteLaplace(Fraction(1)), lattice=FINE),
    "no lattice": lambda b: b.smooth(WEIGHTED, mechanism=QUICK, lattice=Fraction(0)),
    "a float as a lattice": lambda b: b.smooth(WEIGHTED, mechanism=QUICK, lattice=0.5),
    "a lattice too fine to be decided": lambda b: b.smooth(
        WEIGHTED, mechanism=QUICK, lattice=Fraction(1, 2**16400)
    ),
    "a lattice finer than rows move": lambda b: b.smooth(
        WEIGHTED, mechanism=QUICK, lattice=Fraction(1, 2**60)
    ),
    "a lattice coarser than rows move": lambda b: b.smooth(FILLED, mechanism=QUICK, lattice=Fraction(2**70)),
    "a number beyond floats": lambda b: b.smooth(
        replaced(FILLED, donors=replaced(FILLED.donors, high=Fraction(10**400))),
        mechanism=QUICK,
        lattice=Fraction(10**400),
    ),
    "a population beyond floats": lambda b: b.bound_size(
        replaced(WEIGHTED, populations=(Fraction(10**400), Fraction(1))), noise=DiscreteLaplace(Fraction(9))
    ),
    "base weights without numbers": lambda b: b.smooth(
        replaced(WEIGHTED, base=BaseWeights(column="SEX", largest=3)), mechanism=QUICK, lattice=FINE
    ),
    "base weights of no column": lambda b: b.choose_bins(
        replaced(CHOICE, base=BaseWeights(column="NONE", largest=3)), mechanism=Exponential(Fraction(1))
    ),
    "a unit of base weights beyond floats": lambda b: b.smooth(
        replaced(WEIGHTED, base=BaseWeights(column="AGE", unit=Fraction(10**400), largest=3)),
        mechanism=QUICK,
        lattice=FINE,
    ),
    "bins of less than a person": lambda b: b.choose_bins(
        replaced(CHOICE, populations=(Fraction(1, 10**18),) * 2), mechanism=Exponential(Fraction(1))
    ),
    "no price in this currency": lambda b: b.smooth(
        WEIGHTED, mechanism=replaced(QUICK, distribution=LaplaceLogNormal(Fraction(1, 2))), lattice=FINE
    ),
    "an unknown column": lambda b: b.smooth(
        replaced(WEIGHTED, by=Marginal(("NONE",))), mechanism=QUICK, lattice=FINE
    ),
    "no condition": lambda b: b.smooth(replaced(WEIGHTED, where="AGE >"), mechanism=QUICK, lattice=FINE),
    "no room": lambda b: b.smooth(
        replaced(
            FILLED, donors=replaced(FILLED.donors, low=Fraction(0), high=Fraction(0), default=Fraction(0))
        ),
        mechanism=QUICK,
        lattice=FINE,
    ),
    "a bound that hardly moves": lambda b: b.bound_size(
        replaced(WEIGHTED, beta=Fraction(1, 2**21)), noise=DiscreteLaplace(Fraction(9))
    ),
    "noise that tells keys": lambda b: b.bound_size(WEIGHTED, noise=QUICK),
    "noise too wide to be drawn": lambda b: b.bound_size(WEIGHTED, noise=DiscreteLaplace(Fraction(2**41))),
    "bins without populations": lambda b: b.choose_bins(
        replaced(CHOICE, populations=(Fraction(1),)), mechanism=Exponential(Fraction(1))
    ),
    "no bins": lambda b: b.choose_bins(replaced(CHOICE, binnings=()), mechanism=Exponential(Fraction(1))),
    "no law of choices": lambda b: b.choose_bins(CHOICE, mechanism=DiscreteLaplace(Fraction(1))),
    "over budget": lambda b: b.smooth(WEIGHTED, mechanism=replaced(QUICK, s=Fraction(1000)), lattice=FINE),
    "a choice over budget": lambda b: b.choose_bins(CHOICE, mechanism=Exponential(Fraction(1000))),
    "a size over budget": lambda b: b.bound_size(WEIGHTED, noise=DiscreteLaplace(Fraction(1))),
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    ledger = Ledger.open(tmp_path_factory.mktemp("smooth") / "ledger.db")
    run = ledger.reserve(
        "smooth",
        epsilon=Fraction(5),
        delta=Fraction(0),
        unit=SCHEMA.unit,
        method="estimate",
        schema_digest=SCHEMA.digest,
        rehearsal=True,
    )
    closed = PrivateTable(unread, schema=SCHEMA, read_survey_rows=unread)
    asked = Barrier(closed, run=run, noise=ExactNoise(RehearsalEntropy(1)))
    return asked, lambda: ledger.record(ledger.account("smooth").runs[0])


@pytest.mark.parametrize("case", REFUSED)
def test_refused_questions_spend_and_read_nothing(workspace, case):
    asked, record = workspace
    with pytest.raises(OverBudget if "over budget" in case else PopulaceError):
        REFUSED[case](asked)
    assert record().spends == ()


def test_scores_stay_within_whole_numbers(monkeypatch):
    """However many rows there are: held to a public end, they move no further than one row moves them."""
    times, _ = smooth.scale_scores(CHOICE)
    for scores in ([Fraction(2**80), Fraction(3)], [Fraction(2**80 + 1), Fraction(4)]):
        monkeypatch.setattr(smooth.weighted, "scores", lambda *_, told=scores: told)
        found = smooth.integer_scores(None, CHOICE, schema=SCHEMA, times=times)
        assert found.dtype == np.int64
        assert found.tolist() == [2**61, int(scores[1] * times)]


# ----------------------------------------------------------------------------------------- replay


class Open:
    """A run whose spends become the record of an audit; neighbours are compared within one run, of one id."""

    id = Paid.id

    def __init__(self, schema=SCHEMA):
        self.rehearsal, self.left = True, Budget.of(Fraction(100), Fraction(0), unit=schema.unit)
        self.unit, self.spends = schema.unit, ()

    def charge(self, *spends):
        self.spends += tuple(SpendRecord(spend=each, price=Fraction(1)) for each in spends)


def asked_of(rows, noise):
    run = Open()
    each = Barrier(table(rows), run=run, noise=noise)
    answers = [
        each.smooth(WEIGHTED, mechanism=QUICK, lattice=FINE),
        each.smooth(FILLED, mechanism=QUICK, lattice=FINE),
        each.bound_size(FILLED, noise=DiscreteLaplace(Fraction(2000))),
        each.choose_bins(CHOICE, mechanism=Exponential(Fraction(1))),
    ]
    return answers, run


def twins(rows, *, seed=1):
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(seed)))
    first, run = asked_of(ROWS, recorder)
    player = ReplayingNoise(recorder.transcript.entries)
    second, _ = asked_of(rows, player)
    player.finish()
    assert first == second
    return recorder.transcript.entries, player.transcript.entries, run


@pytest.mark.parametrize("rows", [[*ROWS, ("2", 8, 0)], ROWS[:-1], [*ROWS, ("1", 9, -1)], ROWS[1:]])
def test_neighbours_pass_the_replay(rows):
    first, second, run = twins(rows)
    check_sensitivities(first, second, record=run)
    loss = privacy_loss(first[:2], second[:2])
    assert abs(loss) <= 2 * float(QUICK.price)


@pytest.mark.parametrize("wrong", ["narrow", "wide", "far"])
def test_the_replay_sees_bounds_that_do_not_hold(monkeypatch, wrong):
    honest = smooth.weighted.answer

    def other(rows, question, schema):
        number, bound = honest(rows, question, schema)
        many = len(next(iter(rows.codes.values()))) > len(ROWS)
        if wrong == "narrow":
            return number, lambda: bound() / 10**4
        if wrong == "far":
            return number + 1000 * many, bound
        return number, lambda: bound() * (100 if many else 1)

    monkeypatch.setattr(smooth.weighted, "answer", other)
    first, second, run = twins([*ROWS, ("2", 1, 0)])
    with pytest.raises(LeakError, match="further than the ledger was told"):
        check_sensitivities(first, second, record=run)


def test_other_questions_are_seen():
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(1)))
    recorder.smooth(Fraction(1), lambda: ball(1), mechanism=QUICK, lattice=FINE)
    for mechanism, lattice in ((SMALL_T, FINE), (QUICK, 2 * FINE)):
        with pytest.raises(LeakError, match="another question"):
            ReplayingNoise(recorder.transcript.entries).smooth(
                Fraction(1), lambda: ball(1), mechanism=mechanism, lattice=lattice
            )
    with pytest.raises(LeakError):
        ReplayingNoise(recorder.transcript.entries).add(
            np.zeros(0, np.int64), mechanism=DiscreteLaplace(Fraction(1))
        )


def test_bounds_on_the_way_between_units_of_several_rows():
    def met(number, bound):
        return SmoothNoisyAnswer.of(
            Fraction(number), lambda: ball(Fraction(bound)), mechanism=QUICK, lattice=FINE, answer=Fraction(0)
        )

    t = LN_2
    assert replay.within_bounds(met(0, 1), met(1, 2), t=t, rows=1)
    assert not replay.within_bounds(met(0, 1), met("1.01", 2), t=t, rows=1)
    assert not replay.within_bounds(met(0, 1), met(0, "2.01"), t=t, rows=1)
    assert not replay.within_bounds(met(0, "2.01"), met(0, 1), t=t, rows=1)
    # One row apart each: bounds 1, 2, 2, 1 at most, so the number moves by 1 + 2 + 1.
    assert replay.within_bounds(met(0, 1), met(4, 1), t=t, rows=3)
    assert not replay.within_bounds(met(0, 1), met("4.01", 1), t=t, rows=3)


@pytest.mark.parametrize("mechanism", [calibrate_family(Fraction(2), t=LN_2), QUICK, LAWS[1]], ids=str)
def test_the_loss_of_a_point_is_that_of_its_probabilities(mechanism):
    def met(number, bound, answer):
        return SmoothNoisyAnswer.of(
            Fraction(number),
            lambda: ball(Fraction(bound)),
            mechanism=mechanism,
            lattice=Fraction(1, 2),
            answer=Fraction(answer),
        )

    def weight(number, bound, answer):
        edges = np.linspace(answer - 0.25, answer + 0.25, 20001)
        z = (edges - number) * float(mechanism.s) / bound
        values = np.exp(replay.log_density(mechanism.distribution, z))
        return float(np.sum((values[1:] + values[:-1]) / 2) * (z[1] - z[0]))

    for answer in (Fraction(-3), Fraction(1, 2), Fraction(40)):
        told = privacy_loss([met(0, 1, answer)], [met(1, 2, answer)])
        assert told == pytest.approx(
            math.log(weight(0, 1, float(answer)) / weight(1, 2, float(answer))), abs=1e-6
        )
        assert abs(told) <= float(mechanism.distribution.price(s=mechanism.s, t=LN_2)) + 1e-9


def test_what_is_booked_says_nothing_of_the_rows(tmp_path):
    """The ledgers of two runs on neighbours, under frozen outputs, hold the same questions and prices."""
    told = []
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(6)))
    for name, rows in (("a", ROWS), ("b", [*ROWS, ("2", 2, 20)])):
        ledger = Ledger.open(tmp_path / f"{name}.db")
        run = ledger.reserve(
            "books",
            epsilon=Fraction(50),
            delta=Fraction(0),
            unit=SCHEMA.unit,
            method="estimate",
            schema_digest=SCHEMA.digest,
            rehearsal=True,
        )
        noise = recorder if name == "a" else ReplayingNoise(recorder.transcript.entries)
        asked = Barrier(table(rows), run=run, noise=noise)
        asked.smooth(FILLED, mechanism=QUICK, lattice=FINE)
        record = ledger.record(ledger.account("books").runs[0])
        told.append(json.dumps([each.to_json() for each in record.spends]))
        assert str(record.spends[0].spend.mechanism).startswith("polynomial-Laplace noise")
    assert told[0] == told[1]
    assert "variance" not in told[0]
    assert "scale" not in told[0]


def test_a_statement_says_that_the_width_is_not_told():
    run = Open()
    run.dataset, run.public, run.internal_read = "books", None, False
    before = list(list_limitations(run, SCHEMA, answers=MeasuredContent()))
    run.charge(spend(QUICK))
    (line,) = set(list_limitations(run, SCHEMA, answers=MeasuredContent())) - set(before)
    assert "The scale is in no file" in line
