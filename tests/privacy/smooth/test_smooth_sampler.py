"""Exact draws of smooth noise: tails against independent computations, refinement, and the law of what is drawn."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb
from scipy.integrate import quad
from scipy.stats import t as student_t

from populace.core.errors import InternalError, UsageError
from populace.privacy.accounting.interval_arithmetic import ball, ceiling, precision
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.smooth import smooth_sampler as smooth_draw
from populace.privacy.smooth.smooth_distributions import Cauchy, LaplaceLogNormal, PolyPlace, Student
from populace.privacy.smooth.smooth_noise import LN_2, SmoothNoise, calibrate_family
from populace.privacy.smooth.smooth_sampler import PowerTail, draw_smooth_answer, round_if_certain

pytestmark = pytest.mark.sampled(6)

FINE = Fraction(1, 2**40)
# Each test of a drawn law raises a false alarm with this probability.
ALARM = 1e-6


class Told:
    """Random words as they are given, and then those of a rehearsal."""

    def __init__(self, *words, seed=1):
        self.given = list(words)
        self.rest = RehearsalEntropy(seed)
        self.drawn = 0

    def words(self, n):
        self.drawn += n
        own, self.given = self.given[:n], self.given[n:]
        return np.concatenate([np.array(own, dtype=np.uint64), self.rest.words(n - len(own))])

    def below(self, n):
        return self.rest.below(n)


def noise(mechanism, s="1", t="0.5"):
    return SmoothNoise(distribution=mechanism, s=Fraction(s), t=Fraction(t))


def drawn(mechanism, *, entropy, exact=Fraction(0), size=1, lattice=FINE, s="1"):
    return draw_smooth_answer(
        Fraction(exact),
        bound=lambda: ball(Fraction(size)),
        mechanism=noise(mechanism, s),
        lattice=lattice,
        entropy=entropy,
    )


def tail(mechanism, x):
    """P[|X| > x], from the density's definition by numerical integration, or from scipy."""
    if isinstance(mechanism, Student):
        return 2 * student_t.sf(x, float(mechanism.degrees))
    gamma = float(mechanism.gamma)

    def density(u):
        if isinstance(mechanism, Cauchy):
            return 1 / (1 + u**gamma)
        return math.exp(-u) if u <= gamma else math.exp(-gamma) * (u / gamma) ** -gamma

    pieces = sorted({0.0, 1.0, gamma, 50.0, float(x)})
    whole = [quad(density, a, b, epsabs=1e-13)[0] for a, b in pairwise(pieces)]
    # Beyond, the power is all that is left: two terms of its series.
    end = pieces[-1]
    far = end ** (1 - gamma) / (gamma - 1)
    if isinstance(mechanism, Cauchy):
        far -= end ** (1 - 2 * gamma) / (2 * gamma - 1)
    else:
        far *= math.exp(-gamma) * gamma**gamma
    above = sum(part for part, start in zip(whole, pieces, strict=False) if start >= x) + far
    return above / (sum(whole) + far)


LAWS = [
    *(Cauchy(Fraction(gamma)) for gamma in ("2", "2.6", "4", "9")),
    *(Student(Fraction(degrees)) for degrees in ("0.7", "1", "3.2", "12")),
    *(PolyPlace(Fraction(gamma)) for gamma in ("2.2", "4.7", "9")),
]


def magnitude(mechanism, low, high):
    """The enclosure of |X| when U is between two probabilities."""
    with precision(256):
        return smooth_draw.magnitude_quantile(mechanism)(low, high)


@pytest.mark.parametrize("mechanism", LAWS, ids=str)
def test_magnitudes_are_quantiles(mechanism):
    for u in (Fraction(1, 2), Fraction(1, 3), Fraction(9, 10), Fraction(1, 1000)):
        found = magnitude(mechanism, u, u + Fraction(1, 2**128))
        assert found.rel_accuracy_bits() > 90
        assert tail(mechanism, float(found.mid())) == pytest.approx(float(u), rel=1e-7)


