"""What mst and independent ask for, and what comes out, when the schema has rules and totals."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.core.errors import ResourceError, UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.constraints.public_totals import check_constraints
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.fit_measurements import fit
from populace.methods.mst import MAX_ADDED_CELLS, admissible_pairs, pair_candidates
from populace.methods.selection.independence_baseline import fit_baseline
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.row_selection import expected_row_count
from populace.schema.conditions.rules import Rule, Rules
from populace.schema.schema import Schema

TEXT = """
[table]
dataset = "people"

[columns.age]
kind = "integer"
min = 0
max = 40

[columns.work]
kind = "categorical"
values = ["no", "part", "full"]
universe = "age >= 15"
outside = "child"

[columns.pay]
kind = "integer"
min = 0
max = 30
universe = "age >= 15"
outside = "none"

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[[zeros]]
when = "work == 'no' and pay > 20"
"""


def people(rows=6000, seed=0):
    """Work and pay depend on age through their universe only; pay depends on sex."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 41, rows)
    sex = rng.integers(0, 2, rows)
    work = rng.choice(["no", "part", "full"], rows)
    pay = np.where(work == "no", rng.integers(0, 21, rows), rng.integers(0, 31, rows)) * (1 + sex) // 2
    child = age < 15
    return pa.table(
        {
            "age": age,
            "work": np.where(child, "child", work),
            "pay": np.where(child, "none", pay.astype(str)),
            "sex": np.where(sex == 1, "m", "f"),
        }
    )


def run(text, tmp_path, *, method="mst", epsilon="4", seed=1):
    return measure(
        people(),
        schema=Schema.parse(text),
        epsilon=epsilon,
        delta="1e-6",
        method=method,
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(seed)),
    )


def without_rules(text):
    """The same columns, in which being outside is one more value."""
    plain = text.split("[[zeros]]")[0].replace('universe = "age >= 15"\n', "")
    return plain.replace('outside = "child"', 'missing = ["child"]').replace(
        'outside = "none"', 'missing = ["none"]'
    )


