"""The made-up population repeats, keeps to its schema, and looks like people; its survey has known probabilities."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from populace.api.synthesize import synthesize
from populace.release.verify.verify_rows import find_column_outside
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.schema import Schema
from populace.simulation.households import AREAS, AREAS_IN, REGION_SHARES, stratum_of
from populace.simulation.population import POPULATION_SCHEMA, draw_population, simulate_population
from populace.simulation.portable_draws import NORMAL_QUANTILES, NORMAL_SHARES
from populace.simulation.sample_survey import AREAS_DRAWN, draw_sample, simulate_survey

pytestmark = pytest.mark.sampled(4)

DIGEST = "1ca112c4958eb728edcfc9c807675b731e1fb5f7ae16256d0bdc87003dc5a51e"
DESIGN = ["household_id", "stratum", "psu", "weight"]
WORKS = ["employed", "self-employed"]


@pytest.fixture(scope="module")
def everybody() -> pd.DataFrame:
    return simulate_population()[0].to_pandas()


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return simulate_survey()[0].to_pandas()


def amounts(frame: pd.DataFrame, name: str = "income") -> pd.Series:
    """Return a column's numbers, without its word codes."""
    return pd.to_numeric(frame[name], errors="coerce").dropna()


def test_the_same_arguments_give_the_same_rows() -> None:
    for draw in (simulate_population, simulate_survey):
        assert draw(households=500)[0].equals(draw(households=500)[0])
        assert not draw(households=500)[0].equals(draw(households=500, seed=1)[0])
        assert draw(households=0)[0].num_rows == 0
    assert not simulate_survey(households=500)[0].equals(simulate_survey(households=500, draw=2)[0])


def test_the_schema_names_the_areas_of_the_country() -> None:
    schema = Schema.parse(POPULATION_SCHEMA)
    assert schema.columns["area"].values == AREAS
    assert schema.columns["county"].values == tuple(AREAS_IN)
    assert schema.columns["region"].values == tuple(REGION_SHARES)


def test_the_same_rows_on_every_machine() -> None:
    """If this fails on one machine only, a function rounds differently there; a new model has a new digest."""
    found = hashlib.sha256()
    for name, cells in simulate_survey()[0].to_pydict().items():
        found.update("\n".join([name, *map(str, cells)]).encode())
    assert found.hexdigest() == DIGEST


def test_every_value_is_in_the_schema() -> None:
    table, schema = simulate_survey()
    assert 6_000 <= table.num_rows <= 8_000
    assert table.column_names == [*DESIGN, *schema.columns]
    assert all(table[name].null_count == 0 for name in table.column_names)
    codes = TableCodec(schema).encode({name: table[name] for name in schema.columns})
    for name, column in schema.variables.items():
        if column.other is None:
            assert not (codes[name] == column.other_code).any(), name
    # Only what is beyond a top code is not written as the schema would write it.
    capped = {"age": 90, "income": 250_000}
    for name, top in capped.items():
        values = table[name].to_pylist()
        below = [v if v in ("N", "refused", "unknown") else type(v)(min(int(v), top)) for v in values]
        assert below != values
        table = table.set_column(table.column_names.index(name), name, pa.array(below))
    assert find_column_outside(table, schema=schema) is None


@pytest.mark.parametrize("draw", [simulate_population, simulate_survey])
@pytest.mark.slow
def test_every_declared_rule_holds(draw: Callable[[], tuple[pa.Table, Schema]]) -> None:
    table, schema = draw()
    codec = TableCodec(schema)
    broken = codec.count_violations(table)
    assert len(broken) == 6 + 7 + 3  # universes, structural zeros, functions
    assert set(broken.values()) == {0}
    # Rows that do break a rule are counted.
    spoilt = table.set_column(
        table.column_names.index("work"), "work", pa.array(["retired"] * table.num_rows)
    )
    assert sum(codec.count_violations(spoilt).values()) > 0


