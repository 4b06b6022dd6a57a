"""Distributions of noise whose tails are heavy enough to hide its own scale, which follows private rows.

===================  =======================================================  ========================
distribution         density                                                  priced in
===================  =======================================================  ========================
``Cauchy``           ∝ 1/(1 + |x|^γ)                                          ε of pure DP
``Student``          ∝ (1 + x²/d)^−(d+1)/2, a tail of γ = d + 1               ε of pure DP
``PolyPlace``        ∝ e^−|x| up to γ, then ∝ |x|^−γ                          ε of pure DP
``LaplaceLogNormal`` of Z·e^(σY), Z Laplace and Y normal                      ρ of zCDP
===================  =======================================================  ========================

An answer is q + (S/s)·X, where S bounds the local sensitivity of q and changes by at most e^t between neighbours.
With r rows per unit it costs r times as much: smooth bounds do not scale like counts.
Proof: docs/proofs/smooth-noise.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from populace.core.errors import UsageError
from populace.privacy.accounting.interval_arithmetic import ball, bounds, precision, round_up
from populace.privacy.smooth.smooth_price import power_tail_price

# The z of 0 … 1 at which a loss is looked at when parameters are compared.
_LOSS_GRID = np.linspace(0, 1, 257)


@dataclass(frozen=True, slots=True)
class Cauchy:
    """The generalised Cauchy distribution, of density ∝ 1/(1 + |x|^gamma). Nissim, Raskhodnikova and Smith 2007.

    >>> Cauchy(Fraction(4)).variance
    1.0
    """

    gamma: Fraction

    def __post_init__(self) -> None:
        _check_above(self.gamma, 1, name="gamma")

    @property
    def variance(self) -> float:
        """sin(π/γ)/sin(3π/γ), where γ exceeds 3."""
        gamma = float(self.gamma)
        if gamma <= 3:
            return math.inf
        # B(3/γ, 1 − 3/γ)/B(1/γ, 1 − 1/γ).
        logs = [math.lgamma(k / gamma) + math.lgamma(1.0 - k / gamma) for k in (3, 1)]
        return math.exp(logs[0] - logs[1])

    def two_sided_quantile(self, probability: float) -> float:
        """Return x with P[|X| > x] = probability."""
        return _power_quantile(self.gamma, Fraction(1), probability)

    def price(self, *, s: Fraction, t: Fraction) -> Fraction:
        """Return the greatest loss, certified from above. Proof: docs/proofs/smooth-noise.md."""
        return power_tail_price(power=self.gamma, exponent=Fraction(1), s=s, t=t)

    def loss(self, *, s: float, t: float) -> float:
        """Return about what an answer costs."""
        return _power_loss(float(self.gamma), 1.0, s, t)


@dataclass(frozen=True, slots=True)
class Student:
    """Student's t with `degrees` d, a tail of γ = d + 1. Bun and Steinke 2019.

    In units of √d it is ∝ (1 + x²)^−(d+1)/2. Its s is in its own units: s/√d there.
    """

    degrees: Fraction

    def __post_init__(self) -> None:
        _check_above(self.degrees, 0, name="the number of degrees")

    @property
    def variance(self) -> float:
        """d/(d − 2), where d exceeds 2."""
        return float(self.degrees) / (float(self.degrees) - 2) if self.degrees > 2 else math.inf

    def two_sided_quantile(self, probability: float) -> float:
        """Return x with P[|X| > x] = probability."""
        inner = _power_quantile(Fraction(2), (self.degrees + 1) / 2, probability)
        return math.sqrt(self.degrees) * inner

    def price(self, *, s: Fraction, t: Fraction) -> Fraction:
        """Return the greatest loss, certified from above. Proof: docs/proofs/smooth-noise.md."""
        inner = round_up(bounds(lambda: ball(s) / ball(self.degrees).sqrt())[1])
        return power_tail_price(power=Fraction(2), exponent=(self.degrees + 1) / 2, s=inner, t=t)

    def loss(self, *, s: float, t: float) -> float:
        """Return about what an answer costs."""
        degrees = float(self.degrees)
        return _power_loss(2.0, (degrees + 1) / 2, s / math.sqrt(degrees), t)


@dataclass(frozen=True, slots=True)
class PolyPlace:
    """A Laplace centre with the tails of a power: density ∝ e^−φ(|x|), φ(x) = x up to γ, then γ + γ·ln(x/γ).

    After Hladík and Tětek 2024. The greatest loss has a closed form.

    >>> round(float(PolyPlace(Fraction(4)).price(s=Fraction(4), t=Fraction(1, 2))), 4)
    4.0
    """

    gamma: Fraction

    def __post_init__(self) -> None:
        _check_above(self.gamma, 1, name="gamma")

    def _mass(self) -> tuple[float, float, float]:
        """Return γ, the weight of x > γ, and the whole weight, on one side."""
        gamma = float(self.gamma)
        tail = math.exp(-gamma) * gamma / (gamma - 1)
        return gamma, tail, -math.expm1(-gamma) + tail

    @property
    def variance(self) -> float:
        """The variance of X, where γ exceeds 3."""
        gamma, _, whole = self._mass()
        if gamma <= 3:
            return math.inf
        centre = 2 - math.exp(-gamma) * (gamma**2 + 2 * gamma + 2)
        return (centre + math.exp(-gamma) * gamma**3 / (gamma - 3)) / whole

    def two_sided_quantile(self, probability: float) -> float:
        """Return x with P[|X| > x] = probability."""
        gamma, tail, whole = self._mass()
        if probability * whole >= tail:
            return -math.log(probability * whole - tail + math.exp(-gamma))
        return gamma * math.exp(math.log(tail / (probability * whole)) / (gamma - 1))

    def price(self, *, s: Fraction, t: Fraction) -> Fraction:
        """Return the greatest loss, rounded up: of no dilation, of the narrower distribution and of the wider one.

        Proof: docs/proofs/smooth-noise.md.
        """

        def losses() -> arb:
            knee, step, full = ball(self.gamma), ball(t), ball(s)
            part = full * (-step).exp()
            # Undecided comparisons (and both branches agree at γ) fall to the greater of two bounds: φ(x) ≤ x.
            wider = (knee - 1) * step + part if not part > knee else phi(full, knee) - step
            return phi(full, knee).max(step + phi(part, knee)).max(wider)

        def phi(x: arb, knee: arb) -> arb:
            return knee + knee * (x / knee).log() if x > knee else x

        return round_up(bounds(losses)[1])

    def loss(self, *, s: float, t: float) -> float:
        """Return about what an answer costs."""
        gamma, part = float(self.gamma), s * math.exp(-t)

        def phi(x: float) -> float:
            return x if x <= gamma else gamma + gamma * math.log(x / gamma)

        wider = (gamma - 1) * t + part if part <= gamma else phi(s) - t
        return max(phi(s), t + phi(part), wider)


@dataclass(frozen=True, slots=True)
class LaplaceLogNormal:
    """The distribution of Z·e^(σY), Z Laplace of scale 1 and Y standard normal: ρ = (t/σ + e^(3σ²/2)·s)²/2 in zCDP.

    Source: Bun and Steinke 2019.
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        _check_above(self.sigma, 0, name="sigma")

    @property
    def variance(self) -> float:
        """2·e^(2σ²)."""
        return 2 * math.exp(2 * float(self.sigma) ** 2)

    def two_sided_quantile(self, probability: float) -> float:
        """Return x with P[|X| > x] = E[exp(−x·e^−σY)] = probability."""
        normal = np.linspace(-9, 9, 2001)
        weights = np.exp(-(normal**2) / 2)
        weights /= weights.sum()
        scales = np.exp(-float(self.sigma) * normal)

        def tail(logarithm: float) -> float:
            return float(weights @ np.exp(-math.exp(logarithm) * scales))

        return math.exp(_find_crossing(tail, probability, low=-60.0))

    def price(self, *, s: Fraction, t: Fraction) -> Fraction:
        """Return ρ, rounded up. Proof: docs/proofs/smooth-noise.md."""

        def rho() -> arb:
            spread = ball(self.sigma)
            return (ball(t) / spread + (3 * spread**2 / 2).exp() * ball(s)) ** 2 / 2

        return round_up(bounds(rho)[1])

    def loss(self, *, s: float, t: float) -> float:
        """Return about what an answer costs."""
        sigma = float(self.sigma)
        return (t / sigma + math.exp(min(1.5 * sigma**2, 300.0)) * s) ** 2 / 2


