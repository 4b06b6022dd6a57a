"""From answers of the barrier to learnt columns, and from learnt columns to a release that verifies."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import ReleaseError
from populace.core.limits import LIMITS
from populace.core.marginals import MAX_ESTIMATE_ROWS
from populace.core.progress import silent
from populace.measurements.measurements import Measurements
from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG
from populace.methods.discovery.discovery_grid import DiscoveryGrid, find_roundest
from populace.methods.discovery.domain_discovery import (
    build_grids,
    discover_domains,
    discovery_share,
    max_discovery_share,
    with_grid_columns,
)
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.bundle import Release
from populace.release.manifest import digest_file
from populace.release.verify.verify import verify
from populace.schema.codec.encoder import encode_values
from populace.schema.columns.column import CategoricalColumn, Origin
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.unknown_columns import UnknownBins, as_declared
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from tests.helpers.budgets import measure_share

SCHEMA = """
[table]
dataset = "d"

[columns.city]
kind = "categorical"
values = "learn"
missing = ["R"]

[columns.age]
kind = "integer"
min = 0
max = 100
bins = "learn"
missing = ["-1"]

[columns.price]
kind = "numeric"
min = 0
max = 20
decimals = 2
bins = "learn"
"""
# Columns of so many different values that their grids take seconds.
LONG = (
    SCHEMA
    + """
[columns.income]
kind = "integer"
min = -10_000
max = 9_000_000
bins = "learn"
other = "0"

[columns.weight]
kind = "numeric"
min = 0.5
max = 90
bins = "learn"
"""
)
BOTH = [SCHEMA, pytest.param(LONG, marks=pytest.mark.slow)]


def table(rows: int = 30_000) -> pa.Table:
    rng = np.random.default_rng(1)
    zero = rng.random(rows) < 0.3
    return pa.table(
        {
            "city": [f"c{k}" for k in rng.geometric(0.2, rows)],
            "age": rng.integers(0, 101, rows) - (rng.random(rows) < 0.1) * 200,
            "income": np.where(zero, 0, np.rint(np.exp(rng.normal(10, 1, rows)))).astype(np.int64),
            "weight": rng.gamma(2, 10, rows),
            "price": np.rint(rng.choice([0.0, 0.99, 4.95], rows) * 100) / 100,
        }
    )


class Exact:
    """A finder without noise: what learning makes of the truth."""

    def __init__(self, frame: pa.Table, schema: Schema, *, epsilon: int = 5) -> None:
        budget = Budget.of(Fraction(epsilon), Fraction(1, 10**6), unit=PrivacyUnit())
        self.budget = replace(budget, keys=Fraction(1, 10**6))
        self.asked: list[tuple[str, np.ndarray, Noise]] = []
        self.laws: dict[str, object] = {}
        self._frame, self._schema = frame, with_grid_columns(schema, grids=build_grids(schema))

    def discover_values(self, column, *, mechanism):
        self.laws[column] = mechanism
        counts = self._frame[column].value_counts().to_pylist()
        return {c["values"]: c["counts"] for c in counts if c["counts"] > mechanism.threshold}

    def discover_bins(self, column, *, groups, noise):
        self.asked.append((column, groups, noise))
        codes = encode_values(self._schema.columns[column], self._frame[column]).astype(np.int64)
        return np.bincount(groups[codes], minlength=groups.max() + 1)


@pytest.fixture(scope="module", params=BOTH, ids=["short", "long"])
def outcome(request):
    schema, frame = Schema.parse(request.param), table()
    finder = Exact(frame, schema)
    return (
        finder,
        frame,
        *discover_domains(lambda _: finder, schema, grids=build_grids(schema), progress=silent),
    )


def numbers(schema):
    return [name for name in schema.columns if name != "city"]


def test_every_domain_is_learnt(outcome):
    finder, frame, schema, _ = outcome
    assert schema.unknown == ()
    assert {column.origin for column in schema.columns.values()} == {Origin.LEARNT}
    assert schema.declared == Schema.parse(LONG if "income" in schema.columns else SCHEMA)
    assert Schema.parse(schema.to_toml(), released=True) == schema
    city, age = schema.columns["city"], schema.columns["age"]
    assert isinstance(city, CategoricalColumn)
    assert list(city.values) == sorted(city.values)
    told = {
        c["values"]
        for c in frame["city"].value_counts().to_pylist()
        if c["counts"] > finder.laws["city"].threshold
    }
    assert set(city.values) == told
    assert isinstance(age, IntegerColumn)
    assert (age.min, age.max) == (0, 100)


def test_bins_follow_the_rows(outcome):
    """There are 8 to 32 of them, a heap has one of its own, and none that could be cut is much heavier than others."""
    _, frame, schema, _ = outcome
    price = schema.columns["price"]
    for name in {"age", "income"} & set(schema.columns):
        column = schema.columns[name]
        assert isinstance(column, IntegerColumn)
        assert 8 <= column.levels <= DISCOVERY_CONFIG.max_bins
        counts = np.bincount(encode_values(column, frame[name]), minlength=column.size)
        wide = [last > first for first, last in map(column.bounds, range(column.levels))]
        assert counts[: column.levels][wide].max() < len(frame) / 10
        assert name == "age" or {-10_000, 0, 1} <= set(column.starts)
    assert isinstance(price, DecimalColumn)
    for low, high in ((Fraction(99, 100), Fraction(1)), (Fraction(495, 100), Fraction(496, 100))):
        assert {low, high} <= set(price.edges)


def test_the_measured_tables_are_those_of_the_learnt_columns(outcome):
    """Bins, counted on the grid, are the learnt column's own marginal: the model gets what was paid for."""
    finder, frame, schema, items = outcome
    assert [item.marginal.clique for item in items] == [(name,) for name in numbers(schema)]
    asked = {(name, noise.variance) for name, _, noise in finder.asked}
    for item in items:
        (name,) = item.marginal.clique
        assert (name, item.variance) in asked
        codes = encode_values(schema.columns[name], frame[name])
        assert np.bincount(codes, minlength=schema.columns[name].size).tolist() == item.counts.tolist()


