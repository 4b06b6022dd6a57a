"""The memory engine counts exactly, with and without the compiled loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from populace._native import kernels
from populace.core.marginals import Domain, Grouping, Marginal
from populace.private.code_store import CodeStore
from populace.private.engines import memory_engine as memory
from populace.private.engines.memory_engine import MemoryEngine


def brute_force(codes, domain, marginal):
    table = np.zeros(marginal.shape(domain), dtype=np.int64)
    for row in zip(*codes.values(), strict=True):
        values = dict(zip(codes, row, strict=True))
        cell = tuple(
            g.groups[values[name]] if (g := marginal.grouping(name)) else values[name]
            for name in marginal.clique
        )
        table[cell] += 1
    return table


@st.composite
def tables(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    rows = draw(st.integers(0, 12))
    names = "abcd"[: len(sizes)]
    codes = {
        name: np.array(draw(st.lists(st.integers(0, size - 1), min_size=rows, max_size=rows)), dtype=np.uint8)
        for name, size in zip(names, sizes, strict=True)
    }
    return codes, Domain(dict(zip(names, sizes, strict=True)))


@settings(max_examples=60, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_counts_equal_brute_force(table, random):
    codes, domain = table
    cliques = [c for c in product(domain, repeat=2) if len(set(c)) == 2]
    marginals = [Marginal(()), *(Marginal((name,)) for name in domain), *(Marginal(c) for c in cliques)]
    for name in domain:
        groups = [random.randrange(2) for _ in range(domain[name])]
        if set(groups) == {0, 1}:
            marginals += [Marginal(c, (Grouping(name, tuple(groups)),)) for c in cliques if name in c]
    engine = MemoryEngine(codes, domain=domain)
    engine.prepare(marginals[::2], memory=1 << 20)
    for marginal, found in zip(marginals, engine.counts(marginals), strict=True):
        assert found.dtype == np.int64
        assert (found == brute_force(codes, domain, marginal)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_compiled_loops_equal_numpy(dtype, monkeypatch):
    rng = np.random.default_rng(3)
    sizes = {"a": 7, "b": 200, "c": 3}
    codes = {name: rng.integers(0, size, 5000).astype(dtype) for name, size in sizes.items()}
    codes["c"] = codes["c"].astype(np.uint8)
    marginals = [Marginal(("a", "b")), Marginal(("b", "c")), Marginal(("a",)), Marginal(("a", "b", "c"))]
    fast = MemoryEngine(codes, domain=Domain(sizes)).counts(marginals)
    monkeypatch.setattr(kernels, "_native", None)
    plain = MemoryEngine(codes, domain=Domain(sizes)).counts(marginals)
    for one, other in zip(plain, fast, strict=True):
        assert (one == other).all()


def test_chunks_change_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    codes = {"a": rng.integers(0, 4, 1000).astype(np.uint8), "b": rng.integers(0, 9, 1000).astype(np.uint16)}
    domain, pair = Domain({"a": 4, "b": 9}), [Marginal(("b", "a")), Marginal(())]
    monkeypatch.setattr(kernels, "_native", None)
    whole = MemoryEngine(codes, domain=domain).counts(pair)
    monkeypatch.setattr(memory, "CHUNK", 7)
    parts = MemoryEngine(codes, domain=domain).counts(pair)
    assert all((one == other).all() for one, other in zip(whole, parts, strict=True))


def test_permuting_rows_changes_nothing_before_noise():
    rng = np.random.default_rng(5)
    codes = {"a": rng.integers(0, 4, 100).astype(np.uint8), "b": rng.integers(0, 9, 100).astype(np.uint8)}
    order = rng.permutation(100)
    domain, pair = Domain({"a": 4, "b": 9}), [Marginal(("a", "b"))]
    one = MemoryEngine(codes, domain=domain).counts(pair)[0]
    other = MemoryEngine({k: v[order] for k, v in codes.items()}, domain=domain).counts(pair)[0]
    assert (one == other).all()


def test_prepare_keeps_within_its_memory():
    codes = {"a": np.zeros(3, np.uint8), "b": np.zeros(3, np.uint8)}
    engine = MemoryEngine(codes, domain=Domain({"a": 2, "b": 2}))
    engine.prepare([Marginal(("a",)), Marginal(("a", "b"))], memory=16)
    assert list(engine._kept) == [Marginal(("a",))]


def test_engine_prints_no_rows():
    codes = {"a": np.array([1, 1, 1], np.uint8)}
    assert repr(MemoryEngine(codes, domain=Domain({"a": 2}))) == "MemoryEngine(1 columns)"


@given(tables(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_rows_that_occur_are_counted_in_order(table, long):
    """Also where numbers of rows would grow too long, and whatever the order of the rows is."""
    codes, domain = table
    expected = Counter(zip(*(column.tolist() for column in codes.values()), strict=True))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "LONGEST", 6 if long else memory.LONGEST)
        rows, counts = MemoryEngine(codes, domain=domain).tally()
        turned, same = MemoryEngine({n: c[::-1] for n, c in codes.items()}, domain=domain).tally()
    assert dict(zip(map(tuple, rows.tolist()), counts.tolist(), strict=True)) == expected
    assert rows.tolist() == sorted(rows.tolist()) == turned.tolist()
    assert (rows.dtype.kind, counts.dtype) == ("u", np.int64)
    assert same.tolist() == counts.tolist()


def test_a_tally_refuses_codes_outside_their_domain():
    engine = MemoryEngine({"a": np.array([0, 3], np.uint8)}, domain=Domain({"a": 3}))
    with pytest.raises(IndexError, match="outside"):
        engine.tally()


def test_what_is_kept_over_many_rounds_stays_within_the_memory(monkeypatch):
    """Every round asks for other marginals: the limit is for all that is kept, and the last asked are kept."""
    domain = Domain(dict.fromkeys((f"c{number}" for number in range(12)), 4))
    codes = {name: np.zeros(5, np.uint8) for name in domain}
    engine = MemoryEngine(codes, domain=domain)
    pairs = [Marginal(pair) for pair in combinations(domain, 2)]
    for start in range(0, len(pairs), 6):
        engine.prepare(pairs[start : start + 6], memory=10 * 8 * 16)
        assert sum(table.nbytes for table in engine._kept.values()) <= 10 * 8 * 16
    counted = []
    monkeypatch.setattr(MemoryEngine, "_count", lambda self, asked: counted.extend(asked) or [0] * len(asked))
    engine.prepare(pairs[-10:], memory=10 * 8 * 16)
    assert counted == []
    assert [int(table.sum()) for table in engine.counts(pairs[-10:])] == [5] * 10
    engine.prepare(pairs[:11], memory=10 * 8 * 16)
    assert counted == pairs[:10]


def test_two_groupings_of_one_column_are_counted_apart() -> None:
    engine = MemoryEngine({"a": np.array([0, 1, 2, 2], np.uint8)}, domain=Domain({"a": 3}))
    asked = [Marginal(("a",), (Grouping("a", groups),)) for groups in ((0, 1, 1), (0, 0, 1), (1, 0, 1))]
    for _ in range(2):
        assert [counts.tolist() for counts in engine.counts(asked)] == [[1, 3], [2, 2], [1, 3]]
    asked[2] = Marginal(("a",), (Grouping("a", (1, 1, 0)),))
    assert engine.counts(asked)[2].tolist() == [2, 2]


def test_rows_of_many_long_columns_are_tallied_in_order() -> None:
    """Their numbers would pass 64 bits twice over: ranks take their place, and are as many as rows."""
    rng = np.random.default_rng(1)
    held = rng.choice(np.array([0, 1, 2**31 - 1], np.uint32), (4, 40))
    held[:, 20:] = held[:, :20]
    names = ["a", "b", "c", "d"]
    engine = MemoryEngine(dict(zip(names, held, strict=True)), domain=Domain(dict.fromkeys(names, 2**31)))
    rows, counts = engine.tally()
    expected, times = np.unique(held.T, axis=0, return_counts=True)
    assert rows.tolist() == expected.tolist()
    assert counts.tolist() == times.tolist()


def test_rows_whose_numbers_would_go_once_around_are_told_apart() -> None:
    """2^65 rows are possible: numbers of 64 bits would give one key, that of the first, to rows that differ."""
    names = ["a", "b", "c"]
    held = np.array([[2**30, 0, 0], [0, 0, 0], [0, 0, 0], [0, 2**30, 7]], np.uint32).T
    domain = Domain({"a": 2**31, "b": 2**31, "c": 8})
    rows, counts = MemoryEngine(dict(zip(names, held, strict=True)), domain=domain).tally()
    assert rows.tolist() == [[0, 0, 0], [0, 2**30, 7], [2**30, 0, 0]]
    assert counts.tolist() == [2, 1, 1]


@given(tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_rows_that_stand_for_several_units_count_as_if_each_were_written_out(table, data):
    """Counts of every clique, grouped or not, in one chunk or many, and the rows that occur."""
    codes, domain = table
    rows = len(next(iter(codes.values())))
    frequencies = np.array(data.draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows)), np.int64)
    expanded = {name: np.repeat(column, frequencies) for name, column in codes.items()}
    cliques = [clique for size in range(len(domain) + 1) for clique in combinations(domain, size)]
    marginals = [Marginal(clique) for clique in cliques]
    wide = [name for name, size in domain.items() if size > 1]
    for name in wide[:1]:
        grouping = Grouping(name, tuple(code % 2 for code in range(domain[name])))
        marginals += [Marginal(clique, (grouping,)) for clique in cliques if name in clique]
    plain = MemoryEngine(expanded, domain=domain)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "CHUNK", data.draw(st.sampled_from([3, memory.CHUNK])))
        counted = MemoryEngine(codes, frequencies, domain=domain)
        if data.draw(st.booleans()):
            counted.prepare(marginals[::2], memory=1 << 20)
        found = counted.counts(marginals)
    for one, other in zip(found, plain.counts(marginals), strict=True):
        assert one.dtype == np.int64
        assert one.tolist() == other.tolist()
    for one, other in zip(counted.tally(), plain.tally(), strict=True):
        assert one.tolist() == other.tolist()


def test_sums_of_large_frequencies_are_exact():
    """A sum in floats would round 2⁵³ + 1, and hide or double one unit."""
    codes, domain = {"a": np.array([0, 0, 1], np.uint8)}, Domain({"a": 2})
    counts = MemoryEngine(codes, np.array([2**53, 1, 3]), domain=domain).counts(
        [Marginal(("a",)), Marginal(())]
    )
    assert [each.tolist() for each in counts] == [[2**53 + 1, 3], 2**53 + 4]


def test_codes_outside_their_domain_are_refused_with_frequencies_too():
    engine = MemoryEngine({"a": np.array([0, 3], np.uint8)}, np.array([1, 0]), domain=Domain({"a": 3}))
    with pytest.raises(IndexError, match="outside"):
        engine.counts([Marginal(("a",))])


def test_counting_that_broke_off_leaves_no_groups_of_another_block(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocks(CodeStore):
        is_in_memory = False
        values = (0, 1)

        def __init__(self) -> None: ...

        def blocks(self) -> Iterator[dict[str, np.ndarray]]:
            yield from ({"a": np.full(2 + value, value, np.uint8)} for value in self.values)

    blocks = Blocks()
    engine = MemoryEngine(blocks, domain=Domain({"a": 2}))
    grouped = Marginal(("a",), (Grouping("a", (0, 1)),))
    with monkeypatch.context() as broken:
        for name in ("count_in_tiles", "count_in_chunks"):
            broken.setattr(memory, name, lambda *_, **__: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            engine.counts([grouped])
    blocks.values = (1, 0)
    assert engine.counts([grouped])[0].tolist() == [2, 3]
