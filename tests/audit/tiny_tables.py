"""Tiny tables, their neighbours, and how to run a method on both with the barrier's outputs frozen."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from populace.api import measure as measuring
from populace.api import reservation
from populace.api.measure import measure
from populace.measurements.measurements import Measurements
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema
from tests.audit.replay import NoisyAnswer, RecordingNoise, ReplayingNoise
from tests.audit.transcripts import Workspace

SCHEMA = """
[table]
dataset = "tiny"
unit = "person"
max_rows = 1000

[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"

[columns.work]
kind = "ordinal"
values = ["none", "some", "full"]
missing = ["refused"]

[columns.age]
kind = "integer"
min = 0
max = 4

[columns.income]
kind = "numeric"
edges = [0, 10, 100, 1000]
"""
NAMES = ("sex", "work", "age", "income")


def schema(text: str = SCHEMA) -> Schema:
    return Schema.parse(text)


@dataclass(frozen=True)
class Rows:
    """A table as a tuple of rows; values may be anything, out of the domain too."""

    rows: tuple[tuple[object, ...], ...] = field(default=())

    def frame(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) or [()] * len(NAMES)
        return pa.table(
            {
                "sex": pa.array(columns[0], pa.string()),
                "work": pa.array(columns[1], pa.string()),
                "age": pa.array(columns[2], pa.int64()),
                "income": pa.array(columns[3], pa.float64()),
            }
        )


def random_rows(rng: np.random.Generator, most: int) -> Rows:
    n = int(rng.integers(0, most + 1))
    return Rows(tuple(random_row(rng) for _ in range(n)))


def random_row(rng: np.random.Generator) -> tuple[object, ...]:
    """Return a row in which income follows work, so that a method has something to choose."""
    sex = str(rng.choice(["f", "m"]))
    level = int(rng.choice(4, p=[0.3, 0.3, 0.3, 0.1]))
    work = ("none", "some", "full", "refused")[level]
    income = (0.0, 50.0, 500.0, 5.0)[level if rng.random() < 0.9 else int(rng.integers(4))]
    return (sex, work, int(rng.integers(0, 5)), income)


CANARIES: tuple[tuple[object, ...], ...] = (
    ("m", "refused", 4, 999.0),  # a rare cell
    ("x", "elsewhere", 99, 1e9),  # out of every domain
    (None, None, None, None),
    ("f", "", -1, float("nan")),
    ("m", "full", 2**62, float("inf")),
    ("f", "none", 0, float("-inf")),
    ("F", " full", 3, -0.0),
)


def neighbour_pairs(count: int, *, seed: int, most: int = 60) -> list[tuple[Rows, Rows]]:
    """Return pairs that differ by one row: canaries on an empty, a one-row and a larger table, then random."""
    rng = np.random.default_rng(seed)
    bases = (Rows(), random_rows(rng, 1), Rows(tuple(random_row(rng) for _ in range(most))))
    pairs = [(base, Rows((*base.rows, canary))) for base in bases for canary in CANARIES]
    while len(pairs) < count:
        base = random_rows(rng, most)
        extra = random_row(rng) if rng.random() < 0.8 else CANARIES[int(rng.integers(len(CANARIES)))]
        at = int(rng.integers(0, len(base.rows) + 1))
        pairs.append((base, Rows((*base.rows[:at], extra, *base.rows[at:]))))
    # Half of the time the smaller table is the recorded one, half of the time the larger.
    return [pair if number % 2 else pair[::-1] for number, pair in enumerate(pairs[:count])]


@dataclass(frozen=True)
class Twin:
    """One method on two neighbours, the second with the first one's outputs frozen."""

    first: Measurements
    second: Measurements
    first_transcript: list[NoisyAnswer]
    second_transcript: list[NoisyAnswer]


def run_twin(
    pair: tuple[Rows, Rows],
    *,
    method: str,
    ledgers: Path | None,
    seed: int,
    epsilon: str = "8",
    delta: str = "1e-3",
    text: str = SCHEMA,
    public: Rows | None = None,
    check_rules: bool = False,
    earlier: Measurements | None = None,
) -> Twin:
    """Run a method on both; where there is no folder for ledgers, books are kept under their rules and in no file.

    `earlier` is what a run before measured, the same for both: it is known, as a release that the ledger has booked.
    """
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(seed)))
    common = {"schema": schema(text), "epsilon": epsilon, "delta": delta, "method": method}
    common |= {} if public is None else {"public": public.frame()}
    common |= {"check_rules": True} if check_rules else {}
    folder = ledgers or Path("nowhere")
    known = () if earlier is None else ((earlier, "0" * 64),)
    books = nullcontext() if ledgers else patch.object(reservation, "Ledger", Workspace)
    with books, patch.object(measuring, "load_earlier", lambda *_, **__: known):
        first = measure(pair[0].frame(), ledger=folder / f"{seed}-a.db", noise=recorder, **common)
        player = ReplayingNoise(recorder.transcript.entries)
        second = measure(pair[1].frame(), ledger=folder / f"{seed}-b.db", noise=player, **common)
    player.finish()
    return Twin(first, second, recorder.transcript.entries, player.transcript.entries)
