"""Counts with weights that meet public totals: exact without noise, paid for in full, refused before asking."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from populace.core.errors import SchemaError, UsageError
from populace.core.marginals import Grouping, Marginal
from populace.inference.fit.raking import rake
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.sensitivity.poststratification import Binning
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.private.survey.exact_sums import add_up
from populace.private.survey.survey_rows import SurveyRows
from populace.private.survey.weighted_answers import answer
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from populace.survey.calibration.count_plan import (
    Calibration,
    CountMethod,
)
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ControlTotals
from populace.survey.estimate_notes import PUBLIC_TOTAL, SUPPRESSED
from populace.survey.estimate_result import Estimand
from populace.survey.smooth_questions import BaseWeights
from tests.helpers.survey_oracle import estimate_counts

SIZES = {"AGE": 6, "SEX": 2, "POOR": 2, "WEIGHT": 9}
SCHEMA = Schema.from_sizes(SIZES)
PEOPLE = 20_000


def population(seed=4):
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(0, 6, PEOPLE), rng.integers(0, 2, PEOPLE)
    poor = rng.random(PEOPLE) < 0.15 + 0.1 * age + 0.2 * sex * (age > 2)
    return {"AGE": age, "SEX": sex, "POOR": poor.astype(int), "WEIGHT": 1 + rng.integers(0, 4, PEOPLE)}


WORLD = population()
WORLD_FRAME = pd.DataFrame(WORLD)
FINE = Binning(name="fine", bins=tuple((age,) for age in range(6)))
COARSE = Binning(name="coarse", bins=((0, 1), (2, 3), (4, 5)))


def control(name, *binnings):
    counts = np.bincount(WORLD[name], minlength=SIZES[name])
    return ControlTotals(
        by=Marginal((name,)), populations=tuple(map(Fraction, counts.tolist())), binnings=binnings
    )


AGES, SEXES = control("AGE"), control("SEX")
POOR = Estimand(query="poor", where="POOR == 1")
OLD = Estimand(query="poor old women", where="POOR == 1 and AGE >= 4 and SEX == 1")
WEIGHTING = Calibration(controls=(AGES, SEXES), method=CountMethod.TABLE)


class Survey:
    """The questions of the barrier over rows that are public here; `noise` scales all noise."""

    def __init__(self, rows, *, epsilon="5", delta="0", noise=0.0, seed=1):
        codes = {name: column.astype(np.uint8) for name, column in rows.items()}
        self.rows = SurveyRows(codes, {name: column.astype(float) for name, column in rows.items()})
        self.schema, self.budget = SCHEMA, Budget.of(Fraction(epsilon), Fraction(delta), unit=PrivacyUnit())
        self.rng, self.noise, self.asked = np.random.default_rng(seed), noise, []

    def sum_batches(self, batches):
        return tuple(self._sum(each, mechanism) for sums, mechanism in batches for each in sums)

    def _sum(self, asked, mechanism):
        self.asked.append(asked)
        exact = add_up(self.rows, asked, schema=SCHEMA)
        if isinstance(mechanism, DiscreteLaplace):
            drawn = self.rng.laplace(scale=float(mechanism.scale), size=exact.shape)
        else:
            drawn = self.rng.normal(scale=math.sqrt(mechanism.variance), size=exact.shape)
        return exact + np.rint(self.noise * drawn).astype(np.int64)

    def smooth(self, question, *, mechanism, lattice):
        self.asked.append(question)
        value, _ = answer(self.rows, question, SCHEMA)
        return lattice * round(value / lattice)

    def choose_bins(self, question, *, mechanism):
        self.asked.append(question)
        return 1


def sample(size=2000, *, seed=1, among=None):
    rng = np.random.default_rng(seed)
    rows = rng.choice(PEOPLE if among is None else np.flatnonzero(among), size=size, replace=False)
    return {name: column[rows] for name, column in WORLD.items()}


def by_hand(rows, where):
    """The weighted count by raking the rows' own table."""
    table = np.zeros((6, 2))
    np.add.at(table, (rows["AGE"], rows["SEX"]), 1)
    targets = [((0,), np.bincount(WORLD["AGE"]) * 1.0), ((1,), np.bincount(WORLD["SEX"]) * 1.0)]
    weights = rake(table, targets, rounds=500) / table
    return float(weights[rows["AGE"], rows["SEX"]][where].sum())


