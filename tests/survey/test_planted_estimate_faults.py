"""Small faults that were planted in survey estimates and once passed unseen: variances, intervals, cells that join."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from populace.core.marginals import Marginal
from populace.privacy.accounting.fixed_point import LOG_STEPS, STEPS
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.privacy.smooth.smooth_distributions import PolyPlace
from populace.privacy.smooth.smooth_noise import LN_2, SmoothNoise
from populace.private.survey.exact_sums import add_up
from populace.schema.schema import Schema
from populace.survey.calibration.calibrated_sample import CalibratedCount, CalibratedSample, NoisyCellSums
from populace.survey.calibration.contingency_table import ContingencyTable
from populace.survey.calibration.ipf import TableTotals, rake_noisy_table
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ControlTotals, MissingHandling, ReplicateDesign
from populace.survey.estimate_result import Estimand
from populace.survey.imputation.imputation_plan import CellSum, ImputationNoise, ImputationPlan
from populace.survey.imputation.missing_values import estimate_missing
from populace.survey.queries.queries import Queries
from populace.survey.smooth_questions import Donors
from populace.survey.variance import statistics_of_totals as functions
from populace.survey.variance.confidence_intervals import NoiseTerms, half_width
from populace.survey.variance.design_variance import replicate_variance
from populace.survey.variance.linearization import NoisySum
from populace.survey.variance.quantiles import QuantileBins
from tests.helpers.survey_oracle import FakeSurvey, answer_directly, plan_queries

# ----------------------------------------------------------------------------------------- gradients and replicates

TERMS = np.array([[4.0, 2.5, 1.7, 9.0, 3.1, 6.0], [11.0, -3.0, 2.0, 7.0, -1.5, 2.0]])


@pytest.mark.parametrize(
    ("function", "terms"),
    [
        (functions.totals, 3),
        (functions.shares, 3),
        (functions.ratios, 2),
        (partial(functions.means, centre=7.0), 2),
        (functions.variances, 3),
        (functions.correlations, 6),
    ],
)
def test_gradients_are_those_of_small_steps(function, terms):
    here = TERMS[:, :terms]
    found = function(here)
    for place in range(terms):
        step = np.zeros(terms)
        step[place] = 1e-6
        slope = (function(here + step).values - function(here - step).values) / 2e-6
        assert found.gradient[..., place] == pytest.approx(slope, abs=1e-7)


def test_replicates_that_count_for_nothing_are_not_in_the_mean():
    """R's svrVar: the mean is that of replicates with a scale above 0."""
    design = ReplicateDesign(columns=("a", "b", "c"), type="other", rscales=(1, 1, 0), scale=1)
    found = replicate_variance(np.array(0.0), replicates=np.array([4.0, 6.0, 500.0]), design=design)
    assert float(found) == pytest.approx(2.0)


# ----------------------------------------------------------------------------------------- whole estimates

SCHEMA = Schema.parse("""
[columns.stratum]
kind = "categorical"
values = ["a", "b"]
[columns.psu]
kind = "integer"
min = 1
max = 8
[columns.pay]
kind = "integer"
edges = [0, 10, 40, 200]
[columns.w]
kind = "numeric"
min = 0
max = 10
width = 1
[columns.w1]
kind = "numeric"
min = 0
max = 20
width = 1
[columns.w2]
kind = "numeric"
min = 0
max = 20
width = 1
[columns.w3]
kind = "numeric"
min = 0
max = 20
width = 1
""")


def rows(count=2000):
    rng = np.random.default_rng(5)
    weight = rng.integers(1, 10, count).astype(float)
    told = {"stratum": np.array(list("ab"))[rng.integers(0, 2, count)], "psu": rng.integers(1, 9, count)}
    told |= {"pay": np.minimum(rng.gamma(2, 15, count).astype(int), 199), "w": weight}
    for number in (1, 2, 3):
        told[f"w{number}"] = weight * rng.integers(0, 3, count).clip(0, 2)
    return pa.table(told)


ROWS = rows()


