"""Public totals of a geography: read from the schema or a file, written back, and refused where they contradict."""

from __future__ import annotations

from pathlib import Path

import pytest

from populace.core.errors import PopulaceError, SchemaError
from populace.methods.registry import find_method
from populace.methods.request_checks import check_method
from populace.privacy.accounting.budget import parse_epsilon
from populace.schema.level_totals import describe_level_totals
from populace.schema.schema import Schema
from tests.helpers.small_geography import COLUMNS, ZEROS

WHOLE = "[[totals]]\nby = []\ncount = 14\n"
COUNTIES = '[[totals]]\nby = ["county"]\ncounts = { A = 10, B = 4 }\n'
SEXES = '[[totals]]\nby = ["sex"]\ncounts = { f = 9, m = 5 }\n'
AGES = '[[totals]]\nby = ["age"]\ncounts = { "0-29" = 7, "30-59" = 7 }\n'
BOTH = """[[totals]]
by = ["sex", "county"]
counts = [
    { county = "A", sex = "f", count = 6 }, { county = "A", sex = "m", count = 4 },
    { county = "B", sex = "f", count = 3 }, { county = "B", sex = "m", count = 1 },
]
"""
TRACTS = '[[totals]]\nby = ["county", "tract"]\ncounts = [{ county = "A", tract = "1", count = 14 }]\n'


def check(schema: Schema) -> None:
    method = find_method("auto", schema=schema)
    check_method(method, schema, epsilon=parse_epsilon(1), delta=parse_epsilon("1e-9"))


@pytest.mark.parametrize("text", [WHOLE, COUNTIES, WHOLE + COUNTIES + SEXES, BOTH + COUNTIES + SEXES, TRACTS])
def test_totals_are_written_as_they_were_read(text: str) -> None:
    schema = Schema.parse(COLUMNS + text)
    check(schema)
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert again.digest != Schema.parse(COLUMNS).digest
    assert [each.form() for each in again.level_totals] == [each.form() for each in schema.level_totals]


def test_what_is_not_listed_counts_nobody() -> None:
    (totals,) = Schema.parse(COLUMNS + TRACTS).level_totals
    assert totals.counts.tolist() == [14, 0, 0, 0, 0]
    schema = Schema.parse(COLUMNS + BOTH)
    (both,) = schema.level_totals
    assert both.clique == ("sex",)
    assert both.counts[:, :2].tolist() == [[6, 4], [3, 1]]
    assert describe_level_totals(both, layout=schema.layout) == "county × sex"


def test_totals_of_many_units_are_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "totals.csv").write_text("county,tract,count\nA,1,9\nB,1,5\n")
    path = tmp_path / "schema.toml"
    path.write_text(COLUMNS + '[[totals]]\nby = ["county", "tract"]\ncounts = "totals.csv"\n')
    (totals,) = Schema.load(path).level_totals
    assert totals.counts.tolist() == [9, 0, 0, 5, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (COUNTIES.replace("B = 4", "B = 5") + WHOLE, "count 'all' differently"),
        (COUNTIES + SEXES.replace("5", "6"), "count 'all' differently"),
        (BOTH + COUNTIES.replace("A = 10, B = 4", "A = 9, B = 5"), "count 'county' differently"),
        (COUNTIES.replace("A = 10", "C = 10"), "'C' is no unit"),
        ('[[totals]]\nby = ["tract"]\ncounts = { "1" = 14 }\n', "the id of several units"),
        (COUNTIES.replace("A = 10", "A = -1"), "no whole number"),
        ('[[totals]]\nby = ["county"]\ncount = 14\n', "needs counts"),
        ('[[totals]]\nby = ["sex"]\ncounts = "totals.csv"\n', "in no folder"),
        (COUNTIES + '[[invariants]]\nby = ["county"]\n', "beside \\[\\[invariants\\]\\]"),
        (BOTH + BOTH.replace("sex", "age").replace('"f"', '"0"').replace('"m"', '"30"'), "overlap"),
    ],
)
def test_contradictions_are_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as refused:
        Schema.parse(COLUMNS + text)
    assert refused.value.hint


FORBIDDEN = '[[totals]]\nby = ["sex", "age"]\ncounts = [{ sex = "m", age = "60", count = 3 }]\n'
NO_TABLE = (
    '[[totals]]\nby = ["sex"]\ncounts = { f = 1, m = 5 }\n'
    '[[totals]]\nby = ["age"]\ncounts = { "0" = 3, "60" = 3 }\n'
)
EVERY_CELL = (
    '[[totals]]\nby = ["county", "tract", "sex", "age"]\n'
    'counts = [{ county = "A", tract = "1", sex = "f", age = "0", count = 1 }]\n'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ZEROS + FORBIDDEN, "structural zeros"),
        (ZEROS + NO_TABLE, "no table with all these"),
        (EVERY_CELL, "every cell of every smallest unit"),
    ],
)
def test_contradictions_with_zeros_are_found_before_anything_is_spent(text: str, said: str) -> None:
    schema = Schema.parse(COLUMNS + text)
    with pytest.raises(PopulaceError, match=said) as refused:
        check(schema)
    assert refused.value.hint


def test_facts_that_need_more_than_a_public_total_are_refused() -> None:
    facts = 'facts = [["B", "1", "sex == \'f\'", "5", ""]]\n'
    text = COLUMNS.replace("[columns.sex]", f"{facts}[columns.sex]", 1) + COUNTIES
    with pytest.raises(SchemaError, match="lower bounds of 5 together, above its exact total of 4"):
        check(Schema.parse(text))
    with pytest.raises(SchemaError, match="beside facts about units"):
        Schema.parse(text + SEXES)
