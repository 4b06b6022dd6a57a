"""Public totals: models that have them, and rows that have them."""

from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.sampling.draw_rows import draw_rows
from populace.schema.conditions.rules import NO_RULES, Rule, Rules, Totals
from tests.helpers.least_squares import margin, measured, random_counts
from tests.helpers.random_rules import allowed_rows, broken_rows, random_rules
from tests.helpers.sampled_cases import sample_cases

DOMAIN = Domain({"a": 4, "b": 5, "c": 6, "d": 3})
PAIRS = [("a", "b"), ("b", "c"), ("c", "d")]


def problem(seed, *, rules=NO_RULES, rows=3000, deviation=30):
    rng = np.random.default_rng(seed)
    joint = np.where(allowed_rows(rules, DOMAIN), random_counts(rng, DOMAIN, rows=rows), 0)
    cliques = [(), *((name,) for name in DOMAIN), *PAIRS]
    return joint, [measured(rng, joint, Marginal(c), DOMAIN, deviation=deviation) for c in cliques]


def totals(joint, *cliques):
    return tuple(Totals(clique=c, counts=np.asarray(margin(joint, c, DOMAIN))) for c in cliques)


def draw(model, rows, seed=0):
    parts = list(draw_rows(model, rows=rows, rng=np.random.default_rng(seed)))
    return {name: np.concatenate([part[name] for part in parts]).astype(int) for name in model.domain}


def table_of(codes, clique):
    number = np.zeros(len(codes["a"]), dtype=int)
    for name in clique:
        number = number * DOMAIN[name] + codes[name]
    return np.bincount(number, minlength=DOMAIN.cells(clique)).reshape(DOMAIN.shape(clique))


@pytest.mark.parametrize("seed", sample_cases(range(8), to=3))
@pytest.mark.parametrize("cliques", [[("a",)], [("d", "a")], [("a",), ("c",)], [("b", "a"), ("c",), ("d",)]])
def test_model_and_rows_have_the_totals(seed, cliques):
    joint, items = problem(seed)
    known = totals(joint, *cliques)
    model = fit_least_squares(items, space=ModelSpace(domain=DOMAIN, totals=tuple(known)))
    assert model.total == joint.sum()
    codes = draw(model, int(joint.sum()), seed)
    for each in known:
        np.testing.assert_allclose(model.marginal(each.clique), each.counts, atol=1e-3)
        assert np.abs(table_of(codes, each.clique) - each.counts).max() <= 1
        assert (
            np.abs(
                fit_least_squares(items, space=ModelSpace(domain=DOMAIN)).marginal(each.clique) - each.counts
            ).max()
            > 2
        )


@pytest.mark.parametrize("seed", sample_cases(range(12), to=4))
def test_totals_hold_together_with_rules(seed):
    rng = np.random.default_rng(seed)
    rules = random_rules(rng, DOMAIN, count=4)
    joint, items = problem(seed, rules=rules)
    known = totals(joint, ("a",), ("b", "c"))
    model = fit_least_squares(items, space=ModelSpace(domain=DOMAIN, rules=rules, totals=tuple(known)))
    codes = draw(model, int(joint.sum()), seed)
    assert sum(broken_rows(codes, rules).values()) == 0
    for each in known:
        np.testing.assert_allclose(model.marginal(each.clique), each.counts, atol=0.5)
        assert np.abs(table_of(codes, each.clique) - each.counts).max() <= 1


def test_totals_are_kept_in_proportion_when_other_rows_are_asked_for():
    joint, items = problem(1)
    model = fit_least_squares(
        items, space=ModelSpace(domain=DOMAIN, totals=tuple(totals(joint, ("a",), ("c",))))
    )
    codes = draw(model, 1001)
    for name in ("a", "c"):
        assert np.abs(table_of(codes, (name,)) - model.marginal((name,)) * 1001 / model.total).max() <= 1


def test_an_empty_total_stays_empty():
    joint, items = problem(2)
    joint[1] = 0
    model = fit_least_squares(items, space=ModelSpace(domain=DOMAIN, totals=tuple(totals(joint, ("a",)))))
    assert (model.marginal(("a",)) == margin(joint, ("a",), DOMAIN)).tolist()[1]
    assert (draw(model, 100_000)["a"] != 1).all()


def test_the_number_of_rows_alone():
    _, items = problem(3)
    model = fit_least_squares(
        items, space=ModelSpace(domain=DOMAIN, totals=(Totals(clique=(), counts=np.array(12345)),))
    )
    assert model.total == 12345
    none = fit_least_squares(
        items, space=ModelSpace(domain=DOMAIN, totals=(Totals(clique=(), counts=np.array(0)),))
    )
    assert none.total >= 1


def test_totals_of_grouped_codes_decide_their_shares():
    domain = Domain({"a": 4, "b": 2})
    grouping = Grouping("a", (0, 1, 1, 1))
    items = [
        Measurement(Marginal(("a",)), np.array([50, 20, 20, 10]), Fraction(9)),
        Measurement(Marginal(("a", "b"), (grouping,)), np.array([[30, 20], [10, 40]]), Fraction(9)),
    ]
    known = [Totals(clique=("a",), counts=np.array([40, 0, 15, 45]))]
    model = fit_least_squares(items, space=ModelSpace(domain=domain, totals=tuple(known)))
    np.testing.assert_allclose(model.marginal(("a",)), known[0].counts, atol=1e-3)


def test_saved_models_keep_what_is_exact(tmp_path):
    joint, items = problem(4)
    model = fit_least_squares(
        items, space=ModelSpace(domain=DOMAIN, totals=tuple(totals(joint, ("a",), ("c",))))
    )
    model.save(tmp_path)
    again = Model.load(tmp_path)
    assert again.exact == model.exact == (("a",), ("c",))
    assert all((column == draw(again, 500)[name]).all() for name, column in draw(model, 500).items())


RULES = Rules(
    classes={"a": Grouping("a", (0, 1, 1, 1)), "d": Grouping("d", (0, 1, 1))},
    rules=(Rule(text="a d", clique=("a", "d"), allowed=np.array([[True, False], [True, True]])),),
)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([Totals(clique=("a",), counts=np.array([1, 2, 3]))], "do not fit the domain"),
        ([Totals(clique=("d",), counts=np.array([1, -2, 3]))], "do not fit the domain"),
        (
            [Totals(clique=("d",), counts=np.array([1, 2, 3])), Totals(clique=(), counts=np.array(7))],
            "6 rows",
        ),
        ([Totals(clique=("d", "a"), counts=np.ones((3, 4), dtype=np.int64))], "a rule forbids"),
    ],
)
def test_contradictions_are_refused(known, message):
    _, items = problem(5, rules=RULES)
    with pytest.raises(UsageError, match=message):
        fit_least_squares(items, space=ModelSpace(domain=DOMAIN, rules=RULES, totals=tuple(known)))
