"""Invented tables, schemas, designs and queries that the digests are made of. Nobody in them is real."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

# ------------------------------------------------------------------------------------------------ two small tables

GROUPS = """groups = [["age", "work"], ["sex", "income"]]
partition = ["area"]
"""
PEOPLE = f"""
[table]
dataset = "people"
unit = "person"
max_rows = 2000
{GROUPS}
[columns.area]
kind = "categorical"
values = ["north", "south", "west"]

[columns.sex]
kind = "categorical"
values = ["f", "m"]
labels = {{ f = "female", m = "male" }}

[columns.age]
kind = "integer"
min = 0
max = 9

[columns.work]
kind = "categorical"
values = ["none", "part", "full"]

[columns.income]
kind = "numeric"
min = 0
max = 1000
width = 250
missing = ["refused"]
"""
TRIPS = """
[table]
dataset = "trips"
unit = "traveller"
id = "who"
rows_per_unit = 2
neighbours = "replace-one"
max_rows = 1000
groups = [["mode", "cost"]]
partition = ["month"]

[columns.month]
kind = "date"
min = 2020-01-01
max = 2020-06-30
width = "month"

[columns.mode]
kind = "ordinal"
values = ["walk", "bus", "train"]
other = "walk"

[columns.cost]
kind = "integer"
edges = [0, 5, 20, 60]
top = 60

[columns.paid]
kind = "categorical"
values = ["cash", "card"]
"""
RULES = """
[table]
dataset = "people"
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
values = ["none", "part", "full"]
universe = "age >= 2"
outside = "child"

[columns.pay]
kind = "integer"
min = 0
max = 99
split = 10
universe = "work != 'none'"
outside = "-1"

[columns.busy]
kind = "categorical"
function_of = "work"
map = { "none" = "no", "part" = "yes", "full" = "yes", "child" = "no" }

[[zeros]]
when = "age < 4 and work == 'full'"
"""
TOTALS = """
[[totals]]
by = ["sex"]
counts = { f = 160, m = 140 }
"""
LEARN = """
[table]
dataset = "people"
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

[columns.pay]
kind = "integer"
min = 0
max = 99
width = 20
inside = "learn"
"""
WORKLOAD = """
[[marginals]]
columns = ["age", "work"]
weight = 2

[[marginals]]
columns = ["sex", "work", "income"]
"""
ROUNDS = """
[rounds]
share = 0.5
threshold = 3

[columns.age]
compress = false

[[marginals]]
columns = ["sex", "income"]
coarse = { income = ["0..499", "500..", "*"] }

[[marginals]]
columns = ["age", "work"]
"""


GEOGRAPHY = """
[table]
dataset = "counted"
unit = "person"
frequency = "n"
[geography]
levels = ["county", "block"]
units = ["A|1", "A|2", "B|1", "B|2", "B|3"]
[[invariants]]
by = ["county"]
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "m"
[columns.age]
kind = "categorical"
values = ["child", "adult", "old"]
other = "adult"
[[zeros]]
when = "sex == 'm' and age == 'old'"
"""


def counted_people() -> pa.Table:
    """Rows that stand for several people, one of them off the spine and one that breaks a rule."""
    return pa.table(
        {
            "county": ["A", "A", "A", "B", "B", "B", "C"],
            "block": ["1", "2", "2", "1", "1", "9", "1"],
            "sex": ["f", "m", "f", "m", "f", "m", "f"],
            "age": ["adult", "child", "old", "adult", "adult", "old", "child"],
            "n": [40, 7, 3, 120, 95, 2, 1],
        }
    )


def people(rows: int, *, seed: int) -> pa.Table:
    """Return rows with every column that PEOPLE, RULES or LEARN has."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 10, rows)
    work = np.where(age < 2, "child", rng.choice(["none", "part", "full"], rows, p=[0.2, 0.3, 0.5]))
    work = np.where((age < 4) & (work == "full"), "part", work)
    income = np.where(work == "full", rng.uniform(400, 1000, rows), rng.uniform(0, 500, rows)).round(1)
    pay = np.where(np.isin(work, ["none", "child"]), -1, np.minimum(99, 5 * rng.poisson(9, rows)))
    return pa.table(
        {
            "area": rng.choice(["north", "south", "west"], rows, p=[0.5, 0.3, 0.2]),
            "sex": np.where(rng.random(rows) < 0.5 + 0.02 * age, "f", "m"),
            "age": age,
            "work": work,
            "income": np.where(rng.random(rows) < 0.05, "refused", income.astype(str)),
            "pay": pay,
        }
    )


