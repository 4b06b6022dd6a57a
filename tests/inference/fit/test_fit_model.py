"""From measurements to a model and targets, on small tables whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit import fit_model as module
from populace.inference.fit.fit_model import fit_model, rake_to_parts
from populace.inference.fit.projection import project_to_simplex, project_to_simplex_weighted
from populace.inference.gls.observations import observe
from populace.inference.model import FORMAT, Model
from populace.inference.model_space import ModelSpace
from populace.sampling.draw_rows import draw_rows
from populace.schema.conditions.rules import Rule, Rules, Totals
from tests.helpers.least_squares import group, margin, measured, random_counts, random_domain
from tests.helpers.random_rules import allowed_rows, random_rules
from tests.helpers.sampled_cases import sample_cases

DOMAIN = Domain({"a": 4, "b": 3, "c": 5, "d": 2})
PAIRS = list(combinations(DOMAIN, 2))


def joint(seed=0, domain=DOMAIN, rows=50_000):
    return random_counts(np.random.default_rng(seed), domain, rows=rows)


def answers(table, cliques, *, domain=DOMAIN, deviation=1, groupings=(), seed=0):
    """Measure every column and some cliques, these in groups."""
    rng = np.random.default_rng([seed, 1])
    asked = [Marginal((name,)) for name in domain]
    asked += [Marginal(c, tuple(g for g in groupings if g.column in c)) for c in cliques]
    return [measured(rng, table, marginal, domain, deviation=deviation) for marginal in asked]


def apart(found, truth):
    """Total variation between two tables of counts."""
    return 0.5 * np.abs(found / found.sum() - truth / truth.sum()).sum()


@pytest.mark.parametrize("seed", range(5))
def test_next_to_no_noise_gives_the_truth(seed):
    table = joint(seed)
    model = fit_model(answers(table, PAIRS, seed=seed), space=ModelSpace(domain=DOMAIN))
    assert set(model.targets) == set(PAIRS)
    assert model.total == pytest.approx(50_000, rel=1e-3)
    for clique, found in model.targets.items():
        assert apart(found, margin(table, clique, DOMAIN)) < 2e-3
    for name in DOMAIN:
        assert apart(model.marginal((name,)), margin(table, (name,), DOMAIN)) < 1e-3


def test_the_model_follows_pairs_that_its_tree_holds():
    """A chain of pairs is a tree, so the potentials alone say what was measured."""
    chain = [("a", "b"), ("b", "c"), ("c", "d")]
    table = joint(7)
    model = fit_model(answers(table, chain), space=ModelSpace(domain=DOMAIN))
    for clique in chain:
        assert apart(model.marginal(clique), margin(table, clique, DOMAIN)) < 3e-3
    assert set(model.targets) == set(chain)


@pytest.mark.parametrize(("rows", "deviation"), [(200, 1), (50_000, 5), (50_000, 500)])
def test_targets_are_counts_with_the_columns_of_the_model(rows, deviation):
    for seed in range(4):
        table = joint(seed, rows=rows)
        model = fit_model(
            answers(table, PAIRS, deviation=deviation, seed=seed), space=ModelSpace(domain=DOMAIN)
        )
        for clique, found in model.targets.items():
            assert found.sum() == pytest.approx(model.total, rel=1e-6)
            for axis, name in enumerate(clique):
                column = model.marginal((name,))
                assert (found.sum(axis=1 - axis) > 0).all()
                np.testing.assert_allclose(
                    found.sum(axis=1 - axis), column, rtol=0.01, atol=1e-4 * model.total
                )
            # Where the columns leave room for a row, there is some of one.
            possible = np.minimum.outer(*(model.marginal((name,)) for name in clique))
            assert (found[possible > 1] > 0).all()


def test_patterns_are_not_cleaned_away():
    """Random tables are nothing but pattern, far above the noise: targets are no worse than what was measured."""
    found = []
    for seed in range(6):
        table = joint(seed)
        seen = answers(table, PAIRS, deviation=40, seed=seed)
        model = fit_model(seen, space=ModelSpace(domain=DOMAIN))
        for item in seen[len(DOMAIN) :]:
            truth = margin(table, item.marginal.clique, DOMAIN)
            raw = project_to_simplex(item.counts.astype(float), total=float(truth.sum()))
            found.append([apart(model.targets[item.marginal.clique], truth), apart(raw, truth)])
    cleaned, raw = np.mean(found, axis=0)
    assert cleaned < raw


def test_columns_are_cut_by_norm_sub():
    """Of 60 codes one is full: cutting at 0 alone would leave half of the noise in the others."""
    domain = Domain({"a": 60, "b": 2})
    table = np.zeros((60, 2), dtype=int)
    table[0] = 4000, 4000
    (column, *_) = seen = answers(table, [], domain=domain, deviation=60)
    model = fit_model(seen, space=ModelSpace(domain=domain))
    truth = table.sum(axis=1)
    cut = np.maximum(column.counts, 0)
    assert apart(model.marginal(("a",)), truth) < 0.3 * apart(cut, truth)


def test_cleaned_targets_are_nearer_than_what_was_measured():
    """Independent columns of 12 codes with noise of a tenth of a cell's rows: cleaning finds next to nothing."""
    domain = Domain(dict.fromkeys("abc", 12))
    pairs = list(combinations(domain, 2))
    rng = np.random.default_rng(3)
    codes = [rng.integers(0, 12, 14_400) for _ in domain]
    table = np.zeros((12, 12, 12), dtype=int)
    np.add.at(table, tuple(codes), 1)
    seen = answers(table, pairs, domain=domain, deviation=30)
    model = fit_model(seen, space=ModelSpace(domain=domain))
    for item in seen[3:]:
        truth = margin(table, item.marginal.clique, domain)
        raw = project_to_simplex(item.counts.astype(float), total=float(truth.sum()))
        assert apart(model.targets[item.marginal.clique], truth) < 0.5 * apart(raw, truth)