def test_student_agrees_with_scipy():
    for degrees in (Fraction("0.5"), Fraction(3), Fraction(30)):
        for u in (1e-12, 0.01, 0.4, 0.99, 1 - 1e-9):
            told = Fraction(u)
            found = magnitude(Student(degrees), told, told + Fraction(1, 2**140))
            assert float(found.mid()) == pytest.approx(student_t.isf(u / 2, float(degrees)), rel=1e-9)


@pytest.mark.parametrize(("power", "exponent"), [("3.7", "1"), ("1.07", "1"), ("2", "2.1"), ("40", "1")])
def test_enclosures_are_proven_and_shrink(power, exponent):
    mechanism = PowerTail(power=Fraction(power), exponent=Fraction(exponent))
    for u in (Fraction(1, 7), Fraction(6, 7), Fraction(1, 2**50), 1 - Fraction(1, 2**50)):
        before = None
        for bits in (96, 192, 384):
            low, high = u, u + Fraction(1, 2**bits)
            with precision(bits + 64):
                found = mechanism.quantile(low, high)
                at_lower, at_upper = (mechanism.tails(end.log())[0] for end in (found.lower(), found.upper()))
                assert not at_lower < ball(high)
                assert not at_upper > ball(low)
                assert before is None or (found.overlaps(before) and found.rad() < before.rad())
            before = found


def test_tails_of_both_sides_add_up():
    mechanism = PowerTail(power=Fraction("2.5"), exponent=Fraction(1))
    with precision(160):
        for place in (-30, -1, 0, 1, 30):
            outer, inner = mechanism.tails(arb(place))
            assert (outer + inner - 1).contains(0)


def test_the_answer_follows_from_the_words_alone(monkeypatch):
    """However many words are looked at first, the same words lead to the same point."""
    for mechanism in (Cauchy(Fraction(3)), Student(Fraction(2)), PolyPlace(Fraction(5))):
        found = set()
        for first in (1, 2, 4):
            monkeypatch.setattr(smooth_draw, "_FIRST_WORDS", first)
            found.add(
                drawn(
                    mechanism, entropy=RehearsalEntropy(4), exact=Fraction(1, 3), lattice=Fraction(1, 2**70)
                )
            )
        assert len(found) == 1


def test_words_that_decide_nothing_are_followed_by_more():
    mechanism = Cauchy(Fraction(4))
    # The first word is the sign; then U begins with zeros, or with ones: x may be without end, or 0.
    for word in (0, 2**64 - 1):
        entropy = Told(0, word, word)
        answer = drawn(mechanism, entropy=entropy, lattice=Fraction(1, 2**60))
        assert entropy.drawn > 3
        assert (answer > 2**20) if word == 0 else (0 <= answer < Fraction(1, 2**40))


def test_the_sign_is_a_fair_bit_of_its_own():
    above, below = (drawn(Cauchy(Fraction(4)), entropy=Told(sign, 2**60, 7)) for sign in (0, 2**63))
    assert above == -below > 0


def test_what_stays_undecided_is_never_told(monkeypatch):
    """Rounding it as it looks would tell the bound; the error is the same whatever number and bound are."""
    monkeypatch.setattr(smooth_draw, "_MAX_WORDS", 4)
    messages = set()
    for exact, size in ((Fraction(1, 2), Fraction(1, 2**20000)), (Fraction(7), 3), (Fraction(7), 2)):
        lattice = Fraction(1) if exact == Fraction(1, 2) else Fraction(1, 2**16400)
        with pytest.raises(InternalError, match="could not be drawn") as failure:
            drawn(PolyPlace(Fraction(4)), entropy=Told(), exact=exact, size=size, lattice=lattice)
        messages.add(str(failure.value))
    assert len(messages) == 1
    assert round_if_certain(arb(3, 0.75)) is None


# Laws at the ends of what is allowed.
HEAVIEST = [Cauchy(Fraction(65, 64)), PolyPlace(Fraction(65, 64)), Student(Fraction(1, 64))]
LIGHTEST = [Cauchy(Fraction(4097)), PolyPlace(Fraction(4097)), Student(Fraction(4096))]
LOG_NORMAL = [LaplaceLogNormal(Fraction(16)), LaplaceLogNormal(Fraction(1, 2**32))]


