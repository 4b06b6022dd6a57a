"""Linked tables with the barrier's outputs frozen: a whole household more or less, and nothing released differs."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from populace.api import reservation
from populace.api.generate import generate
from populace.api.measure import measure
from populace.methods.fit_measurements import fit
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.read.household_source import HouseholdSource
from populace.release.manifest import digest_files
from populace.schema.linked import linked_reader
from tests.audit.replay import LeakError, RecordingNoise, ReplayingNoise, check_sensitivities
from tests.audit.transcripts import Workspace
from tests.helpers.linked_files import draw_neighbours, linked_schema, to_frames
from tests.helpers.planted_faults import seeded

MOST = 3


def run_pair(number, pair, *, method, neighbours="add-remove"):
    """Record a run on one pair of tables and play its answers to the other; return both sets of measurements."""
    asked = {
        "schema": linked_schema(most=MOST, neighbours=neighbours),
        "epsilon": "4",
        "delta": "1e-3",
        "method": method,
    }
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(number)))
    first = measure(to_frames(pair[0]), noise=recorder, **asked)
    player = ReplayingNoise(recorder.transcript.entries)
    second = measure(to_frames(pair[1]), noise=player, **asked)
    player.finish()
    entries = recorder.transcript.entries, player.transcript.entries
    check_sensitivities(*entries, record=first.record)
    moved = max(int(np.abs(one.exact - other.exact).sum()) for one, other in zip(*entries, strict=True))
    return first, second, moved


@pytest.mark.sampled(2)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("method", "pairs"),
    [
        ("adaptive", 2),
        ("independent", 6),
        pytest.param("adaptive", 10, marks=pytest.mark.slow),
        pytest.param("independent", 40, marks=pytest.mark.slow),
    ],
)
def test_a_whole_household_is_covered(method, neighbours, pairs, monkeypatch):
    monkeypatch.setattr(reservation, "Ledger", Workspace)
    rng = np.random.default_rng(6)
    swap = neighbours == "replace-one"
    moved = [
        run_pair(n, draw_neighbours(rng, most=MOST, swap=swap), method=method, neighbours=neighbours)[2]
        for n in range(pairs)
    ]
    assert max(moved) <= (2 if swap else 1) or method == "adaptive"
    assert max(moved) >= 1


def test_a_release_of_both_tables_is_the_same_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(reservation, "Ledger", Workspace)
    rng = np.random.default_rng(7)
    for number in range(3):
        first, second, _ = run_pair(number, draw_neighbours(rng, most=MOST), method="adaptive")
        digests = []
        for measured in (first, second):
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
            release = generate(fit(measured), seed=1, rows=40, like="people.csv")
            with pytest.warns(match="is gone"):
                release.save(tmp_path / "out", report=False)
            digests.append(digest_files(tmp_path / "out"))
        assert _without_run(digests[0]) == _without_run(digests[1])


def _without_run(digests):
    """Two runs have two names in the ledger, and what names them differs by that alone."""
    own = ("synthetic-household.csv", "synthetic-person.csv", "measurements.parquet")
    return {name: digests[name] for name in own} | {"files": sorted(digests)}


NO_KEY = (linked_reader._read_unit, "id=linked.unit_key", "id=None")
# A schema built otherwise would be refused.
UNCHECKED = (linked_reader.check_linked_unit, "if linked is None:", "if linked is None or linked:")
PERSON_ROWS = (
    HouseholdSource.batches,
    "parts = [cells[name].slice(start, BATCH_ROWS) for name in columns]",
    "often = np.repeat(np.arange(rows.shape[1]), (rows >= 0).sum(axis=0)); "
    "parts = [cells[name].take(pa.array(often)) for name in columns]",
)


def test_a_row_for_every_person_is_seen_by_the_replay(monkeypatch):
    """The planted fault: persons counted as units of their own, at the price of one."""
    monkeypatch.setattr(reservation, "Ledger", Workspace)
    rng = np.random.default_rng(6)
    pairs = [draw_neighbours(rng, most=MOST) for _ in range(8)]

    def run_all() -> None:
        for number, pair in enumerate(pairs):
            run_pair(number, pair, method="independent")

    run_all()
    with seeded(*NO_KEY), seeded(*UNCHECKED), seeded(*PERSON_ROWS), pytest.raises(LeakError):
        run_all()
