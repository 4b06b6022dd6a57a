"""A schema with a geography, with rows that stand for several units, and with invariants."""

from __future__ import annotations

import pytest

from populace.core.errors import PopulaceError, SchemaError
from populace.schema.schema import Schema

BASE = """
[table]
dataset = "hi"
unit = "person"
frequency = "n"

[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "B|1"]

[[invariants]]
by = []

[[invariants]]
by = ["county"]

[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"

[columns.age]
kind = "integer"
min = 0
max = 9
other = "0"
"""


def change(old: str, new: str) -> str:
    assert old in BASE
    return BASE.replace(old, new)


def test_a_schema_says_what_its_file_says() -> None:
    schema = Schema.parse(BASE)
    assert schema.frequency == "n"
    assert schema.invariants == ("all", "county")
    assert list(schema.columns) == ["county", "tract", "sex", "age"]
    assert list(schema.declared_columns) == ["sex", "age"]
    assert dict(schema.domain) == {"geocode": 3, "sex": 2, "age": 10}


def test_toml_comes_back_as_it_was() -> None:
    schema = Schema.parse(BASE)
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert (again.frequency, again.invariants) == (schema.frequency, schema.invariants)
    assert list(again.columns) == list(schema.columns)
    assert again.to_toml() == schema.to_toml()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('frequency = "n"', ""),
        ('frequency = "n"', 'frequency = "persons"'),
        ('"B|1"]', '"B|1", "B|2"]'),
        ('levels = ["county", "tract"]', 'levels = ["state", "tract"]'),
        ('[[invariants]]\nby = ["county"]\n', ""),
    ],
)
def test_every_part_of_it_is_in_the_digest(old: str, new: str) -> None:
    text = change(old, new)
    if "state" in new:
        text = text.replace('by = ["county"]', 'by = ["state"]')
    assert Schema.parse(text).digest != Schema.parse(BASE).digest


def test_invariants_are_in_the_order_of_levels_and_each_once() -> None:
    mixed = BASE.replace("by = []", 'by = ["tract"]') + "[[invariants]]\nby = []\n[[invariants]]\nby = []\n"
    assert Schema.parse(mixed).invariants == ("all", "county", "tract")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('by = ["county"]', 'by = ["conty"]', "no level 'conty'"),
        ('by = ["county"]', 'by = ["sex"]', "no level 'sex'"),
        ('by = ["county"]', 'by = ["county", "sex"]', "does not name one level"),
        ('by = ["county"]', "", "does not name one level"),
        ('by = ["county"]', 'by = ["county"]\nof = "x"', "of"),
        ("[columns.sex]", "[columns.county]", "level of the geography and a column of its own"),
        ("[columns.sex]", "[columns.geocode]", "called 'geocode'"),
        ('frequency = "n"', 'frequency = "sex"', "the column 'sex' to release"),
        ('frequency = "n"', 'frequency = "county"', "the column 'county' to release"),
        ('frequency = "n"', 'frequency = "n"\nid = "who"', "beside an id"),
        ('values = ["f", "m"]\nother = "f"', 'values = "unknown"\nmax_values = 5', "."),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_hint(old: str, new: str, said: str) -> None:
    with pytest.raises(PopulaceError, match=said) as refused:
        Schema.parse(change(old, new))
    assert refused.value.hint


def test_a_list_of_invariants_is_needed() -> None:
    with pytest.raises(SchemaError, match="not a list of tables"):
        Schema.parse(BASE.replace("[[invariants]]\nby = []\n\n[[invariants]]", "[invariants]"))


def test_invariants_need_a_geography() -> None:
    begin, end = BASE.index("[geography]"), BASE.index("[[invariants]]")
    with pytest.raises(SchemaError, match="without a \\[geography\\]"):
        Schema.parse(BASE[:begin] + BASE[end:])


def test_a_geography_needs_a_column_of_its_own_beside_the_levels() -> None:
    with pytest.raises(SchemaError, match="has no columns"):
        Schema.parse(BASE[: BASE.index("[columns.sex]")])


def test_totals_stand_not_beside_invariants() -> None:
    totals = '[[totals]]\nby = ["sex"]\ncounts = { f = 3, m = 4 }\n'
    with pytest.raises(SchemaError, match=r"totals.*beside \[\[invariants\]\]"):
        Schema.parse(BASE + totals)
