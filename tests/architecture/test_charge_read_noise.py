"""Invariant 2: charge, then read, then noise. Spies on the ledger, the rows and the noise write down the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from populace.core.errors import DataError, InternalError, OverBudget, ResourceError
from populace.core.marginals import Candidates, Marginal
from populace.measurements.measurements import Measurement
from populace.privacy.accounting.fixed_point import LOG_STEPS, STEPS
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Exponential, PartitionSelection
from populace.privacy.ledger.ledger import Ledger, Run
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.sensitivity.poststratification import Binning
from populace.privacy.smooth.smooth_distributions import PolyPlace
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.private.read.value_counts import Tally
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.columns.unknown_columns import UnknownValues
from populace.schema.schema import Schema
from populace.survey.smooth_questions import BinChoice, WeightedQuestion
from populace.survey.sums import Sum

CODED = Schema.from_sizes({"a": 2, "b": 3})
SCHEMA = Schema(columns={**CODED.columns, "city": UnknownValues(name="city")})
MARGINAL = Marginal(("a", "b"))
LITTLE_NOISE, MUCH_NOISE = DiscreteGaussian(Fraction(1, 100)), DiscreteGaussian(Fraction(10_000))


@dataclass
class Street:
    """A barrier over a tiny table, and the list of what happened in which order."""

    path: Path
    events: list[str] = field(default_factory=list)
    crash: bool = False

    def barrier(self, kind: type[Barrier] = Barrier) -> Barrier:
        ledger = Ledger.open(self.path)
        run = ledger.reserve(
            "spied",
            epsilon=Fraction(1),
            delta=Fraction(1, 10**9),
            unit=SCHEMA.unit,
            method="spy",
            schema_digest=SCHEMA.digest,
            rehearsal=True,
            keys=Fraction(1, 10**10),
        )
        table = PrivateTable(
            self._read, schema=SCHEMA, read_tallies=self._tell, read_survey_rows=self._survey
        )
        return kind(table, run=SpyRun(self, run), noise=SpyNoise(self))

    def _read(self) -> SpyEngine:
        # Whoever wants the engine has the rows read.
        self.seen()
        return SpyEngine(self)

    def _tell(self) -> dict[str, Tally]:
        self.seen()
        return {"city": Tally(np.array(["Bonn", "Ulm"]), np.array([1, 2]))}

    def _survey(self) -> SurveyRows:
        self.seen()
        codes = {"a": np.array([0, 1, 1], np.uint8), "b": np.array([2, 0, 0], np.uint8)}
        return SurveyRows(codes=codes, numbers={name: own.astype(np.float64) for name, own in codes.items()})

    def seen(self) -> None:
        """Write down that rows were read, and die of it if asked to."""
        self.events.append(f"read with {self.booked} on disk")
        if self.crash:
            raise ValueError("the machine dies")

    @property
    def booked(self) -> int:
        """How many spends a newly opened ledger finds on disk."""
        ledger = Ledger.existing(self.path)
        return sum(len(ledger.record(run).spends) for run in ledger.account("spied").runs)


class SpyRun:
    def __init__(self, street: Street, run: Run) -> None:
        self._street, self._run = street, run
        self.rehearsal, self.left, self.id = run.rehearsal, run.left, run.id

    def charge(self, *spends: Any) -> None:
        self._run.charge(*spends)
        self._street.events.append("charge")


class SpyEngine:
    def __init__(self, street: Street) -> None:
        self._street = street
        codes = {
            "a": np.array([0, 1, 1], np.uint8),
            "b": np.array([2, 0, 0], np.uint8),
            "city": np.zeros(3, np.uint8),
        }
        self._engine = MemoryEngine(codes, domain=SCHEMA.domain)

    def prepare(self, marginals: Any, *, memory: int) -> None:
        self._street.seen()
        self._engine.prepare(marginals, memory=memory)

    def counts(self, marginals: Any) -> Any:
        self._street.seen()
        return self._engine.counts(marginals)

    def tally(self) -> Any:
        self._street.seen()
        return self._engine.tally()


class SpyNoise(ExactNoise):
    def __init__(self, street: Street) -> None:
        super().__init__(RehearsalEntropy(1))
        self._street = street

    def add(self, exact: Any, *, mechanism: Any) -> Any:
        self._street.events.append("noise")
        return super().add(exact, mechanism=mechanism)

    def pick(self, scores: Any, *, rate: Any) -> int:
        self._street.events.append("noise")
        return super().pick(scores, rate=rate)

    def reveal(self, keys: Any, counts: Any, *, mechanism: Any) -> Any:
        self._street.events.append("noise")
        return super().reveal(keys, counts, mechanism=mechanism)

    def smooth(self, exact: Any, bound: Any, *, mechanism: Any, lattice: Any) -> Any:
        self._street.events.append("noise")
        return super().smooth(exact, bound, mechanism=mechanism, lattice=lattice)


FAR = Binning(name="apart", bins=((0,), (1,)))
TOTALS = (Fraction(10), Fraction(20))
COUNT = WeightedQuestion(by=Marginal(("a",)), binning=FAR, populations=TOTALS, beta=Fraction(1, 100))
CHOICE = BinChoice(by=Marginal(("a",)), binnings=(FAR,), populations=TOTALS)


def smooth_law(noise: DiscreteGaussian) -> SmoothNoise:
    s = Fraction(9) if noise is LITTLE_NOISE else Fraction(1, 100)
    return SmoothNoise(distribution=PolyPlace(Fraction(3)), s=s, t=COUNT.beta)


def candidates() -> Candidates:
    return Candidates((MARGINAL,), (np.ones((2, 3), np.int64),), (0,))


QUESTIONS: dict[str, Callable[[Barrier, DiscreteGaussian], object]] = {
    "measure": lambda barrier, noise: barrier.measure([MARGINAL], noise=noise),
    "measure batches": lambda barrier, noise: barrier.measure_batches(
        [([MARGINAL], MUCH_NOISE), ([Marginal(("a",))], noise)]
    ),
    "score": lambda barrier, noise: barrier.score(candidates(), noise=noise),
    "choose": lambda barrier, noise: barrier.choose(
        candidates(), among=[0], mechanism=Exponential(Fraction(100 if noise is LITTLE_NOISE else "1/100"))
    ),
    "find far": lambda barrier, noise: barrier.find_far(
        candidates(), among=[0], mechanism=Exponential(Fraction(100 if noise is LITTLE_NOISE else "1/100"))
    ),
    "discover values": lambda barrier, noise: barrier.discover_values(
        "city", mechanism=PartitionSelection(DiscreteGaussian(noise.variance), 10**4)
    ),
    "discover rows": lambda barrier, noise: barrier.discover_rows(mechanism=PartitionSelection(noise, 10**4)),
    "sums": lambda barrier, noise: barrier.sum_batches(
        [([Sum(by=Marginal(("a",)))], DiscreteGaussian(noise.variance * STEPS**2))]
    ),
    "smooth": lambda barrier, noise: barrier.smooth(COUNT, mechanism=smooth_law(noise), lattice=Fraction(1)),
    "bound size": lambda barrier, noise: barrier.bound_size(
        COUNT, noise=DiscreteGaussian(noise.variance * LOG_STEPS**2)
    ),
    "choose bins": lambda barrier, noise: barrier.choose_bins(
        CHOICE, mechanism=Exponential(Fraction(100 if noise is LITTLE_NOISE else "1/100"))
    ),
    "discover bins": lambda barrier, noise: barrier.discover_bins(
        "b", groups=np.array([0, 1, 1]), noise=noise
    ),
}


def out_of_order(events: list[str]) -> list[str]:
    """Return what is wrong with the order of one question's events."""
    kinds = [event.split()[0] for event in events]
    wrong = []
    if kinds[:1] != ["charge"]:
        wrong.append("the first event is not the charge")
    if any(event == "read with 0 on disk" for event in events):
        wrong.append("rows were read before the charge was on disk")
    if "noise" in kinds and "read" in kinds[kinds.index("noise") :]:
        wrong.append("rows were read after noise was drawn")
    if kinds[-1:] != ["noise"]:
        wrong.append("the last event is not noise")
    return wrong