@pytest.mark.parametrize(
    "way", [CountMethod.SUM, CountMethod.TABLE, pytest.param(CountMethod.SMOOTH, marks=pytest.mark.slow)]
)
def test_without_noise_every_way_rakes_the_sample(way):
    rows = sample()
    found = estimate_counts(Survey(rows), [POOR, OLD], calibration=replace(WEIGHTING, method=way))
    poor, old = rows["POOR"] == 1, (rows["AGE"] >= 4) & (rows["SEX"] == 1)
    assert found[0].estimate == pytest.approx(by_hand(rows, poor), rel=1e-5)
    assert found[1].estimate == pytest.approx(by_hand(rows, poor & old), rel=1e-5)
    assert all(way.value in each.note for each in found)


def test_everybody_is_the_whole_population():
    # Whoever is not poor is told by the other half of the table, so both together have all totals.
    halves = [POOR, Estimand(query="not poor", where="POOR == 0")]
    for way in (CountMethod.SUM, CountMethod.TABLE):
        found = estimate_counts(Survey(sample()), halves, calibration=replace(WEIGHTING, method=way))
        assert found[0].estimate + found[1].estimate == pytest.approx(PEOPLE, rel=1e-5)
    # A sample cannot err on what totals decide, as far as noise lets anybody see: here by a column that never varies.
    nobody_lacks = [Estimand(query="women", where="SEX == 1 and POOR >= 0")]
    found = estimate_counts(Survey(sample()), nobody_lacks, calibration=WEIGHTING)
    assert found[0].estimate == pytest.approx((WORLD["SEX"] == 1).sum(), rel=1e-5)
    assert 0 < found[0].sampling_error < 2 * found[0].privacy_error < 80


AGES_OF_TWO = ControlTotals(
    by=Marginal(("AGE",), (Grouping("AGE", (0, 0, 1, 1, 2, 2)),)),
    populations=tuple(map(Fraction, (np.bincount(WORLD["AGE"]).reshape(3, 2).sum(axis=1)).tolist())),
    binnings=(),
)
DECIDED = {
    "everybody": (None, True),
    "one cell": ("SEX == 1", True),
    "none of the cells": ("SEX == 1 and SEX == 0", True),
    "several cells": ("AGE >= 2", True),
    "all but one": ("not (AGE in [2, 3])", True),
    "part of a cell": ("AGE >= 3", False),
    "cells of two totals": ("AGE >= 2 and SEX == 1", False),
    "another column": ("POOR == 1", False),
}


@pytest.mark.parametrize(("where", "exact"), DECIDED.values(), ids=DECIDED)
def test_what_one_set_of_totals_decides_is_that_total_and_costs_nothing(where, exact):
    survey = Survey(sample(), noise=1.0)
    weighting = replace(WEIGHTING, controls=(AGES_OF_TWO, SEXES), shrink=Fraction(1, 2))
    found = estimate_counts(survey, [Estimand(query="asked", where=where)], calibration=weighting)[0]
    met = np.ones(PEOPLE, dtype=bool) if where is None else WORLD_FRAME.eval(where).to_numpy()
    assert (found.note == PUBLIC_TOTAL) == exact == (not survey.asked)
    if exact:
        assert (found.low, found.estimate, found.high) == (met.sum(),) * 3
        assert found.sampling_error == found.privacy_error == found.total_error == 0
    else:
        assert found.low < found.estimate < found.high


def test_a_public_total_leaves_its_share_to_the_others():
    women = Estimand(query="women", where="SEX == 1")
    alone, beside = Survey(sample()), Survey(sample())
    (poor,) = estimate_counts(alone, [POOR], calibration=WEIGHTING)
    # The same name twice is two counts.
    found = estimate_counts(beside, [women, POOR, replace(POOR, where=None)], calibration=WEIGHTING)
    assert found[1] == poor
    assert beside.asked == alone.asked
    assert [each.query for each in found] == ["women", "poor", "poor"]
    lost = estimate_counts(Survey(sample(20), epsilon="0.01"), [women, POOR], calibration=WEIGHTING)
    assert [each.note for each in lost] == [PUBLIC_TOTAL, SUPPRESSED]


