"""Neighbours with frozen barrier outputs give the same release, to the byte."""

from __future__ import annotations

import filecmp
from dataclasses import replace

import pytest
from tiny_tables import Rows, Twin, neighbour_pairs, run_twin, schema

from populace.evaluate.replay import LeakError, check_distances
from populace.infer.fit import fit
from populace.pipeline import draw_table, release_from
from populace.privacy.loss import price

METHODS = ("independent", "mst")


def check_twin(twin: Twin) -> None:
    first, second = twin.first, twin.second
    # The run's own name and place in the ledger are random; all else in the record must agree.
    assert replace(second.record, run=first.record.run, digest=first.record.digest) == first.record
    check_distances(twin.first_tape, twin.second_tape, record=first.record)
    check_conservation(twin)
    for one, other in zip(first.items, second.items, strict=True):
        assert one.marginal == other.marginal
        assert one.variance == other.variance
        assert (one.counts == other.counts).all()


def check_conservation(twin: Twin) -> None:
    """The loss implied by the laws that met the data ≤ what the ledger booked ≤ the cap; and nearly all is used."""
    record = twin.first.record
    meetings = iter(twin.first_tape)
    implied = 0
    for spend in (booked.spend for booked in record.spends):
        laws = [next(meetings).law for _ in range(spend.answers if spend.verb == "measure" else 1)]
        if spend.verb == "choose":
            assert laws == [spend.law.rate(sensitivity=spend.l1)]
        else:
            assert set(laws) == {spend.law}
        implied += price(spend, currency=record.currency)
    assert next(meetings, None) is None
    assert implied <= record.used <= record.cap
    assert record.used >= record.cap * 0.98


@pytest.mark.parametrize("method", METHODS)
def test_neighbours_agree_under_frozen_outputs(method, tmp_path):
    for number, pair in enumerate(neighbour_pairs(40, seed=1)):
        check_twin(run_twin(pair, method=method, ledgers=tmp_path, seed=number))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", ["1e-3", "0"])
def test_a_thousand_neighbours_agree_under_frozen_outputs(method, delta, tmp_path):
    for number, pair in enumerate(neighbour_pairs(1000, seed=2)):
        check_twin(run_twin(pair, method=method, ledgers=tmp_path, seed=number, delta=delta))


@pytest.mark.parametrize("method", METHODS)
def test_release_folders_of_neighbours_are_identical(method, tmp_path):
    for number, pair in enumerate(neighbour_pairs(4, seed=3)):
        twin = run_twin(pair, method=method, ledgers=tmp_path, seed=number)
        second = replace(twin.second, record=twin.first.record)
        for name, measurements in (("a", twin.first), ("b", second)):
            model = fit(measurements.items, domain=measurements.schema.domain)
            release_from(measurements, model, seed=7).save(tmp_path / f"{number}-{name}")
        check_same_folder(tmp_path / f"{number}-a", tmp_path / f"{number}-b")


def check_same_folder(first, second) -> None:
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    same, different, odd = filecmp.cmpfiles(first, second, names, shallow=False)
    assert (sorted(same), different, odd) == (names, [], [])


def test_three_rows_per_person_with_replace_one(tmp_path):
    """A person of three rows leaves: distances stay within what three rows may move."""
    text = """
    [table]
    unit = "person"
    rows_per_unit = 3
    id = "person"

    [columns.sex]
    kind = "categorical"
    values = ["f", "m"]

    [columns.age]
    kind = "integer"
    min = 0
    max = 4
    """
    import pyarrow as pa

    base = [("a", "f", 1), ("b", "m", 2), ("b", "m", 2), (None, "m", 4)]
    more = [*base, *[("c", "m", 3)] * 5]

    class Table(Rows):
        def frame(self):
            person, sex, age = zip(*self.rows, strict=True)
            return pa.table({"person": person, "sex": sex, "age": age})

    for method in METHODS:
        twin = run_twin(
            (Table(tuple(base)), Table(tuple(more))),
            method=method,
            ledgers=tmp_path,
            seed=len(method),
            text=text,
        )
        check_twin(twin)
        moved = twin.second_tape[0].exact - twin.first_tape[0].exact
        assert int(moved) == 3


def test_a_value_that_slips_past_the_barrier_is_caught(tmp_path, monkeypatch):
    """The harness can fail: a strategy whose noise depends on the rows, and one that forgets a spend."""
    from populace.private.barrier import Barrier

    pair = neighbour_pairs(3, seed=5)[2]
    genuine = Barrier.measure

    def peeking(self, marginals, *, noise):
        rows = int(self._table.engine().counts([type(marginals[0])(())])[0])
        return genuine(self, marginals, noise=replace(noise, variance=noise.variance + rows))

    monkeypatch.setattr(Barrier, "measure", peeking)
    with pytest.raises((LeakError, AssertionError)):
        check_twin(run_twin(pair, method="independent", ledgers=tmp_path, seed=1))


def test_drawing_rows_reads_nothing_private(tmp_path):
    twin = run_twin(neighbour_pairs(1, seed=9)[0], method="mst", ledgers=tmp_path, seed=1)
    model = fit(twin.first.items, domain=schema().domain)
    import numpy as np

    first = draw_table(schema(), model, rows=50, rng=np.random.default_rng(1))
    second = draw_table(schema(), model, rows=50, rng=np.random.default_rng(1))
    assert first.equals(second)
