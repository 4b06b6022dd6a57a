"""Exact draws of noise whose scale is private: a number is known only as far as its rounding needs.

|X| is where its tail P[|X| > x] equals a uniform U. Random bits of U come one word after the other, balls enclose
what follows from those that are known, and more bits come until all that is enclosed rounds to one lattice point.
No float decides an outcome: floats and Newton's steps propose an enclosure, ball arithmetic proves it.
Proof: docs/proofs/smooth.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpz

from populace.core.errors import InternalError, UsageError
from populace.privacy.accounting.interval_arithmetic import ball, precision
from populace.privacy.noise.entropy import Entropy
from populace.privacy.smooth.smooth_distributions import (
    Cauchy,
    LaplaceLogNormal,
    PolyPlace,
    SmoothDistribution,
    Student,
)
from populace.privacy.smooth.smooth_noise import SmoothNoise

_WORD = 64
_GUARD = 64
# Words of one uniform number at first: more are hardly ever needed.
_FIRST_WORDS = 2
# Ties have probability 0. What is not decided here, with a probability below 2^−200, is never released.
_MAX_WORDS = 256
# Newton's steps that may find where a tail falls to a probability, and their precision; what is left is found by
# widening, so many times twice as far.
_STEPS, _LOW, _NEAR, _WIDER = 60, 96, 24, 400

# A random number, one and the same however closely it is enclosed: at the working precision, by what so many words of
# its uniform numbers say.
Variate = Callable[[int], arb]
# Encloses |X| where its tail is somewhere between two probabilities.
Quantile = Callable[[Fraction, Fraction], arb]


def draw_smooth_answer(
    exact: Fraction, *, bound: Callable[[], arb], mechanism: SmoothNoise, lattice: Fraction, entropy: Entropy
) -> Fraction:
    """Return q + (S/s)·X, rounded to the nearest multiple of `lattice`, exactly.

    `bound` encloses S > 0 at the working precision, as closely as that is.
    Proof: docs/proofs/smooth.md

    >>> from populace.privacy.noise.entropy import RehearsalEntropy
    >>> noise = SmoothNoise(distribution=Cauchy(Fraction(4)), s=Fraction(1), t=Fraction(1, 2))
    >>> draw_smooth_answer(
    ...     Fraction(7), bound=lambda: ball(2), mechanism=noise, lattice=Fraction(1, 4), entropy=RehearsalEntropy(1)
    ... ).denominator in (1, 2, 4)
    True
    """
    if not lattice > 0:
        raise UsageError(f"answers are rounded to multiples of {lattice}.", hint="give a number above 0")
    variate = _make_variate(mechanism.distribution, entropy)
    words = _FIRST_WORDS
    while True:
        with precision(_WORD * words + _GUARD):
            scale = bound()
            found = (ball(exact) + scale / ball(mechanism.s) * variate(words)) / ball(lattice)
            # A bound that may be 0 would be no noise.
            point = round_if_certain(found) if scale > 0 else None
        if point is not None:
            return point * lattice
        if words >= _MAX_WORDS:
            # Never rounded as it looks: what is left undecided would tell the bound.
            raise InternalError("noise that follows a bound could not be drawn.")
        words *= 2


def round_if_certain(found: arb) -> int | None:
    """Return the whole number that everything in a ball rounds to, or None where there are several.

    >>> round_if_certain(arb(7, 0.25)), round_if_certain(arb(7.5, 0.25))
    (7, None)
    """
    if not found.is_finite():
        return None
    whole: fmpz | None = (found + ball(Fraction(1, 2))).floor().unique_fmpz()
    return None if whole is None else int(whole)


class _Uniform:
    """A uniform number between 0 and 1, of which as many words are drawn as are asked for."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._prefix = 0
        self._words = 0

    def between(self, words: int) -> tuple[Fraction, Fraction]:
        """Return the ends of the interval that so many words leave."""
        if words > self._words:
            for word in self._entropy.words(words - self._words).tolist():
                self._prefix = self._prefix << _WORD | word
            self._words = words
        whole = 1 << _WORD * self._words
        return Fraction(self._prefix, whole), Fraction(self._prefix + 1, whole)


def _make_variate(distribution: SmoothDistribution, entropy: Entropy) -> Variate:
    if not isinstance(distribution, LaplaceLogNormal):
        return _pick_side(magnitude_quantile(distribution), entropy)
    centre, exponent = (_pick_side(quantile, entropy) for quantile in (_laplace_quantile, _normal_quantile))
    return lambda words: centre(words) * (ball(distribution.sigma) * exponent(words)).exp()


def _pick_side(magnitude: Quantile, entropy: Entropy) -> Variate:
    """Return a magnitude with a sign, each from a uniform number."""
    uniform, negative = _Uniform(entropy), bool(entropy.words(1)[0] >> 63)

    def enclose(words: int) -> arb:
        low, high = uniform.between(words)
        # Its tail's probability is somewhere between; 0 says nothing, and neither does 1.
        found = magnitude(low, high) if low > 0 and high < 1 else arb("inf")
        return -found if negative else found

    return enclose


def magnitude_quantile(distribution: Cauchy | Student | PolyPlace) -> Quantile:
    """Return what encloses |X| of a distribution, given between which probabilities its tail is."""
    if isinstance(distribution, Cauchy):
        return PowerTail(power=distribution.gamma, exponent=Fraction(1)).quantile
    if isinstance(distribution, Student):
        inner = PowerTail(power=Fraction(2), exponent=(distribution.degrees + 1) / 2)
        return lambda low, high: ball(distribution.degrees).sqrt() * inner.quantile(low, high)
    return lambda low, high: _poly_quantile(distribution.gamma, ball(low).union(ball(high)))


