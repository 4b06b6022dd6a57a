"""Replay: run a method again on a neighbouring table with the barrier's outputs frozen.

Under frozen outputs everything that leaves the barrier is the same for both tables, so everything released
must be the same too. What differs has leaked around the barrier. The exact values that met the noise are
compared on the way: no unit may move them further than was declared to the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from populace.errors import PopulaceError
from populace.marginals import Counts
from populace.privacy.mechanisms import DiscreteGaussian, Noise
from populace.privacy.noise import ExactNoise
from populace.privacy.record import RunRecord


class LeakError(PopulaceError):
    """Two neighbouring tables can be told apart without any noise."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="find what reads the private rows without the barrier")


@dataclass(frozen=True, eq=False, slots=True)
class Meeting:
    """One moment at which exact values met noise: the values, the law (or rate) and what came out."""

    exact: Counts
    law: Noise | Fraction
    answer: Counts | int


@dataclass
class Recorder:
    """A noise source that draws like another and remembers every meeting."""

    source: ExactNoise
    tape: list[Meeting] = field(default_factory=list)

    def add(self, exact: Counts, *, law: Noise) -> Counts:
        """Draw, remember, answer."""
        answer = self.source.add(exact, law=law)
        self.tape.append(Meeting(exact.copy(), law, answer.copy()))
        return answer

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Draw, remember, answer."""
        answer = self.source.pick(scores, rate=rate)
        self.tape.append(Meeting(scores.copy(), rate, answer))
        return answer


class Player:
    """A noise source that gives the answers of a tape, and remembers the exact values it was shown."""

    def __init__(self, tape: list[Meeting]) -> None:
        self._answers: Iterator[Meeting] = iter(tape)
        self.tape: list[Meeting] = []

    def add(self, exact: Counts, *, law: Noise) -> Counts:
        """Give the recorded answer to the same question."""
        answer = self._next(exact, law)
        if isinstance(answer, int):
            raise LeakError("a measurement took the place of a choice.")
        return answer.copy()

    def pick(self, scores: Counts, *, rate: Fraction) -> int:
        """Give the recorded answer to the same question."""
        answer = self._next(scores, rate)
        if not isinstance(answer, int):
            raise LeakError("a choice took the place of a measurement.")
        return answer

    def _next(self, exact: Counts, law: Noise | Fraction) -> Counts | int:
        recorded = next(self._answers, None)
        if recorded is None:
            raise LeakError("the neighbour was asked more questions.")
        if recorded.law != law or recorded.exact.shape != exact.shape:
            raise LeakError(f"the neighbour was asked another question: {recorded.law} became {law}.")
        self.tape.append(Meeting(exact.copy(), law, recorded.answer))
        return recorded.answer

    def finish(self) -> None:
        """Complain if the neighbour was asked fewer questions."""
        if next(self._answers, None) is not None:
            raise LeakError("the neighbour was asked fewer questions.")


def check_distances(first: list[Meeting], second: list[Meeting], *, record: RunRecord) -> None:
    """Compare the exact values behind two runs with what the ledger's spends declared.

    A `measure` of m marginals meets noise m times, once per marginal; `score` and `choose` meet it once,
    each of their numbers moving by at most the declared shift.
    """
    meetings = iter(zip(first, second, strict=True))
    for spend in (booked.spend for booked in record.spends):
        for _ in range(spend.answers if spend.verb == "measure" else 1):
            one, other = next(meetings)
            moved = np.abs(one.exact - other.exact)
            if spend.verb == "measure":
                within = moved.sum() <= spend.l1 and (moved**2).sum() <= spend.l2_squared
            else:
                within = moved.max(initial=0) <= spend.l1
            if not within:
                raise LeakError(f"one unit moved {spend.what} further than the ledger was told.")
    if next(meetings, None) is not None:
        raise LeakError("noise was drawn for a question that the ledger does not hold.")


def privacy_loss(first: list[Meeting], second: list[Meeting]) -> float:
    """Return the exact log-likelihood ratio of one tape's answers between two tables.

    The whole transcript of an adaptive run factorises over its meetings, so the sum is the privacy loss
    of the run itself, not a bound on it: its mean over runs is the divergence that the price must cover.
    """
    loss = 0.0
    for one, other in zip(first, second, strict=True):
        loss += _log_weight(one.exact, one) - _log_weight(other.exact, one)
    return loss


def _log_weight(exact: Counts, meeting: Meeting) -> float:
    """Return ln P[answer | exact] up to a constant that does not depend on the exact values."""
    law, answer = meeting.law, meeting.answer
    if isinstance(law, Fraction):
        weights = float(law) * (exact - exact.max())
        return float(weights[answer] - np.log(np.exp(weights).sum()))
    gap = (np.asarray(answer) - exact).astype(np.float64)
    if isinstance(law, DiscreteGaussian):
        return float(-(gap**2).sum() / (2 * float(law.variance)))
    return float(-np.abs(gap).sum() / float(law.scale))
