"""Codes in a private file: the same counts as in memory, nobody else's to read, and gone with the process."""

from __future__ import annotations

import errno
import gc
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import ResourceError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private import code_store
from populace.private.code_store import FREQUENCY, CodeStore
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.private.read.rows_to_codes import read_counted_codes

SIZES = {"a": 3, "b": 300, "c": 7}
KINDS = {name: np.min_scalar_type(size - 1) for name, size in SIZES.items()}
SCHEMA = pp.Schema.from_sizes(SIZES)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_store, "BLOCK_BYTES", 1)
    monkeypatch.setattr(code_store, "GROWTH_BYTES", 2**14)


def people(rows: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, rows).astype(KINDS[name]) for name, size in SIZES.items()}


def store_of(codes: dict[str, np.ndarray], *, memory: int, batch: int = 1000) -> CodeStore:
    store = CodeStore({name: column.dtype for name, column in codes.items()}, memory=memory)
    rows = len(next(iter(codes.values())))
    for start in range(0, rows, batch):
        store.append({name: column[start : start + batch] for name, column in codes.items()})
    return store


@pytest.mark.parametrize("rows", [0, 1, 4096, 10_000])
@pytest.mark.parametrize("counted", [False, True])
def test_a_file_counts_as_memory_does(rows: int, counted: bool) -> None:
    codes, domain = people(rows), Domain(SIZES)
    if counted:
        codes[FREQUENCY] = np.random.default_rng(1).integers(0, 5, rows)
    coarse = Grouping("b", tuple(code % 4 for code in range(300)))
    marginals = [Marginal(()), *(Marginal((name,)) for name in SIZES)]
    marginals += [Marginal(pair) for pair in combinations(SIZES, 2)] + [Marginal(("b", "c"), (coarse,))]
    inside, outside = (store_of(codes, memory=memory) for memory in (2**30, 0))
    assert inside.is_in_memory
    assert outside.is_in_memory is (rows == 0)
    engines = [MemoryEngine(each, domain=domain) for each in (inside, outside)]
    for _ in range(2):
        for one, other in zip(*(engine.counts(marginals) for engine in engines), strict=True):
            assert np.array_equal(one, other)
    for one, other in zip(*(engine.tally() for engine in engines), strict=True):
        assert np.array_equal(one, other)
    kept = np.arange(rows) % 3 == 0
    firsts = [MemoryEngine(each.keep(kept), domain=domain) for each in (inside, outside)]
    for one, other in zip(*(engine.counts(marginals) for engine in firsts), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("rows", [0, 1])
def test_declared_rows_in_a_file_may_be_none(rows: int) -> None:
    store = CodeStore(KINDS, memory=0, max_rows=10**4)
    assert not store.is_in_memory
    store.append(people(rows))
    for each in (store, store.keep(np.ones(rows, bool))):
        engine = MemoryEngine(each, domain=Domain(SIZES))
        found, counts = engine.tally()
        assert found.shape == (rows, len(SIZES))
        assert counts.tolist() == [1] * rows
        assert engine.counts([Marginal(())])[0] == rows


def test_measurements_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    frame = pa.table({name: pa.array(column) for name, column in people(9000).items()})
    found = []
    for number, share in enumerate((4, 2**60)):
        monkeypatch.setattr(code_store, "MEMORY_SHARE", share)
        measured = pp.measure(
            frame,
            schema=SCHEMA,
            epsilon=1,
            delta="1e-9",
            dataset="people",
            ledger=tmp_path / f"{number}.db",
            noise=ExactNoise(RehearsalEntropy(5)),
        )
        found.append([(item.marginal, item.counts.tolist()) for item in measured.items])
    assert found[0] == found[1]


def test_the_file_has_no_name_and_one_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = store_of(people(10_000), memory=0)
    assert store._file is not None
    held = os.fstat(store._file)
    assert stat.S_IMODE(held.st_mode) == 0o600
    assert held.st_nlink == 0
    assert not os.get_inheritable(store._file)
    assert list(tmp_path.iterdir()) == []
    number = store._file
    del store
    gc.collect()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(number)


def test_room_is_made_before_the_charge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With max_rows the table is refused while nothing is spent; without it the words are the same for every table."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(code_store, "MEMORY_SHARE", 2**60)
    monkeypatch.setattr(os, "posix_fallocate", full)
    ledger = tmp_path / "l.db"
    asked = {"epsilon": 1, "delta": "1e-9", "dataset": "people", "ledger": ledger}
    with pytest.raises(ResourceError, match=r"max_rows rows take .* GiB"):
        pp.measure(pa.table(people(10)), schema=replace(SCHEMA, max_rows=10**6), **asked)
    assert not ledger.exists() or not pp.Ledger.existing(ledger).accounts()
    words = set()
    for rows in (9000, 20_000):
        with pytest.raises(ResourceError) as refusal:
            pp.measure(pa.table(people(rows)), schema=SCHEMA, **asked | {"ledger": tmp_path / f"{rows}.db"})
        words.add(str(refusal.value))
    assert len(words) == 1
    assert "stays charged" in words.pop()


@pytest.mark.parametrize("rows", [1, 9000])
def test_a_folder_that_cannot_be_written_to_is_told_before_the_charge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: int
) -> None:
    """Whether there are more rows than memory holds must not decide whether a run fails."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    ledger = tmp_path / "l.db"
    with pytest.raises(ResourceError, match="no file for codes can be made"):
        pp.measure(
            pa.table(people(rows)), schema=SCHEMA, epsilon=1, delta="1e-9", dataset="people", ledger=ledger
        )
    assert not ledger.exists() or not pp.Ledger.existing(ledger).accounts()


def test_declared_rows_take_their_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    real = os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", lambda *words: taken.append(words[2]) or real(*words))
    monkeypatch.setattr(code_store, "MEMORY_SHARE", 2**60)
    PrivateTable.of(pa.table(people(10)), schema=replace(SCHEMA, max_rows=10**5))
    assert taken
    assert taken[0] >= 10**5 * sum(kind.itemsize for kind in KINDS.values())


@pytest.mark.parametrize("memory", [2**30, 0])
def test_a_reading_that_broke_off_counts_no_row_twice(memory: int) -> None:
    class Breaking:
        """A source that fails after its first batch, once."""

        decimal, broken = ".", False

        def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
            for start in (0, 5000):
                rows = {name: column[start : start + 5000] for name, column in people(10_000).items()}
                yield pa.table(rows).combine_chunks().to_batches()[0].select(columns)
                if not self.broken:
                    self.broken = True
                    raise OSError(errno.EIO, "broken")

    source, store = Breaking(), CodeStore(KINDS, memory=memory)
    with pytest.raises(ResourceError):
        read_counted_codes(source, SCHEMA, store)
    engine = MemoryEngine(read_counted_codes(source, SCHEMA, store), domain=Domain(SIZES))
    assert engine.counts([Marginal(())])[0] == 10_000


def test_memory_that_does_not_suffice_is_refused_before_the_charge(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    with pytest.raises(ResourceError, match="GiB of memory"):
        pp.measure(
            pa.table(people(10)),
            schema=SCHEMA,
            epsilon=1,
            delta="1e-9",
            dataset="people",
            ledger=ledger,
            memory="100MiB",
        )
    assert not ledger.exists()


@pytest.mark.slow
def test_a_kill_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import numpy as np, sys, time\n"
        "from populace.private.code_store import CodeStore\n"
        "store = CodeStore({'a': np.dtype(np.uint8)}, memory=0)\n"
        "store.append({'a': np.zeros(2**25, np.uint8)})\n"
        "print('there', flush=True)\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"there\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert list(tmp_path.iterdir()) == []
