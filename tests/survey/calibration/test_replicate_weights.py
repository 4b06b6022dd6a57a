"""Weights of synthetic files: totals are met, and replicates spread as sampling and noise do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Grouping, Marginal, tabulate
from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema
from populace.survey.calibration.replicate_weights import make_replicate_weights
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
