"""What the made-up people do: schooling, work, the way to it, income, health."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.simulation.households import Homes, Persons
from populace.simulation.portable_draws import Flags, Numbers, Texts, draw_normal, interpolate

EDUCATION = ("N", "primary", "no diploma", "high school", "some college", "bachelor", "advanced")
# Scores at which the next level begins; people of 25 and older: 4, 6, 28, 26, 23 and 13 in 100.
LEVEL_CUTS = (-1.86, -1.38, -0.42, 0.25, 1.03)
# Employed share of women and men at these ages; straight lines in between.
WORKING_AGES = (15, 18, 22, 27, 45, 55, 60, 65, 70, 80)
WORKING_WOMEN = (0.10, 0.38, 0.66, 0.75, 0.76, 0.70, 0.57, 0.30, 0.15, 0.03)
WORKING_MEN = (0.09, 0.38, 0.70, 0.87, 0.88, 0.81, 0.67, 0.38, 0.22, 0.06)
WORKING_BY_LEVEL = (0.0, 0.72, 0.80, 0.94, 1.0, 1.08, 1.13)
# Of those who work, the share that works on its own account; more men than women.
OWN_ACCOUNT = ((18, 30, 50, 65, 80), (0.02, 0.06, 0.11, 0.18, 0.28))
UNEMPLOYED = ((15, 20, 30, 65), (0.04, 0.05, 0.026, 0.02))
# Median yearly earnings of full-time workers by attainment.
EARNINGS = (0, 28_000, 31_000, 39_000, 45_000, 65_000, 85_000)
WOMEN_TO_MEN = 0.82
# Earnings over their median, at cumulative shares: employees, and people who work on their own account.
EARNINGS_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.995, 1.0)
EARNINGS_RATIOS = (0.12, 0.50, 0.69, 1.0, 1.45, 2.1, 3.2, 5.0, 9.0)
OWN_ACCOUNT_RATIOS = (0.02, 0.20, 0.48, 0.9, 1.7, 3.0, 5.2, 8.5, 14.0)
LOSSES = 0.07


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonOutcomes:
    """One entry per person: schooling (a place in `EDUCATION`), work, hours a week, way to work, income, health.

    `commute` is in tenths of a kilometre. Outside a question's universe its number is 0.
    """

    level: Numbers
    work: Texts
    hours: Numbers
    commute: Numbers
    income: Numbers
    health: Texts


def draw_outcomes(people: Persons, homes: Homes, *, rng: np.random.Generator) -> PersonOutcomes:
    """Draw what each person does, given who they are and where they live."""
    level = _draw_level(people, homes, rng=rng)
    work = _draw_work(people, level, rng=rng)
    hours = _draw_hours(people, work, rng=rng)
    return PersonOutcomes(
        level=level,
        work=work,
        hours=hours,
        commute=_draw_commute(people, homes, level, hours > 0, rng=rng),
        income=_draw_income(people, homes, level, work, hours, rng=rng),
        health=_draw_health(people, level, rng=rng),
    )


def _draw_level(people: Persons, homes: Homes, *, rng: np.random.Generator) -> Numbers:
    """Return the level reached by now: people of a household and of an area resemble each other, the old have less."""
    age = people.age
    shared = (np.sqrt(0.3) * draw_normal(homes.size.size, rng=rng) + 0.5 * homes.wealth)[people.household]
    score = shared + np.sqrt(0.6) * draw_normal(age.size, rng=rng) - 0.012 * np.clip(age - 50, 0, None)
    score = score + np.where(people.female, 0.06, -0.06)
    level = 1 + np.searchsorted(np.array(LEVEL_CUTS), score)
    reached = np.select([age < 3, age < 15, age < 18, age < 22, age < 25], [0, 1, 2, 4, 5], 6)
    return np.asarray(np.minimum(level, reached), dtype=np.int64)


def _draw_work(people: Persons, level: Numbers, *, rng: np.random.Generator) -> Texts:
    age, women = people.age, people.female
    draw = rng.random(age.size)
    working = np.where(
        women, interpolate(age, WORKING_AGES, WORKING_WOMEN), interpolate(age, WORKING_AGES, WORKING_MEN)
    )
    working = working * np.array(WORKING_BY_LEVEL)[level]
    # Mothers of small children work less, in this population as in the published tables.
    working = working * np.where(women & people.small_child, 0.86, 1.0)
    own = rng.random(age.size) < interpolate(age, *OWN_ACCOUNT) * np.where(women, 0.75, 1.2)
    looking = working + interpolate(age, *UNEMPLOYED)
    studying = (age < 25) & (rng.random(age.size) < 0.85)
    retired = rng.random(age.size) < interpolate(age, (52, 68), (0.02, 0.97))
    work = np.select(
        [age < 15, (draw < working) & own, draw < working, draw < looking, studying, retired],
        ["N", "self-employed", "employed", "unemployed", "in education", "retired"],
        "other",
    )
    return work.astype(np.str_)


def _draw_hours(people: Persons, work: Texts, *, rng: np.random.Generator) -> Numbers:
    age, size = people.age, people.age.size
    part_time = np.where(people.female, 0.22, 0.11) + np.where((age < 23) | (age > 66), 0.35, 0.0)
    usual = np.where(rng.random(size) < 0.55, 40, np.floor(42.5 + 8 * draw_normal(size, rng=rng)))
    short = np.floor(22.5 + 6 * draw_normal(size, rng=rng))
    hours = np.clip(np.where(rng.random(size) < part_time, short, usual), 1, 80)
    works = np.isin(work, ["employed", "self-employed"])
    return np.where(works, hours, 0).astype(np.int64)


def _draw_commute(
    people: Persons, homes: Homes, level: Numbers, works: Flags, *, rng: np.random.Generator
) -> Numbers:
    """Return the way to work in tenths of a kilometre: 0 at home, most short, some very long; longer in poor areas."""
    middle = 85 * np.array([0, 0.6, 0.7, 0.9, 1.0, 1.25, 1.3])[level] * np.where(people.female, 0.88, 1.1)
    middle = middle * (1.0 - 0.3 * homes.wealth[people.household])
    shares, ratios = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1), (0.05, 0.3, 0.53, 1, 1.9, 3.4, 7.0, 13.0)
    way = np.clip(np.floor(middle * interpolate(rng.random(level.size), shares, ratios)), 1, 1999)
    at_home = rng.random(level.size) < 0.02 + 0.01 * level
    return np.where(works & ~at_home, way, 0).astype(np.int64)


def _draw_income(
    people: Persons,
    homes: Homes,
    level: Numbers,
    work: Texts,
    hours: Numbers,
    *,
    rng: np.random.Generator,
) -> Numbers:
    """Return whole currency units a year: pay by level, age, hours and sex; losses; pensions; small sums; nothing."""
    size = people.age.size
    career = interpolate(people.age, (15, 22, 30, 45, 55, 70), (0.45, 0.62, 0.88, 1.12, 1.12, 0.9))
    base = np.array(EARNINGS)[level] * career * (1 + 0.15 * homes.wealth[people.household])
    base = base * np.where(people.female, np.sqrt(WOMEN_TO_MEN), 1 / np.sqrt(WOMEN_TO_MEN))
    place = rng.random(size)
    paid = base * (hours / 40) * interpolate(place, EARNINGS_SHARES, EARNINGS_RATIOS)
    profit = base * (hours / 40) * interpolate(place, EARNINGS_SHARES, OWN_ACCOUNT_RATIOS)
    loss = -100 - 9_800 * rng.random(size) * rng.random(size)
    profit = np.where(rng.random(size) < LOSSES, loss, profit)
    pension = (9_000 + 0.25 * base) * interpolate(
        rng.random(size), (0, 0.1, 0.5, 0.9, 1), (0.3, 0.55, 1, 1.8, 4)
    )
    shares, sums = (0, 0.55, 0.56, 0.8, 0.95, 1), (0, 0, 600, 6_000, 16_000, 40_000)
    income = np.select(
        [work == "N", work == "employed", work == "self-employed", work == "retired"],
        [0.0, paid, profit, pension],
        interpolate(rng.random(size), shares, sums),
    )
    return np.asarray(np.floor(income / 10) * 10, dtype=np.int64)


def _draw_health(people: Persons, level: Numbers, *, rng: np.random.Generator) -> Texts:
    schooling = np.where(people.age < 15, 3, level)
    score = 0.018 * (people.age - 40) - 0.14 * (schooling - 4) + draw_normal(people.age.size, rng=rng)
    names = np.array(["excellent", "very good", "good", "fair", "poor"])
    return names[np.searchsorted(np.array([-0.75, 0.25, 1.15, 2.05]), score)]
