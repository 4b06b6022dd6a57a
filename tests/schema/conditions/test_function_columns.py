"""Columns that follow from others, and domains that are yet to be learnt."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from populace.core.errors import SchemaError
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.schema import Schema

COLUMN = '[columns.{}]\nkind = "categorical"\nvalues = ["1", "2"]\n'
LEVELS = """
[columns.INDP]
kind = "categorical"
values = ["0170", "0180", "9920"]
missing = ["N"]

[columns.INDP_CAT]
kind = "categorical"
values = ["agriculture", "none"]
missing = ["N"]
function_of = ["INDP"]
map = { "0170" = "agriculture", "0180" = "agriculture", "9920" = "none", "N" = "N", "7777" = "none" }

[columns.STATE]
kind = "categorical"
values = ["25", "44"]

[columns.PUMA]
kind = "categorical"
values = ["25-00703", "25-02800", "44-01000"]
parent = "STATE"
"""


def test_functions_and_parents_are_no_variables() -> None:
    schema = Schema.parse(LEVELS)
    assert list(schema.columns) == ["INDP", "INDP_CAT", "STATE", "PUMA"]
    assert list(schema.variables) == ["INDP", "PUMA"]
    assert list(schema.domain) == ["INDP", "PUMA"]
    assert schema.layout.view("INDP_CAT").codes.tolist() == [0, 0, 1, 2, 3]
    assert schema.layout.view("STATE").codes.tolist() == [0, 0, 1, 2]


def test_conditions_look_through_functions() -> None:
    text = LEVELS + "\n[[zeros]]\nwhen = \"INDP_CAT == 'agriculture' and STATE == '44'\""
    (rule,) = Schema.parse(text).rules.rules
    assert rule.clique == ("INDP", "PUMA")
    assert Schema.parse(text).rules.classes["INDP"].groups == (0, 0, 1, 1, 1)
    assert rule.allowed.tolist() == [[True, False], [True, True]]


def test_maps_are_found_beside_the_schema(tmp_path: Path) -> None:
    (tmp_path / "cat.json").write_text(json.dumps({"0170": "agriculture", "0180": "agriculture"}))
    inline = LEVELS[LEVELS.index("map =") : LEVELS.index("\n", LEVELS.index("map ="))]
    (tmp_path / "schema.toml").write_text(LEVELS.replace(inline, 'map = "cat.json"'))
    schema = Schema.load(tmp_path / "schema.toml")
    assert schema.layout.view("INDP_CAT").codes.tolist() == [0, 0, 3, 3, 3]
    assert Schema.parse(schema.to_toml()) == schema
    with pytest.raises(SchemaError, match=r"cat\.json"):
        Schema.parse(LEVELS.replace(inline, 'map = "cat.json"'))


AGE = '[columns.AGE]\nkind = "integer"\n'
GROUP = '[columns.GROUP]\nkind = "categorical"\nvalues = ["minor", "adult"]\nfunction_of = ["AGE"]\n'
YOUNG = "map = { 0 = 'minor', 1 = 'minor', 2 = 'adult', 3 = 'adult' }"


def test_a_function_of_bins_must_be_told_by_the_bin() -> None:
    fine = Schema.parse(AGE + "edges = [0, 2, 3]\n" + GROUP + YOUNG)
    assert fine.layout.view("GROUP").codes.tolist() == [0, 1, 2]
    for edges in ("edges = [0, 1, 3]", "edges = [0, 2, 4]"):
        with pytest.raises(SchemaError, match="lead to different results"):
            Schema.parse(AGE + edges + "\n" + GROUP + YOUNG)
    split = AGE + "min = 0\nmax = 3\nsplit = 2\n"
    assert Schema.parse(split + GROUP + YOUNG).layout.view("GROUP").codes.tolist() == [0, 1, 2]
    assert Schema.parse(split + GROUP + YOUNG).layout.view("GROUP").variables == ("AGE // 2",)


def test_a_function_of_a_top_code_follows_from_the_number_that_is_published() -> None:
    schema = Schema.parse(AGE + "min = 0\nmax = 2\ntop = 3\n" + GROUP + YOUNG)
    assert schema.layout.view("GROUP").codes.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (LEVELS.replace('["INDP"]', '["INDB"]'), "names 'INDB', which is no column", "did you mean 'INDP'?"),
        (LEVELS.replace('"STATE"', '"STAT"'), "parent names 'STAT'", "did you mean 'STATE'?"),
        (LEVELS.replace('["25", "44"]', '["MA", "RI"]'), "no value of column 'PUMA' begins with", "a map"),
        (
            LEVELS + "[columns.COUNTY]\nkind = 'categorical'\nvalues = ['25001']\nparent = 'STATE'",
            "column 'STATE' follows from 'PUMA', 'COUNTY' in two ways",
            "[[zeros]]",
        ),
        (
            LEVELS + "[columns.COUNTY]\nkind = 'integer'\nmin = 0\nmax = 99\nwidth = 10\nparent = 'INDP'",
            "does not follow from how a value begins",
            "give a map",
        ),
        (
            COLUMN.format("a") + "function_of = ['b']\nmap = { 1 = '1' }\n"
            + COLUMN.format("b") + "function_of = ['a']\nmap = { 1 = '1' }\n",
            "follow from each other in a circle",
            "read from the data",
        ),
        (
            COLUMN.format("a") + "universe = \"b == '1'\"\noutside = 'N'\n" + COLUMN.format("b") + "parent = 'a'\n",
            "column 'a' follows from 'b' and has a universe",
            "no universe",
        ),
        (
            COLUMN.format("a") + COLUMN.format("b") + "function_of = ['a']\nmap = { x = '1' }\n",
            "no key of its map is a value of 'a'",
            "the keys are",
        ),
        (
            COLUMN.format("a") + "parent = 'b'\nmap = { 1 = '9' }\n" + COLUMN.format("b"),
            "leads to '9', which is not a value of column 'b'",
            "correct the map",
        ),
        (
            AGE + "min = 0\nmax = 9\nsplit = 5\n" + COLUMN.format('"AGE // 5"'),
            "split into 'AGE // 5', which is a column already",
            "rename",
        ),
    ],
)  # fmt: skip
def test_functions_that_do_not_work_are_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_functions_of_too_many_combinations_are_refused() -> None:
    columns = {name: IntegerColumn(name=name, min=0, max=3000) for name in ("a", "b")}
    both = CategoricalColumn(name="c", values=("x",), function_of=("a", "b"), map={("1", "2"): "x"})
    with pytest.raises(SchemaError, match="combinations; 4194304 is the most"):
        Schema(columns=columns | {"c": both})


UNKNOWN = """
[columns.AGE]
kind = "integer"
min = 0
max = 9

