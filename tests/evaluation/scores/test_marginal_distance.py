"""Total variation and k-marginal scores against cases computed by hand, and against sums over all cells."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.evaluation.scores import marginal_distance as marginals


def random_codes(domain, rows, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in domain.items()}


def brute_force(real, synthetic, clique):
    """Half the sum of absolute differences, from dictionaries."""
    tables = []
    for codes in (real, synthetic):
        rows = list(zip(*(codes[name].tolist() for name in clique), strict=True))
        tables.append({row: rows.count(row) / len(rows) for row in set(rows)})
    return 0.5 * sum(abs(tables[0].get(c, 0) - tables[1].get(c, 0)) for c in set(tables[0]) | set(tables[1]))


def test_the_k_marginal_score_of_three_binary_columns_is_the_published_one() -> None:
    # Real: 000, 011, 101, 110. Synthetic: 000, 000, 111, 110. By hand, 1000 · (1 − mean of ½ Σ |p − q|):
    # (a, b): real ¼ each; synthetic 00: ½, 11: ½ → ½ (¼ + ¼ + ¼ + ¼) = ½.
    # (a, c): real ¼ each; synthetic 00: ½, 11: ¼, 10: ¼ → ½ (¼ + ¼ + 0 + 0) = ¼. (b, c): the same, ¼.
    real = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1]), "c": np.array([0, 1, 1, 0])}
    drawn = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 0, 1, 1]), "c": np.array([0, 0, 1, 0])}
    found = marginals.pair_total_variation(real, drawn, Domain({"a": 2, "b": 2, "c": 2}))
    assert found == {("a", "b"): 0.5, ("a", "c"): 0.25, ("b", "c"): 0.25}
    assert marginals.score_k_marginal(list(found.values())).value == pytest.approx(
        1000 * (1 - 1 / 3), abs=1e-9
    )


def test_the_ends_of_the_k_marginal_scale() -> None:
    domain = Domain({"a": 2, "b": 2})
    ones, noughts = ({"a": np.full(3, code), "b": np.full(3, code)} for code in (1, 0))
    assert (
        marginals.score_k_marginal(list(marginals.pair_total_variation(ones, noughts, domain).values())).value
        == 0
    )
    same = marginals.pair_total_variation(ones, ones, domain)
    assert marginals.score_k_marginal(list(same.values())).value == 1000


@pytest.mark.parametrize("dense", [marginals.MAX_DENSE_CELLS, 1], ids=["whole tables", "cells that occur"])
def test_columns_pairs_and_triples_are_sums_over_all_cells(dense, monkeypatch) -> None:
    monkeypatch.setattr(marginals, "MAX_DENSE_CELLS", dense)
    domain = Domain({"a": 2, "b": 5, "c": 3, "d": 7})
    real, drawn = random_codes(domain, 60, 1), random_codes(domain, 45, 2)
    columns = marginals.column_total_variation(real, drawn, domain)
    assert columns == {name: pytest.approx(brute_force(real, drawn, (name,)), abs=1e-12) for name in domain}
    pairs = marginals.pair_total_variation(real, drawn, domain)
    assert pairs == {
        pair: pytest.approx(brute_force(real, drawn, pair), abs=1e-12) for pair in combinations(domain, 2)
    }
    triples = marginals.triple_total_variation(real, drawn, domain)
    assert triples.exhaustive
    assert triples.distances == {
        clique: pytest.approx(brute_force(real, drawn, clique), abs=1e-12)
        for clique in combinations(domain, 3)
    }


def test_a_row_of_weight_two_is_a_row_twice() -> None:
    domain = Domain({"a": 3, "b": 4, "c": 2})
    real, drawn = random_codes(domain, 40, 3), random_codes(domain, 30, 4)
    counts = np.random.default_rng(5).integers(1, 4, 40), np.random.default_rng(6).integers(1, 4, 30)
    weights = marginals.Weights(*(each.astype(float) for each in counts))
    repeated = [
        {n: np.repeat(c, k) for n, c in codes.items()} for codes, k in zip((real, drawn), counts, strict=True)
    ]
    for found, expected in (
        (
            marginals.pair_total_variation(real, drawn, domain, weights=weights),
            marginals.pair_total_variation(*repeated, domain),
        ),
        (
            marginals.triple_total_variation(real, drawn, domain, weights=weights).distances,
            marginals.triple_total_variation(*repeated, domain).distances,
        ),
    ):
        assert found == pytest.approx(expected, abs=1e-12)


def test_too_many_triples_are_a_fixed_choice_without_repeats() -> None:
    names = [f"c{place}" for place in range(60)]
    chosen = marginals.choose_triples(names, rows=1000)
    assert len(chosen) == len(set(chosen)) == marginals.MAX_TRIPLES
    assert chosen == marginals.choose_triples(names, rows=1000)
    few = marginals.choose_triples(names, rows=marginals.MAX_TRIPLE_ROWS // 10)
    assert len(few) == 10


def test_scores_of_sampled_triples_have_an_interval_and_say_so(monkeypatch) -> None:
    monkeypatch.setattr(marginals, "MAX_TRIPLES", 20)
    domain = Domain({f"c{place}": 3 for place in range(9)})
    triples = marginals.triple_total_variation(
        random_codes(domain, 50, 7), random_codes(domain, 50, 8), domain
    )
    score = marginals.score_marginals({"c0": 0.0}, {}, triples)[-1]
    assert not triples.exhaustive
    assert score.interval[0] < score.value < score.interval[1]
    assert "20 of 84 triples" in score.note


def test_an_empty_file_has_nothing_in_common() -> None:
    assert marginals.total_variation(np.array([1, 2]), np.array([0, 0])) == 1.0
    assert marginals.total_variation(np.array([0, 0]), np.array([0, 0])) == 0.0
