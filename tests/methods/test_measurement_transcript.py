"""The transcript of a run holds every answer of the barrier: tables as tables, and the rest as plain JSON."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np

from populace.core.marginals import Candidates, Marginal
from populace.measurements.measurements import Measurement
from populace.methods.measurement_transcript import MeasurementTranscript, RecordingOracle
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Exponential, PartitionSelection
from populace.privacy.ledger.ledger import Ledger, Run
from populace.schema.schema import Schema

LAW = DiscreteGaussian(Fraction(9))
KEYS = PartitionSelection(LAW, 20)
SCHEMA = Schema.from_sizes({"a": 2, "b": 3})


class Stub:
    """Answers every question with fixed numbers."""

    schema = SCHEMA

    def measure(self, marginals, *, noise):
        return self.measure_batches([(marginals, noise)])

    def measure_batches(self, batches):
        return tuple(
            Measurement(each, np.zeros(each.shape(SCHEMA.domain), np.int64), noise.variance)
            for marginals, noise in batches
            for each in marginals
        )

    def score(self, candidates, *, noise):
        return np.array([7])

    def choose(self, candidates, *, among, mechanism, none):
        return None

    def discover_rows(self, *, mechanism):
        return {(1, 2): 30}

    def discover_values(self, column, *, mechanism):
        return {"x": 21}

    def discover_bins(self, column, *, groups, noise):
        return np.array([4, 5])


def reserved(folder: Path) -> Run:
    return Ledger.open(folder / "l.db").reserve(
        "d", epsilon=1, delta="1e-6", unit=SCHEMA.unit, method="mst", schema_digest=SCHEMA.digest, rehearsal=False
    )  # fmt: skip


def test_a_run_that_ends_early_leaves_its_tables_and_its_other_answers(tmp_path):
    run = reserved(tmp_path)
    transcript = MeasurementTranscript(run, schema=SCHEMA)
    oracle = RecordingOracle(Stub(), transcript=transcript)
    pair = Marginal(("a", "b"))
    candidates = Candidates((pair,), (np.zeros((2, 3), np.int64),), (0,))
    groups = np.array([0, 1])
    oracle.measure([Marginal(("a",))], noise=LAW)
    oracle.score(candidates, noise=LAW)
    oracle.choose(candidates, among=[0], mechanism=Exponential(Fraction(1)))
    oracle.discover_rows(mechanism=KEYS)
    oracle.discover_values("a", mechanism=KEYS)
    oracle.discover_bins("a", groups=groups, noise=LAW)
    groups[:] = 9  # the transcript holds what was asked, not what became of it
    kept = transcript.collect()
    assert [item.marginal for item in kept["measurements"].items] == [Marginal(("a",))]
    assert kept["measurements"].released_rows.codes.tolist() == [[1, 2]]
    assert run.record().finished
    told = json.loads(json.dumps([each.to_json() for each in kept["answers"]]))
    assert [(each["verb"], each["answer"]) for each in told] == [
        ("score", [7]),
        ("choose", None),
        ("discover", {"x": 21}),
        ("discover", [4, 5]),
    ]
    assert told[0]["question"] == {"candidates": [["a", "b"]]}
    # All candidates of every choice would be as many as pairs, choice by choice.
    assert told[1]["question"] == {"candidates": 1, "or none": True}
    assert told[3]["question"] == {"bins of": "a", "groups": [0, 1]}
    assert told[2]["law"] == KEYS.to_json()


def test_without_the_ledger_the_tables_are_told_as_answers(tmp_path):
    transcript = MeasurementTranscript(reserved(tmp_path), schema=SCHEMA)
    oracle = RecordingOracle(Stub(), transcript=transcript)
    oracle.measure([Marginal(("a",))], noise=LAW)
    oracle.discover_rows(mechanism=KEYS)
    (tmp_path / "l.db").unlink()
    kept = transcript.collect()
    assert list(kept) == ["answers"]
    told = [each.to_json() for each in kept["answers"]]
    assert [(each["verb"], each["answer"]) for each in told] == [
        ("measure", [0, 0]),
        ("discover", {"codes": {"a": [1], "b": [2]}, "counts": [30]}),
    ]
