"""A model given a condition, against the same distribution written out cell by cell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Domain, Grouping
from populace.inference.constraints.conditional_model import (
    MIN_SHARE,
    ConditionalModel,
    condition_model,
    cut_into_boxes,
    cut_table,
    log_partition,
)
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.sampling.draw_rows import draw_rows
from populace.schema.conditions.rules import Rule, Rules
from tests.helpers.random_rules import allowed_rows, broken_rows, random_rules
from tests.helpers.sampled_cases import sample_cases

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
    seen = domain.group(groupings.values())
    pairs = [pair for pair in (("a", "b"), ("c", "b"), ("c", "d")) if rng.random() < 0.8]
    return Model(
        domain=domain,
        groupings=groupings,
        potentials={pair: rng.normal(0, 2, seen.shape(pair)) for pair in pairs},
        total=100.0,
        within=within,
    )


def mixed(found: ConditionalModel, clique: str) -> np.ndarray:
    """Return the probabilities of all parts together."""
    assert found.weights.sum() == pytest.approx(1)
    return sum(
        weight * part.marginal(clique) / part.total
        for weight, part in zip(found.weights, found.parts, strict=True)
    )


def drawn(found: ConditionalModel, rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    counts = found.allot(rows, rng=rng)
    assert counts.sum() == rows
    parts = [
        part
        for model, count in zip(found.parts, counts, strict=True)
        for part in draw_rows(model, rows=int(count), rng=rng)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("seed", sample_cases(range(60), to=20))
def test_it_is_the_conditional_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    rules = random_rules(rng, model.domain, count=int(rng.integers(1, 4)))
    allowed = allowed_rows(rules, model.domain)
    wanted = np.where(allowed, model.marginal(NAMES), 0.0)
    found = condition_model(model, rules, text="…")
    assert found.share == pytest.approx(wanted.sum() / 100, rel=1e-9)
    given = mixed(found, NAMES)
    np.testing.assert_allclose(given, wanted / wanted.sum(), rtol=1e-7, atol=1e-12)
    assert not given[~allowed].any(), "exactly nothing where the rules do not hold"


@pytest.mark.parametrize("seed", range(20))
def test_every_row_drawn_meets_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    rules = random_rules(rng, model.domain, count=3)
    found = condition_model(model, rules, text="…")
    rows = drawn(found, 500, rng)
    assert len(rows["a"]) == 500, "no row is thrown away"
    assert set(broken_rows(rows, rules).values()) == {0}


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
    found = condition_model(model, unary("b", [True] * model.domain["b"]), text="…")
    assert found.share == pytest.approx(1.0)
    np.testing.assert_allclose(mixed(found, NAMES), model.marginal(NAMES) / 100, rtol=1e-9)


def test_rows_far_rarer_than_a_float_can_tell_are_drawn_all_the_same() -> None:
    table = np.array([[0.0, 0.0], [-2000.0, -2000.0 + math.log(3)]])
    model = Model(
        domain=Domain({"a": 2, "b": 2}), groupings={}, potentials={("a", "b"): table}, total=10.0, within={}
    )
    found = condition_model(model, unary("a", [False, True]), text="a == 1")
    assert found.share == 0.0
    rows = drawn(found, 8, np.random.default_rng(0))
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
    found = condition_model(model, unary("a", [False, False, True, True]), text="…")
    assert found.share == pytest.approx(MIN_SHARE / 2)
    assert mixed(found, "a").tolist() == [0.0, 0.0, 0.5, 0.5]


def test_a_model_that_excludes_it_has_no_such_rows() -> None:
    model = Model(
        domain=Domain({"a": 2}),
        groupings={},
        potentials={("a",): np.array([0.0, FORBIDDEN])},
        total=10.0,
        within={},
    )
    found = condition_model(model, unary("a", [False, True]), text="a == 1")
    assert (found.parts, found.share) == ((), 0.0)


def test_exact_counts_are_of_all_rows() -> None:
    model = Model(
        domain=Domain({"a": 2}),
        groupings={},
        potentials={("a",): np.zeros(2)},
        total=10.0,
        within={},
        exact=(("a",),),
    )
    (part,) = condition_model(model, unary("a", [True, False]), text="…").parts
    assert part.exact == ()


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
    assert log_partition(model) == pytest.approx(math.log(np.exp(heights).sum()))


@pytest.mark.parametrize("seed", sample_cases(range(40), to=12))
def test_boxes_are_disjoint_and_cover_what_is_allowed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(1, 5)) for name in NAMES})
    rules = random_rules(rng, domain, count=int(rng.integers(1, 4)))
    codes = dict(zip(domain, np.indices(domain.shape(domain)), strict=True))
    times = np.zeros(domain.shape(domain), dtype=int)
    for box in cut_into_boxes(rules, text="…"):
        inside = np.ones(times.shape, dtype=bool)
        for name, classes in box.items():
            inside &= classes[rules.classes[name].lookup[codes[name]]]
        times += inside
    np.testing.assert_array_equal(times, allowed_rows(rules, domain))


def test_alternatives_take_one_box_each() -> None:
    """However many columns they are about."""
    anything = np.ones((2,) * 10, dtype=bool)
    anything[(0,) * 10] = False
    assert len(cut_table(tuple("abcdefghij"), anything)) == 10
    assert len(cut_table(("a", "b"), np.tri(50, dtype=bool))) == 50


def test_too_many_boxes_are_refused() -> None:
    size = LIMITS.max_condition_boxes + 2
    classes = {name: Grouping(name, tuple(range(size))) for name in "ab"}
    higher = Rule(text="a > b", clique=("a", "b"), allowed=np.tri(size, k=-1, dtype=bool))
    with pytest.raises(UsageError, match=f"a > b falls into more than {LIMITS.max_condition_boxes} cases"):
        cut_into_boxes(Rules(classes=classes, rules=(higher,)), text="a > b")


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_rows_are_shared_out_next_to_their_expectation(rows: int) -> None:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(5))
    model = random_model(rng)
    found = ConditionalModel(parts=(model,) * 5, weights=weights, share=0.5)
    draws = np.array([found.allot(rows, rng=rng) for _ in range(2000)])
    assert (draws.sum(axis=1) == rows).all()
    assert (np.abs(draws - rows * weights) < 1).all()
    np.testing.assert_allclose(draws.mean(axis=0), rows * weights, atol=0.06)
