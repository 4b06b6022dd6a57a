"""Randomness for noise: uniform, new in every process, never copied; repeatable only in rehearsals."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.privacy.noise import entropy as module
from populace.privacy.noise.entropy import Entropy, RehearsalEntropy, SystemEntropy


def test_two_sources_differ() -> None:
    # Equal by accident with probability 2^−256.
    assert SystemEntropy().words(4).tolist() != SystemEntropy().words(4).tolist()


def test_two_processes_differ() -> None:
    command = "from populace.privacy.noise.entropy import SystemEntropy as S; print(S().words(4).tolist())"
    first, second = (subprocess.check_output([sys.executable, "-c", command]) for _ in range(2))
    assert first != second


def _words_of_fork(source: Entropy) -> list[int]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    words = np.frombuffer(os.read(reading, 32), dtype=np.uint64).tolist()
    os.close(reading)
    os.close(writing)
    return words


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
class TestFork:
    def test_a_child_does_not_repeat_its_parent(self) -> None:
        source = SystemEntropy()
        source.words(3)
        first, second = _words_of_fork(source), _words_of_fork(source)
        parent = source.words(4).tolist()
        assert len({tuple(first), tuple(second), tuple(parent)}) == 3

    def test_the_probe_would_see_a_repeated_stream(self) -> None:
        source = RehearsalEntropy(5)
        assert _words_of_fork(source) == source.words(4).tolist()

    def test_a_fork_without_python_hooks_is_seen_by_the_process_id(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = SystemEntropy()
        before = source._cipher
        monkeypatch.setattr(os, "getpid", lambda: -1)
        source.words(1)
        assert source._cipher is not before

    def test_a_fork_that_reuses_the_process_id_is_seen_by_the_hook(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = SystemEntropy()
        before = source._cipher
        monkeypatch.setattr(module, "_generation", module._generation + 1)
        source.words(1)
        assert source._cipher is not before

    def test_a_child_is_not_stopped_by_a_lock_its_parent_held(self) -> None:
        source = SystemEntropy()
        with source._lock:
            assert len(_words_of_fork(source)) == 4

    def test_workers_of_a_pool_differ(self) -> None:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answers = pool.map(_pool_words, range(8), chunksize=1)
        assert len(set(answers)) == 8


_shared = SystemEntropy()


def _pool_words(_: int) -> tuple[int, ...]:
    return tuple(_shared.words(4).tolist())


@pytest.mark.parametrize("source", [SystemEntropy(), RehearsalEntropy(1)])
def test_a_source_is_never_copied(source: Entropy) -> None:
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="make a new one"):
            duplicate(source)


def test_rehearsals_repeat_and_say_so() -> None:
    assert RehearsalEntropy(7).words(1000).tolist() == RehearsalEntropy(7).words(1000).tolist()
    assert RehearsalEntropy(7).words(4).tolist() != RehearsalEntropy(8).words(4).tolist()


def test_the_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole, pieces = RehearsalEntropy(3), RehearsalEntropy(3)
    parts = [pieces.words(n) for n in (0, 1, 7, 40_000, 1, 60_000)]
    assert whole.words(100_009).tolist() == np.concatenate(parts).tolist()


def test_the_stream_is_chacha20() -> None:
    """RFC 8439, appendix A.1, first vector: key and nonce 0, block 0."""

    class Known(RehearsalEntropy):
        def _key(self, number: int) -> bytes:
            return bytes(32)

    assert Known(0).words(2).astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_a_key_is_changed_before_its_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = RehearsalEntropy(1).words(100_000)
    monkeypatch.setattr(module, "_BYTES_PER_KEY", 1 << 19)
    changed = RehearsalEntropy(1).words(100_000)
    assert (plain == changed).tolist() == [True] * 65_536 + [False] * 34_464


def test_bits_are_balanced() -> None:
    # 64 counts of 100,000 fair coins, each within 5.5 standard deviations: false alarm below 3e-6; seed fixed.
    words = RehearsalEntropy(11).words(100_000)
    ones = np.array([np.count_nonzero(words >> np.uint64(bit) & np.uint64(1)) for bit in range(64)])
    assert np.abs(ones - 50_000).max() < 5.5 * 158.2


class Script(RehearsalEntropy):
    """Words from a list."""

    def __init__(self, *words: int) -> None:
        super().__init__(0)
        self.left = list(words)

    def words(self, n: int) -> np.ndarray:
        taken, self.left = self.left[:n], self.left[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.uint64)


def test_below_throws_away_what_would_tilt_it() -> None:
    # 2^128 − 1 is 0 modulo 3 and lies in the incomplete last run of 2^128 = 3·(…) + 1.
    top = 2**64 - 1
    assert Script(top, top, 5, 0).below(3) == 5 % 3
    assert Script(top - 1, top).below(3) == (2**128 - 2) % 3


def test_below_takes_as_many_words_whatever_comes_out() -> None:
    for n in (1, 3, 2**63 + 1):
        script = Script(*RehearsalEntropy(6).words(200).tolist())
        for _ in range(100):
            script.below(n)
        assert not script.left


def test_below_is_uniform() -> None:
    # Chi-square with 5 degrees of freedom below 35: false alarm 1.5e-6; seed fixed.
    source = RehearsalEntropy(2)
    seen = Counter(source.below(6) for _ in range(6_000))
    assert set(seen) == set(range(6))
    assert sum((count - 1000) ** 2 / 1000 for count in seen.values()) < 35


def test_below_takes_any_size() -> None:
    source = RehearsalEntropy(2)
    assert source.below(1) == 0
    for n in (2, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 10**100):
        draws = [source.below(n) for _ in range(50)]
        assert all(0 <= draw < n for draw in draws)
        assert max(draws) >= n // 2  # fails with probability 2^−50


@pytest.mark.parametrize("n", [0, -1])
def test_below_refuses_an_empty_range(n: int) -> None:
    with pytest.raises(UsageError, match="below 1 or more"):
        SystemEntropy().below(n)


def test_a_negative_number_of_words_is_refused() -> None:
    with pytest.raises(UsageError, match="0 or more"):
        SystemEntropy().words(-1)


@pytest.mark.parametrize("make", [SystemEntropy, lambda: RehearsalEntropy(3)], ids=["secret", "rehearsal"])
def test_a_key_that_is_used_up_is_followed_by_another(make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of 64 bytes here: no eight words of them come twice."""
    monkeypatch.setattr(module, "_BYTES_PER_KEY", 64)
    source = make()
    pieces = [tuple(source.words(8).tolist()) for _ in range(20)]
    assert len(set(pieces)) == 20
    assert source._keys == 20


def test_a_key_ends_before_its_blocks_are_numbered_from_0_again() -> None:
    """ChaCha20 numbers blocks of 64 bytes with 32 bits."""
    assert module._BYTES_PER_KEY + len(module._ZEROS) <= 2**38


def test_a_secret_key_is_256_bits_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    genuine = os.urandom
    monkeypatch.setattr(module.os, "urandom", lambda size: asked.append(size) or genuine(size))
    source = SystemEntropy()
    assert asked == [32]
    keys = [source._key(number) for number in range(50)]
    assert {len(key) for key in keys} == {32}
    # Each of the 32 bytes takes on many values: fewer than 10 of 50 come up less than once in 10³⁰ times.
    assert min(len({key[place] for key in keys}) for place in range(32)) >= 10
    assert min(len(set(key)) for key in keys) >= 10
