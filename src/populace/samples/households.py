"""Households of the made-up population and the people who live in them: who, how old, with whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Texts = npt.NDArray[np.str_]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

REGIONS = {"northeast": 0.174, "midwest": 0.208, "south": 0.381, "west": 0.237}
SIZES = {1: 0.28, 2: 0.35, 3: 0.15, 4: 0.13, 5: 0.06, 6: 0.03}
# Share of households of each size that a couple leads.
COUPLES = {1: 0.0, 2: 0.68, 3: 0.62, 4: 0.76, 5: 0.78, 6: 0.74}
# Ages of householders at cumulative shares, straight lines in between: alone, two people, more.
HEAD_SHARES = (0.0, 0.05, 0.20, 0.40, 0.58, 0.78, 0.94, 1.0)
HEAD_AGES = {
    1: (18, 25, 34, 51, 61, 72, 85, 95),
    2: (18, 25, 34, 50, 60, 69, 79, 93),
    3: (18, 25, 31, 38, 44, 51, 63, 88),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Households:
    """One entry per household: its region, whether the home is owned, how many live there, a couple or not."""

    region: Texts
    tenure: Texts
    size: Numbers
    couple: Flags
    head_age: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Persons:
    """One entry per person: the number of the household, and who the person is."""

    household: Numbers
    age: Numbers
    sex: Texts
    marital_status: Texts
    small_child: Flags


def draw_households(count: int, *, rng: np.random.Generator) -> Households:
    """Draw households; owners are older and live in couples more often."""
    size = _pick(SIZES, count, rng=rng)
    place = rng.random(count)
    head_age = np.select(
        [size == 1, size == 2],
        [np.interp(place, HEAD_SHARES, HEAD_AGES[1]), np.interp(place, HEAD_SHARES, HEAD_AGES[2])],
        np.interp(place, HEAD_SHARES, HEAD_AGES[3]),
    )
    couple = rng.random(count) < np.array([0.0, *COUPLES.values()])[size]
    region = _pick(REGIONS, count, rng=rng)
    owned = np.interp(head_age, (20, 30, 45, 65, 85), (0.12, 0.38, 0.62, 0.78, 0.76))
    owned = owned + np.where(couple, 0.12, -0.08) + np.where(region == "west", -0.05, 0.01)
    return Households(
        region=region,
        tenure=np.where(rng.random(count) < owned, "owned", "rented"),
        size=size,
        couple=couple,
        head_age=np.rint(head_age).astype(np.int64),
    )


def draw_persons(homes: Households, *, rng: np.random.Generator) -> Persons:
    """Draw the members of every household: its head, a partner in couples, then children or other adults."""
    household = np.repeat(np.arange(homes.size.size), homes.size)
    first = np.cumsum(homes.size) - homes.size
    place = np.arange(household.size) - first[household]
    couple = homes.couple[household]
    head = place == 0
    partner = couple & (place == 1)
    head_age = homes.head_age[household]

    head_sex = rng.random(homes.size.size) < 0.51
    drawn_sex = rng.random(household.size) < 0.51
    same = rng.random(homes.size.size) < 0.015
    female = np.select(
        [head, partner], [head_sex[household], head_sex[household] == same[household]], drawn_sex
    )
    older = np.where(head_sex[household], 1.8, -1.8) + 4.0 * rng.standard_normal(household.size)
    age = np.select(
        [head, partner],
        [head_age, np.clip(np.rint(head_age + older), 18, 95)],
        _draw_member_ages(head_age, rng=rng),
    ).astype(np.int64)

    # Partners marry each other, so the draw belongs to the household.
    married = rng.random(homes.size.size) < np.interp(
        homes.head_age, (18, 24, 32, 45), (0.2, 0.5, 0.84, 0.93)
    )
    together = (head | partner) & couple & married[household]
    youngest = np.full(homes.size.size, 99)
    np.minimum.at(youngest, household, age)
    sex = np.where(female, "female", "male")
    return Persons(
        household=household,
        age=age,
        sex=sex,
        marital_status=_draw_marital_status(age, female, together, rng=rng),
        small_child=(head | partner) & (youngest[household] < 6),
    )


def _draw_member_ages(head_age: Numbers, *, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw ages of members who are neither head nor partner: children while that is possible, else adults."""
    size = head_age.size
    born = np.rint(np.clip(29 + 5.5 * rng.standard_normal(size), 17, 45))
    child = head_age - born
    # Grown children mostly left home: those who would be over 24 are drawn again as minors or as other adults.
    again = np.floor(rng.random(size) * 18)
    child = np.where((child < 0) | ((child > 24) & (head_age < 60) & (rng.random(size) < 0.8)), again, child)
    possible = head_age - child >= 16
    adult = np.floor(18 + rng.beta(1.1, 1.6, size) * 70)
    return np.where(possible & (child < 45), child, adult)


def _draw_marital_status(age: Numbers, female: Flags, together: Flags, *, rng: np.random.Generator) -> Texts:
    size = age.size
    ever = rng.random(size) < np.interp(age, (17, 25, 35, 50, 65, 80), (0.0, 0.05, 0.33, 0.66, 0.86, 0.94))
    widowed = rng.random(size) < np.interp(
        age, (40, 55, 65, 75, 88), (0.01, 0.07, 0.22, 0.5, 0.86)
    ) * np.where(female, 1.0, 0.62)
    alone = np.select([~ever, widowed], ["never married", "widowed"], "divorced")
    return np.where(together, "married", alone)


def _pick(
    shares: dict[str, float] | dict[int, float], count: int, *, rng: np.random.Generator
) -> npt.NDArray[Any]:
    """Draw labels with the given shares (scaled to one)."""
    weights = np.array(list(shares.values()))
    bounds = np.cumsum(weights / weights.sum())[:-1]
    return np.array(list(shares))[np.searchsorted(bounds, rng.random(count), side="right")]
