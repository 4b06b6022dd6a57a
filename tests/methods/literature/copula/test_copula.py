"""A copula finds the normal law behind columns, in whatever order their codes stand, and rows follow it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.fit_measurements import fit
from populace.methods.literature.copula.copula import group_for_pairs
from populace.methods.literature.copula.copula_model import (
    MAX_GROUPS,
    GaussianCopula,
    conditional_shares,
    copula_model,
    fit_copula,
)
from populace.methods.literature.copula.correlations import rectangle_probabilities
from populace.methods.literature.copula.optimal_scaling import optimal_orders
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema

SHARES = {"a": np.array([0.5, 0.5]), "b": np.array([0.2, 0.5, 0.3]), "c": np.array([0.1, 0.4, 0.4, 0.1])}
MATRIX = np.array([[1, 0.6, 0.5], [0.6, 1, -0.2], [0.5, -0.2, 1]])
COPULA = GaussianCopula(
    shares=SHARES,
    orders={name: np.arange(len(shares)) for name, shares in SHARES.items()},
    matrix=MATRIX,
    total=10_000.0,
)


def cuts(shares):
    return ndtri(np.cumsum(shares)[:-1])[None, :]


def pair(one, other, rho):
    return rectangle_probabilities(cuts(SHARES[one]), cuts(SHARES[other]), np.array([rho]))[0]


def rows_of(matrix, shares, *, rows, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.multivariate_normal(np.zeros(len(matrix)), matrix, rows)
    return {
        name: np.searchsorted(cuts(each)[0], latent[:, place])
        for place, (name, each) in enumerate(shares.items())
    }


def measured(table, *, sizes, tmp_path, epsilon="10", delta="1e-6", method="copula", seed=1):
    return measure(
        pa.table(table),
        schema=Schema.from_sizes(sizes),
        epsilon=epsilon,
        delta=delta,
        method=method,
        ledger=tmp_path / f"{method}.db",
        noise=ExactNoise(RehearsalEntropy(seed)),
    )


def test_a_mixture_has_the_shares_and_all_pairs_of_its_normal_law():
    chances = conditional_shares(COPULA, groupings={})
    for name, table in chances.items():
        assert np.allclose(table.sum(axis=0), 1)
        assert np.allclose(table.mean(axis=1), SHARES[name], atol=1e-6)
    for (i, one), (j, other) in combinations(enumerate(SHARES), 2):
        found = chances[one] @ chances[other].T / chances[one].shape[1]
        assert np.abs(found - pair(one, other, MATRIX[i, j])).max() < 5e-4


def test_three_columns_go_together_as_the_normal_law_says():
    """A tree of pairs, which leaves out b × c, would be far off."""
    chances = conditional_shares(COPULA, groupings={})
    found = (chances["a"][0] * chances["b"][0] * chances["c"][:2].sum(axis=0)).mean()
    upper = [float(cuts(SHARES["a"])[0, 0]), float(cuts(SHARES["b"])[0, 0]), float(cuts(SHARES["c"])[0, 1])]
    assert abs(found - multivariate_normal.cdf(upper, cov=MATRIX)) < 1e-3
    tree = MATRIX.copy()
    tree[1, 2] = tree[2, 1] = 0.3
    assert abs(found - multivariate_normal.cdf(upper, cov=tree)) > 1e-2


def noiseless(table, *, sizes):
    """Measurements of all columns and pairs with hardly any noise."""
    domain = Domain(sizes)
    found = []
    for size in (0, 1, 2):
        for clique in combinations(sizes, size):
            counts = np.zeros(domain.shape(clique), dtype=np.int64)
            np.add.at(counts, tuple(table[name] for name in clique), 1)
            counts = counts if size else np.array(len(next(iter(table.values()))))
            found.append(Measurement(Marginal(clique), counts, Fraction(1, 100)))
    return found, domain


def test_correlations_are_found_again():
    sizes = {name: len(shares) for name, shares in SHARES.items()}
    items, domain = noiseless(rows_of(MATRIX, SHARES, rows=100_000), sizes=sizes)
    found = fit_copula(items, domain=domain)
    assert np.abs(found.matrix - MATRIX).max() < 0.02
    assert all(np.array_equal(found.orders[name], np.arange(size)) for name, size in sizes.items())


def test_codes_in_any_order_are_put_in_order():
    shares = {name: np.full(6, 1 / 6) for name in "abcd"}
    matrix = np.full((4, 4), 0.8) + 0.2 * np.eye(4)
    table = rows_of(matrix, shares, rows=50_000)
    mixed = np.array([3, 0, 5, 1, 4, 2])
    table["b"] = mixed[table["b"]]
    items, domain = noiseless(table, sizes=dict.fromkeys("abcd", 6))
    found = fit_copula(items, domain=domain)
    assert found.orders["b"].tolist() in (mixed.tolist(), mixed[::-1].tolist())
    assert np.abs(np.abs(found.matrix) - matrix).max() < 0.03


def test_noise_puts_nothing_in_another_order():
    """Independent columns: no order is better than that of the schema beyond noise."""
    rng = np.random.default_rng(0)
    shares = [np.full(5, 0.2)] * 6
    pairs = list(combinations(range(6), 2))
    tables = {key: np.outer(shares[0], shares[0]) + rng.normal(0, 1e-9, (5, 5)) for key in pairs}
    found = optimal_orders(shares, tables, noise=dict.fromkeys(pairs, 1e-3))
    assert all(order.tolist() == [0, 1, 2, 3, 4] for order in found)


def test_rows_follow_the_law_and_not_a_tree(tmp_path):
    rng = np.random.default_rng(2)
    loadings = rng.uniform(0.6, 0.9, 6)
    matrix = np.outer(loadings, loadings)
    np.fill_diagonal(matrix, 1)
    names = "abcdef"
    shares = {name: np.array([0.3, 0.4, 0.3]) for name in names}
    table = rows_of(matrix, shares, rows=10_000)
    sizes = dict.fromkeys(names, 3)
    for method, most, least in (("copula", 0.02, 0.0), ("independent", 1.0, 0.1)):
        found = measured(table, sizes=sizes, tmp_path=tmp_path, epsilon="2", method=method)
        release = release_from(found, fit(found), seed=1).table
        apart = []
        for one, other in combinations(names, 2):
            tables = [np.zeros((3, 3)), np.zeros((3, 3))]
            for counts, rows in zip(tables, (table, release), strict=True):
                np.add.at(counts, (np.asarray(rows[one]).astype(int), np.asarray(rows[other]).astype(int)), 1)
            apart.append(np.abs(tables[0] / tables[0].sum() - tables[1] / tables[1].sum()).sum() / 2)
        assert least <= np.mean(apart) < most


def test_all_pairs_are_measured_once_in_few_groups(tmp_path):
    rng = np.random.default_rng(0)
    table = {"a": rng.integers(0, 50, 2000), "b": rng.integers(0, 3, 2000), "c": rng.integers(0, 2, 2000)}
    found = measured(table, sizes={"a": 50, "b": 3, "c": 2}, tmp_path=tmp_path, epsilon="1")
    pairs = [item for item in found.items if len(item.marginal.clique) == 2]
    assert [item.marginal.clique for item in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert max(pairs[0].counts.shape) < 50
    assert len({item.variance for item in pairs}) == 1


def test_few_rows_are_not_asked_for_pairs(tmp_path):
    found = measured(
        {name: np.zeros(30, int) for name in "abc"},
        sizes=dict.fromkeys("abc", 4),
        tmp_path=tmp_path,
        epsilon="0.1",
    )
    cliques = [item.marginal.clique for item in found.items]
    assert max(map(len, cliques)) == 1
    assert cliques.count(("a",)) == 2


def column(name, counts):
    return Measurement(Marginal((name,)), np.array(counts), Fraction(1))


def test_groups_are_neighbours_or_heads():
    found = group_for_pairs(
        [column("age", [10, 10, 10, 10, 10, 10]), column("city", [10, 90, 20, 80]), column("sex", [5, 5])],
        ordered=frozenset({"age"}),
        most=3,
    )
    assert found == {"age": Grouping("age", (0, 0, 1, 1, 2, 2)), "city": Grouping("city", (2, 0, 2, 1))}


@pytest.mark.parametrize(
    "counts", [[0, 0, 0, 0], [-5, -3, -1, -9], [0, 100, 0, 0], [100, 0, 0, 0], [0, 0, 0, 9]]
)
@pytest.mark.parametrize("ordered", [frozenset(), frozenset({"a"})])
def test_odd_counts_still_make_two_groups(counts, ordered):
    found = group_for_pairs([column("a", counts)], ordered=ordered, most=2)
    assert found["a"].size == 2


@pytest.mark.slow
def test_large_columns_share_groups_and_keep_their_codes(tmp_path):
    rng = np.random.default_rng(0)
    table = {"a": rng.integers(0, 500, 5000), "b": rng.integers(0, 2, 5000)}
    found = measured(table, sizes={"a": 500, "b": 2}, tmp_path=tmp_path)
    model = copula_model(found.items, space=ModelSpace(domain=found.schema.domain))
    assert model.groupings["a"].size <= MAX_GROUPS
    assert np.allclose(np.bincount(model.groupings["a"].lookup, weights=model.within["a"]), 1)
    release = release_from(found, fit(found), rows=5000, seed=1).table
    assert len(set(release["a"].to_pylist())) > 400


def test_models_are_the_same_every_time(tmp_path):
    table = rows_of(MATRIX, SHARES, rows=2000)
    found = measured(table, sizes={name: len(s) for name, s in SHARES.items()}, tmp_path=tmp_path)
    again = replace(found, items=found.items[::-1]) if hasattr(found, "items") else found
    one, other = fit(found), fit(again)
    assert all(np.allclose(one.potentials[c], other.potentials[c]) for c in one.potentials)
