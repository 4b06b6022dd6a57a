"""Replay: run a method again on a neighbouring table with the barrier's outputs frozen.

Under frozen outputs everything that leaves the barrier is the same for both tables, so everything released
must be the same too. What differs has leaked around the barrier. The exact values that met the noise are
compared on the way: no unit may move them further than was declared to the ledger.

Where keys are told, the frozen output is the whole answer, the keys with their noisy counts, whichever keys the
neighbour has: what follows may depend on nothing else. Keys that only one of the two tables has must all fit into
one unit, and no table may tell a key that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import erfc, exp, inf, log, log1p, sqrt, tanh
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from populace.core.errors import PopulaceError
from populace.core.marginals import Counts
from populace.measurements.measurements import Measurement
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    ExponentialCount,
    Noise,
    PartitionSelection,
    Spend,
)
from populace.privacy.ledger.run_record import RunRecord
from populace.privacy.noise.noise_source import Bound, ExactNoise, to_key
from populace.privacy.smooth.smooth_distributions import Cauchy, PolyPlace, SmoothDistribution, Student
from populace.privacy.smooth.smooth_noise import SmoothNoise

Entry = TypeVar("Entry")

# Relative errors of the floats in which bounds are compared.
ROUNDING = 1e-9


class Transcript(Generic[Entry]):
    """Entries in the order in which they were recorded.

    >>> answers: Transcript[int] = Transcript()
    >>> answers.record(7, 9)
    >>> answers.entries
    (7, 9)
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def record(self, *entries: Entry) -> None:
        """Append entries."""
        self._entries += entries

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries so far."""
        return tuple(self._entries)


class Playback(Generic[Entry]):
    """The entries of a transcript one by one, as long as the questions are those that were recorded.

    `refuse` makes the error for a question more, a question less, or another question.

    >>> again = Playback([7, 9], refuse=lambda what: ValueError(f"asked {what}"))
    >>> again.next(lambda entry: entry == 7)
    7
    >>> again.finish()
    Traceback (most recent call last):
    ValueError: asked fewer questions
    """

    __slots__ = ("_entries", "_refuse")

    def __init__(self, entries: Iterable[Entry], *, refuse: Callable[[str], Exception]) -> None:
        self._entries: Iterator[Entry] = iter(entries)
        self._refuse = refuse

    def next(self, matches: Callable[[Entry], bool]) -> Entry:
        """Return the next entry, if it was recorded for the question that is asked now."""
        for entry in self._entries:
            if not matches(entry):
                raise self._refuse("another question")
            return entry
        raise self._refuse("more questions")

    def finish(self) -> None:
        """Refuse a transcript that holds more than was asked."""
        for _ in self._entries:
            raise self._refuse("fewer questions")


class LeakError(PopulaceError):
    """Two neighbouring tables can be told apart without any noise."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="find what reads the private rows without the barrier")


@dataclass(frozen=True, eq=False, slots=True)
class NoisyAnswer:
    """One moment at which exact values met noise: the values, the mechanism (or rate) and what came out."""

    exact: Counts
    mechanism: Noise | ExponentialCount | Fraction | PartitionSelection | SmoothNoise
    answer: Any
    keys: tuple[Any, ...] = ()
    """The keys that the exact values count, where keys were told."""

    def is_same_question(self, other: NoisyAnswer) -> bool:
        """Say whether another answer was given to the same question; how many keys there are is private."""
        shapes = self.exact.shape == other.exact.shape or isinstance(self.mechanism, PartitionSelection)
        return type(self) is type(other) and self.mechanism == other.mechanism and shapes


