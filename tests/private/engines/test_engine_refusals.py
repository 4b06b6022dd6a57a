"""A code outside its domain is our bug: the memory engine says so in the same words on every way to count."""

from __future__ import annotations

import numpy as np
import pytest

from populace._native import kernels
from populace.core.marginals import Domain, Grouping, Marginal
from populace.private.engines.memory_engine import MemoryEngine

PAIR = Marginal(("a", "b"))


@pytest.mark.parametrize("native", [kernels._native, None], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    ("marginal", "a", "b"),
    [
        (Marginal(("a",)), 2, 0),
        (PAIR, 2, 0),
        (PAIR, 0, 3),  # falls into a cell of the table, but not into its own
        (PAIR, 255, 255),
        (Marginal(("a", "b"), (Grouping("b", (0, 0, 1)),)), 0, 77),
    ],
)
def test_a_code_outside_is_refused_without_telling_it(
    monkeypatch: pytest.MonkeyPatch, native: object, marginal: Marginal, a: int, b: int
) -> None:
    monkeypatch.setattr(kernels, "_native", native)
    codes = {"a": np.array([0, a, 1], np.uint8), "b": np.array([2, b, 1], np.uint8)}
    engine = MemoryEngine(codes, domain=Domain({"a": 2, "b": 3}))
    with pytest.raises(IndexError) as refusal:
        engine.counts([marginal])
    assert str(refusal.value) == "a code lies outside its domain"
