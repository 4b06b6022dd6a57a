"""Two files, all scores: stable to the last digit, whatever the order of rows, and in their stated directions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.core.errors import DataError, UsageError
from populace.core.run_state import run_state
from populace.core.table_address import TableAddress
from populace.evaluation.compared_rows import read_both
from populace.private.read.sources import FrameSource
from populace.schema.schema import Schema
from tests.helpers.corruptions import CORRUPTIONS, corrupt, is_worse

SCHEMA = Schema.parse("""
[columns.AREA]
kind = "categorical"
values = ["north", "south", "west"]
other = "north"
[columns.SEX]
kind = "categorical"
values = ["f", "m"]
[columns.AGE]
kind = "integer"
min = 0
max = 99
[columns.JOB]
kind = "categorical"
values = ["yes", "no"]
universe = "AGE >= 15"
outside = "N"
[columns.INCOME]
kind = "integer"
min = 0
max = 100000
""")


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    sex = rng.choice(["f", "m"], rows)
    job = np.where(age < 15, "N", np.where(rng.random(rows) < 0.6, "yes", "no"))
    income = np.where(job == "yes", 300 * age + 4000 * (sex == "m") + rng.integers(0, 20_000, rows), 0)
    return pa.table(
        {
            "AREA": rng.choice(["north", "south", "west"], rows, p=[0.5, 0.3, 0.2]),
            "SEX": sex,
            "AGE": age,
            "JOB": job,
            "INCOME": income,
            "WEIGHT": rng.integers(1, 5, rows) / 2,
        }
    )


def evaluate(real: pa.Table, synthetic: pa.Table) -> pp.Evaluation:
    return pp.evaluate(
        real, synthetic, schema=SCHEMA, weights="WEIGHT", areas=["AREA"], income="INCOME", gender="SEX"
    )


@pytest.fixture(scope="module")
def found() -> pp.Evaluation:
    return evaluate(people(1200, 1), people(1000, 2))


def test_every_score_has_a_value_an_interval_around_it_a_direction_and_its_limits(found) -> None:
    names = [score.name for score in found.scores]
    assert len(set(names)) == len(names)
    assert {"tv_columns", "tv_pairs", "tv_triples", "k_marginal", "equivalent_sample_size"} <= set(names)
    assert {"propensity_ratio", "conjunctions", "income_gap", "rule_violations", "tv_pairs_weighted"} <= set(
        names
    )
    for name, score in found.to_json().items():
        if name in ("format", "marking", "about"):
            continue
        assert score["interval"][0] <= score["value"] <= score["interval"][1], name
        assert score["direction"] in ("higher", "lower")
        assert score["scale"]
        assert score["blind_to"]
    assert found["k_marginal"].value == pytest.approx(1000 * (1 - found["tv_pairs"].value))
    assert "INTERNAL" in found.to_json()["marking"]
    assert "INTERNAL" in found._repr_html_()


@pytest.mark.slow
def test_the_order_of_rows_changes_no_digit(found) -> None:
    rng = np.random.default_rng(3)
    real, synthetic = people(1200, 1), people(1000, 2)
    turned = evaluate(
        real.take(rng.permutation(real.num_rows)), synthetic.take(rng.permutation(synthetic.num_rows))
    )
    assert turned.to_json() == found.to_json()
    assert turned.pairs == found.pairs
    assert turned.groups == found.groups


@pytest.mark.slow
def test_weights_change_no_score_but_their_own(found) -> None:
    plain = pp.evaluate(people(1200, 1), people(1000, 2), schema=SCHEMA, areas=["AREA"]).to_json()
    both = [name for name in plain if name in found.to_json() and name not in ("about",)]
    assert {name: plain[name] for name in both} == {name: found.to_json()[name] for name in both}


@pytest.mark.slow
def test_files_of_both_formats_and_frames_give_the_same(tmp_path: Path) -> None:
    real, synthetic = people(300, 4), people(300, 5)
    pacsv.write_csv(real, tmp_path / "real.csv")
    pq.write_table(synthetic, tmp_path / "synthetic.parquet")
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    files = pp.evaluate(
        tmp_path / "real.csv", str(tmp_path / "synthetic.parquet"), schema=tmp_path / "schema.toml"
    )
    frames = pp.evaluate(real.to_pandas(), synthetic, schema=SCHEMA)
    assert files.names == ("real.csv", "synthetic.parquet")
    assert files.scores == frames.scores


@pytest.mark.parametrize("name", ["shuffle a column", "add noise rows"])
def test_a_corruption_moves_every_score_that_sees_it_and_betters_none(name) -> None:
    real = people(1500, 6)
    good, bad = (evaluate(real, table) for table in (real, corrupt(real, name, seed=7)))
    better = [score.name for score in good.scores if is_worse(score, bad[score.name])]
    assert better == []
    for seen in CORRUPTIONS[name].seen:
        assert is_worse(bad[seen], good[seen]), seen


@pytest.mark.slow
def test_a_parity_is_invisible_to_pairs_and_triples_but_not_to_conjunctions_and_propensity() -> None:
    rng = np.random.default_rng(8)
    even = rng.integers(0, 2, (3000, 6))
    even[:, 3] = even[:, 0] ^ even[:, 1] ^ even[:, 2]
    plain, other = rng.integers(0, 2, (2, 3000, 6))
    other[:, 3] = other[:, 0] ^ other[:, 1] ^ other[:, 2]
    real, independent, alike = (
        pa.table({f"c{k}": table[:, k] for k in range(6)}) for table in (even, plain, other)
    )
    schema = Schema.from_sizes({f"c{k}": 2 for k in range(6)})
    lost, kept = (pp.evaluate(real, table, schema=schema) for table in (independent, alike))
    # Both are samples as far as triples tell: their distances differ by chance alone, a tenth of what the parity is.
    assert lost["tv_triples"].value == pytest.approx(kept["tv_triples"].value, abs=0.015)
    assert lost["propensity_ratio"].value > 3 * kept["propensity_ratio"].value
    assert lost["conjunctions"].interval[1] < kept["conjunctions"].interval[0]


def test_cells_outside_the_domain_and_broken_rules_are_counted_as_they_are() -> None:
    real, synthetic = people(200, 9), people(200, 10)
    odd = synthetic.set_column(0, "AREA", pa.array(["mars"] * 7 + synthetic["AREA"].to_pylist()[7:]))
    odd = odd.set_column(3, "JOB", pa.array(["yes"] * 200))
    found = pp.evaluate(real, odd, schema=SCHEMA)
    young = int((np.array(odd["AGE"]) < 15).sum())
    assert {each.name: each.outside for each in found.columns}["AREA"] == (0, 7)
    assert found["rule_violations"].value == young / 200
    assert [(rule.real, rule.synthetic) for rule in found.rules] == [(0, young)]


def test_columns_of_very_many_numbers_are_compared_in_bins_of_real_rows() -> None:
    found = pp.evaluate(people(500, 11), people(500, 12), schema=SCHEMA)
    income = next(each for each in found.columns if each.name == "INCOME")
    assert income.codes <= 34
    assert income.distance < 0.3


def test_what_cannot_be_compared_is_refused_with_a_hint() -> None:
    table = people(50, 13)
    with pytest.raises(DataError, match="the synthetic file: the data has no column 'SEX'"):
        pp.evaluate(table, table.drop_columns(["SEX"]), schema=SCHEMA)
    with pytest.raises(UsageError, match="no column 'AERA'"):
        pp.evaluate(table, table, schema=SCHEMA, areas=["AERA"])
    with pytest.raises(UsageError, match="income-gap score needs"):
        pp.evaluate(table, table, schema=SCHEMA, income="INCOME")
    with pytest.raises(DataError, match="no rows"):
        pp.evaluate(table, table.slice(0, 0), schema=SCHEMA)
    with pytest.raises(DataError, match="of weights"):
        pp.evaluate(table, table, schema=SCHEMA, weights="WEIHGT")


def test_one_column_and_one_row_are_enough() -> None:
    table = pa.table({"a": [1]})
    found = pp.evaluate(table, table, schema=Schema.from_sizes({"a": 2}))
    assert found["tv_columns"].value == 0.0
    assert json.dumps(found.to_json(), allow_nan=False)


def test_claims_that_do_not_survive_come_first() -> None:
    table = pa.table({"a": [0, 0, 0, 1], "b": [0, 1, 0, 1]})
    other = pa.table({"a": [1, 1, 1, 0], "b": [0, 1, 0, 1]})
    schema = Schema.from_sizes({"a": 2, "b": 2})
    text = '[[claims]]\nclaim = "share(b == 1) < 0.6"\n[[claims]]\nclaim = "share(a == 1) < 0.5"\n'
    found = pp.evaluate(table, other, schema=schema, claims=pp.Claims.parse(text, schema=schema))
    assert [each.survives for each in found.findings] == [False, True]
    assert found["findings_survive"].value == 0.5
    assert [each["survives"] for each in found.to_json()["findings"]] == [False, True]


def test_rows_that_stand_for_several_people_count_as_often() -> None:
    schema = replace(Schema.from_sizes({"a": 2, "b": 3}), frequency="n")
    counted = pa.table({"a": [0, 1, 1, 0], "b": [0, 2, 1, 2], "n": [5, 1, 2, 0]})
    people = {name: np.repeat(np.array(counted[name]), [5, 1, 2, 0]) for name in "ab"}
    other = pa.table({"a": [0, 1, 1], "b": [0, 1, 1]})
    found = pp.evaluate(counted, other, schema=schema)
    plain = pp.evaluate(pa.table(people), other, schema=Schema.from_sizes({"a": 2, "b": 3}))
    assert found.rows == (8, 3)
    assert found.scores == plain.scores
    with pytest.raises(DataError, match="the real file has no column 'n'"):
        pp.evaluate(other, counted, schema=schema)


def test_a_database_is_left_as_soon_as_its_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    people = pa.table({"a": [0, 1, 1]})

    def open_database(address: TableAddress) -> FrameSource:
        return FrameSource(people, close=lambda: closed.append(address.table))

    monkeypatch.setattr("populace.private.read.databases.open_database.open_database", open_database)
    monkeypatch.setattr("populace.private.read.rows_to_codes.open_database", open_database)
    with run_state():
        read_both("postgresql://h/db::people", people, schema=pp.Schema.from_sizes({"a": 2}))
        assert closed == ["people"]
