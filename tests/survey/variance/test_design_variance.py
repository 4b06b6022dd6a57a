"""Variances of a design, worked out by hand; what noise adds to them is taken off exactly."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.design.design_parts import LonelyPsu, ReplicateDesign
from populace.survey.variance import statistics_of_totals as functions
from populace.survey.variance.design_variance import (
    SampledUnits,
    StratumFactors,
    StratumMoments,
    replicate_variance,
)
from populace.survey.variance.statistics_of_totals import ValueAndGradient

SCORES = np.array([1.0, 3.0, 7.0, 2.0, 2.5, 9.0])
STRATUM = np.array([0, 0, 0, 1, 1, 2])


def units(
    lonely: LonelyPsu = LonelyPsu.ADJUST, *, unsampled_fraction: tuple[float, ...] = (0.5, 1.0, 0.8)
) -> SampledUnits:
    sizes = np.bincount(STRATUM).astype(np.float64)
    return SampledUnits(
        stratum=STRATUM,
        strata=StratumFactors(sizes=sizes, unsampled_fraction=np.array(unsampled_fraction), lonely=lonely),
    )


def linear(terms: int, *, groups: int = 1) -> ValueAndGradient:
    gradient = np.broadcast_to(np.arange(1.0, terms + 1), (groups, 1, terms))
    return ValueAndGradient(values=np.zeros((groups, 1)), gradient=gradient)


def all_signs(noise: np.ndarray) -> np.ndarray:
    """Independent noise of some variances (units × 1 × terms): every combination of signs, one to a group."""
    signs = np.array(list(product((-1.0, 1.0), repeat=noise.size)))
    return (np.sqrt(noise.ravel()) * signs).reshape(-1, noise.shape[0], noise.shape[2]).swapaxes(0, 1)


# The first two strata: 0.5·3/2·(squares around 11/3) and 2/1·(squares around 2.25).
FIRST = 0.5 * 1.5 * ((1 - 11 / 3) ** 2 + (3 - 11 / 3) ** 2 + (7 - 11 / 3) ** 2) + 2 * 2 * 0.25**2


@pytest.mark.parametrize(
    ("lonely", "expected"),
    [
        (LonelyPsu.REMOVE, FIRST),
        (LonelyPsu.CERTAINTY, FIRST),
        (LonelyPsu.AVERAGE, FIRST * 3 / 2),
        (LonelyPsu.ADJUST, FIRST + 0.8 * 81),
    ],
)
def test_strata_with_one_psu(lonely: LonelyPsu, expected: float) -> None:
    assert float(units(lonely).spread(SCORES)) == pytest.approx(expected)


def test_a_lonely_psu_fails_unless_its_stratum_was_drawn_whole() -> None:
    with pytest.raises(UsageError, match="one psu"):
        units(LonelyPsu.FAIL).spread(SCORES)
    assert float(units(LonelyPsu.FAIL, unsampled_fraction=(0.5, 1.0, 0.0)).spread(SCORES)) == pytest.approx(
        FIRST
    )


@pytest.mark.parametrize("lonely", [LonelyPsu.REMOVE, LonelyPsu.AVERAGE, LonelyPsu.ADJUST])
def test_noise_is_taken_off_psus_exactly(lonely: LonelyPsu) -> None:
    """Averaged over all signs of independent noise, the corrected variance is that without noise."""
    sums = np.stack([SCORES, np.sqrt(SCORES[::-1])], axis=1)[:, None]
    noise = np.linspace(0.5, 2.0, sums.size).reshape(sums.shape)
    own, signs = units(lonely), all_signs(noise)
    clean = float(own.variances(linear(2), sums=sums).spread[0, 0])
    told = own.variances(linear(2, groups=signs.shape[1]), sums=sums + signs, noise=noise)
    assert float((told.spread - told.bias).mean()) == pytest.approx(clean)
    assert float(told.spread.mean()) > 1.05 * clean
    # The total is 1·Σ + 2·Σ, so its noise has the variance Σ v + 4·Σ v.
    assert float(told.privacy[0, 0]) == pytest.approx(float((noise[:, 0] @ [1, 4]).sum()))
    assert float((signs.sum(axis=0) @ [1, 2]).var()) == pytest.approx(float(told.privacy[0, 0]))


def test_moments_say_the_same_as_rows_and_are_corrected_exactly() -> None:
    terms = np.stack([SCORES, np.sqrt(SCORES)], axis=1)
    strata, found = units().strata, linear(2)
    sums, products = np.zeros((3, 1, 2)), np.zeros((3, 1, 2, 2))
    np.add.at(sums[:, 0], STRATUM, terms)
    np.add.at(products[:, 0], STRATUM, terms[:, :, None] * terms[:, None])
    by_rows = float(units().variances(found, sums=terms[:, None]).spread[0, 0])
    clean = StratumMoments(strata=strata, sums=sums, products=products).variances(found)
    assert float(clean.spread[0, 0]) == pytest.approx(by_rows)
    noise = np.linspace(0.5, 2.0, sums.size).reshape(sums.shape)
    signs = all_signs(noise)
    noisy = StratumMoments(
        strata=strata, sums=sums + signs, products=np.repeat(products, signs.shape[1], axis=1)
    )
    told = noisy.variances(linear(2, groups=signs.shape[1]), noise=noise)
    assert float((told.spread - told.bias).mean()) == pytest.approx(by_rows)
    assert float(told.spread.mean()) < 0.99 * by_rows


def test_a_mean_is_linearised_around_itself() -> None:
    """The score of a mean is w(x − mean)/Σw: the same as R's svymean with replacement."""
    weight, x = np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 1.0, 4.0, 2.0])
    terms = np.stack([weight, weight * (x - 3)], axis=1)
    found = functions.means(terms.sum(axis=0)[None], centre=3.0)
    own = SampledUnits(
        stratum=np.zeros(4, dtype=int),
        strata=StratumFactors(sizes=np.array([4.0]), unsampled_fraction=np.ones(1)),
    )
    mean = float((weight * x).sum() / weight.sum())
    scores = weight * (x - mean) / weight.sum()
    expected = 4 / 3 * float((scores**2).sum())
    assert float(found.values[0, 0]) == pytest.approx(mean)
    assert float(own.variances(found, sums=terms[:, None]).spread[0, 0]) == pytest.approx(expected)


def test_rows_drawn_within_psus_cost_the_finite_population() -> None:
    schema = Schema.from_sizes({"PSU": 5})
    drawn = Design(schema=schema, psu="PSU", base=2, fpc=10)
    within = Design(schema=schema, psu="PSU", base=2, fpc=10, fpc_within=0.5)
    assert SampledUnits.of(drawn).strata.unsampled_fraction.tolist() == [0.5]
    assert SampledUnits.of(within).strata.unsampled_fraction.tolist() == [1.0]


def test_replicates_are_told_from_their_mean_or_from_the_estimate() -> None:
    replicates = np.array([[4.0], [6.0], [8.0]])
    for around, expected in (("mean", 8.0), ("estimate", 11.0)):
        design = ReplicateDesign(
            columns=("A", "B", "C"), type="other", scale=1, rscales=(1, 1, 1), around=around
        )
        found = replicate_variance(np.array([5.0]), replicates=replicates, design=design)
        assert found.tolist() == [expected]
