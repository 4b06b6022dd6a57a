"""Linked tables in a schema: what they become, what is refused, and that text and digest agree."""

from __future__ import annotations

import re

import pytest

from populace.core.errors import SchemaError
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.date_columns import DateColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.value_types import ValueType
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.place_columns import absent_text
from populace.schema.schema import Schema
from populace.simulation.linked_population import LINKED_SCHEMA
from tests.helpers.linked_files import ROLES, RULES, TEXT, linked_schema, placed_schema

WHOLE = TEXT.format(most=3, neighbours="add-remove", roles=ROLES) + RULES


def test_wide_columns_and_their_universes():
    schema = linked_schema(most=2)
    assert list(schema.columns)[:4] == ["tenure", "number", "relationship.1", "age.1"]
    assert len(schema.columns) == 2 + 2 * 4
    assert schema.columns["age.2"].universe == "number >= 2"
    assert schema.columns["work.2"].universe == "`age.2` != '-999999' and `age.2` >= 15"
    assert (schema.unit.name, schema.unit.id, schema.unit.rows) == ("household", "home", 1)


@pytest.mark.parametrize("text", [WHOLE, LINKED_SCHEMA])
def test_text_and_digest_agree(text):
    schema = Schema.parse(text)
    again = Schema.parse(schema.to_toml(), released=True)
    assert again == schema
    assert again.to_toml() == schema.to_toml()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_rows = 3", "max_rows = 4"),
        ('"age desc", "sex"', '"age", "sex"'),
        ('key = "lives_in"', 'key = "home"'),
        ('size = "number"', 'size = "many"'),
        ("householder = \"relationship == 'head'\"\n", ""),
        ("and age < 15", "and age < 30"),
    ],
)
def test_everything_declared_is_in_the_digest(old, new):
    assert WHOLE.count(old) == 1
    assert Schema.parse(WHOLE.replace(old, new)) != Schema.parse(WHOLE)


@pytest.mark.parametrize(
    ("old", "new", "said", "hint"),
    [
        ('unit = "household"', 'unit = "person"', "one person changes", 'unit = "household"'),
        ('unit = "household"', 'unit = "street"', "unit is 'street'", 'unit = "household"'),
        ("max_rows = 1000", 'id = "home"', "has 'id' beside", "key of 'household'"),
        ("max_rows = 1000", "rows_per_unit = 2", "has 'rows_per_unit' beside", "max_rows"),
        ("max_rows = 1000", 'weight = "w"', "unknown key 'weight'", "allowed here"),
        ('of = "household"', 'of = "house"', "no other table", 'of = "household"'),
        ('of = "household"\n', "", "two tables can be linked", "of ="),
        ("max_rows = 3", "", "does not say how many", "max_rows = 6"),
        ("max_rows = 3", "max_rows = 0", "max_rows is 0", "1 to"),
        ('key = "home"', "", "has no key", "key ="),
        ('key = "home"', 'key = "tenure"', "is the key and a column", "not released"),
        ('"age desc", "sex"', '"Age desc"', "order names 'Age'", "age"),
        (
            "relationship == 'head'\"\npartner",
            "tenure == 'owned'\"\npartner",
            "not read of a person",
            "own table",
        ),
        ('size = "number"', 'size = "tenure"', "declared as a column too", "size"),
        ("edges = [0, 15, 30, 60, 99]", 'min = 0\nmax = 99\nbins = "learn"', "is to be learnt", "declare"),
        (
            "[tables.person]",
            '[columns.x]\nkind = "integer"\nmin = 0\nmax = 1\n[tables.person]',
            "beside",
            "under its table",
        ),
        (
            "[tables.person.columns.sex]",
            '[tables.household.columns."sex.1"]\nkind = "integer"\nmin = 0\nmax = 1\n[tables.person.columns.sex]',
            "is the name of",
            "rename",
        ),
        ("max_rows = 1000", 'frequency = "n"', "unknown key 'frequency'", "allowed here"),
        (
            "[tables.person]",
            '[geography]\nlevels = ["tenure"]\nunits = ["A", "B"]\n[tables.person]',
            "'tenure' is a level of the geography",
            "take it out",
        ),
        (
            "[tables.person]",
            '[[invariants]]\nby = ["person"]\n[tables.person]',
            "without a [geography]",
            "declare levels",
        ),
        ("age.1 < 30", "age.4 < 30", "no column 'age.4'", "age"),
    ],
)
def test_refusals_say_what_to_do(old, new, said, hint):
    assert WHOLE.count(old) == 1
    with pytest.raises(SchemaError, match=re.escape(said)) as refused:
        Schema.parse(WHOLE.replace(old, new))
    assert hint in refused.value.hint


def test_rules_hold_for_every_place_or_for_the_one_they_name():
    schema = linked_schema(most=3)
    texts = [rule.text for rule in schema.rules.rules]
    # The child of place 1 would be compared with itself: that place is named already.
    assert sum("'child'" in text for text in texts) == 2
    assert sum("'head' and" in text and "< 15" in text for text in texts) == 3
    # Exactly one householder, in place 1, and a partner in place 2 alone.
    assert "never number == 0" in texts
    assert "never not `relationship.1` == 'head'" in texts
    assert sum("== 'spouse'" in text for text in texts) == 2


@pytest.mark.parametrize(
    "column",
    [
        CategoricalColumn(name="a", values=("absent", "x")),
        CategoricalColumn(name="a", values=("0", "1"), type=ValueType.UINT8),
        IntegerColumn(name="a", min=0, max=9, type=ValueType.UINT8, other="0"),
        IntegerColumn(name="a", min=0, max=9, missing=("-999999",)),
        IntegerColumn(name="a", min=0, max=9, missing=("refused",)),
        DecimalColumn(name="a", edges=(0, 1, 2)),
        DateColumn(name="a", min=0, max=9, starts=(0, 5)),
    ],
)
def test_what_stands_for_nobody_keeps_the_type(column):
    from populace.schema.codec.decoder import arrow_type

    text = absent_text(column)
    assert column.code(text) is None
    place = type(column)(**{**_fields(column), "universe": "b == 1", "outside": text})
    assert arrow_type(place) == arrow_type(column)


def _fields(column):
    from dataclasses import fields

    return {each.name: getattr(column, each.name) for each in fields(column) if each.init}


def test_a_geography_is_of_the_units_table():
    schema = placed_schema(exact=["county"])
    assert schema.linked is not None
    assert list_unit_columns(schema.linked, schema.columns) == ["county", "tract", "tenure"]
    assert (schema.unit.within, schema.unit.id) == ("county", "home")
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert again.to_toml() == schema.to_toml()


def test_a_geography_declared_in_python_is_that_of_the_file():
    schema, flat = placed_schema(exact=["county"]), linked_schema()
    built = Schema(
        columns=flat.columns,
        unit=flat.unit,
        dataset=flat.dataset,
        max_rows=flat.max_rows,
        zeros=flat.zeros,
        linked=flat.linked,
        geography=schema.geography,
        invariants=("county",),
    )
    assert built == schema
    assert built.domain == schema.domain
    assert built.unit == schema.unit
