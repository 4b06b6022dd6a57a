"""Faults of whole mechanisms, each as small as it would be in the wild, put in for the length of a `with`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from populace.core.marginals import Candidates, Marginal
from populace.measurements.measurements import Measurement
from populace.methods.method import Method
from populace.methods.registry import METHODS
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, Exponential, Noise
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.read import rows_to_codes as read
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.budgets import measure_share

Mutant = Callable[[], Any]


@contextmanager
def monotone_score() -> Iterator[None]:
    """Choices drop the 2 that scores need because some rise while others fall."""
    with patch.object(Exponential, "rate", lambda mechanism, *, sensitivity: mechanism.epsilon / sensitivity):
        yield


@contextmanager
def rows_forgotten_in_scores() -> Iterator[None]:
    """A unit of several rows moves scores as if it had one; the ledger believes it too."""
    shift = property(lambda unit: 2 if unit.neighbours is Neighbours.REPLACE_ONE else 1)
    with patch.object(PrivacyUnit, "score_shift", shift):
        yield


@contextmanager
def swaps_forgotten_in_scores() -> Iterator[None]:
    """Where one unit takes the place of another, scores are priced for one of the two."""
    with patch.object(PrivacyUnit, "score_shift", property(lambda unit: unit.rows)):
        yield


@contextmanager
def rows_forgotten_after_the_look() -> Iterator[None]:
    """The one measurement after the first look is priced, and its noise chosen, for units of one row."""
    genuine = Barrier.measure_batches

    def measure(door: Barrier, batches: Any) -> Any:
        told = [booked.spend.verb for booked in door._run.record().spends]
        if told[-1:] != ["score"]:
            return genuine(door, batches)
        schema = door._table.schema
        one = replace(schema.unit, rows=1)
        budget = replace(door.budget, unit=one)
        less = []
        for marginals, noise in batches:
            share = measure_share(door.budget, noise, marginals=len(marginals))
            less.append((marginals, budget.measure_noise(share, marginals=len(marginals))))
        with patch.object(door._table, "schema", replace(schema, unit=one)):
            return genuine(door, less)

    with (
        patch.object(Barrier, "measure_batches", measure),
        patch.object(SpendRecord, "check", lambda *_, **__: None),
    ):
        yield


@contextmanager
def rows_not_cut() -> Iterator[None]:
    """All rows of a unit are kept, whatever the schema says."""
    with patch.object(
        read, "select_first_rows", lambda ids, *, rows: np.ones(sum(map(len, ids)), dtype=np.bool_)
    ):
        yield


@contextmanager
def rows_counted_for_estimates() -> Iterator[None]:
    """Estimates are scaled to the true number of rows."""

    def scale(oracle: Any, candidates: Candidates) -> Candidates:
        (rows,) = oracle._table.engine().counts([Marginal(())])
        tables = tuple(
            np.rint(table * (int(rows) / max(1, int(table.sum())))).astype(np.int64)
            for table in candidates.estimates
        )
        return replace(candidates, estimates=tables)

    with _candidates(scale):
        yield


@contextmanager
def rows_counted_for_noise() -> Iterator[None]:
    """Noise is a little larger where there are more rows."""
    genuine = Barrier.measure_batches

    def measure(door: Barrier, batches: Any) -> Any:
        (rows,) = door._table.engine().counts([Marginal(())])
        more = 1 + Fraction(int(rows), 10**6)
        return genuine(door, [(marginals, scaled(noise, more)) for marginals, noise in batches])

    with patch.object(Barrier, "measure_batches", measure):
        yield


@contextmanager
def rows_told() -> Iterator[None]:
    """Every noisy column is moved until it sums to the true number of rows."""
    genuine = Barrier.measure_batches

    def measure(door: Barrier, batches: Any) -> Any:
        (rows,) = door._table.engine().counts([Marginal(())])
        found = []
        for item in genuine(door, batches):
            counts = item.counts.copy()
            counts.flat[0] += int(rows) - int(counts.sum())
            found.append(Measurement(item.marginal, counts, item.variance))
        return tuple(found)

    with patch.object(Barrier, "measure_batches", measure):
        yield


@contextmanager
def late_filter() -> Iterator[None]:
    """A question is paid for if anything is left before it: the last one may cost more than there is."""
    genuine = LedgerState._spend

    def spend(books: LedgerState, event: Any, *, digest: str) -> None:
        used, cap = books.used[event.run], books.run(event.run).cap
        if used < cap:
            books.used[event.run] = Fraction(0)
        try:
            genuine(books, event, digest=digest)
        finally:
            if used < cap:
                books.used[event.run] += used

    with patch.object(LedgerState, "_spend", spend):
        yield


@contextmanager
def half_even_scores() -> Iterator[None]:
    """Estimates are not rounded; the private score is, to even numbers where it lies half way."""

    def unrounded(oracle: Any, candidates: Candidates) -> Candidates:
        columns = [item for step in oracle.steps if step.verb == "measure" for item in step.told]
        rows = float(np.mean([item.counts.sum() for item in columns]))
        tables = tuple(table * (rows / max(1, int(table.sum()))) for table in candidates.estimates)
        found = replace(candidates)
        object.__setattr__(found, "estimates", tables)
        return found

    def exact_scores(door: Barrier, candidates: Candidates) -> Any:
        exact = door._table.engine().counts(candidates.marginals)
        scores = [
            weight * float(np.abs(counts - table).sum()) - penalty
            for counts, table, penalty, weight in zip(
                exact, candidates.estimates, candidates.penalties, candidates.weights, strict=True
            )
        ]
        return np.rint(scores).astype(np.int64)

    with _candidates(unrounded), patch.object(Barrier, "_exact_scores", exact_scores):
        yield


def noise_passed_on(
    factor: Fraction, *, verbs: Iterable[str] = ("measure", "score", "choose", "find_far")
) -> Mutant:
    """The barrier charges for one noise and asks its source for another."""

    class Between:
        def __init__(self, source: Any) -> None:
            self._source = source

        def add(self, exact: Any, *, mechanism: Noise) -> Any:
            return self._source.add(exact, mechanism=scaled(mechanism, factor))

        def pick(self, scores: Any, *, rate: Fraction) -> int:
            return self._source.pick(scores, rate=rate / factor)

    def asked(genuine: Any) -> Any:
        def ask(door: Barrier, *words: Any, **options: Any) -> Any:
            with patch.object(door, "_noise", Between(door._noise)):
                return genuine(door, *words, **options)

        return ask

    @contextmanager
    def mutant() -> Iterator[None]:
        with ExitStack() as stack:
            # All measurements go through batches.
            for verb in ["measure_batches" if verb == "measure" else verb for verb in verbs]:
                stack.enter_context(patch.object(Barrier, verb, asked(getattr(Barrier, verb))))
            yield

    return mutant


def noise_drawn(factor: Fraction) -> Mutant:
    """The source is asked for the right noise and draws another."""

    @contextmanager
    def mutant() -> Iterator[None]:
        add, pick = ExactNoise.add, ExactNoise.pick
        with (
            patch.object(
                ExactNoise,
                "add",
                lambda source, exact, *, mechanism: add(source, exact, mechanism=scaled(mechanism, factor)),
            ),
            patch.object(
                ExactNoise, "pick", lambda source, scores, *, rate: pick(source, scores, rate=rate / factor)
            ),
        ):
            yield

    return mutant


def scaled(mechanism: Noise, factor: Fraction) -> Noise:
    """Return noise that spreads so many times as far."""
    if isinstance(mechanism, DiscreteGaussian):
        return DiscreteGaussian(mechanism.variance * factor**2)
    return DiscreteLaplace(mechanism.scale * factor)


@contextmanager
def _candidates(change: Callable[[Any, Candidates], Candidates]) -> Iterator[None]:
    """Let methods hand over other candidates than they do."""

    class Changing:
        def __init__(self, oracle: Any) -> None:
            self._oracle = oracle
            # A fault looks past the recorder of answers, at the rows.
            self._behind = oracle._oracle

        def __getattr__(self, name: str) -> Any:
            return getattr(self._oracle, name)

        def score(self, candidates: Candidates, **options: Any) -> Any:
            return self._oracle.score(change(self._behind, candidates), **options)

        def choose(self, candidates: Candidates, **options: Any) -> Any:
            return self._oracle.choose(change(self._behind, candidates), **options)

    def changed(method: Method) -> Method:
        return replace(method, measure=lambda oracle, *asked: method.measure(Changing(oracle), *asked))

    methods = {name: changed(method) for name, method in METHODS.items()}
    with patch("populace.methods.registry.METHODS", methods):
        yield