def _laplace_quantile(low: Fraction, high: Fraction) -> arb:
    return -ball(low).union(ball(high)).log()


def _normal_quantile(low: Fraction, high: Fraction) -> arb:
    """Enclose w with P[|Y| > w] = erfc(w/√2) in between; it falls as the probability grows."""
    return arb(2).sqrt() * ball(low).erfcinv().union(ball(high).erfcinv())


def _poly_quantile(gamma: Fraction, probability: arb) -> arb:
    """Enclose the inverse of a tail: of e^−x − e^−γ + T up to γ and of T·(x/γ)^(1−γ) beyond, T the weight beyond."""
    power = ball(gamma)
    least = (-power).exp()
    beyond = least * power / (power - 1)
    weight = probability * (1 - least + beyond)

    def near() -> arb:
        return -(weight - beyond + least).log()

    def far() -> arb:
        return power * ((beyond / weight).log() / (power - 1)).exp()

    if weight > beyond:
        return near()
    return far() if weight < beyond else near().union(far())


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerTail:
    """The distribution of density ∝ (1 + |x|^p)^−m: with w = 1/(1 + x^p), P[|X| > x] = I_w(m − 1/p, 1/p).

    >>> with precision(100):
    ...     tail, body = PowerTail(power=Fraction(2), exponent=Fraction(1)).tails(arb(0))
    >>> round(float(tail.mid()), 12), round(float(body.mid()), 12)  # Cauchy's distribution at x = e^0
    (0.5, 0.5)
    """

    power: Fraction
    exponent: Fraction

    def tails(self, logarithm: arb) -> tuple[arb, arb]:
        """Enclose P[|X| > x] and P[|X| ≤ x] at x = e^logarithm: of both the smaller one is close to itself."""
        grown = (ball(self.power) * logarithm).exp()
        outer, inner = ball(self.exponent - 1 / self.power), ball(1 / self.power)
        # About the middle: 1 less a number close to 1 would say little about light tails.
        if grown * ball(max(self.exponent, Fraction(1))) > 1:
            tail = (1 / (1 + grown)).beta_lower(outer, inner, regularized=True)
            return tail, 1 - tail
        body = (grown / (1 + grown)).beta_lower(inner, outer, regularized=True)
        return 1 - body, body

    def quantile(self, low: Fraction, high: Fraction) -> arb:
        """Enclose all x ≥ 0 with P[|X| > x] between two probabilities.

        A guess is widened until the tail is proven to be above `high` at its lower and below `low` at its upper end.
        """
        least, most = ball(low), ball(high)
        centre, slope = self._guess((low + high) / 2)
        # About as wide as what is not known of U makes it, and as what the guess may be off by.
        unknown: arb = ((most - least) / slope).abs_upper() + (centre.abs_upper() + 1) * arb(2) ** (
            _NEAR - ctx.prec
        )
        below = (centre - unknown * 2**times for times in range(_WIDER))
        above = (centre + unknown * 2**times for times in range(_WIDER))
        lower = next((place for place in below if self.tails(place)[0] > most), None)
        upper = next((place for place in above if self.tails(place)[0] < least), None)
        return arb("nan") if lower is None or upper is None else lower.exp().union(upper.exp())

    def _guess(self, probability: Fraction) -> tuple[arb, arb]:
        """Return about ln x with P[|X| > x] = probability, and about how fast that tail falls with ln x there.

        Newton's steps on the logarithm of the smaller side, first at a low precision. Nothing is proved by them.
        """
        side = 0 if probability < Fraction(1, 2) else 1
        full = ctx.prec
        with precision(_LOW):
            # Where x^p is about 1/m the distribution has its middle, however light its tails are.
            place = -(ball(max(self.exponent, Fraction(1))).log() / ball(self.power)).mid()
            whole = self._whole().mid()
            for _ in range(_STEPS):
                place, step = self._newton_step(place, side, probability, whole)
                if abs(step) < arb(2) ** -(_LOW // 2):
                    break
        reached = _LOW // 2
        while reached < full:
            place, _ = self._newton_step(place, side, probability, whole)
            reached += _LOW // 2
        return place, self._density(place, whole)

    def _newton_step(self, place: arb, side: int, probability: Fraction, whole: arb) -> tuple[arb, arb]:
        held = self.tails(place)[side].mid()
        target = ball(probability if side == 0 else 1 - probability)
        slope = self._density(place, whole)
        step = ((held / target).log() * held / slope).mid()
        step = step if side == 0 else -step
        return (place + step).mid(), step

    def _density(self, place: arb, whole: arb) -> arb:
        """Return about the density of ln|X|: x·p·(1 + x^p)^−m/B(1/p, m − 1/p)."""
        grown = (ball(self.power) * place).exp()
        return ((place - ball(self.exponent) * (1 + grown).log()).exp() / whole).mid()

    def _whole(self) -> arb:
        """Enclose the weight of all x ≥ 0, B(1/p, m − 1/p)/p."""
        inner, outer = 1 / self.power, self.exponent - 1 / self.power
        logarithm = ball(inner).lgamma() + ball(outer).lgamma() - ball(self.exponent).lgamma()
        return logarithm.exp() / ball(self.power)
