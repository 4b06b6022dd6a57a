"""A generator's mixture as a model: its tables, rules, totals and groups, and that fitting it repeats."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.fit_measurements import fit
from populace.methods.literature.gem import gem as module
from populace.methods.literature.gem.gem import GemEstimator, gem_model
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.sampling.draw_rows import draw_rows
from populace.schema.codec.table_codec import TableCodec
from populace.schema.conditions.rules import Rule, Rules, Totals
from populace.schema.schema import Schema

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
WHOLE = np.random.default_rng(3).dirichlet(np.full(24, 0.4)).reshape(3, 4, 2) * 10_000


def counted(clique, *, table=WHOLE, groupings=(), variance=100):
    axes = [list(DOMAIN).index(name) for name in clique]
    others = tuple(axis for axis in range(3) if axis not in axes)
    kept = sorted(axes)
    found = table.sum(axis=others).transpose([kept.index(axis) for axis in axes])
    for grouping in groupings:
        axis = clique.index(grouping.column)
        found = np.stack(
            [found.take(codes, axis=axis).sum(axis=axis) for codes in grouping.members], axis=axis
        )
    return Measurement(Marginal(clique, groupings), np.rint(found).astype(np.int64), Fraction(variance))


def items(table=WHOLE):
    cliques = [("a",), ("b",), ("c",), *combinations(DOMAIN, 2)]
    return [counted((), table=table), *(counted(clique, table=table) for clique in cliques)]


def apart(one, other):
    return 0.5 * float(np.abs(one / one.sum() - other / other.sum()).sum())


def test_the_model_has_the_tables_of_the_mixture():
    mixture = GemEstimator(ModelSpace(domain=DOMAIN))
    mixture.add(items())
    mixture.refit(steps=200)
    model = mixture.model()
    for clique in [("a",), ("c", "a"), ("a", "b", "c")]:
        assert model.marginal(clique) == pytest.approx(mixture.table(clique), rel=1e-6, abs=1e-6)
    assert model.total == pytest.approx(WHOLE.sum(), rel=0.01)


@pytest.mark.slow
def test_training_comes_near_to_all_pairs_at_once():
    """Three pairs of three columns make a cycle."""
    model = gem_model(items(), space=ModelSpace(domain=DOMAIN))
    for pair in combinations(DOMAIN, 2):
        assert apart(model.marginal(pair), counted(pair).counts.astype(float)) < 0.01


@pytest.mark.slow
def test_rows_are_those_of_the_model():
    model = gem_model(items(), space=ModelSpace(domain=DOMAIN))
    (rows,) = draw_rows(model, rows=5000, rng=np.random.default_rng(1))
    for one, other in combinations(DOMAIN, 2):
        found = np.zeros(DOMAIN.shape((one, other)))
        np.add.at(found, (rows[one], rows[other]), 1)
        assert apart(found, model.marginal((one, other))) < 0.003


@pytest.mark.slow
def test_a_fit_repeats_to_the_last_bit():
    one, other = (gem_model(items(), space=ModelSpace(domain=DOMAIN)) for _ in range(2))
    assert one.total == other.total
    for clique, table in one.potentials.items():
        assert np.array_equal(table, other.potentials[clique])


@pytest.mark.slow
def test_groups_are_shared_out_by_single_columns():
    grouping = Grouping("b", (0, 1, 1, 1))
    alone = [counted((), variance=1), *(counted((name,), variance=1) for name in DOMAIN)]
    model = gem_model([*alone, counted(("a", "b"), groupings=(grouping,))], space=ModelSpace(domain=DOMAIN))
    assert model.groupings == {"b": grouping}
    assert apart(model.marginal(("b",)), WHOLE.sum(axis=(0, 2))) < 0.01


NEVER = np.array([[True, True, False], [True, False, True]])
RULES = Rules(
    classes={"a": Grouping("a", (0, 0, 1)), "b": Grouping("b", (0, 1, 1, 2))},
    rules=(Rule(text="no", clique=("a", "b"), allowed=NEVER),),
)


def ruled():
    return WHOLE * NEVER[RULES.classes["a"].lookup][:, RULES.classes["b"].lookup][:, :, None]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("measured", ["pairs", "columns"])
def test_no_row_breaks_a_rule_and_little_is_cut_away(measured):
    table = ruled()
    found = items(table) if measured == "pairs" else items(table)[:4]
    mixture = GemEstimator(ModelSpace(domain=DOMAIN, rules=RULES))
    mixture.add(found)
    mixture.refit(steps=400)
    model = mixture.model()
    pair = model.marginal(("a", "b"))
    assert (pair[table.sum(axis=2) == 0] == 0).all()
    # The network was taught the rule, and what is left is scaled to its columns.
    for name in DOMAIN:
        assert apart(model.marginal((name,)), mixture.table((name,))) < 0.002
        assert apart(model.marginal((name,)), counted((name,), table=table).counts.astype(float)) < 0.03
    assert mixture.table(("a", "b"))[table.sum(axis=2) == 0].max() == 0


def test_rules_that_are_not_taught_are_cut_away_all_the_same():
    mixture = GemEstimator(ModelSpace(domain=DOMAIN, rules=RULES))
    mixture.add(items())
    mixture.refit(steps=0)
    assert (mixture.model().marginal(("a", "b"))[ruled().sum(axis=2) == 0] == 0).all()


@pytest.mark.parametrize("name", DOMAIN)
def test_cutting_away_leaves_columns_as_they_were(name):
    """A network that knows nothing of a rule loses much to it: its columns stay all the same."""
    mixture = GemEstimator(ModelSpace(domain=DOMAIN, rules=RULES))
    mixture.add(items(ruled())[:4])
    mixture.refit(steps=0)
    assert apart(mixture.model().marginal((name,)), mixture.table((name,))) < 0.02


def test_fewer_components_where_rules_leave_less_room(monkeypatch):
    monkeypatch.setattr(module, "MAX_MODEL_CELLS", 200)
    mixture = GemEstimator(ModelSpace(domain=DOMAIN, rules=RULES))
    mixture.add(items(ruled()))
    mixture.refit(steps=5)
    assert 1 <= mixture.model().hidden["component"] < 10


@pytest.mark.parametrize("by", [[("c",)], [("c", "b")], [("a",), ("b", "c")]], ids=str)
@pytest.mark.slow
def test_public_totals_are_met(by):
    counts = {clique: counted(clique).counts.copy() for clique in by}
    rows = min(int(table.sum()) for table in counts.values())
    for table in counts.values():
        table.flat[int(table.argmax())] -= int(table.sum()) - rows
    totals = [Totals(clique=clique, counts=table) for clique, table in counts.items()]
    model = gem_model(items(), space=ModelSpace(domain=DOMAIN, totals=tuple(totals)))
    assert set(map(frozenset, model.exact)) == set(map(frozenset, by))
    (drawn,) = draw_rows(model, rows=rows, rng=np.random.default_rng(1))
    for clique, table in counts.items():
        assert model.marginal(clique) == pytest.approx(table, abs=0.05)
        found = np.zeros(table.shape, dtype=np.int64)
        np.add.at(found, tuple(drawn[name] for name in clique), 1)
        assert np.abs(found - table).sum() <= 2


NUMBERS = """
[columns.age]
kind = "integer"
min = 0
max = 30

