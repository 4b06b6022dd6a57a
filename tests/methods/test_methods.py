"""What the strategies ask for, on tables whose structure is known."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.api.measure import measure
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.mst import pair_candidates
from populace.methods.registry import METHODS, find_method
from populace.methods.selection.merge_rare_codes import merge_into_rest, merge_neighbours, merge_rare_codes
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, ExponentialCount
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(13)


def run(table, *, sizes, method, tmp_path, epsilon="5", delta="1e-6", seed=1):
    return measure(
        pa.table(table),
        schema=replace(Schema.from_sizes(sizes), max_rows=10**6),
        epsilon=epsilon,
        delta=delta,
        method=method,
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(seed)),
    )


def cliques(measurements):
    return [item.marginal.clique for item in measurements.items]


def chain(rows=5000, seed=0):
    """a → b → c strongly, d on its own."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, rows)
    b = np.where(rng.random(rows) < 0.9, a, rng.integers(0, 4, rows))
    c = np.where(rng.random(rows) < 0.9, b, rng.integers(0, 4, rows))
    return {"a": a, "c": c, "d": rng.integers(0, 4, rows), "b": b}


SIZES = {"a": 4, "c": 4, "d": 4, "b": 4}


def test_independent_measures_the_total_and_every_column_once(tmp_path):
    found = run(chain(), sizes=SIZES, method="independent", tmp_path=tmp_path)
    assert cliques(found) == [(), ("a",), ("c",), ("d",), ("b",)]


def test_mst_finds_the_chain(tmp_path):
    found = run(chain(), sizes=SIZES, method="mst", tmp_path=tmp_path)
    pairs = {frozenset(c) for c in cliques(found) if len(c) == 2}
    assert {frozenset("ab"), frozenset("bc")} <= pairs
    assert frozenset("ac") not in pairs


def test_mst_leaves_independent_columns_alone(tmp_path):
    """Where every pair would bring more noise than it removes, the columns are measured again instead."""
    rng = np.random.default_rng(1)
    table = {name: rng.integers(0, 40, 400) for name in "abcd"}
    found = run(table, sizes=dict.fromkeys("abcd", 40), method="mst", tmp_path=tmp_path, epsilon="0.5")
    assert max(len(c) for c in cliques(found)) == 1
    assert cliques(found).count(("a",)) == 2


LAWS = {("histogram-exponential", delta): ExponentialCount for delta in ("0", "1e-6")} | {
    (method, "1e-6"): DiscreteLaplace for method in ("field-groups", "histogram", "stability")
}
# Telling rows needs delta, some methods a public table or a geography.
WITHOUT_DELTA = sorted({*METHODS} - {"dpsyn", "stability", "topdown"})
WITH_DELTA = sorted({*METHODS} - {"dpsyn", "topdown"})


@pytest.mark.sampled(13)
@pytest.mark.parametrize(
    ("method", "delta", "mechanism"),
    [
        *((method, "1e-6", LAWS.get((method, "1e-6"), DiscreteGaussian)) for method in WITH_DELTA),
        *((method, "0", LAWS.get((method, "0"), DiscreteLaplace)) for method in WITHOUT_DELTA),
    ],
)
@pytest.mark.parametrize("rows", [300, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (0, 1))])
def test_the_whole_budget_is_used_and_no_more(method, delta, mechanism, rows, tmp_path):
    found = run(chain(rows), sizes=SIZES, method=method, tmp_path=tmp_path, epsilon="1", delta=delta)
    assert Fraction(98, 100) < found.record.used / found.record.cap <= 1
    assert isinstance(found.record.spends[0].spend.mechanism, mechanism)


@pytest.mark.parametrize("method", WITHOUT_DELTA)
def test_one_column_is_enough(method, tmp_path):
    found = run({"a": np.zeros(5, int)}, sizes={"a": 3}, method=method, tmp_path=tmp_path)
    assert [clique for clique in cliques(found) if clique] == [("a",)]


def test_auto_is_recorded_as_what_ran(tmp_path):
    assert (
        run(chain(), sizes=SIZES, method="auto", tmp_path=tmp_path).record.method == find_method("auto").name
    )


def column(name, counts, variance=4):
    return Measurement(Marginal((name,)), np.array(counts), Fraction(variance))


def alike(codes):
    return np.zeros(codes, dtype=np.int64)


def test_compression_keeps_frequent_codes_apart():
    assert merge_into_rest(column("a", [100, 1, 90, -3]), alike(4)) == [0, 2, 1, 2]
    assert merge_into_rest(column("a", [1, 2, 3]), alike(3)) == [0, 0, 0]
    assert merge_into_rest(column("a", [100, 90]), alike(2)) == [0, 1]
    assert merge_neighbours(column("a", [0, 0, 100, 1, 1, 80, 3, 3, 5]), alike(9)) == [
        *(0, 0, 0, 0, 0),
        *(1, 2, 2, 2),
    ]
    assert merge_neighbours(column("a", [0, 1, 0]), alike(3)) == [0, 0, 0]
    assert merge_neighbours(column("a", [100, 0, 0]), alike(3)) == [0, 0, 0]


def test_compression_names_only_columns_that_shrink():
    assert merge_rare_codes([column("a", [50, 60]), column("b", [50, 1, 2])], ordered=(), classes={}) == (
        Grouping("b", (0, 1, 1)),
    )
    assert merge_rare_codes([column("b", [50, 1, 60])], ordered=(), classes={}) == ()
    assert merge_rare_codes([column("b", [50, 1, 60])], ordered={"b"}, classes={}) == (
        Grouping("b", (0, 0, 1)),
    )


@pytest.mark.parametrize("merge", [merge_into_rest, merge_neighbours])
@pytest.mark.parametrize("seed", sample_cases(range(30), to=10))
def test_compression_never_joins_what_a_rule_tells_apart(merge, seed):
    rng = np.random.default_rng(seed)
    counts = rng.choice([-3, 0, 2, 5, 40], 25)
    classes = rng.integers(0, 3, 25)
    groups = np.array(merge(column("a", counts), classes))
    Grouping("a", tuple(groups.tolist()))
    for number in range(groups.max() + 1):
        assert len(set(classes[groups == number])) == 1
    if merge is merge_into_rest:
        assert groups.max() + 1 <= (counts >= 6).sum() + 3


def test_candidates_are_rounded_products_and_skip_one_group_columns():
    domain = Domain({"a": 2, "b": 3, "c": 2})
    columns = [column("a", [30, 70]), column("b", [100, 0, 0]), column("c", [50, 50])]
    space = ModelSpace(domain=domain).group([Grouping("b", (0, 0, 0))])
    found = pair_candidates(columns, space=space, total=100.0, noise=DiscreteGaussian(Fraction(9)))
    assert [m.clique for m in found.marginals] == [("a", "c")]
    assert found.estimates[0].tolist() == [[15, 15], [35, 35]]
    assert 0 < found.penalties[0] < 30
