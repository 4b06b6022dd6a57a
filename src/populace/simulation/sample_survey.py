"""A survey of the made-up population: whom it asks, with which probability, and what they do not answer.

Sampling. Areas are the clusters and fall into eight strata: each region, urban and rural. From each stratum some areas
are drawn, each equally likely, and from each of these a fixed number of households, each equally likely; everybody in
them is asked. A household of an area with M households in a stratum with A areas is in the sample with probability
(a / A) · (m / M), and its weight is one over that. Rural households are asked more often.

Answers. Incomes are rounded by those who give them: to thousands, to five thousands. Some items are refused or not
known; given age, schooling as reported, and work, that does not depend on the value (missing at random). The
directions are those that surveys of income report, the sizes are guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from populace.schema.schema import Schema
from populace.simulation.households import AREAS, is_rural, stratum_of
from populace.simulation.population import (
    HOUSEHOLDS,
    POPULATION_SCHEMA,
    SEED,
    Cells,
    Population,
    draw_population,
    mask_outside,
    person_cells,
    to_table,
)
from populace.simulation.portable_draws import Flags, Floats, Numbers, interpolate

if TYPE_CHECKING:
    import pyarrow as pa

# Areas drawn from each stratum, of 7, 3, 8, 3, 13, 5, 8 and 3.
AREAS_DRAWN = {"1U": 4, "1R": 2, "2U": 4, "2R": 2, "3U": 7, "3R": 3, "4U": 4, "4R": 2}
# Households drawn from each area that is.
HOMES_DRAWN_URBAN, HOMES_DRAWN_RURAL = 90, 120


def simulate_survey(
    *, households: int = HOUSEHOLDS, seed: int = SEED, draw: int = 1
) -> tuple[pa.Table, Schema]:
    """Return the persons of a survey of `population(households=…, seed=…)`, and the schema that describes them.

    The same arguments give the same rows, on every machine; another `draw` is another survey of the same population.
    Beside the columns of the schema there are `household_id`, `stratum`, `psu` (the cluster) and `weight`.

    >>> table, schema = simulate_survey(households=500)
    >>> table.column_names == ["household_id", "stratum", "psu", "weight", *schema.columns]
    True
    """
    people = draw_population(households=households, seed=seed)
    rng = np.random.default_rng([seed, draw])
    homes, weight = draw_sample(people.homes.area, rng=rng)
    rows = np.flatnonzero(np.isin(people.persons.household, homes))
    found = draw_answers(people, rows=rows, rng=rng)
    chosen = np.searchsorted(homes, people.persons.household[rows])
    area = found["area"]
    strata = np.array([stratum_of(code) for code in AREAS])[people.homes.area[homes]]
    design: Cells = {"stratum": strata[chosen], "psu": area, "weight": weight[chosen]}
    ids = {"household_id": found.pop("household_id")}
    return to_table(ids | design | found), Schema.parse(POPULATION_SCHEMA)


def draw_sample(area: Numbers, *, rng: np.random.Generator) -> tuple[Numbers, Floats]:
    """Return the numbers of the households in a sample, in order, and their weights.

    Areas are drawn from each stratum, then households from each area; `area` gives the area of every household.
    """
    lots = rng.random(len(AREAS))
    share = np.zeros(len(AREAS))
    for stratum, count in AREAS_DRAWN.items():
        places = np.array([place for place, code in enumerate(AREAS) if stratum_of(code) == stratum])
        share[places[np.argsort(lots[places], kind="stable")[:count]]] = count / places.size
    there = np.bincount(area, minlength=len(AREAS))
    asked = np.where([is_rural(code) for code in AREAS], HOMES_DRAWN_RURAL, HOMES_DRAWN_URBAN)
    asked = np.minimum(asked, there)
    order = np.lexsort((rng.random(area.size), area))
    rank = np.empty(area.size, dtype=np.int64)
    rank[order] = np.arange(area.size) - (np.cumsum(there) - there)[area[order]]
    homes = np.flatnonzero((share[area] > 0) & (rank < asked[area]))
    weight = there[area[homes]] / (share[area[homes]] * asked[area[homes]])
    return homes, np.round(weight, 4)


def draw_answers(people: Population, *, rows: Numbers, rng: np.random.Generator) -> Cells:
    """Return what these people answer."""
    found = person_cells(people, rows=rows)
    age, work = people.persons.age[rows], found["work"]
    own = work == "self-employed"
    adult = age >= 15

    def drop_answers(name: str, asked: Flags, *, refused: npt.ArrayLike, unknown: npt.ArrayLike) -> None:
        lots, no = rng.random(rows.size), np.asarray(refused, dtype=np.float64)
        both = [asked & (lots < no), asked & (lots < no + np.asarray(unknown, dtype=np.float64))]
        found[name] = np.select(both, ["refused", "unknown"], found[name])

    drop_answers(
        "education",
        age >= 3,
        refused=0.008 + 0.02 * (age >= 65) + 0.012 * (work == "unemployed"),
        unknown=0.006 + 0.05 * (work == "other") + 0.01 * (age >= 80),
    )
    amounts = _round_income(people.lives.income[rows], lots=rng.random(rows.size))
    found["income"] = mask_outside(adult, amounts.astype(np.str_))
    schooled = np.isin(found["education"], ["bachelor", "advanced"])
    hidden = np.isin(found["education"], ["refused", "unknown"])
    by_age = interpolate(age, (15, 30, 65, 80), (0.02, 0.03, 0.09, 0.12))
    drop_answers(
        "income",
        adult,
        refused=by_age + 0.07 * own - 0.015 * schooled + 0.15 * hidden,
        unknown=0.015 + 0.06 * (work == "in education") + 0.03 * own,
    )
    works = people.lives.hours[rows] > 0
    drop_answers("hours", works, refused=0, unknown=0.01 + 0.05 * own + 0.03 * (age < 20))
    drop_answers("commute_km", works, refused=0, unknown=0.01 + 0.06 * own)
    drop_answers("health", age >= 0, refused=0.006 + 0.02 * (age >= 80) + 0.01 * (age < 25), unknown=0)
    return found


def _round_income(income: Numbers, *, lots: Floats) -> Numbers:
    """Round as people do, to five thousands, thousands or hundreds; neither zero nor the sign changes."""
    large = np.abs(income)
    step = np.select([(lots < 0.35) & (large >= 10_000), lots < 0.7, lots < 0.9], [5_000, 1_000, 100], 1)
    step = np.where(large < step, 1, step)
    return np.asarray(np.sign(income) * ((large + step // 2) // step * step), dtype=np.int64)
