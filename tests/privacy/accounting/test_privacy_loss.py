"""Prices and caps: against the proofs, vertex by vertex, and against an independent accountant."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.special import expit, ndtri
from scipy.stats import norm

from populace.core.errors import UsageError
from populace.privacy.accounting.gaussian_dp import (
    discrete_gaussian_mu_squared,
    max_pure_epsilon,
    min_variance,
    pure_mu_squared,
)
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, Exponential, Spend
from populace.privacy.accounting.privacy_loss import (
    Currency,
    cap,
    epsilon_for,
    gdp_delta,
    price,
    zcdp_delta,
)
from tests.helpers.budgets import zcdp_cap
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(12)

SLACK = Fraction(1, 2**60)
# ε, δ, tight ρ of zCDP, exact μ²/2 of the Gaussian curve
TABLE = [
    ("0.1", "1e-5", 0.00043, 0.00053),
    ("1", "1e-5", 0.0306, 0.0359),
    ("1", "1e-9", 0.015, 0.0166),
    ("10", "1e-9", 1.091, 1.183),
]


def spend(mechanism, *, answers=1, l1=1, l2_squared=1):
    verb = "choose" if isinstance(mechanism, Exponential) else "measure"
    return Spend(verb=verb, what="test", mechanism=mechanism, answers=answers, l1=l1, l2_squared=l2_squared)


def tails(sigma):
    """P[Z ≥ k] of the discrete Gaussian for k = 1, 2, …, by plain summation in many digits."""
    weight = lambda z: mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * sigma**2))  # noqa: E731
    last = int(14 * sigma) + 10
    terms = [weight(z) for z in range(last + 1)]
    whole = 2 * mpmath.fsum(terms) - 1
    found = [mpmath.mpf(0)] * (last + 2)
    for z in range(last, 0, -1):
        found[z] = found[z + 1] + terms[z]
    return [part / whole for part in found[1 : int(10 * sigma) + 4]]


def upper_quantile(probability):
    """x with P[N > x] = probability, by Newton's method on the logarithm from a double's start."""
    x = mpmath.mpf(-ndtri(float(probability)))
    for _ in range(4):
        excess = mpmath.erfc(x / mpmath.sqrt(2)) / 2
        x += (mpmath.log(excess) - mpmath.log(probability)) * excess / mpmath.npdf(x)
    return x


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "sigma", ["0.1", "0.15", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "5", "10", "20", "50"]
)
def test_no_vertex_of_the_trade_off_curve_is_above_the_price(sigma):
    # Proof note: μ-GDP ⟺ g_{k+1} − g_k ≤ μ at every vertex, g_k = Φ⁻¹(P[Z < k]); the largest is at k = 0.
    with mpmath.workdps(40):
        squared = discrete_gaussian_mu_squared(Fraction(sigma) ** 2)
        mu = mpmath.sqrt(mpmath.mpf(squared.numerator) / squared.denominator)
        g = [
            upper_quantile(probability)
            for probability in tails(mpmath.mpf(sigma))
            if probability > mpmath.mpf("1e-300")
        ]
        steps = [2 * g[0]] + [above - below for below, above in pairwise(g)]
        assert all(step <= mu for step in steps)
        assert mu - steps[0] < mpmath.mpf("1e-18") * mu, "the bound must be attained at the centre"
        assert all(step < steps[0] for step in steps[1:])


@pytest.mark.parametrize(
    ("sigma", "product"), [("0.5", 1.244), ("1", 1.0458), ("2", 1.01065), ("10", 1.00042)]
)
def test_golden_prices_of_discreteness(sigma, product):
    found = math.sqrt(discrete_gaussian_mu_squared(Fraction(sigma) ** 2)) * float(sigma)
    assert found == pytest.approx(product, abs=0.5 * 10.0 ** -len(str(product).partition(".")[2]))


@pytest.mark.parametrize(
    "variance", ["1e-2", "0.03", "0.3", "0.999", "1", "1.001", "4", "1e2", "1e5", "1e9", "1e12"]
)
def test_price_is_rounded_up_and_by_almost_nothing(variance):
    found = discrete_gaussian_mu_squared(Fraction(variance))
    with mpmath.workdps(60):
        v = mpmath.mpf(variance)
        theta = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * v))) if v < 100 else mpmath.sqrt(2 * mpmath.pi * v)
        true = 8 * mpmath.erfinv(1 / theta) ** 2
        excess = mpmath.mpf(found.numerator) / found.denominator / true - 1
        assert 0 <= excess < 2**-62
    assert found.denominator & (found.denominator - 1) == 0, "a short binary fraction"
    assert found.numerator.bit_length() <= 64


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-3", "0.1", "1", "5", "50", "700", "100000"])
def test_pure_price_is_rounded_up_and_by_almost_nothing(epsilon):
    found = pure_mu_squared(Fraction(epsilon))
    with mpmath.workdps(60 if float(epsilon) < 100 else 1000 if float(epsilon) < 1000 else 60):
        root = mpmath.sqrt(mpmath.mpf(found.numerator) / found.denominator / 8)
        # ε is recovered from μ: erf(μ/2√2) = tanh(ε/2), that is ln((1 + erf)/erfc) = ε.
        back = mpmath.log((1 + mpmath.erf(root)) / mpmath.erfc(root))
        assert 0 <= back / mpmath.mpf(epsilon) - 1 < mpmath.mpf(2) ** -60


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 10.0])
def test_no_exponential_choice_is_above_its_price(epsilon):
    # Log-ratios in [c − ε, c]: the vertex (α, β) has (1 − β)/α = e^c and β/(1 − α) = e^(c − ε).
    mu = math.sqrt(price(spend(Exponential(Fraction(epsilon))), currency=Currency.GDP))
    c = np.linspace(0, epsilon, 2001)[1:-1]
    alpha = (1 - np.exp(c - epsilon)) / (np.exp(c) - np.exp(c - epsilon))
    beta = 1 - np.exp(c) * alpha
    reach = norm.isf(alpha) - norm.ppf(beta)
    assert reach.max() <= mu * (1 + 1e-9)
    assert reach.max() >= mu * (1 - 1e-5), "the bound is attained, at c = ε/2"


def test_exponential_choice_on_enumerated_scores_keeps_its_price():
    rng = random.Random(5)
    epsilon = 1.5
    mu_squared = price(spend(Exponential(Fraction(3, 2)), l1=2, l2_squared=4), currency=Currency.GDP)
    worst = 0.0
    for _ in range(400):
        scores = np.array([rng.randrange(6) for _ in range(4)])
        moved = scores + np.array([rng.choice((-2, 0, 2)) for _ in range(4)])
        first, second = (np.exp(epsilon * s / 4) / np.exp(epsilon * s / 4).sum() for s in (scores, moved))
        for level in (0.0, 0.3, 0.8, 1.2):
            delta = np.maximum(first - np.exp(level) * second, 0).sum()
            allowed = float(gdp_delta(mu_squared, epsilon=Fraction(str(level))))
            assert delta <= allowed + 1e-12
            worst = max(worst, delta / allowed)
    assert worst > 0.8, "the price is not far above what is needed"


@pytest.mark.parametrize(
    "move", [(1,), (2,), (3,), (1, -1), (2, -2), (2, -1, -1), (1, 1), (3, -3)], ids=lambda move: str(move)
)
def test_units_of_several_rows_and_replacements_keep_their_price(move):
    # The noisy cells themselves: Σ max(p − e^ε q, 0) over a grid of cells, against the price for their squared L2.
    variance = Fraction(9)
    reach = np.arange(-24, 28)
    mechanism = np.exp(-(reach**2) / (2 * 9.0))
    mechanism /= np.exp(-(np.arange(-60, 61) ** 2) / 18.0).sum()
    shifted = [
        np.exp(-((reach - by) ** 2) / 18.0) / np.exp(-(np.arange(-60, 61) ** 2) / 18.0).sum() for by in move
    ]
    first, second = np.ones(1), np.ones(1)
    for cell in shifted:
        first, second = np.outer(first, mechanism).ravel(), np.outer(second, cell).ravel()
    squared = sum(by * by for by in move)
    mu_squared = price(
        spend(DiscreteGaussian(variance), l1=sum(map(abs, move)), l2_squared=squared), currency=Currency.GDP
    )
    for level in ("0.1", "0.5", "1"):
        delta = np.maximum(first - math.exp(float(level)) * second, 0).sum()
        allowed = float(gdp_delta(mu_squared, epsilon=Fraction(level)))
        assert delta <= allowed
        assert delta > float(gdp_delta(mu_squared * 9 / 10, epsilon=Fraction(level))), (
            "a tenth less is too little"
        )


@pytest.mark.parametrize(("epsilon", "delta", "tight", "exact"), TABLE)
def test_golden_caps(epsilon, delta, tight, exact):
    currency, most = cap(Fraction(epsilon), Fraction(delta))
    assert currency is Currency.GDP
    assert f"{float(most) / 2:.{len(str(exact)) - 2}f}" == str(exact)
    assert f"{float(zcdp_cap(Fraction(epsilon), Fraction(delta))):.{len(str(tight)) - 2}f}" == str(tight)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        ("0.1", "1e-5"),
        ("1", "1e-9"),
        ("10", "1e-9"),
        ("1e-9", "1e-300"),
        ("1e6", "1e-9"),
        ("3", "0.999"),
        ("1e-9", "0.5"),
    ],
)
def test_caps_are_the_largest_that_keep_the_promise(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    most = cap(epsilon, delta)[1]
    assert gdp_delta(most, epsilon=epsilon) <= delta < gdp_delta(most * (1 + SLACK), epsilon=epsilon)
    most = zcdp_cap(epsilon, delta)
    assert zcdp_delta(most, epsilon=epsilon) <= delta < zcdp_delta(most * (1 + SLACK), epsilon=epsilon)


@pytest.mark.parametrize("mu", sample_cases(["0.01", "0.2", "1", "4"], to=2))
@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "8"])
@pytest.mark.slow
def test_gaussian_curve_is_rounded_up_and_by_almost_nothing(mu, epsilon):
    found = gdp_delta(Fraction(mu) ** 2, epsilon=Fraction(epsilon))
    with mpmath.workdps(2000):  # at μ = 0.01 and ε = 8 the two terms agree to a hundred digits
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        normal = lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2  # noqa: E731
        true = normal(m / 2 - e / m) - mpmath.exp(e) * normal(-m / 2 - e / m)
        assert 0 <= mpmath.mpf(found.numerator) / found.denominator / true - 1 < mpmath.mpf(2) ** -60


def test_nothing_spent_promises_everything():
    assert gdp_delta(Fraction(0), epsilon=Fraction(1)) == zcdp_delta(Fraction(0), epsilon=Fraction(1)) == 0
    assert epsilon_for(Fraction(0), currency=Currency.GDP, delta=Fraction("1e-9")) == 0


@pytest.mark.parametrize("rho", ["0.0001", "0.01", "0.5", "3"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_zcdp_curve_is_the_best_over_all_orders(rho, epsilon):
    found = float(zcdp_delta(Fraction(rho), epsilon=Fraction(epsilon)))
    r, e = float(rho), float(epsilon)
    alpha = 1 + np.logspace(-8, 8, 200_001)
    best = np.exp(((alpha - 1) * (alpha * r - e) + alpha * np.log1p(-1 / alpha) - np.log(alpha - 1)).min())
    assert min(best, 1.0) * (1 - 1e-6) <= found <= min(best, 1.0) * (1 + 1e-6)


@pytest.mark.parametrize("currency", [Currency.GDP, Currency.ZCDP])
@pytest.mark.parametrize(
    ("total", "delta"), [("0.03", "1e-9"), ("1e-10", "1e-12"), ("4", "1e-5"), ("1000", "1e-20")]
)
def test_epsilon_of_a_total_is_the_least(currency, total, delta):
    curve = gdp_delta if currency is Currency.GDP else zcdp_delta
    found = epsilon_for(Fraction(total), currency=currency, delta=Fraction(delta))
    assert curve(Fraction(total), epsilon=found) <= Fraction(delta)
    assert curve(Fraction(total), epsilon=found * (1 - Fraction(1, 10**9))) > Fraction(delta)


def test_epsilon_of_a_tiny_total_may_be_zero_and_of_no_delta_is_refused():
    assert epsilon_for(Fraction("1e-30"), currency=Currency.GDP, delta=Fraction("1e-3")) == 0
    assert epsilon_for(Fraction(3, 7), currency=Currency.PURE, delta=Fraction(0)) == Fraction(3, 7)
    with pytest.raises(UsageError, match="hint"):
        epsilon_for(Fraction(1), currency=Currency.GDP, delta=Fraction(0))


def test_prices_in_the_simple_currencies_are_exact():
    gauss, laplace = DiscreteGaussian(Fraction(25, 2)), DiscreteLaplace(Fraction(7))
    choice = Exponential(Fraction(1, 5))
    assert price(spend(gauss, answers=9, l1=4, l2_squared=8), currency=Currency.ZCDP) == Fraction(9 * 8, 25)
    assert (
        price(spend(laplace, answers=9, l1=4, l2_squared=8), currency=Currency.ZCDP)
        == 9 * Fraction(4, 7) ** 2 / 2
    )
    assert price(spend(choice, answers=3, l1=4), currency=Currency.ZCDP) == Fraction(3, 200)
    assert price(spend(laplace, answers=9, l1=4, l2_squared=8), currency=Currency.PURE) == Fraction(36, 7)
    assert price(spend(choice, answers=3, l1=4), currency=Currency.PURE) == Fraction(3, 5)
    with pytest.raises(UsageError, match="no price"):
        price(spend(gauss), currency=Currency.PURE)


def test_prices_add_over_answers_and_grow_with_movement():
    mechanism = DiscreteGaussian(Fraction(30))
    one = price(spend(mechanism), currency=Currency.GDP)
    assert price(spend(mechanism, answers=5, l1=6, l2_squared=18), currency=Currency.GDP) == 90 * one
    half, double = (
        price(spend(DiscreteGaussian(30 * f)), currency=Currency.GDP) for f in (Fraction(1, 2), Fraction(2))
    )
    assert half > Fraction(19, 10) * one
    assert double < Fraction(11, 20) * one
    laplace = price(spend(DiscreteLaplace(Fraction(2)), l1=3, l2_squared=5), currency=Currency.GDP)
    assert laplace == pure_mu_squared(Fraction(3, 2))


def test_a_choice_costs_less_than_a_pure_mechanism_and_more_than_a_quarter():
    pure = pure_mu_squared(Fraction(1))
    choice = price(spend(Exponential(Fraction(1))), currency=Currency.GDP)
    assert pure / 4 < choice < pure
    assert float(choice) == pytest.approx((2 * ndtri(expit(0.5))) ** 2, rel=1e-12)


@pytest.mark.parametrize("target", ["1e-15", "1e-6", "0.01", "0.5", "3", "80", "350"])
def test_inverses_are_certified_and_tight(target):
    target = Fraction(target)
    variance = min_variance(target)
    assert discrete_gaussian_mu_squared(variance) <= target
    assert discrete_gaussian_mu_squared(variance * (1 - Fraction(1, 10**6))) > target
    epsilon = max_pure_epsilon(target)
    assert pure_mu_squared(epsilon) <= target < pure_mu_squared(epsilon * (1 + Fraction(1, 10**6)))
    for short in (variance, epsilon):
        assert short.numerator.bit_length() <= 24 or short.denominator == 1


class TestAgainstAnIndependentAccountant:
    """dp-accounting's curves: ours must not promise more, and must not waste much."""

    @pytest.mark.parametrize(("epsilon", "delta", "tight", "exact"), TABLE)
    def test_gaussian_curve(self, epsilon, delta, tight, exact):
        import dp_accounting

        most = cap(Fraction(epsilon), Fraction(delta))[1]
        theirs = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(most), float(delta))
        assert theirs == pytest.approx(float(epsilon), rel=1e-6)

    @pytest.mark.parametrize(("epsilon", "delta", "tight", "exact"), TABLE)
    def test_zcdp(self, epsilon, delta, tight, exact):
        from dp_accounting import ZCDpEvent
        from dp_accounting.rdp import RdpAccountant

        rho = float(zcdp_cap(Fraction(epsilon), Fraction(delta)))
        orders = 1 + np.logspace(-2, 4, 2000)
        theirs = RdpAccountant(orders).compose(ZCDpEvent(rho)).get_epsilon(float(delta))
        assert theirs == pytest.approx(float(epsilon), rel=2e-4)

    @pytest.mark.parametrize(
        ("sigma", "answers", "waste"),
        sample_cases(
            [("0.7", 1, 0.35), ("1", 3, 0.1), ("2", 10, 0.03), ("10", 50, 0.01), ("25", 14, 0.01)], to=2
        ),
    )
    def test_discrete_gaussians_fixed_in_advance(self, sigma, answers, waste):
        from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism

        step = 1e-4 if float(sigma) < 5 else 1e-5  # finer where the two are closer
        mechanism = DiscreteGaussian(Fraction(sigma) ** 2)
        ours = price(spend(mechanism, answers=answers), currency=Currency.GDP)
        exact = from_discrete_gaussian_mechanism(
            float(sigma), value_discretization_interval=step
        ).self_compose(answers)
        for delta in ("1e-4", "1e-7"):
            promised = float(epsilon_for(ours, currency=Currency.GDP, delta=Fraction(delta)))
            theirs = exact.get_epsilon_for_delta(float(delta))
            # Their grid rounds each of the losses up by at most one step.
            assert theirs <= promised + step * answers
            assert promised <= (1 + waste) * theirs, "a plan fixed in advance would save little"
