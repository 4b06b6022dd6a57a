"""Neighbours beside one public table, with frozen barrier outputs, give the same measurements and borrow the same."""

from __future__ import annotations

import numpy as np
import pytest
from test_replay import check_twin
from tiny_tables import Rows, neighbour_pairs, random_row, run_twin


def public(kind: str) -> Rows:
    rng = np.random.default_rng(77)
    rows = tuple(random_row(rng) for _ in range(80))
    if kind == "misleading":
        columns = [list(column) for column in zip(*rows, strict=True)]
        rows = tuple(
            zip(*(rng.permutation(np.array(c, dtype=object)).tolist() for c in columns), strict=True)
        )
    return Rows(rows)


@pytest.mark.parametrize("kind", ["right", "misleading"])
@pytest.mark.parametrize("delta", ["1e-3", "0"])
def test_auto_with_a_public_table_agrees_on_neighbours(kind, delta):
    found, pairs = neighbour_pairs(26, seed=1), 0
    for number, pair in enumerate([found[0], found[8], *found[14:21:2], *found[22:26]]):
        twin = run_twin(pair, method="adaptive", ledgers=None, seed=number, delta=delta, public=public(kind))
        check_twin(twin)
        one, other = twin.first.public.tables, twin.second.public.tables
        assert list(one) == list(other)
        assert all(np.array_equal(one[clique], other[clique]) for clique in one)
        assert twin.first.record.public == twin.second.record.public
        pairs += any(len(clique) == 2 for clique in one)
    assert pairs >= 1
