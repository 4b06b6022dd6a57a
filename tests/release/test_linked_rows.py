"""Two released tables: wide rows taken apart and joined again, and a folder that verifies."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import ReleaseError, UsageError
from populace.release.linked_rows import fold, unfold
from populace.simulation.linked_population import simulate_households
from tests.helpers.linked_files import linked_schema

DERIVED = """
[tables.person.columns.grown]
kind = "categorical"
values = ["yes", "no"]
function_of = ["sex"]
map = { f = "yes", m = "no", "" = "no" }

[tables.person.columns.born]
kind = "date"
min = "1990-01-01"
max = "2000-12-31"
width = "year"

[tables.person.columns.wage]
kind = "integer"
min = 0
max = 4999
split = 100
"""


def make_release(tmp_path, **options):
    """Return a release of 300 made-up households."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 5, 300)
    homes = pa.table({"home": np.arange(300), "tenure": rng.choice(["owned", "rented"], 300)})
    key = np.repeat(np.arange(300), sizes)
    first = np.diff(key, prepend=-1) > 0
    people = pa.table(
        {
            "lives_in": key,
            "relationship": np.where(first, "head", rng.choice(["spouse", "child"], len(key))),
            "age": np.where(first, 45, rng.integers(0, 99, len(key))),
            "sex": rng.choice(["f", "m"], len(key)),
            "work": rng.choice(["yes", "no"], len(key)),
        }
    )
    data = {"household": homes, "person": people}
    asked = {
        "schema": linked_schema(most=3),
        "epsilon": 20,
        "delta": "1e-9",
        "ledger": tmp_path / "ledger.db",
    }
    return pp.synthesize(data, **asked, **options)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("linked"), seed=3)


def test_tables_are_joined_by_a_key_of_their_own(release):
    homes, people = (release.table[name].to_pandas() for name in ("household", "person"))
    assert homes.home.tolist() == list(range(1, len(homes) + 1))
    assert (
        people.groupby("lives_in").size().reindex(homes.home, fill_value=0).tolist() == homes.number.tolist()
    )
    assert homes.columns.tolist() == ["home", "tenure", "number"]
    assert people.columns.tolist() == ["lives_in", "relationship", "age", "sex", "work"]
    assert people.age.dtype == np.int64
    assert ((people.age < 15) == (people.work == "N")).all()
    heads = people[people.relationship == "head"]
    assert (heads.lives_in.to_numpy() == homes.home.to_numpy()).all()
    assert (heads.age >= 15).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_holds_both_tables_and_verifies(release, kind, tmp_path):
    release.save(tmp_path / "out", format=kind, report=kind == "csv")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"synthetic-household.{kind}", f"synthetic-person.{kind}"} <= names
    assert f"synthetic.{kind}" not in names
    again = pp.Release.load(tmp_path / "out")
    assert again.synthetic.equals(release.synthetic)
    verdict = pp.verify(tmp_path / "out", ledger=release.ledger)
    assert verdict.verified, [check for check in verdict.checks if not check.passed]


def test_implicates_and_conditions(tmp_path):
    release = make_release(tmp_path, seed=3, implicates=2, where="tenure == 'owned' and age.1 >= 30", rows=50)
    release.save(tmp_path / "out", report=False)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"synthetic-household-2.parquet", "synthetic-person-2.parquet"} <= names
    assert pp.verify(tmp_path / "out").passed
    assert len(release.tables) == 2
    assert set(release.tables[1]["household"]["tenure"].to_pylist()) == {"owned"}


