"""Households of the made-up population and the people who live in them: where, who, how old, with whom.

The country has four regions, twelve counties and fifty areas; a code begins with its parent's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.simulation.portable_draws import (
    Flags,
    Floats,
    Numbers,
    Texts,
    draw_categories,
    draw_normal,
    interpolate,
)

REGION_SHARES = {"1": 0.174, "2": 0.208, "3": 0.381, "4": 0.237}
# Areas in each county. The third county of each region is rural.
AREAS_IN = {
    **{"11": 4, "12": 3, "13": 3},
    **{"21": 4, "22": 4, "23": 3},
    **{"31": 7, "32": 6, "33": 5},
    **{"41": 4, "42": 4, "43": 3},
}
AREAS = tuple(f"{county}{number:02}" for county, count in AREAS_IN.items() for number in range(1, count + 1))

SIZES = {1: 0.284, 2: 0.345, 3: 0.151, 4: 0.128, 5: 0.057, 6: 0.022, 7: 0.008, 8: 0.005}
# Share of households of each size that a couple leads.
COUPLES = (0.0, 0.0, 0.75, 0.70, 0.82, 0.82, 0.78, 0.78, 0.78)
# Ages of householders at cumulative shares, straight lines in between: alone, two people, more.
HEAD_SHARES = (0.0, 0.05, 0.20, 0.40, 0.58, 0.78, 0.94, 1.0)
HEAD_AGES = {
    1: (18, 26, 36, 54, 64, 75, 87, 98),
    2: (18, 26, 36, 53, 62, 71, 81, 96),
    3: (18, 26, 32, 39, 46, 53, 66, 90),
}
# The day of the survey, to which ages and stays refer, in days since 1970.
TODAY = int(np.datetime64("2019-06-30").astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Homes:
    """One entry per household: its area (a place in `AREAS`), whether the home is owned, how many live there …

    `wealth` is the area's; `moved_in` counts days since 1970.
    """

    area: Numbers
    wealth: Floats
    tenure: Texts
    moved_in: Numbers
    size: Numbers
    couple: Flags
    head_age: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Persons:
    """One entry per person: the number of the household, and who the person is."""

    household: Numbers
    relationship: Texts
    age: Numbers
    female: Flags
    marital_status: Texts
    children: Numbers
    small_child: Flags


def is_rural(code: str) -> bool:
    """Say whether a county or an area is rural.

    >>> is_rural("13"), is_rural("1102")
    (True, False)
    """
    return code[1] == "3"


def stratum_of(area: str) -> str:
    """Return the stratum an area is drawn from: its region, urban or rural.

    >>> stratum_of("1102"), stratum_of("4301")
    ('1U', '4R')
    """
    return area[0] + ("R" if is_rural(area) else "U")


def draw_areas(*, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return each area's share of the homes and how well off it is, in the order of `AREAS`.

    Areas differ in size and wealth; regions have their shares, rural areas are smaller and poorer.
    """
    rural = np.array([is_rural(area) for area in AREAS])
    size = (0.7 + 0.6 * rng.random(len(AREAS))) * np.where(rural, 0.8, 1.0)
    region = np.array([list(REGION_SHARES).index(area[0]) for area in AREAS])
    total = np.bincount(region, weights=size)
    share = size * (np.array(list(REGION_SHARES.values())) / total)[region]
    return share, np.clip(2.0 * rng.random(len(AREAS)) - np.where(rural, 1.3, 0.9), -1.0, 1.0)


