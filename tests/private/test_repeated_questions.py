"""One question about several tables, some of them alike: the charge covers all that met noise, and no more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Candidates, Grouping, Marginal
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.privacy_units import exact_totals, invariants_of, make_unit

NOISE, OTHER = DiscreteGaussian(Fraction(400)), DiscreteGaussian(Fraction(900))
A, B = Marginal(("a",)), Marginal(("b",))
GROUPED = Marginal(("a",), (Grouping("a", (0, 1, 1)),))
SIZES = {"a": 3, "b": 2}
ROWS = ((0, 1), (1, 1), (2, 0), (2, 1))


class Ear(ExactNoise):
    """Keeps what met noise, and adds it."""

    __slots__ = ("met",)

    def __init__(self):
        super().__init__(RehearsalEntropy(1))
        self.met = []

    def add(self, exact, *, mechanism):
        self.met.append((exact.copy(), mechanism))
        return super().add(exact, mechanism=mechanism)


def asked(question, rows, *, unit, place):
    """Return what met noise under a question, the record of its run, and the answers."""
    schema = Schema(columns=Schema.from_sizes(SIZES).columns, unit=unit, invariants=invariants_of(unit))
    run = Ledger.open(place).reserve(
        "d",
        epsilon=Fraction(500),
        delta=Fraction(1, 1000),
        unit=unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=True,
        exact=exact_totals(unit),
    )
    codes = dict(zip(SIZES, np.array(rows, np.uint8).reshape(-1, 2).T, strict=True))
    table = PrivateTable(lambda: MemoryEngine(codes, domain=schema.domain), schema=schema)
    ear = Ear()
    answers = question(Barrier(table, run=run, noise=ear))
    return ear.met, run.record(), answers


def distances(*marginals):
    estimates = tuple(
        np.zeros(marginal.shape(Schema.from_sizes(SIZES).domain), np.int64) for marginal in marginals
    )
    return Candidates(marginals, estimates, (0,) * len(marginals))


QUESTIONS = {
    "one": lambda door: door.measure([A], noise=NOISE),
    "two": lambda door: door.measure([A, B], noise=NOISE),
    "twice": lambda door: door.measure([A, A], noise=NOISE),
    "three times, and another": lambda door: door.measure([A, B, A, A], noise=NOISE),
    "whole and in groups": lambda door: door.measure([A, GROUPED, GROUPED], noise=NOISE),
    "twice in a batch": lambda door: door.measure_batches([([A, A], NOISE), ([B], OTHER)]),
    "in two batches": lambda door: door.measure_batches([([A], NOISE), ([A], OTHER)]),
    "in two batches that are alike": lambda door: door.measure_batches([([A], NOISE), ([A], NOISE)]),
    "one distance twice": lambda door: door.score(distances(A, A), noise=NOISE),
}
UNITS = [
    make_unit(relation, rows=rows, id="p" if rows > 1 else None)
    for relation in Neighbours
    for rows in ((1,) if relation is Neighbours.REPLACE_WITHIN else (1, 3))
]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.rows} {unit.neighbours.value}")
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_all_that_met_noise_is_charged_for_as_it_moves(question, unit, tmp_path):
    """One unit, all of its rows alike, comes or takes the place of another; Σ (moved / σ)² is what the books have."""
    swapped = unit.neighbours is not Neighbours.ADD_REMOVE
    before, after = (*ROWS, *[(0, 0)] * unit.rows * swapped), (*ROWS, *[(2, 1)] * unit.rows)
    (here, record, answers), (there, *_) = (
        asked(question, rows, unit=unit, place=tmp_path / f"{number}.db")
        for number, rows in enumerate((before, after))
    )
    moved = sum(
        Fraction(int(((one - other) ** 2).sum())) / mechanism.variance
        for (one, mechanism), (other, _) in zip(here, there, strict=True)
    )
    booked = sum(
        each.spend.answers * each.spend.l2_squared / each.spend.mechanism.variance for each in record.spends
    )
    assert sum(each.spend.answers for each in record.spends) == len(answers)
    # A distance from an estimate of no rows is their number, which swaps do not change.
    assert moved == (0 if swapped and record.spends[0].spend.verb == "score" else booked)


@pytest.mark.parametrize("mechanism", [NOISE, DiscreteLaplace(Fraction(20))], ids=["Gaussian", "Laplace"])
def test_a_marginal_asked_twice_costs_as_much_as_two(mechanism, tmp_path):
    def used(name, *batches):
        return asked(
            lambda door: door.measure_batches(batches), ROWS, unit=PrivacyUnit(), place=tmp_path / name
        )[1].used

    once = used("1", ([A], mechanism))
    assert once > 0
    assert used("2", ([A, A], mechanism)) == used("3", ([A, B], mechanism)) == 2 * once
    assert used("4", ([A], mechanism), ([A], mechanism)) == 2 * once


def test_a_marginal_asked_twice_is_answered_twice(tmp_path):
    """Noise is drawn anew: three cells of a deviation of 10,000 agree by chance once in 10¹³."""
    wide = DiscreteGaussian(Fraction(10**8))
    _, _, (one, other) = asked(
        lambda door: door.measure([A, A], noise=wide), ROWS, unit=PrivacyUnit(), place=tmp_path / "l.db"
    )
    assert one.marginal == other.marginal == A
    assert (one.counts != other.counts).any()
