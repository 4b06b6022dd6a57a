"""Every compiled loop against its twin at every length modulo the width of its steps, and around the edges of chunks.

Processors take up to 64 codes at once, and what is left over by steps of their own: a fault in either shows only at
some lengths. Loops of our own that cut their work into pieces are tried with pieces of a few.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from populace._native import kernels
from populace._native.cell_moves import CellMovePlan, move_rows, screen_rows
from populace._native.kernels import count_columns
from populace.core.marginals import Domain, Grouping
from populace.inference.factor import AxisMap, cell_strides
from populace.inference.fit import denoise, projection
from populace.inference.fit.junction_ipf import _scale_to_target
from populace.inference.graph import junction_tree
from populace.inference.hierarchy import transportation
from populace.privacy.noise import block_rejection as blocks
from populace.privacy.noise import table_inversion as inversion
from populace.privacy.noise.distributions import ExponentialDecay
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.table_inversion import build_inversion_table
from populace.private.engines import memory_engine as memory
from populace.sampling.fit_rows import plan_moves
from populace.schema.conditions.rules import Rule, Rules

pytestmark = pytest.mark.sampled(10)

needs_loops = pytest.mark.skipif(not kernels.compiled(), reason="the loops in C were not built")

KINDS = (np.uint8, np.uint16, np.uint32)
# Twice the widest step and one more, and the edges of the pieces that counting takes.
LENGTHS = (*range(130), 2046, 2047, 2048, 2049, 4095, 4096, 4097)
SHORT = (*range(19), *range(31, 35), *range(63, 67))


@needs_loops
def test_every_loop_is_here():
    """A new one must be tried at every length as well."""
    tried = {"count_columns", "screen_cells", "move_cells", "scale_to_target", "scale_to_separator"}
    tried |= {"eliminate_variables", "project_onto_simplex", "weight_estimators", "split_tables"}
    assert {name for name in dir(kernels._native) if not name.startswith("_")} == tried


@needs_loops
@pytest.mark.parametrize("kind", KINDS)
# Tables of fewer cells than rows, of more, and of too many for a second one.
@pytest.mark.parametrize("sizes", [(2,), (3, 7), (5, 2, 251), (200, 100)], ids=str)
def test_rows_of_any_number_are_counted(kind, sizes):
    rng = np.random.default_rng(1)
    held = [rng.integers(0, size, LENGTHS[-1] + 1).astype(kind) for size in sizes]
    for rows, first in product(LENGTHS, (0, 1)):
        part = [column[first : first + rows] for column in held]
        assert (count_columns(part, sizes=sizes) == kernels._count(part, sizes).reshape(sizes)).all(), rows


@needs_loops
@pytest.mark.parametrize(
    "kinds", list(product(KINDS, KINDS)), ids=lambda kinds: "-".join(k.__name__ for k in kinds)
)
def test_codes_of_two_widths_are_counted_together(kinds):
    rng, sizes = np.random.default_rng(2), (3, 5)
    held = [rng.integers(0, size, 130).astype(kind) for size, kind in zip(sizes, kinds, strict=True)]
    for rows in range(130):
        part = [column[:rows] for column in held]
        assert (count_columns(part, sizes=sizes) == kernels._count(part, sizes).reshape(sizes)).all(), rows


@needs_loops
@pytest.mark.parametrize("kind", KINDS)
def test_a_code_outside_is_seen_at_every_place_of_every_length(kind):
    """In the last of two columns, where it would count for another cell and none that is not there."""
    for rows in (*range(1, 70), 2047, 2048, 2049):
        for place in range(rows) if rows < 70 else (0, 1, 2046, rows - 1):
            first, codes = np.zeros(rows, np.uint8), np.zeros(rows, kind)
            codes[place] = 3
            assert count_columns([first, codes], sizes=(2, 4))[0].tolist() == [rows - 1, 0, 0, 1]
            for held, sizes in (([codes], (3,)), ([first, codes], (2, 3))):
                with pytest.raises(IndexError):
                    count_columns(held, sizes=sizes)


@pytest.mark.parametrize("rows", range(14))
def test_counting_without_loops_takes_pieces_of_any_length(rows, monkeypatch):
    monkeypatch.setattr(memory, "CHUNK", 4)
    rng, sizes = np.random.default_rng(rows), (3, 2)
    a, b = (rng.integers(0, size, rows).astype(np.uint8) for size in sizes)
    found = memory.count_in_chunks([[a, b], [b], []], [(3, 2), (2,), ()], rows=rows)
    assert (found[0] == kernels._count([a, b], sizes).reshape(sizes)).all()
    assert found[1].tolist() == np.bincount(b, minlength=2).tolist()
    assert found[2] == rows


def work(*, rows: int, size: int):
    """A plan over tables of one to three columns with a rule, and arrays of a call; one column has so many codes."""
    rng = np.random.default_rng([rows, size])
    domain = Domain({"a": 3, "b": size, "c": 2})
    rule = Rule(text="", clique=("a", "c"), allowed=np.array([[True, False], [True, True]]))
    classes = {"a": Grouping("a", (0, 1, 1)), "c": Grouping("c", (0, 1))}
    cliques = [("a",), ("b",), ("b", "a"), ("c", "a", "b")]
    rules = Rules(classes=classes, rules=(rule,))
    plan = plan_moves(cliques, tuple(domain), [rule], domain=domain, rules=rules)
    cells = 3 + size + 2 * 3 * size + 3 * 6 * size
    return plan, {
        "codes": np.array([rng.integers(0, each, rows) for each in domain.values()], np.uint32).reshape(
            3, rows
        ),
        "rows": rng.permutation(rows),
        "leaving": np.full((3, rows), np.nan),
        "bars": np.ones(3),
        "deficits": rng.normal(0, 3, cells).astype(np.float32),
        "moved": np.zeros(3, np.int64),
    }


def run(plan: CellMovePlan, call, *, screening, moving) -> None:
    screening(call["codes"], call["deficits"], plan, 0.25, call["leaving"])
    arrays = [call[name] for name in ("codes", "rows", "leaving", "bars", "deficits")]
    moving(*arrays, plan, 0.25, call["moved"])


@needs_loops
@pytest.mark.parametrize(
    ("rows", "size"),
    [*((rows, 4) for rows in SHORT), *((3, size) for size in SHORT if size)],
)
def test_cells_of_any_number_of_rows_and_codes_move_alike(rows, size):
    """Bit for bit: sums are taken in one order."""
    plan, one = work(rows=rows, size=size)
    _, other = work(rows=rows, size=size)
    run(plan, one, screening=kernels._native.screen_cells, moving=kernels._native.move_cells)
    run(plan, other, screening=screen_rows, moving=move_rows)
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


@needs_loops
@pytest.mark.parametrize("other", [1, 2, 5, 9])
@pytest.mark.parametrize("clique", [("a",), ("b",), ("a", "b"), ("b", "a"), ("c",), ("c", "a"), ("b", "c")])
def test_tables_of_any_shape_are_summed_and_scaled_alike(clique, other):
    inside, rng = ("a", "c", "b"), np.random.default_rng(3)
    for length in (*range(1, 20), 33):
        domain = Domain({"a": length, "c": 3, "b": other})
        table, shape = rng.random(domain.shape(inside)), domain.shape(clique)
        slot, into = (
            AxisMap.of(clique, inside=inside, domain=domain),
            cell_strides(clique, inside, domain.shape(inside)),
        )
        given, made = rng.random(shape), table.copy()
        cells = domain.cells(clique)
        kernels.scale_to_separator(
            given.reshape(-1),
            made.reshape(-1),
            np.empty(2 * cells),
            leaving=cell_strides(clique, clique, shape),
            into=into,
            cells=cells,
        )
        np.testing.assert_allclose(made, table * slot.spread(given / slot.collapse(table)), rtol=1e-11)
        for soft in (None, rng.uniform(0.01, 0.1, shape)):
            target = given / given.sum()
            beliefs = [table / table.sum() for _ in range(2)]
            potentials = [np.zeros(shape) for _ in range(2)]
            plain = _scale_to_target(
                beliefs[0],
                potential=potentials[0],
                inside=slot,
                into=AxisMap.of(clique, inside=clique, domain=domain),
                target=target,
                soft=soft,
                least=1e-3 / cells,
            )
            compiled = kernels.scale_to_target(
                beliefs[1],
                potential=potentials[1].reshape(-1),
                inside=into,
                into=cell_strides(clique, clique, shape),
                target=target.reshape(-1),
                soft=None if soft is None else soft.reshape(-1),
                work=np.empty(2 * cells),
                least=1e-3 / cells,
            )
            np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(*beliefs, rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose(*potentials, rtol=1e-9, atol=1e-9)


@needs_loops
@pytest.mark.parametrize("total", [1e-3, 50.0])
def test_tables_of_any_length_are_projected_alike(total):
    rng = np.random.default_rng(4)
    for cells in range(1, 131):
        table = rng.normal(0, 5, cells)
        found = kernels.project_onto_simplex(table, total=total)
        np.testing.assert_allclose(found, projection._project_by_sorting(table, total=total), atol=1e-12 * 50)


@needs_loops
@pytest.mark.parametrize("count", range(1, 17))
def test_any_number_of_estimators_is_weighed_alike(count, monkeypatch):
    rng = np.random.default_rng(count)
    errors = rng.normal(0, 1, (count, 20)) * rng.choice([0.1, 1, 10], (count, 1))
    prior = rng.dirichlet(np.full(count, 3.0))
    products = errors @ errors.T
    monkeypatch.setattr(denoise, "_PRIOR", prior)
    found = kernels.weight_estimators(products, prior, rounds=denoise._ROUNDS, close=denoise._CLOSE)
    np.testing.assert_allclose(found, denoise._newton_weights(products), atol=1e-9)


@needs_loops
@pytest.mark.parametrize("cells", [*range(1, 10), 17, 33])
def test_tables_of_any_shape_are_split_alike(cells, monkeypatch):
    """Bit for bit: sums are taken in one order."""
    for units in (*range(1, 12), 33):
        rng = np.random.default_rng([units, cells])
        counts = rng.poisson(2.0, (units, 1, cells))
        given = {"rows": counts.sum(axis=2), "columns": counts.sum(axis=0)[None]}
        given |= {"starts": np.array([0, units]), "variance": rng.uniform(0.5, 2, units)}
        noisy = counts + rng.normal(0, 2, counts.shape)
        compiled = transportation.split_tables(noisy, **given).counts
        with monkeypatch.context() as patched:
            patched.setattr(kernels, "_native", None)
            assert (transportation.split_tables(noisy, **given).counts == compiled).all(), units


@needs_loops
@pytest.mark.parametrize("by_edges", [False, True])
def test_any_number_of_columns_is_eliminated_alike(by_edges, monkeypatch):
    """A set of columns is a row of words of 64."""
    for columns in (*range(1, 20), *range(62, 67), *range(127, 130)):
        rng = np.random.default_rng(columns)
        cliques = [
            sum(1 << int(place) for place in set(rng.integers(0, columns, 3).tolist()))
            for _ in range(columns)
        ]
        costs = rng.choice([1, 2, 3, 12], columns).tolist()
        compiled = junction_tree.eliminate(cliques, costs=costs, by_edges=by_edges)
        with monkeypatch.context() as patched:
            patched.setattr(kernels, "_native", None)
            assert junction_tree.eliminate(cliques, costs=costs, by_edges=by_edges) == compiled, columns


# ------------------------------------------------------------------------------------------------ noise, in pieces


def test_random_words_are_one_stream_however_many_are_asked_for():
    """A piece of the key stream has 32,768 words."""
    whole = RehearsalEntropy(1).words(2 * 32_768 + 5)
    for sizes in ((1, 0, 2, 3), (32_767, 1, 1), (32_768, 2), (32_769, 32_768), (65_540,)):
        source = RehearsalEntropy(1)
        drawn = np.concatenate([source.words(size) for size in sizes])
        assert (drawn == whole[: sum(sizes)]).all(), sizes


LAW = ExponentialDecay(rate=Fraction(1, 3), power=1, symmetric=True)


@pytest.mark.parametrize("guided", [False, True])
def test_draws_of_any_number_are_one_sequence(guided, monkeypatch):
    """One word for each draw: pieces of four, with and without the guide, give the same as one piece."""
    table = build_inversion_table(LAW)
    whole = inversion.draw_from_table(table, size=14, entropy=RehearsalEntropy(2))
    monkeypatch.setattr(inversion, "_BATCH", 4)
    monkeypatch.setattr(inversion, "_GUIDED_FROM", 0 if guided else 10**9)
    for size in range(14):
        drawn = inversion.draw_from_table(table, size=size, entropy=RehearsalEntropy(2))
        assert drawn.tolist() == whole[:size].tolist()


def test_draws_in_blocks_are_as_many_as_asked_for(monkeypatch):
    """Pairs that are not kept are drawn again, in pieces of four too; no draw is told twice."""
    monkeypatch.setattr(blocks, "_BATCH", 4)
    wide = blocks.build_blocks_of_width(
        ExponentialDecay(rate=Fraction(1, 10**9), power=1, symmetric=True), width_bits=25
    )
    source = RehearsalEntropy(3)
    drawn = [blocks.draw_blocks(wide, size=size, entropy=source) for size in range(14)]
    assert [len(each) for each in drawn] == list(range(14))
    every = np.concatenate(drawn)
    assert len(np.unique(every)) == len(every)
