"""The privacy loss distribution of integer Gaussian noise: the exact (ε, δ) curve of a plan fixed in advance.

A person moves one cell of a marginal by one, or two cells where one person replaces another. So an answer with noise
of variance σ² has privacy losses L = (2Z + 1)/2σ², Z the noise, once or twice; the losses of all answers add up, and
δ(ε) = E[(1 − e^(ε − L))⁺]. This holds for questions that do not depend on answers.
Proof: docs/proofs/privacy-loss-distribution.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from populace.core.array_types import Floats
from populace.privacy.accounting.gaussian_dp import gaussian_cap, gaussian_delta
from populace.privacy.accounting.interval_arithmetic import round_up
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Spend

# Losses lie on a grid of at most this step, and less where all noise is wide. Moving a loss to the grid keeps its mass
# under both neighbours, so it can only raise δ, by less than a rise of ε by 1e-4.
_MAX_STEP = 2.0**-10
_MAX_GRID = 2**22
# Noise beyond so many standard deviations counts as a loss without bound. Its probability is at most that of the tail.
_MAX_DEVIATIONS = 14.0
_TAIL = math.exp(-(_MAX_DEVIATIONS**2) / 2)
# What rounding in floating point can add to δ, in proportion, with much to spare: see the proof.
_ROUNDING = 1e-7
_EPSILON_BITS = 24
# Σ1/σ² up to which the sum of losses fits the grid with all its tails; beyond, ε is above 500 at any δ.
_MAX_TOTAL = 2**10
# Noise is calibrated up to this Σ1/σ²: beyond, ε is above 60, and each step of the search takes seconds.
_MAX_CALIBRATED_TOTAL = 2**6
# Beyond these the distribution is not computed: no record, whoever wrote it, may ask for more than a moment.
_MAX_CELLS = 2**16
_MAX_DISTRIBUTIONS = 2**8
_MAX_VARIANCE = 2**32
# Whoever reads a record computes δ anew, and machines differ in its last digits: ε has so much to spare, in proportion.
EPSILON_SLACK = Fraction(1, 10**6)
# A calibrated plan uses all of δ but so much, in proportion.
_UNUSED_DELTA = 1e-4
_MAX_SEARCH_STEPS = 64
_VARIANCE_BITS = 32


@dataclass(frozen=True, slots=True)
class LossDistribution:
    """How likely each total loss is, tilted by exp(tilt·loss) so that the tail at hand is computed to full precision.

    Losses are on the grid, from the point `first` on. `log_weight` is the logarithm of what undoes the tilt, and
    `unbounded` the probability of losses off the grid.
    """

    step: float
    first: int
    probabilities: Floats
    tilt: float
    log_weight: float
    unbounded: float

    def delta(self, epsilon: float) -> float:
        """Return δ at an ε, rounded up."""
        begin = min(max(math.floor(epsilon / self.step) + 1 - self.first, 0), len(self.probabilities))
        beyond = np.arange(self.first + begin, self.first + len(self.probabilities)) * self.step - epsilon
        terms = np.exp(-self.tilt * beyond) * -np.expm1(-beyond) * self.probabilities[begin:]
        scale = math.exp(min(self.log_weight - self.tilt * epsilon, 700.0))
        return float(terms.sum()) * scale * (1 + _ROUNDING) + self.unbounded


def gaussian_variances(spends: Iterable[Spend]) -> tuple[Fraction, ...] | None:
    """Return the noise variance of every cell that a person moves by one, or None where that is not all that happens.

    >>> spend = Spend(
    ...     verb="measure", what="sex", mechanism=DiscreteGaussian(Fraction(9)), answers=2, l1=2, l2_squared=2
    ... )
    >>> gaussian_variances([spend])
    (Fraction(9, 1), Fraction(9, 1), Fraction(9, 1), Fraction(9, 1))
    """
    found: Counter[Fraction] = Counter()
    for spend in spends:
        # One cell by one, or two cells by one each. A subclass of the noise has a price of its own.
        counted = spend.verb == "measure" and spend.l1 == spend.l2_squared <= 2
        if not counted or type(spend.mechanism) is not DiscreteGaussian:
            return None
        found[spend.mechanism.variance] += spend.answers * spend.l1
    return tuple(found.elements()) if _can_compose(found) else None


def _can_compose(cells: Counter[Fraction]) -> bool:
    """Say whether the distribution of so many cells of each variance is computed in a moment."""
    if not 0 < cells.total() <= _MAX_CELLS or len(cells) > _MAX_DISTRIBUTIONS or max(cells) > _MAX_VARIANCE:
        return False
    fits = all(count <= variance * _MAX_TOTAL for variance, count in cells.items())
    return fits and _sum_inverses(cells.elements()) <= _MAX_TOTAL


@lru_cache(maxsize=64)
def calibrate_variances(
    shares: tuple[Fraction, ...], *, cells: int, epsilon: Fraction, delta: Fraction
) -> tuple[Fraction, ...] | None:
    """Return the least noise variances with which questions fixed in advance are (ε, δ)-private together.

    Each is in inverse proportion to its question's share, and a person moves `cells` cells of each answer by one. None
    where the distribution is not computed. The search starts at the variances of continuous noise; what it returns is
    within δ by the distribution itself, and uses all of it but a ten-thousandth.

    >>> [variance] = calibrate_variances((Fraction(1),), cells=1, epsilon=Fraction(1), delta=Fraction("1e-6"))
    >>> round(float(variance), 2), round(float(composed_epsilon([variance], delta=Fraction("1e-6"))), 4)
    (17.9, 1.0)
    """
    target = epsilon / (1 + EPSILON_SLACK)
    total = gaussian_cap(target, delta)
    if len(shares) * cells * _TAIL > delta / 2 or total > _MAX_CALIBRATED_TOTAL:
        return None
    wanted = math.log(delta) - _UNUSED_DELTA / 2
    # How fast log δ falls where log σ² grows, for continuous noise.
    nearby = gaussian_delta(total * Fraction(999, 1000), epsilon=target)
    slope = max((math.log(delta) - math.log(nearby)) / 1e-3, 1e-3)
    scale, low, high, kept = float(cells / total), 0.0, math.inf, None
    for _ in range(_MAX_SEARCH_STEPS):
        variances = tuple(round_up(Fraction(scale) / share, bits=_VARIANCE_BITS) for share in shares)
        composed = Counter(variances * cells)
        if not _can_compose(composed):
            return None
        found = composed_delta(composed.elements(), epsilon=target)
        if found <= delta:
            high, kept = scale, variances
        else:
            low = scale
        if delta * (1 - Fraction(_UNUSED_DELTA)) <= found <= delta or high <= low * (1 + 1e-9):
            break
        before, scale = scale, scale * math.exp((math.log(max(found, 1e-320)) - wanted) / slope)
        if not low < scale < high:
            scale = (low + high) / 2 if high < math.inf else before * 2
    return kept


def composed_delta(variances: Iterable[Fraction], *, epsilon: Fraction) -> float:
    """Return the δ at which integers that move by one, with integer Gaussian noise, are (ε, δ)-private; rounded up.

    >>> round(composed_delta([Fraction(1)], epsilon=Fraction(1)), 4)
    0.1414
    """
    return _find_delta(tuple(sorted(variances)), epsilon)


# A run, its statement and its readers ask about the same noise.
@lru_cache(maxsize=32)
def _find_delta(variances: tuple[Fraction, ...], epsilon: Fraction) -> float:
    tilt = _best_tilt(_sum_inverses(variances), float(epsilon))
    return _distribution(variances, tilt).delta(float(epsilon))


def composed_epsilon(variances: Iterable[Fraction], *, delta: Fraction) -> Fraction:
    """Return the least ε, to seven digits, at which such integers are (ε, δ)-private; rounded up.

    >>> round(float(composed_epsilon([Fraction(1)] * 4, delta=Fraction("1e-6"))), 3)
    10.94
    """
    return _find_epsilon(tuple(sorted(variances)), delta)


@lru_cache(maxsize=32)
def _find_epsilon(variances: tuple[Fraction, ...], delta: Fraction) -> Fraction:
    total = _sum_inverses(variances)
    # Continuous noise has nearly the same ε, and tells where to look.
    low, high = 0.0, total / 2 + 40 * math.sqrt(total) + 1
    while high - low > 1e-3 * max(high, 1e-3):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_tail(total, middle) > delta else (low, middle)
    distribution = _distribution(variances, _best_tilt(total, high))
    low, high = 0.0, 2 * high + 1
    while high - low > 1e-9 * max(high, 1e-3):
        middle = (low + high) / 2
        low, high = (middle, high) if distribution.delta(middle) > delta else (low, middle)
    return round_up(Fraction(high), bits=_EPSILON_BITS)


def _gaussian_tail(total: float, epsilon: float) -> float:
    """Return P[L > ε] for continuous Gaussian noise with this sum of 1/σ²: a little more than δ."""
    root = math.sqrt(total)
    return 0.5 * math.erfc((epsilon / root - root / 2) / math.sqrt(2))


def _sum_inverses(variances: Iterable[Fraction]) -> float:
    """Return Σ1/σ²."""
    return sum((1 / float(variance) for variance in variances), 0.0)


def _best_tilt(total: float, epsilon: float) -> float:
    """Return the tilt under which the mean loss is about ε, as (2·tilt + 1)·Σ1/2σ² is for Gaussian noise.

    It is never near 0, where rounding errors of all losses would count alike.
    """
    return max(epsilon / total - 0.5, min(1.0, 1 / math.sqrt(total)))


# Four of the largest grids take 128 MiB.
@lru_cache(maxsize=4)
def _distribution(variances: tuple[Fraction, ...], tilt: float) -> LossDistribution:
    """Return the distribution of the sum of losses, by Fourier transforms on the grid."""
    step = _choose_step(variances)
    parts = {variance: _single_losses(float(variance), tilt, step) for variance in set(variances)}
    times = Counter(variances)
    first = sum(times[variance] * part.first for variance, part in parts.items())
    length = sum(times[variance] * (len(part.masses) - 1) for variance, part in parts.items()) + 1
    size = 1 << min(length - 1, _MAX_GRID - 1).bit_length()
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for variance, part in parts.items():
        wrapped = np.bincount(np.arange(len(part.masses)) % size, weights=part.masses, minlength=size)
        product *= np.fft.rfft(wrapped) ** times[variance]
    masses = np.maximum(np.fft.irfft(product, size), 0.0)
    mean = sum(times[v] * float(part.masses @ np.arange(len(part.masses))) for v, part in parts.items())
    # A sum that is longer than the grid is wrapped around it: it is read where its mean is in the middle.
    start = 0 if length <= size else round(mean) - size // 2
    masses = np.roll(masses, -(start % size))
    return LossDistribution(
        step=step,
        first=first + start,
        probabilities=masses,
        tilt=tilt,
        log_weight=sum(times[v] * part.log_weight for v, part in parts.items()),
        unbounded=sum(times[v] * part.unbounded for v, part in parts.items()),
    )


def _choose_step(variances: tuple[Fraction, ...]) -> float:
    """Return the step of the grid: a power of 2, as fine as costs little.

    Sums of few losses have corners, and keep to a grid of 2¹⁸ points; for sums of many, about a thousand points to a
    standard deviation are enough.
    """
    span = sum(2 * _MAX_DEVIATIONS / math.sqrt(variance) + 4 / float(variance) for variance in variances)
    fine = math.floor(math.log2(span / 2**18))
    smooth = math.floor(math.log2(_sum_inverses(variances)) / 2) - 10
    return float(2.0 ** min(fine, smooth, math.log2(_MAX_STEP)))


@dataclass(frozen=True, slots=True)
class _SingleLosses:
    """The tilted losses of one answer on the grid, from the grid point `first` on."""

    first: int
    masses: Floats
    log_weight: float
    unbounded: float


def _single_losses(variance: float, tilt: float, step: float) -> _SingleLosses:
    """Return the losses (2z + 1)/2σ² of noise z, each split between its two grid points.

    The split keeps the mass under both neighbours: w = a + b and w·e^(−L) = a·e^(−l) + b·e^(−l−h), so a function of
    the likelihood ratio that is convex, as that in δ is, can only grow.
    """
    deviation = math.sqrt(variance)
    lowest = math.floor(min(tilt, 0.0) - _MAX_DEVIATIONS * deviation) - 1
    highest = math.ceil(tilt + _MAX_DEVIATIONS * deviation) + 1
    noise = np.arange(lowest, highest + 1, dtype=np.float64)
    logs = -(noise**2) / (2 * variance)
    logs -= math.log(_theta(variance))
    losses = (2 * noise + 1) / (2 * variance)
    below = np.floor(losses / step)
    gap = losses - below * step
    upper = np.expm1(-gap) / math.expm1(-step)
    # The lower tail that is left out is put where losses begin, which raises them.
    weights = np.exp(logs + tilt * losses)
    weights[0] += _TAIL
    first = int(below[0])
    places = (below - first).astype(np.int64)
    masses = np.zeros(int(places[-1]) + 2)
    # The tilt of a part is that of the grid point it goes to.
    np.add.at(masses, places, weights * (1 - upper) * np.exp(-tilt * gap))
    np.add.at(masses, places + 1, weights * upper * np.exp(tilt * (step - gap)))
    total = float(masses.sum())
    return _SingleLosses(
        first=first,
        masses=masses / total,
        log_weight=math.log(total),
        unbounded=_TAIL,
    )


def _theta(variance: float) -> float:
    """Return Σ exp(−k²/2σ²) over all whole numbers k."""
    if variance > 1:
        return math.sqrt(2 * math.pi * variance) * (1 + 2 * math.exp(-2 * math.pi**2 * variance))
    beyond = np.arange(1, math.ceil(40 * math.sqrt(variance)) + 2)
    return 1 + 2 * float(np.exp(-(beyond**2) / (2 * variance)).sum())
