"""Exact totals as methods see them: recorded with the other answers, and invented for plans."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from populace.core.marginals import tabulate
from populace.methods.measurement_transcript import MeasurementTranscript, RecordingOracle
from populace.planning.simulated.simulated_oracle import SimulatedOracle
from populace.privacy.accounting.budget import Budget
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.schema.geocodes import GEOCODE
from tests.audit.transcripts import Workspace
from tests.helpers.geographies import ROWS, make_schema, make_table, reserve

SCHEMA = make_schema()


def test_a_run_that_fails_keeps_the_totals_that_it_was_given():
    run = reserve(Workspace(), SCHEMA)
    transcript = MeasurementTranscript(run, schema=SCHEMA)
    barrier = Barrier(make_table(SCHEMA), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    oracle = RecordingOracle(barrier, transcript=transcript)
    found = [oracle.publish_totals(level) for level in SCHEMA.invariants]
    kept = transcript.collect()["measurements"]
    assert list(kept.items) == found
    assert [each.level for each in kept.record.invariants] == ["all", "county"]
    # Where the ledger cannot be read, answers are kept one by one.
    transcript.schema = None
    answers = transcript.collect()["answers"]
    assert [(each.verb, each.mechanism, each.answer) for each in answers] == [
        ("publish", {"variance": "0"}, 4),
        ("publish", {"variance": "0"}, [3, 1]),
    ]


def test_a_plan_invents_totals_that_cost_nothing():
    codes = dict(zip((GEOCODE, "sex"), np.array(ROWS).T, strict=True))
    population = SimpleNamespace(
        schema=SCHEMA, exact=lambda marginal: tabulate(marginal, codes=codes, domain=SCHEMA.domain)
    )
    oracle = SimulatedOracle(
        population=population,
        budget=Budget.of(1, 0, unit=SCHEMA.unit),
        rng=np.random.default_rng(1),
    )
    found = oracle.publish_totals("county")
    assert (found.counts.tolist(), found.variance, oracle.bill) == ([3, 1], 0, [])
