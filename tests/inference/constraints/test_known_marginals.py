"""Integer tables with public marginals: they are met, everything adds up, and what cannot be is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from populace.core.errors import SchemaError
from populace.core.spine import Spine
from populace.inference.constraints.known_marginals import KnownMarginal, KnownTables
from populace.inference.hierarchy.integer_tables import integer_tables
from populace.inference.hierarchy.table_constraints import TableConstraints
from tests.inference.hierarchy.brute_force import random_spine

SHAPE = (3, 2, 2)


def sum_levels(spine: Spine, leaves: np.ndarray) -> list[np.ndarray]:
    tables = [leaves]
    for level in range(spine.depth - 1, 0, -1):
        tables.insert(0, np.asarray(spine.sum_children(tables[0], level=level)))
    return tables


def marginal(tables: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    lost = tuple(1 + column for column in range(len(SHAPE)) if column not in columns)
    order = [0, *(1 + int(place) for place in np.argsort(np.argsort(columns)))]
    return tables.sum(axis=lost).transpose(order)


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_tables_have_all_known_marginals(seed: int, has_zeros: bool) -> None:
    rng = np.random.default_rng([seed, has_zeros])
    spine = random_spine(rng, depth=4)
    zeros = None
    truth = rng.poisson(1.5, size=(spine.leaves, *SHAPE))
    if has_zeros:
        zeros = rng.random(SHAPE) < 0.3
        truth[:, zeros] = 0
    levels = sum_levels(spine, truth)
    # Of the whole two marginals that overlap; of units nested ones, the finer at a wider level.
    asked = [(0, (0, 1)), (0, (1, 2)), (1, (2, 0)), (2, (2,))]
    items = tuple(
        KnownMarginal(level=level, columns=columns, counts=marginal(levels[level], columns))
        for level, columns in asked
    )
    known = KnownTables(spine=spine, shape=SHAPE, items=items)
    constraints = TableConstraints(spine=spine, shape=SHAPE, zeros=zeros, exact_levels=(0, 1, 2))
    known.check(constraints.possible)
    noisy = [table + rng.normal(scale=3, size=table.shape) for table in levels]
    totals = {level: levels[level].sum(axis=(1, 2, 3)) for level in (0, 1, 2)}
    found = integer_tables(noisy, constraints=constraints, totals=totals, known=known)
    for item in items:
        assert np.array_equal(marginal(found[item.level], item.columns), item.counts), item.columns
    for level, table in enumerate(found):
        assert table.min() >= 0
        assert zeros is None or not table[:, zeros].any()
        if level:
            assert np.array_equal(spine.sum_children(table, level=level), found[level - 1])


def test_the_table_of_the_root_is_as_near_as_any() -> None:
    spine = Spine(("all", "unit"), (np.zeros(1, dtype=np.int64),))
    rng = np.random.default_rng(5)
    for _ in range(10):
        rows, columns = rng.multinomial(7, [0.5, 0.3, 0.2]), rng.multinomial(7, [0.6, 0.4])
        items = (
            KnownMarginal(level=0, columns=(0,), counts=rows[None]),
            KnownMarginal(level=0, columns=(1,), counts=columns[None]),
        )
        known = KnownTables(spine=spine, shape=(3, 2), items=items)
        targets = rng.integers(0, 4, size=6)
        found = known.solve_root(targets.astype(float), possible=np.ones(6, dtype=np.bool_)).reshape(3, 2)
        assert np.array_equal(found.sum(axis=1), rows)
        assert np.array_equal(found.sum(axis=0), columns)

        def cost(table: np.ndarray, targets: np.ndarray = targets) -> float:
            gap = np.abs(table.ravel() - targets)
            return float(sum(min(g, 1) + 5 * min(max(g - 1, 0), 3) + 20 * max(g - 4, 0) for g in gap))

        tables = (
            np.array([*first, *(rows - first)]).reshape(2, 3).T for first in product(range(8), repeat=3)
        )
        every = [t for t in tables if t.min() >= 0 and t[:, 0].sum() == columns[0]]
        assert cost(found) == min(map(cost, every))


@pytest.mark.parametrize(
    ("counts", "possible", "message"),
    [
        ([[4, 1]], [True, True, False, False], "structural zeros"),
        ([[2, 2]], [True, False, False, True], "no table with all these"),
    ],
)
def test_contradictions_are_found_without_rows(
    counts: list[list[int]], possible: list[bool], message: str
) -> None:
    spine = Spine(("all", "unit"), (np.zeros(2, dtype=np.int64),))
    items = (
        KnownMarginal(level=0, columns=(0,), counts=np.array(counts)),
        KnownMarginal(level=0, columns=(1,), counts=np.array([[3, sum(counts[0]) - 3]])),
    )
    known = KnownTables(spine=spine, shape=(2, 2), items=items)
    with pytest.raises(SchemaError, match=message) as refused:
        known.check(np.array(possible))
    assert refused.value.hint
