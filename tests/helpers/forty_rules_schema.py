"""The schema of invented persons behind forty rules that depend on each other; `forty_rules` draws their rows."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

DISTRICTS = [f"{region}{number}" for region in "nesw" for number in (1, 2, 3)]
OCCUPATIONS = ["11", "12", "21", "22", "31", "32", "41", "51", "52", "61", "71", "72", "91", "92"]
SCHOOLING = ["none", "primary", "lower", "upper", "college", "degree"]
TRADES = ["baker", "smith", "lawyer", "farmer", "driver", "painter", "tailor", "barber", "grocer", "builder"]
STAGES = ["child", "young", "adult", "old"]
WORKS = ["employee", "self", "none", "student", "retired"]
BENEFITS = {("retired", "old"): "full", ("retired", "adult"): "part", ("none", "adult"): "part"}
SURVEYED = 2020

_STAGE_MAP = ", ".join(
    f'"{age}" = "{STAGES[int(np.searchsorted([16, 30, 65], age, side="right"))]}"' for age in range(91)
)
_BENEFIT_MAP = ", ".join(
    f'"{work}|{stage}" = "{BENEFITS.get((work, stage), "no")}"' for work in [*WORKS, "N"] for stage in STAGES
)


def _listed(texts: list[str]) -> str:
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


_COLUMNS = f"""
[table]
dataset = "stress"
unit = "person"

[columns.district]
kind = "categorical"
values = {_listed(DISTRICTS)}
other = "n1"
parent = "region"

[columns.region]
kind = "categorical"
values = ["n", "e", "s", "w"]

[columns.age]
kind = "integer"
min = 0
top = 90
other = "0"

[columns.stage]
kind = "ordinal"
values = {_listed(STAGES)}
function_of = ["age"]
map = {{ {_STAGE_MAP} }}

[columns.born]
kind = "date"
min = 1910-01-01
max = 2020-12-31
width = "5 years"
missing = ["unknown"]
other = "unknown"

[columns.relation]
kind = "categorical"
values = ["head", "spouse", "child", "other"]
other = "other"

[columns.size]
kind = "integer"
min = 1
max = 9
other = "1"

[columns.children]
kind = "integer"
min = 0
max = 8
other = "0"

[columns.earners]
kind = "integer"
min = 0
max = 6
other = "0"

[columns.marital]
kind = "categorical"
values = ["single", "married", "divorced", "widowed"]
missing = ["R"]
other = "R"
universe = "age >= 16"
outside = "N"

[columns.spouse_work]
kind = "categorical"
values = ["yes", "no"]
missing = ["R"]
other = "R"
universe = "marital == 'married'"
outside = "N"

[columns.schooling]
kind = "ordinal"
values = {_listed(SCHOOLING)}
missing = ["R", "D"]
other = "D"
universe = "age >= 5"
outside = "N"

[columns.work]
kind = "categorical"
values = {_listed(WORKS)}
other = "none"
universe = "age >= 15"
outside = "N"

[columns.occupation]
kind = "categorical"
values = {_listed(OCCUPATIONS)}
missing = ["R"]
other = "R"
universe = "work in ['employee', 'self']"
outside = "N"
parent = "branch"

[columns.branch]
kind = "categorical"
values = ["1", "2", "3", "4", "5", "6", "7", "9"]
missing = ["R", "N"]
other = "R"

[columns.wage]
kind = "integer"
min = 0
max = 400000
bins = "learn"
missing = ["R"]
other = "R"
universe = "work == 'employee'"
outside = "N"

[columns.hours]
kind = "numeric"
edges = [1, 10, 20, 30, 35, 40, 45, 60, 80]
bottom = 1
top = 80
decimals = 1
inside = "learn"
missing = ["R"]
other = "R"
universe = "occupation != 'N' and occupation is not missing"
outside = "N"

[columns.trade]
kind = "categorical"
values = "learn"
other = "else"
universe = "work == 'self' and age >= 18"
outside = "N"

[columns.tenure]
kind = "categorical"
values = ["own", "rent", "free", "institution"]
other = "free"

[columns.rent]
kind = "integer"
min = 0
top = 5000
split = 100
missing = [99999]
other = 99999
universe = "tenure == 'rent' and relation in ['head', 'spouse']"
outside = "-1"

[columns.hired]
kind = "date"
edges = ["1950-01-01", "1980-01-01", "1990-01-01", "2000-01-01", "2010-01-01", "2015-01-01", "2018-01-01", "2020-12-31"]
missing = ["unknown"]
other = "unknown"
universe = "wage != 'N' and wage is not missing"
outside = "N"

[columns.benefit]
kind = "ordinal"
values = ["no", "part", "full"]
function_of = ["work", "stage"]
map = {{ {_BENEFIT_MAP} }}
"""

ZEROS = (
    "relation == 'head' and age < 16",
    "relation == 'spouse' and marital != 'married'",
    "size == 1 and relation != 'head'",
    "children >= size",
    "earners > size",
    "relation == 'child' and children == 0",
    "work in ['employee', 'self'] and earners == 0",
    "spouse_work == 'yes' and work in ['employee', 'self'] and earners < 2",
    "age < 12 and schooling >= 'lower'",
    "age < 20 and schooling >= 'degree'",
    "work == 'retired' and age < 50",
    "occupation in ['21', '22'] and schooling < 'degree'",
    "age < 20 and born < '1995-01-01'",
    "age >= 60 and born >= '1965-01-01'",
    "age >= 30 and age < 60 and (born < '1950-01-01' or born >= '1995-01-01')",
    "hired < '2000-01-01' and age < 35",
    "tenure == 'institution' and relation != 'head'",
    "tenure == 'institution' and children > 0",
    "rent < 300 and district in ['n1', 'e1']",
    "rent >= 2000 and occupation in ['91', '92']",
    "tenure == 'own' and size >= 6 and earners < children",
    "hours >= 45 and age >= 70",
    "region == 's' and occupation == '61'",
    "stage == 'old' and work == 'student'",
    "benefit == 'full' and earners >= size",
)


def persons_schema(table: pd.DataFrame) -> str:
    """Return the schema of a drawn table, or of some of its columns; its rows by district are public."""
    names = re.findall(r"^\[columns\.(\w+)\]$", _COLUMNS, flags=re.MULTILINE)
    head, *blocks = re.split(r"^(?=\[columns\.)", _COLUMNS, flags=re.MULTILINE)
    columns = "".join(block for name, block in zip(names, blocks, strict=True) if name in table)
    zeros = "".join(
        f'\n[[zeros]]\nwhen = "{when}"\n'
        for when in ZEROS
        if {*re.findall(r"\w+", re.sub(r"'[^']*'", "", when))} & {*names} <= {*table.columns}
    )
    counts = table.district.value_counts()
    listed = ", ".join(f"{name} = {counts[name]}" for name in sorted(counts.index))
    return f'{head}{columns}{zeros}\n[[totals]]\nby = ["district"]\ncounts = {{ {listed} }}\n'
