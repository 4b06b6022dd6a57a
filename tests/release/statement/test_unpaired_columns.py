"""Columns in no measured pair are named in full, with what ties them and what follows from them."""

from __future__ import annotations

from populace.release.statement.unpaired_columns import UnpairedColumns, name_with_derived
from populace.schema.schema import Schema
from populace.simulation.population import POPULATION_SCHEMA


def test_all_columns_are_named_and_rules_are_not_denied() -> None:
    names = tuple("abcdefgh")
    tied = UnpairedColumns(names=names, workload="", tied=True).text
    assert all(repr(name) in tied for name in names)
    assert "tied to other columns only by the schema's rules" in tied
    assert "independent" not in tied
    assert "as if independent" in UnpairedColumns(names=names, workload="", tied=False).text


def test_columns_that_follow_are_named_with_theirs() -> None:
    schema = Schema.parse(POPULATION_SCHEMA)
    assert name_with_derived(["area", "work", "sex"], schema=schema) == (
        "area (and county, region, which follow from it)",
        "work (and labour_force, which follows from it)",
        "sex",
    )
