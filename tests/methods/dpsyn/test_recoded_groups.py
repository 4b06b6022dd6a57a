"""Groups recoded by a public table: fewer questions, rows of public combinations alone, and rules that still hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from populace.api import synthesize as synthesize_api
from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.constraints.recoding import MergedColumn, Recoding, recode_items
from populace.inference.model import Model
from populace.measurements.measurements import Measurement
from populace.methods.dpsyn.dpsyn_model import dpsyn_model
from populace.methods.method import FitInput
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.verify.verify import verify
from populace.schema.conditions.rules import Rule, Rules
from populace.schema.schema import Schema

FLAGS = ("any", "own", "state")
# Who has an insurance of one kind has any: 5 of 8 combinations, and one of these is in no public row.
PUBLIC_FLAGS = [(0, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1)]
SCHEMA = Schema.parse(
    '[table]\ndataset = "flags"\ngroups = [["own", "any", "state"]]\n\n'
    + "".join(
        f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = {size - 1}\nother = "0"\n\n'
        for name, size in (("area", 3), ("any", 2), ("age", 4), ("own", 2), ("state", 2))
    )
    + '[[zeros]]\nwhen = "age == 0 and own == 1"\nelse = { own = "0" }\n'
)


def people(rows, *, seed, odd=0):
    """Rows of public combinations, and some of one that the public table does not have."""
    rng = np.random.default_rng(seed)
    flags = np.array(PUBLIC_FLAGS)[rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])]
    flags[:odd] = (1, 0, 0)
    age = np.where(flags[:, 1] == 1, rng.integers(1, 4, rows), rng.integers(0, 4, rows))
    area = np.where(rng.random(rows) < 0.7, flags.sum(axis=1) % 3, rng.integers(0, 3, rows))
    return pa.table({"area": area, "any": flags[:, 0], "age": age, "own": flags[:, 1], "state": flags[:, 2]})


def run(epsilon, *, ledger, odd=0, schema=SCHEMA, **options):
    return synthesize_api.synthesize(
        people(6000, seed=1, odd=odd),
        schema=schema,
        epsilon=epsilon,
        delta="1e-6",
        method="dpsyn",
        public=people(4000, seed=2),
        ledger=ledger,
        **{"noise": ExactNoise(RehearsalEntropy(5)), "seed": 0} | options,
    )


def combinations_in(table):
    return set(zip(*(table[name].to_pylist() for name in FLAGS), strict=True))


@pytest.mark.parametrize("epsilon", ["0.02", "0.6", "8"])
def test_groups_are_asked_as_one_and_rows_have_public_combinations(epsilon, tmp_path):
    made = run(epsilon, ledger=tmp_path / "l.db", odd=300)
    found = made.measurements
    merged = ("any", "own", "state")
    asked = {item.marginal.clique for item in found.items}
    pairs = {("area", *merged), ("any", "age", "own", "state"), ("area", "age")}
    assert (
        asked
        == {
            "0.02": {()},
            "0.6": {(), ("area",), ("age",), merged},
            "8": {(), *(tuple(n for n in SCHEMA.domain if n in pair) for pair in pairs)},
        }[epsilon]
    )
    assert combinations_in(made.synthetic) <= set(PUBLIC_FLAGS)
    rows = made.synthetic
    assert not any(
        a == 0 and o == 1 for a, o in zip(rows["age"].to_pylist(), rows["own"].to_pylist(), strict=True)
    )
    if epsilon == "8":
        assert {table.max() for table in found.public.tables.values()} == {1}
        (line,) = (line for line in made.statement["not_covered"] if "declared public" in line)
        assert "which combinations of “any × own × state” occur; no count of it is here" in line
        # Rows without a code are shared out over the others: the number of rows is what it was.
        assert abs(rows.num_rows - 6000) < 60
    made.save(tmp_path / "out", report=False)
    held = Model.load(tmp_path / "out").recoding
    assert [each.combinations.tolist() for each in held.merged] == [sorted(map(list, PUBLIC_FLAGS))]


def test_rows_given_a_condition_on_a_merged_column(tmp_path):
    made = run("8", ledger=tmp_path / "l.db", where="own == 1 and area == 0", rows=200, noise=None)
    made.save(tmp_path / "out", report=False)
    assert verify(tmp_path / "out").passed
    assert made.synthetic.num_rows == 200
    assert set(made.synthetic["own"].to_pylist()) == {1}
    assert combinations_in(made.synthetic) <= {(1, 1, 0), (1, 1, 1)}


def test_rules_over_recoded_columns_allow_the_same_rows():
    """Every row of public combinations keeps the recoded rules exactly if it keeps the rules."""
    domain = Domain({"a": 3, "b": 2, "c": 4, "d": 2})
    rng = np.random.default_rng(0)
    classes = {
        "a": Grouping("a", (0, 1, 1)),
        "b": Grouping("b", (0, 1)),
        "c": Grouping("c", (0, 0, 1, 2)),
        "d": Grouping("d", (1, 0)),
    }
    held = np.array(list(product(range(3), range(2))))[[0, 1, 3, 4]]
    recoding = Recoding(domain=domain, merged=(MergedColumn("a + b", ("a", "b"), held),))
    for _ in range(20):
        rules = Rules(
            classes=classes,
            rules=tuple(
                Rule(text="", clique=clique, allowed=rng.random([classes[n].size for n in clique]) < 0.7)
                for clique in (("c", "a"), ("b", "d", "a"), ("c", "d"), ("b", "c"))
            ),
        )
        found = recoding.rules(rules)
        for code, c, d in product(range(len(held)), range(4), range(2)):
            row = {"a": int(held[code][0]), "b": int(held[code][1]), "c": c, "d": d, "a + b": code}
            assert keeps(found, row) == keeps(rules, row)


def keeps(rules, row):
    return all(
        rule.allowed[tuple(rules.classes[name].lookup[row[name]] for name in rule.clique)]
        for rule in rules.rules
    )


def test_expanding_is_the_inverse_of_recoding():
    domain = Domain({"a": 2, "x": 5, "b": 3})
    held = np.array([[0, 2], [1, 0], [1, 1]])
    recoding = Recoding(domain=domain, merged=(MergedColumn("a + b", ("a", "b"), held),))
    codes = {"a + b": np.array([2, 0, 1, 1], np.uint8), "x": np.array([4, 3, 0, 1], np.uint8)}
    rows = recoding.expand(codes)
    assert list(rows) == ["a", "x", "b"]
    assert list(zip(rows["a"], rows["b"], strict=True)) == [(1, 1), (0, 2), (1, 0), (1, 0)]
    table = np.zeros((5, 3, 2), np.int64)
    np.add.at(table, (rows["x"], rows["b"], rows["a"]), 1)
    wanted = np.zeros((3, 5), np.int64)
    np.add.at(wanted, (codes["a + b"], codes["x"]), 1)
    assert np.array_equal(recoding.table(table, ("x", "b", "a")), wanted)
    with pytest.raises(UsageError):
        Recoding(domain=domain, merged=(MergedColumn("a + b", ("a", "b"), np.array([[0, 0], [0, 0]])),))


def test_tables_that_tell_merged_columns_apart_are_left_alone(tmp_path):
    """Measurements of single columns of a group are read as they were made."""
    found = run("8", ledger=tmp_path / "l.db").measurements
    recoding = dpsyn_model(FitInput(schema=SCHEMA, items=found.items, public=found.public)).recoding
    assert recoding is not None
    single = Measurement(Marginal(("own",)), np.array([10, 5]), Fraction(1))
    assert recode_items([*found.items, single], recoding) is None
    apart = dpsyn_model(FitInput(schema=SCHEMA, items=[*found.items, single], public=found.public))
    assert apart.recoding is None
    # Which combinations occur is no count of rows: the model is what it is without the public table.
    assert {table.max() for table in found.public.tables.values()} == {1}
    without = dpsyn_model(FitInput(schema=SCHEMA, items=[*found.items, single]))
    assert apart.total == without.total
    assert list(apart.targets) == list(without.targets)
    assert all(np.array_equal(apart.targets[each], without.targets[each]) for each in apart.targets)


def test_tables_are_scaled_only_where_rows_without_a_code_stand_out_of_all_noise():
    domain = Domain({"a": 2, "b": 2, "x": 2})
    counts = np.array([[400, 100], [300, 100]])

    def scaled(held, *, rows, noise=1):
        recoding = Recoding(domain=domain, merged=(MergedColumn("a + b", ("a", "b"), np.array(held)),))
        items = (
            Measurement(Marginal(("x",)), np.array([rows - 200, 200]), Fraction(noise)),
            Measurement(Marginal(("a", "b")), counts, Fraction(4)),
        )
        return list(recode_items(items, recoding))[1]

    every, some = [[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0]]
    # No cell is left out: the table itself says how many rows there are.
    whole = scaled(every, rows=1500)
    assert (whole.counts.tolist(), whole.variance) == ([400, 100, 300, 100], 4)
    # A hundred rows are missing; the number of rows is sure here, and not so there.
    sure, unsure = scaled(some, rows=900), scaled(some, rows=900, noise=10_000)
    assert sure.counts.tolist() == [450, 112, 338]
    added = 2 * (400**2 + 100**2 + 300**2) / 800**2 / 3
    assert float(sure.variance) == pytest.approx(4 * (9 / 8) ** 2 + added, abs=1e-5)
    assert (unsure.counts.tolist(), unsure.variance) == ([400, 100, 300], 4)


def test_groups_with_areas_or_totals_in_them_are_not_merged(tmp_path):
    schema = replace(SCHEMA, partition=("own",))
    made = run("0.6", ledger=tmp_path / "l.db", schema=schema)
    assert made.model.recoding is None
    assert {("any",), ("own",), ("state",)} <= {item.marginal.clique for item in made.measurements.items}
