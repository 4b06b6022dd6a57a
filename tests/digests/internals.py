"""What the digests need beside the public names of populace, in one place."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

from populace._native import kernels
from populace.cli.main import main
from populace.methods.registry import METHODS
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.noise.split_key import SplitKey
from populace.release.synthetic_rows import digest_arithmetic as arithmetic
from populace.simulation.population import simulate_population as population
from populace.simulation.sample_survey import simulate_survey as sample
from populace.survey.variance.public_estimates import estimate_public_rows as on_public_rows

__all__ = [
    "METHODS",
    "arithmetic",
    "is_compiled",
    "main",
    "on_public_rows",
    "population",
    "repeatable_noise",
    "repeatable_run_ids",
    "sample",
    "write_split_key",
]


def is_compiled() -> bool:
    """Say whether the loops in C are used; their twins in NumPy may differ in the last digits."""
    return kernels.compiled()


def repeatable_noise(seed: int) -> ExactNoise:
    """Return noise that a seed repeats."""
    return ExactNoise(RehearsalEntropy(seed))


def write_split_key(path: Path, *, seed: int) -> None:
    """Write the key of a split that a seed repeats."""
    SplitKey.load_or_draw(path, entropy=RehearsalEntropy(seed))


@contextmanager
def repeatable_run_ids() -> Iterator[None]:
    """Number runs 1, 2 and so on. The id of a run, 16 random bytes, also decides between donors that are alike."""
    drawn, numbers = secrets.token_hex, count(1)

    def token_hex(length: int | None = None) -> str:
        return f"{next(numbers):032x}" if length == 16 else drawn(length)

    with patch("secrets.token_hex", token_hex):
        yield