def test_a_sample_that_leaves_out_many_of_some_is_put_right():
    young = WORLD["AGE"] < 2
    rows = {
        name: np.concatenate([one, two])
        for (name, one), two in zip(
            sample(300, among=young).items(), sample(1500, among=~young).values(), strict=True
        )
    }
    truth = WORLD["POOR"].sum()
    found = estimate_counts(Survey(rows), [POOR], calibration=WEIGHTING)[0]
    naive = rows["POOR"].mean() * PEOPLE
    assert abs(found.estimate - truth) < 3 * found.sampling_error < abs(naive - truth)
    shrunk = estimate_counts(Survey(rows), [POOR], calibration=replace(WEIGHTING, shrink=Fraction(1)))[0]
    assert shrunk.estimate == pytest.approx(naive, rel=1e-5)
    assert f"moved it by {shrunk.estimate - found.estimate:.6g}" in shrunk.note
    half = estimate_counts(Survey(rows), [POOR], calibration=replace(WEIGHTING, shrink=Fraction(1, 2)))[0]
    assert half.estimate == pytest.approx((shrunk.estimate + found.estimate) / 2, rel=1e-6)
    assert half.privacy_error < found.privacy_error


def test_a_larger_population_has_more_variance():
    larger = tuple(
        replace(each, populations=tuple(1000 * people for people in each.populations))
        for each in WEIGHTING.controls
    )
    apart = estimate_counts(Survey(sample()), [POOR], calibration=replace(WEIGHTING, controls=larger))[0]
    whole = estimate_counts(Survey(sample()), [POOR], calibration=WEIGHTING)[0]
    assert (1000 * whole.sampling_error / apart.sampling_error) ** 2 == pytest.approx(0.9, abs=0.01)


@pytest.mark.slow
def test_sampling_error_is_that_of_many_samples():
    found = [
        estimate_counts(Survey(sample(seed=seed)), [POOR, OLD], calibration=WEIGHTING) for seed in range(120)
    ]
    for place in (0, 1):
        told = np.mean([each[place].sampling_error for each in found])
        spread = np.std([each[place].estimate for each in found], ddof=1)
        assert 0.8 < told / spread < 1.25


@pytest.mark.slow
@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("way", [CountMethod.SUM, CountMethod.TABLE])
def test_privacy_error_is_that_of_much_noise(way, delta):
    rows = sample()
    found = [
        estimate_counts(
            Survey(rows, noise=1.0, seed=seed, delta=delta, epsilon="1"),
            [POOR, OLD],
            calibration=replace(WEIGHTING, method=way),
        )
        for seed in range(150)
    ]
    for place in (0, 1):
        told = np.mean([each[place].privacy_error for each in found])
        spread = np.std([each[place].estimate for each in found], ddof=1)
        assert 0.8 < told / spread < 1.25


def test_base_weights_of_the_design():
    rows = sample()
    base = BaseWeights(column="WEIGHT", largest=4)
    equal = {**rows, "WEIGHT": np.full(2000, 3)}
    one = estimate_counts(Survey(equal), [POOR], calibration=replace(WEIGHTING, base=base))[0]
    two = estimate_counts(Survey(rows), [POOR], calibration=WEIGHTING)[0]
    assert one.estimate == pytest.approx(two.estimate, rel=1e-4)
    assert one.sampling_error == pytest.approx(two.sampling_error, rel=1e-3)
    for way in (CountMethod.SUM, CountMethod.TABLE):
        own = estimate_counts(Survey(rows), [POOR], calibration=replace(WEIGHTING, base=base, method=way))[0]
        assert own.estimate == pytest.approx(two.estimate, rel=0.1)
        assert own.sampling_error > 1.05 * two.sampling_error


def test_bins_are_chosen_and_counted_as_such():
    survey = Survey(sample())
    controls = (control("AGE", FINE, COARSE), SEXES)
    found = estimate_counts(survey, [POOR], calibration=replace(WEIGHTING, controls=controls))
    assert survey.asked[0].binnings == (FINE, COARSE)
    assert survey.asked[1].by == Marginal(
        ("AGE", "SEX"), (Grouping("AGE", (0, 0, 1, 1, 2, 2)), Grouping("SEX", (0, 1)))
    )
    assert 0 < found[0].estimate < PEOPLE


