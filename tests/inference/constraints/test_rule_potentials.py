"""Models under rules against brute force on the whole joint table."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from populace.core.errors import ResourceError, UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.gls.observations import observe
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.sampling.draw_rows import draw_rows
from populace.schema.conditions.rules import Rule, Rules
from tests.helpers.least_squares import least_loss, margin, measured, random_clique, random_counts
from tests.helpers.random_rules import allowed_rows, broken_rows, random_rules
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(6)


def problem(seed, *, columns=5, largest=4, most=2):
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(2, largest + 1)) for name in "abcdefgh"[:columns]})
    rules = random_rules(rng, domain, count=int(rng.integers(1, 7)))
    allowed = allowed_rows(rules, domain)
    joint = random_counts(rng, domain, rows=int(rng.choice([80, 5000])))
    joint = np.where(allowed, joint, 0)
    marginals = [Marginal(random_clique(rng, domain, most=most)) for _ in range(rng.integers(1, 8))]
    items = [measured(rng, joint, m, domain, deviation=int(rng.choice([1, 6, 40]))) for m in marginals]
    return domain, rules, allowed, joint, items


def losses(model, items, domain, allowed):
    """The loss of a model on merged measurements, and the least that any distribution under the rules has."""
    observations = observe(items, domain=domain, groupings={})
    merged = sum(
        0.5 * ((model.grouped_marginal(o.clique) - o.values) ** 2 / o.variance).sum() for o in observations
    )
    return merged, least_loss(list(observations), domain, total=model.total, allowed=allowed)


@pytest.mark.parametrize("seed", sample_cases(range(60), to=12))
def test_loss_is_the_least_of_all_distributions_under_the_rules(seed):
    domain, rules, allowed, _, items = problem(seed)
    model = fit_least_squares(
        items, space=ModelSpace(domain=domain, rules=rules), steps=20_000, tolerance=1e-9
    )
    merged, least = losses(model, items, domain, allowed)
    assert merged == pytest.approx(least, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("seed", sample_cases(range(60), to=12))
def test_what_a_rule_forbids_has_probability_nought(seed):
    domain, rules, allowed, _, items = problem(seed)
    joint = fit_least_squares(items, space=ModelSpace(domain=domain, rules=rules)).marginal(domain)
    assert (joint[~allowed] == 0.0).all()
    assert (joint[allowed] >= 0.0).all()
    assert np.isfinite(joint).all()


@pytest.mark.parametrize("seed", sample_cases(range(20), to=10))
def test_without_measured_tables_all_allowed_rows_are_equally_likely(seed):
    """The largest entropy: hidden variables add nothing of their own."""
    domain, rules, allowed, _, _ = problem(seed)
    item = Measurement(Marginal(()), np.array(100), Fraction(1))
    joint = fit_least_squares([item], space=ModelSpace(domain=domain, rules=rules)).marginal(domain)
    np.testing.assert_allclose(joint, 100 * allowed / allowed.sum(), rtol=1e-9)


@pytest.mark.parametrize("seed", sample_cases(range(20), to=8))
def test_exact_counts_give_the_distribution_of_largest_entropy(seed):
    """Proportional fitting on the whole joint table, from the uniform table of allowed rows, is another way there."""
    domain, rules, allowed, joint, _ = problem(seed)
    joint = (
        joint + allowed
    )  # every allowed cell holds rows, so the answer has no zeros but those of the rules
    rng = np.random.default_rng(seed)
    cliques = {random_clique(rng, domain, most=2) for _ in range(4)}
    items = [Measurement(Marginal(c), margin(joint, c, domain), Fraction(1)) for c in sorted(cliques)]
    expected = allowed * (joint.sum() / allowed.sum())
    axes = {c: tuple(i for i, name in enumerate(domain) if name not in c) for c in cliques}
    for _ in range(3000):
        before = expected
        for clique in sorted(cliques):
            found = expected.sum(axis=axes[clique], keepdims=True)
            wanted = joint.sum(axis=axes[clique], keepdims=True)
            expected = expected * np.divide(wanted, found, out=np.zeros(found.shape), where=found > 0)
        if np.abs(expected - before).max() < 1e-12 * joint.sum():
            break
    model = fit_least_squares(items, space=ModelSpace(domain=domain, rules=rules), tolerance=1e-9)
    np.testing.assert_allclose(model.marginal(domain), expected, atol=2e-3 * joint.sum() ** 0.5)


@pytest.mark.parametrize("seed", range(10))
def test_structure_keeps_every_rule_and_no_more(seed):
    domain, rules, allowed, _, _ = problem(seed, columns=6)
    layout = RulePotentials(ModelSpace(domain=domain, rules=rules))
    for clique in [("a",), ("b", "e"), ("f", "a", "c")]:
        np.testing.assert_array_equal(layout.allowed_cells(clique), margin(allowed, clique, domain) > 0)
    assert all(name not in domain for name in layout.structure([]).hidden)


def draw(model, rows, seed=0):
    parts = list(draw_rows(model, rows=rows, rng=np.random.default_rng(seed)))
    assert all(set(part) == set(model.domain) for part in parts)
    return {name: np.concatenate([part[name] for part in parts]).astype(int) for name in model.domain}


TEN = Domain({"a": 30, "b": 12, "c": 9, "d": 7, "e": 5, "f": 4, "g": 3, "h": 8, "i": 2, "j": 6})


def ten_rules():
    """A hub with universes, a chain, a cycle and a rule on three columns, all tied together."""
    classes = {
        "a": Grouping("a", tuple(min(code // 6, 3) for code in range(30))),
        "b": Grouping("b", (0,) * 11 + (1,)),
        "c": Grouping("c", (0,) * 4 + (1,) * 4 + (2,)),
        "d": Grouping("d", (0, 0, 1, 1, 2, 2, 3)),
        "e": Grouping("e", (0, 1, 0, 1, 2)),
        "f": Grouping("f", (0, 1, 2, 3)),
        "g": Grouping("g", (0, 1, 1)),
        "h": Grouping("h", (0, 0, 0, 1, 1, 2, 2, 2)),
    }
    old = np.array([False, True, True, True])
    rules = [
        Rule(text="b's universe", clique=("b", "a"), allowed=np.stack([old, ~old])),
        Rule(
            text="c's universe",
            clique=("a", "c"),
            allowed=np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0], [1, 0, 0]], bool),
        ),
        Rule(text="chain", clique=("c", "d"), allowed=np.tri(3, 4, 1, dtype=bool)),
        Rule(text="longer chain", clique=("d", "e"), allowed=~np.eye(4, 3, dtype=bool)),
        Rule(text="closes the cycle", clique=("e", "a"), allowed=np.tri(4, 3, 0, dtype=bool).T[::-1].copy()),
        Rule(text="three", clique=("f", "g", "h"), allowed=np.indices((4, 2, 3)).sum(axis=0) % 3 != 1),
        Rule(text="ties them", clique=("f", "a"), allowed=np.tri(4, 4, 1, dtype=bool)),
        Rule(text="alone", clique=("h",), allowed=np.array([True, True, False])),
    ]
    return Rules(classes=classes, rules=tuple(rules))


PAIRS = [("a", "h"), ("b", "j"), ("b", "c"), ("d", "h"), ("i", "j"), ("e", "g"), ("f", "i"), ("c", "e")]


@cache
def ten_columns(seed, *, rows=20_000):
    """Rows that depend on each other through one latent number, without those that break a rule."""
    rng = np.random.default_rng(seed)
    rules = ten_rules()
    latent = rng.normal(size=rows * 60)
    codes = {
        name: np.clip(((latent + rng.normal(size=latent.size)) * 0.25 + 0.5) * size, 0, size - 1).astype(int)
        for name, size in TEN.items()
    }
    kept = np.ones(latent.size, dtype=bool)
    for rule in rules.rules:
        kept &= rule.allowed[tuple(rules.classes[name].lookup[codes[name]] for name in rule.clique)]
    chosen = np.flatnonzero(kept)[:rows]
    assert len(chosen) > rows / 4
    return {name: column[chosen] for name, column in codes.items()}


def table_of(codes, clique):
    number = np.zeros(len(codes["a"]), dtype=int)
    for name in clique:
        number = number * TEN[name] + codes[name]
    return np.bincount(number, minlength=TEN.cells(clique)).reshape(TEN.shape(clique))


def noisy(codes, cliques, *, deviation, seed):
    rng = np.random.default_rng(seed)
    return [
        Measurement(
            Marginal(clique),
            np.rint(table_of(codes, clique) + rng.normal(0, deviation, TEN.shape(clique))).astype(np.int64),
            Fraction(deviation**2),
        )
        for clique in cliques
    ]


@pytest.mark.parametrize(
    ("deviation", "rows"),
    [(5, 100_000), *(pytest.param(deviation, 1_000_000, marks=pytest.mark.slow) for deviation in (5, 60))],
)
@pytest.mark.slow
def test_many_rows_break_no_rule(deviation, rows):
    rules = ten_rules()
    items = noisy(ten_columns(1), [*((name,) for name in TEN), *PAIRS], deviation=deviation, seed=2)
    model = fit_least_squares(items, space=ModelSpace(domain=TEN, rules=rules))
    assert model.hidden
    assert sum(broken_rows(draw(model, rows), rules).values()) == 0
    assert (
        sum(broken_rows(draw(fit_least_squares(items, space=ModelSpace(domain=TEN)), rows), rules).values())
        > 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [10, 60])
def test_rules_bring_the_model_nearer_to_the_truth(deviation):
    """Five draws of noise; mean total variation over all pairs of columns, with and without rules."""
    codes = ten_columns(3)
    rows = len(codes["a"])
    pairs = [(a, b) for number, a in enumerate(TEN) for b in list(TEN)[number + 1 :]]
    errors = {"with": 0.0, "without": 0.0}
    for seed in range(5):
        items = noisy(codes, [*((name,) for name in TEN), *PAIRS], deviation=deviation, seed=seed)
        for name, rules in (("with", ten_rules()), ("without", Rules())):
            model = fit_least_squares(items, space=ModelSpace(domain=TEN, rules=rules))
            for pair in pairs:
                error = np.abs(model.marginal(pair) / model.total - table_of(codes, pair) / rows).sum() / 2
                errors[name] += float(error) / len(pairs) / 5
    assert errors["with"] < errors["without"]


@pytest.mark.slow
def test_saved_models_keep_their_rules(tmp_path):
    items = noisy(ten_columns(1), [*((name,) for name in TEN), *PAIRS], deviation=20, seed=4)
    model = fit_least_squares(items, space=ModelSpace(domain=TEN, rules=ten_rules()))
    model.save(tmp_path)
    again = Model.load(tmp_path)
    assert dict(again.hidden) == dict(model.hidden) != {}
    np.testing.assert_array_equal(again.marginal(("a", "e", "g")), model.marginal(("a", "e", "g")))
    assert all((column == draw(again, 500)[name]).all() for name, column in draw(model, 500).items())


def test_hidden_variables_cannot_be_asked_for():
    items = noisy(ten_columns(1), [("a", "h")], deviation=20, seed=4)
    model = fit_least_squares(items, space=ModelSpace(domain=TEN, rules=ten_rules()))
    for name in model.hidden:
        with pytest.raises(UsageError, match="does not have every column"):
            model.marginal((name,))


def test_hidden_variables_step_aside_for_columns_of_their_name():
    domain = Domain({"a": 4, "class of a": 4, "b": 4})
    classes = {name: Grouping(name, (0, 0, 1, 1)) for name in domain}
    allowed = np.array([[True, False], [False, True]])
    rules = Rules(
        classes=classes,
        rules=tuple(
            Rule(text=f"{a}{b}", clique=(a, b), allowed=allowed)
            for a, b in [("a", "b"), ("a", "class of a"), ("b", "class of a")]
        ),
    )
    item = Measurement(Marginal(()), np.array(64), Fraction(1))
    model = fit_least_squares([item], space=ModelSpace(domain=domain, rules=rules))
    assert not set(model.hidden) & set(domain)
    np.testing.assert_allclose(model.marginal(domain)[allowed_rows(rules, domain)], 4.0)


def test_a_pair_grouped_across_classes_tells_of_its_other_column_and_breaks_no_rule():
    domain = Domain({"a": 4, "b": 2})
    rules = Rules(
        classes={"a": Grouping("a", (0, 0, 1, 1)), "b": Grouping("b", (0, 1))},
        rules=(Rule(text="a b", clique=("a", "b"), allowed=np.eye(2, dtype=bool)),),
    )
    pair = Marginal(("a", "b"), (Grouping("a", (0, 1, 1, 0)),))
    counts = np.array([[40, 10], [40, 10]])
    model = fit_least_squares(
        [Measurement(pair, counts, Fraction(1))], space=ModelSpace(domain=domain, rules=rules)
    )
    found = model.marginal(("a", "b"))
    np.testing.assert_allclose(found.sum(axis=0), [80, 20], rtol=1e-6)
    assert not found[~allowed_rows(rules, domain)].any()


def test_a_column_grouped_across_classes_is_taken_code_by_code():
    domain = Domain({"a": 4, "b": 2})
    rules = Rules(
        classes={"a": Grouping("a", (0, 0, 1, 1)), "b": Grouping("b", (0, 1))},
        rules=(Rule(text="a b", clique=("a", "b"), allowed=np.eye(2, dtype=bool)),),
    )
    items = [
        Measurement(Marginal(("a",), (Grouping("a", (0, 1, 1, 0)),)), np.array([50, 50]), Fraction(1)),
        Measurement(Marginal(("b",)), np.array([40, 60]), Fraction(1)),
    ]
    table = fit_least_squares(items, space=ModelSpace(domain=domain, rules=rules)).marginal(("a", "b"))
    assert (table[~allowed_rows(rules, domain)] == 0).all()
    np.testing.assert_allclose(table.sum(axis=0), [40, 60], rtol=1e-3)


def test_rules_that_leave_no_row_are_refused():
    domain = Domain({"a": 2, "b": 2, "c": 2})
    classes = {name: Grouping(name, (0, 1)) for name in domain}
    same, other = np.eye(2, dtype=bool), ~np.eye(2, dtype=bool)
    rules = Rules(
        classes=classes,
        rules=(
            Rule(text="b is a", clique=("a", "b"), allowed=same),
            Rule(text="c is b", clique=("b", "c"), allowed=same),
            Rule(text="c is not a", clique=("a", "c"), allowed=other),
        ),
    )
    with pytest.raises(UsageError, match="no row can keep all rules"):
        fit_least_squares(
            [Measurement(Marginal(()), np.array(9), Fraction(1))],
            space=ModelSpace(domain=domain, rules=rules),
        )


def test_models_beyond_memory_are_refused():
    domain = Domain(dict.fromkeys("abcde", 40))
    classes = {name: Grouping(name, tuple(range(40))) for name in domain}
    sparse = np.random.default_rng(0).random((40, 40)) < 0.9
    rules = Rules(
        classes=classes,
        rules=tuple(Rule(text=a + b, clique=(a, b), allowed=sparse) for a in domain for b in domain if a < b),
    )
    with pytest.raises(ResourceError, match="cells; the most is"):
        fit_least_squares(
            [Measurement(Marginal(()), np.array(9), Fraction(1))],
            space=ModelSpace(domain=domain, rules=rules),
        )


@pytest.mark.parametrize("seed", sample_cases(range(15), to=4))
def test_too_large_for_the_closed_form_still_keeps_every_rule(seed, monkeypatch):
    """Without the sparse system the descent starts further away, from tables that ignore what rules tie together."""
    monkeypatch.setattr("populace.inference.fit.estimator.MAX_SYSTEM_ENTRIES", 0)
    domain, rules, allowed, _, items = problem(seed)
    model = fit_least_squares(
        items, space=ModelSpace(domain=domain, rules=rules), steps=20_000, tolerance=1e-9
    )
    merged, least = losses(model, items, domain, allowed)
    assert merged == pytest.approx(least, rel=1e-2, abs=1e-2)
    assert (model.marginal(domain)[~allowed] == 0.0).all()
