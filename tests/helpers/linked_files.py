"""Two small linked tables: households and persons, with everything in them that a file may hold, and neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from populace.private.read.household_source import open_tables
from populace.private.read.rows_to_codes import check_header, read_codes
from populace.schema.schema import Schema

TEXT = """
[table]
dataset = "homes"
unit = "household"
neighbours = "{neighbours}"
max_rows = 1000

[tables.household]
key = "home"

[tables.household.columns.tenure]
kind = "categorical"
values = ["owned", "rented"]
other = "rented"

[tables.person]
of = "household"
key = "lives_in"
max_rows = {most}
order = ["age desc", "sex"]
{roles}
[tables.person.columns.relationship]
kind = "categorical"
values = ["head", "spouse", "child"]
other = "child"

[tables.person.columns.age]
kind = "integer"
edges = [0, 15, 30, 60, 99]
other = "0"

[tables.person.columns.sex]
kind = "categorical"
values = ["f", "m"]

[tables.person.columns.work]
kind = "categorical"
values = ["yes", "no"]
other = "no"
universe = "age >= 15"
outside = "N"
"""
ROLES = 'householder = "relationship == \'head\'"\npartner = "relationship == \'spouse\'"\nsize = "number"\n'
RULES = """
[[zeros]]
when = "relationship == 'head' and age < 15"

[[zeros]]
when = "relationship == 'child' and age >= 15 and age.1 < 30"
"""

SPINE = """
[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "B|1"]
"""

Home = tuple[str | None, str]
Person = tuple[str | None, str, int, str, str]
Tables = tuple[list[Home], list[Person]]


def linked_schema(*, most: int = 3, neighbours: str = "add-remove", roles: bool = True) -> Schema:
    """Return the schema of the two tables, with roles and rules or without."""
    text = TEXT.format(most=most, neighbours=neighbours, roles=ROLES if roles else "")
    return Schema.parse(text + (RULES if roles else ""))


def placed_schema(
    *, most: int = 3, neighbours: str = "add-remove", roles: bool = True, exact: Sequence[str] = ()
) -> Schema:
    """Return the same schema with the counties and tracts that households are in; `exact` levels are invariant."""
    text = TEXT.format(most=most, neighbours=neighbours, roles=ROLES if roles else "")
    totals = "".join(
        f"[[invariants]]\nby = {[level] if level else []}\n".replace("'", '"') for level in exact
    )
    return Schema.parse(text + (RULES if roles else "") + SPINE + totals)


def place_frames(tables: Tables, *, tracts: Mapping[str | None, tuple[str, str]]) -> dict[str, pa.Table]:
    """Return rows as two Arrow tables; a household that is not named is in tract 1 of county A."""
    frames = to_frames(tables)
    places = [tracts.get(key, ("A", "1")) for key in frames["household"]["home"].to_pylist()]
    for number, level in enumerate(("county", "tract")):
        column = pa.array([place[number] for place in places], pa.string())
        frames["household"] = frames["household"].append_column(level, column)
    return frames


def to_frames(tables: Tables) -> dict[str, pa.Table]:
    """Return rows as two Arrow tables."""
    homes, persons = tables
    return {
        "household": _frame(homes, {"home": pa.string(), "tenure": pa.string()}),
        "person": _frame(
            persons,
            {"lives_in": pa.string(), "relationship": pa.string(), "age": pa.int64()}
            | {"sex": pa.string(), "work": pa.string()},
        ),
    }


def _frame(rows: list[Any], types: dict[str, pa.DataType]) -> pa.Table:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    return pa.table({name: pa.array(x, kind) for (name, kind), x in zip(types.items(), cells, strict=True)})


def draw_household(rng: np.random.Generator, key: str | None, *, persons: int) -> Tables:
    """Draw the rows of one key: none, one or two rows of a household, and so many persons, with odd values."""
    homes = [(key, str(rng.choice(["owned", "rented", "??"]))) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
    return homes, [
        (
            key,
            str(rng.choice(["head", "spouse", "child", "lodger", ""])),
            int(rng.choice([-999_999, -1, 3, 14, 15, 40, 70, 10**9])),
            str(rng.choice(["f", "m", "absent", ""])),
            str(rng.choice(["yes", "no", "N", "x"])),
        )
        for _ in range(persons)
    ]


def draw_neighbours(rng: np.random.Generator, *, most: int, swap: bool = False) -> tuple[Tables, Tables]:
    """Draw two pairs of tables that differ in all rows of one household; or, to swap, of two of them."""
    base: Tables = ([], [])
    for number in range(rng.integers(0, 6)):
        for rows, more in zip(
            base, draw_household(rng, f"h{number}", persons=int(rng.integers(0, 6))), strict=True
        ):
            rows += more
    for key in (None, "  ", "nobody"):
        base[1].extend(draw_household(rng, key, persons=int(rng.integers(0, 3)))[1])
    base[0].append((None, "owned"))
    base = (
        [base[0][i] for i in rng.permutation(len(base[0]))],
        [base[1][i] for i in rng.permutation(len(base[1]))],
    )
    pair = []
    for number in range(2):
        extra: Tables = ([], [])
        if number or swap:
            extra = draw_household(rng, f"new{number}", persons=int(rng.integers(0, most + 4)))
        pair.append(tuple(_insert(rng, rows, more) for rows, more in zip(base, extra, strict=True)))
    return pair[0], pair[1]  # type: ignore[return-value]


def _insert(rng: np.random.Generator, rows: list[Any], extra: list[Any]) -> list[Any]:
    found = list(rows)
    for place, row in zip(
        sorted(rng.integers(0, len(rows) + 1, len(extra)), reverse=True), extra, strict=True
    ):
        found.insert(int(place), row)
    return found


def wide_rows(tables: Tables, schema: Schema) -> Counter[tuple[int, ...]]:
    """Return the wide rows that are counted, as codes, each with how often it occurs."""
    source = open_tables(to_frames(tables), schema=schema)
    check_header(source, schema)
    codes = read_codes(source, schema)
    return Counter(zip(*(codes[name].tolist() for name in schema.domain), strict=True))