[columns.pay]
kind = "integer"
min = 0
max = 12
universe = "age >= 15"
outside = "none"

[columns.sex]
kind = "categorical"
values = ["f", "m"]
"""


@pytest.mark.slow
def test_a_run_on_numbers_under_rules_can_be_conditioned(tmp_path):
    rng = np.random.default_rng(5)
    age = rng.integers(0, 31, 3000)
    sex = rng.choice(["f", "m"], 3000)
    pay = np.where(age < 15, "none", (rng.integers(0, 7, 3000) + 6 * (sex == "m")).astype(str))
    found = measure(
        pa.table({"age": age, "pay": pay, "sex": sex}),
        schema=Schema.parse(NUMBERS),
        epsilon="4",
        delta="0",
        method="gem",
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(1)),
    )
    model = fit(found)
    release = release_from(found, model, where="sex == 'm' and age >= 15", implicates=2, seed=1)
    assert len(release.further) == 1
    for table in (release.table, *release.further):
        assert set(table["sex"].to_pylist()) == {"m"}
        assert sum(TableCodec(found.schema).count_violations(table).values()) == 0
        assert np.nanmedian(np.array(table["pay"].to_pylist()).astype(float)) > 7
    whole = release_from(found, model, seed=1).table
    assert 2700 < whole.num_rows < 3300
    assert release.table.num_rows / whole.num_rows == pytest.approx(0.5 * 16 / 31, abs=0.05)
