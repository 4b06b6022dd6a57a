"""Scores beside those that SDNist and SDMetrics gave the same two tables; peer_scores.py made the file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import populace as pp

KEPT = json.loads(Path(__file__).with_name("peer_scores.json").read_text("utf-8"))


def test_k_marginal_is_that_of_sdnist_and_distances_are_those_of_sdmetrics() -> None:
    real, synthetic = (pa.table(KEPT[name]) for name in ("real", "synthetic"))
    found = pp.evaluate(real, synthetic, schema=pp.Schema.from_sizes(KEPT["sizes"]))
    assert KEPT["sdnist"]["columns"] == sorted(KEPT["sizes"])
    assert found["k_marginal"].value == pytest.approx(KEPT["sdnist"]["k_marginal"], abs=1e-9)
    assert 1 - found["tv_columns"].value == pytest.approx(KEPT["sdmetrics"]["column_shapes"], abs=1e-12)
    # SDMetrics leaves out pairs whose association in the real table is weak; of the others it says the same.
    ours = {frozenset(pair.columns): 1 - pair.distance for pair in found.pairs}
    theirs = {frozenset((one, other)): score for one, other, score in KEPT["sdmetrics"]["pairs"]}
    assert set(ours) == set(theirs)
    kept = {pair: score for pair, score in theirs.items() if score is not None}
    assert 0 < len(kept) < len(theirs)
    assert {pair: ours[pair] for pair in kept} == pytest.approx(kept, abs=1e-12)
