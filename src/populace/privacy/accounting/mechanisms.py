"""The mechanisms that noise and choices follow, and the record of one use of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from populace.core.errors import UsageError
from populace.privacy.accounting.fixed_point import fixed_point_steps
from populace.privacy.noise.distributions import MAX_SCALE
from populace.privacy.smooth.smooth_noise import SmoothNoise

Verb = Literal["measure", "score", "choose", "discover", "smooth"]
MechanismJson = dict[str, str]
# What a spend is about that tells rows, as the books have it.
WHOLE_ROWS = "whole rows"
_EXACT_NUMBER = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?")


def _check_positive(value: object, *, name: str) -> Fraction:
    """Return an exact positive number; a float is refused because it hides what was meant."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value <= 0:
        raise UsageError(f"{name} is {value!r}.", hint="give a positive Fraction or int")
    return Fraction(value)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Integer noise with P[z] ∝ exp(−z²/2·variance).

    >>> DiscreteGaussian(Fraction(25, 2)).to_json()
    {'law': 'discrete-gaussian', 'variance': '25/2'}
    """

    variance: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _check_positive(self.variance, name="the variance"))

    def to_json(self) -> MechanismJson:
        """Return the mechanism as it is written in the ledger."""
        return {"law": "discrete-gaussian", "variance": str(self.variance)}

    def __str__(self) -> str:
        return f"integer Gaussian noise of variance {float(self.variance):.6g}"


@dataclass(frozen=True, slots=True)
class EpsilonDeltaGaussian(DiscreteGaussian):
    """Integer Gaussian noise among pure questions: all its answers together cost one ε, and a part of δ.

    >>> EpsilonDeltaGaussian(Fraction(25, 2), Fraction("1e-9")).to_json()
    {'law': 'gaussian-within', 'variance': '25/2', 'delta': '1/1000000000'}
    """

    delta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _check_positive(self.variance, name="the variance"))
        object.__setattr__(self, "delta", _check_positive(self.delta, name="the part of delta"))

    def to_json(self) -> MechanismJson:
        """Return the mechanism as it is written in the ledger."""
        return {"law": "gaussian-within", "variance": str(self.variance), "delta": str(self.delta)}


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Integer noise with P[z] ∝ exp(−|z|/scale).

    >>> round(float(DiscreteLaplace(Fraction(10)).variance), 2)
    199.83
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _check_positive(self.scale, name="the scale"))

    @property
    def variance(self) -> Fraction:
        """The variance 2q/(1 − q)², q = exp(−1/scale), to 15 digits; never 0, so that it can be divided by."""
        rate = 1 / float(self.scale)
        return Fraction(max(2 * math.exp(-rate) / math.expm1(-rate) ** 2, 2.0**-64))

    def to_json(self) -> MechanismJson:
        """Return the mechanism as it is written in the ledger."""
        return {"law": "discrete-laplace", "scale": str(self.scale)}

    def __str__(self) -> str:
        return f"integer Laplace noise of scale {float(self.scale):.6g}"


@dataclass(frozen=True, slots=True)
class ExponentialCount:
    """The exponential mechanism over 0 … most: a count x is released as a with P[a] ∝ exp(−|a − x|/scale).

    It is integer Laplace noise given that the sum stays within 0 and `most`. A scale above `most` would hide every
    count there can be, and is refused.

    >>> ExponentialCount(Fraction(2), 3).to_json()
    {'law': 'exponential-count', 'scale': '2', 'most': '3'}
    """

    scale: Fraction
    most: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _check_positive(self.scale, name="the scale"))
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < self.scale:
            raise UsageError(
                f"counts up to {self.most!r} cannot be released with noise of scale {float(self.scale):.6g}.",
                hint="raise epsilon, or let counts go higher",
            )

    @property
    def variance(self) -> Fraction:
        """A bound on the mean square of (a − x), whatever x is: the variance of the noise before it is confined."""
        return DiscreteLaplace(self.scale).variance

    @property
    def bias(self) -> float:
        """A bound on how far the mean of a is from x, whatever x is: at 0 noise can only raise a count."""
        # q/(1 − q), q = exp(−1/scale): in this form no exponential overflows, however sharp the mechanism is.
        rate = 1 / float(self.scale)
        return -math.exp(-rate) / math.expm1(-rate)

    def to_json(self) -> MechanismJson:
        """Return the mechanism as it is written in the ledger."""
        return {"law": "exponential-count", "scale": str(self.scale), "most": str(self.most)}

    def __str__(self) -> str:
        return f"integer Laplace noise of scale {float(self.scale):.6g}, within 0 and {self.most}"


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential mechanism: candidate i is chosen with P[i] ∝ exp(epsilon·score_i / 2·sensitivity).

    >>> Exponential(Fraction(1, 10)).rate(sensitivity=2)
    Fraction(1, 40)
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _check_positive(self.epsilon, name="the epsilon of a choice"))

    def rate(self, *, sensitivity: int) -> Fraction:
        """Return what a score is multiplied with; the 2 is there because scores move both up and down."""
        return self.epsilon / (2 * sensitivity)

    def to_json(self) -> MechanismJson:
        """Return the mechanism as it is written in the ledger."""
        return {"law": "exponential", "epsilon": str(self.epsilon)}

    def __str__(self) -> str:
        return f"exponential choice at epsilon {float(self.epsilon):.6g}"


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Keys that occur are counted with integer noise, and released where the sum exceeds a threshold.

    A key that does not occur is never released, so the keys themselves may be private: what they are, and how many.

    >>> PartitionSelection(DiscreteGaussian(Fraction(9)), 20).to_json()
    {'law': 'stability', 'variance': '9', 'threshold': '20'}
    """

    noise: DiscreteGaussian | DiscreteLaplace
    threshold: int

    def __post_init__(self) -> None:
        # No subclass either: the part of δ that GaussianWithin names would never be charged.
        if type(self.noise) not in (DiscreteGaussian, DiscreteLaplace):
            raise UsageError(
                f"keys cannot be released with {self.noise}.", hint="give Gaussian or Laplace noise"
            )
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int) or self.threshold < 1:
            raise UsageError(f"the threshold is {self.threshold!r}.", hint="give a whole number of 1 or more")

    def to_json(self) -> MechanismJson:
        """Return the mechanism as it is written in the ledger."""
        scale = {key: text for key, text in self.noise.to_json().items() if key != "law"}
        return {"law": "stability", **scale, "threshold": str(self.threshold)}

    @property
    def variance(self) -> Fraction:
        """The variance of the noise."""
        return self.noise.variance

    def __str__(self) -> str:
        # Statements of the third format have these words, and readers compare them.
        return f"{self.noise}, told above {self.threshold}"


