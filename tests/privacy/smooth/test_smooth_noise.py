"""Noise that follows a smooth bound: prices against the density ratio itself, and the numbers they lead to."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import t as student_t

from populace.core.errors import UsageError
from populace.privacy.accounting.interval_arithmetic import ball, bounds, round_up
from populace.privacy.smooth.smooth_distributions import Cauchy, LaplaceLogNormal, PolyPlace, Student
from populace.privacy.smooth.smooth_noise import (
    LN_2,
    SmoothNoise,
    calibrate,
    calibrate_family,
    calibrate_log_normal,
    calibrate_smooth_noise,
)
from tests.helpers.budgets import zcdp_cap
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(8)

LN2 = math.log(2)
FAMILIES = [Cauchy, lambda gamma: Student(gamma - 1), PolyPlace]


def closed_bound(distribution, *, s, t):
    """The closed bounds on the loss: s·(γ−1)^((γ−1)/γ) + t·max(1, γ−1), and s·(d+1)/(2√d) + t·max(1, d)."""
    if isinstance(distribution, Cauchy):
        less = distribution.gamma - 1
        slope = bounds(lambda: ball(less) ** ball(less / distribution.gamma))[1]
    else:
        less = distribution.degrees
        slope = bounds(lambda: ball(less + 1) / (2 * ball(less).sqrt()))[1]
    return round_up(s * slope + t * max(Fraction(1), less))


def log_density(distribution, x):
    """The logarithm of a law's density, up to a constant, from its definition."""
    x = np.abs(x)
    if isinstance(distribution, Cauchy):
        return -np.log1p(x ** float(distribution.gamma))
    if isinstance(distribution, Student):
        return -(float(distribution.degrees) + 1) / 2 * np.log1p(x**2 / float(distribution.degrees))
    gamma = float(distribution.gamma)
    return -np.where(x <= gamma, x, gamma + gamma * np.log(np.maximum(x, gamma) / gamma))


def ratio(distribution, point, *, s):
    """|ln| of the ratio of the densities of two neighbours' answers, at (λ, share of the greatest shift, x)."""
    lam, share, x = point
    shift = share * s * np.minimum(1, np.exp(-lam))
    return np.abs(-lam + log_density(distribution, x) - log_density(distribution, np.exp(lam) * (x + shift)))


FAR = np.concatenate([np.linspace(0, 12, 601), np.geomspace(12, 1e8, 100)[1:]])


def greatest_ratio(distribution, *, s, t):
    """The greatest ratio on a grid over dilations, shifts and answers, and where it is."""
    x = np.concatenate([-FAR[::-1], FAR])
    grid = np.meshgrid(np.linspace(-t, t, 9), np.linspace(-1, 1, 9), x, indexing="ij")
    values = ratio(distribution, grid, s=s)
    return float(values.max()), [float(axis.flat[values.argmax()]) for axis in grid]


