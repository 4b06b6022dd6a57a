"""Neighbours beside one public table, with frozen barrier outputs, give the same measurements and borrow the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audit.test_replay import check_twin
from tests.audit.tiny_tables import SCHEMA, Rows, neighbour_pairs, random_row, run_twin


def public(kind: str) -> Rows:
    rng = np.random.default_rng(77)
    rows = tuple(random_row(rng) for _ in range(80))
    if kind == "misleading":
        columns = [list(column) for column in zip(*rows, strict=True)]
        rows = tuple(
            zip(*(rng.permutation(np.array(c, dtype=object)).tolist() for c in columns), strict=True)
        )
    return Rows(rows)


@pytest.mark.parametrize(("kind", "delta"), [("right", "1e-3"), ("misleading", "0")])
@pytest.mark.slow
def test_auto_with_a_public_table_agrees_on_neighbours(kind, delta):
    found, pairs = neighbour_pairs(26, seed=1), 0
    for number, pair in enumerate([found[0], *found[14:21:3], *found[22:26]]):
        twin = run_twin(pair, method="adaptive", ledgers=None, seed=number, delta=delta, public=public(kind))
        check_twin(twin)
        one, other = twin.first.public.tables, twin.second.public.tables
        assert list(one) == list(other)
        assert all(np.array_equal(one[clique], other[clique]) for clique in one)
        assert twin.first.record.public == twin.second.record.public
        pairs += any(len(clique) == 2 for clique in one)
    assert pairs >= 1


PARTS = 'partition = ["sex", "work"]\n'
GROUPS = 'partition = ["sex"]\ngroups = [["work", "income"]]\n'


# The partition alone; with the number of rows; with the two other columns too; with their pair too. A group is one.
@pytest.mark.parametrize(
    "keys", [PARTS, pytest.param(GROUPS, marks=pytest.mark.slow)], ids=["areas", "groups"]
)
def test_dpsyn_agrees_on_neighbours_at_every_level(keys):
    found, levels = neighbour_pairs(26, seed=3), set()
    text = SCHEMA.replace("max_rows = 1000\n", f"max_rows = 1000\n{keys}")
    assert text != SCHEMA
    cases = [
        (pair, epsilon)
        for pair in (found[0], found[9], *found[21:25])
        for epsilon in ("1/50", "2", "9", "900")
    ]
    for number, (pair, epsilon) in enumerate(cases):
        twin = run_twin(
            pair,
            method="dpsyn",
            ledgers=None,
            seed=number,
            epsilon=epsilon,
            text=text,
            public=public("right"),
        )
        check_twin(twin)
        assert (twin.first.public is None) is (twin.second.public is None)
        if twin.first.public is not None:
            one, other = twin.first.public.tables, twin.second.public.tables
            assert list(one) == list(other)
            assert all(np.array_equal(one[clique], other[clique]) for clique in one)
        levels.add(len(twin.first.items))
    assert levels == {1, 2, 2 + 2, 2 + 1}