def test_targets_stand_on_groups():
    domain = Domain({"a": 6, "b": 5, "c": 3})
    groupings = (Grouping("a", (0, 1, 1, 2, 2, 2)), Grouping("b", (0, 0, 1, 2, 1)))
    table = joint(2, domain)
    pairs = list(combinations(domain, 2))
    model = fit_model(
        answers(table, pairs, domain=domain, groupings=groupings), space=ModelSpace(domain=domain)
    )
    assert model.groupings == {"a": groupings[0], "b": groupings[1]}
    for clique in pairs:
        truth = margin(table, clique, domain).astype(float)
        for axis, name in enumerate(clique):
            if name in model.groupings:
                truth = group(truth, model.groupings[name], axis=axis)
        assert model.targets[clique].shape == truth.shape
        assert apart(model.targets[clique], truth) < 2e-3
    for name in domain:
        assert apart(model.marginal((name,)), margin(table, (name,), domain)) < 2e-3


@pytest.mark.parametrize("seed", sample_cases(range(8), to=2))
def test_nothing_forbidden_is_in_targets_or_model(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=4, largest=5)
    rules = random_rules(rng, domain, count=3)
    kept = allowed_rows(rules, domain)
    table = np.where(kept, random_counts(rng, domain, rows=20_000), 0)
    if not table.any():
        table[tuple(np.argwhere(kept)[0])] = 100
    cliques = [*combinations(domain, 2), *list(combinations(domain, 3))[:1]]
    model = fit_model(
        answers(table, cliques, domain=domain, deviation=20, seed=seed),
        space=ModelSpace(domain=domain, rules=rules),
    )
    assert set(model.targets) == {c for c in cliques if min(domain.shape(c)) >= 1}
    for clique, found in model.targets.items():
        possible = margin(kept, clique, domain) > 0
        assert (found[~possible] == 0).all()
        assert found.sum() == pytest.approx(model.total, rel=1e-6)
        assert model.marginal(clique)[~possible].sum() == 0
    assert model.marginal(tuple(domain))[~kept].sum() == 0