def test_bins_where_nobody_can_be_are_joined_for_the_choice_alone():
    survey = Survey(sample())
    ages = control("AGE", FINE, COARSE)
    nobody = (ages.populations[0] + ages.populations[5], *ages.populations[1:5], Fraction(0))
    controls = (replace(ages, populations=nobody), SEXES)
    estimate_counts(survey, [POOR], calibration=replace(WEIGHTING, controls=controls))
    assert [len(binning.bins) for binning in survey.asked[0].binnings] == [5, 3]
    assert survey.asked[0].binnings[0].bins[-1] == (4, 5)


def test_a_design_says_how_its_sample_is_weighted():
    design = Design(schema=SCHEMA, weights="WEIGHT", max_weight=Fraction(4), totals=(AGES, SEXES))
    weighting = replace(Calibration.of(design), method=CountMethod.SUM)
    assert weighting.base.unit * weighting.base.largest == 4
    found = estimate_counts(Survey(sample()), [POOR], calibration=weighting)[0]
    base = BaseWeights(column="WEIGHT", largest=4)
    same = estimate_counts(
        Survey(sample()), [POOR], calibration=replace(WEIGHTING, base=base, method=CountMethod.SUM)
    )[0]
    assert found.estimate == pytest.approx(same.estimate, rel=1e-4)
    clusters = Design(schema=SCHEMA, psu="AGE", totals=(SEXES,))
    with pytest.raises(UsageError, match="one by one"):
        Calibration.of(clusters)


def test_totals_of_two_columns_together():
    counts = np.bincount(2 * WORLD["AGE"] + WORLD["SEX"], minlength=12)
    both = ControlTotals(
        by=Marginal(("AGE", "SEX")),
        populations=tuple(map(Fraction, counts.tolist())),
        binnings=(Binning(name="old apart", bins=(tuple(range(8)), (8, 9), (10, 11))),),
    )
    rows = sample()
    found = estimate_counts(Survey(rows), [POOR], calibration=replace(WEIGHTING, controls=(both,)))[0]
    expected = 0.0
    for ages in ((0, 1, 2, 3), (4,), (5,)):
        inside, everyone = np.isin(rows["AGE"], ages), np.isin(WORLD["AGE"], ages)
        expected += rows["POOR"][inside].mean() * everyone.sum()
    assert found.estimate == pytest.approx(expected, rel=1e-5)


def test_what_cannot_be_is_0_without_asking():
    survey = Survey(sample())
    nobody = replace(AGES, populations=(*AGES.populations[:5], Fraction(0)))
    others = replace(
        SEXES, populations=(sum(nobody.populations) - SEXES.populations[1], SEXES.populations[1])
    )
    oldest = Estimand(query="oldest", where="AGE == 5")
    found = estimate_counts(survey, [oldest], calibration=replace(WEIGHTING, controls=(nobody, others)))[0]
    assert (found.estimate, found.low, found.high) == (0, 0, 0)
    poor = Estimand(query="poor and oldest", where="AGE == 5 and POOR == 1")
    assert (
        estimate_counts(survey, [poor], calibration=replace(WEIGHTING, controls=(nobody, others)))[0].high
        == 0
    )
    assert not survey.asked


REFUSED = {
    "no count": ([], WEIGHTING),
    "no totals": ([POOR], replace(WEIGHTING, controls=())),
    "totals that contradict": (
        [POOR],
        replace(WEIGHTING, controls=(AGES, replace(SEXES, populations=(Fraction(5), Fraction(6))))),
    ),
    "too few populations": (
        [POOR],
        replace(WEIGHTING, controls=(replace(AGES, populations=AGES.populations[1:]),)),
    ),
    "one column twice": ([POOR], replace(WEIGHTING, controls=(AGES, AGES))),
    "unknown column": ([POOR], replace(WEIGHTING, controls=(replace(AGES, by=Marginal(("Z",))),))),
    "unknown condition": ([Estimand(query="z", where="Z == 1")], WEIGHTING),
    "bins that do not cover": (
        [POOR],
        replace(
            WEIGHTING,
            controls=(replace(AGES, binnings=(FINE, Binning(name="few", bins=((0, 1), (2,))))), SEXES),
        ),
    ),
}


