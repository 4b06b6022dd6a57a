"""What neighbours lose by what met the noise, and whether noise was drawn as it was booked, from first principles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp
from scipy.stats import chi2, norm

from populace.privacy.accounting.mechanisms import DiscreteGaussian, ExponentialCount
from tests.audit.replay import NoisyAnswer


class Leak(AssertionError):
    """A run tells neighbours apart by more than it promises."""


class Waste(AssertionError):
    """A run adds more noise than its promise asks for."""


def lost(
    tapes: Sequence[Sequence[NoisyAnswer]], pairs: Iterable[tuple[int, int]], *, pure: bool
) -> np.ndarray:
    """Return, for each pair of tables, Σμ² of all that met noise in one transcript, or Σε where δ is 0.

    Integer Gaussian noise: docs/proofs/discrete-gaussian-gdp.md, cells and marginals by squares. A choice: all
    logarithms of the ratios of its probabilities lie in a range of some width, docs/proofs/exponential-gdp.md.
    """
    one, other = np.array(list(pairs)).T
    total = np.zeros(len(one))
    for meetings in zip(*tapes, strict=True):
        mechanism = meetings[0].mechanism
        exact = np.array([meeting.exact.ravel() for meeting in meetings], dtype=np.float64)
        if isinstance(mechanism, Fraction):
            weights = float(mechanism) * exact
            logs = weights - logsumexp(weights, axis=1, keepdims=True)
            ratios = logs[one] - logs[other]
            if pure:
                total += np.abs(ratios).max(axis=1)
            else:
                total += (2 * norm.isf(1 / (1 + np.exp((ratios.max(axis=1) - ratios.min(axis=1)) / 2)))) ** 2
            continue
        if isinstance(mechanism, ExponentialCount):
            rises, falls = spans(exact, mechanism)
            # Log-ratios of cells add; the greatest one is reached when every cell gives its greatest.
            up = rises[exact[one].astype(int), exact[other].astype(int)].sum(axis=1)
            down = falls[exact[one].astype(int), exact[other].astype(int)].sum(axis=1)
            total += np.maximum(up, down) if pure else np.inf
            continue
        moved = np.abs(exact[one] - exact[other])
        if isinstance(mechanism, DiscreteGaussian):
            total += np.inf if pure else mu_squared(mechanism) * (moved**2).sum(axis=1)
        else:
            each = moved.sum(axis=1) / float(mechanism.scale)
            total += each if pure else (2 * norm.isf(1 / (1 + np.exp(each)))) ** 2
    return total


def spans(exact: np.ndarray, mechanism: ExponentialCount) -> tuple[np.ndarray, np.ndarray]:
    """Return how far ln P[a | x] − ln P[a | y] rises above 0 and falls below it over all a, for all pairs x, y."""
    counts, answers = np.arange(int(exact.max()) + 1), np.arange(mechanism.most + 1)
    weights = -np.abs(answers - counts[:, None]) / float(mechanism.scale)
    logs = weights - logsumexp(weights, axis=1, keepdims=True)
    ratios = logs[:, None] - logs[None]
    return ratios.max(axis=2), -ratios.min(axis=2)


def mu_squared(mechanism: DiscreteGaussian) -> float:
    """Return μ′² of integer Gaussian noise on a count that moves by one: μ′ = 2Φ⁻¹((1 + P[Z = 0]) / 2)."""
    reach = np.arange(1, 60 + int(60 * float(mechanism.variance) ** 0.5))
    beside = 2 * np.exp(-(reach**2) / (2 * float(mechanism.variance))).sum()
    return float(2 * norm.isf(beside / (1 + beside) / 2)) ** 2


def gaussian_delta(mu: float, *, epsilon: float) -> float:
    """Return Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def allowed(*, epsilon: float, delta: float) -> float:
    """Return the greatest Σμ² (or Σε where δ is 0) that keeps (ε, δ), found without the code that is tested."""
    if not delta:
        return epsilon
    return float(brentq(lambda mu: gaussian_delta(mu, epsilon=epsilon) - delta, 1e-3, 1e3, xtol=1e-13)) ** 2


def check_noise(steps: Iterable[Any], *, verbs: Iterable[str]) -> None:
    """Compare what was drawn in many runs with the laws in the ledger, for each verb by itself.

    For noise: the sum of squares over variances, which follows a chi-square law where variances are 1/2 or more. For
    choices: the sum of the scores chosen less their means, over its deviation, which is nearly normal. Each side of
    each verb raises a false alarm with probability 1e-9.
    """
    by_verb: dict[str, list[Any]] = {verb: [] for verb in verbs}
    for step in steps:
        if step.verb in by_verb and step.booked:
            by_verb[step.verb].append(step)
    for verb, asked in by_verb.items():
        little, much = _tails_of_choices(asked) if verb in ("choose", "find_far") else _tails_of_noise(asked)
        if little < 1e-9:
            raise Leak(f"{verb} draws less noise than the ledger says.")
        if much < 1e-9:
            raise Waste(f"{verb} draws more noise than the ledger says.")


def _tails_of_noise(steps: Iterable[Any]) -> tuple[float, float]:
    squares, count = 0.0, 0
    for step in steps:
        variance = float(step.booked.mechanism.variance)
        assert variance > 0.5
        for meeting in step.meetings:
            squares += float(((meeting.answer - meeting.exact) ** 2).sum() / variance)
            count += meeting.exact.size
    return float(chi2.cdf(squares, count)), float(chi2.sf(squares, count))


def _tails_of_choices(steps: Iterable[Any]) -> tuple[float, float]:
    surprise, variance = 0.0, 0.0
    for step in steps:
        (meeting,) = step.meetings
        scores = meeting.exact.astype(np.float64)
        weights = np.exp(
            float(step.booked.mechanism.epsilon) / (2 * step.booked.l1) * (scores - scores.max())
        )
        weights /= weights.sum()
        mean = float(weights @ scores)
        surprise += float(scores[meeting.answer]) - mean
        variance += float(weights @ (scores - mean) ** 2)
    # Too little noise chooses high scores too often.
    deviations = surprise / variance**0.5
    return float(norm.sf(deviations)), float(norm.cdf(deviations))
