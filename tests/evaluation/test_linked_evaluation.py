"""Linked tables: scores of each, what goes across them, and files that do not belong together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.simulation.linked_population import simulate_households, simulate_households_by_area

HOMES = pp.Schema.parse("""
[table]
unit = "household"
[tables.household]
key = "id"
[tables.household.columns.tenure]
kind = "categorical"
values = ["owned", "rented"]
[tables.person]
of = "household"
key = "id"
max_rows = 2
size = "persons"
order = ["age desc"]
[tables.person.columns.age]
kind = "integer"
min = 0
max = 3
[tables.person.columns.works]
kind = "categorical"
values = ["yes", "no"]
universe = "age >= 1"
outside = "N"
[[zeros]]
when = "tenure == 'owned' and age.1 < 1"
""")


def tables(tenure: list[str], persons: list[tuple[int, int, str]]) -> dict[str, pa.Table]:
    keys, ages, works = (list(part) for part in zip(*persons, strict=True))
    return {
        "household": pa.table({"id": list(range(len(tenure))), "tenure": tenure}),
        "person": pa.table({"id": keys, "age": ages, "works": works}),
    }


REAL = tables(["owned", "rented", "rented"], [(0, 3, "yes"), (0, 2, "no"), (1, 1, "yes"), (2, 0, "N")])


def test_equal_tables_agree_in_both_and_across() -> None:
    found = pp.evaluate(REAL, {name: table.slice(0) for name, table in REAL.items()}, schema=HOMES)
    for name in (
        "tv_pairs_across",
        "tv_pairs_within",
        "household_tv_pairs",
        "person_tv_pairs",
        "link_violations",
    ):
        assert found[name].value == 0.0, name
    assert found["household_k_marginal"].value == found["person_k_marginal"].value == 1000.0
    assert found["rule_violations"].value == 0.0
    assert {each.name for each in found.columns} == {
        "household.tenure",
        "household.persons",
        "person.age",
        "person.works",
    }


def test_what_goes_across_is_seen_where_both_tables_agree() -> None:
    # The same households and the same persons, but the persons of two households have exchanged their homes.
    turned = tables(["rented", "owned", "rented"], [(0, 3, "yes"), (0, 2, "no"), (1, 1, "yes"), (2, 0, "N")])
    found = pp.evaluate(REAL, turned, schema=HOMES)
    assert found["person_tv_pairs"].value == found["tv_pairs_within"].value == 0.0
    # Of four persons three live in another home: with their age, or whether they work, each makes up a cell.
    across = {each.columns: each.distance for each in found.pairs}
    assert across["household.tenure", "person.age"] == 0.75
    assert found["tv_pairs_across"].value > 0


def test_members_of_one_unit_are_compared_with_each_other() -> None:
    mixed = tables(["owned", "rented", "rented"], [(0, 3, "yes"), (0, 0, "N"), (1, 1, "yes"), (2, 2, "no")])
    found = pp.evaluate(REAL, mixed, schema=HOMES)
    assert found["person_tv_columns"].value == 0.0
    assert {each.columns: each.distance for each in found.pairs}[
        "person.age.1", "person.age.2"
    ] == pytest.approx(2 / 3)


def test_keys_that_do_not_fit_and_rules_across_tables_are_counted() -> None:
    lost = tables(["owned", "rented", "rented"], [(0, 0, "N"), (0, 0, "N"), (7, 1, "yes"), (2, 0, "N")])
    lost["household"] = lost["household"].set_column(0, "id", pa.array([0, 1, 1]))
    found = pp.evaluate(REAL, lost, schema=HOMES)
    # One household repeats a key, and the persons of 7 and 2 have no household: 3 of 7 rows.
    assert found["link_violations"].value == pytest.approx(3 / 7)
    assert found["rule_violations"].value == pytest.approx(1 / 3)


@pytest.mark.parametrize("options", [{"weights": "w"}, {"income": "age"}])
def test_what_belongs_to_one_table_is_refused(options) -> None:
    with pytest.raises(UsageError, match="the schema links two"):
        pp.evaluate(REAL, REAL, schema=HOMES, **options)


def test_one_file_of_two_is_refused() -> None:
    with pytest.raises(UsageError, match="one synthetic file is given"):
        pp.evaluate(REAL, REAL["person"], schema=HOMES)
    with pytest.raises(UsageError, match="no column 'tenyure'"):
        pp.evaluate(REAL, REAL, schema=HOMES, areas=["tenyure"])


@pytest.mark.slow
def test_the_folder_of_a_release_is_compared_with_both_files(tmp_path) -> None:
    real, schema = simulate_households(households=300)
    release = pp.synthesize(
        real, schema=schema, epsilon=1, delta="1e-9", method="independent", ledger=tmp_path / "ledger.db"
    )
    release.save(tmp_path / "release", report=False)
    for name, table in real.items():
        pacsv.write_csv(table, tmp_path / f"{name}.csv")
    files = {name: tmp_path / f"{name}.csv" for name in real}
    found = pp.evaluate(files, tmp_path / "release", schema=schema, areas=["region"])
    frames = pp.evaluate(real, release.table, schema=schema, areas=["region"])
    assert found.scores == frames.scores
    assert found["rule_violations"].value == found["link_violations"].value == 0.0
    assert 0 < found["household_tv_pairs"].value < found["tv_pairs_across"].value < 1
    assert np.isfinite([score.value for score in found.scores]).all()
    found.save(tmp_path / "evaluation")
    assert "household.tenure" in (tmp_path / "evaluation" / "evaluation.html").read_text("utf-8")


@pytest.mark.slow
def test_a_hierarchical_release_of_linked_tables_is_compared(tmp_path) -> None:
    real, schema = simulate_households_by_area(households=400)
    release = pp.synthesize(real, schema=schema, epsilon=8, delta="1e-9", ledger=tmp_path / "ledger.db")
    found = pp.evaluate(real, release.table, schema=schema, areas=["region"])
    assert found["link_violations"].value == 0.0
    assert 0 < found["household_tv_columns"].value < found["household_tv_pairs"].value < 0.5
    assert found["household_k_marginal_areas"].value > 500