def test_rows_drawn_under_rules_keep_them():
    domain = Domain({"a": 4, "b": 3, "c": 2})
    classes = {"a": Grouping("a", (0, 0, 1, 1)), "b": Grouping("b", (0, 0, 1))}
    allowed = np.array([[False, True], [True, True]])
    rules = Rules(classes=classes, rules=(Rule(text="", clique=("a", "b"), allowed=allowed),))
    table = np.where(allowed_rows(rules, domain), joint(4, domain, rows=5000), 0)
    model = fit_model(
        answers(table, combinations(domain, 2), domain=domain, deviation=30),
        space=ModelSpace(domain=domain, rules=rules),
    )
    rng = np.random.default_rng(0)
    for codes in draw_rows(model, rows=5000, rng=rng, rules=rules):
        assert not ((codes["a"] < 2) & (codes["b"] < 2)).any()


@pytest.mark.parametrize("seed", range(4))
def test_public_totals_are_met_exactly(seed):
    table = joint(seed, rows=20_000)
    known = margin(table, ("a", "d"), DOMAIN).astype(np.int64)
    totals = (Totals(clique=("a", "d"), counts=known),)
    model = fit_model(
        answers(table, PAIRS, deviation=120, seed=seed), space=ModelSpace(domain=DOMAIN, totals=tuple(totals))
    )
    assert model.total == 20_000
    np.testing.assert_allclose(model.marginal(("a", "d")), known, atol=0.5)
    assert model.exact == (("a", "d"),)
    # Other targets carry the totals of their columns.
    np.testing.assert_allclose(model.targets["a", "b"].sum(axis=1), known.sum(axis=1), rtol=1e-3, atol=1.0)
    (codes,) = draw_rows(model, rows=20_000, rng=np.random.default_rng(seed))
    drawn = np.zeros_like(known)
    np.add.at(drawn, (codes["a"], codes["d"]), 1)
    np.testing.assert_array_equal(drawn, known)


def test_a_public_number_of_rows():
    table = joint(1)
    totals = (Totals(clique=(), counts=np.array(50_000)),)
    model = fit_model(
        answers(table, PAIRS, deviation=2000), space=ModelSpace(domain=DOMAIN, totals=tuple(totals))
    )
    assert model.total == 50_000
    assert all(found.sum() == pytest.approx(50_000, rel=1e-6) for found in model.targets.values())


def test_a_public_number_of_rows_makes_up_for_noise_in_sums():
    """Every cell is 9,000 rows short: only the number of rows, which is public, could tell."""
    items = answers(joint(1), PAIRS, deviation=20)
    sunk = [replace(item, counts=item.counts - 9000) for item in items]
    totals = (Totals(clique=(), counts=np.array(50_000)),)
    model, again = (
        fit_model(each, space=ModelSpace(domain=DOMAIN, totals=tuple(totals))) for each in (items, sunk)
    )
    for clique, found in model.targets.items():
        np.testing.assert_allclose(again.targets[clique], found, rtol=1e-6, atol=1e-3)


def test_the_order_of_measurements_does_not_matter():
    groupings = (Grouping("c", (0, 0, 1, 2, 2)), Grouping("a", (0, 1, 1, 0)))
    cliques = [*PAIRS, ("a", "b", "d")]
    items = answers(joint(5), cliques, deviation=50, groupings=groupings)
    items += answers(joint(5), [("a", "b"), ("c", "d")], deviation=80, groupings=groupings, seed=1)
    first = fit_model(items, space=ModelSpace(domain=DOMAIN))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(items))
        again = fit_model([items[number] for number in order], space=ModelSpace(domain=DOMAIN))
        assert list(again.targets) == list(first.targets)
        assert again.total == first.total
        for clique, found in first.targets.items():
            np.testing.assert_array_equal(again.targets[clique], found)
        assert set(again.potentials) == set(first.potentials)
        for clique, found in first.potentials.items():
            np.testing.assert_array_equal(again.potentials[clique], found)
        for name, shares in first.within.items():
            np.testing.assert_allclose(again.within[name], shares, rtol=1e-12)


def test_columns_of_a_clique_may_come_in_any_order():
    items = answers(joint(5), PAIRS, deviation=20)
    turned = [
        replace(item, marginal=Marginal(item.marginal.clique[::-1]), counts=item.counts.T) for item in items
    ]
    first, again = (
        fit_model(items, space=ModelSpace(domain=DOMAIN)),
        fit_model(turned, space=ModelSpace(domain=DOMAIN)),
    )
    for clique, found in first.targets.items():
        np.testing.assert_array_equal(again.targets[clique], found)


