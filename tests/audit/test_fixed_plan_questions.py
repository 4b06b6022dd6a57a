"""A fixed plan asks the same questions whatever it is answered: its noise is priced as one, all at once.

Proof: docs/proofs/privacy-loss-distribution.md.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.api import reservation
from populace.api.check import check
from populace.api.measure import measure
from populace.methods.registry import METHODS
from populace.privacy.ledger.run_record import RunRecord
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema
from populace.survey.claims.claims import Claims
from tests.audit.test_spine_replay import BASE, COUNTED, frame
from tests.audit.transcripts import Workspace
from tests.helpers.linked_files import draw_neighbours, place_frames, placed_schema
from tests.helpers.small_claims import CLAIMS, SCHEMA, make_rows

FIXED = [name for name, method in METHODS.items() if method.fixed_plan]
# Nothing at all, far too much, less than nothing, and something else for every cell.
ANSWERS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "nothing": lambda rng, shape: np.zeros(shape, dtype=np.int64),
    "much": lambda rng, shape: np.full(shape, 10**6, dtype=np.int64),
    "less": lambda rng, shape: np.full(shape, -(10**6), dtype=np.int64),
    "mixed": lambda rng, shape: rng.integers(-(10**4), 10**4, shape),
}


class Scripted:
    """A noise source that says what it likes, and keeps what it was asked."""

    def __init__(self, kind: str) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._say, self._rng = ANSWERS[kind], np.random.default_rng(1)

    def add(self, exact: Any, *, mechanism: object) -> Any:
        self.asked.append(("add", exact.shape, mechanism))
        return self._say(self._rng, exact.shape)

    def pick(self, scores: Any, *, rate: Fraction) -> int:
        self.asked.append(("pick", scores.shape, rate))
        return int(self._rng.integers(len(scores)))


@pytest.fixture(autouse=True)
def _no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation, "Ledger", Workspace)
    monkeypatch.setattr(RunRecord, "compute_unneeded", lambda _: None)


def questions_of(table: Any, kind: str, *, schema: Schema, method: str, delta: str = "1e-3") -> object:
    """Return what a run asks and pays when it is answered so: at the noise, and in the ledger's record."""
    noise = Scripted(kind)
    measured = measure(
        table, schema=schema, epsilon="2", delta=delta, method=method, noise=noise, ledger=Path("nowhere.db")
    )
    marginals = [(item.marginal, item.variance) for item in measured.items]
    return noise.asked, measured.record.spends, marginals


def linked_case() -> tuple[Any, Schema]:
    homes = draw_neighbours(np.random.default_rng(2), most=3)[0]
    tracts = {f"h{n}": ("A", str(n % 2 + 1)) for n in range(6)}
    return place_frames(homes, tracts=tracts), placed_schema(most=3)


@pytest.mark.parametrize("delta", ["1e-3", "0"])
@pytest.mark.parametrize("method", FIXED)
def test_a_fixed_plan_asks_the_same_whatever_it_is_answered(method: str, delta: str) -> None:
    common = {"schema": Schema.parse(COUNTED), "method": method, "delta": delta}
    first, *others = (questions_of(frame(BASE), kind, **common) for kind in ANSWERS)
    assert all(other == first for other in others)


@pytest.mark.parametrize("method", FIXED)
def test_so_does_one_of_linked_tables(method: str) -> None:
    tables, schema = linked_case()
    first, other = (questions_of(tables, kind, schema=schema, method=method) for kind in ("less", "mixed"))
    assert other == first


def test_questions_that_follow_answers_are_seen() -> None:
    rows = pa.table({name: ["0", "1", "0"] for name in "abc"})
    schema = Schema.from_sizes(dict.fromkeys("abc", 2))
    found = [questions_of(rows, kind, schema=schema, method="mst") for kind in ANSWERS]
    assert any(other != found[0] for other in found[1:])


def test_claims_are_asked_the_same_whatever_the_answers() -> None:
    rows = make_rows(60)
    common = {"schema": SCHEMA, "delta": "1e-9", "ledger": Path("nowhere.db")}
    exact = ExactNoise(RehearsalEntropy(1))
    release = pp.synthesize(rows, epsilon=1, method="independent", dataset="made", noise=exact, **common)
    asked = []
    for kind in ANSWERS:
        noise = Scripted(kind)
        done = check(
            release, rows, claims=Claims.parse(CLAIMS, schema=SCHEMA), epsilon=1, noise=noise, **common
        )
        asked.append((noise.asked, done.record.spends))
    assert all(each == asked[0] for each in asked[1:])
    assert asked[0][0]