def climbed_ratio(distribution, *, s, t):
    """The same, with the answer moved to the top between its neighbours on the grid."""
    top, (lam, share, x) = greatest_ratio(distribution, s=s, t=t)
    place = int(np.searchsorted(FAR, abs(x)))
    ends = FAR[max(place - 1, 0)], FAR[min(place + 1, len(FAR) - 1)]

    def height(size):
        return -float(ratio(distribution, (lam, share, math.copysign(size, x)), s=s))

    found = minimize_scalar(height, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return max(top, -found.fun)


# ----------------------------------------------------------------------------------------- the certified price


PRICED = [
    (distribution, s, t)
    for distribution in (
        Cauchy(Fraction("1.07")),
        Cauchy(Fraction("1.6")),
        Cauchy(Fraction(2)),
        Cauchy(Fraction("3.7")),
        Cauchy(Fraction(12)),
        Student(Fraction("0.3")),
        Student(Fraction(1)),
        Student(Fraction("3.2")),
        Student(Fraction(9)),
        PolyPlace(Fraction("1.3")),
        PolyPlace(Fraction(3)),
        PolyPlace(Fraction(8)),
    )
    for s, t in (("0.05", "0.7"), ("0.7", "0.7"), ("2", "0.1"), ("9", "0.4"), ("40", "0.7"), ("1", "2"))
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("distribution", "s", "t"), sample_cases(PRICED, to=24))
def test_price_is_the_greatest_density_ratio(distribution, s, t):
    price = float(distribution.price(s=Fraction(s), t=Fraction(t)))
    climbed = climbed_ratio(distribution, s=float(s), t=float(t))
    assert climbed <= price + 1e-12
    assert climbed >= price - 2e-6, "the price must not be higher than it need be"
    assert distribution.loss(s=float(s), t=float(t)) == pytest.approx(price, abs=2e-3)


@pytest.mark.parametrize(
    ("gamma", "price"), [("2", 0.836), ("3", 1.773), ("4", 2.740), ("6", 4.703)], ids=str
)
def test_joint_prices_of_cauchy_noise(gamma, price):
    assert float(Cauchy(Fraction(gamma)).price(s=LN_2, t=LN_2)) == pytest.approx(price, abs=6e-4)


@pytest.mark.parametrize(
    "distribution", [case[0] for case in PRICED[::6] if isinstance(case[0], Cauchy | Student)], ids=str
)
@pytest.mark.parametrize(("s", "t"), [("0.1", "0.7"), ("2", "0.7"), ("1", "2")])
def test_price_is_never_above_the_closed_bound(distribution, s, t):
    s, t = Fraction(s), Fraction(t)
    assert distribution.price(s=s, t=t) <= closed_bound(distribution, s=s, t=t) + Fraction(1, 2**29)


def test_closed_bounds():
    distribution = Cauchy(Fraction(4))
    assert float(closed_bound(distribution, s=Fraction(2), t=Fraction(1))) == pytest.approx(2 * 3**0.75 + 3)
    assert float(closed_bound(Cauchy(Fraction("1.5")), s=Fraction(1), t=Fraction(1))) == pytest.approx(
        0.5 ** (1 / 3) + 1
    )
    assert float(closed_bound(Student(Fraction(3)), s=Fraction(1), t=Fraction(1))) == pytest.approx(
        4 / (2 * math.sqrt(3)) + 3
    )


def test_dilation_alone_has_its_price():
    for distribution, floor in (
        (Cauchy(Fraction(4)), 3),
        (Cauchy(Fraction("1.2")), 1),
        (Student(Fraction(3)), 3),
    ):
        assert float(distribution.price(s=Fraction(1, 10**9), t=Fraction(1))) == pytest.approx(
            floor, abs=1e-7
        )


# ----------------------------------------------------------------------------------------- the source's constants


def of_the_source(epsilon):
    return Cauchy(1 + Fraction(epsilon) / (2 * LN_2))


@pytest.mark.parametrize(("claimed", "real"), [("0.1", 0.97), ("0.5", 0.91)])
def test_constants_of_the_source_cost_more_than_claimed(claimed, real):
    price = of_the_source(claimed).price(s=LN_2, t=LN_2)
    assert float(price) == pytest.approx(real, abs=5e-3)
    # Seen by the density ratio too, not by the certificate alone.
    assert greatest_ratio(of_the_source(claimed), s=LN2, t=LN2)[0] > 1.5 * float(claimed)


def test_constants_of_the_source_fail_below_0870():
    for epsilon in ("0.05", "0.3", "0.7", "0.869"):
        assert of_the_source(epsilon).price(s=LN_2, t=LN_2) > Fraction(epsilon)
    for epsilon in ("0.871", "1", "1.3"):
        assert of_the_source(epsilon).price(s=LN_2, t=LN_2) < Fraction(epsilon)


# ----------------------------------------------------------------------------------------- the density-ratio test


def passes(noise, *, epsilon):
    """Whether the density ratio is nowhere above ε, and somewhere near it."""
    top, _ = greatest_ratio(noise.distribution, s=float(noise.s), t=float(noise.t))
    return 0.99 * epsilon <= top <= epsilon


@pytest.mark.sampled(4)
@pytest.mark.parametrize("epsilon", [Fraction("0.8"), Fraction(2), 6 * LN_2])
@pytest.mark.parametrize("family", FAMILIES)
def test_ours_pass_the_density_ratio_test(epsilon, family):
    noise = calibrate_family(epsilon, t=LN_2, tailed=family)
    assert noise.price <= epsilon
    assert passes(noise, epsilon=float(epsilon))


def test_density_ratio_test_sees_wrong_constants_on_both_sides():
    source = SmoothNoise(distribution=of_the_source("0.5"), s=LN_2, t=LN_2)
    assert not passes(source, epsilon=0.5)
    noise = calibrate_family(Fraction(2), t=LN_2)
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        changed = SmoothNoise(distribution=noise.distribution, s=noise.s * factor, t=noise.t)
        assert not passes(changed, epsilon=2), "noise a tenth too wide or too narrow must be seen"


def test_ours_is_refused_where_no_noise_helps():
    for epsilon in (Fraction("0.5"), LN_2, Fraction("0.01")):
        with pytest.raises(UsageError, match="impute from a model"):
            calibrate_family(epsilon, t=LN_2)
        with pytest.raises(UsageError, match=r"above 0\.693147"):
            calibrate_smooth_noise(epsilon, t=LN_2)
    with pytest.raises(UsageError, match="smoothness"):
        calibrate_family(Fraction(1), t=Fraction(0))


# ----------------------------------------------------------------------------------------- how much noise


def test_golden_deviations():
    distribution, epsilon = Cauchy(Fraction(4)), 6 * LN_2
    assert SmoothNoise(distribution=distribution, s=LN_2, t=LN_2).standard_deviation == pytest.approx(
        1.443, abs=1e-3
    )
    by_bound = SmoothNoise(distribution=distribution, s=Fraction(math.log(8) / 3**0.75), t=LN_2)
    assert float(closed_bound(distribution, s=by_bound.s, t=LN_2)) == pytest.approx(float(epsilon), abs=1e-9)
    assert by_bound.standard_deviation == pytest.approx(1.096, abs=1e-3)
    exact = calibrate(distribution, cost=epsilon, t=LN_2)
    assert exact.standard_deviation == pytest.approx(0.501, abs=1e-3)
    near = calibrate(Cauchy(Fraction("3.7")), cost=epsilon, t=LN_2)
    assert near.standard_deviation == pytest.approx(0.470, abs=1e-3)
    ours = calibrate_family(epsilon, t=LN_2)
    assert ours.standard_deviation <= near.standard_deviation
    assert float(ours.distribution.gamma) == pytest.approx(3.7, abs=0.15)


@pytest.mark.parametrize(
    ("family", "epsilon"),
    sample_cases([(family, e) for family in FAMILIES for e in ("1.6", "2", "4", "9")], to=4),
)
@pytest.mark.slow
def test_no_other_tail_is_better(epsilon, family):
    epsilon = Fraction(epsilon)
    ours = calibrate_family(epsilon, t=LN_2, tailed=family)
    assert epsilon - Fraction(1, 10**5) <= ours.price <= epsilon
    others = np.linspace(3, float(1 + epsilon / LN_2), 8)[1:-1]
    for gamma in others:
        other = calibrate(family(Fraction(gamma)), cost=epsilon, t=LN_2)
        assert ours.standard_deviation <= other.standard_deviation * 1.001


@pytest.mark.parametrize("epsilon", sample_cases(["0.75", "1", "1.3"], to=1))
@pytest.mark.slow
def test_little_budget_gives_the_narrowest_interval(epsilon):
    ours = calibrate_family(Fraction(epsilon), t=LN_2)
    assert ours.standard_deviation == math.inf or float(ours.distribution.gamma) > 3
    for gamma in np.linspace(1, 1 + float(epsilon) / LN2, 8)[1:-1]:
        other = calibrate(Cauchy(Fraction(gamma)), cost=Fraction(epsilon), t=LN_2)
        assert ours.half_width <= other.half_width * 1.001


@pytest.mark.slow
def test_the_smallest_is_picked():
    for epsilon in (Fraction(1), Fraction(2), 6 * LN_2, Fraction(10)):
        error = "standard_deviation" if epsilon > 2 * LN_2 else "half_width"
        families = [calibrate_family(epsilon, t=LN_2, tailed=f) for f in FAMILIES]
        picked = calibrate_smooth_noise(epsilon, t=LN_2)
        assert getattr(picked, error) == min(getattr(noise, error) for noise in families)
        assert picked.price <= epsilon
    assert type(calibrate_smooth_noise(Fraction(10), t=LN_2).distribution) is Cauchy
    assert type(calibrate_smooth_noise(Fraction(2), t=LN_2).distribution) is Student


@pytest.mark.slow
def test_a_little_delta_buys_light_tails():
    epsilon = Fraction("0.5")
    rho = zcdp_cap(epsilon, Fraction("1e-6"))
    noise = calibrate_smooth_noise(epsilon, t=Fraction(1, 100), rho=rho)
    assert noise.price <= (rho if isinstance(noise.distribution, LaplaceLogNormal) else epsilon)
    rho = Fraction(1, 2)
    alone = calibrate_smooth_noise(epsilon, t=LN_2, rho=rho)  # no pure noise exists at this epsilon
    assert isinstance(alone.distribution, LaplaceLogNormal)
    assert alone.price <= rho
    with pytest.raises(UsageError, match="costs as little as"):
        calibrate_log_normal(Fraction(1, 10**4), t=LN_2)


# ----------------------------------------------------------------------------------------- variances and quantiles

LAWS = [
    *(Cauchy(Fraction(gamma)) for gamma in ("1.4", "2", "3.5", "4", "7")),
    *(PolyPlace(Fraction(gamma)) for gamma in ("1.4", "2.5", "4", "7")),
]


@pytest.mark.parametrize("distribution", LAWS, ids=str)
def test_variance_and_quantiles_are_integrals_of_the_density(distribution):
    def integral(weight, low=0.0):
        power = float(distribution.gamma)
        # Beyond 50 the densities are c·x^−γ, up to 50^−γ of it.
        inner = quad(
            lambda x: weight(x) * math.exp(log_density(distribution, x)), low, 50, limit=400, points=[power]
        )
        return inner[0]

    def rest(moment):
        power = float(distribution.gamma)
        scale = math.exp(float(log_density(distribution, 50.0))) * 50**power
        return scale * 50 ** (moment + 1 - power) / (power - moment - 1)

    whole = integral(lambda x: 1) + rest(0)
    if distribution.gamma > 3:
        assert distribution.variance == pytest.approx((integral(lambda x: x * x) + rest(2)) / whole, rel=2e-3)
    else:
        assert distribution.variance == math.inf
    for probability in (0.7, 0.3, 0.1):
        x = distribution.two_sided_quantile(probability)
        found = (integral(lambda _: 1, x) + rest(0)) / whole if x < 50 else None
        assert found is None or found == pytest.approx(probability, rel=4e-3)


def test_student_quantiles():
    for degrees in ("0.5", "1", "2.5", "8"):
        distribution = Student(Fraction(degrees))
        for probability in (0.5, 0.05, 0.001):
            expected = student_t(float(degrees)).isf(probability / 2)
            assert distribution.two_sided_quantile(probability) == pytest.approx(expected, rel=1e-9)
    assert Student(Fraction(4)).variance == 2
    assert Student(Fraction(2)).variance == math.inf


# ----------------------------------------------------------------------------------------- Laplace-log-normal


def log_normal_densities(distribution, *, lam, shift):
    """ln of the density of X and of e^λ·X + shift, on a grid of answers with its weights."""
    sigma = float(distribution.sigma)
    normal = np.linspace(-8, 8, 401)
    weights = np.exp(-(normal**2) / 2)
    weights /= weights.sum()
    scales = np.exp(sigma * normal)

    def log_of(x):
        exponents = -np.abs(x)[:, None] / scales - np.log(2 * scales)
        top = exponents.max(axis=1, keepdims=True)
        return (top + np.log(np.exp(exponents - top) @ weights[:, None]))[:, 0]

    wide = np.sinh(np.linspace(-9, 9, 3001)) * 0.02
    return wide, log_of(wide), log_of((wide - shift) / math.exp(lam)) - lam


@pytest.mark.parametrize("sigma", ["0.4", pytest.param("0.8", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("s", "t"), [("0.3", "0.2"), ("1", "0.1"), ("0.05", "0.69")])
def test_log_normal_divergences_are_within_the_price(sigma, s, t):
    distribution = LaplaceLogNormal(Fraction(sigma))
    rho = float(distribution.price(s=Fraction(s), t=Fraction(t)))
    assert rho == pytest.approx(
        (float(t) / float(sigma) + math.exp(1.5 * float(sigma) ** 2) * float(s)) ** 2 / 2
    )
    greatest = 0.0
    for lam in (-float(t), 0.0, float(t)):
        for shift in (0.0, float(s)):
            x, here, there = log_normal_densities(distribution, lam=lam, shift=shift)
            for order in (1.01, 2, 6):
                for p, q in ((here, there), (there, here)):
                    divergence = math.log(np.trapezoid(np.exp(order * p + (1 - order) * q), x)) / (order - 1)
                    assert divergence <= order * rho
                    greatest = max(greatest, divergence / (order * rho))
    assert greatest > 0.1, "the price must be of the right size"


@pytest.mark.parametrize("rho", ["0.02", "0.5", "8"])
def test_best_log_normal(rho):
    rho = Fraction(rho)
    noise = calibrate_log_normal(rho, t=LN_2)
    assert rho * Fraction(999_999, 10**6) <= noise.price <= rho
    epsilon, sigma = math.sqrt(2 * rho), float(noise.distribution.sigma)
    assert 5 * epsilon / LN2 * sigma**3 - 5 * sigma**2 - 1 == pytest.approx(0, abs=1e-4)
    assert noise.distribution.variance == pytest.approx(2 * math.exp(2 * sigma**2))
    for other in (0.9 * sigma, 1.1 * sigma):
        s = (epsilon - LN2 / other) * math.exp(-1.5 * other**2)
        assert s < 0 or math.sqrt(2) * math.exp(other**2) / s > noise.standard_deviation


def test_log_normal_quantiles():
    x = LaplaceLogNormal(Fraction(1, 2)).two_sided_quantile(0.05)
    rng = np.random.default_rng(7)
    drawn = np.abs(rng.laplace(size=10**6) * np.exp(0.5 * rng.normal(size=10**6)))
    # 5 standard errors of 0.05 among 10^6 are 0.0011.
    assert np.mean(drawn > x) == pytest.approx(0.05, abs=0.0011)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cauchy(Fraction(1)),
        lambda: Student(Fraction(0)),
        lambda: PolyPlace(2.5),
        lambda: LaplaceLogNormal(1),
    ],
)
def test_parameters_are_exact_and_in_range(make):
    with pytest.raises(UsageError, match="Fraction above"):
        make()