def cells_of(model):
    return model.tree.cells(model.full_domain)


@pytest.mark.parametrize("limit", ["MAX_TREE_CELLS", "MAX_SWEEP_WORK"])
def test_more_pairs_than_the_tree_can_hold_are_targets_all_the_same(monkeypatch, limit):
    domain = Domain(dict.fromkeys("abcdef", 4))
    pairs = list(combinations(domain, 2))
    table = joint(6, domain, rows=200_000)
    items = answers(table, pairs, domain=domain, deviation=3)
    whole = fit_model(items, space=ModelSpace(domain=domain))
    assert cells_of(whole) > 100
    monkeypatch.setattr(module, limit, {"MAX_TREE_CELLS": 100, "MAX_SWEEP_WORK": 300}[limit])
    small = fit_model(items, space=ModelSpace(domain=domain))
    assert cells_of(small) <= 100
    assert sum(len(clique) == 2 for clique in small.potentials) >= 3
    assert set(small.targets) == set(pairs)
    for clique, found in small.targets.items():
        assert apart(found, margin(table, clique, domain)) < 5e-3


@pytest.mark.parametrize("seed", sample_cases(range(3), to=1))
def test_the_tree_is_limited_under_rules_too(monkeypatch, seed):
    """Hidden variables that carry rules count as well."""
    rng = np.random.default_rng([seed, 4])
    domain = Domain({name: int(rng.integers(4, 7)) for name in "abcdef"})
    rules = random_rules(rng, domain, count=3, most=2)
    table = np.where(allowed_rows(rules, domain), random_counts(rng, domain, rows=100_000), 0)
    items = answers(table, combinations(domain, 2), domain=domain, deviation=5)
    monkeypatch.setattr(module, "MAX_TREE_CELLS", 1)
    alone = cells_of(fit_model(items[:6], space=ModelSpace(domain=domain, rules=rules)))
    monkeypatch.setattr(module, "MAX_TREE_CELLS", 150)
    assert cells_of(fit_model(items, space=ModelSpace(domain=domain, rules=rules))) <= max(150, 2 * alone)


def test_the_tree_holds_what_says_most(monkeypatch):
    """Room for one pair: it is the one farthest from independence, and one that says nothing gets none at all."""
    rng = np.random.default_rng(8)
    domain = Domain(dict.fromkeys("abcd", 4))
    a, b, c = rng.integers(0, 4, (3, 100_000))
    b = np.where(rng.random(100_000) < 0.3, a, b)
    c = np.where(rng.random(100_000) < 0.6, a, c)
    table = np.zeros((4, 4, 4, 4), dtype=int)
    np.add.at(table, (a, b, c), 1)
    items = answers(table, [("a", "b"), ("a", "c"), ("c", "d")], domain=domain, deviation=30)
    model = fit_model(items, space=ModelSpace(domain=domain))
    assert {clique for clique in model.potentials if len(clique) == 2} == {("a", "b"), ("a", "c")}
    # There is always room for twice the cells of the columns.
    monkeypatch.setattr(module, "MAX_TREE_CELLS", 1)
    model = fit_model(items, space=ModelSpace(domain=domain))
    assert {clique for clique in model.potentials if len(clique) == 2} == {("a", "c")}
    assert set(model.targets) == {("a", "b"), ("a", "c"), ("c", "d")}


def test_triples_tell_of_their_pairs():
    domain = Domain({"a": 3, "b": 4, "c": 3})
    table = joint(9, domain, rows=30_000)
    model = fit_model(
        answers(table, [("a", "b", "c")], domain=domain, deviation=2), space=ModelSpace(domain=domain)
    )
    assert set(model.targets) == {("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")}
    for clique, found in model.targets.items():
        assert apart(found, margin(table, clique, domain)) < 0.01


def test_triples_start_from_the_pairs(monkeypatch):
    """Noise drowns the triple, but its pairs are known: its target has their sums, though the tree holds one pair."""
    monkeypatch.setattr(module, "MAX_TREE_CELLS", 1)
    domain = Domain(dict.fromkeys("abc", 4))
    table = joint(10, domain, rows=50_000)
    pairs = list(combinations(domain, 2))
    rng = np.random.default_rng(1)
    items = answers(table, pairs, domain=domain, deviation=5)
    items.append(measured(rng, table, Marginal(("a", "b", "c")), domain, deviation=5000))
    model = fit_model(items, space=ModelSpace(domain=domain))
    assert sum(len(clique) > 1 for clique in model.potentials) == 1
    for pair in pairs:
        found = margin(model.targets["a", "b", "c"], pair, domain)
        assert apart(found, margin(table, pair, domain)) < 0.05


