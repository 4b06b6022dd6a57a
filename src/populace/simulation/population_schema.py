"""The schema of the made-up population and of its survey, as a curator would write it."""

from __future__ import annotations

from populace.simulation.geography import AREAS, AREAS_IN, REGIONS

LABOUR_FORCE = {
    **{"employed": "in", "self-employed": "in", "unemployed": "in"},
    **{"in education": "out", "retired": "out", "other": "out", "N": "N"},
}
_AREAS = "\n".join(
    "  " + " ".join(f'"{area}",' for area in AREAS if area.startswith(county)) for county in AREAS_IN
)
_COUNTIES = ", ".join(f'"{county}"' for county in AREAS_IN)
_REGIONS = ", ".join(f'"{region}"' for region in REGIONS)
_REGION_NAMES = ", ".join(f'"{region}" = "{name}"' for region, name in REGIONS.items())
_LABOUR_FORCE = ", ".join(f'"{work}" = "{force}"' for work, force in LABOUR_FORCE.items())

# Bins as a curator would choose them for so few rows: a code for every year of age would drown its pairs in noise. They
# have edges wherever a universe or a rule has one.
POPULATION_SCHEMA = f"""
[table]
dataset = "sample-population"
unit = "person"

[columns.region]
kind = "categorical"
values = [{_REGIONS}]
labels = {{ {_REGION_NAMES} }}
origin = "codebook"

[columns.county]
kind = "categorical"
values = [{_COUNTIES}]
parent = "region"                  # the region is the first digit of the county …
origin = "codebook"

[columns.area]
kind = "categorical"
values = [
{_AREAS}
]
parent = "county"                  # … and the county the first two of the area
origin = "codebook"

[columns.tenure]
kind = "categorical"
values = ["owned", "rented"]
other = "rented"                   # nothing else occurs; a code of its own would only be noise
origin = "codebook"

[columns.moved_in]
kind = "date"
edges = ["1964-01-01", "1990-01-01", "2000-01-01", "2010-01-01", "2014-01-01", "2017-01-01", "2018-01-01", "2019-06-30"]
origin = "declared"

[columns.moved_in.labels]
1964-01-01 = "before 1990"
1990-01-01 = "1990s"
2000-01-01 = "2000s"
2010-01-01 = "2010 – 2013"
2014-01-01 = "2014 – 2016"
2017-01-01 = "2017"
2018-01-01 = "since 2018"

[columns.household_size]
kind = "integer"
min = 1
max = 8
other = "1"
origin = "codebook"

[columns.children]
kind = "integer"
min = 0
max = 7
other = "0"
origin = "codebook"

[columns.relationship]
kind = "categorical"
values = ["householder", "spouse", "partner", "child", "other"]
other = "other"
origin = "codebook"

[columns.age]
kind = "integer"
edges = [0, 3, 6, 10, 15, 18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90]
top = 90
other = "0"
labels = {{ "90" = "90 or older" }}
origin = "codebook"

[columns.sex]
kind = "categorical"
values = ["female", "male"]
other = "female"
origin = "codebook"

[columns.marital_status]
kind = "categorical"
values = ["never married", "married", "divorced", "widowed"]
other = "never married"
universe = "age >= 15"
outside = "N"
labels = {{ N = "under 15" }}
origin = "codebook"

[columns.education]
kind = "ordinal"
values = ["primary", "no diploma", "high school", "some college", "bachelor", "advanced"]
missing = ["refused", "unknown"]
other = "unknown"
universe = "age >= 3"
outside = "N"
labels = {{ N = "under 3" }}
origin = "codebook"

[columns.work]
kind = "categorical"
values = ["employed", "self-employed", "unemployed", "in education", "retired", "other"]
other = "other"
universe = "age >= 15"
outside = "N"
labels = {{ N = "under 15" }}
origin = "codebook"

[columns.labour_force]
kind = "categorical"
values = ["in", "out", "N"]
labels = {{ N = "under 15" }}
function_of = ["work"]
map = {{ {_LABOUR_FORCE} }}
origin = "codebook"

[columns.hours]
kind = "integer"
edges = [1, 10, 20, 30, 35, 40, 41, 45, 50, 60, 80]
missing = ["unknown"]
other = "unknown"
universe = "work in ['employed', 'self-employed']"
outside = "N"
labels = {{ N = "does not work" }}
origin = "declared"

[columns.commute_km]
kind = "numeric"
edges = [0, 0.1, 1, 2.5, 5, 10, 15, 20, 30, 50, 100, 200]
decimals = 1
missing = ["unknown"]
other = "unknown"
universe = "work in ['employed', 'self-employed']"
outside = "N"
labels = {{ "0" = "at home", N = "does not work" }}
origin = "declared"

[columns.income]
kind = "integer"
edges = [
  -10_000, 0, 1, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000, 50_000, 60_000, 75_000, 100_000,
  150_000, 250_000,
]
top = 250_000
missing = ["refused", "unknown"]
other = "unknown"
universe = "age >= 15"
outside = "N"
labels = {{ N = "under 15", "-10000" = "loss", "0" = "nothing" }}
origin = "declared"

[columns.health]
kind = "ordinal"
values = ["excellent", "very good", "good", "fair", "poor"]
missing = ["refused"]
other = "refused"
origin = "codebook"

[[zeros]]
when = "relationship == 'householder' and age < 15"

[[zeros]]
when = "relationship == 'spouse' and marital_status != 'married'"

[[zeros]]
when = "relationship == 'partner' and marital_status == 'married'"

[[zeros]]
when = "household_size == 1 and relationship != 'householder'"

[[zeros]]
when = "children >= household_size"

[[zeros]]
when = "age < 15 and education >= 'no diploma'"

[[zeros]]
when = "income < 0 and work != 'self-employed'"
"""
