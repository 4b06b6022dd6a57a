"""The sample population repeats, keeps to its schema, and looks like people."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from populace.release.inside import first_outside
from populace.samples.population import population
from populace.schema.ranges import Integer


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return population()[0].to_pandas()


def test_the_same_seed_gives_the_same_people() -> None:
    assert population(households=50)[0].equals(population(households=50)[0])
    assert not population(households=50)[0].equals(population(households=50, seed=1)[0])
    assert population(households=0)[0].num_rows == 0


def test_every_value_is_in_the_schema() -> None:
    table, schema = population()
    assert first_outside(table, schema=schema) is None
    assert 5_000 <= table.num_rows <= 10_000
    kinds = {column.kind for column in schema.columns.values()}
    assert kinds == {"categorical", "ordinal", "integer", "numeric"}


def test_bins_are_few_and_keep_apart_what_must_be(people: pd.DataFrame) -> None:
    _, schema = population(households=0)
    for name, edges in (("age", (15, 95)), ("hours", (40, 41))):
        column = schema.columns[name]
        assert isinstance(column, Integer)
        assert column.levels <= 20
        assert set(edges) <= set(column.starts)
    assert (people.hours == 40).mean() > 0.15


def test_children_are_children(people: pd.DataFrame) -> None:
    young = people[people.age < 15]
    assert set(young.work) == set(young.education) == {"under 15"}
    assert set(young.marital_status) == {"never married"}
    assert young.income.isna().all()
    assert people[people.age >= 15].income.notna().all()
    assert (people.hours.notna() == (people.work == "employed")).all()
    assert (people.commute_km.notna() == (people.work == "employed")).all()


@pytest.mark.parametrize(
    ("chosen", "expected", "within"),
    [
        (lambda p: p.sex == "female", 0.51, 0.03),
        (lambda p: p.region == "south", 0.38, 0.04),
        (lambda p: p.age < 18, 0.22, 0.05),
        (lambda p: p.age >= 65, 0.16, 0.04),
        (lambda p: p[p.age.between(25, 54)].work == "employed", 0.80, 0.04),
        (lambda p: p[p.age >= 25].education == "bachelor", 0.23, 0.04),
        (lambda p: p[p.age >= 65].work == "retired", 0.78, 0.05),
    ],
)
def test_shares_are_near_the_published_ones(people, chosen, expected: float, within: float) -> None:
    """The seed is fixed, so this cannot fail by chance; the bands are about what the model leaves out."""
    assert abs(float(np.mean(chosen(people))) - expected) < within


def test_columns_depend_on_each_other(people: pd.DataFrame) -> None:
    workers = people[people.work == "employed"]
    medians = workers.groupby("education").income.median()
    assert medians["no diploma"] < medians["high school"] < medians["bachelor"] < medians["advanced"]
    gap = workers.groupby("sex").income.median()
    assert 0.6 < gap["female"] / gap["male"] < 0.95
    assert people[people.age > 60].household_size.mean() < people[people.age < 40].household_size.mean()
    assert (people[people.age > 80].marital_status == "widowed").mean() > 0.15
