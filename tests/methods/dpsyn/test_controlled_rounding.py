"""Rows counted out area by area: from noisy counts alone, as the source has it where that moves few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from populace.api import synthesize as synthesize_api
from populace.core.errors import SchemaError, UsageError
from populace.core.marginals import Domain
from populace.inference.model import Model
from populace.methods.dpsyn.dpsyn_model import condition_on_areas, round_area_counts
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema

SCHEMA = Schema.parse(
    '[table]\ndataset = "areas"\npartition = ["year", "area"]\n\n'
    + "".join(
        f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = 2\nother = "0"\n\n'
        for name in ("area", "year", "pay")
    )
)


def people(rows, *, seed):
    rng = np.random.default_rng(seed)
    area = rng.choice(3, rows, p=[0.6, 0.38, 0.02])
    pay = np.where(rng.random(rows) < 0.7, area, rng.integers(0, 3, rows))
    return pa.table({"area": area, "year": rng.integers(0, 3, rows), "pay": pay})


def run(schema, *, people_in=40_000, epsilon="8", ledger, **options):
    return synthesize_api.synthesize(
        people(people_in, seed=1),
        schema=schema,
        epsilon=epsilon,
        delta="1e-6",
        method="dpsyn",
        public=people(2000, seed=2),
        ledger=ledger,
        noise=ExactNoise(RehearsalEntropy(4)),
        seed=0,
        **options,
    )


def by_area(table):
    counts = np.zeros((3, 3), np.int64)
    np.add.at(counts, (table["area"].to_numpy().astype(int), table["year"].to_numpy().astype(int)), 1)
    return counts


def test_areas_are_raised_and_rounded_as_in_the_source():
    large = np.array([[2951.0, 1204.4, 880.0], [295.2, 1500.0, 310.0]])
    assert round_area_counts(large, usual=100).tolist() == [[3000, 1200, 900], [300, 1500, 300]]
    assert round_area_counts(large, usual=10).tolist() == [[2950, 1200, 880], [300, 1500, 310]]
    assert round_area_counts(large, least=400, step=50).tolist() == [[2950, 1200, 900], [400, 1500, 400]]


def test_small_areas_are_left_as_they_are():
    """A hundred areas of 70 rows would become 30,000 rows; and none of them is a multiple of 100."""
    small = np.full(100, 70.4)
    assert set(round_area_counts(small)) == {70}
    some = np.where(np.arange(100) < 3, 900.0, 0.0)
    assert round_area_counts(some).sum() == 2700
    assert (round_area_counts(np.array([3.6, 0.4, 2.7])) == [4, 0, 3]).all()
    # What the schema says is done, whatever it moves.
    assert round_area_counts(small, least=300, step=1).sum() == 30_000


def test_rounding_leaves_no_area_below_the_least_number_and_not_all_of_them_empty():
    assert round_area_counts(np.array([140.0, 2400.0]), least=149, step=100).tolist() == [200, 2400]
    assert round_area_counts(np.array([2400.0, 5000.0, 260.0]), step=290).tolist() == [2320, 4930, 580]
    # Nobody has half a step: what has rows gets one.
    assert round_area_counts(np.array([40.0, 3.0, 0.2]), least=0, step=100).tolist() == [100, 100, 0]
    assert round_area_counts(np.array([0.1, 0.2]), least=0, step=100).sum() == 0
    allowed = np.array([True, False])
    assert round_area_counts(np.array([4.0, 9.0]), least=1, step=10, allowed=allowed).tolist() == [10, 0]


@pytest.mark.parametrize("key", ["partition_least", "partition_step"])
def test_rows_by_area_that_cannot_be_drawn_are_refused_before_anything_is_spent(key, tmp_path):
    with pytest.raises(UsageError, match=f"{key} = 1000000000000 asks for up to 9e.12 rows in 9 areas"):
        run(replace(SCHEMA, **{key: 10**12}), ledger=tmp_path / "l.db")
    with pytest.raises(UsageError, match="the most is 67108864"):
        run(replace(SCHEMA, max_rows=50_000, **{key: 2**23}), ledger=tmp_path / "l.db")
    text = SCHEMA.to_toml().replace("max = 2", "max = 299")
    with pytest.raises(UsageError, match=f"{key} is given, but the partition has 9e.04 areas"):
        run(replace(Schema.parse(text), **{key: 1}), ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()


def test_areas_that_cannot_be_have_no_rows():
    allowed = np.array([True, False, True])
    assert round_area_counts(np.array([500.0, 20.0, 90.0]), least=100, step=10, allowed=allowed).tolist() == [
        500,
        0,
        100,
    ]


def test_a_model_that_holds_areas_is_as_before_given_the_area():
    rng = np.random.default_rng(0)
    domain = Domain({"a": 3, "b": 2, "x": 4})
    potentials = {("a", "x"): rng.normal(size=(3, 4)), ("b", "x"): rng.normal(size=(2, 4))}
    model = Model(domain=domain, groupings={}, potentials=potentials, total=50.0, within={})
    rows = np.array([[10, 0], [7, 3], [0, 20]])
    held = condition_on_areas(model, ("a", "b"), rows)
    assert held.exact == (("a", "b"),)
    assert held.total == 40
    assert held.marginal(("a", "b")) == pytest.approx(rows)
    tables = [each.marginal(("a", "b", "x")) for each in (model, held)]
    before, after = (table / table.sum(axis=2, keepdims=True).clip(1e-12) for table in tables)
    assert after[rows > 0] == pytest.approx(before[rows > 0])


@pytest.mark.parametrize("inference", ["tree", "gum"])
def test_every_area_has_the_rows_that_were_counted_out(inference, tmp_path):
    made = run(SCHEMA, ledger=tmp_path / "l.db", inference=inference)
    counts = by_area(made.synthetic)
    assert counts.min() >= 300
    assert (counts % 100 == 0).all()
    real = by_area(people(40_000, seed=1))
    assert real.min() < 290
    assert np.abs(counts - np.maximum(real, 300)).max() < 50 + 6 * 25 * 2**0.5
    assert made.model.total == counts.sum() == made.synthetic.num_rows


def test_rows_that_are_asked_for_are_shared_out_over_areas(tmp_path):
    made = run(replace(SCHEMA, partition_least=1000, partition_step=500), ledger=tmp_path / "l.db", rows=999)
    assert made.synthetic.num_rows == 999
    held = made.model.marginal(("area", "year"))
    assert (np.rint(held) % 500 == 0).all()
    assert np.abs(by_area(made.synthetic) - 999 * held / held.sum()).max() < 1


def test_the_steps_of_areas_are_part_of_the_schema():
    schema = replace(SCHEMA, partition_least=0, partition_step=1)
    assert Schema.parse(schema.to_toml()) == schema != SCHEMA
    assert Schema.parse(SCHEMA.to_toml()).partition_least is None
    for wrong in ({"partition_least": -1}, {"partition_step": 0}, {"partition": (), "partition_step": 10}):
        with pytest.raises(SchemaError, match="partition_"):
            replace(SCHEMA, **wrong)


def test_years_that_the_public_table_does_not_have_are_as_they_were_counted(tmp_path):
    """Nothing but areas is measured at this ε; the public table has another year, and areas much like these."""
    later, earlier = (
        people(40_000, seed=1 + n).set_column(1, "year", pa.array([2 - n] * 40_000)) for n in (0, 1)
    )
    made = synthesize_api.synthesize(
        later,
        schema=replace(SCHEMA, partition_least=0),
        epsilon="0.02",
        delta="0",
        method="dpsyn",
        public=earlier,
        ledger=tmp_path / "l.db",
        noise=ExactNoise(RehearsalEntropy(4)),
        seed=0,
    )
    counts = by_area(made.synthetic)
    assert counts[:, 2].sum() > 0.98 * counts.sum()
    # Beside the public shares, areas err by less than the noise of their sums over years: 50·√2 a cell.
    assert np.abs(counts.sum(axis=1) - by_area(later).sum(axis=1)).max() < 3 * 50 * 2**0.5 * 3**0.5
