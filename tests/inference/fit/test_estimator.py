"""The estimator of adaptive rounds, against fits from scratch and brute force."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit.estimator import QUICK_FIT, Estimator, fit_least_squares
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.schema.conditions.rules import Totals
from tests.helpers.least_squares import margin, measured, random_clique, random_counts, random_domain
from tests.helpers.random_rules import allowed_rows, random_rules
from tests.helpers.sampled_cases import sample_cases

TREE = [("a",), ("b",), ("a", "b"), ("b", "c"), ("d", "b"), ("e",)]


def rounds_of(seed, cliques, *, rows=4000, deviation=8, largest=5):
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(2, largest + 1)) for name in "abcde"})
    joint = random_counts(rng, domain, rows=rows)
    items = [measured(rng, joint, Marginal(c), domain, deviation=deviation) for c in cliques]
    return domain, joint, items


@pytest.mark.parametrize("seed", sample_cases(range(10), to=5))
def test_on_a_tree_rounds_end_near_the_fit_of_everything_at_once(seed):
    domain, _, items = rounds_of(seed, [*TREE, ("b", "c"), ("a",)])
    estimator = Estimator(ModelSpace(domain=domain))
    for item in items:
        estimator.add([item])
        estimator.refit()
    best = fit_least_squares(items, space=ModelSpace(domain=domain))
    assert estimator.model().loss(items) <= 1.05 * best.loss(items) + 1
    for pair in combinations(domain, 2):
        far = np.abs(estimator.table(pair) - best.marginal(pair)).sum()
        assert far < 0.01 * best.total


@pytest.mark.parametrize("seed", sample_cases(range(10), to=4))
def test_descent_closes_the_gap_on_cycles(seed):
    domain, _, items = rounds_of(seed, [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "a")])
    estimator = Estimator(ModelSpace(domain=domain))
    estimator.add(items)
    estimator.refit()
    rough = estimator.model().loss(items)
    estimator.refit(effort=replace(QUICK_FIT, steps=500))
    least = fit_least_squares(items, space=ModelSpace(domain=domain), tolerance=1e-9).loss(items)
    assert least <= estimator.model().loss(items) * (1 + 1e-9)
    assert estimator.model().loss(items) <= min(rough * (1 + 1e-9), 1.001 * least + 0.1)


@pytest.mark.parametrize("seed", range(10))
def test_tables_are_those_of_the_model_and_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=6)
    joint = random_counts(rng, domain, rows=500)
    cliques = [random_clique(rng, domain) for _ in range(5)]
    estimator = Estimator(ModelSpace(domain=domain))
    estimator.add([measured(rng, joint, Marginal(c), domain, deviation=4) for c in cliques])
    estimator.refit()
    whole = estimator.model().marginal(tuple(domain))
    asked = [random_clique(rng, domain, most=4) for _ in range(10)]
    for clique, table in estimator.tables(asked).items():
        np.testing.assert_allclose(table, margin(whole, clique, domain), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(table, estimator.table(clique))


@pytest.mark.parametrize("seed", sample_cases(range(20), to=6))
def test_forbidden_cells_stay_empty_round_after_round(seed):
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(2, 5)) for name in "abcde"})
    rules = random_rules(rng, domain, count=4)
    allowed = allowed_rows(rules, domain)
    joint = np.where(allowed, random_counts(rng, domain, rows=2000), 0)
    estimator = Estimator(ModelSpace(domain=domain, rules=rules))
    for clique in [*((name,) for name in domain), ("a", "b"), ("c", "e"), ("b", "d"), ("a", "e")]:
        estimator.add([measured(rng, joint, Marginal(clique), domain, deviation=6)])
        estimator.refit()
        table = estimator.table(tuple(domain))
        assert (table[~allowed] == 0.0).all()
        assert np.isfinite(table).all()
        assert table.sum() == pytest.approx(estimator.total)


def test_tables_that_no_distribution_has_do_no_harm():
    """b = a, c = b and c = not a: scaling would chase them for ever."""
    same, other = np.array([[50, 0], [0, 50]]), np.array([[0, 50], [50, 0]])
    domain = Domain({"a": 2, "b": 2, "c": 2})
    estimator = Estimator(ModelSpace(domain=domain))
    for clique, table in {("a", "b"): same, ("b", "c"): same, ("a", "c"): other}.items():
        estimator.add([Measurement(Marginal(clique), table, Fraction(1))])
    for _ in range(40):
        estimator.refit()
        table = estimator.table(("a", "b", "c"))
        assert np.isfinite(table).all()
        assert table.sum() == pytest.approx(100)
    assert np.abs(np.concatenate([t.ravel() for t in estimator.model().potentials.values()])).max() < 1e4


def test_repeated_measurements_are_averaged_and_groups_are_kept():
    domain = Domain({"a": 4, "b": 2})
    grouping = Grouping("a", (0, 1, 1, 1))
    estimator = Estimator(ModelSpace(domain=domain).group([grouping]))
    estimator.add([Measurement(Marginal(("a",)), np.array([70, 10, 10, 10]), Fraction(4))])
    estimator.refit()
    np.testing.assert_allclose(estimator.table(("a",)), [70, 30], rtol=1e-6)
    pair = Marginal(("a", "b"), (grouping,))
    estimator.add([Measurement(pair, np.array([[50, 20], [10, 20]]), Fraction(4))])
    estimator.add([Measurement(pair, np.array([[30, 40], [20, 10]]), Fraction(12))])
    estimator.refit()
    assert estimator.total == pytest.approx(100)
    np.testing.assert_allclose(estimator.table(("a", "b")), [[45, 25], [12.5, 17.5]], rtol=1e-6)
    assert estimator.model().marginal(("a", "b")).shape == (4, 2)


def test_known_totals_decide_the_number_of_rows():
    domain = Domain({"a": 2, "b": 3})
    known = Totals(clique=("a",), counts=np.array([60, 40]))
    estimator = Estimator(ModelSpace(domain=domain, totals=(known,)))
    estimator.add([Measurement(Marginal(("a", "b")), np.array([[9, 9, 9], [30, 30, 30]]), Fraction(100))])
    estimator.refit()
    assert estimator.total == 100
    np.testing.assert_allclose(estimator.table(("a",)), [60, 40], rtol=1e-2)


def test_nothing_is_told_before_there_is_a_fit():
    estimator = Estimator(ModelSpace(domain=Domain({"a": 2})))
    with pytest.raises(UsageError, match="no measurements"):
        estimator.refit()
    with pytest.raises(UsageError, match="has not been fitted"):
        estimator.table(("a",))
