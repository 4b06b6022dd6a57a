"""Learning values through the barrier: what is told and how often, what is refused, what is charged."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from populace.api.measure import measure
from populace.core.errors import InternalError, OverBudget, UsageError
from populace.core.marginals import Marginal
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, PartitionSelection
from populace.privacy.accounting.partition_selection import delta_price
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.privacy_units import exact_totals, invariants_of, make_unit

pytestmark = pytest.mark.sampled(6)

SCHEMA = """
[table]
unit = "person"
{unit}

[columns.city]
kind = "categorical"
values = "learn"
missing = ["R", " 99 "]
other = "elsewhere"

[columns.age]
kind = "integer"
min = 0
max = 9
"""
LAW = PartitionSelection(DiscreteGaussian(Fraction(9, 4)), 12)
CERTAIN = PartitionSelection(DiscreteGaussian(Fraction(1, 100)), 3)
BY_PERSON = 'id = "person"\nrows_per_unit = 3'


def door(tmp_path: Path, cities, *, law_source=None, unit="", ids=None, order=None, name="d"):
    """A barrier over a table of cities, with a rehearsed budget that is never short."""
    schema = Schema.parse(SCHEMA.format(unit=unit))
    columns = {"city": pa.array(cities, pa.string()), "age": pa.array([n % 10 for n in range(len(cities))])}
    if ids is not None:
        columns["person"] = pa.array(ids, pa.string())
    frame = pa.table(columns)
    frame = frame if order is None else frame.take(pa.array(order))
    run = Ledger.open(tmp_path / "ledger.db").reserve(
        name,
        epsilon=Fraction(10**4),
        delta=Fraction(1, 2),
        unit=schema.unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=True,
        keys=Fraction(49, 100),
    )
    source = law_source or ExactNoise(RehearsalEntropy(1))
    return Barrier(PrivateTable.of(frame, schema=schema), run=run, noise=source), run


# ------------------------------------------------------------------------------------------ how often


class Faulty(ExactNoise):
    """A noise source that draws at another scale, or cuts at another threshold, than it is told."""

    __slots__ = ("_factor", "_higher")

    def __init__(self, seed: int, *, factor: Fraction = Fraction(1), higher: int = 0) -> None:
        super().__init__(RehearsalEntropy(seed))
        self._factor, self._higher = factor, higher

    def reveal(self, keys, counts, *, mechanism):
        return super().reveal(
            keys,
            counts,
            mechanism=PartitionSelection(
                DiscreteGaussian(mechanism.variance * self._factor**2), mechanism.threshold + self._higher
            ),
        )


def probability(count: int, mechanism: PartitionSelection) -> float:
    """P[count + Z > T], summed in floats."""
    z = np.arange(-60, 61)
    weight = np.exp(-(z**2) / (2 * float(mechanism.variance)))
    return float(weight[count + z > mechanism.threshold].sum() / weight.sum())


FAULTS = {
    "right": ({}, True),
    "halved noise": ({"factor": Fraction(1, 2)}, False),
    "doubled noise": ({"factor": Fraction(2)}, False),
    "threshold one lower": ({"higher": -1}, False),
    "threshold one higher": ({"higher": 1}, False),
}


@pytest.mark.parametrize(("fault", "fits"), FAULTS.values(), ids=FAULTS)
def test_keys_are_told_as_often_as_the_booked_law_says(fault, fits, tmp_path):
    """1,000 keys at each count from T − 3 to T + 4; how many are told has a binomial law.

    Bounds at 5 standard errors for each of 8 counts: false alarms below 1e-5 in all, and the seed is fixed.
    """
    each, counts = 1000, range(LAW.threshold - 3, LAW.threshold + 5)
    cities = [f"{count}:{n}" for count in counts for n in range(each) for _ in range(count)]
    barrier, run = door(tmp_path, cities, law_source=Faulty(7, **fault))
    found = barrier.discover_values("city", mechanism=LAW)
    mechanism = run.record().spends[-1].spend.mechanism
    assert mechanism == LAW
    outside = 0
    for count in counts:
        chance = probability(count, mechanism)
        times = sum(key.startswith(f"{count}:") for key in found)
        outside += abs(times - each * chance) > 5 * math.sqrt(each * chance * (1 - chance)) + 1
    assert (outside == 0) is fits


@pytest.mark.parametrize(("fault", "fits"), list(FAULTS.values())[:3], ids=list(FAULTS)[:3])
def test_told_counts_carry_the_booked_noise(fault, fits, tmp_path):
    """2,000 keys far above the threshold: the variance of their noise, to 6 standard errors (false alarms < 1e-8)."""
    barrier, _ = door(
        tmp_path, [f"k{n}" for n in range(2000) for _ in range(60)], law_source=Faulty(3, **fault)
    )
    found = barrier.discover_values("city", mechanism=LAW)
    squares = (np.array(list(found.values())) - 60.0) ** 2
    spread = float(LAW.variance)
    assert len(found) == 2000
    assert bool(abs(squares.mean() - spread) < 6 * spread * math.sqrt(2 / 2000)) is fits


def test_a_key_that_does_not_occur_is_never_told():
    """Even noise that lifts everything above the threshold tells nothing of a key without rows."""
    source = ExactNoise(RehearsalEntropy(1))
    wide = PartitionSelection(DiscreteGaussian(Fraction(10**6)), 1)
    for _ in range(50):
        assert source.reveal(["absent", "here"], np.array([0, 10**5]), mechanism=wide).keys() == {"here"}
    assert source.reveal([], np.zeros(0, dtype=np.int64), mechanism=wide) == {}


# ------------------------------------------------------------------------------------------ what is a key


def test_texts_are_told_as_they_will_be_read(tmp_path):
    """Trimmed and composed; special, empty, unprintable and very long texts are no keys."""
    cities = [
        *["Ulm", " Ulm", "Ulm\t", "Ulm "] * 3,
        *["Mu\u0308nchen", "M\u00fcnchen"] * 5,
        *["R", "99", "elsewhere", "", None, "  "] * 9,
        *["a\x00b", "a\u200bb", "x" * 201] * 9,
        *["y" * 200] * 9,
    ]
    barrier, _ = door(tmp_path, cities)
    found = barrier.discover_values("city", mechanism=CERTAIN)
    assert found == {"M\u00fcnchen": 10, "Ulm": 12, "y" * 200: 9}
    learnt = Schema.parse(SCHEMA.format(unit="")).columns["city"].with_domain(sorted(found))
    assert learnt.values == ("M\u00fcnchen", "Ulm", "y" * 200)


def test_the_order_of_rows_leaves_no_trace(tmp_path):
    """With the same random words two orders of one table give one answer, in the order of texts."""
    rng = np.random.default_rng(2)
    cities = [f"k{rng.integers(40)}" for _ in range(600)]
    answers = [
        door(tmp_path, cities, order=order, name=name)[0].discover_values("city", mechanism=LAW)
        for name, order in (("a", None), ("b", rng.permutation(600)))
    ]
    assert list(answers[0].items()) == list(answers[1].items())
    assert list(answers[0]) == sorted(answers[0])
    assert 5 < len(answers[0]) < 40, "some are told and some are not"


@pytest.mark.parametrize("cities", [[], ["Ulm"], [None, ""]], ids=["no rows", "one row", "no values"])
def test_no_key_is_a_valid_answer(cities, tmp_path):
    barrier, run = door(tmp_path, cities)
    assert barrier.discover_values("city", mechanism=CERTAIN) == {}
    assert len(run.record().spends) == 1, "it is paid for all the same"


def test_a_person_counts_three_times_at_most(tmp_path):
    """Five rows of one id are three; rows without an id are nobody's."""
    cities = ["Ulm"] * 5 + ["Bonn"] * 4 + ["Ulm"] * 2
    ids = ["p"] * 5 + [None, "", "  ", None] + ["q", "r"]
    barrier, _ = door(tmp_path, cities, ids=ids, unit=BY_PERSON)
    assert barrier.discover_values(
        "city", mechanism=PartitionSelection(DiscreteGaussian(Fraction(1, 100)), 3)
    ) == {"Ulm": 5}


