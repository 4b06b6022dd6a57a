"""A small made-up population: persons in households, with the dependence that real surveys show.

No row describes a real person. Households are drawn first, then their members, then what each member does and
earns; the shares are round figures near those of the United States in 2019, from published tables:

- household sizes, tenure and living arrangements: Census Bureau, America's Families and Living Arrangements 2019;
- regions: Census Bureau, 2020 census, resident population by region;
- attainment of adults: Census Bureau, Educational Attainment in the United States 2019;
- work by age and sex, hours and earnings by attainment: Bureau of Labor Statistics, Current Population Survey 2019;
- self-rated health by age: National Center for Health Statistics, National Health Interview Survey 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from populace.samples.households import Persons, draw_households, draw_persons
from populace.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Texts = npt.NDArray[np.str_]
Numbers = npt.NDArray[np.int64]

# Bins as a curator would choose them for so few rows: ages in fives, which keep children under 15 apart, and the usual
# forty hours on their own. A code for every year would drown its pairs in noise.
SCHEMA = """
[table]
dataset = "sample-population"
unit = "person"

[columns.region]
kind = "categorical"
values = ["northeast", "midwest", "south", "west"]
origin = "codebook"

[columns.tenure]
kind = "categorical"
values = ["owned", "rented"]
origin = "codebook"

[columns.household_size]
kind = "integer"
min = 1
max = 6
labels = { "6" = "6 or more" }
origin = "codebook"

[columns.age]
kind = "integer"
min = 0
max = 95
width = 5
labels = { "95" = "95 or older" }
origin = "codebook"

[columns.sex]
kind = "categorical"
values = ["female", "male"]
origin = "codebook"

[columns.marital_status]
kind = "categorical"
values = ["never married", "married", "divorced", "widowed"]
origin = "codebook"

[columns.education]
kind = "ordinal"
values = ["under 15", "no diploma", "high school", "some college", "bachelor", "advanced"]
missing = ["refused"]
origin = "codebook"

[columns.work]
kind = "categorical"
values = ["under 15", "employed", "unemployed", "in education", "retired", "other"]
origin = "codebook"

[columns.hours]
kind = "integer"
edges = [1, 10, 20, 30, 35, 40, 41, 45, 50, 60, 80]
origin = "declared"

[columns.commute_km]
kind = "numeric"
edges = [0, 1, 2.5, 5, 10, 15, 20, 30, 50, 100, 200]
origin = "declared"

[columns.income]
kind = "integer"
edges = [
  0, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000, 50_000, 60_000, 75_000, 100_000, 150_000, 250_000,
]
origin = "declared"