def test_every_question_is_a_partition_of_the_codes(outcome):
    finder, _, schema, _ = outcome
    fine = finder._schema
    for name, groups, _ in finder.asked:
        assert groups.shape == (fine.columns[name].size,)
        assert set(groups.tolist()) == set(range(groups.max() + 1))
    assert schema.columns_to_learn == ()


def test_learning_takes_its_share_and_no_more():
    """Six per cent each, a quarter in all; the part of δ is split evenly."""
    columns = "".join(f'[columns.c{n}]\nkind = "categorical"\nvalues = "learn"\n' for n in range(10))
    schema = Schema.parse(columns)
    frame = pa.table({f"c{n}": ["x"] * 50 for n in range(10)})
    finder = Exact(frame, schema)
    discover_domains(lambda _: finder, schema, grids=build_grids(schema), progress=silent)
    assert len(set(finder.laws.values())) == 1
    mechanism = finder.laws["c0"]
    assert mechanism == finder.budget.key_mechanism(Fraction(1, 40), delta=Fraction(1, 10**7))


def test_a_column_of_numbers_takes_its_share_and_no_more(outcome):
    """Each of several columns has its part of what learning takes in all."""
    finder, _, schema, _ = outcome
    most = max_discovery_share(finder.budget) / len(schema.columns)
    for name in numbers(schema):
        spent = [noise for column, _, noise in finder.asked if column == name]
        assert len(spent) >= 5
        share = sum(measure_share(finder.budget, noise, marginals=1) for noise in spent)
        assert Fraction(4, 5) * most < share <= most


@pytest.mark.parametrize("delta", ["0", "1e-5"])
def test_learning_takes_more_the_less_noise_there_is(delta):
    """About a quarter of the budget where noise is wide, two fifths at most; a plan books no less than is taken."""
    budgets = [
        Budget.of(Fraction(e), Fraction(delta), unit=PrivacyUnit()) for e in ("1/100", "1", "10", "1000")
    ]
    shares = [max_discovery_share(budget) for budget in budgets]
    assert shares == sorted(shares)
    assert abs(shares[0] - Fraction(1, 4)) < Fraction(1, 100)
    assert shares[-1] == Fraction(2, 5)
    columns = "".join(
        f'[columns.n{n}]\nkind = "integer"\nmin = 0\nmax = 99\nbins = "learn"\n' for n in range(9)
    )
    schema = Schema.parse(columns + '[columns.c]\nkind = "categorical"\nvalues = "learn"\n')
    for budget in budgets:
        assert discovery_share(schema, budget=budget) <= max_discovery_share(budget)