def test_all_laws_are_decided():
    """U within 2^−20 of 0 or 1, the widest and the narrowest noise: more words may be needed, and are drawn."""
    for mechanism in HEAVIEST + LIGHTEST + LOG_NORMAL:
        for word in (2**44, 2**64 - 2**44):
            words = (0, 0, word, 5, word) if isinstance(mechanism, LaplaceLogNormal) else (0, word)
            for size, s in ((2**120, 2**-64), (2**-120, 2**64)):
                entropy = Told(*words)
                drawn(mechanism, entropy=entropy, size=Fraction(size), s=Fraction(s), lattice=Fraction(1))
                assert entropy.drawn < 140


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", HEAVIEST + LIGHTEST, ids=str)
@pytest.mark.parametrize("words", [(0, 2**30), (2**64 - 1, 2**64 - 2**30)], ids=["far out", "near 0"])
def test_all_laws_are_decided_far_out(mechanism, words):
    """U within 2^−90 of 0 or 1, and with noise in closed form within 2^−200."""
    if isinstance(mechanism, PolyPlace):
        words = (words[0],) * 3 + (words[1],)
    for size, s in ((2**120, 2**-64), (2**-120, 2**64)):
        drawn(mechanism, entropy=Told(0, *words), size=Fraction(size), s=Fraction(s), lattice=Fraction(1))


@pytest.mark.parametrize(
    "mechanism",
    [
        Cauchy(1 + Fraction(1, 65)),
        PolyPlace(1 + Fraction(1, 2**14)),
        Student(Fraction(1, 65)),
        Cauchy(Fraction(4098)),
        Student(Fraction(4097)),
        LaplaceLogNormal(Fraction(17)),
    ],
    ids=str,
)
def test_laws_that_need_more_words_are_refused(mechanism):
    with pytest.raises(UsageError, match="of smooth noise is"):
        noise(mechanism)


@pytest.mark.parametrize("bound", [lambda: arb(0), lambda: arb("nan"), lambda: arb(0, 1), lambda: ball(-1)])
def test_a_bound_that_is_not_positive_is_never_used(bound):
    with pytest.raises(InternalError, match="could not be drawn"):
        draw_smooth_answer(
            Fraction(1), bound=bound, mechanism=noise(PolyPlace(Fraction(4))), lattice=FINE, entropy=Told()
        )


def test_a_lattice_is_needed():
    with pytest.raises(UsageError, match="multiples"):
        drawn(Cauchy(Fraction(4)), entropy=Told(), lattice=Fraction(0))


def test_answers_lie_on_the_lattice_and_follow_scale_and_place():
    mechanism, lattice = Student(Fraction(3)), Fraction(3, 7)
    answer = drawn(mechanism, entropy=RehearsalEntropy(2), exact=Fraction(100), lattice=lattice)
    assert (answer / lattice).denominator == 1
    plain = drawn(mechanism, entropy=RehearsalEntropy(2))
    wide = drawn(mechanism, entropy=RehearsalEntropy(2), exact=Fraction(5), size=6, s="2")
    assert abs((wide - 5) - 3 * plain) <= 4 * FINE


def test_ceilings_are_exact():
    assert ceiling(lambda: ball(8).log() / ball(2).log()) == 3
    assert ceiling(lambda: ball(8).log() / ball(2).log() + ball(Fraction(1, 10**400))) == 4
    assert ceiling(lambda: -ball(Fraction(5, 2))) == -2
    with pytest.raises(ArithmeticError):
        ceiling(lambda: arb("nan"))


def distance(values, mechanism):
    """The greatest distance between the empirical and the true distribution function."""
    values = np.sort(np.array([float(value) for value in values]))
    true = np.array([0.5 * (1 - math.copysign(1 - tail(mechanism, abs(x)), -x)) for x in values])
    n = len(values)
    return max((np.arange(1, n + 1) / n - true).max(), (true - np.arange(n) / n).max())


def limit(n):
    """By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart it is passed with probability ALARM."""
    return math.sqrt(math.log(2 / ALARM) / (2 * n))


def law_holds(values, mechanism):
    return distance(values, mechanism) <= limit(len(values))


