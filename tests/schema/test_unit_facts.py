"""Public facts about single units: reading, refusals, and tables that keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from populace.core.errors import SchemaError
from populace.schema.schema import Schema
from populace.schema.unit_facts import UnitFact, fact_cells

SCHEMA = """
[geography]
levels = ["county", "block"]
units = ["A|1", "A|2", "B|1"]
facts = "facts.csv"
[columns.sex]
kind = "categorical"
values = ["F", "M"]
other = "M"
"""


def _load(folder: Path, facts: str, more: str = "") -> Schema:
    (folder / "facts.csv").write_text("county,block,when,least,most\n" + facts)
    (folder / "schema.toml").write_text(SCHEMA + more)
    return Schema.load(folder / "schema.toml")


def test_facts_name_units_of_any_level(tmp_path: Path) -> None:
    schema = _load(tmp_path, "A,2,sex == 'F',,0\nB,,sex == 'M',3,\n")
    assert schema.facts == (
        UnitFact(level=2, unit=1, when="sex == 'F'"),
        UnitFact(level=1, unit=1, when="sex == 'M'", least=3),
    )
    domain = schema.domain.__class__({"sex": 2})
    assert fact_cells(schema.facts[0], layout=schema.layout, domain=domain).tolist() == [True, False]


def test_facts_survive_writing_and_change_the_digest(tmp_path: Path) -> None:
    schema = _load(tmp_path, "A,2,sex == 'F',,0\nB,,sex == 'M',3,\n")
    assert Schema.parse(schema.to_toml()) == schema
    assert _load(tmp_path, "A,2,sex == 'F',,0\n") != schema


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("C,1,sex == 'F',,0\n", "there is no unit 'C|1'"),
        ("A,1,sex == 'F',,\n", "least is '' and most is ''"),
        ("A,1,sex == 'F',,2\n", "most is '2'"),
        ("A,1,sex == 'F',1.5,\n", "least is '1.5'"),
        ("A,1,age == 3,,0\n", "there is no column 'age'"),
        ("A,1,county == 'A',,0\n", "names a level of the geography"),
    ],
)
def test_facts_that_make_no_sense_are_refused(tmp_path: Path, facts: str, message: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        _load(tmp_path, facts)
    assert message in refusal.value.message
    assert refusal.value.hint


def test_a_lower_bound_beside_exact_totals_is_refused_before_they_are_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="totals are published exactly"):
        _load(tmp_path, "A,1,sex == 'F',1,\n", more="[[invariants]]\nby = []\n")


def test_cells_are_those_of_the_condition(tmp_path: Path) -> None:
    schema = _load(tmp_path, "A,1,sex != 'F',,0\n")
    cells = fact_cells(schema.facts[0], layout=schema.layout, domain=schema.domain.__class__({"sex": 2}))
    assert np.array_equal(cells, [False, True])


def test_a_structural_zero_cannot_move_rows_to_another_unit() -> None:
    """Whether a row lies in it must not decide whether a run fails, or which exact total it counts for."""
    text = SCHEMA.replace('facts = "facts.csv"\n', "")
    zero = "[[zeros]]\nwhen = \"sex == 'F'\"\nelse = { sex = 'M', county = 'B' }\n"
    with pytest.raises(SchemaError, match="else names 'county'"):
        Schema.parse(text + zero)
