"""Tables of DuckDB: what is read follows from the table alone, not from order, a collation, a clock or other files."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import pytest

import populace as pp
from populace.core.errors import DataError
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.split_key import Split, SplitKey
from populace.private.private_table import PrivateTable
from populace.private.read.rows_to_codes import open_source
from populace.private.secret_split import split_table
from populace.schema.codec.cell_texts import to_texts

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


def save(folder: Path, *commands: str) -> Path:
    with duckdb.connect(folder / "x.duckdb") as connection:
        for command in commands:
            connection.execute(command)
    return folder / "x.duckdb"


def test_only_tables_and_views_of_the_database_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would take other names for those of files, and of variables of this program."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("x\n1\n")
    path = save(
        tmp_path,
        "CREATE TABLE people (a INTEGER)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.people (b INTEGER)",
        'CREATE TABLE s."other.csv" (b INTEGER)',
        "CREATE VIEW seen AS SELECT a AS c FROM people",
    )
    found = {
        "people": "a",
        "PEOPLE": "a",
        "main.people": "a",
        "s.people": "b",
        "x.people": "a",
        "x.s.people": "b",
    }
    for name, column in (found | {"seen": "c", 's."other.csv"': "b"}).items():
        assert open_source(f"{path}::{name}").names == (column,), name
    for name in ('"people.csv"', "address", '"other.csv"', "s.seen", "y.people", "a.b.c.people"):
        with pytest.raises(DataError, match="no table"):
            open_source(f"{path}::{name}")


def test_moments_do_not_follow_the_zone_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(
        tmp_path,
        "CREATE TABLE people (t TIMESTAMPTZ)",
        "INSERT INTO people VALUES ('2020-01-01 00:30:00+00')",
        "CREATE VIEW days AS SELECT CAST(CAST(t AS DATE) AS VARCHAR) AS d FROM people",
    )
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        (batch,) = open_source(f"{path}::days").batches(["d"])
        assert to_texts(batch.column("d")).to_pylist() == ["2020-01-01"]
        (batch,) = open_source(f"{path}::people").batches(["t"])
        assert str(to_texts(batch.column("t"))[0]).startswith("2020-01-01 00:30:00")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_unit_of_a_query_without_order_lands_in_one_piece() -> None:
    schema = pp.Schema.parse("""
    [table]
    unit = "person"
    id = "person"
    rows_per_unit = 2

    [columns.who]
    kind = "integer"
    min = 0
    max = 49
    """)
    split = Split(shares=(Fraction(1, 2),) * 2, neighbours=schema.unit.neighbours)
    with duckdb.connect() as connection:
        rows = connection.sql(
            "SELECT i % 50 AS who, 'p' || who AS person FROM range(100) t(i) ORDER BY random()"
        )
        pieces = split_table(rows, schema=schema, split=split, key=SplitKey.draw(RehearsalEntropy(5)))
        first, second = (piece.survey_rows().codes["who"].tolist() for piece in pieces)
    assert sorted([*first, *second]) == sorted([*range(50), *range(50)])
    assert not set(first) & set(second)
