"""A small made-up population: persons in households in areas, with the dependence that real censuses show.

No row describes a real person. Areas are drawn first, then households, their members, and what each member does and
earns; the shares are round figures near those of the United States in 2019, from published tables:

- household sizes, tenure and living arrangements: Census Bureau, America's Families and Living Arrangements 2019;
- regions: Census Bureau, 2020 census, resident population by region;
- attainment of adults: Census Bureau, Educational Attainment in the United States 2019;
- work by age and sex, self-employment, hours and earnings by attainment: Bureau of Labor Statistics, Current
  Population Survey 2019;
- self-rated health by age: National Center for Health Statistics, National Health Interview Survey 2019.

How much areas differ, how long people stay in a home and how far they travel are plausible guesses.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from populace.schema.schema import Schema
from populace.simulation.households import AREAS, Homes, Persons, draw_homes, draw_persons
from populace.simulation.person_outcomes import EDUCATION, PersonOutcomes, draw_outcomes
from populace.simulation.portable_draws import Flags, Numbers, Texts

if TYPE_CHECKING:
    import pyarrow as pa

# The schema of the population and of its survey.
POPULATION_SCHEMA = Path(__file__).with_name("population.toml").read_text(encoding="utf-8")
LABOUR_FORCE: dict[str, str] = tomllib.loads(POPULATION_SCHEMA)["columns"]["labour_force"]["map"]
HOUSEHOLDS = 20_000
SEED = 2019
OUTSIDE = "N"
Cells = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Everybody: their homes, who they are, what they do."""

    homes: Homes
    persons: Persons
    lives: PersonOutcomes


def simulate_population(*, households: int = HOUSEHOLDS, seed: int = SEED) -> tuple[pa.Table, Schema]:
    """Return everybody in a made-up population, one row each, and the schema that describes them.

    The same arguments give the same rows, on every machine. Beside the columns of the schema there is `household_id`.

    >>> table, schema = simulate_population(households=10)
    >>> table.column_names == ["household_id", *schema.columns]
    True
    """
    people = draw_population(households=households, seed=seed)
    rows = np.arange(people.persons.age.size)
    return to_table(person_cells(people, rows=rows)), Schema.parse(POPULATION_SCHEMA)


def draw_population(*, households: int = HOUSEHOLDS, seed: int = SEED) -> Population:
    """Draw a population."""
    rng = np.random.default_rng(seed)
    homes = draw_homes(households, rng=rng)
    persons = draw_persons(homes, rng=rng)
    return Population(homes=homes, persons=persons, lives=draw_outcomes(persons, homes, rng=rng))


def person_cells(people: Population, *, rows: Numbers) -> Cells:
    """Return what a file holds about some of the people: numbers, and texts where a column has word codes."""
    homes, lives = people.homes, people.lives
    home = people.persons.household[rows]
    area = np.array(AREAS)[homes.area[home]]
    age, work = people.persons.age[rows], lives.work[rows]
    works = lives.hours[rows] > 0
    return {
        "household_id": 100_001 + home,
        "region": area.astype("U1"),
        "county": area.astype("U2"),
        "area": area,
        "tenure": homes.tenure[home],
        "moved_in": homes.moved_in[home].astype("M8[D]"),
        "household_size": homes.size[home],
        "children": people.persons.children[rows],
        "relationship": people.persons.relationship[rows],
        "age": age,
        "sex": np.where(people.persons.female[rows], "female", "male"),
        "marital_status": people.persons.marital_status[rows],
        "education": np.array(EDUCATION)[lives.level[rows]],
        "work": work,
        "labour_force": _labour_force(work),
        "hours": mask_outside(works, lives.hours[rows].astype(np.str_)),
        "commute_km": mask_outside(works, _tenths(lives.commute[rows])),
        "income": mask_outside(age >= 15, lives.income[rows].astype(np.str_)),
        "health": lives.health[rows],
    }


def mask_outside(universe: Flags, texts: Texts) -> Texts:
    """Return texts, replaced by the code for being outside where a question was not asked."""
    return np.where(universe, texts, OUTSIDE)


def to_table(cells: Cells) -> pa.Table:
    """Return cells as an Arrow table."""
    import pyarrow as pa

    return pa.table({name: pa.array(values) for name, values in cells.items()})


def _labour_force(work: Texts) -> Texts:
    names, places = np.unique(work, return_inverse=True)
    return np.array([LABOUR_FORCE[name] for name in names.tolist()], dtype=np.str_)[places]


def _tenths(numbers: Numbers) -> Texts:
    """Write tenths with one decimal.

    >>> _tenths(np.array([5, 123])).tolist()
    ['0.5', '12.3']
    """
    whole, rest = np.divmod(numbers, 10)
    return np.strings.add(np.strings.add(whole.astype(np.str_), "."), rest.astype(np.str_))