def test_features_of_a_schema_are_all_in_use() -> None:
    _, schema = simulate_population(households=0)
    kinds = {column.kind for column in schema.columns.values()}
    assert kinds == {"categorical", "ordinal", "integer", "numeric", "date"}
    assert list(schema.columns) != list(schema.variables)
    assert Schema.parse(schema.to_toml()) == schema


def test_bins_are_few_and_keep_apart_what_must_be(people: pd.DataFrame) -> None:
    _, schema = simulate_population(households=0)
    for name, edges in (("age", (3, 15, 18, 65)), ("hours", (40, 41)), ("income", (0, 1))):
        column = schema.columns[name]
        assert isinstance(column, IntegerColumn)
        assert column.levels <= 22
        assert set(edges) <= set(column.starts)
    assert (people.hours == "40").mean() > 0.15


@pytest.mark.parametrize("frame", ["everybody", "people"])
def test_rules_hold_in_every_row(frame: str, request: pytest.FixtureRequest) -> None:
    """Said here a second time, in another language than the schema's."""
    rows: pd.DataFrame = request.getfixturevalue(frame)
    adult, works = rows.age >= 15, rows.work.isin(WORKS)
    for name, universe in (
        ("education", rows.age >= 3),
        ("marital_status", adult),
        ("work", adult),
        ("labour_force", adult),
        ("income", adult),
        ("hours", works),
        ("commute_km", works),
    ):
        assert ((rows[name] != "N") == universe).all(), name
    silent = ["N", "refused", "unknown"]
    assert rows.education[rows.age < 15].isin(["primary", *silent]).all()
    assert (rows.age[rows.relationship == "householder"] >= 15).all()
    assert (rows.marital_status[rows.relationship == "spouse"] == "married").all()
    assert (rows.marital_status[rows.relationship == "partner"] != "married").all()
    assert (rows.relationship[rows.household_size == 1] == "householder").all()
    assert (rows.children < rows.household_size).all()
    income = amounts(rows)
    assert set(rows.work[income[income < 0].index]) == {"self-employed"}
    assert rows.county.eq(rows.area.str[:2]).all()
    assert rows.region.eq(rows.area.str[:1]).all()
    assert rows.labour_force.eq("in").eq(works | rows.work.eq("unemployed")).all()


@pytest.mark.parametrize("frame", ["everybody", "people"])
def test_households_are_whole(frame: str, request: pytest.FixtureRequest) -> None:
    rows: pd.DataFrame = request.getfixturevalue(frame)
    homes = rows.assign(heads=rows.relationship == "householder", minors=rows.age < 18).groupby(
        "household_id"
    )
    assert (homes.size() == homes.household_size.first()).all()
    assert homes.size().max() <= 8
    assert (homes.heads.sum() == 1).all()
    assert (homes.minors.sum() == homes.children.first()).all()
    shared = ["area", "tenure", "moved_in", "household_size", "children"]
    assert (homes[shared].nunique() == 1).all(axis=None)


@pytest.mark.parametrize(
    ("chosen", "expected", "within"),
    [
        (lambda p: p.sex == "female", 0.508, 0.01),
        (lambda p: p.region == "3", 0.381, 0.01),
        (lambda p: p.age < 18, 0.223, 0.02),
        (lambda p: p.age >= 65, 0.165, 0.02),
        (lambda p: p[p.relationship == "householder"].tenure == "owned", 0.646, 0.02),
        (lambda p: p[p.relationship == "householder"].household_size == 1, 0.284, 0.01),
        (lambda p: p[p.age >= 15].marital_status == "married", 0.50, 0.04),
        (lambda p: p[p.age.between(25, 54)].work.isin(WORKS), 0.80, 0.02),
        (lambda p: p[p.work.isin(WORKS)].work == "self-employed", 0.10, 0.02),
        (lambda p: p[p.labour_force == "in"].work == "unemployed", 0.037, 0.01),
        (lambda p: p[p.age >= 25].education == "bachelor", 0.225, 0.02),
        (lambda p: p[p.age >= 65].work == "retired", 0.78, 0.05),
        (lambda p: p[p.age >= 18].health.isin(["fair", "poor"]), 0.15, 0.03),
    ],
)
def test_shares_are_near_the_published_ones(everybody, chosen, expected: float, within: float) -> None:
    """The seed is fixed, so this cannot fail by chance; the bands are about what the model leaves out."""
    assert abs(float(np.mean(chosen(everybody))) - expected) < within


