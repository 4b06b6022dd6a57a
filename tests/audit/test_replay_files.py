"""Neighbours with frozen barrier outputs: every file that a release has is the same, to the byte.

For methods whose releases rest on more than marginals of the private table: `dpsyn` on a public table and a partition,
`gem` on a network that learns, and `histogram-exponential` on counts told within a range. Random rows and canaries.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from populace.api.generate import release_from
from populace.core.marginals import Marginal
from populace.measurements.measurements import RunContext
from populace.methods.fit_measurements import fit
from populace.methods.literature.gem.gem_network import GeneratorNetwork
from populace.private.barrier import Barrier
from tests.audit.mechanism_mutants import scaled
from tests.audit.replay import LeakError
from tests.audit.test_public_replay import GROUPS, PARTS, public
from tests.audit.test_replay import check_same_folder, check_twin
from tests.audit.tiny_tables import SCHEMA, neighbour_pairs, run_twin


def partitioned(keys: str) -> dict[str, object]:
    text = SCHEMA.replace("max_rows = 1000\n", f"max_rows = 1000\n{keys}")
    assert text != SCHEMA
    return {"text": text, "public": public("right")}


# What each method is asked with, one after the other: dpsyn at each of its levels, with groups, and with several pairs.
ASKED = {
    "dpsyn": [
        *(
            {**partitioned(keys), "epsilon": epsilon}
            for keys in (PARTS, GROUPS)
            for epsilon in ("1/50", "2", "9", "900")
        ),
        {**partitioned('partition = ["sex"]\n'), "epsilon": "900"},
    ],
    "gem": [{"delta": "1e-3"}, {"delta": "0"}],
    "histogram-exponential": [{"delta": "0"}, {"delta": "0", "epsilon": "1/10"}],
}


@pytest.fixture(autouse=True)
def little_training(monkeypatch):
    """What a network learns follows from paid answers: with few steps as much is asked, and in less time."""
    train = GeneratorNetwork.train
    monkeypatch.setattr(
        GeneratorNetwork,
        "train",
        lambda network, answers, *, rows, steps: train(network, answers, rows=rows, steps=min(steps, 2)),
    )


def check_artefacts(method, number, pair, *, folder, files=True) -> None:
    """Record on one table, replay on the other, and compare what is told and what is written."""
    options = ASKED[method][number % len(ASKED[method])]
    twin = run_twin(pair, method=method, ledgers=None, seed=number, **options)
    check_twin(twin)
    one, other = (each.public for each in (twin.first, twin.second))
    assert (one is None) is (other is None)
    if one is not None:
        assert list(one.tables) == list(other.tables)
        assert all(np.array_equal(one.tables[clique], other.tables[clique]) for clique in one.tables)
    # The run's own name and place in the ledger are random.
    first = replace(twin.first, context=RunContext())
    second = replace(twin.second, record=first.record, context=first.context)
    assert second.digest == first.digest
    if not files:
        return
    for name, measurements in (("a", first), ("b", second)):
        release = release_from(measurements, fit(measurements), seed=7)
        release.save(folder / f"{number}-{name}", report=number == 0)
    check_same_folder(folder / f"{number}-a", folder / f"{number}-b")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("method", "chosen"),
    [("dpsyn", (0, 9, 16, 23)), ("gem", (17,)), ("histogram-exponential", (1, 8, 16, 24))],
)
def test_files_of_neighbours_are_identical(method, chosen, tmp_path):
    """A canary on an empty table, on one row and on many, and a random row; dpsyn at each of its levels."""
    found = neighbour_pairs(25, seed=6, most=40)
    for number, place in enumerate(chosen, start=1):
        check_artefacts(method, number, found[place], folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "pairs", "written"), [("dpsyn", 480, 6), ("gem", 240, 8), ("histogram-exponential", 1000, 4)]
)
def test_files_of_many_neighbours_are_identical(method, pairs, written, tmp_path):
    """What is told of all of them, and all files of some."""
    for number, pair in enumerate(neighbour_pairs(pairs, seed=8, most=30)):
        # Turned a little at each round, so that all levels come to be written.
        files = (number + number // 8) % written == 0
        check_artefacts(method, number, pair, folder=tmp_path, files=files)


# ------------------------------------------------------------------------------------------------- the test can fail


def peeks_at_rows(door: Barrier) -> int:
    return int(door._table.engine().counts([Marginal(())])[0])


@pytest.mark.parametrize(
    ("fault", "level"), [("noise by rows", 2), ("a spend forgotten", 8), ("rows told exactly", 3)]
)
def test_leaks_of_these_methods_are_seen(fault, level, tmp_path, monkeypatch):
    measure = Barrier.measure_batches
    if fault == "noise by rows":
        monkeypatch.setattr(
            Barrier,
            "measure_batches",
            lambda door, batches: measure(
                door,
                [
                    (asked, scaled(mechanism, 1 + Fraction(peeks_at_rows(door), 10**6)))
                    for asked, mechanism in batches
                ],
            ),
        )
    elif fault == "a spend forgotten":
        spend = Barrier._spend
        monkeypatch.setattr(
            Barrier,
            "_spend",
            lambda door, verb, what, *, mechanism, answers=1, shift=None: spend(
                door, verb, what, mechanism=mechanism, answers=1, shift=shift
            ),
        )
    else:

        def told(door, batches):
            rows = peeks_at_rows(door)
            return tuple(replace(item, counts=item.counts * 0 + rows) for item in measure(door, batches))

        monkeypatch.setattr(Barrier, "measure_batches", told)
    pair = neighbour_pairs(25, seed=6, most=40)[16]
    with pytest.raises((LeakError, AssertionError)):
        check_artefacts("dpsyn", level, pair, folder=tmp_path)
