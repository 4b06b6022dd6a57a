"""All verbs of the barrier: each answer is charged for and has noise of its own, however often it was given before."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from inspect import isfunction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Candidates, Marginal
from populace.measurements.measurements import Measurement
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    ExponentialCount,
    PartitionSelection,
)
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.sensitivity.poststratification import Binning
from populace.privacy.smooth.smooth_distributions import PolyPlace
from populace.privacy.smooth.smooth_noise import LN_2, SmoothNoise
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.private.read.value_counts import Tally
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.columns.unknown_columns import UnknownValues
from populace.schema.schema import Schema
from populace.survey.smooth_questions import (
    BinChoice,
    Donors,
    ImputedQuestion,
    ImputedStatistic,
    WeightedQuestion,
)
from populace.survey.sums import Sum, SumFactor
from tests.audit.transcripts import Workspace
from tests.helpers import geographies

SCHEMA = Schema(
    columns={**Schema.from_sizes({"a": 2, "b": 3}).columns, "city": UnknownValues(name="city")},
)
CODES = {"a": np.array([0, 1, 1], np.uint8), "b": np.array([2, 0, 0], np.uint8)}
# So wide that two draws of it agree about once in 10⁹ times; seeds are fixed.
WIDE, OTHER = DiscreteGaussian(Fraction(10**18)), DiscreteLaplace(Fraction(10**9))
RANGE = ExponentialCount(Fraction(10**9), 10**12)
KEYS = PartitionSelection(DiscreteLaplace(Fraction(1)), 60)
A, B = Marginal(("a",)), Marginal(("b",))
ESTIMATES = {A: np.array([5, 0]), B: np.array([1, 1, 1])}
ROWS, AGES = Sum(by=A), Sum(by=B, factors=(SumFactor(column="b", low=Fraction(0), high=Fraction(2)),))
APART = Binning(name="apart", bins=((0,), (1,)))
TOTALS = (Fraction(10), Fraction(20))
COUNT = WeightedQuestion(by=A, binning=APART, populations=TOTALS, beta=LN_2)
SMOOTH = SmoothNoise(distribution=PolyPlace(Fraction(4)), s=Fraction(1, 10**6), t=LN_2)
CHOICE = BinChoice(by=A, binnings=(APART, Binning(name="whole", bins=((0, 1),))), populations=TOTALS)
CHOSEN = Exponential(Fraction(1, 10))


class Ear(ExactNoise):
    """Draws, and keeps what met noise of which law, what came of it, and the noise of each cell."""

    __slots__ = ("cells", "drawn", "exact", "laws", "told")

    def __init__(self) -> None:
        super().__init__(RehearsalEntropy(1))
        self.cells: list[int] = []
        self.told: list[Any] = []
        self.drawn: list[Any] = []
        self.exact: list[Any] = []
        self.laws: list[Any] = []

    def _keep(self, cells: int, told: Any) -> Any:
        self.cells.append(cells)
        self.told.append(plain(told))
        return told

    def add(self, exact, *, mechanism):
        told = super().add(exact, mechanism=mechanism)
        self.drawn += (told - exact).ravel().tolist()
        self.exact.append(exact.tolist())
        self.laws.append(mechanism)
        return self._keep(exact.size, told)

    def pick(self, scores, *, rate):
        return self._keep(1, super().pick(scores, rate=rate))

    def reveal(self, keys, counts, *, mechanism):
        return self._keep(counts.size, super().reveal(keys, counts, mechanism=mechanism))

    def smooth(self, exact, bound, *, mechanism, lattice):
        told = super().smooth(exact, bound, mechanism=mechanism, lattice=lattice)
        self.drawn.append(told - exact)
        return self._keep(1, told)


def plain(answer: Any) -> Any:
    """Return an answer as something that can be compared."""
    if isinstance(answer, Measurement):
        return plain(answer.counts)
    if isinstance(answer, np.ndarray):
        return (answer.shape, tuple(answer.ravel().tolist()))
    if isinstance(answer, dict | MappingProxyType):
        return tuple(sorted(answer.items()))
    return answer


def candidates(*marginals: Marginal) -> Candidates:
    return Candidates(marginals, tuple(ESTIMATES[each] for each in marginals), (0,) * len(marginals))


def sees(name: str, *values: Any) -> Callable[[Barrier], list[Any]]:
    """Return a question of a verb that answers once."""
    return lambda door: [getattr(door, name)(*values[:-1], **values[-1])]


# For each verb: the same question about one thing, about the same thing three times, and how many answers that is.
Question = Callable[[Barrier], list[Any]]
ONE, THRICE = candidates(A), candidates(A, A, A)
VERBS: dict[str, tuple[Question, Question, int]] = {
    "measure": (
        lambda door: list(door.measure([A], noise=WIDE)),
        lambda door: list(door.measure([A, A, A], noise=WIDE)),
        3,
    ),
    "measure_batches": (
        lambda door: list(door.measure_batches([([A], OTHER)])),
        lambda door: list(door.measure_batches([([A, A], OTHER), ([A], OTHER)])),
        3,
    ),
    "score": (
        lambda door: [door.score(ONE, noise=WIDE)],
        lambda door: [door.score(THRICE, noise=WIDE)],
        3,
    ),
    "sum_batches": (
        lambda door: list(door.sum_batches([([ROWS], WIDE)])),
        lambda door: list(door.sum_batches([([ROWS, ROWS], WIDE), ([ROWS], WIDE)])),
        3,
    ),
    "choose": (sees("choose", ONE, {"among": [0], "mechanism": CHOSEN}),) * 2 + (1,),
    "find_far": (sees("find_far", ONE, {"among": [0], "mechanism": CHOSEN}),) * 2 + (1,),
    "discover_values": (sees("discover_values", "city", {"mechanism": KEYS}),) * 2 + (1,),
    "discover_rows": (sees("discover_rows", {"mechanism": KEYS}),) * 2 + (1,),
    "discover_bins": (sees("discover_bins", "b", {"groups": np.array([0, 1, 1]), "noise": WIDE}),) * 2 + (1,),
    "smooth": (sees("smooth", COUNT, {"mechanism": SMOOTH, "lattice": Fraction(1)}),) * 2 + (1,),
    "bound_size": (sees("bound_size", COUNT, {"noise": WIDE}),) * 2 + (1,),
    "choose_bins": (sees("choose_bins", CHOICE, {"mechanism": CHOSEN}),) * 2 + (1,),
}
# Choices have few answers and may well agree; keys are told without a threshold's worth of noise.
FEW = ("choose", "find_far", "choose_bins", "discover_values", "discover_rows")


class Asked:
    """A barrier with a ledger, and a noise source that listens."""

    def __init__(self, kind: type[Barrier] = Barrier) -> None:
        self.run = Workspace().reserve(
            "d",
            epsilon=Fraction(10**6),
            delta=Fraction(1, 10),
            unit=SCHEMA.unit,
            method="test",
            schema_digest=SCHEMA.digest,
            rehearsal=True,
            keys=Fraction(1, 20),
        )
        counts = np.array([500, 900, 900])
        table = PrivateTable(
            lambda: MemoryEngine({**CODES, "city": np.zeros(3, np.uint8)}, domain=SCHEMA.domain),
            schema=SCHEMA,
            read_tallies=lambda: {"city": Tally(np.array(["Bonn", "Köln", "Ulm"]), counts)},
            read_survey_rows=lambda: SurveyRows(
                codes=CODES, numbers={name: own.astype(np.float64) for name, own in CODES.items()}
            ),
        )
        self.ear = Ear()
        self.door = kind(table, run=self.run, noise=self.ear)

    @property
    def paid(self) -> tuple[int, Fraction, Fraction]:
        """How many answers were booked, what they cost, and their part of δ."""
        booked = self.run.record().spends
        return (
            sum(each.spend.answers for each in booked),
            sum((each.price for each in booked), Fraction(0)),
            sum((each.delta for each in booked), Fraction(0)),
        )


def check_verb(name: str, *, kind: type[Barrier] = Barrier) -> None:
    """Ask one thing, the same again, an equal one, and three that are alike: each is paid and has its noise."""
    single, several, count = VERBS[name]
    once = Asked(kind)
    first = single(once.door)
    answers, price, delta = once.paid
    assert answers == 1
    assert price > 0
    assert (delta > 0) is (name in ("discover_values", "discover_rows"))
    cells = once.ear.cells
    asked = Asked(kind)
    told = []
    for times in (1, 2, 3):
        told += single(asked.door)
        assert asked.paid == (times, times * price, times * delta), (
            "an answer was not charged as the first was"
        )
        assert asked.ear.cells == cells * times, "an answer met other noise than the first"
    told += several(asked.door)
    assert asked.paid == (3 + count, (3 + count) * price, (3 + count) * delta), "answers alike cost less"
    assert sum(asked.ear.cells) == (3 + count) * sum(cells), "answers alike share their noise"
    heard = [plain(each) for each in told]
    # To choose nothing is what stands for numbers beyond the candidates.
    drawn = [None if name in ("choose", "find_far") and each == 1 else each for each in asked.ear.told]
    assert heard == drawn, "what is told is not what met noise"
    if name not in FEW:
        assert len(asked.ear.drawn) == sum(asked.ear.cells)
        assert len(set(asked.ear.drawn)) == len(asked.ear.drawn), "two cells or answers have the same noise"
    assert plain(first[0]) == heard[0]


@pytest.mark.parametrize("name", VERBS)
def test_the_same_question_again_is_charged_and_noised_again(name):
    check_verb(name)


# Verbs without noise: each has a check of its own that it is booked, every time, and refused where neighbours differ.
EXACT_VERBS = {"publish_totals"}


def check_exact_verb() -> None:
    """Ask for exact totals again and again: each time is booked and free, and no noise is drawn."""
    schema = geographies.make_schema()
    run = geographies.reserve(Workspace(), schema)
    ear = Ear()
    door = Barrier(geographies.make_table(schema), run=run, noise=ear)
    for times, level in enumerate(["county", "county", "all", "county"], start=1):
        found = door.publish_totals(level)
        assert found.counts.tolist() == (4 if level == "all" else [3, 1])
        assert [len(run.record().invariants), len(run.record().spends), run.record().used] == [times, 0, 0]
    assert ear.cells == []
    plain = geographies.make_schema(invariants=())
    run = geographies.reserve(Workspace(), plain)
    door = Barrier(geographies.make_table(plain), run=run, noise=ear)
    for level in ("all", "county"):
        with pytest.raises(UsageError):
            door.publish_totals(level)


def test_exact_totals_are_booked_every_time():
    check_exact_verb()


def test_all_verbs_are_listed():
    """A new verb of the barrier must be asked twice above before it can be merged."""
    verbs = {name for name, member in vars(Barrier).items() if isfunction(member) and name[0] != "_"}
    assert verbs == set(VERBS) | EXACT_VERBS


def test_a_choice_among_duplicates_is_one_answer_with_the_weight_of_both():
    asked = Asked()
    asked.door.choose(candidates(A, A), among=[0, 1], mechanism=CHOSEN)
    asked.door.choose(candidates(A, A), among=[0, 0], mechanism=CHOSEN)
    assert asked.paid[0] == 2


def check_laws() -> None:
    """Each answer of a batch has the noise of its own batch, and is booked with it."""
    asked = Asked()
    asked.door.measure_batches([([A, B], WIDE), ([A], OTHER), ([B], RANGE)])
    asked.door.sum_batches([([ROWS], OTHER), ([AGES, ROWS], WIDE)])
    laws = [WIDE, WIDE, OTHER, RANGE, OTHER, WIDE, WIDE]
    assert asked.ear.laws == laws
    booked = [each.spend for each in asked.run.record().spends]
    assert [spend.mechanism for spend in booked for _ in range(spend.answers)] == laws


def check_scores() -> None:
    """Scores are those of the candidates that were asked about, not of others about the same marginals."""
    asked = Asked()
    slates = [
        Candidates((A, B), (np.array([5, 0]), np.array([1, 1, 1])), (0, 4)),
        Candidates((A, B), (np.array([0, 0]), np.array([2, 0, 1])), (0, 4)),
        Candidates((A, B), (np.array([0, 0]), np.array([2, 0, 1])), (1, 0), (3, 2)),
    ]
    for each in (*slates, slates[0], slates[0]):
        asked.door.score(each, noise=WIDE)
    # Rows are a = 0, 1, 1 and b = 2, 0, 0.
    assert asked.ear.exact == [[6, -2], [3, -4], [8, 0], [6, -2], [6, -2]]


def test_each_answer_has_the_noise_of_its_batch():
    check_laws()


def test_scores_are_those_of_what_was_asked():
    check_scores()


@pytest.mark.parametrize("mechanism", [WIDE, OTHER, RANGE], ids=["Gaussian", "Laplace", "range"])
@pytest.mark.parametrize("shape", [(64,), (8, 8), (1,)], ids=str)
def test_every_cell_and_every_answer_has_its_own_draw(mechanism, shape):
    """No two of 192 draws agree, in one answer or across answers, nor do those of two sources."""
    exact = np.full(shape, 5 * 10**11)
    one, other = (ExactNoise(RehearsalEntropy(seed)) for seed in (1, 2))
    drawn = np.concatenate([source.add(exact, mechanism=mechanism).ravel() for source in (one, one, other)])
    # Draws at the ends of a range are alike.
    inside = drawn[(drawn > 0) & (drawn < 10**12)]
    assert len(inside) > 0.9 * drawn.size
    assert len(np.unique(inside)) == len(inside)


def test_every_key_has_its_own_draw():
    mechanism = PartitionSelection(OTHER, 10)
    told = ExactNoise(RehearsalEntropy(1)).reveal(np.arange(50), np.full(50, 10**12), mechanism=mechanism)
    assert len(told) == len(set(told.values())) == 50


# ------------------------------------------------------------------------------------- the test can fail


class ScoresFreeAgain(Barrier):
    """Distances to the same estimates are told again for nothing."""

    __slots__ = ()

    def score(self, asked, *, noise):
        if asked is self._scored:
            return self._noise.add(self._exact_scores(asked), mechanism=noise)
        return super().score(asked, noise=noise)


class SumsOnce(Barrier):
    """Equal sums of a batch are charged once."""

    __slots__ = ()

    def sum_batches(self, batches):
        single = [(tuple(dict.fromkeys(sums)), noise) for sums, noise in batches]
        found = iter(super().sum_batches(single))
        each = {one: next(found) for sums, _ in single for one in sums}
        return tuple(each[one] for sums, _ in batches for one in sums)


class Remembers(Barrier):
    """An answer that was paid for is told again."""

    __slots__ = ("kept",)

    def bound_size(self, question, *, noise):
        if not hasattr(self, "kept"):
            self.kept = super().bound_size(question, noise=noise)
        return self.kept


class OneNoiseForAll(Barrier):
    """All cells of a sum have the noise of the first."""

    __slots__ = ()

    def discover_bins(self, column, *, groups, noise):
        told = super().discover_bins(column, groups=groups, noise=noise)
        return np.full_like(told, told[0])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("score", ScoresFreeAgain),
        ("sum_batches", SumsOnce),
        ("bound_size", Remembers),
        ("discover_bins", OneNoiseForAll),
    ],
)
def test_an_answer_for_nothing_is_seen(name, kind):
    with pytest.raises(AssertionError):
        check_verb(name, kind=kind)


def test_batches_of_sums_that_are_booked_alike_are_all_paid():
    """Two batches of as many sums, under one distribution, look the same in the books: both are there."""
    once, asked = Asked(), Asked()
    once.door.sum_batches([([ROWS, AGES], WIDE)])
    asked.door.sum_batches([([ROWS, AGES], WIDE), ([AGES, ROWS], WIDE), ([ROWS, AGES], WIDE)])
    answers, price, _ = once.paid
    assert asked.paid == (3 * answers, 3 * price, 0)


FILLED = ImputedQuestion(
    statistic=ImputedStatistic.FREQUENCY,
    donors=Donors(column="a", match=B, low=Fraction(0), high=Fraction(1), default=Fraction(0)),
)
ABOUT_THE_SAME_DONORS = [
    replace(FILLED, between=(Fraction(1), Fraction(1))),
    replace(FILLED, statistic=ImputedStatistic.SUM),
    replace(FILLED, statistic=ImputedStatistic.SQUARES, size=Fraction(2)),
]


@pytest.mark.parametrize("verb", ["smooth", "bound_size"])
@pytest.mark.parametrize("other", ABOUT_THE_SAME_DONORS, ids=["range", "sum", "squares"])
def test_questions_about_the_same_donors_are_each_paid(other, verb):
    """What was filled is kept for further questions; their answers are not free for that."""
    how: dict[str, Any] = (
        {"mechanism": SMOOTH, "lattice": Fraction(1)} if verb == "smooth" else {"noise": WIDE}
    )
    asked = Asked()
    for times, question in enumerate([FILLED, other, FILLED, other], start=1):
        getattr(asked.door, verb)(question, **how)
        assert asked.paid[0] == len(asked.ear.cells) == times
    # The size of a bound and the answer that follows it are two answers.
    getattr(asked.door, "bound_size" if verb == "smooth" else "smooth")(
        FILLED, **({"noise": WIDE} if verb == "smooth" else {"mechanism": SMOOTH, "lattice": Fraction(1)})
    )
    assert asked.paid[0] == 5


@pytest.mark.parametrize("mechanism", [WIDE, OTHER, RANGE], ids=["Gaussian", "Laplace", "within"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (2,) * 5], ids=str)
def test_every_cell_of_a_table_has_its_own_draw(shape, mechanism):
    """Whatever its shape: noise that is shared by the slices of a table cancels between them."""
    ear = Ear()
    ear.add(np.full(shape, 10**11), mechanism=mechanism)
    assert len(ear.drawn) == len(set(ear.drawn)) == math.prod(shape)