@pytest.mark.parametrize("method", ["adaptive", "independent", "mst"])
@pytest.mark.parametrize("epsilon", [pytest.param("0.1", marks=pytest.mark.slow), "4"])
@pytest.mark.parametrize("rows", [10_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_no_synthetic_row_breaks_a_rule(method, epsilon, rows, tmp_path):
    measurements = run(TEXT, tmp_path, method=method, epsilon=epsilon)
    model = fit(measurements)
    table = release_from(measurements, model, rows=rows, seed=1).table
    age = np.asarray(table["age"].to_pylist(), dtype=float)
    work, pay = np.array(table["work"].to_pylist()), np.array(table["pay"].to_pylist())
    assert ((age < 15) <= (work == "child")).all()
    # An age that is no number is outside every comparison, so it is outside the universe too.
    assert ((work == "child") == (pay == "none")).all()
    rich = np.array([text is not None and text.isdigit() and int(text) > 20 for text in pay])
    assert not (rich & (work == "no")).any()


def test_pairs_that_follow_from_rules_are_not_bought(tmp_path):
    pairs = {}
    for name, text in (("with", TEXT), ("without", without_rules(TEXT))):
        (tmp_path / name).mkdir()
        items = run(text, tmp_path / name, epsilon="1").items
        pairs[name] = {frozenset(item.marginal.clique) for item in items}
    assert pairs["without"] & {frozenset(("age", "work")), frozenset(("age", "pay"))}
    assert not pairs["with"] & {frozenset(("age", "work")), frozenset(("age", "pay"))}
    assert frozenset(("pay", "sex")) in pairs["with"]


def test_groups_never_mix_what_a_rule_tells_apart(tmp_path):
    measurements = run(TEXT, tmp_path, epsilon="0.3")
    classes = measurements.schema.rules.classes
    groupings = [g for item in measurements.items for g in item.marginal.groupings]
    assert groupings
    for grouping in groupings:
        if grouping.column in classes:
            for codes in grouping.members:
                assert len(set(classes[grouping.column].lookup[codes])) == 1


TOTALS = TEXT + '\n[[totals]]\nby = ["sex"]\ncounts = { f = 1200, m = 1300 }\n'


def test_public_totals_decide_how_many_rows_there_are(tmp_path):
    measurements = run(TOTALS, tmp_path, epsilon="0.3")
    model = fit(measurements)
    assert expected_row_count(measurements.schema, model.total) == 2500
    table = release_from(measurements, model, seed=1).table
    sex = np.array(table["sex"].to_pylist())
    assert len(sex) == 2500
    assert abs((sex == "f").sum() - 1200) <= 1


def column(name, counts, variance=4):
    return Measurement(Marginal((name,)), np.array(counts), Fraction(variance))


DOMAIN = Domain({"a": 4, "b": 3, "c": 2})
RULES = Rules(
    classes={"a": Grouping("a", (0, 0, 1, 1)), "b": Grouping("b", (0, 0, 1))},
    rules=(Rule(text="b is outside", clique=("a", "b"), allowed=np.array([[False, True], [True, False]])),),
)
COLUMNS = [column("a", [10, 30, 40, 20]), column("b", [45, 15, 40]), column("c", [50, 50])]


def test_estimates_of_joined_pairs_are_what_the_rules_imply():
    space = ModelSpace(domain=DOMAIN, rules=RULES)
    found = pair_candidates(COLUMNS, space=space, total=100.0, noise=DiscreteGaussian(Fraction(9)))
    estimates = dict(zip((m.clique for m in found.marginals), found.estimates, strict=True))
    assert estimates["a", "b"].tolist() == [[0, 0, 10], [0, 0, 30], [30, 10, 0], [15, 5, 0]]
    assert estimates["a", "c"].tolist() == [[5, 5], [15, 15], [20, 20], [10, 10]]
    assert all(table.dtype == np.int64 for table in found.estimates)
    assert all(abs(int(table.sum()) - 100) <= 6 for table in found.estimates)


def test_columns_that_no_rule_joins_are_as_they_were():
    """Bit for bit: rules elsewhere, or none at all, change nothing for other pairs."""
    plain = fit_baseline(COLUMNS, space=ModelSpace(domain=DOMAIN), total=100.0)
    classes = {"b": RULES.classes["b"], "c": Grouping("c", (0, 1))}
    other = Rules(classes=classes, rules=(Rule(text="bc", clique=("b", "c"), allowed=np.eye(2, dtype=bool)),))
    ruled = fit_baseline(COLUMNS, space=ModelSpace(domain=DOMAIN, rules=other), total=100.0)
    np.testing.assert_array_equal(plain.pair(("a", "b")), np.outer(plain.columns["a"], plain.columns["b"]))
    np.testing.assert_array_equal(ruled.columns["a"], plain.columns["a"])


def test_room_is_refused_only_where_a_large_cycle_would_close():
    domain = Domain({"a": 300, "b": 300, "c": 300, "d": 300})
    classes = {"a": Grouping("a", tuple(range(300))), "b": Grouping("b", tuple(range(300)))}
    rule = Rule(text="ab", clique=("a", "b"), allowed=np.tri(300, dtype=bool))
    rules = RulePotentials(ModelSpace(domain=domain, rules=Rules(classes=classes, rules=(rule,))))
    pairs = [("a", "c"), ("b", "c"), ("c", "d"), ("a", "b")]
    assert admissible_pairs([0, 1, 2, 3], pairs=pairs, chosen=[], potentials=rules) == [0, 1, 2, 3]
    # a – b by the rule and a – c measured: b – c would need a table of all three.
    assert MAX_ADDED_CELLS < 300**3
    assert admissible_pairs([1, 2, 3], pairs=pairs, chosen=[0], potentials=rules) == [2, 3]
    assert admissible_pairs([1, 2, 3], pairs=pairs, chosen=[0], potentials=None) == [1, 2, 3]


def test_rules_that_cannot_be_modelled_are_refused_before_anything_is_spent(tmp_path, monkeypatch):
    monkeypatch.setattr("populace.inference.constraints.support.LIMITS", replace(LIMITS, max_model_cells=5))
    with pytest.raises(ResourceError, match="the most is 5"):
        run(TEXT, tmp_path)
    assert not (tmp_path / "ledger.db").exists()
    with pytest.raises(UsageError, match="the rules know 4 codes"):
        check_constraints(ModelSpace(domain=Domain({"a": 5, "b": 3, "c": 2}), rules=RULES))