@pytest.mark.parametrize(("counts", "weighting"), REFUSED.values(), ids=REFUSED)
def test_refusals_ask_nothing(counts, weighting):
    survey = Survey(sample())
    with pytest.raises((UsageError, SchemaError)):
        estimate_counts(survey, counts, calibration=weighting)
    assert not survey.asked


def test_shrinking_by_more_than_all_is_refused():
    with pytest.raises(UsageError, match="shrunk"):
        Calibration(controls=(AGES,), shrink=Fraction(3, 2))


def test_a_sample_lost_in_noise_is_not_told():
    found = estimate_counts(Survey(sample(20), epsilon="0.01", noise=0.0), [POOR], calibration=WEIGHTING)
    assert found[0].estimate is None


@pytest.mark.parametrize(
    ("way", "delta"),
    [
        (CountMethod.SUM, "0"),
        (CountMethod.TABLE, "1e-6"),
        *(
            pytest.param(way, delta, marks=pytest.mark.slow)
            for way, delta in [
                (None, "0"),
                (None, "1e-6"),
                (CountMethod.SMOOTH, "0"),
                (CountMethod.SMOOTH, "1e-6"),
            ]
        ),
    ],
)
def test_through_the_barrier_nearly_all_is_spent_and_never_more(tmp_path, way, delta):
    run = Ledger.open(tmp_path / "ledger.db").reserve(
        "survey",
        epsilon=Fraction(5),
        delta=Fraction(delta),
        unit=SCHEMA.unit,
        method="test",
        schema_digest=SCHEMA.digest,
        rehearsal=True,
    )
    table = PrivateTable.of(pd.DataFrame(sample()), schema=SCHEMA)
    barrier = Barrier(table, run=run, noise=ExactNoise(RehearsalEntropy(3)))
    weighting = replace(WEIGHTING, method=way, controls=(control("AGE", FINE, COARSE), SEXES))
    found = estimate_counts(barrier, [POOR, OLD], calibration=weighting)
    left = run.left.cap / Budget.of(Fraction(5), Fraction(delta), unit=PrivacyUnit()).cap
    assert 0 <= left < Fraction(1, 50)
    poor = WORLD["POOR"] == 1
    for each, truth in zip(found, [poor, poor & (WORLD["AGE"] >= 4) & (WORLD["SEX"] == 1)], strict=True):
        assert abs(each.estimate - truth.sum()) < 5 * each.total_error
        assert each.low < each.estimate < each.high


def test_a_count_has_smooth_noise_where_its_query_asks_for_it():
    """The other counts of the run keep the better way; without noise both are the raked count."""
    rows = sample(400)
    asked = [POOR, replace(POOR, query="smooth", smooth=True)]
    oracle = Survey(rows, epsilon="20")
    found = estimate_counts(oracle, asked, calibration=replace(WEIGHTING, method=None))
    assert [type(each).__name__ for each in oracle.asked].count("WeightedQuestion") == 1
    assert CountMethod.SMOOTH.value in found[1].note
    assert CountMethod.SMOOTH.value not in found[0].note
    assert found[1].estimate == pytest.approx(by_hand(rows, rows["POOR"] == 1), rel=1e-4)


def test_each_set_of_totals_has_its_own_share_for_the_choice_of_its_bins():
    shares = []

    class Choosy(Survey):
        def choose_bins(self, question, *, mechanism):
            shares.append(mechanism.epsilon)
            return 1

    ages, sexes = (
        control("AGE", FINE, COARSE),
        control("SEX", *(Binning(name=n, bins=((0,), (1,))) for n in "ab")),
    )
    own = replace(ages, bins_share=Fraction(1, 5))
    for controls in ((ages, sexes), (own, sexes)):
        estimate_counts(Choosy(sample()), [POOR], calibration=Calibration(controls=controls))
    # A twentieth of ε = 5 for both together, or a fifth of it for one.
    assert shares == [Fraction(1, 8), Fraction(1, 8), 1, Fraction(1, 8)]
    with pytest.raises(UsageError, match="choices of bins take all"):
        estimate_counts(
            Survey(sample()),
            [POOR],
            calibration=Calibration(controls=(replace(ages, bins_share=Fraction(1)),)),
        )