@dataclass(frozen=True, eq=False, slots=True)
class SmoothNoisyAnswer(NoisyAnswer):
    """A moment at which a number met noise that follows a private bound; an enclosure of it is held here alone."""

    number: Fraction = Fraction(0)
    bound: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    lattice: Fraction = Fraction(1)

    @classmethod
    def of(
        cls,
        exact: Fraction,
        bound: Bound,
        *,
        mechanism: SmoothNoise,
        lattice: Fraction,
        answer: Fraction | None = None,
    ) -> SmoothNoisyAnswer:
        """Return the meeting of a number with its bound, as closely as balls enclose it."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, mechanism, answer, number=exact, bound=bounds(bound), lattice=lattice)

    def is_same_question(self, other: NoisyAnswer) -> bool:
        """Say whether another answer was given to the same question, whatever the bounds are."""
        same = isinstance(other, SmoothNoisyAnswer) and self.lattice == other.lattice
        return same and self.mechanism == other.mechanism


class RecordingNoise:
    """A noise source that draws like another and records every draw."""

    def __init__(self, source: ExactNoise) -> None:
        self.source = source
        self.transcript: Transcript[NoisyAnswer] = Transcript()

    def add(self, exact: Counts, *, mechanism: Noise | ExponentialCount) -> Counts:
        """Draw, record, answer."""
        answer = self.source.add(exact, mechanism=mechanism)
        self.transcript.record(NoisyAnswer(exact.copy(), mechanism, answer.copy()))
        return answer

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Draw, record, answer."""
        answer = self.source.pick(scores, rate=rate)
        self.transcript.record(NoisyAnswer(scores.copy(), rate, answer))
        return answer

    def reveal(self, keys: Any, counts: Counts, *, mechanism: PartitionSelection) -> Mapping[Any, int]:
        """Draw, record, answer."""
        answer = self.source.reveal(keys, counts, mechanism=mechanism)
        self.transcript.record(
            NoisyAnswer(counts.copy(), mechanism, dict(answer), keys=tuple(map(to_key, keys)))
        )
        return answer

    def smooth(self, exact: Fraction, bound: Bound, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Draw, record, answer."""
        answer = self.source.smooth(exact, bound, mechanism=mechanism, lattice=lattice)
        self.transcript.record(
            SmoothNoisyAnswer.of(exact, bound, mechanism=mechanism, lattice=lattice, answer=answer)
        )
        return answer


class ReplayingNoise:
    """A noise source that gives the recorded answers, and records the exact values that it is shown."""

    def __init__(self, recorded: Iterable[NoisyAnswer]) -> None:
        self._recorded = Playback(recorded, refuse=lambda what: LeakError(f"the neighbour was asked {what}."))
        self.transcript: Transcript[NoisyAnswer] = Transcript()

    def add(self, exact: Counts, *, mechanism: Noise | ExponentialCount) -> Counts:
        """Give the recorded answer to the same question."""
        answer: Counts = self._replay(NoisyAnswer(exact.copy(), mechanism, None))
        return answer.copy()

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Give the recorded answer to the same question."""
        answer: int = self._replay(NoisyAnswer(scores.copy(), rate, None))
        return answer

    def reveal(self, keys: Any, counts: Counts, *, mechanism: PartitionSelection) -> Mapping[Any, int]:
        """Give the recorded answer to the same question, whichever keys there are."""
        return dict(self._replay(NoisyAnswer(counts.copy(), mechanism, None, keys=tuple(map(to_key, keys)))))

    def smooth(self, exact: Fraction, bound: Bound, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Give the recorded answer to the same question, whatever its bound is here."""
        answer: Fraction = self._replay(
            SmoothNoisyAnswer.of(exact, bound, mechanism=mechanism, lattice=lattice)
        )
        return answer

    def _replay(self, shown: NoisyAnswer) -> Any:
        """Return the answer that was recorded where this is shown now."""
        answer = self._recorded.next(shown.is_same_question).answer
        self.transcript.record(replace(shown, answer=answer))
        return answer

    def finish(self) -> None:
        """Complain if the neighbour was asked fewer questions."""
        self._recorded.finish()


def check_sensitivities(
    first: Sequence[NoisyAnswer], second: Sequence[NoisyAnswer], *, record: RunRecord
) -> None:
    """Compare the exact values behind two runs with what the ledger's spends declared.

    A `measure` of m marginals meets noise m times, once per marginal; `score` and `choose` meet it once,
    each of their numbers moving by at most the declared shift. `discover` meets it once: with parts of a column,
    which move as a marginal does, or with the counts of keys, those of missing keys being 0. `smooth` meets it once,
    its number moving by no more than the bounds on the way allow. Each meeting is with the noise that is booked for it.
    """
    meetings = iter(zip(first, second, strict=True))
    for spend in (charged.spend for charged in record.spends):
        for _ in range(spend.answers if spend.verb == "measure" else 1):
            one, other = next(meetings)
            booked = (
                spend.mechanism.rate(sensitivity=spend.l1)
                if isinstance(spend.mechanism, Exponential)
                else spend.mechanism
            )
            if one.mechanism != booked:
                raise LeakError(f"{spend.what}: {one.mechanism} was drawn where {booked} is booked.")
            if not _within(one, other, spend=spend, rows=record.unit.rows):
                raise LeakError(f"one unit moved {spend.what} further than the ledger was told.")
    if next(meetings, None) is not None:
        raise LeakError("noise was drawn for a question that the ledger does not hold.")


def check_exact_totals(first: Iterable[Measurement], second: Iterable[Measurement]) -> None:
    """Compare the totals that two runs published exactly: no noise hides them, so neighbours must agree on them."""
    for one, other in zip(first, second, strict=True):
        if one.variance != other.variance or one.marginal != other.marginal:
            raise LeakError("the neighbour was asked other questions.")
        if not one.variance and not np.array_equal(one.counts, other.counts):
            raise LeakError(f"the exact totals by {one.marginal} tell two neighbours apart.")


def _within(one: NoisyAnswer, other: NoisyAnswer, *, spend: Spend, rows: int) -> bool:
    if isinstance(spend.mechanism, SmoothNoise):
        both = isinstance(one, SmoothNoisyAnswer) and isinstance(other, SmoothNoisyAnswer)
        return both and within_bounds(one, other, t=spend.mechanism.t, rows=spend.l1)
    if isinstance(spend.mechanism, PartitionSelection):
        first, second = (dict(zip(each.keys, each.exact.tolist(), strict=True)) for each in (one, other))
        if not set(one.answer if isinstance(one.answer, dict) else ()) <= {*first}:
            raise LeakError(f"{spend.what}: a key was told that does not occur.")
        if min([*first.values(), *second.values()], default=1) < 1:
            raise LeakError(f"{spend.what}: a key without rows was counted.")
        # All rows of a key that the neighbour lacks belong to one unit.
        for mine, theirs in ((first, second), (second, first)):
            if sum(count for key, count in mine.items() if key not in theirs) > rows:
                return False
        every = {**first, **second}
        moved = np.abs(np.array([first.get(key, 0) - second.get(key, 0) for key in every], dtype=np.int64))
    else:
        moved = np.abs(one.exact - other.exact)
    if spend.verb in ("measure", "discover"):
        return bool(moved.sum() <= spend.l1 and (moved**2).sum() <= spend.l2_squared)
    return bool(moved.max(initial=0) <= spend.l1)


def within_bounds(one: NoisyAnswer, other: NoisyAnswer, *, t: Fraction, rows: int) -> bool:
    """Say whether two numbers and their bounds can be of tables that differ by so many rows.

    A bound grows by at most e^t with each row, from either end, and with each row the number moves by no more than
    the smaller of the bounds on both sides.
    """
    if not isinstance(one, SmoothNoisyAnswer) or not isinstance(other, SmoothNoisyAnswer):
        raise TypeError("only smooth noise follows bounds")
    step = exp(float(t))
    ends = [(float(each.bound[1]) * (1 + ROUNDING)) for each in (one, other)]
    if ends[0] > ends[1] * step**rows * (1 + ROUNDING) or ends[1] > ends[0] * step**rows * (1 + ROUNDING):
        return False
    on_the_way = [min(ends[0] * step**row, ends[1] * step ** (rows - row)) for row in range(rows + 1)]
    most = sum(min(pair) for pair in pairwise(on_the_way))
    return float(abs(one.number - other.number)) <= most * (1 + ROUNDING)


def privacy_loss(first: Sequence[NoisyAnswer], second: Sequence[NoisyAnswer]) -> float:
    """Return the exact log-likelihood ratio of one transcript's answers between two tables.

    The whole transcript of an adaptive run factorises over its meetings, so the sum is the privacy loss
    of the run itself, not a bound on it: its mean over runs is the divergence that the price must cover.
    """
    loss = 0.0
    for one, other in zip(first, second, strict=True):
        if isinstance(one.mechanism, PartitionSelection):
            loss += _key_weight(one, one) - _key_weight(other, one)
        elif isinstance(one, SmoothNoisyAnswer) and isinstance(other, SmoothNoisyAnswer):
            loss += _lattice_weight(one, one) - _lattice_weight(other, one)
        else:
            loss += _log_weight(one.exact, one) - _log_weight(other.exact, one)
    return loss


def _key_weight(held: NoisyAnswer, meeting: NoisyAnswer) -> float:
    """Return ln P[the keys that were told | the counts held], up to a constant; −∞ where one does not occur."""
    if not isinstance(meeting.mechanism, PartitionSelection) or not isinstance(meeting.answer, dict):
        raise TypeError("keys are told by a stability threshold")
    counts = dict(zip(held.keys, held.exact.tolist(), strict=True))
    noise, threshold = meeting.mechanism.noise, meeting.mechanism.threshold
    if isinstance(noise, DiscreteLaplace):
        return _laplace_key_weight(counts, meeting.answer, scale=float(noise.scale), threshold=threshold)
    spread, weight = float(noise.variance), 0.0
    for key in {**counts, **meeting.answer}:
        if key not in meeting.answer:
            # Half a step above the threshold: the integral in place of a sum, good to the square of the step.
            gap = (threshold + 0.5 - counts[key]) / sqrt(2 * spread)
            weight += log(erfc(-gap) / 2) if gap > -20 else -(gap**2)
        elif key in counts:
            weight -= (meeting.answer[key] - counts[key]) ** 2 / (2 * spread)
        else:
            weight -= inf
    return weight


def _laplace_key_weight(
    counts: Mapping[Any, int], answer: Mapping[Any, int], *, scale: float, threshold: int
) -> float:
    """The same for Laplace noise, whose distribution function is known exactly; constants of the law are kept."""
    norm = log(tanh(0.5 / scale))
    weight = 0.0
    for key in {**counts, **answer}:
        if key not in answer:
            # P[c + Z ≤ T] = 1 − q^(T − c + 1)/(1 + q), or q^(c − T)/(1 + q) where T is below c.
            gap, split = threshold - counts[key], log1p(exp(-1 / scale))
            weight += log1p(-exp(-(gap + 1) / scale - split)) if gap >= 0 else gap / scale - split
        elif key in counts:
            weight += norm - abs(answer[key] - counts[key]) / scale
        else:
            weight -= inf
    return weight


def _log_weight(exact: Counts, meeting: NoisyAnswer) -> float:
    """Return ln P[answer | exact] up to a constant that does not depend on the exact values."""
    mechanism, answer = meeting.mechanism, meeting.answer
    if isinstance(mechanism, PartitionSelection | SmoothNoise) or isinstance(answer, Fraction):
        raise TypeError("keys, and noise that follows a bound, are weighed by themselves")
    if isinstance(mechanism, Fraction):
        weights = float(mechanism) * (exact - exact.max())
        return float(weights[answer] - np.log(np.exp(weights).sum()))
    gap = (np.asarray(answer) - exact).astype(np.float64)
    if isinstance(mechanism, DiscreteGaussian):
        return float(-(gap**2).sum() / (2 * float(mechanism.variance)))
    scale = float(mechanism.scale)
    weight = float(-np.abs(gap).sum() / scale)
    if isinstance(mechanism, ExponentialCount):
        # Σ exp(−|a − x|/s) over 0 ≤ a ≤ most, up to a factor: both sides of x are geometric sums.
        x, q = np.clip(exact, 0, mechanism.most).astype(np.float64), exp(-1 / scale)
        weight -= float(np.log1p(q - q ** (mechanism.most - x + 1) - q ** (x + 1)).sum())
        weight += float(np.abs(gap).sum() - np.abs(np.asarray(answer) - x).sum()) / scale
    return weight


def _lattice_weight(held: SmoothNoisyAnswer, meeting: SmoothNoisyAnswer) -> float:
    """Return ln P[the lattice point that was told | the number and the bound held], up to a constant of the law.

    The density of X is added up over what rounds to that point, in pieces that end where it bends.
    """
    if not isinstance(meeting.mechanism, SmoothNoise) or not isinstance(meeting.answer, Fraction):
        raise TypeError("smooth noise tells a point of a lattice")
    scale = float(held.bound[1]) / float(meeting.mechanism.s)
    away, half = float(meeting.answer - held.number) / scale, float(meeting.lattice) / (2 * scale)
    bends = [bend for bend in (-4.0, -1.0, 0.0, 1.0, 4.0) if away - half < bend < away + half]
    points, weights = np.polynomial.legendre.leggauss(32)
    total = 0.0
    for low, high in pairwise([away - half, *bends, away + half]):
        middle, reach = (low + high) / 2, (high - low) / 2
        total += reach * float(
            weights @ np.exp(log_density(meeting.mechanism.distribution, middle + reach * points))
        )
    return log(total) if total > 0 else -inf


def log_density(mechanism: SmoothDistribution, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the logarithm of a smooth law's density, up to a constant."""
    size = np.abs(x)
    if isinstance(mechanism, Cauchy):
        return np.asarray(-np.log1p(size ** float(mechanism.gamma)))
    if isinstance(mechanism, Student):
        return np.asarray(-(float(mechanism.degrees) + 1) / 2 * np.log1p(size**2 / float(mechanism.degrees)))
    if isinstance(mechanism, PolyPlace):
        gamma = float(mechanism.gamma)
        far = gamma + gamma * np.log(np.maximum(size, gamma) / gamma)
        return np.asarray(-np.where(size <= gamma, size, far))
    raise TypeError("no run is booked with other noise")
