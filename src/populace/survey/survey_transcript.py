"""The transcript of a run of estimates: every question that was paid for, its mechanism, and its noisy answer.

All that is published follows from it, so whoever has it can conclude again, without the private rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from populace.core.errors import ReleaseError
from populace.core.marginals import Counts
from populace.measurements.answer_record import AnswerRecord
from populace.privacy.accounting.mechanisms import Exponential, Noise, fraction_from_json
from populace.privacy.json_codec import encode_json
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.schema.schema import Schema
from populace.survey.smooth_questions import BinChoice, SmoothQuestion
from populace.survey.sums import Sum
from populace.survey.survey_oracle import SumBatch, SurveyOracle


class SurveyRecorder:
    """An oracle that asks another one and records every question and answer."""

    def __init__(self, oracle: SurveyOracle) -> None:
        self._oracle = oracle
        self._transcript: list[AnswerRecord] = []

    @property
    def transcript(self) -> tuple[AnswerRecord, ...]:
        """All questions and answers so far, in their order."""
        return tuple(self._transcript)

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Ask, record, answer."""
        found = self._oracle.sum_batches(batches)
        for (asked, mechanism), counts in zip(_list_sums(batches), found, strict=True):
            self._record("sum", encode_sum(asked), mechanism, counts.tolist())
        return found

    def smooth(self, question: SmoothQuestion, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Ask, record, answer."""
        found = self._oracle.smooth(question, mechanism=mechanism, lattice=lattice)
        self._record("smooth", {**encode_json(question), "lattice": str(lattice)}, mechanism, str(found))
        return found

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Ask, record, answer."""
        found = self._oracle.bound_size(question, noise=noise)
        self._record("bound-size", encode_json(question), noise, found)
        return found

    def choose_bins(self, question: BinChoice, *, mechanism: Exponential) -> int:
        """Ask, record, answer."""
        found = self._oracle.choose_bins(question, mechanism=mechanism)
        self._record("choose-bins", encode_json(question), mechanism, found)
        return found

    def _record(self, verb: str, question: Mapping[str, Any], mechanism: object, answer: Any) -> None:
        self._transcript.append(
            AnswerRecord(verb=verb, question=question, mechanism=encode_json(mechanism), answer=answer)
        )


class SurveyReplay:
    """An oracle that gives recorded answers; another question than the recorded one is refused."""

    def __init__(self, recorded: Iterable[AnswerRecord], *, schema: Schema) -> None:
        self._recorded = iter(recorded)
        self._schema = schema

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Give the recorded answers."""
        return tuple(
            self._parse_counts(self._next("sum", encode_sum(asked), mechanism), asked)
            for asked, mechanism in _list_sums(batches)
        )

    def _parse_counts(self, answer: Any, asked: Sum) -> Counts:
        try:
            found = np.array(answer, dtype=np.int64)
        except (TypeError, ValueError, OverflowError) as failure:
            raise _different_question() from failure
        if found.shape != asked.shape(self._schema.domain):
            raise _different_question()
        return found

    def smooth(self, question: SmoothQuestion, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Give the recorded answer."""
        answer = self._next("smooth", {**encode_json(question), "lattice": str(lattice)}, mechanism)
        try:
            return fraction_from_json(answer)
        except (TypeError, ValueError, ZeroDivisionError) as failure:
            raise _different_question() from failure

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Give the recorded answer."""
        return _parse_integer(self._next("bound-size", encode_json(question), noise))

    def choose_bins(self, question: BinChoice, *, mechanism: Exponential) -> int:
        """Give the recorded answer."""
        chosen = _parse_integer(self._next("choose-bins", encode_json(question), mechanism))
        if not 0 <= chosen < len(question.binnings):
            raise _different_question()
        return chosen

    def finish(self) -> None:
        """Refuse a transcript that holds more than was asked."""
        if next(self._recorded, None) is not None:
            raise _different_question()

    def _next(self, verb: str, question: Mapping[str, Any], mechanism: object) -> Any:
        held = next(self._recorded, None)
        asked = verb, question, encode_json(mechanism)
        if held is None or (held.verb, held.question, held.mechanism) != asked:
            raise _different_question()
        return held.answer


def encode_sum(asked: Sum) -> dict[str, Any]:
    """Return a sum as plain JSON, with the worth of one step.

    >>> encode_sum(Sum(where="AGE >= 65"))["step"]
    '1/16777216'
    """
    without = ("filled",) if asked.filled is None else ()
    return {**encode_json(asked, without=without), "step": str(asked.step)}


def _parse_integer(answer: Any) -> int:
    if not isinstance(answer, int) or isinstance(answer, bool) or abs(answer) >= 2**63:
        raise _different_question()
    return answer


def _list_sums(batches: Sequence[SumBatch]) -> Iterator[tuple[Sum, Noise]]:
    return ((asked, mechanism) for sums, mechanism in batches for asked in sums)


def _different_question() -> ReleaseError:
    return ReleaseError(
        "the noisy answers belong to other questions.", hint="ask the publisher for an unaltered copy"
    )