def test_columns_depend_on_each_other(everybody: pd.DataFrame) -> None:
    income = amounts(everybody)
    workers = everybody.loc[income.index].assign(income=income).query("work == 'employed'")
    medians = workers.groupby("education").income.median()
    assert medians["no diploma"] < medians["high school"] < medians["bachelor"] < medians["advanced"]
    gap = workers.groupby("sex").income.median()
    assert 0.6 < gap["female"] / gap["male"] < 0.95
    assert (
        everybody[everybody.age > 60].household_size.mean()
        < everybody[everybody.age < 40].household_size.mean()
    )
    assert (everybody[everybody.age > 80].marital_status == "widowed").mean() > 0.15
    stayed = pd.to_datetime(everybody.moved_in).groupby(everybody.tenure).median()
    assert stayed["owned"] < stayed["rented"] - pd.Timedelta(days=1_000)


def test_areas_differ_more_than_chance_would_have_it(everybody: pd.DataFrame) -> None:
    adults = everybody[everybody.age >= 25]
    schooled = adults.education.isin(["bachelor", "advanced"])
    by_area = schooled.groupby(adults.area).agg(["mean", "size"])
    chance = schooled.mean() * (1 - schooled.mean()) / by_area["size"]
    assert (((by_area["mean"] - schooled.mean()) ** 2) / chance).mean() > 3


def test_incomes_are_skewed_with_zeros_losses_and_round_numbers(
    everybody: pd.DataFrame, people: pd.DataFrame
) -> None:
    true, told = amounts(everybody), amounts(people)
    for income in (true, told):
        assert income.mean() > 1.3 * income.median()
        assert 0.08 < (income == 0).mean() < 0.20
        assert 0.001 < (income < 0).mean() < 0.01
    large = [income[income >= 10_000] for income in (true, told)]
    thousands = [(income % 1_000 == 0).mean() for income in large]
    assert thousands[0] < 0.03
    assert thousands[1] > 0.6
    assert (large[1] % 5_000 == 0).mean() > 0.3
    # Rounding is honest: it moves no total.
    assert told.mean() == pytest.approx(true.mean(), rel=0.05)


def test_silence_depends_on_age_schooling_and_work(people: pd.DataFrame, everybody: pd.DataFrame) -> None:
    codes = ["refused", "unknown"]
    assert not everybody.isin(codes).any(axis=None)
    asked = people[people.age >= 15]
    silent = asked.income.isin(codes)
    assert 0.05 < silent.mean() < 0.15

    def far_apart(first: pd.Series, second: pd.Series) -> bool:
        """Say whether two shares differ by more than three standard errors."""
        error = np.sqrt(sum(part.mean() * (1 - part.mean()) / part.size for part in (first, second)))
        return bool(first.mean() - second.mean() > 3 * error)

    refused = asked.income == "refused"
    assert far_apart(refused[asked.age >= 65], refused[asked.age < 50])
    assert far_apart(silent[asked.work == "self-employed"], silent[asked.work == "employed"])
    assert far_apart(silent[asked.education.isin(codes)], silent[~asked.education.isin(codes)])
    schooled = asked.education.isin(["bachelor", "advanced"])
    working_age = asked.work.eq("employed")
    assert silent[schooled & working_age].mean() < silent[~schooled & working_age].mean()
    unsure = asked.education.isin(codes)
    assert far_apart(unsure[asked.work == "other"], unsure[asked.work == "employed"])
    assert (people.education == "unknown").any()
    assert not people.work.isin(codes).any()