Noise = DiscreteGaussian | DiscreteLaplace


def is_drawable(noise: Noise) -> bool:
    """Say whether noise is narrow enough to be drawn exactly.

    >>> is_drawable(DiscreteLaplace(Fraction(2**20))), is_drawable(DiscreteLaplace(Fraction(2**50)))
    (True, False)
    """
    if isinstance(noise, DiscreteLaplace):
        return noise.scale <= MAX_SCALE
    return noise.variance <= MAX_SCALE**2


Mechanism = (
    DiscreteGaussian | DiscreteLaplace | ExponentialCount | Exponential | PartitionSelection | SmoothNoise
)
# The mechanisms that go with one verb alone, and the verb.
_VERB_OF: dict[type[Mechanism], Verb] = {
    Exponential: "choose",
    PartitionSelection: "discover",
    ExponentialCount: "measure",
    SmoothNoise: "smooth",
}


def fraction_from_json(text: object) -> Fraction:
    """Return a number written as "p/q" or "p"; other spellings, such as 1e999999999, are refused.

    >>> fraction_from_json("25/2")
    Fraction(25, 2)
    """
    if not isinstance(text, str) or not _EXACT_NUMBER.fullmatch(text):
        raise ValueError("not an exact number")
    return Fraction(text)


def mechanism_from_json(data: Mapping[str, str]) -> Mechanism:
    """Return the mechanism that `to_json` wrote; a field that it does not have is refused.

    >>> mechanism_from_json({"law": "discrete-laplace", "scale": "7/3"})
    DiscreteLaplace(scale=Fraction(7, 3))
    """
    mechanism = _parse_mechanism(data)
    if unknown := sorted(set(data) - set(mechanism.to_json())):
        raise UsageError(
            f"the mechanism {data['law']!r} has no {unknown[0]!r}.",
            hint="use the version of populace that wrote it; an unknown field may be a spend",
        )
    return mechanism


