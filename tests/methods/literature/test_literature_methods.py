"""Methods from the literature: what they find, and that a run that was paid for ends in rows that keep the rules."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.api.generate import release_from
from populace.api.measure import measure
from populace.methods.fit_measurements import fit
from populace.methods.literature import mwem as weights
from populace.methods.literature.pmw import pmw_bound
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.codec.table_codec import TableCodec
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

METHODS = ("copula", "gem", "mwem", "pmw", "privbayes")

RULED = """
[columns.age]
kind = "integer"
min = 0
max = 20

[columns.work]
kind = "categorical"
values = ["no", "part", "full"]
universe = "age >= 15"
outside = "child"

[columns.sex]
kind = "categorical"
values = ["f", "m"]
"""
TOTALS = RULED + '\n[[totals]]\nby = ["sex"]\ncounts = { f = 120, m = 130 }\n'


def people(rows):
    rng = np.random.default_rng(rows)
    age = rng.integers(0, 21, rows)
    work = np.where(age < 15, "child", rng.choice(["no", "part", "full"], rows))
    return pa.table({"age": age, "work": work, "sex": np.where(age % 2, "f", "m")})


def codes(sizes, rows):
    """Every column follows the one before it, nine times out of ten."""
    rng = np.random.default_rng(rows)
    found, last = {}, rng.integers(0, 64, rows)
    for name, size in sizes.items():
        last = np.where(rng.random(rows) < 0.9, last, rng.integers(0, 64, rows))
        found[name] = last % size
    return pa.table(found)


def run(table, schema, tmp_path, *, method, epsilon="1", delta="1e-6", **more):
    return measure(
        table,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(1)),
        **more,
    )


FOUR = {"a": 4, "b": 4, "c": 4, "d": 2}
ODD = {
    "no rows": (FOUR, 0, {}),
    "pure": (FOUR, 40, {"delta": "0"}),
    "hardly any budget": (FOUR, 40, {"epsilon": "0.05"}),
    "hardly any noise": ({"a": 2, "b": 3, "c": 3}, 50, {"epsilon": "1000"}),
    "one column": ({"a": 3}, 5, {}),
    "one code": ({"a": 1, "b": 1}, 5, {}),
    "one column of many codes": ({"a": 1, "b": 500}, 50, {}),
    "single columns wanted": (FOUR, 50, {"workload": pp.Workload(weights={("b",): Fraction(1)})}),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("method", "odd"), sample_cases([(method, odd) for method in METHODS for odd in ODD], to=20)
)
def test_a_paid_run_ends_in_rows(method, odd, tmp_path):
    sizes, rows, more = ODD[odd]
    found = run(codes(sizes, rows), Schema.from_sizes(sizes), tmp_path, method=method, **more)
    assert 0.98 < found.record.used / found.record.cap <= 1
    assert release_from(found, fit(found), rows=20, seed=1).table.num_rows == 20


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [RULED, TOTALS], ids=["rules", "totals"])
@pytest.mark.parametrize("method", sample_cases(METHODS, to=2))
def test_rows_keep_rules_and_totals(method, text, tmp_path):
    found = run(people(250), Schema.parse(text), tmp_path, method=method, epsilon="2")
    release = release_from(found, fit(found), seed=1)
    assert sum(TableCodec(found.schema).count_violations(release.table).values()) == 0
    if text is TOTALS:
        assert release.table.num_rows == 250
        assert abs(release.table["sex"].to_pylist().count("f") - 120) <= 1


# The tables of a copula are those of a normal law: test_copula.py has them.
@pytest.mark.parametrize("held", ["whole", "factored"])
@pytest.mark.parametrize(
    "method", [pytest.param("gem", marks=pytest.mark.slow), *sorted({*METHODS} - {"copula", "gem"})]
)
def test_what_belongs_together_stays_together(method, held, tmp_path, monkeypatch):
    if held == "factored":
        monkeypatch.setattr(weights, "MAX_DENSE_CELLS", 1)
    table = codes(FOUR, 4000)
    found = run(table, Schema.from_sizes(FOUR), tmp_path, method=method)
    assert any(len(item.marginal.clique) > 1 for item in found.items)
    rows = release_from(found, fit(found), rows=4000, seed=1).table
    for pair in (("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")):
        assert apart(table, rows, pair) < 0.05


def apart(one, other, pair):
    """The total variation between the tables of two columns."""
    return np.abs(counted(one, pair) - counted(other, pair)).sum() / 2


def counted(table, pair):
    first, second = (np.asarray(table[name].to_pylist()).astype(int) for name in pair)
    found = np.zeros((4, 4))
    np.add.at(found, (first, second), 1 / len(first))
    return found


def test_parents_of_a_column_lie_in_one_earlier_table(tmp_path):
    """So that the network is its own junction tree; and with many rows a column has several parents."""
    sizes = dict.fromkeys("abcdef", 2)
    found = run(codes(sizes, 20_000), Schema.from_sizes(sizes), tmp_path, method="privbayes", epsilon="4")
    tables = [set(item.marginal.clique) for item in found.items if len(item.marginal.clique) > 1]
    assert len(tables) == 5
    placed = tables[0]
    for number, table in enumerate(tables[1:], start=1):
        assert len(table - placed) == 1
        assert any(table & placed <= earlier for earlier in tables[:number])
        placed = placed | table
    assert max(map(len, tables)) > 2


def test_fewer_rows_make_fewer_parents(tmp_path):
    sizes = dict.fromkeys("abcdef", 2)
    found = run(codes(sizes, 60), Schema.from_sizes(sizes), tmp_path, method="privbayes", epsilon="0.5")
    assert max(len(item.marginal.clique) for item in found.items) == 1


def test_searches_are_paid_for_and_not_every_test(tmp_path):
    """Columns that are independent are near: all marginals are passed over in one search or a few."""
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, size, 5000) for name, size in FOUR.items()})
    found = run(table, Schema.from_sizes(FOUR), tmp_path, method="pmw")
    verbs = [booked.spend.verb for booked in found.record.spends]
    assert 1 <= verbs.count("choose") <= 4
    assert "score" not in verbs
    assert sum(len(item.marginal.clique) > 1 for item in found.items) <= 2 * verbs.count("choose")
    (tmp_path / "other").mkdir()
    other = run(codes(FOUR, 5000), Schema.from_sizes(FOUR), tmp_path / "other", method="pmw")
    assert sum(len(item.marginal.clique) > 1 for item in other.items) > 4


def test_the_bound_of_the_source_falls_with_rows_and_rises_with_queries():
    asked = {"rows": 1000.0, "queries": 100, "universe": 1e6, "epsilon": 1.0}
    for delta in (1e-6, 0.0):
        bound = pmw_bound(**asked, delta=delta)
        assert pmw_bound(**asked | {"rows": 8000.0}, delta=delta) == pytest.approx(
            bound / (8**0.5 if delta else 2)
        )
        assert pmw_bound(**asked | {"queries": 10**4}, delta=delta) > bound
        assert pmw_bound(**asked | {"epsilon": 2.0}, delta=delta) < bound