def test_scaling_to_known_sums_by_hand():
    """One sweep over one part: every row of the known pair is shared out as before."""
    table = np.arange(1.0, 9.0).reshape(2, 2, 2)
    known = {("a", "b"): np.array([[6.0, 7.0], [22.0, 0.0]])}
    found = rake_to_parts(table, ("a", "b", "c"), known=known)
    wanted = [[[2.0, 4.0], [3.0, 4.0]], [[10.0, 12.0], [0.0, 0.0]]]
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_array_equal(rake_to_parts(table, ("a", "b", "c"), known={}), table)
    np.testing.assert_array_equal(rake_to_parts(table[0], ("a", "b"), known={("a", "b"): table[1]}), table[0])


def test_scaling_to_all_three_pairs():
    rng = np.random.default_rng(2)
    truth, start = rng.gamma(1.0, size=(3, 4, 5)), rng.gamma(5.0, size=(3, 4, 5))
    domain = Domain({"a": 3, "b": 4, "c": 5})
    known = {pair: margin(truth, pair, domain) for pair in combinations(domain, 2)}
    found = rake_to_parts(start, ("a", "b", "c"), known=known)
    for pair, table in known.items():
        assert apart(margin(found, pair, domain), table) < 0.2 * apart(margin(start, pair, domain), table)


def test_empty_cells_are_filled_where_the_model_fills_them():
    """Raked to rows of 30 and 10 and columns of 20; a thousandth of what the model says stays, but 0 stays 0."""
    beside = np.array([[15.0, 15.0, 0.0], [5.0, 5.0, 0.0]])
    found = module.rake_to_columns(np.array([[0.0, 20.0, 0.0], [20.0, 0.0, 0.0]]), beside=beside)
    np.testing.assert_allclose(found.sum(axis=0), beside.sum(axis=0))
    assert (found[:, 2] == 0).all()
    assert 0 < found[0, 0] < 20
    assert 0 < found[1, 1] < 1
    kept = module.rake_to_columns(beside, beside=beside)
    np.testing.assert_allclose(kept, beside)


def test_a_saved_model_keeps_its_targets(tmp_path):
    groupings = (Grouping("c", (0, 0, 1, 2, 2)),)
    model = fit_model(
        answers(joint(11), [*PAIRS, ("a", "b", "d")], deviation=30, groupings=groupings),
        space=ModelSpace(domain=DOMAIN),
    )
    model.save(tmp_path)
    again = Model.load(tmp_path)
    assert FORMAT == "populace model 3"
    assert FORMAT in (tmp_path / "model.json").read_text("utf-8")
    assert list(again.targets) == list(model.targets)
    for clique, table in model.targets.items():
        assert again.targets[clique].tobytes() == table.tobytes()
        assert again.targets[clique].dtype == np.float64


def test_columns_alone_make_a_model_without_targets():
    model = fit_model(answers(joint(0), []), space=ModelSpace(domain=DOMAIN))
    assert model.targets == {}
    np.testing.assert_allclose(
        model.marginal(("a", "b")),
        np.outer(model.marginal(("a",)), model.marginal(("b",))) / model.total,
        rtol=1e-6,
    )


def test_no_rows_and_noise_below_zero_still_make_a_model():
    items = answers(np.zeros((4, 3, 5, 2), dtype=int), PAIRS, deviation=40)
    sunk = [replace(item, counts=item.counts - 500) for item in items]
    for each in (items, sunk):
        model = fit_model(each, space=ModelSpace(domain=DOMAIN))
        assert model.total >= 1
        assert all(np.isfinite(table).all() for table in model.targets.values())


