"""Noise for answers whose local sensitivity is bounded smoothly: which distribution, and how wide, for a given ε.

Parameters follow from ε and t alone, both public; the bound S itself is private, and so is the noise's scale.
Proof: docs/proofs/smooth-noise.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache

from flint import arb

from populace.core.errors import UsageError
from populace.privacy.accounting.interval_arithmetic import bounds, round_down, round_up
from populace.privacy.smooth.smooth_distributions import (
    Cauchy,
    LaplaceLogNormal,
    PolyPlace,
    SmoothDistribution,
    Student,
)

# A bound that at most doubles between neighbours is t-smooth with this t, ln 2 rounded up.
LN_2 = round_up(bounds(arb.const_log2)[1])

# How likely an interval's end is passed when widths are compared.
_TAIL_PROBABILITY = 0.05
_SHORT_BITS = 24
_TAIL_BITS = 10
# Shares of the possible tails that are compared at first.
_TAIL_GRID = (0.01, 0.02, 0.04, 0.08, 0.14, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96)
_REFINEMENTS = 14
# Noise wider than S divided by this is as good as none.
_MIN_S = 2.0**-60

# The distributions as the ledger names them.
_FAMILIES: dict[str, type[SmoothDistribution]] = {
    "cauchy": Cauchy,
    "student": Student,
    "polyplace": PolyPlace,
    "laplace-log-normal": LaplaceLogNormal,
}
_NAMES: dict[type[SmoothDistribution], str] = {family: name for name, family in _FAMILIES.items()}
_WORDS: dict[type[SmoothDistribution], str] = {
    Cauchy: "generalised Cauchy",
    Student: "Student",
    PolyPlace: "polynomial-Laplace",
    LaplaceLogNormal: "Laplace-log-normal",
}
# Numbers that a distribution may have: from and to which powers of two, and how many bits long. Tails heavier than
# that would need more random words than are drawn, and so would exponents that spread further.
_PARAMETER_RANGES = {"s": (-64, 64), "t": (-32, 8), "tail": (-6, 12), "sigma": (-32, 4)}
_MAX_BITS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothNoise:
    """Noise (S/s)·X on an answer, where S bounds its local sensitivity and changes by at most e^t to a neighbour.

    >>> noise = SmoothNoise(distribution=Cauchy(Fraction(4)), s=LN_2, t=LN_2)
    >>> round(noise.standard_deviation, 3), round(float(noise.price), 3)  # the price of the bound: 3.659
    (1.443, 2.74)
    """

    distribution: SmoothDistribution
    s: Fraction
    t: Fraction

    def __post_init__(self) -> None:
        # The very types: a distribution that says of itself what it costs could say anything.
        if type(self.distribution) not in _NAMES:
            raise UsageError(
                f"no smooth noise follows {self.distribution!r}.", hint=f"take one of {', '.join(_FAMILIES)}"
            )
        for name, value in (self._tail, ("s", self.s), ("t", self.t)):
            low, high = _PARAMETER_RANGES[name]
            if type(value) is not Fraction or not Fraction(2) ** low <= value <= Fraction(2) ** high:
                raise UsageError(
                    f"the {name} of smooth noise is {value!r}.",
                    hint=f"give a Fraction from 2^{low} to 2^{high}",
                )
            if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
                raise UsageError(f"the {name} of smooth noise is too long.", hint="round it")

    @property
    def _parameter(self) -> tuple[str, Fraction]:
        """The name and the value of what the distribution's tail is made by."""
        (field,) = fields(self.distribution)
        return field.name, getattr(self.distribution, field.name)

    @property
    def _tail(self) -> tuple[str, Fraction]:
        """How heavy the tails are: the power by which they fall, or the spread of an exponent."""
        name, value = self._parameter
        if isinstance(self.distribution, LaplaceLogNormal):
            return "sigma", value
        return "tail", value - 1 if name == "gamma" and type(value) is Fraction else value

    @property
    def pure(self) -> bool:
        """Whether an answer has a price in pure differential privacy."""
        return type(self.distribution) is not LaplaceLogNormal

    def to_json(self) -> dict[str, str]:
        """Return the distribution as it is written in the ledger: nothing of it follows from rows."""
        name, value = self._parameter
        return {
            "law": "smooth",
            "family": _NAMES[type(self.distribution)],
            name: str(value),
            "s": str(self.s),
            "t": str(self.t),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, str], *, number: Callable[[object], Fraction]) -> SmoothNoise:
        """Return the distribution that `to_json` wrote; `number` reads exact numbers."""
        family = _FAMILIES.get(data["family"])
        if family is None:
            raise UsageError(
                f"no smooth noise is called {data['family']!r}.",
                hint="use the version of populace that wrote it",
            )
        (field,) = fields(family)
        return cls(distribution=family(number(data[field.name])), s=number(data["s"]), t=number(data["t"]))

    def __str__(self) -> str:
        name, value = self._parameter
        return (
            f"{_WORDS[type(self.distribution)]} noise ({name} {float(value):.6g}, s {float(self.s):.6g}) "
            f"that follows a bound of smoothness {float(self.t):.6g}"
        )

    @property
    def price(self) -> Fraction:
        """What an answer costs, never too little: ε, or ρ of zCDP for a LaplaceLogNormal."""
        return self.distribution.price(s=self.s, t=self.t)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of the noise, in units of S."""
        return math.sqrt(self.distribution.variance) / float(self.s)

    @property
    def half_width(self) -> float:
        """The half width of a 95 % interval, in units of S."""
        return self.distribution.two_sided_quantile(_TAIL_PROBABILITY) / float(self.s)


def calibrate_family(
    epsilon: Fraction, *, t: Fraction, tailed: Callable[[Fraction], SmoothDistribution] = Cauchy
) -> SmoothNoise:
    """Return the smallest noise that costs at most ε, of the distributions that `tailed` makes of a tail's power γ.

    A variance needs γ > 3, which costs more than 2t: from there on it is the aim, and before that the width of an
    interval. Nothing is possible for ε ≤ t. Proof: docs/proofs/smooth-noise.md.

    >>> noise = calibrate_family(6 * LN_2, t=LN_2)
    >>> round(float(noise.distribution.gamma), 1), round(noise.standard_deviation, 2)
    (3.6, 0.47)
    """
    if not t > 0:
        raise UsageError(f"the smoothness t is {t}.", hint="give a number above 0")
    if not _is_enough(epsilon, t=t):
        raise UsageError(
            f"epsilon {float(epsilon):.6g} is not enough for an answer with a smooth bound: it must be above "
            f"{float(t):.6g}, or the noise cannot hide its own scale.",
            hint="give the answer a greater epsilon, or impute from a model of noisy counts instead, "
            "which costs nothing more",
        )
    return _search_family(epsilon, t, tailed)


def calibrate_smooth_noise(epsilon: Fraction, *, t: Fraction, rho: Fraction | None = None) -> SmoothNoise:
    """Return the smallest noise of all distributions that cost at most ε or, if a ρ of zCDP is granted, at most ρ.

    >>> noise = calibrate_smooth_noise(6 * LN_2, t=LN_2)
    >>> type(noise.distribution).__name__, round(noise.standard_deviation, 2)
    ('Student', 0.39)
    """
    found = []
    if rho is None or _is_enough(epsilon, t=t):
        families = (Cauchy, _student_of_tail, PolyPlace)
        found += [calibrate_family(epsilon, t=t, tailed=tailed) for tailed in families]
    if rho is not None:
        found.append(calibrate_log_normal(rho, t=t))
    return min(found, key=lambda noise: _error(noise, epsilon=epsilon))


def calibrate_log_normal(rho: Fraction, *, t: Fraction) -> SmoothNoise:
    """Return the Laplace-log-normal noise of least variance that costs at most ρ in zCDP.

    With ε = √(2ρ), the best σ solves 5(ε/t)σ³ − 5σ² − 1 = 0, and s = (ε − t/σ)·e^(−3σ²/2).
    """
    if not (rho > 0 and t > 0):
        raise UsageError(f"rho is {rho} and t is {t}.", hint="give numbers above 0")
    ratio = math.sqrt(2 * rho) / float(t)
    low, high = 0.0, max(2.0, 2 / ratio)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if 5 * ratio * middle**3 - 5 * middle**2 < 1 else (low, middle)
    distribution = LaplaceLogNormal(round_up(Fraction(high), bits=_SHORT_BITS))
    return calibrate(distribution, cost=rho, t=t)


def _is_enough(epsilon: Fraction, *, t: Fraction) -> bool:
    # A little more than above: the last digits of ε would buy noise without end.
    return epsilon * (1 - Fraction(1, 2**16)) > t


def _student_of_tail(gamma: Fraction) -> Student:
    return Student(gamma - 1)


@lru_cache(maxsize=1024)
def _search_family(
    epsilon: Fraction, t: Fraction, tailed: Callable[[Fraction], SmoothDistribution]
) -> SmoothNoise:
    """Compare tails by a loss in floating point, then make the winner as narrow as its proven price allows."""
    lightest = 1 + Fraction(2) ** _PARAMETER_RANGES["tail"][1]
    least, most = (3 if _is_enough(epsilon, t=2 * t) else 1), min(1 + epsilon / t, lightest)
    errors: dict[Fraction, float] = {}

    def error(share: float) -> float:
        gamma = tail(share)
        if gamma not in errors:
            distribution = tailed(gamma)
            s = _approximate_s(distribution, cost=float(epsilon), t=float(t))
            errors[gamma] = (
                _error(SmoothNoise(distribution=distribution, s=Fraction(s), t=t), epsilon=epsilon)
                if s
                else math.inf
            )
        return errors[gamma]

    def tail(share: float) -> Fraction:
        found = least + round_down(Fraction(share) * (most - least), bits=_TAIL_BITS)
        return max(found, 1 + Fraction(2) ** _PARAMETER_RANGES["tail"][0])

    place = min(range(len(_TAIL_GRID)), key=lambda place: error(_TAIL_GRID[place]))
    low, high = (0.0, *_TAIL_GRID)[place], (*_TAIL_GRID, 1 - 2.0**-_TAIL_BITS)[place + 1]
    for _ in range(_REFINEMENTS):
        third = (high - low) / 3
        low, high = (low, high - third) if error(low + third) <= error(high - third) else (low + third, high)
    distribution = tailed(min(errors, key=lambda gamma: errors[gamma]))
    return calibrate(distribution, cost=epsilon, t=t)


def _error(noise: SmoothNoise, *, epsilon: Fraction) -> float:
    """Return by what noise is compared: its deviation, or the width of an interval where ε buys no variance."""
    return noise.standard_deviation if _is_enough(epsilon, t=2 * noise.t) else noise.half_width


def calibrate(distribution: SmoothDistribution, *, cost: Fraction, t: Fraction) -> SmoothNoise:
    """Return the noise of one distribution with the greatest s, to about six digits, that is proven to cost no more."""
    s = round_down(Fraction(_approximate_s(distribution, cost=float(cost), t=float(t))), bits=_SHORT_BITS)
    away = Fraction(1, 2**_SHORT_BITS)
    while s > 0 and distribution.price(s=s, t=t) > cost:
        s = round_down(s * (1 - away), bits=_SHORT_BITS)
        away *= 2
    if s <= 0:
        raise UsageError(
            f"no {distribution} costs as little as {float(cost):.6g}.", hint="give the answer more"
        )
    return SmoothNoise(distribution=distribution, s=s, t=t)


def _approximate_s(distribution: SmoothDistribution, *, cost: float, t: float) -> float:
    """Return about the greatest s at which an answer costs no more, or 0."""
    low = 1.0
    while distribution.loss(s=low, t=t) > cost:
        if low < _MIN_S:
            return 0.0
        low /= 2
    # No noise is narrower than S divided by the greatest s that may be booked, whatever is paid.
    while 4 * low <= 2.0 ** _PARAMETER_RANGES["s"][1] and distribution.loss(s=2 * low, t=t) <= cost:
        low *= 2
    step = low
    for _ in range(30):
        step /= 2
        if distribution.loss(s=low + step, t=t) <= cost:
            low += step
    return low
