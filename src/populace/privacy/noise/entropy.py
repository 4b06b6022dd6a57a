"""Where the randomness of noise comes from: a cipher stream keyed by the operating system.

Noise and secret splits take an `Entropy`; the sampling of synthetic rows takes a `numpy.random.Generator`.
The two are different types so that a seed can never reach the noise.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from populace.core.errors import UsageError

Words = npt.NDArray[np.uint64]

# ChaCha20's 32-bit block counter wraps after 2^38 bytes; a new key comes well before that.
_BYTES_PER_KEY = 1 << 36
_ZEROS = bytes(1 << 18)

# Counts the forks between this process and the one that first imported the module.
_generation = 0


def _count_fork() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class Entropy(ABC):
    """A source of independent uniform bits: the ChaCha20 key stream cut into words, and whole numbers made of words."""

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        # A new lock too: in a forked child the old one may be held by a thread that is not there.
        self._lock = threading.Lock()
        self._keys = 0
        self._next_key()

    def _next_key(self) -> None:
        # 16 bytes: a block counter that starts at 0, then the nonce. No key is used twice, so the nonce is 0.
        self._cipher = Cipher(algorithms.ChaCha20(self._key(self._keys), bytes(16)), mode=None).encryptor()
        self._keys += 1
        self._used = 0

    @abstractmethod
    def _key(self, number: int) -> bytes:
        """Return the 32 bytes of the key of that number."""

    def words(self, n: int) -> Words:
        """Return n independent uniform 64-bit words."""
        if n < 0:
            raise UsageError(f"asked for {n} random words.", hint="ask for 0 or more")
        words = np.empty(n, dtype="<u8")
        out = words.view(np.uint8).data
        with self._lock:
            for start in range(0, len(out), len(_ZEROS)):
                part = out[start : start + len(_ZEROS)]
                if self._used + len(part) > _BYTES_PER_KEY:
                    self._next_key()
                self._cipher.update_into(_ZEROS[: len(part)], part)
                self._used += len(part)
        return words.astype(np.uint64, copy=False)

    def below(self, n: int) -> int:
        """Return a uniform whole number in 0 … n − 1, exactly, for n of any size.

        With 64 bits more than n has, the numbers that must be thrown away for an even spread have
        probability below 2⁻⁶⁴: the count of words used does not, in practice, depend on the outcome.
        """
        if n < 1:
            raise UsageError(f"no whole number lies in 0 … {n - 1}.", hint="ask for a number below 1 or more")
        count = -(-n.bit_length() // 64) + 1
        even = (1 << 64 * count) // n * n
        while True:
            number = int.from_bytes(self.words(count).astype("<u8").tobytes(), "little")
            if number < even:
                return number % n

    def __reduce__(self) -> NoReturn:
        # A copy, also one sent to another process, would repeat the noise of the original.
        raise TypeError(f"{type(self).__name__} is not copied or pickled: make a new one")


class SystemEntropy(Entropy):
    """Secret bits: ChaCha20 keyed by the operating system, with a new key in every process.

    A forked child would go on with its parent's stream and repeat its noise; two noises that are equal
    cancel. So the key is drawn again after a fork, seen both by Python's fork hook and by the process id
    (a fork made by a C library runs no hook).

    >>> SystemEntropy().below(6) in range(6)
    True
    """

    def _restart(self) -> None:
        self._owner = (os.getpid(), _generation)
        super()._restart()

    def _key(self, number: int) -> bytes:  # noqa: ARG002
        return os.urandom(32)

    def words(self, n: int) -> Words:
        """Return n independent uniform 64-bit words."""
        if self._owner != (os.getpid(), _generation):
            self._restart()
        return super().words(n)


class RehearsalEntropy(Entropy):
    """Repeatable bits for tests and simulations: the same cipher, keyed by a seed. Never for a release.

    >>> RehearsalEntropy(7).words(2) == RehearsalEntropy(7).words(2)
    array([ True,  True])
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        super().__init__()

    def _key(self, number: int) -> bytes:
        return hashlib.sha256(f"populace rehearsal {self._seed} {number}".encode()).digest()
