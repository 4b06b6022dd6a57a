"""Intervals that hold sampling error, imputation error and privacy noise together.

The sampling variance is itself an estimate: it rests on few clusters, measured with noise. Given its noisy value,
what it may be is drawn from its own distribution (variances are positive, so values that noise alone explains are cut
off), an error is drawn for each, and noise of the published kinds is added. The interval is the middle 95 % of such
errors. Draws are evenly spread over each distribution and put together in a fixed order, so the same answers
always give the same interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from populace.core.array_types import Floats, Ints
from populace.privacy.accounting.mechanisms import DiscreteLaplace, Noise

LEVEL = 0.95
DRAWS = 1 << 12
# Laplace terms beyond these enter by their variance alone: many small ones add up to a Gaussian.
MAX_LAPLACE_TERMS = 6
# With fewer draws than these left, the noise says nothing about a variance but its size.
MIN_DRAWS = 1 << 7
# Points of the density of a variance between units, on a log scale.
GRID_POINTS = 1 << 11
# Noise of less than this part of a variance is told with it; where it is more, the variance is what it may be.
MAX_CLEAR_NOISE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseTerms:
    """A sum of independent noise: the variance of what is Gaussian, and the scales of what is Laplace.

    >>> from fractions import Fraction
    >>> from populace.privacy.accounting.mechanisms import DiscreteGaussian
    >>> total = NoiseTerms.of(DiscreteGaussian(Fraction(9)), weights=[2.0]) + NoiseTerms(gaussian=13.0)
    >>> total.deviation
    7.0
    """

    gaussian: float = 0.0
    laplace: tuple[float, ...] = ()

    @classmethod
    def of(cls, mechanism: Noise, *, weights: npt.ArrayLike) -> NoiseTerms:
        """Return the noise of a weighted sum of answers that all have noise of one distribution."""
        sizes = np.abs(np.asarray(weights, dtype=np.float64).ravel())
        if isinstance(mechanism, DiscreteLaplace) and mechanism.scale > 1:
            # From here on the steps of integer noise are too fine to see.
            return cls(laplace=tuple((sizes[sizes > 0] * float(mechanism.scale)).tolist()))
        return cls(gaussian=float((sizes**2).sum()) * float(mechanism.variance))

    @property
    def variance(self) -> float:
        """The variance of the sum."""
        return self.gaussian + 2 * sum(scale**2 for scale in self.laplace)

    @property
    def deviation(self) -> float:
        """The standard deviation of the sum."""
        return math.sqrt(self.variance)

    def __add__(self, other: NoiseTerms) -> NoiseTerms:
        return NoiseTerms(gaussian=self.gaussian + other.gaussian, laplace=self.laplace + other.laplace)

    @property
    def normal_variance(self) -> float:
        """The variance of what is Gaussian, and of the many small terms that add up to it."""
        return self.gaussian + 2 * sum(scale**2 for scale in self._scales[MAX_LAPLACE_TERMS:])

    @property
    def _scales(self) -> list[float]:
        return sorted(self.laplace, reverse=True)

    def add_laplace(self, start: Floats, *, first: int) -> Floats:
        """Add draws of the largest Laplace terms; `first` numbers the orders in which they are put together."""
        for number, scale in enumerate(self._scales[:MAX_LAPLACE_TERMS], start=first):
            start = start + scale * _laplace_draws(number)
        return start

    def draws(self, *, first: int) -> Floats:
        """Return evenly spread draws of the sum."""
        return self.add_laplace(math.sqrt(self.normal_variance) * _normal_draws(first), first=first + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingVariance:
    """A sampling variance as it was found: `value` holds `bias` on average beside the variance, and `noise`.

    The bias of a spread between units is above 0; that of squares less the square of a noisy mean lies below.
    The value less the noise, over its mean, is χ² with `degrees`, over them.
    `bias_degrees` are given where the value is a spread between units, so that the bias is the mean of what their noise
    adds: from how many units it comes, were all alike. `most` is then the largest that the variance can be, as far as a
    design declares it, and `expected` the median and the deviation of its logarithm, as design effects of surveys have
    it: where noise hides the variance, it is taken to be of that size.
    """

    value: float
    degrees: float
    bias: float = 0.0
    noise: NoiseTerms = field(default_factory=NoiseTerms)
    bias_degrees: float | None = None
    most: Floats | None = None
    expected: tuple[float, float] | None = None

    @property
    def variance(self) -> float:
        """The variance as a standard error tells it: as it was found, or what it may be where noise matters."""
        found = self.value - self.bias
        clear = abs(self.bias) + self.noise.deviation <= MAX_CLEAR_NOISE * found
        return found if clear and found > 0 else float(np.median(self.draws()))

    @property
    def hidden(self) -> bool:
        """Whether noise alone could make as much of a variance."""
        unsure = math.hypot(
            self.noise.deviation, self.bias * math.sqrt(2 / (self.bias_degrees or self.degrees))
        )
        return self.value - self.bias <= 2 * unsure

    def times(self, factor: float) -> SamplingVariance:
        """Return a variance that is larger by a factor, with all that is known of it.

        >>> SamplingVariance(value=2.0, degrees=9, noise=NoiseTerms(gaussian=1.0)).times(3.0).noise.gaussian
        9.0
        """
        return replace(
            self,
            value=self.value * factor,
            bias=self.bias * factor,
            noise=NoiseTerms(
                gaussian=self.noise.gaussian * factor**2,
                laplace=tuple(scale * factor for scale in self.noise.laplace),
            ),
            most=None if self.most is None else self.most * factor,
            expected=None if self.expected is None else (self.expected[0] * factor, self.expected[1]),
        )

    def draws(self) -> Floats:
        """Return what the variance may be, given what was found."""
        if self.bias_degrees is not None and self.bias > 0:
            return self._between_units(self.bias_degrees)
        drawn = self.value - self.noise.draws(first=20)
        # Three digits of the degrees: more are nowhere to be seen.
        found = drawn * self.degrees / _chi_draws(float(f"{max(self.degrees, 1.0):.3g}"))
        kept = found[found > self.bias] - self.bias
        if kept.size < MIN_DRAWS:
            # Of a variance this far below its noise nothing is known but that noise can hide it.
            return np.abs(self.noise.draws(first=20)) + abs(self.bias) * math.sqrt(2 / self.degrees)
        # As many as there were, so that they meet other draws one by one.
        return np.resize(kept, DRAWS)[permute_draws(40)]

    def _between_units(self, bias_degrees: float) -> Floats:
        """Return what a variance V between units may be, whose value is (V + bias)·χ² over its degrees.

        The prior V/(V + bias)² is the usual 1/V where noise is small, and puts little weight on a variance that noise
        would hide: with 1/(V + bias) intervals are too short where V is about as large as the bias. With it they hold
        the truth about 95 % of the time, whatever V, and more often where noise hides it. Where a size is expected, the
        prior is log-normal around it to the power bias/(V + bias): it speaks where noise does not let the answers
        speak, and is 1/V where they do. See docs/decisions/survey-errors.md.
        """
        value = max(self.value, self.bias / 100)
        # The fewer the degrees, the heavier the tail.
        middle = math.log(max(value, self.bias))
        end = middle + 6 + 18 / self.degrees
        if self.most is not None:
            end = min(end, math.log(max(float(self.most.max()), 1e-6 * self.bias)))
        start = min(middle, end) - 14
        if self.expected is not None:
            start = min(start, math.log(self.expected[0]) - 5 * self.expected[1])
        grid = np.linspace(start, end, GRID_POINTS)
        variance = np.exp(grid)
        whole = variance + self.bias
        # Deviations of both parts added up: they may come from the same few strata.
        half = (
            whole / (variance / math.sqrt(self.degrees) + self.bias / math.sqrt(max(bias_degrees, 1.0)))
        ) ** 2 / 2
        weight = half * (np.log(half * value / whole) - value / whole) - special.gammaln(half)
        if self.expected is None:
            weight += 2 * (grid - np.log(whole))
        else:
            median, deviation = self.expected
            weight -= ((grid - math.log(median)) / deviation) ** 2 / 2 * self.bias / whole
        share = np.exp(weight - weight.max())
        if self.most is not None:
            share *= 1 - np.searchsorted(np.sort(self.most), variance * (1 - 1e-9)) / len(self.most)
        middles = np.cumsum(share) - share / 2
        return np.exp(np.interp(_midpoints(), middles / share.sum(), grid))[permute_draws(40)]


def errors_in_margin(degrees: float) -> float:
    """Return how many standard errors of so many degrees of freedom an interval reaches to both sides.

    >>> round(errors_in_margin(5), 2)
    2.57
    """
    return float(special.stdtrit(degrees, (1 + LEVEL) / 2))


def half_width(
    spread: SamplingVariance | None,
    *,
    noise: NoiseTerms,
    other: Floats | None = None,
    level: float = LEVEL,
) -> float:
    """Return the margin of error: how far the truth is from an estimate at most, in 95 % of all cases.

    `other` are draws of noise of another distribution, and `level` is a part of the cases other than 95 %. Without a
    spread there is no sampling error.

    >>> few = SamplingVariance(value=1.0, degrees=5)
    >>> [round(half_width(each, noise=NoiseTerms()), 2) for each in (few, SamplingVariance(value=1.0, degrees=1e6))]
    [2.57, 1.96]
    >>> round(half_width(None, noise=NoiseTerms(laplace=(1.0,))), 1)
    3.0
    """
    shift = noise.add_laplace(np.zeros(1) if other is None else other, first=1)
    variance = noise.normal_variance + (np.zeros(1) if spread is None else spread.draws())
    deviation = np.sqrt(variance)
    return (
        _solve_half_width(shift, deviation, level=level)
        if deviation.any()
        else float(np.quantile(np.abs(shift), level))
    )


def _solve_half_width(shift: Floats, deviation: Floats, *, level: float) -> float:
    """Return the q for which |shift + deviation·Z| ≤ q in a part of all cases, Z standard normal."""
    deviation = np.maximum(deviation, deviation.max() * 1e-9)
    far = float(np.abs(shift).max() + deviation.max() * special.ndtri((1 + level) / 2))
    low, high = 0.0, far
    found = min(1.96 * math.sqrt(float((shift**2).mean() + (deviation**2).mean())), far)
    for _ in range(60):
        above, below = (found - shift) / deviation, (found + shift) / deviation
        missed = float((special.ndtr(above) - special.ndtr(-below)).mean()) - level
        low, high = (found, high) if missed < 0 else (low, found)
        density = (np.exp(-(above**2) / 2) + np.exp(-(below**2) / 2)) / deviation
        slope = float(density.mean()) / math.sqrt(2 * math.pi)
        step = found - missed / slope if slope > 0 else math.inf
        step = step if low < step < high else (low + high) / 2
        if abs(step - found) <= 1e-9 * far:
            break
        found = step
    return found


@lru_cache(maxsize=64)
def permute_draws(number: int) -> Ints:
    """Return one of the orders in which draws are put together."""
    return np.random.default_rng([2026, number]).permutation(DRAWS)


@lru_cache(maxsize=64)
def _normal_draws(number: int) -> Floats:
    return _freeze(special.ndtri(_midpoints())[permute_draws(number)])


@lru_cache(maxsize=64)
def _laplace_draws(number: int) -> Floats:
    even = _midpoints()
    return _freeze((np.sign(even - 0.5) * -np.log1p(-2 * np.abs(even - 0.5)))[permute_draws(number)])


@lru_cache(maxsize=256)
def _chi_draws(degrees: float) -> Floats:
    return _freeze(special.gammaincinv(degrees / 2, _midpoints())[permute_draws(30)] * 2)


def _midpoints() -> Floats:
    return (np.arange(DRAWS) + 0.5) / DRAWS


def _freeze(values: Floats) -> Floats:
    values.setflags(write=False)
    return values