def trips(rows: int, *, seed: int) -> pa.Table:
    """Return rows of TRIPS, up to three for each traveller."""
    rng = np.random.default_rng(seed)
    mode = rng.choice(["walk", "bus", "train", "boat"], rows, p=[0.3, 0.4, 0.28, 0.02])
    cost = np.select(
        [mode == "walk", mode == "bus"], [0, rng.integers(1, 8, rows)], rng.integers(10, 90, rows)
    )
    day = np.datetime64("2020-01-01") + rng.integers(0, 182, rows)
    return pa.table(
        {
            "who": rng.integers(0, rows // 2, rows).astype(str),
            "month": day,
            "mode": mode,
            "cost": cost,
            "paid": np.where(rng.random(rows) < 0.2 + 0.01 * np.minimum(cost, 60), "card", "cash"),
        }
    )


# ---------------------------------------------------------------------------------------------------- small surveys

SURVEY = """
[table]
dataset = "survey"
unit = "person"
max_rows = 2000

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

[columns.rep1]
kind = "numeric"
min = 0
max = 50
width = 50

[columns.rep2]
kind = "numeric"
min = 0
max = 50
width = 50

[columns.rep3]
kind = "numeric"
min = 0
max = 50
width = 50

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

[columns.rent]
kind = "numeric"
min = -50
max = 50
width = 25
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
p = [0.25, 0.5]
"""
OTHER_QUERIES = """
[[query]]
statistic = "total"
column = "rent"
where = "age >= 18"
share = 2

[[query]]
statistic = "ratio"
column = "income"
y = "rent"

[[query]]
statistic = "variance"
column = "income"

[[query]]
statistic = "correlation"
column = "income"
y = "rent"

[[query]]
statistic = "proportion"
column = "age"

[[query]]
statistic = "frequency"
by = ["sex"]
"""
MEANS = """
[[query]]
statistic = "mean"
column = "income"
by = ["sex"]

[[query]]
statistic = "proportion"
that = "income >= 300"
"""
COUNTS = """
[[query]]
statistic = "count"
by = ["sex"]

[[query]]
statistic = "count"
where = "income < 300"
"""
DESIGNS = {
    "rows": ("[design]\n", QUERIES + OTHER_QUERIES),
    "weights": ('[design]\nweights = "weight"\nmax_weight = 40\n', QUERIES + OTHER_QUERIES),
    "strata": (
        '[design]\nstrata = "stratum"\nbase = { a = 20, b = 30.5 }\nfpc = { a = 4000, b = 0.1 }\n',
        QUERIES,
    ),
    "psus": ('[design]\nweights = "weight"\nstrata = "stratum"\npsu = "psu"\n', QUERIES + OTHER_QUERIES),
    "design effect": (
        '[design]\nweights = "weight"\npsu = "psu"\nmax_design_effect = 4\nfpc = 60\n',
        QUERIES,
    ),
    "lonely": (
        '[design]\nstrata = "stratum"\npsu = "psu"\npsus = { a = ["1"] }\nlonely = "adjust"\n',
        MEANS + COUNTS,
    ),
    "replicates": (
        '[design]\nweights = "weight"\nreplicates = { columns = ["rep1", "rep2", "rep3"], type = "JK1" }\n',
        QUERIES,
    ),
    "impute": ('[design]\n[missing.income]\nhow = "impute"\nmatch = ["sex", "age"]\n', MEANS),
    "impute the mean of three": (
        '[design]\n[missing.income]\nhow = "impute"\nmatch = ["sex", "age"]\nk = 3\ntake = "mean"\n',
        MEANS,
    ),
    "impute from a model": ('[design]\n[missing.income]\nhow = "model"\nmatch = ["sex", "age"]\n', MEANS),
    "totals": ('[[totals]]\nby = ["sex"]\ncounts = { f = 5100, m = 4900 }\n', COUNTS),
    "raking": (
        '[design]\nweights = "weight"\nshrink = 0.5\n[[totals]]\nby = ["sex"]\ncounts = { f = 5100, m = 4900 }\n'
        '[[totals]]\nby = ["age"]\ncounts = { "0" = 2500, "20" = 6000, "70" = 1500 }\n',
        COUNTS,
    ),
    "bins": (
        '[[totals]]\nby = ["age"]\ncounts = { "0" = 2500, "20" = 6000, "70" = 1500 }\n[[totals.bins]]\nname = "three"\n'
        '[[totals.bins]]\nname = "two"\nedges = { age = [0, 18] }\n',
        COUNTS,
    ),
}
WEIGHTING = """
[[totals]]
by = ["sex"]
counts = { f = 5100, m = 4900 }

[[totals]]
by = ["age"]
edges = { age = [0, 5] }
counts = { 0 = 4000, 5 = 6000 }
"""


def survey(rows: int, *, seed: int) -> pa.Table:
    """Return rows of SURVEY."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    income = (rng.gamma(4, 60, rows) + age).clip(0, 1000).round(1)
    weight = rng.integers(1, 50, rows).astype(float)
    return pa.table(
        {
            "stratum": rng.choice(["a", "b"], rows),
            "psu": rng.integers(1, 4, rows),
            "weight": weight,
            **{f"rep{n}": (weight * rng.uniform(0.2, 1, rows)).round(2) for n in (1, 2, 3)},
            "sex": rng.choice(["f", "m"], rows),
            "age": age,
            "income": np.where(rng.random(rows) < 0.1, "refused", income.astype(str)),
            "rent": rng.integers(-50, 51, rows),
        }
    )


def nhanes(rows: int, *, seed: int) -> pa.Table:
    """Return invented rows with the columns of the NHANES example."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 81, rows)
    education = ["8th Grade", "9 - 11th Grade", "High School", "Some College", "College Grad"]
    return pa.table(
        {
            "ID": np.arange(rows).astype(str),
            "SDMVSTRA": rng.integers(75, 104, rows),
            "SDMVPSU": rng.integers(1, 3, rows),
            "WTMEC2YR": rng.uniform(0, 120_000, rows).round(1),
            "SurveyYr": rng.choice(["2009_10", "2011_12"], rows),
            "Gender": rng.choice(["female", "male"], rows),
            "Age": age,
            "Education": rng.choice(education, rows),
            "BMI": rng.uniform(15, 45, rows).round(2),
            "BPSysAve": (90 + 0.5 * age + rng.integers(0, 40, rows)).astype(np.int64),
            "TotChol": rng.uniform(2, 8, rows).round(2),
            "Diabetes": np.where(rng.random(rows) < 0.1, "Yes", "No"),
            "Smoke100": rng.choice(["No", "Yes"], rows),
        }
    )