def test_the_design_is_what_it_says(people: pd.DataFrame) -> None:
    strata = people.groupby("stratum").psu.nunique().to_dict()
    assert strata == AREAS_DRAWN
    assert people.psu.eq(people.area).all()
    assert people.stratum.eq(people.psu.map(stratum_of)).all()
    homes = people.drop_duplicates("household_id")
    assert homes.groupby("stratum").weight.nunique().max() > 1
    assert set(homes.groupby("psu").size()) == {90, 120}
    assert {stratum_of(area) for area in AREAS} == set(AREAS_DRAWN)
    rural = people.stratum.str.endswith("R")
    assert people.weight[rural].mean() < 0.8 * people.weight[~rural].mean()
    assert people.weight.between(1, 15).all()


@pytest.mark.slow
def test_weights_sum_to_the_population_on_average() -> None:
    """Horvitz–Thompson totals over 200 surveys of one population.

    Four totals, each within four standard errors of its mean: false alarm below 3 in 10,000 for a new seed. Without
    weights the rural share is far off, so the test can fail.
    """
    everyone = draw_population()
    home = everyone.persons.household
    totals = np.stack(
        [
            np.ones(everyone.homes.size.size),
            everyone.homes.size.astype(np.float64),
            np.bincount(home, weights=everyone.lives.income),
            np.array([stratum_of(area)[1] == "R" for area in AREAS])[everyone.homes.area].astype(np.float64),
        ]
    )
    rng = np.random.default_rng(7)
    found, plain = [], []
    for _ in range(200):
        homes, weight = draw_sample(everyone.homes.area, rng=rng)
        found.append(totals[:, homes] @ weight)
        plain.append(totals[:, homes].mean(axis=1) * everyone.homes.size.size)
    truth = totals.sum(axis=1)

    def off(draws: list[np.ndarray]) -> np.ndarray:
        return np.abs(np.mean(draws, axis=0) - truth) / (np.std(draws, axis=0, ddof=1) / np.sqrt(200) + 1e-9)

    assert (off(found) < 4).all()
    assert off(plain)[3] > 20
    # One survey is off by a few per cent.
    assert (np.std(found, axis=0) / truth < 0.12).all()


def test_the_bell_is_a_normal_law() -> None:
    shares = [NormalDist().cdf(value) for value in NORMAL_QUANTILES[1:-1]]
    assert np.allclose(shares, NORMAL_SHARES[1:-1], atol=1e-5)


def test_small_populations_can_be_surveyed() -> None:
    table, schema = simulate_survey(households=40)
    assert isinstance(table, pa.Table)
    assert find_column_outside(table, schema=schema) is None


@pytest.mark.slow
def test_a_release_of_the_survey_keeps_every_rule(tmp_path: Path) -> None:
    people, schema = simulate_survey(households=5_000)
    release = synthesize(people, schema=schema, epsilon="1", delta="1e-9", ledger=tmp_path / "ledger.db")
    assert release.table.column_names == list(schema.columns)
    assert set(TableCodec(schema).count_violations(release.synthetic).values()) == {0}


@pytest.mark.slow
def test_households_can_be_the_unit(tmp_path: Path) -> None:
    people, _ = simulate_survey(households=2_000)
    household = 'unit = "household"\nrows_per_unit = 8\nid = "household_id"'
    schema = Schema.parse(POPULATION_SCHEMA.replace('unit = "person"', household))
    release = synthesize(people, schema=schema, epsilon="10", delta="1e-9", ledger=tmp_path / "ledger.db")
    assert release.statement["unit"] == "household"
    assert release.statement["rows_per_unit"] == 8
    assert "household_id" not in release.table.column_names
