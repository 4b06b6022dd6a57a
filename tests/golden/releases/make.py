"""Make the frozen releases of the format that this version writes: `python tests/golden/releases/make.py FORMAT`.

Run it once, when a format is new, and commit what it writes. Releases of older formats are never made again: that they
verify for ever is what they are for. Everybody in them is invented.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from populace.cli.main import main

HERE = Path(__file__).parent

SCHEMA = """
[table]
dataset = "frozen"
unit = "person"

[columns.sex]
kind = "categorical"
values = ["f", "m"]
labels = { f = "female", m = "male" }

[columns.age]
kind = "integer"
min = 0
max = 9

[columns.work]
kind = "categorical"
values = ["none", "part", "full"]
universe = "age >= 2"
outside = "child"

[columns.income]
kind = "numeric"
min = 0
max = 1000
width = 250
missing = ["refused"]

[[zeros]]
when = "age < 3 and income >= 500"
"""
LEARNT = """
[table]
dataset = "frozen-learnt"
unit = "person"

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.work]
kind = "categorical"
values = "learn"

[columns.income]
kind = "numeric"
min = 0
max = 1000
bins = "learn"
"""
PUBLIC = """
[table]
dataset = "frozen-public"
unit = "person"

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.age]
kind = "integer"
min = 0
max = 9

[columns.work]
kind = "categorical"
values = ["none", "part", "full", "child"]
"""
SURVEY = """
[table]
dataset = "frozen-survey"
unit = "person"

[columns.stratum]
kind = "categorical"
values = ["a", "b"]

[columns.psu]
kind = "integer"
min = 1
max = 3

[columns.weight]
kind = "numeric"
min = 0
max = 50
width = 10

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.income]
kind = "numeric"
min = 0
max = 1000
width = 100
"""
DESIGN = """
[design]
weights = "weight"
strata = "stratum"
psu = "psu"
"""
QUERIES = """
[[query]]
name = "income"
statistic = "mean"
column = "income"
by = ["sex"]

[[query]]
name = "persons"
statistic = "count"
by = ["sex"]

[[query]]
name = "median"
statistic = "quantile"
column = "income"
p = [0.5]
"""


def people(rows: int, *, seed: int) -> pa.Table:
    """Return invented people with every column that one of the schemas has."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 10, rows)
    work = np.where(age < 2, "child", rng.choice(["none", "part", "full"], rows, p=[0.2, 0.3, 0.5]))
    income = np.where(age < 3, rng.uniform(0, 250, rows), rng.uniform(0, 1000, rows)).round(1)
    return pa.table(
        {
            "stratum": rng.choice(["a", "b"], rows),
            "psu": rng.integers(1, 4, rows),
            "weight": rng.uniform(5, 40, rows).round(1),
            "sex": rng.choice(["f", "m"], rows),
            "age": age,
            "work": work,
            "income": income,
        }
    )


def make(out: Path) -> None:
    """Write one release of each kind."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        files = {"schema": SCHEMA, "more": SCHEMA.replace("frozen", "frozen-more"), "learnt": LEARNT}
        files |= {"public": PUBLIC, "survey": SURVEY, "design": DESIGN, "queries": QUERIES}
        for name, text in files.items():
            (place / f"{name}.toml").write_text(text, encoding="utf-8")
        pyarrow.csv.write_csv(people(300, seed=1), place / "people.csv")
        pyarrow.parquet.write_table(people(300, seed=2), place / "people.parquet")
        pyarrow.csv.write_csv(people(2000, seed=3), place / "known.csv")
        pyarrow.csv.write_csv(people(2000, seed=4), place / "many.csv")

        def run(verb: str, data: str, *words: str) -> None:
            given = [verb, f"@{data}", *words, "--ledger", "@ledger.db", "--no-report"]
            if main([word.replace("@", f"{place}/") for word in given]):
                raise SystemExit(1)

        budget = ("--epsilon", "4", "--delta", "1e-9")
        run("synth", "people.csv", "--schema", "@schema.toml", *budget, "--seed", "1", "--out", f"{out}/csv")
        run(
            *("synth", "people.parquet", "--schema", "@more.toml", *budget, "--where", "age >= 3"),
            # The same columns are others' people: an account that is named may be new.
            *(
                "--dataset",
                "frozen-more",
                "--rows",
                "120",
                "--implicates",
                "2",
                "--seed",
                "2",
                "--out",
                f"{out}/parquet",
            ),
        )
        run(
            *("synth", "many.csv", "--schema", "@learnt.toml", *budget),
            *("--seed", "3", "--rows", "200", "--out", f"{out}/learnt"),
        )
        run(
            *("synth", "people.csv", "--schema", "@public.toml", *budget, "--public", "@known.csv"),
            *("--seed", "4", "--out", f"{out}/public"),
        )
        run(
            *("estimate", "people.csv", "--schema", "@survey.toml", "--design", "@design.toml"),
            *("--queries", "@queries.toml", "--epsilon", "4", "--out", f"{out}/estimates"),
        )


if __name__ == "__main__":
    make(HERE / sys.argv[1])
