"""Neighbours under frozen answers when domains are learnt: the same domains, the same questions, the same release.

Frozen means that everything the barrier answered on the first table is answered again on the second: noisy counts,
choices, and the told keys with their noisy counts, whether or not the second table has these keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from populace.api.generate import release_from
from populace.methods.fit_measurements import fit
from populace.privacy.accounting.mechanisms import PartitionSelection
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.read.value_counts import Tally
from populace.schema.columns.column import Origin
from tests.audit.replay import LeakError, privacy_loss
from tests.audit.test_replay import check_same_folder, check_twin
from tests.audit.tiny_tables import Rows, Twin, run_twin
from tests.helpers.sampled_cases import by_effort

SCHEMA = """
[table]
dataset = "tiny"
unit = "person"
{unit}

[columns.city]
kind = "categorical"
values = "learn"
missing = ["R"]

[columns.job]
kind = "categorical"
values = "learn"
other = "none"

[columns.age]
kind = "integer"
min = 0
max = 63
bins = "learn"
missing = ["-1"]

[columns.income]
kind = "numeric"
min = 0
max = 1000
decimals = 0
bins = "learn"

[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
"""
NAMES = ("person", "city", "job", "age", "income", "sex")
Row = tuple[object, ...]


@dataclass(frozen=True)
class People(Rows):
    """Rows of (person, city, job, age, income, sex), every cell a text as in a CSV file or a number as in a frame."""

    def frame(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) or [()] * len(NAMES)
        kinds = (pa.string(), pa.string(), pa.string(), pa.string(), pa.float64(), pa.string())
        return pa.table(
            {name: pa.array(c, kind) for name, c, kind in zip(NAMES, columns, kinds, strict=True)}
        )


def random_row(rng: np.random.Generator) -> Row:
    city = f"c{int(rng.geometric(0.35))}"
    job = ("clerk", "smith", "none", "cook")[int(rng.integers(4))]
    age = str(int(rng.choice([0, 17, 17, 40, 63])))
    return (None, city, job, age, float(rng.choice([0.0, 0.0, 250.0, 990.0])), str(rng.choice(["f", "m"])))


CANARIES: tuple[Row, ...] = (
    (None, "Atlantis", "diver", "33", 333.0, "m"),  # new keys, an odd cell of the grid
    (None, "x" * 500, "a\x00b", "64", 1e300, "?"),  # too long, unprintable, out of range
    (None, None, None, None, None, None),
    (None, "R", "none", "-1", float("nan"), "f"),  # special codes
    (None, " c1 ", "CLERK", " 17", float("inf"), "m"),
    (None, "", "", "", float("-inf"), ""),
    (None, "Mu\u0308nchen", "\u200b", "1e999", -0.0, "m"),
    (None, "999", "1.0", "abc", 0.5, "f"),
)


def neighbour_pairs(count: int, *, seed: int, most: int = 250) -> list[tuple[People, People]]:
    """Pairs that differ by one row: canaries on an empty, a one-row and a larger table, then random ones."""
    rng = np.random.default_rng(seed)

    def rows(size: int) -> tuple[Row, ...]:
        return tuple(random_row(rng) for _ in range(size))

    bases = ((), rows(1), rows(most))
    pairs = [(base, (*base, canary)) for base in bases for canary in CANARIES]
    while len(pairs) < count:
        base = rows(int(rng.integers(0, most + 1)))
        extra = random_row(rng) if rng.random() < 0.6 else CANARIES[int(rng.integers(len(CANARIES)))]
        at = int(rng.integers(0, len(base) + 1))
        pairs.append((base, (*base[:at], extra, *base[at:])))
    found = [(People(one), People(other)) for one, other in pairs[:count]]
    return [pair if number % 2 else pair[::-1] for number, pair in enumerate(found)]


def check(twin: Twin) -> None:
    assert twin.first.schema == twin.second.schema, "the learnt domains follow from the answers alone"
    assert twin.first.schema.declared.digest == twin.first.record.schema_digest
    check_twin(twin)
    record = twin.first.record
    booked = sum((spend.delta for spend in record.spends), Fraction(0))
    assert 0 < booked == record.used_delta_reserve <= record.keys < record.delta
    record.check()
    told = [meeting for meeting in twin.first_transcript if isinstance(meeting.mechanism, PartitionSelection)]
    for name, meeting in zip(("city", "job"), told, strict=True):
        column = record_column(twin, name)
        assert set(column.values) == set(meeting.answer)
        assert list(column.values) == sorted(column.values)
        assert column.origin is Origin.LEARNT


def record_column(twin: Twin, name: str):
    return twin.first.schema.columns[name]


def run(pair, *, method, ledgers, seed, unit="", **options) -> Twin:
    return run_twin(
        pair,
        method=method,
        ledgers=ledgers,
        seed=seed,
        epsilon=options.pop("epsilon", "20"),
        delta="1e-2",
        text=SCHEMA.format(unit=unit),
    )


def check_pairs(count: int, *, method: str, seed: int) -> None:
    values, bins, losses = 0, 0, []
    for number, pair in enumerate(neighbour_pairs(count, seed=seed)):
        twin = run(pair, method=method, ledgers=None, seed=number)
        check(twin)
        values += len(record_column(twin, "city").values) > 1
        bins += record_column(twin, "age").levels > 4
        losses.append(privacy_loss(twin.first_transcript, twin.second_transcript))
    assert min(values, bins) > count / 4, "the replay hardly learnt anything"
    # Of an (ε, δ) promise, a loss above ε + ln 2, or an infinite one, has probability 2δ at most: the events on which
    # it is that large differ in probability by half of theirs or more. False alarms: one in a million.
    above = sum(loss > 20 + math.log(2) for loss in losses)
    assert above <= binom.isf(1e-6, count, 2 * 1e-2)


@pytest.mark.slow
def test_neighbours_agree_when_domains_are_learnt():
    check_pairs(30, method="mst", seed=1)


@pytest.mark.parametrize("count", by_effort(slow=60, full=300))
@pytest.mark.parametrize("method", ["independent", "mst"])
def test_many_neighbours_agree_when_domains_are_learnt(method, count):
    check_pairs(count, method=method, seed=2)


PERSONS = 'id = "person"\nrows_per_unit = 3\nneighbours = "{relation}"'


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", ["independent", pytest.param("mst", marks=pytest.mark.slow)])
def test_a_person_of_many_rows_agrees_too(method, relation, seeds):
    """A person with five rows, three of which count, comes with new keys, or takes another's place."""
    rng = np.random.default_rng(4)
    unit = PERSONS.format(relation=relation)
    reached = 0
    for seed in seeds:
        rest = [(f"p{n}", *random_row(rng)[1:]) for n in range(400)] + [(None, *CANARIES[0][1:])]
        fresh = f"new{seed % 3}" if seed % 2 else None
        mine = [("u", fresh or f"mine{k}", "diver", "33", 333.0, "m") for k in range(5)]
        theirs = [("v", f"theirs{k}", "smith", "5", 7.0, "f") for k in range(5)]
        other = rest if relation == "add-remove" else rest + theirs
        pair = (People(tuple(rest + mine)), People(tuple(other)))
        twin = run(
            pair if seed % 2 else pair[::-1],
            method=method,
            ledgers=None,
            seed=seed,
            unit=unit,
            epsilon="60",
        )
        check(twin)
        reached += len(record_column(twin, "city").values) > 1
    assert reached


def test_release_folders_of_neighbours_are_the_same_files(tmp_path):
    """To the byte, the codebook with the learnt domains and the report included."""
    for number, pair in enumerate(neighbour_pairs(17, seed=3)[16:]):
        twin = run(pair, method="mst", ledgers=tmp_path, seed=number)
        second = replace(twin.second, record=twin.first.record, context=twin.first.context)
        for name, measurements in (("a", twin.first), ("b", second)):
            model = fit(measurements)
            release_from(measurements, model, seed=7).save(tmp_path / f"{number}-{name}")
        check_same_folder(tmp_path / f"{number}-a", tmp_path / f"{number}-b")


# ------------------------------------------------------------------------------------------ the harness can fail


def canary_pair() -> tuple[People, People]:
    rng = np.random.default_rng(9)
    rest = tuple(random_row(rng) for _ in range(250))
    return People(rest), People((*rest, CANARIES[0]))


def test_a_domain_that_follows_the_rows_is_caught(tmp_path, monkeypatch):
    """A run that adds every key it has seen to the learnt domain."""
    from populace.private.barrier import Barrier

    genuine = Barrier.discover_values

    def generous(self, column, *, mechanism):
        return {
            **dict.fromkeys(map(str, self._table.tally(column).keys), 1),
            **genuine(self, column, mechanism=mechanism),
        }

    monkeypatch.setattr(Barrier, "discover_values", generous)
    with pytest.raises((LeakError, AssertionError)):
        check(run(canary_pair(), method="independent", ledgers=tmp_path, seed=1))


def test_keys_that_do_not_occur_are_caught(tmp_path, monkeypatch):
    genuine = ExactNoise.reveal
    monkeypatch.setattr(
        ExactNoise,
        "reveal",
        lambda self, keys, counts, *, mechanism: {
            **genuine(self, keys, counts, mechanism=mechanism),
            "made up": 99,
        },
    )
    with pytest.raises(LeakError, match="does not occur"):
        check(run(canary_pair(), method="independent", ledgers=tmp_path, seed=1))


def test_rows_beyond_the_unit_are_caught(tmp_path, monkeypatch):
    """Counting before truncation: a person of five rows moves a key by five."""
    from populace.private.read import value_counts as values

    monkeypatch.setattr(
        values, "select_first_rows", lambda ids, *, rows: np.ones(sum(map(len, ids)), dtype=np.bool_)
    )
    rng = np.random.default_rng(4)
    rest = [(f"p{n}", *random_row(rng)[1:]) for n in range(200)]
    pair = (
        People(tuple(rest)),
        People((*rest, *[("u", "c1", "cook", "33", 333.0, "m")] * 5)),
    )
    with pytest.raises(LeakError, match="further than the ledger was told"):
        check(
            run(
                pair,
                method="independent",
                ledgers=tmp_path,
                seed=1,
                unit=PERSONS.format(relation="add-remove"),
            )
        )


def test_a_key_counted_twice_is_caught(tmp_path, monkeypatch):
    """Counts that move by two for one row."""
    from populace.private.private_table import PrivateTable

    genuine = PrivateTable.tally

    def doubled(self, column):
        tally = genuine(self, column)
        return Tally(tally.keys, 2 * tally.counts)

    monkeypatch.setattr(PrivateTable, "tally", doubled)
    with pytest.raises(LeakError, match="further than the ledger was told"):
        check(run(canary_pair(), method="independent", ledgers=tmp_path, seed=1))