@pytest.mark.parametrize("text", BOTH, ids=["short", "long"])
def test_no_rows_give_few_bins(text):
    schema = Schema.parse(text)
    finder = Exact(table().slice(0, 0), schema, epsilon=1)
    found, _ = discover_domains(lambda _: finder, schema, grids=build_grids(schema), progress=silent)
    assert found.columns["city"].levels == 0
    assert found.columns["city"].size == 2, "the missing code and everything else"
    assert max(found.columns[name].levels for name in numbers(schema)) <= 4


@cache
def income_grid():
    return DiscoveryGrid.of(
        UnknownBins(name="x", min=Fraction(-(10**6)), max=Fraction(10**6), of=IntegerColumn)
    )


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(2, 16))
def test_parts_of_a_stretch_follow_each_other(first, width, parts):
    income = income_grid()
    last = min(first + width, income.cells)
    if first >= last:
        return
    found = income.split_evenly((first, last), parts)
    assert (found[0][0], found[-1][1]) == (first, last)
    assert all(a[1] == b[0] for a, b in pairwise(found))
    assert all(a < b for a, b in found)
    assert len(found) <= parts
    assert len(found) == parts or last - first < 64 * parts


@given(st.fractions(-(10**9), 10**9), st.fractions(0, 10**6))
def test_the_roundest_number_lies_between(low, width):
    found = find_roundest(low, low + width)
    assert low <= found <= low + width


@pytest.mark.parametrize(
    ("low", "high", "whole", "decimals"),
    [
        ("0", "1", True, None),
        ("-5", "3", True, None),
        pytest.param("0", "9007199254740991", True, None, marks=pytest.mark.slow),
        ("0", "1e-9", False, None),
        ("-1e300", "1e300", False, None),
        ("1e15", "1000000000000001", False, None),
        ("0.1", "0.3", False, 1),
    ],
)
@pytest.mark.slow
def test_every_range_has_a_grid(low, high, whole, decimals):
    of = IntegerColumn if whole else DecimalColumn
    column = UnknownBins(name="x", min=Fraction(low), max=Fraction(high), of=of, decimals=decimals)
    found = DiscoveryGrid.of(column).column
    assert 1 <= found.levels <= LIMITS.max_grid_cells + 2
    assert as_declared(found) == column


# ------------------------------------------------------------------------------------------ releases


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Release:
    schema = Schema.parse(SCHEMA)
    return synthesize(
        table(6000),
        schema=schema,
        epsilon=4,
        delta="1e-6",
        ledger=tmp_path_factory.mktemp("l") / "l.db",
        seed=1,
    )


@pytest.fixture
def folder(release, tmp_path) -> Path:
    release.save(tmp_path / "out")
    return tmp_path / "out"


def failed(folder: Path) -> list[str]:
    return [check.name for check in verify(folder).checks if not check.passed]


def edit(folder: Path, name: str, change) -> None:
    told = json.loads((folder / name).read_text(encoding="utf-8"))
    change(told)
    (folder / name).write_text(json.dumps(told), encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"] = {file: digest_file(folder / file) for file in manifest["files"]}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.slow
def test_a_release_with_learnt_domains_verifies_and_says_so(release, folder):
    assert failed(folder) == []
    told = release.statement
    assert {line["origin"] for line in told["domains"]} == {"learnt"}
    assert (told["epsilon_exact"], told["delta_exact"]) == ("4", "1e-6")
    assert told["delta_parts"]["keys"] == "1e-7"
    assert Fraction(told["delta_parts"]["keys_used"]) <= Fraction("1e-7")
    discovered = [line for line in told["spends"] if line["verb"] == "discover"]
    assert discovered[0]["what"] == "values of 'city'"
    assert Fraction(discovered[0]["delta"]) == Fraction(told["delta_parts"]["keys_used"])
    assert all("delta" not in line for line in told["spends"] if line is not discovered[0])
    assert "were learnt with budget" in " ".join(told["not_covered"])
    page = (folder / "statement.md").read_text(encoding="utf-8")
    assert "of which 1e-7 for values or rows of one row alone" in page
    assert "learn values of 'city'" in page
    assert "learn bins of 'age'" in page
    assert release.measurements.record.used <= release.measurements.record.cap
    assert Release.load(folder).measurements.schema == release.measurements.schema


@pytest.mark.slow
def test_measurements_keep_to_the_schema_that_was_paid_for(release, tmp_path):
    release.measurements.save(tmp_path)
    assert Measurements.load(tmp_path).digest == release.measurements.digest
    path = tmp_path / "measurements.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["record"]["schema_digest"] = "0" * 64
    path.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ReleaseError, match="do not belong together"):
        Measurements.load(tmp_path)


