"""Public totals, and schemas that declare everything at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from populace.core.errors import SchemaError
from populace.schema.conditions.rules import Totals
from populace.schema.schema import Schema
from tests.schema.conditions.test_function_columns import LEVELS, UNKNOWN
from tests.schema.conditions.test_rules import ACS

TOTALS = (
    ACS
    + """
[[totals]]
by = []
count = 100

[[totals]]
by = ["MSP"]
counts = { "1" = 60, "6" = 30, "N" = 10 }

[[totals]]
by = ["MSP", "NOC"]
counts = [
  { MSP = "1", NOC = "none", count = 60 }, { MSP = "6", NOC = 3, count = 30 },
  { MSP = "N", NOC = "none", count = 10 },
]
"""
)


def test_totals_span_all_codes() -> None:
    schema = Schema.parse(TOTALS)
    rows, marriage, both = schema.totals
    assert rows.clique == ()
    assert int(rows.counts) == 100
    assert marriage.counts.tolist() == [60, 0, 30, 10]
    assert both.counts.shape == (4, 6)
    assert both.counts[0, 4] == 60
    assert both.counts[2, 3] == 30
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert again.to_toml() == schema.to_toml()
    for one, two in zip(again.totals, schema.totals, strict=True):
        assert np.array_equal(one.counts, two.counts)
    assert Schema.parse(TOTALS.replace("60", "59").replace("= 30", "= 31")) != schema


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("count = 100", "count = 99", "add up to 99 and to 100 rows", "must be equal"),
        ("count = 60", "count = 59", "add up to 99 and to 100 rows", "must be equal"),
        (
            '{ "1" = 60, "6" = 30',
            '{ "1" = 61, "6" = 29',
            "count 'MSP' differently",
            "sums over other columns",
        ),
        ("count = 100", "count = -1", "no whole number of rows", "0 or more"),
        ("count = 100", "count = 1.5", "no whole number of rows", "0 or more"),
        ("count = 100", "count = '100'", "no whole number of rows", "0 or more"),
        ("count = 100", "counts = { a = 1 }", "[[totals]] 1 needs count, and no counts", "by = []"),
        ("count = 100", "", "needs count", "by = []"),
        ('by = ["MSP"]', 'by = ["msp"]', "no column 'msp'", "did you mean 'MSP'?"),
        ('by = ["MSP"]', 'by = ["MSP", "MSP"]', "names a column twice", "once"),
        ('"6" = 30', '"7" = 30', "'7' is not a value of column 'MSP'", "missing codes"),
        ('"N" = 10', '"N" = 10, "N " = 0', "'N ' is not a value", "missing codes"),
        ("NOC = 3, count", "NOC = 3, kount", "does not name just 'MSP', 'NOC', 'count'", "every column"),
        ('MSP = "6", NOC = 3', 'MSP = "1", NOC = "none"', "twice", "once"),
        ('counts = { "1" = 60, "6" = 30, "N" = 10 }', "counts = 7", "do not fit 'MSP'", "counts = ["),
    ],
)
def test_totals_that_do_not_fit_are_refused(old: str, new: str, message: str, hint: str) -> None:
    assert old in TOTALS
    with pytest.raises(SchemaError) as caught:
        Schema.parse(TOTALS.replace(old, new))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_totals_by_functions_and_unknown_columns_are_refused() -> None:
    for text, name in ((LEVELS, "STATE"), (UNKNOWN, "CITY")):
        with pytest.raises(SchemaError, match="can have no totals"):
            Schema.parse(text + f'\n[[totals]]\nby = ["{name}"]\ncounts = {{ "25" = 1 }}')


def test_everything_comes_back_from_toml() -> None:
    text = '[table]\nunit = "person"\n' + TOTALS + LEVELS + UNKNOWN.replace("columns.", "columns.X")
    text = text.replace('universe = "AGE >= 5"', 'universe = "XAGE>=5"')
    schema = Schema.parse(text)
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert again.to_toml() == schema.to_toml()
    assert again.columns["XINCOME"].universe == "XAGE >= 5"
    assert again.zeros == schema.zeros
    assert again.zeros[1].replacement == {"NOC": "0"}


@pytest.mark.parametrize(
    "column",
    [
        "kind = 'integer'\nmin = 0\nmax = 6\ntop = 6\nbottom = 0",
        "kind = 'numeric'\nedges = [0.001, 1, 2]\nbottom = 0.001\ntop = 2",
        "kind = 'numeric'\nedges = [0.001, 1, 2]\nbottom = 0.001\nother = 'x'",
        "kind = 'date'\nedges = ['2020-01-01', '2020-05-01', '2021-01-01']",
    ],
)
def test_totals_of_every_code_come_back_from_toml(column: str) -> None:
    """A bottom code has a text of its own: it is not that of empty cells, nor that of the bin above it."""
    bare = Schema.parse(f"[columns.x]\n{column}\n")
    counts = np.arange(1, 1 + bare.columns["x"].size)
    schema = replace(bare, totals=(Totals(clique=("x",), counts=counts),))
    again = Schema.parse(schema.to_toml())
    assert again.totals[0].counts.tolist() == counts.tolist()
    assert again == schema
    only = [
        replace(bare, totals=(Totals(clique=("x",), counts=row),)) for row in np.eye(counts.size, dtype=int)
    ]
    assert len({each.digest for each in only}) == counts.size