[columns.health]
kind = "ordinal"
values = ["excellent", "very good", "good", "fair", "poor"]
missing = ["refused"]
origin = "codebook"
"""

# Levels from 1 (no diploma) to 5 (advanced); people of 25 and older: 10, 28, 26, 23 and 13 in 100.
LEVEL_CUTS = (-1.28, -0.31, 0.36, 1.13)
# Median yearly earnings of full-time workers by attainment, and the standard deviation of their logarithm.
EARNINGS = (31_000, 39_000, 45_000, 65_000, 85_000)
EARNINGS_SPREAD = 0.55
WOMEN_TO_MEN = 0.82
# Employed share of women and men at these ages; straight lines in between.
WORKING_AGES = (15, 18, 22, 27, 45, 55, 60, 65, 70, 80)
WORKING_WOMEN = (0.10, 0.38, 0.66, 0.75, 0.76, 0.70, 0.57, 0.30, 0.15, 0.03)
WORKING_MEN = (0.09, 0.38, 0.70, 0.87, 0.88, 0.81, 0.67, 0.38, 0.22, 0.06)
UNEMPLOYED_AGES = (15, 20, 30, 65)
UNEMPLOYED = (0.14, 0.08, 0.035, 0.03)
REFUSED = 0.02


def population(*, households: int = 2_800, seed: int = 2019) -> tuple[pa.Table, Schema]:
    """Return the persons of a made-up population, one row each, and the schema that describes them.

    The same arguments give the same rows.

    >>> table, schema = population(households=10)
    >>> table.column_names == list(schema.columns)
    True
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    homes = draw_households(households, rng=rng)
    people = draw_persons(homes, rng=rng)
    lives = _draw_lives(people, rng=rng)
    home = people.household
    table = pa.table(
        {
            "region": pa.array(homes.region[home]),
            "tenure": pa.array(homes.tenure[home]),
            "household_size": pa.array(homes.size[home]),
            "age": pa.array(people.age),
            "sex": pa.array(people.sex),
            "marital_status": pa.array(people.marital_status),
            "education": pa.array(lives.education),
            "work": pa.array(lives.work),
            "hours": pa.array(lives.hours, mask=lives.hours == 0),
            "commute_km": pa.array(lives.commute_km, mask=lives.hours == 0),
            "income": pa.array(lives.income, mask=people.age < 15),
            "health": pa.array(lives.health),
        }
    )
    return table, Schema.parse(SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """What each person does: schooling, work, weekly hours (0: does not work), way to work, income, health."""

    education: Texts
    work: Texts
    hours: Numbers
    commute_km: npt.NDArray[np.float64]
    income: Numbers
    health: Texts


def _draw_lives(people: Persons, *, rng: np.random.Generator) -> Lives:
    level = _draw_education(people, rng=rng)
    work = _draw_work(people, level, rng=rng)
    hours = _draw_hours(people, work, rng=rng)
    names = np.array(["under 15", "no diploma", "high school", "some college", "bachelor", "advanced"])
    refused = (people.age >= 15) & (rng.random(people.age.size) < REFUSED)
    return Lives(
        education=np.where(refused, "refused", names[level]),
        work=work,
        hours=hours,
        commute_km=_draw_commute(people, level, rng=rng),
        income=_draw_income(people, level, work, hours, rng=rng),
        health=_draw_health(people, level, rng=rng),
    )


def _draw_education(people: Persons, *, rng: np.random.Generator) -> Numbers:
    """Return 0 for children, else the level reached by now: partners resemble each other, the old have less."""
    shared = rng.standard_normal(people.household.max(initial=0) + 1)[people.household]
    own = rng.standard_normal(people.age.size)
    # A shared part of one third of the variance gives partners a correlation of a third; in truth it is higher.
    score = np.sqrt(1 / 3) * shared + np.sqrt(2 / 3) * own - 0.012 * np.clip(people.age - 50, 0, None)
    score += np.where(people.sex == "female", 0.06, -0.06)
    level = 1 + np.searchsorted(np.array(LEVEL_CUTS), score)
    reached = np.select([people.age < 15, people.age < 18, people.age < 22, people.age < 25], [0, 1, 3, 4], 5)
    return np.asarray(np.minimum(level, reached), dtype=np.int64)


def _draw_work(people: Persons, level: Numbers, *, rng: np.random.Generator) -> Texts:
    age, draw = people.age, rng.random(people.age.size)
    women = people.sex == "female"
    working = np.where(
        women, np.interp(age, WORKING_AGES, WORKING_WOMEN), np.interp(age, WORKING_AGES, WORKING_MEN)
    )
    working *= np.array([0.0, 0.78, 0.94, 1.0, 1.08, 1.13])[level]
    # Mothers of small children work less, in this sample as in the published tables.
    working *= np.where(women & people.small_child, 0.86, 1.0)
    looking = working + np.interp(age, UNEMPLOYED_AGES, UNEMPLOYED)
    idle = np.select(
        [
            (age < 25) & (rng.random(age.size) < 0.85),
            rng.random(age.size) < np.interp(age, (52, 68), (0.02, 0.97)),
        ],
        ["in education", "retired"],
        "other",
    )
    work = np.select([age < 15, draw < working, draw < looking], ["under 15", "employed", "unemployed"], idle)
    return work.astype(np.str_)


def _draw_hours(people: Persons, work: Texts, *, rng: np.random.Generator) -> Numbers:
    age, size = people.age, people.age.size
    part_time = np.where(people.sex == "female", 0.22, 0.11) + np.where((age < 23) | (age > 66), 0.35, 0.0)
    usual = np.where(rng.random(size) < 0.55, 40, np.rint(42 + 8 * rng.standard_normal(size)))
    short = np.rint(22 + 6 * rng.standard_normal(size))
    hours = np.clip(np.where(rng.random(size) < part_time, short, usual), 1, 80)
    return np.where(work == "employed", hours, 0).astype(np.int64)


def _draw_commute(people: Persons, level: Numbers, *, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the way to work in kilometres: most are short, some very long; longer for the better schooled."""
    middle = (
        9.0 * np.array([0.5, 0.7, 0.9, 1.0, 1.25, 1.3])[level] * np.where(people.sex == "female", 0.88, 1.1)
    )
    return np.clip(np.round(middle * np.exp(0.95 * rng.standard_normal(people.age.size)), 1), 0.1, 199.9)


def _draw_income(
    people: Persons, level: Numbers, work: Texts, hours: Numbers, *, rng: np.random.Generator
) -> Numbers:
    """Return whole currency units a year: earnings by level, age, hours and sex; pensions; small sums; nothing."""
    size = people.age.size
    career = np.interp(people.age, (15, 22, 30, 45, 55, 70), (0.45, 0.62, 0.88, 1.12, 1.12, 0.9))
    base = np.array([0, *EARNINGS])[level] * career
    base = base * np.where(people.sex == "female", np.sqrt(WOMEN_TO_MEN), 1 / np.sqrt(WOMEN_TO_MEN))
    spread = np.exp(EARNINGS_SPREAD * rng.standard_normal(size))
    earned = base * (hours / 40) * spread
    pension = (9_000 + 0.25 * base) * np.exp(0.45 * rng.standard_normal(size))
    small = np.where(rng.random(size) < 0.55, 0, rng.gamma(1.2, 5_000, size))
    income = np.select([work == "employed", work == "retired"], [earned, pension], small)
    return np.asarray(np.clip(np.rint(income / 100) * 100, 0, 249_900), dtype=np.int64)


def _draw_health(people: Persons, level: Numbers, *, rng: np.random.Generator) -> Texts:
    score = 0.018 * (people.age - 40) - 0.14 * (level - 3) + rng.standard_normal(people.age.size)
    names = np.array(["excellent", "very good", "good", "fair", "poor"])
    health = names[np.searchsorted(np.array([-0.75, 0.25, 1.15, 2.05]), score)]
    return np.where(rng.random(people.age.size) < REFUSED / 2, "refused", health)
