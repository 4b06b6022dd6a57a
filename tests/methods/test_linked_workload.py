"""What is wanted of linked tables: weights by hand, and which pairs are alike."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from populace.methods.linked_workload import (
    alike_pairs,
    column_layers,
    exchangeable_pairs,
    linked_weights,
    list_role_pairs,
)
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
    # Between persons: four columns in three pairs of places, and three of the first with two relationships.
    assert counts == {"units": 1, "inside": 6 * 3, "across": 2 * 4 * 3, "between": 4 * 3 + 3 * 2}
    root = Fraction(3**0.5).limit_denominator(1000)
    found = {kind: {weights[pair] for pair in weights if kind_of(pair) == kind} for kind in counts}
    other = Fraction(2**0.5).limit_denominator(1000)
    between = {1 / root / 7, 1 / other / 7}
    expected = {
        "units": {Fraction(1)},
        "inside": {1 / root / 6},
        "across": {1 / root / 8},
        "between": between,
    }
    assert found == expected
    assert weights["age.1", "relationship.2"] == weights["sex.1", "relationship.3"] == 1 / other / 7
    assert ("relationship.1", "relationship.3") in weights


def test_pairs_that_recur_in_other_places_are_alike(schema) -> None:
    alike = alike_pairs(schema)
    assert alike["age.1", "sex.1"] == alike["age.3", "sex.3"] != alike["age.1", "work.1"]
    assert alike["tenure", "age.1"] == alike["tenure", "age.2"] != alike["number", "age.1"]
    assert len({alike["age.1", "age.2"], alike["age.2", "age.3"], alike["age.1", "age.3"]}) == 3
    assert set(alike) == {p for p in linked_weights(schema, schema.linked) if kind_of(p) != "units"}
    assert alike_pairs(Schema.from_sizes({"a": 2})) == {} == dict(column_layers(Schema.from_sizes({"a": 2})))


def test_persons_behind_the_first_two_are_exchangeable_and_come_in_order() -> None:
    kinds = exchangeable_pairs(linked_schema(most=5))
    assert kinds["age.1", "age.3"] == kinds["age.1", "age.4"] == kinds["age.1", "age.5"]
    assert kinds["age.3", "age.4"] == kinds["age.4", "age.5"] != kinds["age.2", "age.3"]
    assert kinds["age.1", "relationship.3"] == kinds["age.1", "relationship.5"]
    assert kinds["age.1", "relationship.2"] != kinds["age.1", "relationship.3"]
    alone = [kind for kind in kinds.values() if list(kinds.values()).count(kind) == 1]
    assert ("age.1", "age.2") in alone
    assert ("age.2", "age.3") in alone
    order = list(kinds)
    assert order.index(("age.1", "age.3")) < order.index(("age.1", "age.4")) < order.index(("age.1", "age.5"))
    assert not any(
        "tenure" in pair or pair[0].rpartition(".")[2] == pair[1].rpartition(".")[2] for pair in kinds
    )


@pytest.mark.parametrize("most", [1, 2])
def test_few_places_have_few_pairs(most: int) -> None:
    schema = linked_schema(most=most)
    assert [len(same) for same in list_role_pairs(schema, schema.linked)] == [1] * 3 * (most - 1)
    assert set(exchangeable_pairs(schema)) == {
        p for p in linked_weights(schema, schema.linked) if kind_of(p) == "between"
    }
    assert (
        list_role_pairs(linked_schema(most=most, roles=False), linked_schema(most=most, roles=False).linked)
        == []
    )
    assert exchangeable_pairs(Schema.from_sizes({"a": 2})) == {}
