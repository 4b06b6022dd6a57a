"""Whole runs on tiny tables: what was asked, what met the noise, and how much that tells neighbours apart.

A transcript is the sequence of answers of a run. Everything that a method asks may depend on the answers, never on
the rows beside them. So one recorded transcript is played to many tables: the questions must be the same for all of
them, and what neighbours lose is computed from the exact values that met the noise, not from what was declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from populace.api import measure as measure_api
from populace.api import reservation
from populace.core.errors import OverBudget, PopulaceError
from populace.core.marginals import Candidates, Marginal
from populace.methods.registry import find_method
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.schema.schema import Schema
from tests.audit.exact_losses import Leak, Waste, allowed, lost
from tests.audit.replay import NoisyAnswer, RecordingNoise, ReplayingNoise

Record = tuple[int, ...]
Unit = tuple[Record, ...]
Table = tuple[Unit, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One method under one promise, on a domain so small that all tables of a few units can be gone through."""

    method: str
    sizes: tuple[int, ...] = (2, 2, 2)
    rows: int = 1
    relation: str = "add-remove"
    epsilon: str = "60"
    delta: str = "1e-3"

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes))
        return f"{self.method}-{sizes}-{self.rows}-{self.relation}-{self.epsilon}-{self.delta}"

    @property
    def names(self) -> str:
        return "abcdef"[: len(self.sizes)]

    @cached_property
    def schema(self) -> Schema:
        text = f'[table]\nunit = "person"\nneighbours = "{self.relation}"\nrows_per_unit = {self.rows}\n'
        text += "max_rows = 1000\n"
        text += 'id = "who"\n' if self.rows > 1 else ""
        for name, size in zip(self.names, self.sizes, strict=True):
            codes = ", ".join(f'"{code}"' for code in range(size))
            text += f'[columns.{name}]\nkind = "categorical"\nvalues = [{codes}]\nother = "0"\n'
        return Schema.parse(text)

    def frame(self, table: Table) -> pa.Table:
        rows = [(f"p{number}", *map(str, row)) for number, unit in enumerate(table) for row in unit]
        columns = list(zip(*rows, strict=True)) or [()] * (1 + len(self.sizes))
        return pa.table(
            {
                name: pa.array(cells, pa.string())
                for name, cells in zip(["who", *self.names], columns, strict=True)
            }
        )

    @property
    def records(self) -> list[Record]:
        return list(product(*map(range, self.sizes)))

    def units(self) -> list[Unit]:
        """Return every unit of up to so many rows, and some that have more rows than are kept."""
        found = [
            unit
            for rows in range(1, self.rows + 1)
            for unit in combinations_with_replacement(self.records, rows)
        ]
        return found + ([(record,) * (self.rows + 1) for record in self.records] if self.rows > 1 else [])

    def neighbours(self, *, most: int) -> list[tuple[Table, Table]]:
        """Return all pairs of neighbours around tables of at most `most` units of one row each."""
        pairs: list[tuple[Table, Table]] = []
        for count in range(most + 1):
            for base in combinations_with_replacement([(record,) for record in self.records], count):
                larger = [tuple(sorted((*base, unit))) for unit in self.units()]
                pairs += product([base], larger) if self.relation == "add-remove" else combinations(larger, 2)
        return pairs


