"""The name of a public frame: any other frame has another one."""

from __future__ import annotations

import pyarrow as pa

from populace.private.public_table import read_public
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
