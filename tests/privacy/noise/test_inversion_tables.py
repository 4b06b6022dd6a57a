"""Tables of thresholds agree, bit for bit, with an independent computation in mpmath."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import mpmath
import numpy as np
import pytest
from flint import arb

from populace.core.errors import PopulaceError, UsageError
from populace.privacy.accounting.interval_arithmetic import precision
from populace.privacy.noise import table_inversion as tables
from populace.privacy.noise.distributions import (
    Distribution,
    ExponentialDecay,
    ScoreLevels,
    gaussian_distribution,
    laplace_distribution,
)
from populace.privacy.noise.table_inversion import Thresholds, build_inversion_table, noise_table
from tests.helpers.sampled_cases import sample_cases

VARIANCES = [
    "1/50",
    "1/7",
    "1/4",
    "1/2",
    "1",
    "2",
    "9/2",
    "10",
    "25",
    "317/7",
    "100",
    "1000",
    "12345/11",
    "10000",
]
SCALES = ["1/40", "1/3", "1", "3/2", "4", "77/10", "10", "25", "40", "64", "99", "100"]


def real(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def gaussian_cdf(variance: Fraction, *, digits: int, low: int, high: int) -> list[mpmath.mpf]:
    """Sum the law from the left, the total by Poisson summation: neither is how populace does it."""
    with mpmath.workdps(digits + 10):
        v = real(variance)
        far = int(mpmath.sqrt(2 * v * digits * mpmath.log(10))) + 2
        total = mpmath.sqrt(2 * mpmath.pi * v) * mpmath.jtheta(3, 0, mpmath.exp(-2 * mpmath.pi**2 * v))
        if v < 1:  # there Poisson's series is the slow one
            total = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * v)))
        start = min(-far, low)
        sums = list(accumulate(mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * v)) for k in range(start, high + 1)))
        return [sums[k - start] / total for k in range(low, high + 1)]


def laplace_cdf(scale: Fraction, *, digits: int, low: int, high: int) -> list[mpmath.mpf]:
    """The closed form: q^−k/(1 + q) below zero, 1 − q^(k+1)/(1 + q) from zero on, q = exp(−1/scale)."""
    with mpmath.workdps(digits + 10):
        q = mpmath.exp(-1 / real(scale))
        return [q**-k / (1 + q) if k < 0 else 1 - q ** (k + 1) / (1 + q) for k in range(low, high + 1)]


def agree(thresholds: Sequence[int], cdf: Sequence[mpmath.mpf], *, bits: int, digits: int) -> bool:
    """Whether the thresholds are the floors; at both ends, where F is 0 or 1 to b bits, any bracket will do."""
    with mpmath.workdps(digits + 10):
        scaled = [mpmath.ldexp(f, bits) for f in cdf]
        inside = all(
            int(t) == int(mpmath.floor(s)) for t, s in zip(thresholds[1:-1], scaled[1:-1], strict=True)
        )
        ends = thresholds[0] == 0 and scaled[0] <= 1 and thresholds[-1] == 2**bits - 1 <= scaled[-1]
    return bool(inside and ends)


@pytest.mark.parametrize("text", VARIANCES)
def test_gaussian_tables(text: str) -> None:
    variance = Fraction(text)
    table = build_inversion_table(gaussian_distribution(variance))
    cdf = gaussian_cdf(variance, digits=40, low=table.low, high=-table.low - 1)
    assert len(table.thresholds) == len(cdf)
    assert agree(table.thresholds.tolist(), cdf, bits=64, digits=40)


@pytest.mark.parametrize("text", SCALES)
def test_laplace_tables(text: str) -> None:
    scale = Fraction(text)
    table = build_inversion_table(laplace_distribution(scale))
    cdf = laplace_cdf(scale, digits=40, low=table.low, high=-table.low - 1)
    assert len(table.thresholds) == len(cdf)
    assert agree(table.thresholds.tolist(), cdf, bits=64, digits=40)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1_000, 20_000])
def test_long_tables(sigma: int) -> None:
    table = build_inversion_table(gaussian_distribution(Fraction(sigma**2)))
    cdf = gaussian_cdf(Fraction(sigma**2), digits=40, low=table.low, high=-table.low - 1)
    assert agree(table.thresholds.tolist(), cdf, bits=64, digits=40)


def test_the_comparison_sees_a_variance_wrong_in_the_17th_digit() -> None:
    table = build_inversion_table(gaussian_distribution(Fraction(9)))
    for wrong in (Fraction(9) * (1 - Fraction(1, 10**17)), Fraction(9) * (1 + Fraction(1, 10**17))):
        cdf = gaussian_cdf(wrong, digits=40, low=table.low, high=-table.low - 1)
        assert not agree(table.thresholds.tolist(), cdf, bits=64, digits=40)


@pytest.mark.parametrize("bits", [4, 6, 63, 65, 128, 300])
def test_thresholds_at_any_number_of_bits(bits: int) -> None:
    digits = bits // 3 + 20
    for variance in (Fraction(1, 3), Fraction(7)):
        t = Thresholds(gaussian_distribution(variance), bits=bits)
        assert agree(
            list(t),
            gaussian_cdf(variance, digits=digits, low=t.low, high=-t.low - 1),
            bits=bits,
            digits=digits,
        )
    t = Thresholds(laplace_distribution(Fraction(5)), bits=bits)
    assert agree(
        list(t), laplace_cdf(Fraction(5), digits=digits, low=t.low, high=-t.low - 1), bits=bits, digits=digits
    )


@pytest.mark.parametrize("power", [1, 2])
def test_one_sided_laws_are_the_two_sided_ones_folded(power: int) -> None:
    rate = Fraction(1, 18)
    with mpmath.workdps(50):
        weights = [mpmath.exp(-real(rate) * mpmath.mpf(k) ** power) for k in range(2_200)]
        total = mpmath.fsum(weights)
        cdf = [mpmath.mpf(0), *(part / total for part in accumulate(weights))]
    t = Thresholds(ExponentialDecay(rate=rate, power=1 if power == 1 else 2, symmetric=False), bits=64)
    assert t.low == -1
    assert agree(list(t), cdf[: len(t)], bits=64, digits=40)


def test_levels_of_a_choice() -> None:
    heights, sizes, rate = (10**12, 10**12 - 1, 10**12 - 40, -(10**6)), (1, 3, 2, 5000), Fraction(1, 3)
    for bits in (64, 80, 128):
        t = Thresholds(ScoreLevels(rate=rate, heights=heights, sizes=sizes), bits=bits)
        with mpmath.workdps(60):
            weights = [
                n * mpmath.exp(real(rate) * (h - heights[0])) for n, h in zip(sizes, heights, strict=True)
            ]
            cdf = [mpmath.mpf(0), *(part / mpmath.fsum(weights) for part in accumulate(weights))]
        assert agree(list(t), cdf[: len(t)], bits=bits, digits=50)


LAWS = [
    gaussian_distribution(Fraction(9)),
    gaussian_distribution(Fraction(1, 9)),
    laplace_distribution(Fraction(3)),
    laplace_distribution(Fraction(1, 5)),
    ExponentialDecay(rate=Fraction(1, 18), power=2, symmetric=False),
    ScoreLevels(rate=Fraction(1), heights=(0, -2, -14), sizes=(1, 1, 1000)),
]


@pytest.mark.parametrize("distribution", LAWS, ids=str)
def test_balls_hold_what_was_left_out_of_the_sums(distribution: Distribution) -> None:
    for guard in (0, 1, 5):
        coarse, fine = distribution.balls(bits=10, guard=guard), distribution.balls(bits=10, guard=500)
        assert all(a.contains(b) for a, b in zip(coarse, fine, strict=True))


EVERY_LAW = [
    *(gaussian_distribution(Fraction(text)) for text in ("1/50", "1/3", "1", "7", "2913/7", "30000")),
    *(laplace_distribution(Fraction(text)) for text in ("1/20", "1", "17/3", "90")),
    *(ExponentialDecay(rate=Fraction(1, 41), power=power, symmetric=False) for power in (1, 2)),
    ScoreLevels(rate=Fraction(1, 3), heights=(9, 7, 0, -50), sizes=(1, 2, 3, 1000)),
]


def floors(distribution: Distribution, *, bits: int, guard: int) -> list[int | None]:
    """Return what balls with so many guard bits decide of ⌊2^b·F(k)⌋."""
    balls = distribution.balls(bits=bits, guard=guard)
    with precision(bits + 600):
        found = [each.floor().unique_fmpz() for each in balls]
    return [None if floor is None else int(floor) for floor in found]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("bits", sample_cases([6, 20, 64, 130], to=2))
@pytest.mark.parametrize("distribution", EVERY_LAW, ids=str)
def test_floors_are_right_or_undecided_however_few_the_guard_bits(
    distribution: Distribution, bits: int
) -> None:
    certain = floors(distribution, bits=bits, guard=500)
    undecided = {}
    for guard in (1, 2, 4, 8, 32):
        found = floors(distribution, bits=bits, guard=guard)
        assert len(found) == len(certain)
        assert all(floor in (None, right) for floor, right in zip(found, certain, strict=True))
        undecided[guard] = sum(floor is None for floor in found)
    # With 32 guard bits a floor is undecided about once in a million.
    assert undecided[32] <= 1
    assert sorted(undecided.values(), reverse=True) == list(undecided.values())


def test_a_table_that_does_not_reach_a_level_reaches_it_at_more_bits() -> None:
    far = ScoreLevels(rate=Fraction(1), heights=(0, -1_000), sizes=(1, 1))
    assert len(Thresholds(far, bits=64)) == 2  # 0 and 2^64 − 1: the far level begins beyond the last
    deep = Thresholds(far, bits=1_600)
    assert len(deep) == 3
    assert 0 < 2**1_600 - deep[1] < 2**160  # exp(−1000) is about 2^−1442.7


def test_tiny_noise_is_not_none() -> None:
    nearly_none = gaussian_distribution(Fraction(1, 10_000))
    assert build_inversion_table(gaussian_distribution(Fraction(1, 10_000))).thresholds.tolist() == [
        0,
        2**64 - 1,
    ]
    assert Thresholds(nearly_none, bits=7_300)[1] > 0  # exp(−5000) is about 2^−7213


class Fixed:
    """A law with two values and a ball of our choice around 2^b·F(0)."""

    symmetric = False

    def __init__(self, probability: Fraction, *, error_bits: int) -> None:
        self.probability = probability
        self.error_bits = error_bits

    def tail_cutoff(self, bits: int) -> int:
        return 1

    def balls(self, *, bits: int, guard: int) -> list[arb]:
        scaled = self.probability * 2**bits
        middle = arb(scaled.numerator) / arb(scaled.denominator)
        return [middle + arb(-1).union(arb(1)) * arb(2) ** (self.error_bits - guard)]


def test_a_ball_over_a_whole_number_is_computed_again() -> None:
    # 1 − 2^−20 away from the next whole number: 32 guard bits with 15 lost leave the floor open, 64 do not.
    distribution: Distribution = Fixed(Fraction(2**20 - 1, 2**40), error_bits=15)
    assert list(Thresholds(distribution, bits=20)) == [0, 0, 2**20 - 1]
    with pytest.raises(PopulaceError, match="cannot be decided"):
        list(Thresholds(Fixed(Fraction(1, 2), error_bits=15), bits=20))


@pytest.mark.parametrize("guard", [4, 6])
def test_what_few_guard_bits_leave_open_is_decided_by_more(
    guard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    laws = [
        gaussian_distribution(Fraction(7)),
        gaussian_distribution(Fraction(900)),
        laplace_distribution(Fraction(1)),
    ]
    usual = [build_inversion_table(distribution) for distribution in laws]
    monkeypatch.setattr(tables, "_GUARD_BITS", guard)
    assert sum(floors(distribution, bits=64, guard=guard).count(None) for distribution in laws) > 5
    for distribution, table in zip(laws, usual, strict=True):
        assert np.array_equal(build_inversion_table(distribution).thresholds, table.thresholds)


def test_guides_send_words_where_a_search_would() -> None:
    for table in (
        build_inversion_table(gaussian_distribution(Fraction(1))),
        build_inversion_table(gaussian_distribution(Fraction(10**4))),
        build_inversion_table(laplace_distribution(Fraction(40))),
    ):
        edges = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
        ends = edges + np.uint64(2**48 - 1)
        settled = table.guide >= 0
        for words in (edges, ends):
            counts = np.searchsorted(table.thresholds, words, side="right")
            assert (counts[settled] == table.guide[settled]).all()
            assert (table.thresholds[counts[settled] - 1] != words[settled]).all()
        assert settled.mean() > 0.9


def test_tables_are_kept() -> None:
    one, other = (noise_table(gaussian_distribution(Fraction(3))) for _ in range(2))
    assert one is other
    assert noise_table.cache_info().maxsize == 32
    assert not one.thresholds.flags.writeable


@pytest.mark.parametrize("distribution", [gaussian_distribution, laplace_distribution])
@pytest.mark.parametrize(
    "wrong", [0, Fraction(-1, 2), 1.0, float("nan"), True, None, "1", 2**80 + 1, Fraction(10**400)]
)
def test_wrong_scales_are_refused(distribution: object, wrong: object) -> None:
    build_inversion_table(gaussian_distribution(Fraction(1)))
    build_inversion_table(laplace_distribution(Fraction(1)))  # kept, and equal to 1.0 and True
    with pytest.raises(UsageError):
        distribution(wrong)  # type: ignore[operator]


def test_the_largest_scales_are_allowed() -> None:
    assert (
        gaussian_distribution(Fraction(2**80)).scale == laplace_distribution(Fraction(2**40)).scale == 2**40
    )
    with pytest.raises(UsageError, match="2\\^40"):
        laplace_distribution(Fraction(2**40 + 1))


@pytest.mark.parametrize(
    ("heights", "sizes", "rate"),
    [
        ((), (), 1),
        ((1, 1), (1, 1), 1),
        ((0, 1), (1, 1), 1),
        ((1, 0), (1,), 1),
        ((1, 0), (1, 0), 1),
        ((1, 0), (1, 1), 0),
    ],
)
def test_wrong_levels_are_refused(heights: tuple[int, ...], sizes: tuple[int, ...], rate: int) -> None:
    with pytest.raises(UsageError):
        ScoreLevels(rate=Fraction(rate), heights=heights, sizes=sizes)