SmoothDistribution = Cauchy | Student | PolyPlace | LaplaceLogNormal


def _check_above(value: object, least: int, *, name: str) -> None:
    if not isinstance(value, Fraction) or value <= least:
        raise UsageError(f"{name} is {value!r}.", hint=f"give a Fraction above {least}")


@lru_cache(maxsize=4096)
def _power_quantile(power: Fraction, exponent: Fraction, probability: float) -> float:
    """Return x with P[|X| > x] = I_w(m − 1/p, 1/p) = probability, where w = 1/(1 + x^p) = e^−v."""
    with precision(80):
        first, second = ball(exponent - 1 / power), ball(1 / power)

        def tail(v: float) -> float:
            return float(arb(-v).exp().beta_lower(first, second, regularized=True).mid())

        v = _find_crossing(tail, probability, low=0.0)
    grown = v if v > 40 else math.log(math.expm1(v))
    return math.exp(grown / float(power))


def _find_crossing(tail: Callable[[float], float], probability: float, *, low: float) -> float:
    """Return where a falling function crosses a probability, above `low`."""
    step = 1.0
    while tail(low + step) > probability:
        step *= 2
    high = low + step
    while high - low > 1e-13 * max(1.0, abs(high)):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > probability else (low, middle)
    return high


def _power_loss(power: float, exponent: float, s: float, t: float) -> float:
    """Return the greatest loss at the points that are looked at: the search of `power_tail_price`, unproved."""
    z, own = _LOSS_GRID, _LOSS_GRID**power
    found = []
    # A power above all floats is a loss above 700, more than answers take; one below all of them is never the greatest.
    with np.errstate(over="ignore", divide="ignore"):
        for lam, a, b in (-t, math.exp(-t), math.exp(-t) * s), (0.0, 1.0, s), (t, math.exp(t), s):
            for above in 1 + (a * z + b) ** power, own + (a + b * z) ** power:
                found.append(exponent * float(np.max(np.log(above / (1 + own)))) - lam)
    return max(found)