def _parse_mechanism(data: Mapping[str, str]) -> Mechanism:
    def number(field: str) -> Fraction:
        return fraction_from_json(data[field])

    match data["law"]:
        case "discrete-gaussian":
            return DiscreteGaussian(number("variance"))
        case "gaussian-within":
            return EpsilonDeltaGaussian(number("variance"), number("delta"))
        case "discrete-laplace":
            return DiscreteLaplace(number("scale"))
        case "exponential":
            return Exponential(number("epsilon"))
        case "stability":
            # Only one of the two is there; written both ways, noise would have two prices.
            if ("scale" in data) is ("variance" in data):
                raise ValueError("not one distribution of noise")
            laplace = "scale" in data
            noise = DiscreteLaplace(number("scale")) if laplace else DiscreteGaussian(number("variance"))
            return PartitionSelection(noise, _parse_int(data["threshold"]))
        case "exponential-count":
            return ExponentialCount(number("scale"), _parse_int(data["most"]))
        case "smooth":
            return SmoothNoise.from_json(data, number=fraction_from_json)
    raise UsageError(
        f"no mechanism is called {data['law']!r}.", hint="use the version of populace that wrote it"
    )


def _parse_int(text: object) -> int:
    number = fraction_from_json(text)
    if number.denominator != 1:
        raise ValueError("not a whole number")
    return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """One question as it is charged: what is asked, under which mechanism, and how far one unit moves the answers.

    There are `answers` independent answers. Between neighbours each moves by at most `l1` in L1 and by at
    most the square root of `l2_squared` in L2. For a choice, `l1` is how far any one score can move; for an answer with
    smooth noise, which moves as far as a private bound says, it is how many rows neighbours differ by.
    """

    verb: Verb
    what: str
    mechanism: Mechanism
    answers: int
    l1: int
    l2_squared: int

    def __post_init__(self) -> None:
        if self.verb not in get_args(Verb):
            raise UsageError(
                f"the barrier has no verb {self.verb!r}.", hint=f"one of {', '.join(get_args(Verb))}"
            )
        only = next(
            (verb for mechanism, verb in _VERB_OF.items() if isinstance(self.mechanism, mechanism)), None
        )
        alone = self.verb in ("choose", "smooth") and only != self.verb
        if alone or only not in (None, self.verb):
            raise UsageError(
                f"{self.verb!r} does not go with {self.mechanism}.",
                hint="choose with Exponential, discover values with PartitionSelection, measure counts within a range "
                "with ExponentialCount, follow a smooth bound with SmoothNoise, and the rest with noise",
            )
        for name, number in (("answers", self.answers), ("l1", self.l1), ("l2_squared", self.l2_squared)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise UsageError(f"{name} is {number!r} in a spend.", hint="give a whole number of 1 or more")
        if self.l2_squared > self.l1**2:
            raise UsageError(
                f"a spend moves {self.l2_squared} in squared L2 but only {self.l1} in L1.",
                hint="the L2 distance is never above the L1 distance",
            )

    @property
    def steps(self) -> int:
        """In how many steps the answers tell what one row adds, by what is asked: it moves them by that many."""
        return fixed_point_steps(self.verb, self.what)

    def __str__(self) -> str:
        return f"{self.verb} {self.what} with {self.mechanism}"