class Workspace(Ledger):
    """A ledger that keeps its books under the same rules, and no file."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Path("nowhere"), books=LedgerState())

    @classmethod
    def open(cls, path: Path | str) -> Workspace:
        return cls()

    def _write(self, decide: Any) -> LedgerState:
        books = self._books.copy()
        books.book(decide(books))
        self._books = books
        return books

    def _current(self) -> LedgerState:
        return self._books


class Tab:
    """A run whose questions were paid for before: it keeps what it is charged and refuses nothing."""

    rehearsal = True

    def __init__(self, case: Case) -> None:
        self.left = Budget.of(Fraction(case.epsilon), Fraction(case.delta), unit=case.schema.unit)
        self._charged: list[SpendRecord] = []

    def charge(self, *spends: Spend) -> None:
        self._charged += [SpendRecord(spend=spend, price=Fraction(1)) for spend in spends]

    def record(self) -> SimpleNamespace:
        return SimpleNamespace(spends=self._charged)


@dataclass(frozen=True, eq=False)
class Step:
    """One question, the spend that was booked for it, what met noise, and what was told; None when refused."""

    verb: str
    asked: Any
    options: Mapping[str, Any]
    told: Any
    booked: Spend | None
    meetings: tuple[NoisyAnswer, ...]

    @property
    def question(self) -> tuple[Any, ...]:
        """The question in a form that can be compared."""
        asked: Any = self.asked
        if isinstance(asked, Candidates):
            tables = tuple((table.shape, table.tobytes()) for table in asked.estimates)
            asked = (asked.marginals, tables, asked.penalties, asked.weights)
        return self.verb, asked, tuple(sorted(self.options.items(), key=lambda item: item[0]))

    @property
    def answer(self) -> Any:
        """What was told, in a form that can be compared."""
        if isinstance(self.told, tuple):
            return [(item.marginal, item.counts.tolist(), item.variance) for item in self.told]
        return self.told.tolist() if isinstance(self.told, np.ndarray) else self.told


@dataclass
class Witness:
    """Stands between a method and the barrier, and writes down what passes."""

    door: Any
    source: Any
    steps: list[Step] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.door, name)

    def measure(self, marginals: Iterable[Marginal], **options: Any) -> Any:
        return self._ask("measure", tuple(marginals), options)

    def measure_batches(self, batches: Iterable[tuple[Iterable[Marginal], Any]]) -> Any:
        """Pass on batches together, and write them down one by one: each has a spend and noise of its own."""
        asked = [(tuple(marginals), noise) for marginals, noise in batches]
        told = self._ask("measure_batches", asked, {})
        step = self.steps.pop()
        booked = self.door._run.record().spends[-len(asked) :]
        ends = np.cumsum([len(marginals) for marginals, _ in asked]).tolist()
        for (marginals, noise), end, spend in zip(asked, ends, booked, strict=True):
            own = slice(end - len(marginals), end)
            self.steps.append(
                Step("measure", marginals, {"noise": noise}, told[own], spend.spend, step.meetings[own])
            )
        return told

    def score(self, candidates: Candidates, **options: Any) -> Any:
        return self._ask("score", candidates, options)

    def choose(self, candidates: Candidates, **options: Any) -> Any:
        return self._ask("choose", candidates, {**options, "among": tuple(options["among"])})

    def find_far(self, candidates: Candidates, **options: Any) -> Any:
        return self._ask("find_far", candidates, {**options, "among": tuple(options["among"])})

    def insist(self, *, times: int = 3) -> None:
        """Ask the last question again until it is refused: a budget that is used up must answer nothing."""
        last = self.steps[-1]
        for _ in range(times):
            try:
                self._ask(last.verb, last.asked, last.options)
            except OverBudget:
                return

    def _ask(self, verb: str, asked: Any, options: Mapping[str, Any]) -> Any:
        before, told, booked = len(self.source.transcript.entries), None, None
        try:
            told = getattr(self.door, verb)(asked, **options)
            booked = self.door._run.record().spends[-1].spend
        finally:
            met = tuple(self.source.transcript.entries[before:])
            self.steps.append(Step(verb, asked, options, told, booked, met))
        return told


@dataclass(frozen=True, eq=False)
class Story:
    """A run from its first question to its last, and the noisy tables that came out of it."""

    steps: tuple[Step, ...]
    items: list[Any]

    @property
    def transcript(self) -> list[NoisyAnswer]:
        return [meeting for step in self.steps for meeting in step.meetings]


def whole_run(case: Case, table: Table, source: Any) -> Story:
    """Run a method as users do, on the books of a workspace, and let it insist on its last question in the end."""
    witnesses: list[Witness] = []
    method = find_method(case.method)

    def barrier(private: PrivateTable, *, run: Any, noise: Any, public: Any = None) -> Witness:
        witnesses.append(Witness(Barrier(private, run=run, noise=noise, public=public), noise))
        return witnesses[-1]

    def insistent(oracle: Any, *options: Any) -> Any:
        found = method.measure(oracle, *options)
        witnesses[-1].insist()
        return found

    with (
        patch.object(reservation, "Ledger", Workspace),
        patch.object(measure_api, "Barrier", barrier),
        patch("populace.methods.registry.METHODS", {case.method: replace(method, measure=insistent)}),
    ):
        found = measure_api.measure(
            case.frame(table),
            schema=case.schema,
            epsilon=case.epsilon,
            delta=case.delta,
            method=case.method,
            noise=source,
        )
    items = [(item.marginal, item.counts.tolist(), item.variance) for item in found.items]
    return Story(tuple(step for witness in witnesses for step in witness.steps), items)


def decoy(case: Case, rows: int, *, seed: int) -> Table:
    """Return a table of some rows in which columns agree and 0 is the common code."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        code = int(rng.random() < 0.3) * int(rng.integers(1, max(case.sizes)))
        same = rng.random(len(case.sizes)) < 0.9
        found.append(
            tuple(
                min(code, size - 1) if kept else int(rng.integers(size))
                for kept, size in zip(same, case.sizes, strict=True)
            )
        )
    return tuple((row,) for row in found)


