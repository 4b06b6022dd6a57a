"""`measure_copula` by hand: what pairs take, how far noise is believed, orders of groups, and what is known
beside pairs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.core.progress import silent
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.literature.copula.copula import count_groups, measure_copula, pair_share
from populace.methods.literature.copula.copula_model import (
    MAX_GROUPS,
    _group_neighbours,
    _order_codes,
    copula_model,
    fit_copula,
)
from populace.methods.literature.copula.optimal_scaling import _squared_correlations, normal_scores
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.schema.conditions.rules import Rule, Rules
from populace.schema.unit import PrivacyUnit
from tests.helpers.priced_oracle import PricedOracle

TWO = Domain({"a": 2, "b": 2})


def item(clique, counts, variance=1, *groupings):
    return Measurement(Marginal(clique, groupings), np.array(counts), Fraction(variance))


@pytest.mark.parametrize(("delta", "share"), [("1e-9", "0.62"), ("0", "0.68")])
def test_the_share_of_pairs_follows_from_the_currency(delta, share):
    """Ten columns of two codes: (4·√10)^⅔ and (4·√45)^⅔, or with pure noise √40 and √180."""
    budget = Budget.of(Fraction(1), Fraction(delta), unit=PrivacyUnit())
    assert pair_share(Domain(dict.fromkeys("abcdefghij", 2)), budget=budget) == Fraction(share)


def test_the_budget_is_spent_on_columns_and_pairs_as_shared_out():
    sizes = {"a": 5, "b": 2, "c": 3}
    rng = np.random.default_rng(1)
    oracle = PricedOracle({name: rng.integers(0, size, 5000) for name, size in sizes.items()}, sizes=sizes)
    measure_copula(oracle, Workload.pairs(oracle.domain), silent)
    *_, (_, answers, pairs) = oracle.asked
    share = pair_share(oracle.domain, budget=oracle.budget)
    assert answers == 3
    assert float(pairs) == pytest.approx(float(share), rel=1e-6)
    assert float(oracle.used) == pytest.approx(1, rel=1e-6)


def test_too_few_rows_have_no_groups():
    """π·σ/N above 0.3 hides every correlation."""
    edge = math.pi * 7 / 0.3
    assert [count_groups(rows, deviation=7.0) for rows in (edge * 0.999, edge * 1.001, 0.0, -5.0)] == [
        0,
        2,
        0,
        0,
    ]


@pytest.mark.parametrize("variance", [400, 4000, 40_000])
def test_a_correlation_is_believed_as_far_as_it_exceeds_its_noise(variance):
    """One pair of halves: ρ = sin(2π·0.05), noise v = σ²/N²·ρ²/(4·0.05²), and 1 − v/ρ² of it is kept."""
    items = [
        item(("a",), [500, 500]),
        item(("b",), [500, 500]),
        item(("a", "b"), [[300, 200], [200, 300]], variance),
    ]
    rho = math.sin(2 * math.pi * 0.05)
    noise = variance / 1000**2 * rho**2 / (4 * 0.05**2)
    found = fit_copula(items, domain=TWO).matrix[0, 1]
    assert found == pytest.approx(rho * max(0.0, 1 - noise / rho**2), abs=5e-3)


def test_a_public_number_of_rows_is_taken_as_it_is():
    items = [item(("a",), [500, 500]), item(("b",), [500, 500]), item(("a", "b"), [[300, 200], [200, 300]])]
    assert fit_copula(items, domain=TWO, rows=777.0).total == 777
    assert fit_copula(items, domain=TWO).total == pytest.approx(1000)


def test_codes_stand_in_the_order_of_their_groups():
    rank, grouping = np.array([2, 0, 1]), Grouping("x", (0, 1, 2, 0, 1))
    assert _order_codes(rank, grouping).tolist() == [2, 0, 3, 1, 4]
    assert _order_codes(rank, None).tolist() == [2, 0, 1]


def test_codes_in_groups_keep_their_own_shares():
    """Pairs see codes together; what the column itself says of them is not lost."""
    items = [
        item(("a",), [100, 300, 600]),
        item(("b",), [500, 500]),
        item(("a", "b"), [[200, 200], [300, 300]], 1, Grouping("a", (0, 0, 1))),
    ]
    found = fit_copula(items, domain=Domain({"a": 3, "b": 2}))
    np.testing.assert_allclose(found.shares["a"], [0.1, 0.3, 0.6], atol=1e-3)


def test_noise_alone_brings_no_columns_together():
    """The mean over 4,000 tables of noise, 5 of its deviations around 0; not taken off, noise would be 40 above."""
    rng = np.random.default_rng(6)
    own, other = normal_scores(np.full(4, 0.25)), normal_scores(np.array([0.2, 0.3, 0.5]))
    scores, sigma = [own, other], 0.01
    found = [
        _squared_correlations(own, [(1, rng.normal(0, sigma, (4, 3)), sigma**2)], scores) for _ in range(4000)
    ]
    assert abs(np.mean(found)) < 5 * np.std(found) / math.sqrt(len(found))
    assert sigma**2 * (own @ own) * (other @ other) > 20 * np.std(found) / math.sqrt(len(found))


def test_neighbours_of_different_classes_share_no_group():
    size = 3 * MAX_GROUPS
    classes = Grouping("x", tuple(code % 2 for code in range(size)))
    order, shares = np.arange(size), np.full(size, 1 / size)
    assert _group_neighbours("x", order, shares, None).size == MAX_GROUPS
    assert all(
        len({code % 2 for code in codes}) == 1
        for codes in _group_neighbours("x", order, shares, classes).members
    )
    assert _group_neighbours("x", order[:MAX_GROUPS], shares, None) is None


def test_rows_are_not_fitted_to_what_a_rule_forbids():
    classes = {name: Grouping(name, (0, 1)) for name in TWO}
    allowed = np.array([[True, True], [False, True]])
    rules = Rules(classes=classes, rules=(Rule(text="", clique=("a", "b"), allowed=allowed),))
    items = [item(("a",), [500, 500]), item(("b",), [300, 700]), item(("a", "b"), [[300, 200], [4, 496]], 9)]
    model = copula_model(items, space=ModelSpace(domain=TWO, rules=rules))
    (target,) = model.targets.values()
    assert target[1, 0] == 0
    np.testing.assert_allclose(target.sum(axis=1), [500, 500], rtol=0.02)
    assert model.marginal(("a", "b"))[1, 0] == 0