def test_statement_and_codebook_name_tables_columns_and_the_unit(release, tmp_path):
    release.save(tmp_path / "out", report=False)
    stated = json.loads((tmp_path / "out" / "statement.json").read_text())
    assert (stated["unit"], stated["linked"]["max_rows"]) == ("household", 3)
    page = (tmp_path / "out" / "statement.md").read_text()
    assert "any one household with at most 3 rows of “person”" in page
    assert "A whole household is protected" in page
    assert "in every household exactly one person, the first: relationship == 'head'" in stated["rules"]
    book = json.loads((tmp_path / "out" / "codebook.json").read_text())
    assert [(each["table"], each["name"]) for each in book["columns"]] == [
        ("household", "tenure"),
        ("household", "number"),
        *(("person", name) for name in ("relationship", "age", "sex", "work")),
    ]
    assert not any("absent" in json.dumps(each) for each in book["columns"])
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["linked"] == ["household", "person"]
    assert "synth household=DATA person=DATA" in manifest["command"]


def test_wide_rows_come_back_from_two_tables(tmp_path):
    """Derived columns, dates and split numbers too, for every number of persons."""
    text = linked_schema(most=3, roles=False).to_toml() + DERIVED
    schema = pp.Schema.parse(text)
    assert pp.Schema.parse(schema.to_toml()) == schema
    rng = np.random.default_rng(2)
    homes = pa.table({"home": np.arange(40), "tenure": ["owned", "rented"] * 20})
    key = np.repeat(np.arange(40), rng.integers(0, 5, 40))
    people = pa.table(
        {
            "lives_in": key,
            "relationship": ["child"] * len(key),
            "age": rng.integers(0, 99, len(key)),
            "sex": rng.choice(["f", "m"], len(key)),
            "work": ["yes"] * len(key),
            "born": np.datetime64("1995-05-05") + rng.integers(0, 300, len(key)),
            "wage": rng.integers(0, 4999, len(key)),
        }
    )
    data = {"household": homes, "person": people}
    asked = {"schema": schema, "epsilon": 50, "delta": "1e-9", "method": "independent", "seed": 1}
    release = pp.synthesize(data, ledger=tmp_path / "l.db", **asked)
    wide, linked = release.synthetic, schema.linked
    assert linked is not None
    assert fold(unfold(wide, schema=schema, linked=linked), schema=schema, linked=linked).equals(wide)
    release.save(tmp_path / "out", format="csv", report=False)
    assert pp.verify(tmp_path / "out").passed
    derived = release.table["person"].to_pandas()
    assert ((derived.sex == "f") == (derived.grown == "yes")).all()


@pytest.mark.parametrize("fault", ["key", "order", "size", "orphan", "more"])
def test_tables_that_do_not_belong_together_are_refused(release, fault):
    schema = release.measurements.schema
    linked = schema.linked
    tables = unfold(release.synthetic, schema=schema, linked=linked)
    homes, people = (tables[name].to_pandas() for name in ("household", "person"))
    if fault == "key":
        homes.loc[0, "home"] = 7
    elif fault == "order":
        people = people.iloc[::-1]
    elif fault == "size":
        homes.loc[0, "number"] += 1
    elif fault == "orphan":
        people.loc[len(people) - 1, "lives_in"] = len(homes) + 1
    else:
        people = pd.concat([people.iloc[:1]] * 4 + [people.iloc[1:]])
    altered = {
        name: pa.Table.from_pandas(frame, schema=tables[name].schema, preserve_index=False)
        for name, frame in (("household", homes), ("person", people))
    }
    with pytest.raises(ReleaseError):
        fold(altered, schema=schema, linked=linked)


def test_work_that_knows_one_table_refuses_two(tmp_path):
    tables, schema = simulate_households(households=5)
    asked = {"schema": schema, "epsilon": 1, "delta": "1e-9", "ledger": tmp_path / "l.db"}
    with pytest.raises(UsageError, match="public table"):
        pp.synthesize(tables, public=tables["person"], **asked)
    with pytest.raises(UsageError, match="one table"):
        pp.synthesize(tables["person"], **asked)
    with pytest.raises(UsageError, match="declares one table"):
        pp.synthesize(tables, **{**asked, "schema": pp.Schema.from_sizes({"age": 3})})
    assert not (tmp_path / "l.db").exists()
