"""The made-up population as two linked tables: households, and the persons in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from populace.schema.schema import Schema
from populace.simulation.households import AREAS
from populace.simulation.population import HOUSEHOLDS, SEED, draw_population, person_cells, to_table

if TYPE_CHECKING:
    import pyarrow as pa

LINKED_SCHEMA = Path(__file__).with_name("households.toml").read_text(encoding="utf-8")
AREA_SCHEMA = Path(__file__).with_name("households_by_area.toml").read_text(encoding="utf-8")
KEY = "household_id"
HOUSEHOLD_COLUMNS = ("region", "tenure", "moved_in", "children")
PERSON_COLUMNS = ("relationship", "age", "sex", "marital_status", "education", "work", "income", "health")
LEVELS = ("region", "county", "area")


def simulate_households(
    *, households: int = HOUSEHOLDS, seed: int = SEED
) -> tuple[dict[str, pa.Table], Schema]:
    """Return all households of a made-up population and the persons in them, and the schema that links the two.

    They are the people of `simulate_population`. The same arguments give the same rows, on every machine.

    >>> tables, schema = simulate_households(households=10)
    >>> sorted(tables), schema.unit.name
    (['household', 'person'], 'household')
    """
    tables = _draw_tables(HOUSEHOLD_COLUMNS, PERSON_COLUMNS, households=households, seed=seed)
    return tables, Schema.parse(LINKED_SCHEMA)


def simulate_households_by_area(
    *, households: int = HOUSEHOLDS, seed: int = SEED
) -> tuple[dict[str, pa.Table], Schema]:
    """Return the same households with few columns, and with their region, county and area: a geography.

    >>> tables, schema = simulate_households_by_area(households=10)
    >>> schema.geography.spine.levels, schema.geography.spine.leaves
    (('all', 'region', 'county', 'area'), 50)
    """
    tables = _draw_tables(
        (*LEVELS, "tenure", "children"), ("relationship", "age", "sex"), households=households, seed=seed
    )
    units = ", ".join(f'"{area[0]}|{area[:2]}|{area}"' for area in AREAS)
    levels = ", ".join(f'"{level}"' for level in LEVELS)
    geography = f"[geography]\nlevels = [{levels}]\nunits = [{units}]\n"
    return tables, Schema.parse(f"{AREA_SCHEMA}\n{geography}")


def _draw_tables(
    of_households: Sequence[str], of_persons: Sequence[str], *, households: int, seed: int
) -> dict[str, pa.Table]:
    people = draw_population(households=households, seed=seed)
    cells = person_cells(people, rows=np.arange(people.persons.age.size))
    first = np.unique(cells[KEY], return_index=True)[1]
    return {
        "household": to_table({name: cells[name][first] for name in (KEY, *of_households)}),
        "person": to_table({name: cells[name] for name in (KEY, *of_persons)}),
    }
