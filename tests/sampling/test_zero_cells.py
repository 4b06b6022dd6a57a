"""Cells of probability exactly 0 never hold a row, however the tables tempt the sampler."""

from itertools import pairwise

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.sampling.draw_rows import draw_rows
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(4)


class Stuck:
    """A source of chance whose offsets are always the same."""

    def __init__(self, offset):
        self._offset, self._rng = offset, np.random.default_rng(0)

    def random(self, size):
        return np.full(size, self._offset)

    def permutation(self, size):
        return self._rng.permutation(size)


OFFSETS = [0.0, 5e-324, 2**-53, 0.5, 1 - 2**-53]


def draw(model, rows, rng):
    parts = list(draw_rows(model, rows=rows, rng=rng))
    return {name: np.concatenate([part[name] for part in parts]).astype(int) for name in model.domain}


def chain(tables):
    names = "abcdefgh"[: len(tables) + 1]
    domain = Domain(
        {names[0]: len(tables[0])} | {n: t.shape[1] for n, t in zip(names[1:], tables, strict=True)}
    )
    potentials = {(a, b): t for a, b, t in zip(names, names[1:], tables, strict=False)}
    return Model(domain=domain, groupings={}, potentials=potentials, total=1.0, within={})


def check(model, codes, tables):
    names = list(model.domain)
    for a, b, table in zip(names, names[1:], tables, strict=False):
        assert (table[codes[a], codes[b]] > FORBIDDEN / 2).all()


@pytest.mark.parametrize("offset", sample_cases(OFFSETS, to=2))
@pytest.mark.parametrize("where", ["first", "last", "both", "inside"])
@pytest.mark.parametrize("rows", [1, 3, 1000, pytest.param(1_000_003, marks=pytest.mark.slow)])
def test_zeros_at_the_edges(offset, where, rows):
    table = np.log(np.random.default_rng(1).dirichlet(np.ones(9), size=7))
    table[:, {"first": [0, 1], "last": [7, 8], "both": [0, 8], "inside": [3, 4, 5]}[where]] = FORBIDDEN
    model = chain([table])
    check(model, draw(model, rows, Stuck(offset)), [table])


@pytest.mark.parametrize("seed", sample_cases(range(12), to=4))
def test_random_tables_with_wild_probabilities(seed):
    """Potentials over hundreds of orders of magnitude, half of them forbidden, three million rows in all."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 30, 6)
    tables = []
    for a, b in pairwise(sizes):
        table = rng.normal(0, 300, (a, b))
        table[rng.random((a, b)) < 0.5] = FORBIDDEN
        table[np.arange(a), rng.integers(0, b, a)] = rng.normal(0, 300, a)
        tables.append(table)
    model = chain(tables)
    for offset in (0.0, 1 - 2**-53, None):
        source = rng if offset is None else Stuck(offset)
        check(model, draw(model, 80_000, source), tables)


def test_a_cell_that_cannot_go_on_is_never_entered():
    """Code 0 of b is by far the best for a, but leads nowhere."""
    first = np.array([[400.0, 0.0], [400.0, 0.0]])
    second = np.array([[FORBIDDEN, FORBIDDEN], [0.0, FORBIDDEN]])
    model = chain([first, second])
    codes = draw(model, 1_000_000, np.random.default_rng(0))
    assert (codes["b"] == 1).all()
    assert (codes["c"] == 0).all()


def test_separators_whose_probability_underflows():
    """b = 1 has probability e^-800, which no float holds; a row forced into it still goes on by the rules."""
    first = np.array([[0.0, -800.0]])
    second = np.array([[0.0, 0.0, FORBIDDEN], [FORBIDDEN, FORBIDDEN, 0.0]])
    model = chain([first, second])
    conditionals = dict(zip(model.tree.nodes, model.conditionals, strict=True))
    np.testing.assert_array_equal(conditionals["b", "c"], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert (draw(model, 1_000_000, Stuck(0.0))["c"] != 2).all()


@pytest.mark.parametrize("offset", sample_cases(OFFSETS, to=1))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_huge_counts_leave_no_row_behind(seed, offset):
    """Four million rows in one cell, and an offset that rounding takes for a whole row."""
    rng = np.random.default_rng(seed)
    table = np.append(rng.normal(0, 5, 6), [FORBIDDEN] * 2)[None, :]
    model = chain([table])
    codes = draw(model, 4_000_001, Stuck(offset))
    assert len(codes["b"]) == 4_000_001
    assert codes["b"].max() < 6
