"""A small table with claims about it, for tests of checks and findings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from populace.schema.schema import Schema

SCHEMA_TEXT = """
[table]
dataset = "small-claims"
unit = "person"

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.age]
kind = "integer"
min = 0
max = 99

[columns.work]
kind = "categorical"
values = ["employed", "unemployed", "inactive"]
missing = ["?"]

[columns.income]
kind = "numeric"
min = 0
max = 1000
width = 50
missing = ["refused"]
"""
SCHEMA = Schema.parse(SCHEMA_TEXT)
# One of each kind, true and false ones.
CLAIMS = """
[[claims]]
name = "gap"
claim = "mean(income | sex == 'f') < mean(income | sex == 'm')"
[[claims]]
name = "old workers"
claim = "share(work == 'employed' | age >= 65) < 0.5"
[[claims]]
name = "pay"
claim = "mean(income | sex == 'f')"
within = "20 %"
[[claims]]
name = "old"
claim = "count(age >= 65)"
within = 300
[[claims]]
name = "all pay"
claim = "total(income) > 1e9"
[[claims]]
name = "most work"
claim = "largest(work | age < 60) == 'employed'"
weight = 2
[[claims]]
name = "together"
claim = "correlation(age, income) > -0.9"
[[claims]]
name = "slope"
claim = "coefficient(income ~ age + (sex == 'm') | age >= 20) > -500"
"""


def make_rows(count: int, *, seed: int = 1) -> pa.Table:
    """Return rows of which the men earn more, and most of the young work."""
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["f", "m"], count), rng.integers(0, 100, count)
    work = np.where(
        age >= 65,
        rng.choice(["employed", "inactive"], count, p=[0.1, 0.9]),
        rng.choice(["employed", "unemployed", "inactive", "?"], count, p=[0.6, 0.1, 0.2, 0.1]),
    )
    pay = np.clip(rng.gamma(4, 50, count) + np.where(sex == "m", 100, 0) + age, 0, 1200).round(1)
    income = np.where(rng.random(count) < 0.05, "refused", pay.astype(str))
    return pa.table({"sex": sex, "age": age, "work": work, "income": income})