def test_drawn_noise_has_its_law():
    mechanism, entropy = PolyPlace(Fraction(4)), RehearsalEntropy(11)
    values = [drawn(mechanism, entropy=entropy) for _ in range(1000)]
    assert law_holds(values, mechanism)
    assert not law_holds([value / 2 for value in values], mechanism), "halved noise must be seen"
    assert not law_holds([value * 2 for value in values], mechanism), "doubled noise must be seen"


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [Cauchy(Fraction("2.4")), Cauchy(Fraction(4)), Student(Fraction(3))], ids=str
)
def test_drawn_noise_of_powers_has_its_law(mechanism):
    entropy = RehearsalEntropy(12)
    values = [drawn(mechanism, entropy=entropy) for _ in range(1500)]
    assert law_holds(values, mechanism)
    assert not law_holds([value / 2 for value in values], mechanism)
    assert not law_holds([value * 2 for value in values], mechanism)


@pytest.mark.slow
def test_laplace_log_normal_noise_has_its_law():
    mechanism, entropy = LaplaceLogNormal(Fraction(1, 2)), RehearsalEntropy(13)
    sizes = np.sort([abs(float(drawn(mechanism, entropy=entropy))) for _ in range(3000)])
    normal = np.linspace(-9, 9, 4001)
    weights = np.exp(-(normal**2) / 2) / np.exp(-(normal**2) / 2).sum()

    def gap(values):
        true = 1 - np.exp(-values[:, None] * np.exp(-0.5 * normal)) @ weights
        return np.abs(np.arange(1, len(values) + 1) / len(values) - true).max()

    assert gap(sizes) <= limit(len(sizes)) + 1 / len(sizes)
    assert min(gap(sizes / 2), gap(sizes * 2)) > limit(len(sizes)) + 1 / len(sizes)


# ----------------------------------------------------------------------------------------- the ratio of what is drawn


def cell(mechanism, place, *, shift, scale, lattice):
    """P[q + scale·X rounds to a point], by the very tails that draws are made of."""
    inner = PowerTail(power=mechanism.gamma, exponent=Fraction(1))
    with precision(120):
        ends = [cumulative(inner, (place + half - shift) / scale) for half in (-lattice / 2, lattice / 2)]
        return float((ends[1] - ends[0]).mid())


def cumulative(mechanism, x):
    if x == 0:
        return arb(0.5)
    outer = mechanism.tails(arb(abs(x)).log())[0] / 2
    return 1 - outer if x > 0 else outer


def greatest_ratio(mechanism, *, s, t, lattice=0.05):
    """The greatest |ln| of the ratio of probabilities of one point, over neighbours' shifts, bounds and points."""
    found = 0.0
    places = np.concatenate(
        [np.arange(-80, 81) * lattice, np.round(np.geomspace(4, 200, 12) / lattice) * lattice]
    )
    for lam in (-t, 0.0, t):
        bound = math.exp(-lam)
        shift = min(1.0, bound)
        for place in places[:: 1 if lam == 0 else 2]:
            here = cell(mechanism, place, shift=0.0, scale=1 / s, lattice=lattice)
            there = cell(mechanism, place, shift=shift, scale=bound / s, lattice=lattice)
            found = max(found, abs(math.log(here / there)))
    return found


@pytest.mark.parametrize(
    "epsilon", [Fraction("0.8"), pytest.param(Fraction(2), marks=pytest.mark.slow), 6 * LN_2]
)
def test_drawn_noise_passes_the_ratio_test(epsilon):
    ours = calibrate_family(epsilon, t=LN_2)
    top = greatest_ratio(ours.distribution, s=float(ours.s), t=float(LN_2))
    assert 0.9 * float(epsilon) < top <= float(epsilon) + 1e-6


def test_the_ratio_test_rejects_constants_that_do_not_hold():
    epsilon = Fraction(1, 2)
    mechanism = Cauchy(1 + epsilon / (2 * LN_2))
    assert greatest_ratio(mechanism, s=float(LN_2), t=float(LN_2)) > 1.5 * float(epsilon)
    with pytest.raises(UsageError, match="impute from a model"):
        calibrate_family(epsilon, t=LN_2)