def test_files_and_frames_tell_the_same(tmp_path):
    cities = ["Ulm"] * 9 + ["Bonn"] * 7 + ["", "R"]
    path = tmp_path / "t.csv"
    path.write_text(
        "age,city\n" + "".join(f'{n % 10},"{c}"\n' for n, c in enumerate(cities)), encoding="utf-8"
    )
    schema = Schema.parse(SCHEMA.format(unit=""))
    first, run = door(tmp_path, cities)
    second = Barrier(PrivateTable.of(path, schema=schema), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    assert first.discover_values("city", mechanism=CERTAIN) == second.discover_values(
        "city", mechanism=CERTAIN
    )


# ------------------------------------------------------------------------------------------ refusals and charges


def groups(numbers) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


class Unread:
    """A table whose rows must not be touched."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self):
        self.reads += 1
        raise AssertionError("rows were read")


REFUSED = {
    "known column": lambda barrier: barrier.discover_values("age", mechanism=LAW),
    "no column": lambda barrier: barrier.discover_values("town", mechanism=LAW),
    "noise without threshold": lambda barrier: barrier.discover_values("city", mechanism=MUCH),
    "threshold below a unit": lambda barrier: barrier.discover_values(
        "city", mechanism=PartitionSelection(DiscreteGaussian(Fraction(1)), 1)
    ),
    "no groups": lambda barrier: barrier.discover_bins("age", groups=groups([]), noise=MUCH),
    "too few groups": lambda barrier: barrier.discover_bins("age", groups=groups([0] * 10), noise=MUCH),
    "too many groups": lambda barrier: barrier.discover_bins("age", groups=groups([0] * 12), noise=MUCH),
    "a table of groups": lambda barrier: barrier.discover_bins("age", groups=groups([[0]] * 11), noise=MUCH),
    "broken groups": lambda barrier: barrier.discover_bins("age", groups=groups([0]) * 0.5, noise=MUCH),
    "below the groups": lambda barrier: barrier.discover_bins("age", groups=groups([-1] * 11), noise=MUCH),
    "beyond the groups": lambda barrier: barrier.discover_bins("age", groups=groups([11] * 11), noise=MUCH),
    "bins of nothing": lambda barrier: barrier.discover_bins("town", groups=groups([0] * 11), noise=MUCH),
    "bins by threshold": lambda barrier: barrier.discover_bins("age", groups=groups([0] * 11), noise=LAW),
    "over budget": lambda barrier: barrier.discover_bins(
        "age", groups=groups([0] * 11), noise=DiscreteGaussian(Fraction(1, 10**6))
    ),
}
MUCH = DiscreteGaussian(Fraction(100))


def unread(tmp_path, *, unit=None, keys=Fraction(1, 1000)):
    schema = Schema.parse(SCHEMA.format(unit=""))
    unit = unit or PrivacyUnit()
    schema = Schema(columns=schema.columns, unit=unit, invariants=invariants_of(unit))
    run = Ledger.open(tmp_path / "ledger.db").reserve(
        "d",
        epsilon=Fraction(50),
        delta=Fraction(1, 100),
        unit=schema.unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=True,
        keys=keys,
        exact=exact_totals(schema.unit),
    )
    table = Unread()
    private = PrivateTable(table, schema=schema, read_tallies=table)
    return Barrier(private, run=run, noise=ExactNoise(RehearsalEntropy(1))), run, table


@pytest.mark.parametrize("question", REFUSED.values(), ids=REFUSED)
def test_refused_questions_cost_and_read_nothing(question, tmp_path):
    barrier, run, table = unread(tmp_path)
    with pytest.raises((UsageError, OverBudget), match="hint:"):
        question(barrier)
    assert (table.reads, run.record().spends) == (0, ())


def test_a_threshold_beyond_the_part_of_delta_reads_nothing(tmp_path):
    barrier, run, table = unread(tmp_path, keys=Fraction(1, 10**6))
    with pytest.raises(OverBudget, match="set aside is left"):
        barrier.discover_values("city", mechanism=PartitionSelection(DiscreteGaussian(Fraction(9, 4)), 7))
    assert (table.reads, run.record().spends) == (0, ())


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_both_questions_charge_for_the_unit(rows, neighbours, tmp_path):
    unit = make_unit(neighbours, rows=rows, id="p")
    rows = unit.rows
    barrier, run, table = unread(tmp_path, unit=unit)
    mechanism = barrier.budget.key_mechanism(Fraction(1, 10), delta=Fraction(1, 2000))
    for question in (
        lambda: barrier.discover_values("city", mechanism=mechanism),
        lambda: barrier.discover_bins("age", groups=groups([0, 0, 0, 1] + [2] * 7), noise=MUCH),
    ):
        with pytest.raises(InternalError):
            question()
    twice = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    told = [(b.spend.verb, b.spend.answers, b.spend.l1, b.spend.l2_squared) for b in run.record().spends]
    assert told == [("discover", 1, rows * twice, rows**2 * twice)] * 2
    values, bins = run.record().spends
    assert values.delta == delta_price(mechanism, unit=unit) > 0
    assert bins.delta == 0
    assert table.reads == 2, "what failed after the charge has been paid for"


def test_bins_are_a_partition_of_all_rows(tmp_path):
    """Every code has exactly one group, special codes too; groups need not be neighbours."""
    barrier, _ = door(tmp_path, ["Ulm"] * 100)
    exact = DiscreteGaussian(Fraction(1, 1000))
    parted = groups([0, 0, 0, 2, 2, 1, 2, 2, 2, 2, 2])
    assert barrier.discover_bins("age", groups=parted, noise=exact).tolist() == [30, 10, 60]
    odd = groups([0, 1] * 5 + [3])
    assert barrier.discover_bins("age", groups=odd, noise=exact).tolist() == [50, 50, 0, 0]


def test_groups_are_taken_as_they_were_checked(tmp_path):
    """An array that changes its mind between the check and the count changes nothing."""
    barrier, run = door(tmp_path, ["Ulm"] * 100)
    given = groups([0] * 11)
    genuine = run.charge

    def sly(spend):
        given[:] = 10**6
        return genuine(spend)

    barrier._run = type("Sly", (), {"charge": staticmethod(sly)})()
    exact = DiscreteGaussian(Fraction(1, 1000))
    assert barrier.discover_bins("age", groups=given, noise=exact).tolist() == [100]


class Scaled(ExactNoise):
    """A noise source that draws at another scale than it is told."""

    __slots__ = ("_factor",)

    def __init__(self, factor: Fraction) -> None:
        super().__init__(RehearsalEntropy(5))
        self._factor = factor

    def add(self, exact, *, mechanism):
        return super().add(exact, mechanism=DiscreteGaussian(mechanism.variance * self._factor**2))


@pytest.mark.parametrize(
    ("factor", "fits"), [(Fraction(1), True), (Fraction(1, 2), False), (Fraction(2), False)]
)
def test_groups_carry_the_booked_noise(factor, fits, tmp_path):
    """2,200 noisy counts of groups: their variance, to 6 standard errors (false alarms below 1e-8)."""
    barrier, run = door(tmp_path, ["Ulm"] * 100, law_source=Scaled(factor))
    each = groups(range(11))
    exact = groups([10] * 10 + [0])
    noise = np.concatenate(
        [barrier.discover_bins("age", groups=each, noise=MUCH) - exact for _ in range(200)]
    )
    booked = float(run.record().spends[-1].spend.mechanism.variance)
    deviation = booked * math.sqrt(2 / noise.size)
    assert (abs(float((noise**2).mean()) - booked) < 6 * deviation) is fits


def test_the_budget_is_what_is_left(tmp_path):
    barrier, run = door(tmp_path, ["Ulm"] * 100)
    whole = barrier.budget
    barrier.measure([Marginal(("age",))], noise=DiscreteGaussian(Fraction(100)))
    barrier.discover_values("city", mechanism=LAW)
    assert barrier.budget == whole, "one barrier's budget does not move under its strategy"
    left = run.left
    assert left.cap == whole.cap - run.record().used
    assert left.keys == whole.keys - run.record().used_delta_reserve < whole.keys


# ------------------------------------------------------------------------------------------ whole runs


@pytest.mark.parametrize("delta", [0, "0.0"])
def test_values_cannot_be_learnt_with_pure_privacy(delta, tmp_path):
    frame = pa.table({"city": ["Ulm"], "age": [1]})
    with pytest.raises(UsageError, match="'city' cannot be learnt with delta 0") as refusal:
        measure(
            frame,
            schema=Schema.parse(SCHEMA.format(unit="")),
            epsilon=1,
            delta=delta,
            ledger=tmp_path / "l.db",
        )
    assert "list the values" in refusal.value.hint
    assert not (tmp_path / "l.db").exists(), "nothing was booked"


def test_bins_can_be_learnt_with_pure_privacy(tmp_path):
    text = '[columns.age]\nkind = "integer"\nmin = 0\nmax = 99\nbins = "learn"\n'
    found = measure(
        pa.table({"age": [n % 50 for n in range(5000)]}),
        schema=Schema.parse(text),
        epsilon=5,
        delta=0,
        ledger=tmp_path / "l.db",
        dataset="d",
    )
    laws = {type(b.spend.mechanism) for b in found.record.spends if b.spend.verb == "discover"}
    assert laws == {DiscreteLaplace}
    assert found.schema.columns["age"].levels > 6
    assert found.record.keys == 0


def test_a_learnt_schema_is_not_used_twice(tmp_path):
    frame = pa.table({"city": ["Ulm"] * 300, "age": [1] * 300})
    schema = Schema.parse(SCHEMA.format(unit=""))
    found = measure(frame, schema=schema, epsilon=5, delta="1e-6", ledger=tmp_path / "l.db", dataset="d")
    assert found.schema.declared == schema
    assert found.record.schema_digest == schema.digest
    with pytest.raises(UsageError, match="learnt by another run"):
        measure(frame, schema=found.schema, epsilon=5, delta="1e-6", ledger=tmp_path / "m.db", dataset="d")
    assert not (tmp_path / "m.db").exists()
