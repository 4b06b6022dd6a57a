"""Neighbours with frozen barrier outputs agree under rules too, and their releases keep every rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from populace.api.generate import release_from
from populace.methods.fit_measurements import fit
from populace.schema.codec.table_codec import TableCodec
from tests.audit.replay import check_sensitivities
from tests.audit.tiny_tables import SCHEMA, neighbour_pairs, run_twin

RULED = (
    SCHEMA.replace(
        'missing = ["refused"]\n', 'missing = ["refused"]\nuniverse = "age >= 2"\noutside = "young"\n'
    )
    + "\n[[zeros]]\nwhen = \"work == 'none' and income >= 100\"\n"
    + "\n[[zeros]]\nwhen = \"sex == 'm' and work == 'some' and age == 4\"\n"
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", ["adaptive", "aim", "independent", "mst"])
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_neighbours_agree_under_rules(method, step):
    """Three pairs, or 24."""
    assert RULED.count("universe") == 1
    for number, pair in enumerate(neighbour_pairs(24, seed=6)[::step]):
        twin = run_twin(pair, method=method, ledgers=None, seed=number, text=RULED)
        first, second = twin.first, twin.second
        check_sensitivities(twin.first_transcript, twin.second_transcript, record=first.record)
        assert replace(second.record, run=first.record.run, digest=first.record.digest) == first.record
        for one, other in zip(first.items, second.items, strict=True):
            assert one.marginal == other.marginal
            np.testing.assert_array_equal(one.counts, other.counts)
        if number % 6 == 0:
            table = release_from(first, fit(first), rows=2000, seed=1).table
            assert sum(TableCodec(first.schema).count_violations(table).values()) == 0
