"""A small survey for tests of whole runs: a schema, a design, queries, and rows of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from populace.api.estimate import estimate
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.estimates_bundle import Estimates
from populace.schema.schema import Schema

SCHEMA = """
[table]
dataset = "small-survey"
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
labels = { f = "female", m = "male" }

[columns.age]
kind = "integer"
edges = [0, 18, 65, 100]

[columns.income]
kind = "numeric"
min = 0
max = 1000
width = 100
missing = ["refused"]
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
name = "grown up"
statistic = "proportion"
that = "age >= 18"

[[query]]
name = "persons"
statistic = "count"
by = ["age"]

[[query]]
name = "median"
statistic = "quantile"
column = "income"
p = [0.5]
"""
FILLED = """
[missing.income]
how = "model"
match = ["sex", "age"]
"""
TOTALS = """
[[totals]]
by = ["sex"]
counts = { f = 5100, m = 4900 }
"""


def rows(count: int = 400, *, seed: int = 1) -> pa.Table:
    """Return made-up rows."""
    rng = np.random.default_rng(seed)
    income = [str(round(value, 1)) for value in rng.gamma(4, 90, count).clip(0, 1000)]
    for place in np.flatnonzero(rng.random(count) < 0.1):
        income[place] = "refused"
    return pa.table(
        {
            "stratum": np.array(["a", "b"])[rng.integers(0, 2, count)],
            "psu": rng.integers(1, 4, count),
            "weight": rng.integers(1, 50, count).astype(float),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, count)],
            "age": rng.integers(0, 100, count),
            "income": pa.array(income, pa.string()),
        }
    )


def files(
    folder: Path, *, design: str = DESIGN, queries: str = QUERIES, schema: str = SCHEMA
) -> dict[str, Path]:
    """Write the files of a survey, and return where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"schema": schema, "design": design, "queries": queries}
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.toml" for name in texts}


def run(
    table: Any,
    folder: Path,
    *,
    design: str = DESIGN,
    queries: str = QUERIES,
    epsilon: str = "8",
    delta: str = "1e-6",
    seed: int | None = None,
    ledger: str = "ledger.db",
) -> Estimates:
    """Return the estimates of a table; with a seed, from a rehearsal."""
    paths = files(folder / "files", design=design, queries=queries)
    return estimate(
        table,
        schema=Schema.parse(SCHEMA),
        design=paths["design"],
        queries=paths["queries"],
        epsilon=epsilon,
        delta=delta,
        ledger=folder / ledger,
        noise=None if seed is None else ExactNoise(RehearsalEntropy(seed)),
    )
