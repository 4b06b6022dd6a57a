"""The tape of a run of estimates: every question that was paid for, its law, and the noisy answer that came back.

All that is published follows from the tape, so whoever has it can conclude again, without the private rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from populace.errors import ReleaseError
from populace.marginals import Counts
from populace.measurements import Answered
from populace.privacy.budget import Budget
from populace.privacy.mechanisms import Exponential, Noise, fraction_from_json
from populace.privacy.smooth_noise import SmoothNoise
from populace.schema.schema import Schema
from populace.survey.oracle import SumBatch, SurveyOracle
from populace.survey.plain import plain
from populace.survey.questions import BinChoice, SmoothQuestion
from populace.survey.sums import Sum


class Recorder:
    """An oracle that asks another one and remembers every question and answer."""

    def __init__(self, oracle: SurveyOracle) -> None:
        self._oracle = oracle
        self._tape: list[Answered] = []

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self._oracle.schema

    @property
    def budget(self) -> Budget:
        """The budget of the run."""
        return self._oracle.budget

    @property
    def tape(self) -> tuple[Answered, ...]:
        """All questions so far, in their order."""
        return tuple(self._tape)

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Ask, remember, answer."""
        found = self._oracle.sum_batches(batches)
        for (asked, law), counts in zip(_each(batches), found, strict=True):
            self._keep("sum", asked_sum(asked), law, counts.tolist())
        return found

    def smooth(self, question: SmoothQuestion, *, law: SmoothNoise, lattice: Fraction) -> Fraction:
        """Ask, remember, answer."""
        found = self._oracle.smooth(question, law=law, lattice=lattice)
        self._keep("smooth", {**plain(question), "lattice": str(lattice)}, law, str(found))
        return found

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Ask, remember, answer."""
        found = self._oracle.bound_size(question, noise=noise)
        self._keep("bound-size", plain(question), noise, found)
        return found

    def choose_bins(self, question: BinChoice, *, law: Exponential) -> int:
        """Ask, remember, answer."""
        found = self._oracle.choose_bins(question, law=law)
        self._keep("choose-bins", plain(question), law, found)
        return found

    def _keep(self, verb: str, question: Mapping[str, Any], law: object, answer: Any) -> None:
        self._tape.append(Answered(verb=verb, question=question, law=plain(law), answer=answer))


class Player:
    """An oracle that gives the answers of a tape; another question than the one on it is refused."""

    def __init__(self, tape: Iterable[Answered], *, schema: Schema, budget: Budget) -> None:
        self._tape: Iterator[Answered] = iter(tape)
        self._schema = schema
        self._budget = budget

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self._schema

    @property
    def budget(self) -> Budget:
        """The budget of the run."""
        return self._budget

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Give the answers on the tape."""
        return tuple(
            self._held(self._next("sum", asked_sum(asked), law), asked) for asked, law in _each(batches)
        )

    def _held(self, answer: Any, asked: Sum) -> Counts:
        shape = asked.by.shape(self._schema.domain)
        try:
            found = np.array(answer, dtype=np.int64)
        except (TypeError, ValueError, OverflowError) as failure:
            raise _other() from failure
        if found.shape != shape:
            raise _other()
        return found

    def smooth(self, question: SmoothQuestion, *, law: SmoothNoise, lattice: Fraction) -> Fraction:
        """Give the answer on the tape."""
        return _number(self._next("smooth", {**plain(question), "lattice": str(lattice)}, law))

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Give the answer on the tape."""
        return _whole(self._next("bound-size", plain(question), noise))

    def choose_bins(self, question: BinChoice, *, law: Exponential) -> int:
        """Give the answer on the tape."""
        chosen = _whole(self._next("choose-bins", plain(question), law))
        if not 0 <= chosen < len(question.binnings):
            raise _other()
        return chosen

    def finish(self) -> None:
        """Refuse a tape that holds more than was asked."""
        if next(self._tape, None) is not None:
            raise _other()

    def _next(self, verb: str, question: Mapping[str, Any], law: object) -> Any:
        held = next(self._tape, None)
        if held is None or (held.verb, held.question, held.law) != (verb, question, plain(law)):
            raise _other()
        return held.answer


def asked_sum(asked: Sum) -> dict[str, Any]:
    """Return a sum as plain JSON, with the worth of one step.

    >>> asked_sum(Sum(where="AGE >= 65"))["step"]
    '1/16777216'
    """
    return {**plain(asked), "step": str(asked.step)}


def _number(answer: Any) -> Fraction:
    try:
        return fraction_from_json(answer)
    except (TypeError, ValueError, ZeroDivisionError) as failure:
        raise _other() from failure


def _whole(answer: Any) -> int:
    if not isinstance(answer, int) or isinstance(answer, bool) or abs(answer) >= 2**63:
        raise _other()
    return answer


def _each(batches: Sequence[SumBatch]) -> Iterator[tuple[Sum, Noise]]:
    return ((asked, law) for sums, law in batches for asked in sums)


def _other() -> ReleaseError:
    return ReleaseError(
        "the noisy answers belong to other questions.", hint="ask the publisher for an unaltered copy"
    )
