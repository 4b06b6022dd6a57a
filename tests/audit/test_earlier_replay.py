"""Neighbours with one earlier release and frozen barrier outputs are asked the same, and give the same measurements."""

from __future__ import annotations

import pytest

from tests.audit.test_replay import check_twin
from tests.audit.tiny_tables import neighbour_pairs, run_twin


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "mst"])
def test_a_run_with_an_earlier_release_agrees_on_neighbours(method):
    found, scored = neighbour_pairs(26, seed=1), 0
    for number, pair in enumerate((found[0], *found[16:21:2], found[24])):
        before = run_twin(pair, method=method, ledgers=None, seed=number)
        check_twin(before)
        # Under frozen outputs the first release is the same for both neighbours.
        twin = run_twin(pair, method=method, ledgers=None, seed=100 + number, earlier=before.first)
        for one, other in zip(twin.first.runs, twin.second.runs, strict=True):
            assert [item.counts.tolist() for item in one.items] == [i.counts.tolist() for i in other.items]
        check_twin(twin)
        scored += any(len(item.marginal.clique) > 1 for item in twin.first.runs[0].items)
    assert scored
