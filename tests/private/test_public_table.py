"""The name of a public frame: any other frame has another one; and which tables are refused as public ones."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from populace.core.errors import UsageError
from populace.core.table_address import parse_address
from populace.private.public_table import check_not_private, check_not_same_table, read_public
from populace.schema.schema import Schema

SCHEMA = Schema.parse(
    "".join(
        f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = 5\n\n' for name in ("first", "middle", "last")
    )
)
ROWS = [(0, 1, 2), (3, 4, 5), (5, 0, 1)]


def digest(rows, schema=SCHEMA):
    columns = dict(zip(SCHEMA.columns, map(list, zip(*rows, strict=True)), strict=True))
    return read_public(pa.table(columns), schema=schema).digest


def test_frames_that_differ_anywhere_have_other_names():
    others = {
        "as it is": ROWS,
        "a row less": ROWS[:2],
        "a row twice": [*ROWS, ROWS[2]],
    }
    for row in range(3):
        for column in range(3):
            changed = list(ROWS[row])
            changed[column] = (changed[column] + 1) % 6
            others[f"row {row}, column {column}"] = [*ROWS[:row], tuple(changed), *ROWS[row + 1 :]]
    others["columns swapped"] = [(b, a, c) for a, b, c in ROWS]
    found = {name: digest(rows) for name, rows in others.items()}
    assert len(set(found.values())) == len(found)
    assert digest(list(ROWS)) == found["as it is"]


def test_a_frame_has_one_name_whatever_schema_reads_it():
    wider = Schema.parse(SCHEMA.to_toml().replace("max = 5", "max = 6"))
    assert digest(ROWS, schema=wider) == digest(ROWS)


PRIVATE_TABLES = {
    "a.duckdb::people": (
        "./a.duckdb::people",
        "a.duckdb::main.people",
        "./a.duckdb::PEOPLE",
        "link.duckdb::people",
    ),
    "postgresql://host/db::people": (
        "postgresql://host:5432/db::people",
        "postgres://other/db::public.People",
    ),
    "spark:people": ("spark:default.PEOPLE",),
    "parts/*.csv": ("parts/a.csv", "./parts/a.csv", "hard.csv", "parts/?.csv"),
    "parts/a.csv": ("parts/*.csv", "parts/../parts/[ab].csv"),
    "lake": ("lake/one.parquet", "lake/*.parquet", "lake/../lake"),
    "lake/one.parquet": ("lake",),
}


@pytest.mark.parametrize(
    ("private", "public"), [(private, each) for private, listed in PRIVATE_TABLES.items() for each in listed]
)
def test_the_private_table_is_no_public_one_under_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: str, public: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("parts/a.csv", "parts/b.csv", "lake/one.parquet", "a.duckdb", "b.duckdb", "other.csv"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("x")
    os.link("parts/b.csv", "hard.csv")
    Path("link.duckdb").symlink_to("a.duckdb")
    with pytest.raises(UsageError, match="is the private table"):
        check_not_same_table(public, data=parse_address(private) or Path(private), accounts=())
    for other in (
        "other.csv",
        "b.duckdb::people",
        "a.duckdb::towns",
        "postgresql://host/db::towns",
        "nowhere/*.csv",
    ):
        check_not_same_table(other, data=parse_address(private) or Path(private), accounts=())


def test_a_file_of_a_pattern_may_have_an_account(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("x")
    with pytest.raises(UsageError, match="names a private table"):
        check_not_private(tmp_path / "*.csv", accounts=("people",))
