"""The price of noise with power tails whose scale follows a smooth bound on local sensitivity, certified from above.

Answers are q + (S/s)·X for a bound S on the local sensitivity of q that changes by at most e^t between neighbours.
For power tails, of density ∝ (1 + |x|^p)^−m, the loss is the supremum over |λ| ≤ t, |d| ≤ s·min(1, e^−λ) and x of

    | −λ + m·ln(1 + |e^λ(x + d)|^p) − m·ln(1 + |x|^p) |.

It is reached with x ≥ 0, d = s·min(1, e^−λ) and λ one of −t, 0, t, so that a search over x alone is left: on [0, 1]
as it is, and on [1, ∞] with y = 1/x. Each piece is cut until ball arithmetic proves that nothing in it is higher.
Proof: docs/proofs/smooth-noise.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from populace.privacy.accounting.interval_arithmetic import ball, bounds, round_up

# The supremum is known to this much, absolutely: far less than what rounding s to seven digits gives away.
PRICE_TOLERANCE = Fraction(1, 2**30)


@dataclass(frozen=True, slots=True)
class _LossPiece:
    """m·ln((f + g)/(1 + z^p)) − λ on 0 ≤ z ≤ 1: near, z = x, f = 1 and g = (a·x + b)^p; far, z = 1/x, f = z^p,
    g = (a + b·z)^p, which is the same function of x.
    """

    power: arb
    exponent: arb
    lam: arb
    a: arb
    b: arb
    far: bool

    def value(self, z: Fraction) -> arb:
        """Enclose the function at one point."""
        point = ball(z)
        own = _raise(point, self.power)
        if self.far:
            above = own + _raise(self.a + self.b * point, self.power)
        else:
            above = 1 + _raise(self.a * point + self.b, self.power)
        return self.exponent * (above / (1 + own)).log() - self.lam

    def slope(self, low: Fraction, high: Fraction) -> arb:
        """Enclose the derivative on an interval; powers grow with their base, so their ends enclose them."""
        ends = ball(low), ball(high)
        less = self.power - 1
        own, own_less = _raise_interval(ends, self.power), _raise_interval(ends, less)
        if self.far:
            shifted = tuple(self.a + self.b * end for end in ends)
            above = own + _raise_interval(shifted, self.power)
            change = own_less + self.b * _raise_interval(shifted, less)
        else:
            shifted = tuple(self.a * end + self.b for end in ends)
            above = 1 + _raise_interval(shifted, self.power)
            change = self.a * _raise_interval(shifted, less)
        return self.exponent * self.power * (change / above - own_less / (1 + own))


def _raise(base: arb, power: arb) -> arb:
    return base**power if base > 0 else arb(0)


def _raise_interval(ends: tuple[arb, ...], power: arb) -> arb:
    low, high = ends
    return _raise(low, power).union(_raise(high, power))


@lru_cache(maxsize=65536)
def power_tail_price(*, power: Fraction, exponent: Fraction, s: Fraction, t: Fraction) -> Fraction:
    """Return the exact loss from above, at most `PRICE_TOLERANCE` (and rounding) higher than it is.

    >>> from math import log
    >>> ln2 = Fraction(log(2))
    >>> round(float(power_tail_price(power=Fraction(4), exponent=Fraction(1), s=ln2, t=ln2)), 6)
    2.739546
    """
    return round_up(bounds(lambda: _supremum(power, exponent, s, t))[1])


def _supremum(power: Fraction, exponent: Fraction, s: Fraction, t: Fraction) -> arb:
    shift, step = ball(s), ball(t)
    down, up = (-step).exp(), step.exp()
    # (λ, a, b): |e^λ(x + d)| = a·x + b at the greatest d.
    lines = (-step, down, down * shift), (arb(0), arb(1), shift), (step, up, shift)
    sides = [_LossPiece(ball(power), ball(exponent), *line, far) for line in lines for far in (False, True)]
    reached, proved = arb(0), arb(0)
    for side in sides:
        reached, proved = _search(side, reached=reached, proved=proved)
    return proved


def _search(side: _LossPiece, *, reached: arb, proved: arb) -> tuple[arb, arb]:
    """Raise the highest value reached, and the height above which nothing is, by one side."""
    seen: dict[Fraction, arb] = {}

    def value(z: Fraction) -> arb:
        if z not in seen:
            seen[z] = side.value(z)
        return seen[z]

    pieces = [(Fraction(0), Fraction(1))]
    while pieces:
        low, high = pieces.pop()
        middle = (low + high) / 2
        reached = max(map(arb.lower, (reached, value(low), value(high), value(middle))))
        slope = side.slope(low, high)
        if slope > 0 or slope < 0:
            above = max(value(low).upper(), value(high).upper())
        else:
            above = (value(middle) + arb(0, slope.abs_upper()) * ball((high - low) / 2)).upper()
        if above <= reached + ball(PRICE_TOLERANCE):
            proved = max(proved.upper(), above.upper())
        else:
            pieces += [(low, middle), (middle, high)]
    return reached, proved
