"""What is wanted of linked tables: weights by hand, and which pairs are alike."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from populace.methods.linked_workload import alike_pairs, column_layers, linked_weights
from populace.schema.schema import Schema
from tests.helpers.linked_files import linked_schema

MOST = 3


@pytest.fixture(scope="module")
def schema() -> Schema:
    return linked_schema(most=MOST)


def kind_of(pair) -> str:
    places = [name.rpartition(".")[2] if "." in name else "unit" for name in pair]
    if places == ["unit", "unit"]:
        return "units"
    if "unit" in places:
        return "across"
    return "inside" if places[0] == places[1] else "between"


def test_the_four_kinds_matter_alike_and_places_add_as_squares(schema) -> None:
    weights = linked_weights(schema, schema.linked)
    # tenure and the number of persons; relationship, age, sex and work in three places.
    counts = Counter(map(kind_of, weights))
    assert counts == {"units": 1, "inside": 6 * 3, "across": 2 * 4 * 3, "between": 4 * 3}
    root = Fraction(3**0.5).limit_denominator(1000)
    found = {kind: {weights[pair] for pair in weights if kind_of(pair) == kind} for kind in counts}
    expected = {"units": 1, "inside": 1 / root / 6, "across": 1 / root / 8, "between": 1 / root / 4}
    assert found == {kind: {weight} for kind, weight in expected.items()}


def test_pairs_that_recur_in_other_places_are_alike(schema) -> None:
    alike = alike_pairs(schema)
    assert alike["age.1", "sex.1"] == alike["age.3", "sex.3"] != alike["age.1", "work.1"]
    assert alike["tenure", "age.1"] == alike["tenure", "age.2"] != alike["number", "age.1"]
    assert alike["age.1", "age.2"] == alike["age.2", "age.3"] != alike["age.1", "age.3"]
    assert set(alike) == {p for p in linked_weights(schema, schema.linked) if kind_of(p) != "units"}
    assert alike_pairs(Schema.from_sizes({"a": 2})) == {} == dict(column_layers(Schema.from_sizes({"a": 2})))
