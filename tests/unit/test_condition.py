"""A model given a condition, against the same distribution written out cell by cell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ruled import allowed_rows, broken_rows, random_rules

from populace.errors import UsageError
from populace.generate import generate
from populace.infer.condition import LEAST_SHARE, condition, log_mass
from populace.infer.model import Model
from populace.infer.propagation import FORBIDDEN
from populace.marginals import Domain, Grouping
from populace.schema.rules import Rule, Rules

NAMES = "abcde"


def random_model(rng: np.random.Generator) -> Model:
    """Draw a chain of pairs over five small columns, about half of them grouped, with shares inside groups."""
    domain = Domain({name: int(rng.integers(1, 6)) for name in NAMES})
    groupings, within = {}, {}
    for name in NAMES:
        if rng.random() < 0.5:
            groups = int(rng.integers(1, domain[name] + 1))
            labels = [*range(groups), *rng.integers(0, groups, domain[name] - groups).tolist()]
            groupings[name] = Grouping(name, tuple(int(label) for label in rng.permutation(labels)))
            shares = rng.random(domain[name])
            lookup = groupings[name].lookup
            within[name] = shares / np.bincount(lookup, weights=shares)[lookup]
    seen = domain.grouped(groupings.values())
    pairs = [pair for pair in (("a", "b"), ("c", "b"), ("c", "d")) if rng.random() < 0.8]
    return Model(
        domain=domain,
        groupings=groupings,
        potentials={pair: rng.normal(0, 2, seen.shape(pair)) for pair in pairs},
        total=100.0,
        within=within,
    )


@pytest.mark.parametrize("seed", range(60))
def test_it_is_the_conditional_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    rules = random_rules(rng, model.domain, count=int(rng.integers(1, 4)))
    allowed = allowed_rows(rules, model.domain)
    wanted = np.where(allowed, model.marginal(NAMES), 0.0)
    found = condition(model, rules)
    assert found.share == pytest.approx(wanted.sum() / 100, rel=1e-9)
    given = found.model.marginal(NAMES)
    np.testing.assert_allclose(given, wanted, rtol=1e-7, atol=1e-10)
    assert not given[~allowed].any(), "exactly nothing where the rules do not hold"


@pytest.mark.parametrize("seed", range(20))
def test_every_row_drawn_meets_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    rules = random_rules(rng, model.domain, count=3)
    found = condition(model, rules)
    [rows] = generate(found.model, rows=500, rng=rng)
    assert len(rows["a"]) == 500, "no row is thrown away"
    assert set(broken_rows(rows, rules).values()) == {0}


def test_conditions_can_follow_each_other() -> None:
    """Hidden variables of the first do not get in the way of the second."""
    rng = np.random.default_rng(5)
    model = random_model(rng)
    first, second = (random_rules(np.random.default_rng(n), model.domain, count=2) for n in (8, 9))
    both = allowed_rows(first, model.domain) & allowed_rows(second, model.domain)
    assert both.any()
    once = condition(model, first)
    twice = condition(once.model, second)
    wanted = np.where(both, model.marginal(NAMES), 0.0)
    np.testing.assert_allclose(twice.model.marginal(NAMES), wanted, rtol=1e-7, atol=1e-10)
    assert once.share * twice.share == pytest.approx(wanted.sum() / 100)


def unary(column: str, allowed: list[bool]) -> Rules:
    classes = Grouping(column, tuple(int(not each) for each in allowed))
    if not any(classes.groups):
        classes = Grouping(column, (0,) * len(allowed))
        return Rules(
            classes={column: classes}, rules=(Rule(text="all", clique=(column,), allowed=np.ones(1, bool)),)
        )
    return Rules(
        classes={column: classes},
        rules=(Rule(text="some", clique=(column,), allowed=np.array([True, False])),),
    )


def test_a_condition_that_always_holds_changes_nothing() -> None:
    model = random_model(np.random.default_rng(3))
    found = condition(model, unary("b", [True] * model.domain["b"]))
    assert found.share == pytest.approx(1.0)
    np.testing.assert_allclose(found.model.marginal(NAMES), model.marginal(NAMES), rtol=1e-9)


def test_rows_far_rarer_than_a_float_can_tell_are_drawn_all_the_same() -> None:
    table = np.array([[0.0, 0.0], [-2000.0, -2000.0 + math.log(3)]])
    model = Model(
        domain=Domain({"a": 2, "b": 2}), groupings={}, potentials={("a", "b"): table}, total=10.0, within={}
    )
    found = condition(model, unary("a", [False, True]))
    assert found.share == 0.0
    [rows] = generate(found.model, rows=8, rng=np.random.default_rng(0))
    assert rows["a"].tolist() == [1] * 8
    assert sorted(rows["b"].tolist()) == [0, 0, 1, 1, 1, 1, 1, 1], "as the model has them among themselves"


def test_codes_without_a_share_of_their_group_are_next_to_nothing() -> None:
    model = Model(
        domain=Domain({"a": 4}),
        groupings={"a": Grouping("a", (0, 1, 1, 1))},
        potentials={("a",): np.log([0.5, 0.5])},
        total=10.0,
        within={"a": np.array([1.0, 1.0, 0.0, 0.0])},
    )
    found = condition(model, unary("a", [False, False, True, True]))
    assert found.share == pytest.approx(LEAST_SHARE / 2)
    assert found.model.marginal("a")[:2].tolist() == [0.0, 0.0]
    assert found.model.marginal("a")[2] == found.model.marginal("a")[3] > 0


def test_what_the_model_excludes_is_refused() -> None:
    model = Model(
        domain=Domain({"a": 2}),
        groupings={},
        potentials={("a",): np.array([0.0, FORBIDDEN])},
        total=10.0,
        within={},
    )
    with pytest.raises(UsageError, match="no row that meets the condition"):
        condition(model, unary("a", [False, True]))


def test_exact_counts_are_of_all_rows() -> None:
    model = Model(
        domain=Domain({"a": 2}),
        groupings={},
        potentials={("a",): np.zeros(2)},
        total=10.0,
        within={},
        exact=(("a",),),
    )
    assert condition(model, unary("a", [True, False])).model.exact == ()


@pytest.mark.parametrize("seed", range(10))
def test_the_mass_is_the_sum_over_all_rows(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    codes = np.indices(model.grouped_domain.shape(NAMES))
    heights = sum(
        (
            table[tuple(codes[NAMES.index(name)] for name in clique)]
            for clique, table in model.potentials.items()
        ),
        np.zeros(codes.shape[1:]),
    )
    assert log_mass(model) == pytest.approx(math.log(np.exp(heights).sum()))
