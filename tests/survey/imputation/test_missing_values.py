"""Estimates of columns with missing values: from exact answers, with noise, their errors, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Grouping, Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.fixed_point import LOG_STEPS
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace
from populace.privacy.sensitivity.nn_imputation import (
    DonorValue,
    MatchedRows,
    MatchingSpace,
    NearestNeighbours,
    TieBreak,
)
from populace.privacy.smooth.smooth_distributions import Cauchy, LaplaceLogNormal, PolyPlace, Student
from populace.privacy.smooth.smooth_noise import LN_2
from populace.private.survey.exact_sums import add_up
from populace.private.survey.imputed_answers import ImputedRows
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.schema import Schema
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_notes import SUPPRESSED
from populace.survey.estimate_result import Estimand
from populace.survey.imputation.imputation_error import ImputationCells
from populace.survey.imputation.imputation_plan import ImputationNoise, ImputationPlan
from populace.survey.imputation.matching_cells import cells_where, merge_small_cells
from populace.survey.imputation.missing_values import estimate_missing
from populace.survey.smooth_questions import Donors
from populace.survey.variance.linearization import NoisySum
from populace.survey.variance.smooth_noise_error import DonorLoad, changed_rows_draws, distribution_draws
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(4)

SCHEMA = Schema(
    columns={
        "AGE": IntegerColumn(name="AGE", min=0, max=3),
        "WORK": CategoricalColumn(name="WORK", values=("0", "1")),
        "PAY": IntegerColumn(name="PAY", min=0, max=100, missing=("R",)),
    }
)
MATCH = Marginal(("AGE", "WORK"), (Grouping("AGE", (0, 0, 1, 1, 2)), Grouping("WORK", (0, 1, 1))))
DONORS = Donors(column="PAY", match=MATCH, low=Fraction(0), high=Fraction(100), default=Fraction(0))
BELOW = (Fraction(0), Fraction(39))
WISHES = (
    Estimand(query="pay"),
    Estimand(query="pay", group=(("age", "old"),), where="AGE >= 2 and AGE <= 3"),
    Estimand(query="poor", between=BELOW),
    Estimand(query="poor", group=(("age", "young"),), where="AGE < 2", between=BELOW),
)


class Exact:
    """An oracle with noise from a seeded generator, times a factor: 0 for exact answers."""

    def __init__(self, rows, *, times, seed=1, donors=DONORS, schema=SCHEMA):
        self.schema = schema
        self.filled = ImputedRows(rows=rows, donors=donors, schema=schema)
        self.rows, self.times, self.rng = rows, times, np.random.default_rng(seed)

    def _noise(self, mechanism, shape=()):
        return np.rint(self.times * self.rng.laplace(0, float(mechanism.scale), shape)).astype(np.int64)

    def sum_batches(self, batches):
        return tuple(
            add_up(self.rows, one, schema=self.schema)
            + self._noise(mechanism, one.by.shape(self.schema.domain))
            for asked, mechanism in batches
            for one in asked
        )

    def smooth(self, question, *, mechanism, lattice):
        value, bound = self.filled.answer(question)
        noise = (
            float(bounds(bound)[1])
            / float(mechanism.s)
            * self.rng.choice(distribution_draws(mechanism.distribution))
        )
        return round((value + Fraction(self.times * noise)) / lattice) * lattice

    def bound_size(self, question, *, noise):
        bound = float(bounds(self.filled.answer(question)[1])[1])
        return math.ceil(LOG_STEPS * math.log(bound) / float(LN_2)) + int(self._noise(noise))


def drawn(seed, size=800, *, silent=0.5):
    """Rows in which half of those who work, and whose pay is high, do not tell it; and what all would tell."""
    rng = np.random.default_rng(seed)
    age, work = rng.integers(0, 4, size), rng.integers(0, 2, size)
    pay = np.clip(np.rint(10 + 10 * age + 30 * work + rng.normal(0, 10, size)), 0, 100)
    told = np.where(rng.random(size) < silent * work, np.nan, pay)
    codes = {"AGE": age, "WORK": work, "PAY": np.where(np.isnan(told), 101, pay).astype(np.int64)}
    return SimpleNamespace(codes=codes, numbers={"PAY": told}), pay


def estimates(rows, how, *, epsilon="40", times=0.0, seed=1, estimands=WISHES, population=None):
    filling = ImputationPlan(
        donors=DONORS, estimands=estimands, how=how, schema=SCHEMA, population=population
    )
    laws = ImputationNoise.of(filling, budget=Budget.of(Fraction(epsilon), Fraction(0), unit=SCHEMA.unit))
    return estimate_missing(Exact(rows, times=times, seed=seed), filling, noise=laws)


# ------------------------------------------------------------------------------------------- what is estimated


def test_complete_rows_alone():
    rows, _ = drawn(1)
    told, age = rows.numbers["PAY"], rows.codes["AGE"]
    found = estimates(rows, MissingHandling.IGNORE)
    assert found[0].estimate == pytest.approx(np.nanmean(told), abs=1e-4)
    assert found[1].estimate == pytest.approx(np.nanmean(told[age >= 2]), abs=1e-4)
    young = told[(age < 2) & ~np.isnan(told)]
    assert found[3].estimate == pytest.approx((young < 40).mean(), abs=1e-6)
    assert found[1].imputation_error == 0
    assert found[1].sampling_error == pytest.approx(
        np.nanstd(told[age >= 2]) / math.sqrt(len(told[(age >= 2) & ~np.isnan(told)])), rel=0.01
    )


def test_cells_speak_for_their_missing_rows():
    """Old and young, with work and without: the mean of each cell counts for all its rows."""
    rows, _ = drawn(2)
    told, old, work = rows.numbers["PAY"], rows.codes["AGE"] >= 2, rows.codes["WORK"]
    found = estimates(rows, MissingHandling.MODEL)

    def mean(values, inside):
        cells = [inside & (old == a) & (work == w) for a in (0, 1) for w in (0, 1)]
        held = [cell for cell in cells if cell.any()]
        return sum(np.mean(values[cell & ~np.isnan(told)]) * cell.sum() for cell in held) / inside.sum()

    everybody = np.ones(len(told), dtype=bool)
    assert found[0].estimate == pytest.approx(mean(told, everybody), abs=1e-4)
    assert found[1].estimate == pytest.approx(mean(told, old), abs=1e-4)
    assert found[3].estimate == pytest.approx(mean(told < 40, ~old), abs=1e-6)


def test_filled_rows():
    rows, _ = drawn(3)
    found = estimates(rows, MissingHandling.IMPUTE)
    filled = ImputedRows(rows=rows, donors=DONORS, schema=SCHEMA)
    filling = ImputationPlan(donors=DONORS, estimands=WISHES, how=MissingHandling.IMPUTE, schema=SCHEMA)
    for estimand, row in zip(WISHES, found, strict=True):
        total, _ = filled.answer(filling.question(estimand))
        size = len(rows.codes["AGE"]) if estimand.where is None else (rows.codes["AGE"] < 2).sum()
        if estimand.group and estimand.group[0][1] == "old":
            size = (rows.codes["AGE"] >= 2).sum()
        assert row.estimate == pytest.approx(float(total) / size, abs=1e-3)
        assert row.low < row.estimate < row.high
        assert row.sampling_error > 0 < row.imputation_error
        assert row.privacy_error > 0


def test_filling_is_right_where_ignoring_is_not():
    rows, pay = drawn(4, 4000)
    ignored, imputed, model = (estimates(rows, how)[0] for how in MissingHandling)
    assert ignored.high < pay.mean()
    assert imputed.low < pay.mean() < imputed.high
    assert model.low < pay.mean() < model.high


@pytest.mark.parametrize("how", [MissingHandling.MODEL, MissingHandling.IMPUTE])
@pytest.mark.parametrize("size", sample_cases(["2.5", "1e-6", "1e9"], to=1))
def test_units_do_not_matter(size, how):
    """Pay in other units gives the same estimates in those units, and answers on a lattice of their size."""
    rows, pay = drawn(12, 4000)
    top, estimand = Fraction(size), WISHES[:1]
    column = DecimalColumn(name="PAY", edges=(Fraction(0), top / 2, top), missing=("R",))
    schema = Schema(columns={**SCHEMA.columns, "PAY": column})
    told = rows.numbers["PAY"] / 100 * float(top)
    code = np.where(np.isnan(told), column.code("R"), told >= float(top) / 2).astype(np.int64)
    other = SimpleNamespace(codes={**rows.codes, "PAY": code}, numbers={"PAY": told})
    donors = replace(DONORS, high=top)
    filling = ImputationPlan(donors=donors, estimands=estimand, how=how, schema=schema)
    laws = ImputationNoise.of(filling, budget=Budget.of(Fraction(40), Fraction(0), unit=schema.unit))
    oracle = Exact(other, times=0.0, donors=donors, schema=schema)
    (found,) = estimate_missing(oracle, filling, noise=laws)
    (plain,) = estimates(rows, how, estimands=estimand)
    assert found.estimate / float(top) == pytest.approx(pay.mean() / 100, abs=0.01)
    for error in ("sampling_error", "imputation_error", "privacy_error"):
        assert getattr(found, error) / float(top) == pytest.approx(getattr(plain, error) / 100, rel=0.2)


def test_a_part_of_the_population():
    """When all have been asked, no sampling error is left, only that of what was imputed."""
    rows, _ = drawn(5)
    half, whole = (
        estimates(rows, MissingHandling.MODEL, population=Fraction(size))[0] for size in (1600, 800)
    )
    assert whole.sampling_error < 0.02 * half.sampling_error
    assert whole.imputation_error == pytest.approx(half.imputation_error, rel=0.01)


def test_few_rows():
    """Noise decides that there are too few, and nothing else is said of them."""
    rows, _ = drawn(6, 4)
    for how in MissingHandling:
        assert all(row.note == SUPPRESSED and row.estimate is None for row in estimates(rows, how))


# ------------------------------------------------------------------------------------------------- their errors


@pytest.mark.parametrize("k", [1, 3])
def test_how_often_rows_are_used(k):
    """Σ(1 + d/k)² = n·(1 + ρ + ρ/k) on average: rejects the formula for donors drawn independently."""
    complete, lost, runs = 300, 120, 100
    scheme = NearestNeighbours(space=MatchingSpace(sizes=(1,), ordered=(True,)), k=k, ties=TieBreak.NEXT)
    rng, found = np.random.default_rng(7), []
    for _ in range(runs):
        labels = rng.permutation(complete + lost)
        sides = [
            MatchedRows(
                places=np.zeros(len(part), dtype=np.int64),
                labels=part,
                values=np.zeros(len(part), dtype=np.int64),
            )
            for part in (labels[:complete], labels[complete:])
        ]
        used = np.bincount(scheme.donors(sides[0], incomplete=sides[1]).ravel(), minlength=complete)
        found.append(((1 + used / k) ** 2).sum())
    rho, error = lost / complete, np.std(found) / math.sqrt(runs)
    mean = np.mean(found)
    assert abs(mean - (complete + lost) * (1 + rho + rho / k)) < 4 * error
    independent = complete * ((1 + rho) ** 2 + rho / k)
    assert abs(mean - independent) > 4 * error


def test_counts_tell_how_many_rows_change():
    """L₁ of random labels is as likely as counts make it: means agree to four standard errors."""
    space, rng, runs = MatchingSpace(sizes=(2,), ordered=(True,)), np.random.default_rng(8), 60
    scheme = NearestNeighbours(space=space, k=1, ties=TieBreak.NEXT)
    sizes = np.array([300, 100]), np.array([60, 60])
    found = []
    for _ in range(runs):
        labels = rng.permutation(520)
        places = np.repeat([0, 1, 0, 1], np.concatenate(sizes))
        sides = [
            MatchedRows(
                places=places[part], labels=labels[part], values=np.zeros(len(places[part]), dtype=np.int64)
            )
            for part in (slice(0, 400), slice(400, 520))
        ]
        found.append(scheme.max_changed(sides[0], incomplete=sides[1]))
    served = DonorLoad(complete=sizes[0].astype(float), incomplete=sizes[1].astype(float), donors=1)
    most = np.arange(0.0, 60.0)
    likely = np.diff(np.append(0.0, served.at_most(most)))
    assert abs(np.mean(found) - likely @ most) < 0.3 + 4 * np.std(found) / math.sqrt(runs)


def test_a_cell_without_donors_counts_as_a_whole():
    served = DonorLoad(complete=np.array([100.0]), incomplete=np.array([10.0]), donors=1, alone=40.0)
    assert served.at_most(np.array([39.0, 41.0])).round(3).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(Fraction(LOG_STEPS)), DiscreteGaussian(Fraction(LOG_STEPS**2))]
)
def test_what_the_size_of_a_bound_leaves_open(noise):
    """A told size of 4 means L₁ about 15; what counts make likely pulls towards it; nothing is above the most."""
    told = 4 * LOG_STEPS
    alone = changed_rows_draws(told, noise=noise, most=1000.0)
    assert 10 < np.median(alone) < 20
    served = DonorLoad(complete=np.array([1000.0]), incomplete=np.array([200.0]), donors=1)
    both = changed_rows_draws(told, noise=noise, most=1000.0, served=served)
    assert 3 < np.median(both) < 9
    assert np.quantile(both, 0.9) - np.quantile(both, 0.1) < np.quantile(alone, 0.9) - np.quantile(alone, 0.1)
    held = changed_rows_draws(told, noise=noise, most=12.0)
    assert held.min() >= 1
    assert held.max() <= 12 + 1e-9


@pytest.mark.parametrize(
    "mechanism",
    [
        Cauchy(Fraction(4)),
        Student(Fraction(3)),
        PolyPlace(Fraction(4)),
        pytest.param(LaplaceLogNormal(Fraction(1, 2)), marks=pytest.mark.slow),
    ],
)
def test_draws_of_laws(mechanism):
    draws = np.abs(distribution_draws(mechanism))
    for probability in (0.5, 0.05, 0.01):
        assert np.mean(draws > mechanism.two_sided_quantile(probability)) == pytest.approx(
            probability, abs=0.002
        )


@pytest.mark.slow
@pytest.mark.parametrize(("how", "epsilon"), [(MissingHandling.MODEL, "1"), (MissingHandling.IMPUTE, "16")])
def test_intervals_hold_the_truth(how, epsilon):
    """250 surveys, four estimates each: the truth is held in 93 to 98.5 % of them; with half the width it is not."""
    truth = np.array(_truths())
    held, narrow = [], []
    for seed in range(250):
        rows, _ = drawn(1000 + seed, 1500, silent=0.4)
        found = estimates(rows, how, epsilon=epsilon, times=1.0, seed=seed)
        held.append([row.low <= value <= row.high for row, value in zip(found, truth, strict=True)])
        narrow.append(
            [
                abs(row.estimate - value) <= (row.high - row.low) / 4
                for row, value in zip(found, truth, strict=True)
            ]
        )
    assert 0.93 < np.mean(held) < 0.985
    assert np.mean(narrow) < 0.85


def _truths():
    rows, pay = drawn(99, 4_000_000)
    age = rows.codes["AGE"]
    return pay.mean(), pay[age >= 2].mean(), (pay < 40).mean(), (pay[age < 2] < 40).mean()


# ---------------------------------------------------------------------------------------------------- the cells


def test_conditions_on_cells():
    assert cells_where(None, by=MATCH, schema=SCHEMA).all()
    old = cells_where("AGE >= 2 and AGE <= 3", by=MATCH, schema=SCHEMA)
    assert old.tolist() == [[False, False], [True, True], [False, False]]
    with pytest.raises(UsageError, match="not decided"):
        cells_where("AGE == 1", by=MATCH, schema=SCHEMA)
    with pytest.raises(UsageError, match="not decided"):
        cells_where("PAY < 40", by=MATCH, schema=SCHEMA)


def test_joined_cells_hold_enough():
    rng = np.random.default_rng(9)
    space = MatchingSpace(sizes=(4, 3), ordered=(True, False))
    counts = rng.integers(0, 60, (4, 3)).astype(float)
    cut = merge_small_cells(np.ones((4, 3), dtype=bool), counts=counts, space=space, few=20.0, deviation=2.0)
    assert (cut.sums(counts) >= 20).all()
    assert cut.sums(counts).sum() == counts.sum()
    assert len(np.unique(cut.numbers)) > 3


# ---------------------------------------------------------------------------------------------- what is refused


def test_too_small_an_epsilon_is_refused_with_another_way():
    rows, _ = drawn(10)
    with pytest.raises(UsageError) as error:
        estimates(rows, MissingHandling.IMPUTE, epsilon="2")
    assert 'how = "model"' in error.value.hint


def test_ranges_that_bins_do_not_tell():
    schema = Schema(
        columns={**SCHEMA.columns, "PAY": IntegerColumn(name="PAY", min=0, max=100, split=10, missing=("R",))}
    )
    estimands = (
        Estimand(query="poor", between=BELOW),
        Estimand(query="poor", between=(Fraction(0), Fraction(34))),
    )
    ImputationPlan(donors=DONORS, estimands=estimands[:1], how=MissingHandling.MODEL, schema=schema)
    with pytest.raises(UsageError, match="do not tell what lies from 0 to 34"):
        ImputationPlan(donors=DONORS, estimands=estimands, how=MissingHandling.MODEL, schema=schema)
    told = ImputationPlan(donors=DONORS, estimands=estimands, how=MissingHandling.IMPUTE, schema=schema)
    assert len(told.sums) == 4


def test_subpopulations_nobody_can_be_in():
    with pytest.raises(UsageError, match="no row can meet"):
        ImputationPlan(
            donors=DONORS,
            estimands=(Estimand(query="pay", where="AGE < 0"),),
            how=MissingHandling.MODEL,
            schema=SCHEMA,
        )


@pytest.mark.slow
def test_laws_cost_what_they_may():
    """Sums, size and answers together take no more than the budget, and nearly all of it."""
    for how in MissingHandling:
        filling = ImputationPlan(donors=DONORS, estimands=WISHES, how=how, schema=SCHEMA)
        budget = Budget.of(Fraction(30), Fraction(0), unit=SCHEMA.unit)
        laws = ImputationNoise.of(filling, budget=budget, share=Fraction(1, 2))
        steps = Budget.of(Fraction(1), Fraction(0), unit=SCHEMA.unit).sum_noise(Fraction(1), sums=1).scale
        spent = sum(steps / mechanism.scale for mechanism in laws.sums) + sum(
            mechanism.price for mechanism in laws.answers
        )
        if laws.size is not None:
            spent += LOG_STEPS / laws.size.scale
        assert Fraction(149, 10) < spent <= 15


def test_taking_the_mean_of_several():
    """With k = 3 imputation adds a third less than copying does."""
    rows, _ = drawn(11, 3000)
    found = []
    for k, take in ((1, DonorValue.COPY), (3, DonorValue.MEAN)):
        donors = Donors(
            column="PAY",
            match=MATCH,
            low=DONORS.low,
            high=DONORS.high,
            default=DONORS.default,
            k=k,
            take=take,
        )
        filling = ImputationPlan(donors=donors, estimands=WISHES, how=MissingHandling.IMPUTE, schema=SCHEMA)
        laws = ImputationNoise.of(filling, budget=Budget.of(Fraction(40), Fraction(0), unit=SCHEMA.unit))
        oracle = Exact(rows, times=0.0, donors=donors)
        found.append(estimate_missing(oracle, filling, noise=laws)[0].imputation_error ** 2)
    assert found[1] / found[0] == pytest.approx(2 / 3, rel=0.02)


@pytest.mark.parametrize(("donors", "again"), [(None, 1.0), (1, 2.0), (4, 1.25)])
def test_the_imputation_error_is_that_of_the_formula(donors: int | None, again: float) -> None:
    """In each cell n·σ²·ρ·(1 + 1/k), ρ being lost rows for each known one; without donors there is no 1/k."""
    rows, known = np.array([1000.0, 400.0]), np.array([500.0, 100.0])
    mean, variance = np.array([2.0, 5.0]), np.array([9.0, 16.0])
    cut = merge_small_cells(
        np.ones(2, dtype=np.bool_),
        counts=known,
        space=MatchingSpace(sizes=(2,), ordered=(True,)),
        few=5.0,
        deviation=1e-6,
    )

    def told(values: np.ndarray) -> NoisySum:
        return NoisySum(values=values, mechanism=DiscreteLaplace(Fraction(1, 1000)), step=1e-9)

    cells = ImputationCells(
        cut=cut,
        every=told(rows),
        known=told(known),
        value=told(known * mean),
        square=told(known * (mean**2 + variance * (known - 1) / known)),
        donors=donors,
        part=1.0,
    )
    _, imputing = cells._variances(cells.mean_and_noise()[0], None)
    lost = (rows - known) / known
    assert float(imputing[0]) == pytest.approx(
        again * (rows * variance * lost).sum() / rows.sum() ** 2, rel=1e-6
    )
