"""A secret split of persons into pieces: which piece somebody is in follows from a key that nobody knows.

The key is drawn once, from secret randomness, and kept for as long as the accounts of the pieces live: a second split
of the same persons would put them into second pieces, and prices would add up. It is neither a seed nor written to a
ledger or a release; the accounts carry a tag that does not reveal it. Proof: docs/proofs/partition.md
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import numpy as np

from populace.core.errors import ResourceError, UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Counts
from populace.core.publish_file import publish_file
from populace.privacy.noise.entropy import Entropy
from populace.schema.unit import Neighbours

_KEY_BYTES = 32
_LABEL_BYTES = 16
_MODE = 0o600
# How the name of a key begins before it is whole.
DRAFT_PREFIX = ".populace-key-"


class SplitKey:
    """The secret behind a split. It prints nothing and is never copied or pickled."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _KEY_BYTES:
            raise UsageError("a key has 32 bytes.", hint="draw it: SplitKey.draw(SystemEntropy())")
        self._secret = secret

    @classmethod
    def draw(cls, entropy: Entropy) -> SplitKey:
        """Return a new key."""
        return cls(entropy.words(_KEY_BYTES // 8).astype("<u8").tobytes())

    @classmethod
    def load_or_draw(cls, path: Path, *, entropy: Entropy) -> SplitKey:
        """Return the key of a file, which nobody else may read; the first time it is drawn and written.

        The file appears whole or not at all, and one process alone makes it: a second key would be a second split.
        """
        try:
            if not os.path.lexists(path):
                with contextlib.suppress(FileExistsError):
                    _write_once(path, cls.draw(entropy)._secret)
        except OSError as error:
            raise ResourceError(
                f"{str(path)!r} cannot be written: {error.strerror}.", hint="choose another place for the key"
            ) from None
        return cls._read(path)

    @classmethod
    def _read(cls, path: Path) -> SplitKey:
        try:
            # Without waiting for somebody to write to a pipe.
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            try:
                _check_key_file(path, os.fstat(handle))
                return cls(os.read(handle, _KEY_BYTES + 1))
            finally:
                os.close(handle)
        except OSError as error:
            raise ResourceError(
                f"{str(path)!r} cannot be read: {error.strerror}.", hint="check its permissions"
            ) from None

    def places(self, labels: Sequence[bytes]) -> list[int]:
        """Return a number of 128 bits for each label: independent and even for whoever does not have the key."""
        return [
            int.from_bytes(hashlib.blake2b(label, key=self._secret, digest_size=_LABEL_BYTES).digest(), "big")
            for label in labels
        ]

    def tag(self, split: Split, *, labels: str) -> str:
        """Return a name for what a split does with this key, that does not reveal the key.

        `labels` is the rule by which persons get their labels: other labels are another split.
        """
        content = f"{split.neighbours.value} {[str(share) for share in split.shares]} {labels}".encode()
        return hashlib.blake2b(content, key=self._secret, digest_size=8, person=b"populace tag").hexdigest()

    def __repr__(self) -> str:
        return "SplitKey(secret)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is never copied or pickled")


def _write_once(path: Path, secret: bytes) -> None:
    """Write a new key under another name, to disk, and only then give it its own, unless that is taken."""
    draft = path.with_name(f"{DRAFT_PREFIX}{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        publish_file(draft, path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _check_key_file(path: Path, about: os.stat_result) -> None:
    """Refuse a file that holds no key: from what the system says about it, before it is read."""
    if not stat.S_ISREG(about.st_mode):
        raise UsageError(
            f"{str(path)!r} is no regular file.", hint="name the file of a key, or one that is not there yet"
        )
    if about.st_mode & 0o077:
        raise UsageError(
            f"others may read the key in {str(path)!r}.", hint=f"chmod 600 {path}: a split must stay secret"
        )
    if about.st_size < _KEY_BYTES:
        raise UsageError(
            f"{str(path)!r} holds {about.st_size} of the {_KEY_BYTES} bytes of a key: it was cut short.",
            hint="populace makes no pieces with such a key: if none were made with the whole one, remove the file and "
            "run it again; otherwise bring the key back from a copy, for a new one is a second split, which costs more",
        )
    if about.st_size > _KEY_BYTES:
        raise UsageError(
            f"{str(path)!r} is no key: a key has {_KEY_BYTES} bytes.",
            hint="name the file of a key, or one that is not there yet",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Shares of persons that go into the pieces of a split, and what neighbours are.

    Where neighbours replace one person, the number of persons is public, and so are the sizes of pieces: persons are
    put in a secret order and cut. Where they add or remove one, each person is put into a piece alone, and how many are
    in a piece is as private as how many there are.

    >>> split = Split(shares=(Fraction(1, 10), Fraction(9, 10)), neighbours=Neighbours.REPLACE_ONE)
    >>> split.sizes(25)
    (2, 23)
    """

    shares: tuple[Fraction, ...]
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not self.shares or min(self.shares) <= 0 or sum(self.shares) != 1:
            raise UsageError(
                "the shares of the pieces are not parts of one whole.",
                hint="give shares above 0 that add up to 1",
            )
        if len(self.shares) > LIMITS.max_pieces:
            raise UsageError(
                f"{len(self.shares)} pieces are wanted; {LIMITS.max_pieces} is the most.",
                hint="ask for fewer pieces",
            )
        if self.neighbours is Neighbours.REPLACE_WITHIN:
            # Who takes the place of somebody else may be put into another piece, and moves its totals.
            raise UsageError(
                "pieces of a table do not keep its exact totals.",
                hint="take [[invariants]] out of the schema of the pieces",
            )

    def sizes(self, persons: int) -> tuple[int, ...]:
        """Return how many persons each piece has, where that is public."""
        if self.neighbours is not Neighbours.REPLACE_ONE:
            raise UsageError(
                "how many persons a piece has is private where neighbours add or remove one.",
                hint="let neighbours replace one person, or ask for a noisy count",
            )
        ends = [round(persons * sum(self.shares[: place + 1])) for place in range(len(self.shares))]
        return tuple(end - start for start, end in zip([0, *ends], ends, strict=False))

    def pieces(self, labels: Sequence[bytes], *, key: SplitKey) -> Counts:
        """Return the number of the piece of each person; labels are distinct, one for each person.

        Proof: docs/proofs/partition.md
        """
        if len(set(labels)) < len(labels):
            raise ValueError("two persons have one label")
        places = key.places(labels)
        found = np.zeros(len(labels), dtype=np.int64)
        if self.neighbours is Neighbours.REPLACE_ONE:
            order = sorted(range(len(places)), key=places.__getitem__)
            found[order] = np.repeat(np.arange(len(self.shares)), self.sizes(len(labels)))
            return found
        ends = [sum(self.shares[: place + 1]) * 2 ** (8 * _LABEL_BYTES) for place in range(len(self.shares))]
        for person, number in enumerate(places):
            found[person] = next(piece for piece, end in enumerate(ends) if number < end)
        return found