[columns.INCOME]
kind = "numeric"
min = 0
max = 1000
bins = "learn"
missing = ["R"]
universe = "AGE >= 5"
outside = "N"

[columns.CITY]
kind = "categorical"
values = "learn"
"""


def test_domains_to_be_learnt_may_have_universes() -> None:
    schema = Schema.parse(UNKNOWN + "[[zeros]]\nwhen = \"AGE == 9 and INCOME == 'R'\"")
    assert schema.unknown == ("INCOME", "CITY")
    assert schema.declared is schema
    income = schema.columns["INCOME"].with_domain([Fraction(10), Fraction(100)])
    full = schema.replace_columns(
        {"INCOME": income, "CITY": schema.columns["CITY"].with_domain(["Ulm", "Bonn"])}
    )
    assert full.unknown == ()
    assert full.domain["INCOME"] == 6
    assert full.rules.classes["INCOME"].groups == (0, 0, 0, 1, 2, 0)
    assert full.declared == schema
    assert full.declared.digest == schema.digest != full.digest
    released = Schema.parse(full.to_toml(), released=True)
    assert released == full
    assert released.declared == schema
    with pytest.raises(SchemaError, match="budget"):
        Schema.parse(full.to_toml())
    with pytest.raises(SchemaError, match="no column 'TOWN'"):
        schema.replace_columns({"TOWN": income})


@pytest.mark.parametrize(
    "text", ["INCOME > 10", "INCOME == 10", "CITY == 'Ulm'", "CITY == AGE", "INCOME < AGE"]
)
def test_nothing_is_decided_on_what_is_not_known_yet(text: str) -> None:
    with pytest.raises(SchemaError, match=r"\[\[zeros\]\] 1"):
        Schema.parse(UNKNOWN + f'[[zeros]]\nwhen = "{text}"')
