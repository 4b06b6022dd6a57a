"""Conjunctions: what they count, how they are scored, and that they see what pairs cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.evaluation.scores import conjunctions
from populace.evaluation.scores.marginal_distance import Weights


def test_the_score_of_one_condition_is_the_published_formula() -> None:
    real, drawn = {"a": np.array([0, 0, 1, 1])}, {"a": np.array([0, 1, 1, 1])}
    condition = {"a": np.array([True, False])}
    found = conjunctions.score_conjunctions(real, drawn, [condition, condition])
    assert found.value == pytest.approx(1000 * (1 + math.log(2) / math.log(1e-3)))
    gone = conjunctions.score_conjunctions(real, {"a": np.array([1])}, [condition, condition])
    assert gone.value == 0.0


def test_every_condition_is_met_by_a_real_row_and_counted_alike() -> None:
    rng = np.random.default_rng(1)
    domain = Domain({f"c{place}": 5 for place in range(8)})
    real = {name: rng.integers(0, 5, 50) for name in domain}
    drawn = conjunctions.draw_conjunctions(real, domain, ordered={"c0": 5})
    assert drawn
    for each in drawn:
        assert len(each) >= 4
        assert conjunctions.share_of_rows(real, each) == conjunctions.meets(real, each).mean() > 0
    assert {len(each) for each in conjunctions.draw_conjunctions(real, domain, ordered={}, columns=4)} == {4}


def test_the_admitted_codes_of_an_ordered_column_are_a_range() -> None:
    domain, real = Domain({"a": 9, "b": 2}), {"a": np.array([4]), "b": np.array([1])}
    for each in conjunctions.draw_conjunctions(real, domain, ordered={"a": 7}, count=20):
        places = np.flatnonzero(each["a"])
        assert 4 in places
        assert (np.diff(places) == 1).all()
        # The last two codes are special: no range holds them, and around one there is none.
        assert places[-1] < 7
    real["a"][0] = 8
    found = conjunctions.draw_conjunctions(real, domain, ordered={"a": 7}, count=20)
    assert {tuple(np.flatnonzero(each["a"])) for each in found} == {(8,)}


def test_rows_count_by_their_weights() -> None:
    real, drawn = {"a": np.array([0, 0, 1, 1])}, {"a": np.array([0, 1])}
    condition = {"a": np.array([True, False])}
    weights = Weights(np.array([1.0, 1, 1, 1]), np.array([3.0, 1]))
    found = conjunctions.score_conjunctions(real, drawn, [condition, condition], weights=weights)
    assert found.value == pytest.approx(1000 * (1 + math.log(1.5) / math.log(1e-3)))