def estimated(design, query, *, noise, epsilon="20"):
    oracle = FakeSurvey(ROWS, schema=SCHEMA, epsilon=epsilon, seed=3, noise=noise)
    return answer_directly(
        oracle,
        design=Design.parse(design, schema=SCHEMA),
        queries=Queries.parse(f"[[query]]\n{query}", schema=SCHEMA),
    )


def test_ten_times_the_base_weight_gives_ten_times_the_error():
    """The noise of psus is taken off by its variance, which grows with the square of what rows weigh."""
    one, ten = (
        estimated(
            f'[design]\nbase = {base}\nstrata = "stratum"\npsu = "psu"', 'statistic = "count"', noise=1.0
        )[0]
        for base in (1, 10)
    )
    assert ten.estimate == pytest.approx(10 * one.estimate)
    assert ten.privacy_error == pytest.approx(10 * one.privacy_error)
    assert ten.sampling_error == pytest.approx(10 * one.sampling_error)


def test_replicates_have_a_degree_less_than_there_are():
    design = '[design]\nweights = "w"\n[design.replicates]\ncolumns = ["w1", "w2", "w3"]\ntype = "bootstrap"'
    (found,) = estimated(design, 'statistic = "mean"\ncolumn = "pay"', noise=0.0)
    assert found.degrees == 2


def test_an_interval_of_a_quantile_holds_what_coarse_bins_leave_open():
    """Three bins, and thousands of rows told exactly: where in its bin the median lies is all that is not known."""
    query = 'statistic = "quantile"\ncolumn = "pay"\np = [0.5]'
    (found,) = estimated('[design]\nfpc = 1.0\nweights = "w"', query, noise=0.0, epsilon="100000")
    asked = Queries.parse(f"[[query]]\n{query}", schema=SCHEMA)
    bins = QuantileBins.of(next(iter(asked)), SCHEMA)
    pay, weight = ROWS["pay"].to_numpy(), ROWS["w"].to_numpy()
    counts, _ = np.histogram(pay, bins=bins.edges, weights=weight)
    open_to = abs(bins.quantile(counts, 0.5) - bins.straight(counts, 0.5))
    assert open_to > 0.3
    assert found.estimate - found.low >= open_to
    assert found.high - found.estimate >= open_to


def test_intervals_hold_all_terms_of_noise():
    """Fifty Laplace terms are as good as Gaussian, and all of them count."""
    many = NoiseTerms(laplace=(1.0,) * 50)
    assert half_width(None, noise=many) == pytest.approx(1.96 * many.deviation, rel=0.03)


# ----------------------------------------------------------------------------------------- totals


def test_what_a_cell_held_goes_on_to_the_bin_that_it_joins():
    """Two cells of 3 hold more than 5 together, and leave the third one alone."""
    totals = TableTotals.of([np.array([10.0, 10.0, 80.0])])
    found = rake_noisy_table(np.array([3.0, 3.0, 30.0]), totals=totals, ordered=(True,), least=5.0)
    assert found.bins.tolist() == [0, 0, 1]
    assert found.sample.tolist() == [6.0, 30.0]


def test_one_set_of_totals_brings_no_noise_into_counts_made_inside_the_barrier():
    """Bins then have the populations that totals say, whatever noise does to the sample."""
    schema = Schema.from_sizes({"AGE": 3, "POOR": 2})
    control = ControlTotals(
        by=Marginal(("AGE",)), populations=tuple(map(Fraction, (300, 500, 200))), binnings=()
    )
    table = ContingencyTable.of([control], schema=schema)
    noise = DiscreteLaplace(Fraction(2 * STEPS))

    def told(sums):
        found = NoisySum(values=np.array(sums, dtype=np.float64), step=1 / STEPS, mechanism=noise)
        return NoisyCellSums(sums=found, squares=found)

    sample = CalibratedSample(table=table, answer=told([40, 60, 50]))
    counted = CalibratedCount(sample=sample, answer=told([10, 30, 45]), among=np.ones(3, dtype=np.bool_))
    assert counted.weight_noise().deviation > 10
    assert counted.population_noise().deviation == pytest.approx(0, abs=1e-9)


# ----------------------------------------------------------------------------------------- missing values