def test_a_learnt_domain_called_declared_fails(folder):
    def declare(told):
        told["schema"] = told["schema"].replace('origin = "learnt"', 'origin = "declared"', 1)

    edit(folder, "codebook.json", declare)
    assert {"parents", "domains"} <= set(failed(folder))


@pytest.mark.slow
def test_a_domain_that_was_not_paid_for_fails(release, tmp_path):
    record = release.measurements.record
    unpaid = tuple(charged for charged in record.spends if charged.spend.what != "values of 'city'")
    measurements = replace(release.measurements, record=replace(record, spends=unpaid))
    model = replace(release.model, measurements_digest=measurements.digest)
    replace(release, measurements=measurements, model=model, ledger=None).save(tmp_path / "out")
    assert failed(tmp_path / "out") == ["domains"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", ["too little of delta", "too much told", "no part"])
def test_a_record_that_hides_keys_fails(fault, release, tmp_path):
    record = release.measurements.record
    changes = {
        "too little of delta": {"spends": (replace(record.spends[0], delta=Fraction(0)), *record.spends[1:])},
        "too much told": {"keys": record.used_delta_reserve / 2},
        "no part": {"keys": Fraction(0)},
    }[fault]
    measurements = replace(release.measurements, record=replace(record, **changes))
    model = replace(release.model, measurements_digest=measurements.digest)
    replace(release, measurements=measurements, model=model, ledger=None).save(tmp_path / "out", report=False)
    assert "budget" in failed(tmp_path / "out")


def test_a_column_without_any_told_value_can_be_released(tmp_path):
    """Every row holds a value of its own: none is told (but once in five million runs); all have the other code."""
    schema = Schema.parse('[columns.name]\nkind = "categorical"\nvalues = "learn"\nother = "somebody"\n')
    frame = pa.table({"name": [f"n{k}" for k in range(2000)]})
    release = synthesize(frame, schema=schema, epsilon=2, delta="1e-9", ledger=tmp_path / "l.db", dataset="d")
    assert set(release.table["name"].to_pylist()) == {"somebody"}
    release.save(tmp_path / "out")
    assert failed(tmp_path / "out") == []


@pytest.mark.slow
def test_work_is_linear_in_the_rows(tmp_path):
    """A column of 200,000 different texts: read, counted and told nothing of, in seconds.

    Each may be told with a chance of 1e-7, so one run of fifty would tell some; the seed is fixed.
    """
    schema = Schema.parse('[columns.name]\nkind = "categorical"\nvalues = "learn"\n')
    frame = pa.table({"name": [f"name {k}" for k in range(200_000)]})
    noise = ExactNoise(RehearsalEntropy(1))
    options = {"epsilon": 2, "delta": "1e-6", "ledger": tmp_path / "l.db", "dataset": "d", "noise": noise}
    found = measure(frame, schema=schema, **options)
    assert found.schema.columns["name"].levels == 0
    assert abs(int(found.items[0].counts)) < MAX_ESTIMATE_ROWS


def test_bins_are_learnt_on_rows_read_with_the_learnt_values(tmp_path):
    """A rule between a column of learnt values and one of learnt bins moves no row that it leaves alone later."""
    schema = Schema.parse("""
[columns.city]
kind = "categorical"
values = "learn"

[columns.age]
kind = "integer"
min = 0
max = 99
bins = "learn"
universe = "city is not missing"
outside = "N"
""")
    rng = np.random.default_rng(1)
    frame = pa.table({"city": ["Ulm", "Bonn"] * 1500, "age": rng.integers(0, 60, 3000)})
    found = measure(
        frame, schema=schema, epsilon=20, delta="1e-6", method="independent", ledger=tmp_path / "ledger.db"
    )
    levels = [m for m in found.items if m.marginal.clique == ("age",)]
    assert len(levels) == 2
    assert levels[0].counts[-1] < 200, "hardly a row is outside the universe"