def draw_homes(count: int, *, rng: np.random.Generator) -> Homes:
    """Draw households; owners are older, live in couples more often, and stay longer."""
    shares, area_wealth = draw_areas(rng=rng)
    area = np.sort(draw_categories(dict(enumerate(shares)), count, rng=rng))
    wealth = area_wealth[area]
    size = draw_categories(SIZES, count, rng=rng).astype(np.int64)
    place = rng.random(count)
    by_size = [interpolate(place, HEAD_SHARES, ages) for ages in HEAD_AGES.values()]
    head_age = np.floor(np.select([size == 1, size == 2], by_size[:2], by_size[2]))
    couple = rng.random(count) < np.array(COUPLES)[size]
    west = np.array([code.startswith("4") for code in AREAS])[area]
    owned = interpolate(head_age, (20, 30, 45, 65, 85), (0.12, 0.38, 0.64, 0.80, 0.78))
    owned = owned + np.where(couple, 0.12, -0.08) + np.where(west, -0.05, 0.02) + 0.08 * wealth
    tenure = np.where(rng.random(count) < owned, "owned", "rented")
    stay = rng.random(count)
    years = (head_age - 17) * stay * stay * np.where(tenure == "owned", 0.9, 0.3) + 3 * rng.random(count)
    return Homes(
        area=area,
        wealth=wealth,
        tenure=tenure,
        moved_in=TODAY - np.floor(365.25 * np.minimum(years, 55)).astype(np.int64),
        size=size,
        couple=couple,
        head_age=head_age.astype(np.int64),
    )


def draw_persons(homes: Homes, *, rng: np.random.Generator) -> Persons:
    """Draw the members of every household: its head, a partner in couples, then children or other adults."""
    count = homes.size.size
    household = np.repeat(np.arange(count), homes.size)
    size = household.size
    place = np.arange(size) - (np.cumsum(homes.size) - homes.size)[household]
    couple = homes.couple[household]
    head = place == 0
    mate = couple & (place == 1)
    head_age = homes.head_age[household]

    head_female = rng.random(count) < np.where(homes.couple, 0.50, 0.56)
    same = rng.random(count) < 0.015
    female = np.select(
        [head, mate],
        [head_female[household], (head_female == same)[household]],
        rng.random(size) < 0.49,
    )
    older = np.where(head_female[household], 1.8, -1.8) + 4.0 * draw_normal(size, rng=rng)
    child, member_age = _draw_members(head_age, rng=rng)
    age = np.select([head, mate], [head_age, np.clip(np.floor(head_age + older), 18, 98)], member_age)
    age = age.astype(np.int64)

    # Partners marry each other, so the draw belongs to the household.
    married = rng.random(count) < interpolate(homes.head_age, (18, 24, 32, 45), (0.2, 0.5, 0.84, 0.93))
    together = (head | mate) & couple & married[household]
    relationship = np.select(
        [head, mate & together, mate, child], ["householder", "spouse", "partner", "child"], "other"
    )
    youngest = np.full(count, 99)
    np.minimum.at(youngest, household, age)
    return Persons(
        household=household,
        relationship=relationship.astype(np.str_),
        age=age,
        female=female,
        marital_status=_draw_marital_status(age, female, together, rng=rng),
        children=np.bincount(household[age < 18], minlength=count)[household],
        small_child=(head | mate) & (youngest[household] < 6),
    )


def _draw_members(head_age: Numbers, *, rng: np.random.Generator) -> tuple[Flags, Floats]:
    """Draw members who are neither head nor partner: children of the head while that is possible, else adults."""
    size = head_age.size
    born = np.floor(np.clip(29.5 + 5.5 * draw_normal(size, rng=rng), 17, 45))
    age = head_age - born
    # Grown children mostly left home: those who would be over 24 are drawn again as younger ones or as other adults.
    gone = (age < 0) | ((age > 24) & (head_age < 60) & (rng.random(size) < 0.8))
    age = np.where(gone, np.floor(rng.random(size) * 23), age)
    child = (head_age - age >= 16) & (age < 45)
    adult = np.floor(interpolate(rng.random(size), (0.0, 0.25, 0.5, 0.75, 1.0), (18, 30, 44, 60, 88)))
    return child, np.where(child, age, adult)


def _draw_marital_status(age: Numbers, female: Flags, together: Flags, *, rng: np.random.Generator) -> Texts:
    size = age.size
    ever = rng.random(size) < interpolate(age, (17, 25, 35, 50, 65, 80), (0.0, 0.04, 0.25, 0.54, 0.80, 0.93))
    widowed = rng.random(size) < interpolate(
        age, (40, 55, 65, 75, 88), (0.02, 0.12, 0.32, 0.62, 0.9)
    ) * np.where(female, 1.0, 0.62)
    status = np.select(
        [age < 15, together, ~ever, widowed], ["N", "married", "never married", "widowed"], "divorced"
    )
    return status.astype(np.str_)
