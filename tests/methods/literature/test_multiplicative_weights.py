"""Multiplicative weights over a whole domain, and what `mwem` asks for with them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.gls.observations import Observation
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.literature import mwem as module
from populace.methods.literature.mwem import (
    MWEM,
    MultiplicativeWeights,
    fit_multiplicative_weights,
    is_dense,
)
from populace.methods.method import FitInput
from populace.schema.conditions.rules import Rule, Rules, Totals
from populace.schema.schema import Schema

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 1, "e": 4, "f": 2, "g": 3})


def joint(seed=0):
    """Counts of 10,000 rows or so over all columns, none of them empty."""
    return np.random.default_rng(seed).gamma(2.0, 5.0, DOMAIN.shape(DOMAIN)).round() + 1


def summed(table, clique):
    others = tuple(axis for axis, name in enumerate(DOMAIN) if name not in clique)
    return table.sum(axis=others)


def told(table, clique, variance=Fraction(1, 100), grouping=None):
    counts = summed(table, clique).astype(np.int64)
    if grouping is not None:
        counts = np.bincount(grouping.lookup, weights=counts).astype(np.int64)
    return Measurement(Marginal(clique, () if grouping is None else (grouping,)), counts, variance)


def test_tables_that_belong_together_are_met():
    table = joint()
    cliques = [("a", "b"), ("b", "c", "e"), ("f", "g"), ("a", "g")]
    items = [told(table, clique) for clique in [(), *cliques]]
    model = fit_multiplicative_weights(FitInput(schema=Schema.from_sizes(DOMAIN), items=items))
    assert model.total == pytest.approx(table.sum(), rel=1e-3)
    for clique in cliques:
        np.testing.assert_allclose(model.marginal(clique), summed(table, clique), rtol=0.01)


def test_an_update_brings_the_weights_nearer_whatever_was_told():
    """In relative entropy to the table that was told, with and without noise, from any start."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        weights = MultiplicativeWeights(DOMAIN)
        weights._shares = rng.dirichlet(np.full(288, 0.3)).reshape(DOMAIN.shape(DOMAIN)) + 1e-12
        weights._shares /= weights._shares.sum()
        target = rng.dirichlet(np.full(6, 0.3)).reshape(2, 3)
        weights.total, weights._potentials = 100.0, {("a", "b"): np.zeros((2, 3))}
        apart = [entropy(target, weights.table(("a", "b")) / weights.total)]
        for _ in range(5):
            noise = np.full((2, 3), rng.choice([0.0, 1.0, 400.0]))
            weights._update(Observation(("a", "b"), 100 * target, noise))
            apart.append(entropy(target, weights.table(("a", "b")) / weights.total))
        assert weights._shares.sum() == pytest.approx(1)
        assert (np.diff(apart) <= 1e-12).all()


def test_one_update_by_hand():
    """θ = (m − a) / (|m| + a + σ), in shares of 1,000 rows: a is 1/2, m 0.7 and 0.3, σ 30 rows."""
    weights = MultiplicativeWeights(Domain({"a": 2, "b": 3}))
    weights.total, weights._potentials = 1000.0, {("a",): np.zeros(2)}
    weights._update(Observation(("a",), np.array([700.0, 300.0]), np.full(2, 900.0)))
    moved = np.exp([0.2 / (0.7 + 0.5 + 0.03), -0.2 / (0.3 + 0.5 + 0.03)])
    np.testing.assert_allclose(weights.table(("a",)), 1000 * moved / moved.sum())
    np.testing.assert_allclose(weights.table(("b",)), 1000 / 3)


def test_the_number_of_rows_is_that_of_all_tables_by_the_noise_of_their_sums():
    """1,000 with variance 2 · 1, and 1,300 with variance 4 · 2, whichever comes last."""
    first = Measurement(Marginal(("a",)), np.array([400, 600]), Fraction(1))
    second = Measurement(Marginal(("e",)), np.array([400, 300, 300, 300]), Fraction(2))
    for batches in ([[first], [second]], [[second], [first]], [[first, second]]):
        weights = MultiplicativeWeights(DOMAIN)
        for items in batches:
            weights.add(items)
        weights.refit()
        assert weights.total == pytest.approx((1000 / 2 + 1300 / 8) / (1 / 2 + 1 / 8))


def entropy(target, have):
    held = target > 0
    return float((target[held] * np.log(target[held] / have[held])).sum())


def test_many_tables_are_those_of_one_by_one():
    weights = MultiplicativeWeights(DOMAIN)
    weights.add([told(joint(), clique) for clique in [("a", "b"), ("b", "c", "e"), ("e", "f")]])
    weights.refit()
    for size in (1, 2, 3, 4):
        for clique, table in weights.tables(combinations(DOMAIN, size)).items():
            np.testing.assert_allclose(table, weights.table(clique))
    np.testing.assert_allclose(weights.tables([("g", "a")])["g", "a"], weights.table(("a", "g")).T)


def test_the_model_holds_the_weights_cell_by_cell():
    weights = MultiplicativeWeights(DOMAIN)
    weights.add([told(joint(), clique) for clique in [("a", "b"), ("b", "c", "e"), ("e", "f"), ("a",)]])
    weights.refit()
    np.testing.assert_allclose(weights.model().marginal(DOMAIN), weights.table(tuple(DOMAIN)), rtol=1e-9)


def test_columns_that_were_learnt_in_groups_are_taken_in():
    table = joint()
    halves = Grouping("e", (0, 0, 1, 1))
    items = [told(table, ("e",), grouping=halves), told(table, ("a", "b"))]
    model = MWEM.fit(FitInput(schema=Schema.from_sizes(dict(DOMAIN)), items=items))
    found = model.marginal(("e",))
    np.testing.assert_allclose(
        [found[:2].sum(), found[2:].sum()],
        [summed(table, ("e",))[:2].sum(), summed(table, ("e",))[2:].sum()],
        rtol=0.01,
    )


def test_little_patience_still_uses_every_table_and_new_ones_first(monkeypatch):
    used = []
    genuine = MultiplicativeWeights._update
    monkeypatch.setattr(
        MultiplicativeWeights, "_update", lambda self, seen: used.append(seen.clique) or genuine(self, seen)
    )
    weights, table = MultiplicativeWeights(DOMAIN), joint()
    weights.add([told(table, clique) for clique in [("a", "b"), ("c", "e")]])
    weights.refit(sweeps=3, work=0)
    assert sorted(used) == [("a", "b"), ("c", "e")]
    weights.add([told(table, ("f", "g"))])
    weights.refit(sweeps=3, work=4 * 288)
    assert used[2] == ("f", "g")
    assert len(used) == 2 + 4
    weights.refit(sweeps=3, work=10**9)
    assert len(used) == 6 + 9


def test_only_free_domains_of_some_size_are_held_whole(monkeypatch):
    assert is_dense(ModelSpace(domain=DOMAIN))
    assert not is_dense(ModelSpace(domain=Domain({f"c{n}": 1 for n in range(70)})))
    rule = Rule(text="", clique=("a", "c"), allowed=np.array([[True, True], [True, False]]))
    classes = {name: Grouping(name, (0, 1)) for name in ("a", "c")}
    assert not is_dense(ModelSpace(domain=DOMAIN, rules=Rules(classes=classes, rules=(rule,))))
    assert not is_dense(ModelSpace(domain=DOMAIN, totals=(Totals(clique=("a",), counts=np.array([5, 5])),)))
    monkeypatch.setattr(module, "MAX_DENSE_CELLS", 287)
    assert not is_dense(ModelSpace(domain=DOMAIN))
