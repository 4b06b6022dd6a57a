"""Tables of DuckDB: what is read follows from the table alone, not from order, a collation, a clock or other files."""

from __future__ import annotations

from itertools import permutations

import pytest

import populace as pp
from populace.private.private_table import PrivateTable

duckdb = pytest.importorskip("duckdb")
KEEP_ONE = pp.Schema.parse("""
[table]
unit = "person"
id = "person"
rows_per_unit = 1

[columns.place]
kind = "categorical"
values = ["a", "A", "b"]
""")


def test_texts_that_a_collation_calls_equal_have_an_order() -> None:
    """Which row a unit keeps must not follow from where the rows lie."""
    kept = set()
    for order in permutations(["a", "A", "b\\x"]):
        with duckdb.connect() as connection:
            text = "VARCHAR COLLATE NOCASE"
            connection.execute(f"CREATE TABLE visits (person {text}, place {text})")
            for place in order:
                connection.execute("INSERT INTO visits VALUES ('p', ?)", [place])
            rows, _ = PrivateTable.of(connection.table("visits"), schema=KEEP_ONE).engine().tally()
            kept.add(tuple(rows[:, 0].tolist()))
    assert kept == {(1,)}
