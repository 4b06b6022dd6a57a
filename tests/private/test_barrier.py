"""What the barrier refuses, that refusals cost and read nothing, and what it charges for each unit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import OverBudget, UsageError
from populace.core.marginals import MAX_ESTIMATE_ROWS, Candidates, Grouping, Marginal
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Exponential
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy, SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise, is_secret
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.privacy_units import exact_totals, invariants_of, make_unit

NOISE = DiscreteGaussian(Fraction(100))
LAW = Exponential(Fraction(1, 10))


class Spy(MemoryEngine):
    """An engine that counts how often it is asked."""

    reads = 0

    def counts(self, marginals):
        Spy.reads += 1
        return super().counts(marginals)

    def prepare(self, marginals, *, memory):
        Spy.reads += 1
        super().prepare(marginals, memory=memory)


def make(tmp_path, *, unit=None, epsilon=50, rehearsal=True, noise=None, sizes=None):
    sizes = sizes or {"a": 3, "b": 2}
    unit = unit or PrivacyUnit()
    schema = Schema(columns=Schema.from_sizes(sizes).columns, unit=unit, invariants=invariants_of(unit))
    codes = {name: (np.array([0, 1, 1]) % size).astype(np.uint8) for name, size in sizes.items()}
    ledger = Ledger.open(tmp_path / "ledger.db")
    # An account of its own for every barrier.
    run = ledger.reserve(
        f"spied {len(ledger.accounts())}",
        epsilon=Fraction(epsilon),
        delta=Fraction(1, 1000),
        unit=schema.unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=rehearsal,
        exact=exact_totals(schema.unit),
    )
    Spy.reads = 0
    table = PrivateTable(lambda: Spy(codes, domain=schema.domain), schema=schema)
    return Barrier(table, run=run, noise=noise or ExactNoise(RehearsalEntropy(1))), run


def slate(*shapes, marginals=None):
    marginals = marginals or (Marginal(("a",)),) * len(shapes)
    return Candidates(tuple(marginals), tuple(np.zeros(s, np.int64) for s in shapes), (0,) * len(shapes))


REFUSED = {
    "no marginal": lambda door: door.measure([], noise=NOISE),
    "unknown column": lambda door: door.measure([Marginal(("z",))], noise=NOISE),
    "short grouping": lambda door: door.measure([Marginal(("a",), (Grouping("a", (0, 1)),))], noise=NOISE),
    "score of nothing": lambda door: door.score(slate(), noise=NOISE),
    "wrong shape": lambda door: door.score(slate((2,)), noise=NOISE),
    "broadcast shape": lambda door: door.choose(slate((1,)), among=[0], mechanism=LAW),
    "choice of nothing": lambda door: door.choose(slate((3,)), among=[], mechanism=LAW),
    "choice outside": lambda door: door.choose(slate((3,)), among=[1], mechanism=LAW),
    "negative choice": lambda door: door.choose(slate((3,)), among=[-1], mechanism=LAW),
    "noise in a choice": lambda door: door.choose(slate((3,)), among=[0], mechanism=NOISE),
    "choice as noise": lambda door: door.measure([Marginal(("a",))], noise=LAW),
}


@pytest.mark.parametrize("question", REFUSED.values(), ids=REFUSED)
def test_refused_questions_cost_and_read_nothing(question, tmp_path):
    door, run = make(tmp_path)
    with pytest.raises(UsageError, match="hint:"):
        question(door)
    assert (Spy.reads, run.record().spends) == (0, ())


def test_a_marginal_of_too_many_cells_is_refused(tmp_path):
    door, run = make(tmp_path, sizes={"a": 2**16, "b": 2**16})
    with pytest.raises(UsageError, match="4294967296 cells"):
        door.measure([Marginal(("a", "b"))], noise=NOISE)
    assert (Spy.reads, run.record().spends) == (0, ())


def test_a_question_beyond_the_budget_reads_nothing(tmp_path):
    door, run = make(tmp_path, epsilon=1)
    with pytest.raises(OverBudget):
        door.measure([Marginal(("a",))], noise=DiscreteGaussian(Fraction(1, 10)))
    with pytest.raises(OverBudget):
        door.score(slate((3,)), noise=DiscreteGaussian(Fraction(1, 10)))
    with pytest.raises(OverBudget):
        door.choose(slate((3,)), among=[0], mechanism=Exponential(Fraction(20)))
    assert (Spy.reads, run.record().spends) == (0, ())


def test_batches_beyond_the_budget_read_nothing(tmp_path):
    """Each alone could be paid for, both together not."""
    door, run = make(tmp_path, epsilon=1)
    half = run.record().budget.measure_noise(Fraction(2, 3), marginals=1)
    with pytest.raises(OverBudget):
        door.measure_batches([([Marginal(("a",))], half), ([Marginal(("b",))], half)])
    with pytest.raises(UsageError, match="names no marginal"):
        door.measure_batches([])
    with pytest.raises(UsageError, match="names no marginal"):
        door.measure_batches([([Marginal(("a",))], half), ([], half)])
    assert (Spy.reads, run.record().spends) == (0, ())


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_verb_charges_for_the_unit(rows, neighbours, tmp_path):
    """l1 and squared l2 of measure, score and choose, for r rows, under all relations."""
    unit = make_unit(neighbours, rows=rows, id="p")
    rows = unit.rows
    door, run = make(tmp_path, unit=unit, epsilon=500)
    door.measure([Marginal(("a",)), Marginal(("b",))], noise=NOISE)
    door.score(slate((3,), (3,)), noise=NOISE)
    door.choose(slate((3,)), among=[0], mechanism=LAW)
    twice = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    told = [(b.spend.verb, b.spend.answers, b.spend.l1, b.spend.l2_squared) for b in run.record().spends]
    assert told == [
        ("measure", 2, rows * twice, rows**2 * twice),
        ("score", 2, rows * twice, (rows * twice) ** 2),
        ("choose", 1, rows * twice, (rows * twice) ** 2),
    ]


def test_choices_are_drawn_at_the_rate_of_the_unit(tmp_path):
    """Weights exp(ε·score/2Δ): the 2 because scores move both ways, Δ for three rows replaced is 6."""
    rates = []

    class Ear(ExactNoise):
        __slots__ = ()

        def pick(self, scores, *, rate):
            rates.append((rate, scores.tolist()))
            return 0

    unit = PrivacyUnit(rows=3, id="p", neighbours=Neighbours.REPLACE_ONE)
    door, _ = make(tmp_path, unit=unit, noise=Ear(RehearsalEntropy(1)))
    guess = np.array([5, 0, 0])
    door.choose(Candidates((Marginal(("a",)),), (guess,), (2,)), among=[0], mechanism=LAW)
    # Rows 0, 1, 1 against the guess 5, 0, 0: |1 − 5| + |2 − 0| − 2 = 4, and a 0 for choosing none.
    assert rates == [(Fraction(1, 10) / 12, [4, 0])]


def test_secrecy_goes_by_type_not_by_claim(tmp_path):
    class Silent:
        secret = True

        def add(self, exact, *, mechanism):
            return exact

        def pick(self, scores, *, rate):
            return int(scores.argmax())

    class Sly(SystemEntropy):
        pass

    class Narrow(ExactNoise):
        def add(self, exact, *, mechanism):
            return exact

    assert is_secret(ExactNoise(SystemEntropy()))
    for source in (Silent(), Narrow(SystemEntropy()), ExactNoise(Sly()), ExactNoise(RehearsalEntropy(1))):
        assert not is_secret(source)
        with pytest.raises(UsageError, match="rehearsal"):
            make(tmp_path, rehearsal=False, noise=source)
    with pytest.raises(UsageError, match="rehearsal"):
        make(tmp_path, rehearsal=True, noise=ExactNoise(SystemEntropy()))


def test_candidates_cannot_make_a_score_wrap_around():
    pair = (Marginal(("a",)),)
    for estimate, penalty in (
        (np.array([-(2**63) + 1, 0, 0]), 0),
        (np.array([0, MAX_ESTIMATE_ROWS, 1]) * 2, 0),
    ):
        with pytest.raises(UsageError, match="rows"):
            Candidates(pair, (estimate,), (penalty,))
    with pytest.raises(UsageError, match="rows"):
        Candidates(pair, (np.zeros(3, np.int64),), (2**61,))
    with pytest.raises(UsageError, match="whole"):
        Candidates(pair, (np.zeros(3),), (0,))
    with pytest.raises(UsageError, match="one of each"):
        Candidates(pair, (), (0,))


def test_a_column_has_at_most_one_grouping():
    twice = (Grouping("a", (0, 1, 2)), Grouping("a", (0, 0, 0)))
    for clique, groupings in ((("a",), twice), (("b",), twice[:1])):
        with pytest.raises(UsageError, match="groups"):
            Marginal(clique, groupings)
    with pytest.raises(UsageError, match="twice"):
        Marginal(("a", "a"))
    with pytest.raises(UsageError, match="skips"):
        Grouping("a", (0, 2))


def test_private_objects_say_nothing_and_are_never_pickled(tmp_path):
    import pickle

    door, _ = make(tmp_path)
    for thing in (door, door._table):
        assert "3" not in repr(thing)
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(thing)
