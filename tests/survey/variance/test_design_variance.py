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
    moment_variance,
    replicate_variance,
)

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


def all_signs(noise: np.ndarray) -> np.ndarray:
    """Independent noise of some variances: every combination of signs, one to a column."""
    signs = np.array(list(product((-1.0, 1.0), repeat=len(noise))))
    return (np.sqrt(noise) * signs).T


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
    assert float(units(lonely).variance(SCORES)) == pytest.approx(expected)


def test_a_lonely_psu_fails_unless_its_stratum_was_drawn_whole() -> None:
    with pytest.raises(UsageError, match="one psu"):
        units(LonelyPsu.FAIL).variance(SCORES)
    assert float(units(LonelyPsu.FAIL, unsampled_fraction=(0.5, 1.0, 0.0)).variance(SCORES)) == pytest.approx(
        FIRST
    )


@pytest.mark.parametrize("lonely", [LonelyPsu.REMOVE, LonelyPsu.AVERAGE, LonelyPsu.ADJUST])
def test_noise_is_taken_off_psus_exactly(lonely: LonelyPsu) -> None:
    """Averaged over all signs of independent noise, the corrected variance is that without noise."""
    noise = np.linspace(0.5, 2.0, len(SCORES))
    own, signs = units(lonely), all_signs(noise)
    clean = float(own.variance(SCORES))
    noisy = own.variance(SCORES[:, None] + signs)
    assert float((noisy - own.bias(noise)).mean()) == pytest.approx(clean)
    assert float(noisy.mean()) > 1.02 * clean


def test_moments_say_the_same_as_rows_and_are_corrected_exactly() -> None:
    strata = units().strata
    sums, squares = (np.bincount(STRATUM, weights=each) for each in (SCORES, SCORES**2))
    by_rows = float(units().variance(SCORES))
    clean, none = moment_variance(strata, sums=sums, squares=squares, noise=np.zeros(3))
    assert float(clean) == pytest.approx(by_rows)
    assert float(none) == 0
    noise = np.linspace(0.5, 2.0, 3)
    noisy, bias = moment_variance(
        strata, sums=sums[:, None] + all_signs(noise), squares=squares[:, None], noise=noise[:, None]
    )
    assert float((noisy - bias).mean()) == pytest.approx(by_rows)
    assert float(noisy.mean()) < 0.999 * by_rows


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
    assert float(own.variance(terms @ found.gradient[0, 0])) == pytest.approx(expected)


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