FILLED = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 3
[columns.PAY]
kind = "integer"
min = 0
max = 100
missing = ["R"]
universe = "AGE >= 1"
outside = "N"
""")


@pytest.mark.parametrize(
    ("that", "between"),
    [
        ("PAY < 5", (0, 4)),
        ("PAY <= 5", (0, 5)),
        ("PAY > 5", (6, 100)),
        ("PAY >= 5", (5, 100)),
        ("PAY > 5 and PAY < 9", (6, 8)),
    ],
)
def test_ends_of_a_range_belong_to_it_or_not(that, between):
    design = Design.parse('[design]\n[missing.PAY]\nhow = "impute"\nmatch = ["AGE"]', schema=FILLED)
    asked = Queries.parse(f'[[query]]\nstatistic = "proportion"\nthat = "{that}"', schema=FILLED)
    ((filling, _),) = plan_queries(design, asked).imputations
    assert filling.estimands[0].between == between


class Exact:
    """An oracle without noise."""

    def __init__(self, held):
        self.held, self.schema = held, FILLED

    def sum_batches(self, batches):
        return tuple(add_up(self.held, one, schema=FILLED) for asked, _ in batches for one in asked)

    def smooth(self, question, *, mechanism, lattice):
        return Fraction(9000)

    def bound_size(self, question, *, noise):
        return LOG_STEPS


def filling(how):
    donors = Donors(
        column="PAY", match=Marginal(("AGE",)), low=Fraction(0), high=Fraction(100), default=Fraction(0)
    )
    return ImputationPlan(
        donors=donors, estimands=(Estimand(query="pay", where="AGE >= 1"),), how=how, schema=FILLED
    )


def held(count=400):
    """As many whom the question is not for as others, of whom a quarter do not answer."""
    column = FILLED.columns["PAY"]
    rng = np.random.default_rng(2)
    age = rng.integers(0, 4, count)
    pay = np.where(rng.random(count) < 0.25, np.nan, rng.integers(0, 101, count))
    code = np.where(np.isnan(pay), column.code("R"), pay)
    code = np.where(age < 1, column.outside_code, code).astype(np.int64)
    return SimpleNamespace(codes={"AGE": age, "PAY": code}, numbers={"PAY": np.where(age < 1, np.nan, pay)})


@pytest.mark.parametrize("how", [MissingHandling.MODEL, MissingHandling.IMPUTE])
def test_rows_outside_the_universe_are_nobody_who_did_not_answer(how):
    people = held()
    inside = people.codes["AGE"] >= 1
    known = ~np.isnan(people.numbers["PAY"])
    for part, expected in ((CellSum.ALL, inside), (CellSum.KNOWN, known)):
        steps = add_up(people, filling(how).sums[part, None], schema=FILLED)
        assert steps.sum() == STEPS * expected.sum()


def test_noise_of_the_size_is_in_the_errors_of_imputed_answers():
    people, asked = held(), filling(MissingHandling.IMPUTE)
    fine, quiet = (
        DiscreteLaplace(Fraction(STEPS, 100)),
        SmoothNoise(distribution=PolyPlace(Fraction(40)), s=Fraction(2**20), t=LN_2),
    )
    laws = ImputationNoise(sums=(fine,) * len(asked.sums), size=fine, answers=(quiet,))
    size = list(asked.sums).index((CellSum.SIZE, None))
    inside = float(np.count_nonzero(people.codes["AGE"] >= 1))
    cells = asked.frame.shape(FILLED.domain)[0] - 1
    errors = []
    for scale in (20, 40):
        noisy = DiscreteLaplace(Fraction(scale * STEPS))
        told = (*laws.sums[:size], noisy, *laws.sums[size + 1 :])
        (found,) = estimate_missing(Exact(people), asked, noise=replace(laws, sums=told))
        assert found.estimate == pytest.approx(9000 / inside)
        errors.append(found.privacy_error)
    assert errors[1] == pytest.approx(2 * errors[0], rel=0.02)
    expected = found.estimate / inside * 40 * np.sqrt(2)
    assert expected * 0.9 < errors[1] < expected * 1.3 * np.sqrt(cells)
