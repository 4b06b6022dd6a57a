"""How a budget is shared out: against closed formulas, conditions of optimality and exhaustive search."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.methods.selection.budget_allocation import (
    ColumnCosts,
    PrecisionMap,
    _restrict_map,
    allocate,
    choose_best_prefix,
    choose_pairs,
    group_by_precision,
    map_precisions,
)
from tests.helpers.sampled_cases import sample_cases


def problem(rng, *, names=4, triples=True):
    """Return tables (pairs, and some triples), the pairs, reaches, costs and columns of a random small domain."""
    domain = Domain({name: int(rng.integers(2, 7)) for name in "abcdefg"[:names]})
    singles = [(name,) for name in domain]
    every = list(combinations(domain, 2))
    pairs = [every[i] for i in sorted(rng.choice(len(every), size=min(5, len(every)), replace=False))]
    whole = [t for t in combinations(domain, 3) if set(combinations(t, 2)) <= set(pairs)] if triples else []
    tables = [*pairs, *whole]
    return {
        "costs": rng.lognormal(3, 1, len(pairs)),
        "tables": len(tables),
        "pairs": map_precisions(tables, pairs, domain=domain),
        "singles": map_precisions(tables, singles, domain=domain),
        "columns": ColumnCosts(
            alone=rng.lognormal(2, 1, len(domain)),
            merged=rng.lognormal(0, 2, len(domain)) * (rng.random(len(domain)) < 0.5),
            known=rng.lognormal(-7, 1, len(domain)),
        ),
        "budget": float(rng.lognormal(-2, 2)),
    }


def error(shares, *, costs, tables, pairs, singles, columns, budget):
    """The sum of errors, written out table by table."""
    known_precisions = [
        sum(shares[o] * p for o, a, p in triples_of(pairs) if a == i) for i in range(len(costs))
    ]
    found = sum(cost / q**0.5 for cost, q in zip(costs, known_precisions, strict=True))
    for number, known in enumerate(columns.known):
        own = known + shares[tables + number]
        joint = own + sum(shares[o] * p for o, a, p in triples_of(singles) if a == number)
        found += columns.alone[number] / joint**0.5 + columns.merged[number] / own**0.5
    return found


def triples_of(whole: PrecisionMap):
    return list(zip(whole.of.tolist(), whole.about.tolist(), whole.part.tolist(), strict=True))


def slopes(shares, given):
    """What a little more of each share gains, by differences."""
    found = []
    for number, share in enumerate(shares):
        step = 1e-5 * max(share, 1e-6 * given["budget"])
        more, less = shares.copy(), shares.copy()
        more[number] += step
        less[number] -= step
        found.append((error(less, **given) - error(more, **given)) / (2 * step))
    return np.array(found)


@pytest.mark.parametrize("seed", sample_cases(range(40), to=20))
def test_no_share_could_gain_more_elsewhere(seed):
    """Where a share is worth having all marginal gains are alike, and no other gain is larger.

    Errors are convex, so whatever the shares, the least error is at most budget × largest gain − Σ share × gain away.
    """
    given = problem(np.random.default_rng(seed))
    precisions, own = allocate(**given)
    shares = np.concatenate([precisions, own])
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(given["budget"])
    gains = slopes(shares, given)
    np.testing.assert_allclose(gains[shares > 0.02 * given["budget"]], gains.max(), rtol=0.02)
    assert given["budget"] * gains.max() - (gains * shares).sum() < 2e-3 * error(shares, **given)


def test_shares_of_two_tables_against_a_grid():
    """One pair and one column of two codes each, of which the pair tells too."""
    domain = Domain({"a": 2, "b": 3})
    given = {
        "costs": np.array([4.0]),
        "tables": 1,
        "pairs": map_precisions([("a", "b")], [("a", "b")], domain=domain),
        "singles": map_precisions([("a", "b")], [("a",), ("b",)], domain=domain),
        "columns": ColumnCosts(
            alone=np.array([3.0, 0.5]), merged=np.array([0.0, 2.0]), known=np.array([0.1, 0.2])
        ),
        "budget": 5.0,
    }
    found = np.concatenate(allocate(**given))
    steps = np.linspace(0.005, 0.995, 80)
    grid = [
        np.array([5 * p, 5 * (1 - p) * q, 5 * (1 - p) * (1 - q)]) for p in steps for q in [0.0, *steps, 1.0]
    ]
    best = min(grid, key=lambda shares: error(shares, **given))
    np.testing.assert_allclose(found, best, atol=0.08)
    assert error(found, **given) <= error(best, **given) + 1e-9


def test_tables_that_tell_nothing_of_each_other_share_by_two_thirds_powers():
    """k / √q is least in sum where q ∝ k^⅔, and is then (Σ k^⅔)^1.5 / √budget."""
    costs = np.array([1.0, 8.0, 27.0])
    numbers = np.arange(3)
    nothing = PrecisionMap(of=np.zeros(0, int), about=np.zeros(0, int), part=np.zeros(0))
    found, own = allocate(
        costs,
        tables=3,
        pairs=PrecisionMap(of=numbers, about=numbers, part=np.ones(3)),
        singles=nothing,
        columns=ColumnCosts(alone=np.array([64.0]), merged=np.zeros(1), known=np.zeros(1)),
        budget=60.0,
    )
    np.testing.assert_allclose(np.append(found, own), [2.0, 8.0, 18.0, 32.0], rtol=1e-6)
    assert (costs / np.sqrt(found)).sum() + 64 / np.sqrt(own[0]) == pytest.approx(30**1.5 / 60**0.5)


def test_a_triple_is_preferred_where_it_saves():
    """2 × 2 × 2: the triple tells of each of three pairs with half its precision, so it is worth 1.5 times a pair."""
    small = Domain({"a": 2, "b": 2, "c": 2})
    large = Domain({"a": 9, "b": 9, "c": 9})
    for domain, preferred in ((small, True), (large, False)):
        pairs = list(combinations(domain, 2))
        tables = [*pairs, ("a", "b", "c")]
        found, _ = allocate(
            np.ones(3),
            tables=4,
            pairs=map_precisions(tables, pairs, domain=domain),
            singles=map_precisions(tables, [], domain=domain),
            columns=ColumnCosts(alone=np.zeros(1), merged=np.zeros(1), known=np.ones(1)),
            budget=1.0,
        )
        assert (found[3] > 0.99) == preferred
        assert (found[3] < 0.01) != preferred


def test_columns_that_are_known_get_nothing():
    numbers = np.arange(1)
    _, own = allocate(
        np.array([5.0]),
        tables=1,
        pairs=PrecisionMap(of=numbers, about=numbers, part=np.ones(1)),
        singles=map_precisions([("a", "b")], [("a",), ("b",)], domain=Domain({"a": 3, "b": 3})),
        columns=ColumnCosts(alone=np.array([5.0, 5.0]), merged=np.zeros(2), known=np.array([1e4, 1e-4])),
        budget=1.0,
    )
    assert own[0] < 1e-6 < 0.05 < own[1]


def test_reach_by_hand():
    """A table tells of a smaller one by sums of as many cells as the rest has."""
    domain = Domain({"a": 2, "b": 5, "c": 3})
    tables = [("a", "b", "c"), ("b", "c"), ("c",)]
    singles = map_precisions(tables, [("a",), ("b",), ("c",)], domain=domain)
    assert triples_of(singles) == [
        (0, 0, 1 / 15),
        (0, 1, 1 / 6),
        (0, 2, 1 / 10),
        (1, 1, 1 / 3),
        (1, 2, 1 / 5),
        (2, 2, 1.0),
    ]
    pairs = map_precisions(tables, [("a", "b"), ("b", "c")], domain=domain)
    assert triples_of(pairs) == [(0, 0, 1 / 3), (0, 1, 1 / 2), (1, 1, 1.0)]
    precisions = np.array([30.0, 6.0, 1.0])
    np.testing.assert_allclose(singles.known_precisions(precisions, count=3), [2.0, 7.0, 5.2])
    np.testing.assert_allclose(pairs.known_precisions(precisions, count=2), [10.0, 21.0])
    np.testing.assert_allclose(pairs.table_gains(np.array([3.0, 4.0]), count=3), [3.0, 4.0, 0.0])
    assert triples_of(map_precisions([("a",)], [], domain=domain)) == []


def test_reach_does_not_mind_the_order_of_names():
    domain = Domain({"a": 2, "b": 5, "c": 3})
    assert triples_of(map_precisions([("c", "a", "b")], [("b", "a")], domain=domain)) == [(0, 0, 1 / 3)]


def test_reach_of_some_tables_is_numbered_in_their_order():
    domain = Domain({"a": 2, "b": 5, "c": 3})
    tables, singles = list(combinations(domain, 2)), [("a",), ("b",), ("c",)]
    found = _restrict_map(map_precisions(tables, singles, domain=domain), np.array([2, 0]))
    again = map_precisions([tables[2], tables[0]], singles, domain=domain)
    assert sorted(triples_of(found)) == sorted(triples_of(again))


def balance(chosen, gains, costs, *, budget, beside):
    chosen = list(chosen)
    return gains[chosen].sum() - (beside + (costs[chosen] ** (2 / 3)).sum()) ** 1.5 / budget**0.5


@pytest.mark.parametrize("seed", sample_cases(range(30), to=10))
def test_prefixes_against_all_subsets(seed):
    """A prefix is best but for the one table at its end: what it misses is less than the largest gain.

    With parts of tables allowed the best choice is a prefix and a part of the next table, since the cost is convex in
    Σ k^⅔.
    """
    rng = np.random.default_rng(seed)
    gains, costs = rng.normal(2, 3, 9), rng.lognormal(0, 1, 9)
    budget, beside = float(rng.lognormal(1.5, 1)), float(rng.lognormal(0, 1))
    given = {"budget": budget, "beside": beside}
    found = choose_best_prefix(gains, costs, **given).tolist()
    ratios = gains / costs ** (2 / 3)
    assert all(gains[found] > 0)
    assert found == sorted(found, key=lambda number: -ratios[number])
    others = [number for number in range(9) if number not in found and gains[number] > 0]
    assert min(ratios[found], default=np.inf) >= max(ratios[others], default=-np.inf)
    reached = balance(found, gains, costs, **given)
    every = [
        balance(subset, gains, costs, **given)
        for size in range(10)
        for subset in combinations(range(9), size)
    ]
    assert max(every) - max(gains.max(), 0) <= reached <= max(every) + 1e-9
    order = sorted(found + others, key=lambda number: -ratios[number])
    assert reached >= max(balance(order[:n], gains, costs, **given) for n in range(len(order) + 1)) - 1e-9


def test_nothing_hopeful_is_nothing_measured():
    found = choose_best_prefix(np.array([-1.0, 0.0]), np.ones(2), budget=1e9)
    assert found.tolist() == []
    assert choose_best_prefix(np.zeros(0), np.zeros(0), budget=1.0).tolist() == []


def test_prefixes_miss_little_on_average():
    missed = []
    for seed in range(60):
        rng = np.random.default_rng([seed, 2])
        gains, costs = rng.lognormal(0.5, 1, 8), rng.lognormal(0, 1, 8)
        given = {"budget": float(rng.lognormal(1.5, 1)), "beside": 0.5}
        every = max(
            balance(subset, gains, costs, **given)
            for size in range(9)
            for subset in combinations(range(8), size)
        )
        reached = balance(choose_best_prefix(gains, costs, **given), gains, costs, **given)
        missed.append((every - reached) / gains.sum())
    assert np.mean(missed) < 0.01


def columns_and_pairs(rng):
    domain = Domain({name: int(rng.integers(2, 12)) for name in "abcd"})
    pairs = list(combinations(domain, 2))[:5]
    cells = np.array([domain.cells(pair) for pair in pairs], dtype=float)
    columns = ColumnCosts(
        alone=3.0 * np.array([domain[name] for name in domain]),
        merged=np.zeros(4),
        known=np.full(4, 1e-6),
    )
    gains = rng.lognormal(3, 1.5, len(pairs)) * (rng.random(len(pairs)) < 0.8)
    return gains, cells, map_precisions(pairs, [(name,) for name in domain], domain=domain), columns


def whole_balance(chosen, gains, costs, singles, columns, budget):
    """Gains less the errors of what is chosen and of all columns, when the budget is shared in the best way."""
    chosen = np.array(list(chosen), dtype=int)
    place = {int(number): i for i, number in enumerate(chosen)}
    kept = [(place[o], a, p) for o, a, p in triples_of(singles) if o in place]
    of, about, part = zip(*kept, strict=True) if kept else ((), (), ())
    numbers = np.arange(len(chosen))
    given = {
        "costs": costs[chosen],
        "tables": len(chosen),
        "pairs": PrecisionMap(of=numbers, about=numbers, part=np.ones(len(chosen))),
        "singles": PrecisionMap(of=np.array(of, int), about=np.array(about, int), part=np.array(part, float)),
        "columns": columns,
        "budget": budget,
    }
    return gains[chosen].sum() - error(np.concatenate(allocate(**given)), **given)


@pytest.mark.slow
def test_pairs_worth_measuring_against_all_subsets(monkeypatch):
    """A heuristic: what pairs tell of columns counts only in sum. It misses less than ½ % of all gains on average."""
    monkeypatch.setattr("populace.methods.selection.budget_allocation._ROUNDS", 60)
    missed = []
    for seed in range(15):
        rng = np.random.default_rng([seed, 3])
        gains, costs, singles, columns = columns_and_pairs(rng)
        budget = 10.0 * float(rng.lognormal(0, 0.5))
        found = choose_pairs(gains, costs, singles=singles, columns=columns, budget=budget)
        every = [
            whole_balance(subset, gains, costs, singles, columns, budget)
            for size in range(6)
            for subset in combinations(range(5), size)
        ]
        reached = whole_balance(found, gains, costs, singles, columns, budget)
        missed.append((max(every) - reached) / gains.sum())
    assert np.mean(missed) < 0.005


def test_more_budget_measures_more_pairs():
    gains, costs, singles, columns = columns_and_pairs(np.random.default_rng(5))
    sizes = [
        len(choose_pairs(gains, costs, singles=singles, columns=columns, budget=budget))
        for budget in 10.0 ** np.arange(-2, 9)
    ]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (0, int((gains > 0).sum()))


def test_levels_are_thirds_of_doublings():
    thirds = 2 ** (np.arange(5) / 3)
    assert group_by_precision(thirds.tolist()) == [[4], [3], [2], [1], [0]]
    assert group_by_precision([1.0, 1.1, 0.95, 2.0, 2.2]) == [[3, 4], [0, 1, 2]]
    assert group_by_precision([1.0, 1.9], per_double=1) == [[1], [0]]
    assert group_by_precision([0.0, 0.0]) == []
    assert group_by_precision([]) == []


@pytest.mark.parametrize("seed", range(5))
def test_levels_hold_every_table_once(seed):
    precisions = np.random.default_rng(seed).lognormal(0, 3, 40)
    found = group_by_precision(precisions.tolist())
    assert sorted(number for level in found for number in level) == list(range(40))
    for level in found:
        assert max(precisions[level]) / min(precisions[level]) <= 2 ** (1 / 3) + 1e-9
    means = [precisions[level].mean() for level in found]
    assert means == sorted(means, reverse=True)
