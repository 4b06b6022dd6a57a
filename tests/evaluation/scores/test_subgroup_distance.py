"""Distances within groups against rows that are selected by hand."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.evaluation.scores import marginal_distance as marginals
from populace.evaluation.scores import subgroup_distance as groups

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})


def random_codes(rows, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in DOMAIN.items()}


def test_groups_and_areas_are_those_of_the_selected_rows() -> None:
    real, drawn = random_codes(200, 1), random_codes(150, 2)
    sums = groups.GroupSums(DOMAIN)
    for pair, *tables in marginals.pair_tables(real, drawn, DOMAIN):
        sums.add(pair, *tables)
    found = {(each.column, each.code): each for each in sums.summarize(DOMAIN)}
    areas = {each.code: each for each in groups.pair_distance_by_group(real, drawn, DOMAIN, column="a")}
    assert len(found) == 9
    for code in range(3):
        inner = [{n: c[codes["a"] == code] for n, c in codes.items()} for codes in (real, drawn)]
        others = Domain({"b": 4, "c": 2})
        columns = marginals.column_total_variation(*inner, others)
        assert found["a", code].distance == pytest.approx(np.mean(list(columns.values())))
        assert found["a", code].rows == areas[code].rows == len(inner[0]["b"])
        assert areas[code].distance == pytest.approx(marginals.pair_total_variation(*inner, others)["b", "c"])


def test_a_group_that_vanished_is_worst_and_small_ones_are_named() -> None:
    real = {
        "a": np.repeat([0, 1, 2], [100, 100, 5]).astype(np.uint8),
        "b": np.zeros(205, np.uint8),
        "c": np.zeros(205, np.uint8),
    }
    drawn = {name: codes[:200] for name, codes in real.items()}
    sums = groups.GroupSums(DOMAIN)
    for pair, *tables in marginals.pair_tables(real, drawn, DOMAIN):
        sums.add(pair, *tables)
    worst = sums.summarize(["a"])[0]
    assert (worst.code, worst.distance, worst.synthetic_rows, worst.small) == (2, 1.0, 0, True)
    area = groups.pair_distance_by_group(real, drawn, DOMAIN, column="a")[0]
    assert (area.code, area.distance) == (2, 1.0)
    score = groups.score_areas({"a": groups.pair_distance_by_group(real, drawn, DOMAIN, column="a")})
    assert [each.name for each in score] == ["tv_areas", "k_marginal_areas"]
    assert score[1].value == pytest.approx(1000 * (1 - 1 / 3))
    assert groups.score_groups(sums.summarize(["a"]))[0].value == 0.0
