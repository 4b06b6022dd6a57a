"""Which rows count where weights meet public totals: the same in every way, whatever their codes and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.sensitivity.poststratification import Binning
from populace.private.private_table import PrivateTable
from populace.private.survey.exact_sums import add_up
from populace.private.survey.weighted_answers import answer, check, scores
from populace.schema.schema import Schema
from populace.survey.calibration.calibrated_sample import CalibratedCount
from populace.survey.calibration.contingency_table import ContingencyTable
from populace.survey.calibration.count_plan import (
    Calibration,
    CountMethod,
)
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ControlTotals
from populace.survey.estimate_result import Estimand
from populace.survey.smooth_questions import BinChoice
from tests.helpers.sampled_cases import sample_cases
from tests.helpers.survey_oracle import estimate_counts

SCHEMA = Schema.parse(
    """
[columns.AGE]
kind = "integer"
min = 0
max = 2
missing = ["R"]

[columns.ILL]
kind = "categorical"
values = ["0", "1"]

[columns.W]
kind = "numeric"
edges = [0, 10, 100000]
"""
)
PEOPLE = (300_000, 300_000, 400_000)
TOTALS = '[[totals]]\nby = ["AGE"]\ncounts = {"0" = 300000, "1" = 300000, "2" = 400000}\n'
ROWS = 20_000


@dataclass
class Exact:
    """The questions of the barrier over rows that are public here, without noise."""

    table: PrivateTable
    schema: Schema = SCHEMA
    budget: Budget = Budget.of(Fraction(50), Fraction(0), unit=SCHEMA.unit)  # noqa: RUF009

    def sum_batches(self, batches):
        rows = self.table.survey_rows()
        return tuple(add_up(rows, each, schema=SCHEMA) for sums, _ in batches for each in sums)

    def smooth(self, question, *, mechanism, lattice):
        return answer(self.table.survey_rows(), question, SCHEMA)[0]


def survey(*, missing=0.0, weightless=0.0):
    """Rows of known ages of which some are ill, rows without an age of whom nobody is, and rows without a weight."""
    rng = np.random.default_rng(0)
    age, gone = rng.integers(0, 3, ROWS), rng.random(ROWS) < missing
    light = rng.random(ROWS) < weightless
    ill = rng.random(ROWS) < np.where(gone | light, 0.0, 0.3)
    table = pa.table(
        {
            "AGE": np.where(gone, "R", age.astype(str)),
            "ILL": ill.astype(int).astype(str),
            "W": np.where(light, rng.choice([0.0, -5.0, np.nan], ROWS), 50.0),
        }
    )
    counts = ~gone & ~light
    parts = [people * ill[counts & (age == code)].mean() for code, people in enumerate(PEOPLE)]
    return Exact(PrivateTable.of(table, schema=SCHEMA)), parts


def designed(most=None):
    weighted = "" if most is None else f'weights = "W"\nmax_weight = {most}\n'
    return Design.parse(f"[design]\n{weighted}{TOTALS}", schema=SCHEMA)


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.slow) if way is CountMethod.SMOOTH else way for way in CountMethod],
)
@pytest.mark.parametrize(
    ("where", "age"),
    sample_cases([("ILL == '1'", slice(None)), ("ILL == '1' and AGE == 2", slice(2, 3))], to=1),
)
def test_rows_where_nobody_can_be_count_in_no_way(way, where, age):
    oracle, parts = survey(missing=0.3)
    (found,) = estimate_counts(
        oracle,
        [Estimand(query="ill", where=where)],
        calibration=replace(Calibration.of(designed()), method=way),
    )
    assert found.estimate == pytest.approx(sum(parts[age]), rel=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", CountMethod)
@pytest.mark.parametrize("most", [100, 100_000])
def test_rows_without_a_weight_above_0_count_in_no_way(way, most):
    oracle, parts = survey(weightless=0.5)
    (found,) = estimate_counts(
        oracle,
        [Estimand(query="ill", where="ILL == '1'")],
        calibration=replace(Calibration.of(designed(most)), method=way),
    )
    assert found.estimate == pytest.approx(sum(parts), rel=1e-3)


def test_rows_where_nobody_can_be_decide_no_choice_of_bins():
    bins = "[[totals.bins]]\nname = '{}'\nedges = {{ AGE = {} }}\n"
    text = f"[design]\n{TOTALS}{bins.format('fine', [0, 1, 2])}{bins.format('coarse', [0, 2])}"
    design = Design.parse(text, schema=SCHEMA)
    asked = design.totals[0].bin_choice(Calibration.of(design).base)
    assert isinstance(asked, BinChoice)
    some, none = survey(missing=0.3)[0], survey(missing=0.3)[0].table.survey_rows()
    known = none.codes["AGE"] < 3
    kept = type(none)(
        {name: codes[known] for name, codes in none.codes.items()},
        {name: numbers[known] for name, numbers in none.numbers.items()},
    )
    assert scores(some.table.survey_rows(), asked, SCHEMA) == scores(kept, asked, SCHEMA)


def test_no_estimate_lies_outside_its_interval():
    """Noise can bring a sum below 0, and no number of people is."""

    class Low(Exact):
        def sum_batches(self, batches):
            found = super().sum_batches(batches)
            return tuple(np.asarray(-1) if each.ndim == 0 else each for each in found)

    oracle, _ = survey()
    (found,) = estimate_counts(
        Low(oracle.table),
        [Estimand(query="ill", where="ILL == '1'")],
        calibration=replace(Calibration.of(designed()), method=CountMethod.SUM),
    )
    assert found.low == found.estimate == 0 < found.high


@pytest.mark.parametrize("shrink", [0.0, 0.3])
def test_what_rows_take_from_each_other_equals_the_whole_matrix(shrink):
    captured = []

    def keep(*, sample, answer, among):
        captured.append(sample)
        return CalibratedCount(sample=sample, answer=answer, among=among)

    oracle, _ = survey()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("populace.survey.calibration.calibrated_counts.CalibratedCount", keep)
        weighting = replace(
            Calibration.of(designed()), shrink=Fraction(str(shrink)), method=CountMethod.TABLE
        )
        estimate_counts(oracle, [Estimand(query="ill", where="ILL == '1'")], calibration=weighting)
    (sample,) = captured
    fitted, root = sample.fitted, np.sqrt(sample.fitted.totals)
    fits = sample.members @ np.linalg.pinv(sample.members * root[:, None]) * (root / fitted.sample)
    matrix = (1 - shrink) * fitted.weights[:, None] * fits + shrink * sample.even / fitted.sample.sum()
    part = np.arange(1.0, 1 + len(root))
    np.testing.assert_allclose(sample.effect_beside(part), matrix @ part, rtol=1e-9)
    np.testing.assert_allclose(sample.squared_effect_beside(part), matrix**2 @ part, rtol=1e-9)
    np.testing.assert_allclose(sample.own, np.diag(matrix), rtol=1e-9)


@pytest.mark.parametrize("sizes", [{"A": 300, "B": 300}, {"A": 5000}])
def test_totals_that_could_not_be_fitted_are_refused_before_anything_is_asked(sizes):
    schema = Schema.from_sizes(sizes)
    controls = [
        ControlTotals(by=Marginal((name,)), populations=(Fraction(1, size),) * size, binnings=())
        for name, size in sizes.items()
    ]
    with pytest.raises(UsageError, match="too many"):
        ContingencyTable.of(controls, schema=schema)


@pytest.mark.parametrize("place", [-1, 5])
def test_cells_that_are_not_there_cannot_be_where_nobody_is(place):
    design = designed()
    whole = Binning(name="whole", bins=(tuple(range(5)),))
    asked = replace(design.totals[0].bin_choice(Calibration.of(design).base), binnings=(whole,))
    check(asked, SCHEMA)
    with pytest.raises(UsageError, match="numbered from 0"):
        check(replace(asked, nobody=(place,)), SCHEMA)
