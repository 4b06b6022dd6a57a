"""The transcript of a run of measurements: what the barrier answered so far, kept in case the run does not end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from populace.core.marginals import Candidates, Counts, Marginal
from populace.measurements.answer_record import AnswerRecord
from populace.measurements.measurements import (
    Batch,
    Measurement,
    Measurements,
    ReleasedRows,
    RunContext,
)
from populace.measurements.public_marginals import PublicMarginals, PublicTable
from populace.measurements.rule_checks import RuleCheck
from populace.methods.oracle import QuestionOracle
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import (
    Exponential,
    ExponentialCount,
    Mechanism,
    Noise,
    PartitionSelection,
)
from populace.privacy.ledger.ledger import Run
from populace.schema.public_facts import PublicFacts
from populace.schema.schema import Schema


class MeasurementTranscript:
    """What one run was answered, in the order of its questions, and the run that paid for it."""

    def __init__(self, run: Run, *, schema: Schema, context: RunContext | None = None) -> None:
        self._run = run
        self._context = context
        # The schema as it is known by now, the tables of its learning, and what the method returned in the end.
        self.schema = schema
        self.learnt: tuple[Measurement, ...] = ()
        self.rule_checks: tuple[RuleCheck, ...] = ()
        self.final: tuple[Measurement | ReleasedRows | PublicMarginals, ...] = ()
        self.tables: list[Measurement | ReleasedRows] = []
        # Earlier releases of the account, with the digests of their manifests.
        self.earlier: Sequence[tuple[Measurements, str]] = ()
        self._others: list[tuple[str, Mapping[str, Any], Mechanism, Any]] = []

    def note(self, verb: str, question: Mapping[str, Any], *, mechanism: Mechanism, answer: Any) -> None:
        """Record an answer that is no table of counts."""
        self._others.append((verb, question, mechanism, answer))

    def measurements(self) -> Measurements:
        """Return everything measured, under the schema as it is known by now, with the ledger's record."""
        answers = self.final or tuple(self.tables)
        made = Measurements.of(self.schema, answers=self.learnt + answers, record=self._run.record())
        made = replace(made, rule_checks=self.rule_checks)
        for other, release in self.earlier:
            made = made.pool(other, release=release)
        return made if self._context is None else replace(made, context=self._context)

    def collect(self) -> Mapping[str, Any]:
        """Return what is to be kept of a run that failed: measurements where there are any, and all other answers.

        The run is closed first, where the ledger can still be written: it asks nothing more.
        """
        with suppress(Exception):
            if not self._run.record().finished:
                self._run.finish()
        with suppress(Exception):
            return {
                "measurements": self.measurements(),
                "answers": () if self.final else self._other_answers(),
            }
        return {"answers": (*self._other_answers(), *(_answer_record(each) for each in self.tables))}

    def _other_answers(self) -> tuple[AnswerRecord, ...]:
        return tuple(
            AnswerRecord(
                verb=verb, question=_to_json(question), mechanism=mechanism.to_json(), answer=_to_json(answer)
            )
            for verb, question, mechanism, answer in self._others
        )


class RecordingOracle(PublicFacts):
    """An oracle that asks another one and records its answers."""

    __slots__ = ("_oracle", "_transcript")

    def __init__(self, oracle: QuestionOracle, *, transcript: MeasurementTranscript) -> None:
        self._oracle = oracle
        self._transcript = transcript

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self._oracle.schema

    @property
    def public(self) -> PublicTable | None:
        """A table that everybody may know, if the curator gave one."""
        return self._oracle.public

    @property
    def earlier(self) -> tuple[Measurement, ...]:
        """The tables of earlier releases of the account: they are paid for, and known."""
        return tuple(item for other, _ in self._transcript.earlier for item in other.items)

    @property
    def budget(self) -> Budget:
        """What was left of the run's budget when the oracle was made."""
        return self._oracle.budget

    def measure(
        self, marginals: Sequence[Marginal], *, noise: Noise | ExponentialCount
    ) -> tuple[Measurement, ...]:
        """Ask, record, answer."""
        found = self._oracle.measure(marginals, noise=noise)
        self._transcript.tables.extend(found)
        return found

    def measure_batches(self, batches: Sequence[Batch]) -> tuple[Measurement, ...]:
        """Ask, record, answer."""
        found = self._oracle.measure_batches(batches)
        self._transcript.tables.extend(found)
        return found

    def publish_totals(self, level: str) -> Measurement:
        """Ask, record, answer."""
        found = self._oracle.publish_totals(level)
        self._transcript.tables.append(found)
        return found

    def score(self, candidates: Candidates, *, noise: Noise) -> Counts:
        """Ask, record, answer."""
        found = self._oracle.score(candidates, noise=noise)
        self._transcript.note(
            "score", {"candidates": candidates.marginals}, mechanism=noise, answer=found.copy()
        )
        return found

    def choose(
        self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential, none: bool = True
    ) -> int | None:
        """Ask, record, answer."""
        found = self._oracle.choose(candidates, among=among, mechanism=mechanism, none=none)
        # How many there were is enough: all of them, choice by choice, would take more memory than the run itself.
        asked = {"candidates": len(among), "or none": none}
        chosen = None if found is None else list(candidates.marginals[found].clique)
        self._transcript.note("choose", asked, mechanism=mechanism, answer=chosen)
        return found

    def find_far(self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential) -> int | None:
        """Ask, record, answer."""
        found = self._oracle.find_far(candidates, among=among, mechanism=mechanism)
        first = None if found is None else list(candidates.marginals[found].clique)
        self._transcript.note("choose", {"first of": len(among)}, mechanism=mechanism, answer=first)
        return found

    def discover_rows(self, *, mechanism: PartitionSelection) -> Mapping[tuple[int, ...], int]:
        """Ask, record, answer."""
        found = self._oracle.discover_rows(mechanism=mechanism)
        self._transcript.tables.append(ReleasedRows.of(found, columns=self.domain))
        return found

    def discover_values(self, column: str, *, mechanism: PartitionSelection) -> Mapping[str, int]:
        """Ask, record, answer."""
        found = self._oracle.discover_values(column, mechanism=mechanism)
        self._transcript.note("discover", {"values of": column}, mechanism=mechanism, answer=found)
        return found

    def discover_bins(self, column: str, *, groups: Counts, noise: Noise) -> Counts:
        """Ask, record, answer."""
        found = self._oracle.discover_bins(column, groups=groups, noise=noise)
        asked = {"bins of": column, "groups": np.array(groups)}
        self._transcript.note("discover", asked, mechanism=noise, answer=found.copy())
        return found


def _to_json(value: Any) -> Any:
    """Return mappings, arrays and marginals as JSON has them; this is done only when they are to be written."""
    if isinstance(value, Mapping):
        return {key: _to_json(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [list(marginal.clique) for marginal in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _answer_record(answer: Measurement | ReleasedRows) -> AnswerRecord:
    if isinstance(answer, ReleasedRows):
        rows = answer.to_json()
        return AnswerRecord(
            verb="discover", question={"rows of": list(answer.columns)}, mechanism=None, answer=rows
        )
    groupings = [{"column": each.column, "groups": list(each.groups)} for each in answer.marginal.groupings]
    asked = {"columns": list(answer.marginal.clique), "groupings": groupings}
    mechanism = {"variance": str(answer.variance)}
    verb = "measure" if answer.variance else "publish"
    return AnswerRecord(verb=verb, question=asked, mechanism=mechanism, answer=answer.counts.tolist())
