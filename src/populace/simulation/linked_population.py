"""The made-up population as two linked tables: households, and the persons in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from populace.schema.schema import Schema
from populace.simulation.population import HOUSEHOLDS, SEED, draw_population, person_cells, to_table

if TYPE_CHECKING:
    import pyarrow as pa

LINKED_SCHEMA = Path(__file__).with_name("households.toml").read_text(encoding="utf-8")
KEY = "household_id"
HOUSEHOLD_COLUMNS = ("region", "tenure", "moved_in", "children")
PERSON_COLUMNS = ("relationship", "age", "sex", "marital_status", "education", "work", "income", "health")


def simulate_households(
    *, households: int = HOUSEHOLDS, seed: int = SEED
) -> tuple[dict[str, pa.Table], Schema]:
    """Return all households of a made-up population and the persons in them, and the schema that links the two.

    They are the people of `simulate_population`. The same arguments give the same rows, on every machine.

    >>> tables, schema = simulate_households(households=10)
    >>> sorted(tables), schema.unit.name
    (['household', 'person'], 'household')
    """
    people = draw_population(households=households, seed=seed)
    cells = person_cells(people, rows=np.arange(people.persons.age.size))
    first = np.unique(cells[KEY], return_index=True)[1]
    tables = {
        "household": to_table({name: cells[name][first] for name in (KEY, *HOUSEHOLD_COLUMNS)}),
        "person": to_table({name: cells[name] for name in (KEY, *PERSON_COLUMNS)}),
    }
    return tables, Schema.parse(LINKED_SCHEMA)