@pytest.mark.parametrize("question", QUESTIONS)
def test_charge_then_read_then_noise(question: str, tmp_path: Path) -> None:
    street = Street(tmp_path / "ledger.db")
    QUESTIONS[question](street.barrier(), MUCH_NOISE)
    assert out_of_order(street.events) == []
    assert street.booked == (2 if question == "measure batches" else 1)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_refused_question_has_read_nothing(question: str, tmp_path: Path) -> None:
    street = Street(tmp_path / "ledger.db")
    with pytest.raises(OverBudget):
        QUESTIONS[question](street.barrier(), LITTLE_NOISE)
    assert street.events == []
    assert street.booked == 0


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_crash_after_the_charge_is_paid_for(question: str, tmp_path: Path) -> None:
    street = Street(tmp_path / "ledger.db", crash=True)
    with pytest.raises(InternalError) as failure:
        QUESTIONS[question](street.barrier(), MUCH_NOISE)
    assert str(failure.value) == str(InternalError())
    assert nothing_hangs_on(failure.value)
    assert street.booked == (2 if question == "measure batches" else 1)
    account = Ledger.existing(street.path).account("spied")
    assert account.left_epsilon == 0, "the whole reservation stays taken"


def nothing_hangs_on(failure: BaseException) -> bool:
    """Whether an error carries no other error, and no frame of the private side but the one that hushed it."""
    frames, traceback = set(), failure.__traceback__
    while traceback is not None:
        frames.add(Path(traceback.tb_frame.f_code.co_filename).name)
        traceback = traceback.tb_next
    told = failure.__cause__ is None and failure.__context__ is None
    return told and frames <= {"redact.py", Path(__file__).name}