def recorded(case: Case, rows: int, *, seed: int) -> Story:
    """Return a run on a decoy: any answers are possible on any table, so its transcript is one of theirs."""
    return whole_run(case, decoy(case, rows, seed=seed), RecordingNoise(ExactNoise(RehearsalEntropy(seed))))


def replay(case: Case, story: Story, table: Table) -> None:
    """Run the whole method on a table that gives the answers of a story; nothing may be asked or told otherwise."""
    player = ReplayingNoise(story.transcript)
    try:
        again = whole_run(case, table, player)
        player.finish()
    except PopulaceError as failure:
        raise Leak(f"the rows changed the questions: {failure.message}") from failure
    if [step.question for step in again.steps] != [step.question for step in story.steps]:
        raise Leak("the rows changed the questions.")
    told = [step.answer for step in again.steps]
    if told != [step.answer for step in story.steps] or again.items != story.items:
        raise Leak("the rows changed what was told beside the noise.")


def met(case: Case, story: Story, table: PrivateTable) -> list[NoisyAnswer]:
    """Ask a table the questions of a story, give it the story's answers, and return what met the noise."""
    player = ReplayingNoise(story.transcript)
    door = Barrier(table, run=Tab(case), noise=player)
    for step in story.steps:
        if step.booked:
            getattr(door, step.verb)(step.asked, **step.options)
    player.finish()
    return player.transcript.entries


@dataclass(frozen=True)
class Found:
    """The part of the promise that some neighbours use up in each transcript, and what was asked, by verb and size."""

    used: list[float]
    reached: frozenset[tuple[str, int]]


def check(
    case: Case,
    *,
    decoys: Iterable[tuple[int, int]],
    most: int,
    replays: int,
    least: float,
) -> Found:
    """Play transcripts to all tiny tables: no neighbours may lose more than is promised.

    In each transcript some neighbours must lose nearly all of it, at least the part `least`. `decoys` are the rows and
    seeds of the runs that give transcripts. All neighbours around tables of up to `most` rows are asked the same
    questions; on `replays` of these tables, evenly spread, the whole method runs again.
    """
    pairs = case.neighbours(most=most)
    tables = list(dict.fromkeys(table for pair in pairs for table in pair))
    numbers = {table: number for number, table in enumerate(tables)}
    private = [PrivateTable.of(case.frame(table), schema=case.schema) for table in tables]
    epsilon, delta = Fraction(case.epsilon), Fraction(case.delta)
    cap, used, reached = allowed(epsilon=float(epsilon), delta=float(delta)), [], set()
    for rows, seed in decoys:
        story = recorded(case, rows, seed=seed)
        for place in np.linspace(0, len(tables) - 1, replays).astype(int):
            replay(case, story, tables[place])
        tapes = [met(case, story, table) for table in private]
        found = lost(tapes, [(numbers[a], numbers[b]) for a, b in pairs], pure=not delta) / cap
        used.append(float(found.max()))
        if used[-1] > 1 + 1e-9:
            one, other = pairs[int(found.argmax())]
            raise Leak(f"{one} and {other} lose {used[-1]:.3f} of what is promised.")
        if used[-1] < least:
            raise Waste(f"neighbours lose no more than {used[-1]:.3f} of what is promised.")
        reached |= {
            (step.verb, len(asked.clique))
            for step in story.steps
            for asked in (step.asked.marginals if isinstance(step.asked, Candidates) else step.asked)
        }
    return Found(used, frozenset(reached))
