"""Invariant 6: engines count, they never add noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from populace.core.marginals import Counts, Domain, Grouping, Marginal
from populace.private.engines.memory_engine import MemoryEngine

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
MARGINALS = [
    *(Marginal(()), Marginal(("a",)), Marginal(("b", "a")), Marginal(("a", "b", "c"))),
    Marginal(("b",), (Grouping("b", (0, 0, 1, 1)),)),
    Marginal(("b", "c"), (Grouping("b", (2, 0, 1, 0)),)),
]


def table(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in DOMAIN.items()}


def by_hand(codes: dict[str, Any], marginal: Marginal, rows: int) -> Counts:
    """Count row by row."""
    counts = np.zeros(marginal.shape(DOMAIN), dtype=np.int64)
    for row in range(rows):
        cell = []
        for name in marginal.clique:
            grouping = marginal.grouping(name)
            code = int(codes[name][row])
            cell.append(code if grouping is None else grouping.groups[code])
        counts[tuple(cell)] += 1
    return counts


def inexact(make: Callable[..., Any], rows: int) -> list[str]:
    """Return the marginals that an engine does not count exactly, asked twice, prepared or not."""
    codes = table(rows)
    engine = make(codes, domain=DOMAIN)
    answers = [*engine.counts(MARGINALS)]
    engine.prepare(MARGINALS, memory=10**6)
    answers += [*engine.counts(MARGINALS)]
    return [
        str(marginal)
        for marginal, answer in zip(MARGINALS * 2, answers, strict=True)
        if answer.dtype != np.int64 or not np.array_equal(answer, by_hand(codes, marginal, rows))
    ]


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_engine_counts_exactly(rows: int) -> None:
    assert inexact(MemoryEngine, rows) == []


class NoisyEngine(MemoryEngine):
    """An engine that adds noise of its own."""

    def counts(self, marginals: Any) -> tuple[Counts, ...]:
        return tuple(counts + 1 for counts in super().counts(marginals))


def test_a_noisy_engine_is_seen() -> None:
    assert len(inexact(NoisyEngine, 500)) == 2 * len(MARGINALS)