class Panic(BaseException):
    """What libraries raise that are written in other languages: no Exception."""


LOUD = {
    "memory": (MemoryError("Unable to allocate an array of 3 rows"), ResourceError),
    "overflow": (OverflowError("3 is too large"), InternalError),
    "key": (KeyError("Ulm"), InternalError),
    "arithmetic": (ZeroDivisionError("3 rows"), InternalError),
    "ours": (DataError("the data cannot be read as a table.", hint="check it"), DataError),
    "a panic": (Panic("3 rows of Ulm"), InternalError),
    "an interruption": (KeyboardInterrupt(), KeyboardInterrupt),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", LOUD)
def test_a_failure_says_nothing_about_rows(
    question: str, kind: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """All verbs, all kinds of errors: a fixed text, and nothing that hangs on it."""
    loud, plain = LOUD[kind]

    def fail(self: Street) -> None:
        try:
            raise ValueError("row 3: Ulm")
        except ValueError:
            raise loud  # noqa: B904

    monkeypatch.setattr(Street, "seen", fail)
    with pytest.raises(plain) as failure:
        QUESTIONS[question](Street(tmp_path / "ledger.db").barrier(), MUCH_NOISE)
    assert "3" not in str(failure.value)
    assert "Ulm" not in str(failure.value)
    assert nothing_hangs_on(failure.value)


def test_those_who_debug_see_what_failed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("POPULACE_DEBUG", "1")
    with pytest.raises(ValueError, match="dies"):
        QUESTIONS["measure"](Street(tmp_path / "ledger.db", crash=True).barrier(), MUCH_NOISE)


class ReadsFirst(Barrier):
    """A barrier that looks before it pays."""

    __slots__ = ()

    def measure(self, marginals: Any, *, noise: Any) -> tuple[Measurement, ...]:
        self._table.engine().counts(marginals)
        return super().measure(marginals, noise=noise)


class ForgetsNoise(Barrier):
    """A barrier that answers with exact counts."""

    __slots__ = ()

    def measure(self, marginals: Any, *, noise: Any) -> tuple[Measurement, ...]:
        super().measure(marginals, noise=noise)
        exact = self._table.engine().counts(marginals)
        return tuple(Measurement(m, c, noise.variance) for m, c in zip(marginals, exact, strict=True))


class NeverPays(Barrier):
    """A barrier that does not charge."""

    __slots__ = ()

    def measure(self, marginals: Any, *, noise: Any) -> tuple[Measurement, ...]:
        exact = self._table.engine().counts(marginals)
        return tuple(
            Measurement(m, self._noise.add(c, mechanism=noise), noise.variance)
            for m, c in zip(marginals, exact, strict=True)
        )


@pytest.mark.parametrize("kind", [ReadsFirst, ForgetsNoise, NeverPays])
def test_the_order_check_sees_a_violation(kind: type[Barrier], tmp_path: Path) -> None:
    street = Street(tmp_path / "ledger.db")
    QUESTIONS["measure"](street.barrier(kind), MUCH_NOISE)
    assert out_of_order(street.events) != []


def test_the_refusal_check_sees_a_violation(tmp_path: Path) -> None:
    street = Street(tmp_path / "ledger.db")
    with pytest.raises(OverBudget):
        QUESTIONS["measure"](street.barrier(ReadsFirst), LITTLE_NOISE)
    assert street.events != []
