"""Weights of synthetic files: totals are met, and replicates spread as sampling and noise do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Grouping, Marginal, tabulate
from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema
from populace.survey.calibration.bounded_raking import rake_within_limits
from populace.survey.calibration.ipf import TableTotals
from populace.survey.calibration.replicate_weights import WEIGHT_LIMIT, make_replicate_weights
from populace.survey.design.design_parts import ControlTotals

SIZES = {"AGE": 5, "SEX": 2, "POOR": 2}
SCHEMA = Schema.from_sizes(SIZES)
PEOPLE = 50_000.0


def rows(count=3_000, seed=3):
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(0, 5, count), rng.integers(0, 2, count)
    poor = rng.random(count) < 0.2 + 0.1 * age
    return {"AGE": age.astype(np.uint8), "SEX": sex.astype(np.uint8), "POOR": poor.astype(np.uint8)}


def control(name, shares):
    populations = tuple(Fraction(PEOPLE) * Fraction(share) / sum(shares) for share in shares)
    return ControlTotals(by=Marginal((name,)), populations=populations, binnings=())


CONTROLS = [control("AGE", (3, 3, 2, 1, 1)), control("SEX", (26, 24))]


def measured(codes, pairs, variance):
    return [
        Measurement(marginal, tabulate(marginal, codes=codes, domain=SCHEMA.domain), Fraction(variance))
        for marginal in pairs
    ]


def weigh(codes, *, measurements=(), seed=1, **words):
    given = {"sample": 3_000.0, "replicates": 30, "drawing": 0.0, "controls": CONTROLS, **words}
    return make_replicate_weights(
        codes, schema=SCHEMA, measurements=list(measurements), rng=np.random.default_rng(seed), **given
    )


def test_weights_and_replicates_meet_all_totals():
    codes = rows()
    noise = measured(codes, [Marginal(("AGE", "POOR")), Marginal(("SEX", "POOR"))], 400)
    found = weigh(codes, measurements=noise)
    for column in (found.weights, *found.replicates.T):
        assert column.min() > 0
        for each in CONTROLS:
            sums = np.bincount(codes[each.by.clique[0]], weights=column)
            assert sums == pytest.approx([float(total) for total in each.populations], abs=1e-3)
    names = list(found.columns())
    assert names[:2] == ["weight", "rep01"]
    assert len(names) == 31


def test_replicates_stay_near_their_weights_however_large_the_noise():
    codes = rows()
    noise = measured(codes, [Marginal(("AGE", "POOR")), Marginal(("AGE", "SEX"))], 10**8)
    double = {name: np.tile(column, 20) for name, column in codes.items()}
    for own in (codes, double):
        found = weigh(own, measurements=noise, replicates=10, drawing=1.0)
        ratio = found.replicates / found.weights[:, None]
        assert 1 / WEIGHT_LIMIT <= ratio.min() < ratio.max() <= WEIGHT_LIMIT
        assert found.count_beyond() == 0
        effective = found.replicates.sum(axis=0) ** 2 / (found.replicates**2).sum(axis=0)
        assert effective.min() > 0.6 * found.effective_rows


def test_weights_beyond_the_limits_are_counted_where_totals_force_them():
    codes = rows()
    young = codes["AGE"] == 0
    few = {name: np.concatenate([c[~young], c[young][:3]]) for name, c in codes.items()}
    found = weigh(few, controls=[control("AGE", (3, 3, 2, 1, 1))])
    # Three rows stand for 15,000 people, where a row stands for about 20.
    assert found.weights[few["AGE"] == 0] == pytest.approx(5_000)
    assert found.count_beyond() == 3
    assert found.replicates.min() > 0


def test_limits_hold_where_raking_alone_would_pass_them():
    totals = TableTotals.of([np.array([50.0, 50.0]), np.array([90.0, 10.0])])
    before = np.array([[45.0, 5.0], [5.0, 45.0]])
    # The second row must have at least 40 in the first column: 8 times what it has there.
    for limit in (8.2, 9.0):
        found = rake_within_limits(before, totals=totals, limit=limit)
        ratio = found / before
        assert found.sum(axis=1) == pytest.approx([50, 50], rel=1e-5)
        assert found.sum(axis=0) == pytest.approx([90, 10], rel=1e-5)
        assert 1 / limit * (1 - 1e-6) <= ratio.min()
        assert ratio.max() <= limit * (1 + 1e-6)
    # Below that no table can: limits are doubled, and no more than doubled.
    ratio = rake_within_limits(before, totals=totals, limit=7.0) / before
    assert 1 / 14 * (1 - 1e-6) <= ratio.min() < 1 / 7
    loose = rake_within_limits(before, totals=totals, limit=1e9)
    assert loose == pytest.approx(totals.rake(before))
    assert rake_within_limits(np.array([[1.0, 0.0], [0.0, 1.0]]), totals=totals, limit=9.0) is None


def variance_of(found, values):
    each = values @ found.replicates
    return found.scale * ((each - each.mean()) ** 2).sum()


@pytest.mark.slow
def test_without_noise_replicates_spread_as_samples_do():
    codes = rows()
    found = weigh(codes, replicates=250)
    poor = codes["POOR"].astype(float)
    # Residuals of POOR by age and sex, which totals explain.
    members = np.hstack([np.eye(5)[codes["AGE"]], np.eye(2)[codes["SEX"]]])
    root = np.sqrt(found.weights)
    fit = members @ np.linalg.lstsq(members * root[:, None], poor * root, rcond=None)[0]
    expected = ((found.weights * (poor - fit)) ** 2).sum() * (1 - 3_000 / PEOPLE)
    assert variance_of(found, poor) == pytest.approx(expected, rel=0.3)
    # Twice as many synthetic rows tell no more of the sample; drawing them adds its part.
    double = {name: np.concatenate([column, column]) for name, column in codes.items()}
    assert variance_of(weigh(double, replicates=250), np.tile(poor, 2)) == pytest.approx(expected, rel=0.3)
    drawn = variance_of(weigh(codes, replicates=250, drawing=1.0), poor)
    assert drawn == pytest.approx(expected * (1 + 1 / (1 - 3_000 / PEOPLE)), rel=0.3)


@pytest.mark.parametrize("grouped", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.slow
def test_noise_alone_spreads_by_what_it_is(grouped):
    codes = rows()
    old = (Grouping("AGE", (0, 0, 1, 1, 2)),) if grouped else ()
    noise = measured(codes, [Marginal(("AGE", "POOR"), old), Marginal(("SEX", "POOR"))], 900)
    # A sample of everybody has no sampling error: what is left is noise.
    whole = [control("SEX", (1, 1))]
    people = float(PEOPLE)
    found = weigh(codes, measurements=noise, replicates=200, sample=people, controls=whole)
    value = variance_of(found, codes["POOR"].astype(float))
    # Both tables tell who is poor: least squares weights them by their cells, and the total is held.
    cells = 3 if grouped else 5
    spread = 1 / (1 / (900 * cells) + 1 / (900 * 2))
    # P = (poor − rich)/2 beside a total that is known.
    assert value == pytest.approx(spread * 2 / 4, rel=0.3)


def test_refusals():
    codes = rows()
    with pytest.raises(UsageError, match="replicates"):
        weigh(codes, replicates=1)
    with pytest.raises(UsageError, match="sample"):
        weigh(codes, sample=0.0)
    young = {name: column[codes["AGE"] < 4] for name, column in codes.items()}
    with pytest.raises(UsageError, match="no rows"):
        weigh(young)
