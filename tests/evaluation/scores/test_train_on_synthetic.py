"""Predictions learnt from synthetic rows: as good from a copy, no better than guessing from independent columns."""

from __future__ import annotations

import numpy as np

from populace.core.marginals import Domain
from populace.evaluation.scores.train_on_synthetic import predict_targets, score_predictions

DOMAIN = Domain({"a": 4, "b": 4, "c": 2})


def rows(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, 3000)
    b = (a + (rng.random(3000) < 0.1)) % 4
    return {"a": a.astype(np.uint8), "b": b.astype(np.uint8), "c": rng.integers(0, 2, 3000).astype(np.uint8)}


def loss(real, drawn):
    found = predict_targets(real, drawn, ({}, {}), domain=DOMAIN)
    assert {each.column for each in found} == set(DOMAIN)
    return score_predictions(found)[0].value


def test_a_copy_loses_nothing_and_shuffled_columns_lose_what_can_be_lost() -> None:
    real = rows(1)
    assert loss(real, real) == 0.0
    rng = np.random.default_rng(2)
    shuffled = {name: rng.permutation(codes) for name, codes in real.items()}
    # Two of three targets can be predicted nearly perfectly.
    assert loss(real, shuffled) > 0.15
    assert score_predictions([]) == []