def nearest(table, variance, total):
    """The same problem by quadratic programming."""
    start = np.full(table.size, total / table.size)
    found = minimize(
        lambda x: 0.5 * ((x - table) ** 2 / variance).sum(),
        start,
        jac=lambda x: (x - table) / variance,
        bounds=[(0, None)] * table.size,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return found.x


@pytest.mark.parametrize("seed", range(20))
def test_weighted_norm_sub_against_quadratic_programming(seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(3, 10, int(rng.integers(1, 9)))
    variance = rng.lognormal(0, 1, table.size)
    total = float(rng.uniform(1, 40))
    found = project_to_simplex_weighted(table, variance, total=total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total)
    np.testing.assert_allclose(found, nearest(table, variance, total), atol=1e-4)
    # Cells above 0 all give up the same times their variance; the others would have to give up less.
    paid = (table - found) / variance
    above = found > 1e-9
    assert np.ptp(paid[above]) < 1e-9
    assert (table[~above] / variance[~above] <= paid[above][0] + 1e-9).all()


@pytest.mark.parametrize("seed", range(10))
def test_equal_variances_are_norm_sub(seed):
    rng = np.random.default_rng([seed, 1])
    table = rng.normal(0, 50, 30)
    found = project_to_simplex_weighted(table, np.full(30, 7.0), total=100.0)
    np.testing.assert_allclose(found, project_to_simplex(table, total=100.0), atol=1e-9)


def test_the_model_meets_columns_that_are_known_well(monkeypatch):
    """Six pairs that contradict each other pull at the columns; those known well do not give way."""
    rng = np.random.default_rng(3)
    table = joint(3)
    asked = [measured(rng, table, Marginal((name,)), DOMAIN, deviation=100) for name in DOMAIN]
    pairs = [measured(rng, table, Marginal(pair), DOMAIN, deviation=300) for pair in PAIRS]
    model = fit_model([*asked, *pairs], space=ModelSpace(domain=DOMAIN))
    monkeypatch.setattr(module, "_PRECISE_SHARE", 0.0)
    free = fit_model([*asked, *pairs], space=ModelSpace(domain=DOMAIN))
    effects = module.estimate_gls(observe([*asked, *pairs], domain=DOMAIN, groupings={}), domain=DOMAIN)

    def furthest(found):
        known = [effects.nonnegative_column(name, total=effects.total) for name in DOMAIN]
        return max(apart(found.marginal(each.clique), each.values) for each in known)

    assert furthest(model) < furthest(free) / 5


def test_the_model_gives_way_at_columns_that_are_known_badly(monkeypatch):
    table = joint(3)
    noisy = answers(table, PAIRS, deviation=5_000)
    model = fit_model(noisy, space=ModelSpace(domain=DOMAIN))
    monkeypatch.setattr(module, "_PRECISE_SHARE", 0.0)
    free = fit_model(noisy, space=ModelSpace(domain=DOMAIN))
    for name in DOMAIN:
        assert (model.marginal((name,)) == free.marginal((name,))).all()


def test_a_small_tree_joins_every_column_before_it_joins_any_three(monkeypatch):
    """Four columns that follow each other closely would fill it, and the two others, a close pair, stand apart."""
    domain = Domain({"a": 4, "b": 4, "c": 4, "d": 4, "e": 4, "f": 4})
    rng = np.random.default_rng(5)
    core, edge = rng.integers(0, 4, 20_000), rng.integers(0, 4, 20_000)
    rows = [np.where(rng.random(20_000) < 0.02, rng.integers(0, 4, 20_000), core) for _ in range(4)]
    rows += [np.where(rng.random(20_000) < 0.4, rng.integers(0, 4, 20_000), edge) for _ in range(2)]
    table = np.histogramdd(np.stack(rows, 1), bins=[4] * 6, range=[(0, 4)] * 6)[0]
    items = answers(table, list(combinations(domain, 2)), domain=domain)
    whole = margin(table, ("e", "f"), domain)
    monkeypatch.setattr(module, "MAX_TREE_CELLS", 5 * 4**2)
    model = fit_model(items, space=ModelSpace(domain=domain))
    assert apart(model.marginal(("e", "f")), whole) < 0.01
    monkeypatch.setattr(module, "split_spanning_forest", lambda cliques: (list(cliques), []))
    assert apart(fit_model(items, space=ModelSpace(domain=domain)).marginal(("e", "f")), whole) > 0.2
