"""One switch for what lies outside domains, and labels of columns on their way into a release."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import SchemaError
from populace.schema.schema import Schema

COLUMNS = """
[columns.age]
kind = "integer"
min = 5
max = 99
label = "Age"
description = "How old are you?"
[columns.sex]
kind = "categorical"
values = ["m", "f"]
missing = ["R"]
label = "Sex of the person"
[columns.pay]
kind = "numeric"
edges = [1.5, 2, 3]
[columns.born]
kind = "date"
min = "2000-01-01"
max = "2009-12-31"
width = "year"
[columns.own]
kind = "categorical"
values = ["a", "b"]
other = "b"
"""


@pytest.mark.parametrize(
    ("policy", "others"),
    [
        ("empty", [None, None, None, None, "b"]),
        ("missing", [None, "R", None, None, "b"]),
        ("first", ["5", "R", "1.5", "2000-01-01", "b"]),
    ],
)
def test_one_switch_says_what_becomes_of_values_outside(policy: str, others: list[str | None]) -> None:
    schema = Schema.parse(f'[table]\noutside_domain = "{policy}"\n{COLUMNS}')
    assert [column.other for column in schema.columns.values()] == others
    assert Schema.parse(schema.to_toml()) == schema
    if policy == "empty":
        assert schema == Schema.parse(COLUMNS)


def test_an_unknown_switch_is_refused() -> None:
    with pytest.raises(SchemaError, match="outside_domain"):
        Schema.parse(f'[table]\noutside_domain = "nowhere"\n{COLUMNS}')


def test_labels_reach_codebook_statement_and_report_and_integers_stay_integers(tmp_path: Path) -> None:
    schema = Schema.parse(f'[table]\noutside_domain = "first"\n{COLUMNS}')
    rows = pa.table(
        {
            "age": [20, None] * 200,
            "sex": ["m", "?"] * 200,
            "pay": [1.7, 2.5] * 200,
            "born": ["2001-05-05"] * 400,
            "own": ["a", "b"] * 200,
        }
    )
    release = pp.synthesize(
        rows,
        schema=schema,
        epsilon=5,
        delta="1e-6",
        method="independent",
        ledger=tmp_path / "l.db",
        dataset="d",
    )
    assert release.table.schema.field("age").type == pa.int64()
    assert all(not release.table[name].null_count for name in release.table.column_names)
    release.save(tmp_path / "out")
    codebook = json.loads((tmp_path / "out" / "codebook.json").read_text("utf-8"))
    assert (codebook["columns"][0]["label"], codebook["columns"][0]["description"]) == (
        "Age",
        "How old are you?",
    )
    lines = {line["column"]: line.get("label") for line in release.statement["domains"]}
    assert lines["sex"] == "Sex of the person"
    assert lines["pay"] is None
    assert "Sex of the person" in (tmp_path / "out" / "statement.md").read_text("utf-8")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "How old are you?" in page
    assert "Sex of the person" in page
    assert pp.verify(tmp_path / "out").passed
