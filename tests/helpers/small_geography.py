"""A small geography for tests: two counties, five tracts whose ids repeat, and invented persons in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import populace as pp
from populace.release.bundle import Release
from populace.schema.schema import Schema

PATHS = (("A", "1"), ("A", "2"), ("A", "3"), ("B", "1"), ("B", "4"))
COLUMNS = """
[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "A|3", "B|1", "B|4"]

[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"

[columns.age]
kind = "integer"
min = 0
max = 89
width = 30
other = "0"
"""
GROUPS = ("0–29", "30–59", "60–89")
ZEROS = """
[[zeros]]
when = "sex == 'm' and age >= 60"
"""


def geography_schema(*, frequency: bool = False, zeros: bool = False) -> Schema:
    """Return a schema with a geography, of rows that count persons or are persons."""
    counted = 'frequency = "n"\n' if frequency else ""
    columns = COLUMNS
    if frequency:
        columns = COLUMNS[: COLUMNS.index("[columns.age]")] + (
            f'[columns.age]\nkind = "categorical"\nvalues = {list(GROUPS)}\nother = "0–29"\n'
        )
    table = f'[table]\ndataset = "land"\nunit = "person"\n{counted}'
    return Schema.parse(table + columns + (ZEROS if zeros else ""))


def invent_persons(rows: int = 400, *, seed: int = 1) -> pa.Table:
    """Return persons in some of the tracts: one of them stays empty."""
    rng = np.random.default_rng(seed)
    places = rng.choice(4, size=rows, p=[0.4, 0.3, 0.2, 0.1])
    return pa.table(
        {
            "county": [PATHS[place][0] for place in places],
            "tract": [PATHS[place][1] for place in places],
            "sex": rng.choice(["f", "m"], size=rows).tolist(),
            "age": rng.integers(0, 90, size=rows).tolist(),
        }
    )


def count_persons(persons: pa.Table) -> pa.Table:
    """Return equal persons as one row with their number, their ages in groups."""
    groups = pa.array([GROUPS[age // 30] for age in persons["age"].to_pylist()])
    persons = persons.set_column(persons.column_names.index("age"), "age", groups)
    counted = persons.group_by(persons.column_names).aggregate([([], "count_all")])
    return counted.rename_columns([*persons.column_names, "n"])


def release_geography(
    ledger: Path, *, frequency: bool = False, zeros: bool = False, epsilon: str = "2", delta: str = "1e-9"
) -> Release:
    """Return a release of invented persons, with real noise, paid by a new ledger."""
    persons = invent_persons()
    return pp.synthesize(
        count_persons(persons) if frequency else persons,
        schema=geography_schema(frequency=frequency, zeros=zeros),
        epsilon=epsilon,
        delta=delta,
        ledger=ledger,
        seed=7,
    )
