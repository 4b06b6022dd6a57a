"""Sensitivities by brute force: every neighbour of every tiny table, against what is declared."""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from populace.core.marginals import Candidates, Domain, Grouping, Marginal
from populace.private.engines.memory_engine import MemoryEngine
from populace.schema.unit import Neighbours, PrivacyUnit

DOMAIN = Domain({"a": 2, "b": 3})
RECORDS = list(product(range(2), range(3)))
GROUPED = Marginal(("a", "b"), (Grouping("b", (0, 1, 1)),))
MARGINALS = (Marginal(()), Marginal(("a",)), Marginal(("b", "a")), GROUPED)


def engine(rows) -> MemoryEngine:
    table = np.array(rows, dtype=np.uint8).reshape(len(rows), 2)
    return MemoryEngine({"a": table[:, 0], "b": table[:, 1]}, domain=DOMAIN)


@cache
def counts(rows):
    return engine(rows).counts(MARGINALS)


def neighbours(rows, unit: PrivacyUnit):
    """Every table one unit away: its up to r rows leave (and, under replace-one, as many enter)."""
    for extra in range(1, unit.rows + 1):
        for added in combinations_with_replacement(RECORDS, extra):
            if unit.neighbours is Neighbours.ADD_REMOVE:
                yield (*rows, *added), rows
            else:
                for other in combinations_with_replacement(RECORDS, extra):
                    yield (*rows, *added), (*rows, *other)


UNITS = [
    PrivacyUnit(),
    PrivacyUnit(rows=2, id="p"),
    PrivacyUnit(neighbours=Neighbours.REPLACE_ONE),
    PrivacyUnit(rows=2, id="p", neighbours=Neighbours.REPLACE_ONE),
]


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_marginals_move_exactly_as_far_as_declared(unit):
    """The declared distance is never exceeded, and is reached: half of it would be too little."""
    l1, l2 = 0, 0
    for base in ((), ((1, 2), (0, 0))):
        for one, other in neighbours(base, unit):
            for first, second in zip(counts(one), counts(other), strict=True):
                moved = np.abs(first - second)
                l1, l2 = max(l1, int(moved.sum())), max(l2, int((moved**2).sum()))
    assert (l1, l2) == (unit.marginal_l1, unit.marginal_l2_squared)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_scores_move_exactly_as_far_as_declared(unit):
    rng = np.random.default_rng(0)
    furthest, signs = 0, set()
    for base in ((), ((1, 2), (0, 0))):
        for _ in range(3):
            estimates = tuple(rng.integers(0, 4, m.shape(DOMAIN)) for m in MARGINALS)
            slate = Candidates(MARGINALS, estimates, (0,) * len(MARGINALS))
            for one, other in neighbours(base, unit):
                for first, second, guess in zip(counts(one), counts(other), slate.estimates, strict=True):
                    moved = int(np.abs(first - guess).sum() - np.abs(second - guess).sum())
                    furthest = max(furthest, abs(moved))
                    signs.add(np.sign(moved))
    assert furthest == unit.score_shift
    assert {-1, 1} <= signs, "the score is not monotone: it moves both ways"


def test_every_row_lies_in_exactly_one_cell():
    for record in RECORDS:
        assert [int(table.sum()) for table in counts((record,))] == [1] * len(MARGINALS)
