"""The loops in C agree with NumPy on every kind of column, and no call leads them outside their arrays."""

from __future__ import annotations

import runpy
import shutil
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
from numpy.lib.stride_tricks import as_strided

import populace.sampling.fit_rows
from populace._native import kernels
from populace._native.cell_moves import CellMovePlan
from populace._native.kernels import count_columns, move_cells, screen_cells
from populace.core.errors import NotCompiled, UsageError
from populace.core.marginals import Domain, Grouping
from populace.sampling.fit_rows import plan_moves
from populace.schema.conditions.rules import Rule, Rules

KINDS = [np.uint8, np.uint16, np.uint32]

needs_loops = pytest.mark.skipif(not kernels.compiled(), reason="the loops in C were not built")


@pytest.fixture(params=["compiled", "plain"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setattr(kernels, "_native", None)
    elif not kernels.compiled():
        pytest.skip("the loops in C were not built")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_loops_are_built() -> None:
    assert kernels.compiled(), "see .venv/setup.log, or rm .venv/.ready && make setup"


def columns(sizes: tuple[int, ...], *, rows: int) -> list[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, size, rows) for size in sizes]


def expected(held: list[npt.NDArray[np.int64]], sizes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    flat = np.ravel_multi_index(held, sizes)
    return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(("first", "second"), list(product(KINDS, KINDS)))
@pytest.mark.parametrize("sizes", [(3, 250), (200, 256)])  # few cells and many are counted differently
def test_pairs(first: type, second: type, sizes: tuple[int, int]) -> None:
    for rows in (0, 1, 2, 10_001):
        a, b = columns(sizes, rows=rows)
        counts = count_columns([a.astype(first), b.astype(second)], sizes=sizes)
        assert counts.dtype == np.int64
        assert (counts == expected([a, b], sizes)).all()


@pytest.mark.usefixtures("path")
def test_any_number_of_columns() -> None:
    for sizes in ((7,), (7, 300), (3, 2, 70_000), (2, 3, 4, 5, 6)):
        held = columns(sizes, rows=40_001)
        typed = [
            column.astype(np.min_scalar_type(size - 1)) for column, size in zip(held, sizes, strict=True)
        ]
        assert (count_columns(typed, sizes=sizes) == expected(held, sizes)).all()


def test_tables_too_large_for_the_compiled_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MAX_CELLS", 4)
    assert count_columns([np.array([4, 4], np.uint8)], sizes=(5,)).tolist() == [0, 0, 0, 0, 2]


@pytest.mark.usefixtures("path")
def test_columns_mapped_or_cut_from_others() -> None:
    a, b = (column.astype(np.uint8) for column in columns((4, 9), rows=1_000))
    a.flags.writeable = False
    both = np.stack([a, b], axis=1)
    assert (count_columns([a, b], sizes=(4, 9)) == count_columns(list(both.T), sizes=(4, 9))).all()
    odd = np.frombuffer(b"\0" + b.astype(np.uint32).tobytes(), dtype=np.uint32, offset=1)
    assert (count_columns([odd], sizes=(9,)) == np.bincount(b, minlength=9)).all()


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("held", "sizes"),
    [
        ([[0, 2], [0, 0]], (2, 1)),  # a code outside its domain
        ([[0, 0], [0, 1]], (2, 1)),
        ([[0, 0], [0]], (1, 1)),
        ([[0]], (1, 1)),
    ],
)
def test_columns_that_would_write_outside_are_refused(held: list[list[int]], sizes: tuple[int, ...]) -> None:
    # Codes are ours, so a wrong one is our bug; what else is wrong is a mistake of the caller.
    with pytest.raises(IndexError if len(held[0]) == len(held[-1]) == 2 else UsageError):
        count_columns([np.array(column, dtype=np.uint8) for column in held], sizes=sizes)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", [0, 2_047, 2_048, 4_999])
def test_one_code_outside_is_found_wherever_it_is(kind: type, row: int) -> None:
    codes = np.zeros(5_000, kind)
    codes[row] = 7
    assert count_columns([codes], sizes=(8,))[7] == 1
    with pytest.raises(IndexError, match="a code lies outside its domain"):
        count_columns([codes], sizes=(7,))


@pytest.mark.usefixtures("path")
def test_signed_codes_are_refused() -> None:
    with pytest.raises(UsageError, match="uint8"):
        count_columns([np.zeros(3, np.int64)], sizes=(1,))


@pytest.mark.usefixtures("path")
def test_columns_of_two_axes_are_refused() -> None:
    with pytest.raises(UsageError, match="does not hold codes"):
        count_columns([np.zeros((2, 2), np.uint8)], sizes=(1,))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("whole", [int, np.int64])
@pytest.mark.parametrize("sizes", [(1 << 40, 1 << 40), (1 << 32, 1 << 32), (1 << 30, 1 << 30), (3, -1)])
def test_tables_that_cannot_be_are_refused_as_such(sizes: tuple[int, ...], whole: type[int]) -> None:
    with pytest.raises(UsageError, match=r"table of .* cells cannot be counted"):
        count_columns([np.zeros(2, np.uint8)] * 2, sizes=tuple(map(whole, sizes)))


@pytest.mark.usefixtures("path")
def test_no_rows_fit_into_no_cells() -> None:
    assert count_columns([np.zeros(0, np.uint8)] * 2, sizes=(3, 0)).shape == (3, 0)
    with pytest.raises(IndexError):
        count_columns([np.zeros(1, np.uint8)] * 2, sizes=(3, 0))


Call = dict[str, npt.NDArray[np.generic]]


def planned() -> tuple[CellMovePlan, Call]:
    """A plan with tables of one to three columns and a rule, and the arrays of a call that fits it."""
    rng, domain = np.random.default_rng(5), Domain({"a": 3, "b": 4, "c": 2})
    rule = Rule(text="", clique=("a", "b", "c"), allowed=np.arange(8).reshape(2, 2, 2) != 7)
    groups = {"a": (0, 1, 1), "b": (0, 0, 1, 1), "c": (0, 1)}
    classes = {name: Grouping(name, held) for name, held in groups.items()}
    rules = Rules(classes=classes, rules=(rule,))
    plan = plan_moves(
        [("a",), ("b", "a"), ("c", "a", "b")], tuple(domain), [rule], domain=domain, rules=rules
    )
    cells = 3 + 2 * 12 + 3 * 24
    return plan, {
        "codes": np.array([rng.integers(0, size, 50) for size in domain.values()], np.uint32),
        "rows": rng.permutation(50),
        "leaving": np.full((3, 50), -1.0),
        "bars": np.ones(3),
        "deficits": rng.normal(0, 3, cells).astype(np.float32),
        "moved": np.zeros(3, np.int64),
    }


def run(plan: tuple[npt.NDArray[np.generic], ...], call: Call) -> None:
    screen_cells(call["codes"], call["deficits"], plan, 0.25, call["leaving"])
    move_cells(
        *(call["codes"], call["rows"], call["leaving"], call["bars"], call["deficits"], plan, 0.25),
        call["moved"],
    )


@needs_loops
@pytest.mark.parametrize(("name", "value"), [("_native", None), ("MAX_CELLS", 4)])
def test_both_kinds_of_loop_do_the_same_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    plan, call = planned()
    _, other = planned()
    run(plan, call)
    monkeypatch.setattr(kernels, name, value)
    run(plan, other)
    assert call["moved"].any()
    assert all(call[name].tobytes() == other[name].tobytes() for name in call)


@needs_loops
@pytest.mark.parametrize("field", [name for name in CellMovePlan._fields if name != "allowed"])
@pytest.mark.parametrize("number", [-1, 1 << 20, 1 << 62, -(1 << 63)])
def test_a_plan_that_leads_outside_is_refused(field: str, number: int) -> None:
    plan, call = planned()
    for at in np.ndindex(getattr(plan, field).shape):
        if field == "corners" and at == (1,):
            continue  # the end of the last rule's table, which nothing follows
        changed = getattr(plan, field).copy()
        changed[at] = number
        with pytest.raises(ValueError, match="outside its arrays"):
            run(plan._replace(**{field: changed}), call)


@needs_loops
def test_no_small_change_of_a_plan_leads_outside() -> None:
    """Some are refused and others are sound plans; under a sanitizer, none reads or writes elsewhere."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(500):
        plan, call = planned()
        field = str(rng.choice(CellMovePlan._fields))
        changed = getattr(plan, field).copy()
        changed[tuple(rng.integers(0, changed.shape))] += rng.integers(-3, 4)
        try:
            run(plan._replace(**{field: changed}), call)
        except ValueError:
            refused += 1
    assert 100 < refused < 450


def cut(name: str) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        call[name] = np.ascontiguousarray(call[name][..., :-1])

    return change


def cast(name: str, kind: str) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        call[name] = call[name].astype(kind)

    return change


def put(name: str, number: int) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        call[name].flat[-1] = number

    return change


def turn(call: Call) -> None:
    call["codes"] = np.asfortranarray(call["codes"])


def lock(call: Call) -> None:
    call["deficits"].flags.writeable = False


@needs_loops
@pytest.mark.parametrize(
    "change",
    [
        *(cut(name) for name in ("codes", "leaving", "bars", "deficits", "moved")),
        *(cast("codes", kind) for kind in ("u2", "i4", ">u4", "f4")),
        *(
            cast("deficits", "f8"),
            cast("rows", "i4"),
            cast("moved", "u8"),
            cast("leaving", "f4"),
            cast("bars", "f4"),
        ),
        *(put("codes", 2), put("rows", 50), put("rows", -1)),
        *(turn, lock),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: Callable[[Call], None]) -> None:
    plan, call = planned()
    change(call)
    before = {name: array.copy() for name, array in call.items() if name != "leaving"}
    with pytest.raises((ValueError, BufferError)):
        run(plan, call)
    assert all((call[name] == before[name]).all() for name in before)


@needs_loops
@pytest.mark.parametrize(
    "plan", [(), tuple(np.zeros(1) for _ in CellMovePlan._fields), (None,) * len(CellMovePlan._fields)]
)
def test_what_is_no_plan_is_refused(plan: tuple[npt.NDArray[np.generic], ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        run(plan, planned()[1])


@needs_loops
@pytest.mark.parametrize(
    ("held", "sizes", "cells"),
    [
        ((), (), 1),
        ((np.zeros(2, np.uint8),), (3,), 2),
        ((np.zeros(2, np.uint8),), (-3,), 3),
        ((np.zeros(2, np.uint8),), (1 << 40,), 3),
        ((np.zeros(2, np.uint8),) * 3, (1 << 31, 1 << 31, 4), 0),
        ((np.zeros(2, np.uint8),) * 2, (1 << 32, 1 << 32), 0),
        ((np.zeros(2, np.uint8), np.zeros(3, np.uint8)), (1, 1), 1),
        ((np.zeros(2, np.uint64),), (1,), 1),
        ((np.zeros((2, 2), np.uint8),), (1,), 1),
    ],
)
def test_the_compiled_count_looks_for_itself(
    held: tuple[npt.NDArray[np.generic], ...], sizes: tuple[int, ...], cells: int
) -> None:
    with pytest.raises((ValueError, OverflowError)):
        kernels._native.count_columns(held, sizes, np.zeros(cells, np.int64))


@needs_loops
def test_codes_that_change_while_they_are_counted_lead_nowhere_else() -> None:
    """As those of a file mapped into memory may: somebody else writes codes in and outside the domain all the while."""
    size, codes, around = 20_000, np.full(2_000, 7, np.uint16), np.zeros(1 << 16, np.int64)
    turns = np.tile(np.array([7, 60_000], np.uint16), 1 << 18)
    often = as_strided(codes[1_000:], shape=turns.shape, strides=(0,))  # one code, again and again
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            often[:] = turns

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        with suppress(IndexError):
            kernels._native.count_columns((codes,), (size,), around[:size])
    done.set()
    writer.join()
    assert not around[size:].any()


@needs_loops
def test_counts_that_are_the_codes_are_refused() -> None:
    counts = np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="share memory"):
        kernels._native.count_columns((counts.view(np.uint8),), (4,), counts)


@needs_loops
@pytest.mark.parametrize("written", ["codes", "deficits", "leaving", "moved"])
def test_arrays_written_to_share_no_memory_with_others(written: str) -> None:
    """Or a loop would change what was checked, and follow it."""
    plan, call = planned()
    held = call[written]
    room = np.zeros(plan.sizes.nbytes + held.nbytes, np.uint8)
    call[written] = room[plan.sizes.nbytes :].view(held.dtype).reshape(held.shape)
    call[written][:] = held
    beside, within = (room[by:][: plan.sizes.nbytes].view(np.int64) for by in (0, 8))
    beside[:] = plan.sizes
    run(plan._replace(sizes=beside), call)
    within[:] = plan.sizes
    with pytest.raises(ValueError, match="shares memory"):
        run(plan._replace(sizes=within), call)


@needs_loops
def test_many_rules_of_many_codes_are_checked_in_little_time() -> None:
    """The classes of a column are looked through once in a call, not once for each rule."""
    domain = Domain({"a": 10_000, "b": 2})
    classes = {"a": Grouping("a", (0,) * 9_999 + (1,)), "b": Grouping("b", (0, 1))}
    rule = Rule(text="", clique=("a", "b"), allowed=np.eye(2, dtype=bool))
    codes, leaving = np.zeros((2, 1), np.uint32), np.empty((2, 1))

    def taken(rules: int) -> float:
        kept = Rules(classes=classes, rules=(rule,) * rules)
        plan = plan_moves([("a",)], tuple(domain), kept.rules, domain=domain, rules=kept)
        best = np.inf
        for _ in range(20):
            start = time.perf_counter()
            screen_cells(codes, np.zeros(10_000, np.float32), plan, 0.25, leaving)
            best = min(best, time.perf_counter() - start)
        return best

    assert taken(50) < 5 * taken(1)


@pytest.mark.parametrize("without_lock", [None, 0, 1])
def test_pythons_without_a_lock_get_a_build_of_their_own(
    monkeypatch: pytest.MonkeyPatch, without_lock: int | None
) -> None:
    """They refuse the one file that serves all others."""
    told: dict[str, object] = {}
    fake = SimpleNamespace(Extension=lambda name, **how: {"name": name, **how}, setup=told.update)
    monkeypatch.setitem(sys.modules, "setuptools", fake)
    monkeypatch.setitem(sysconfig.get_config_vars(), "Py_GIL_DISABLED", without_lock)
    runpy.run_path(str(Path(__file__).parents[2] / "setup.py"))
    (loops,) = told["ext_modules"]
    assert loops["name"] == "populace._native._kernels"
    assert loops["optional"] is True
    assert loops["py_limited_api"] is not bool(without_lock)
    assert bool(loops["define_macros"]) is not bool(without_lock)
    assert bool(told["options"]) is not bool(without_lock)


def test_rows_fitted_without_the_loops_come_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_native", None)
    codes = {"a": np.zeros(4, np.uint8)}
    with pytest.warns(NotCompiled, match="hint: install a C compiler.* --no-cache-dir --force-reinstall"):
        populace.sampling.fit_rows.fit_rows(
            codes, targets={("a",): np.ones(2)}, domain=Domain({"a": 2}), rng=np.random.default_rng(0)
        )
    assert codes["a"].sum() == 2
