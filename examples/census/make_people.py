"""Write the invented people of the census example: `people.csv`, a row each, and `counts.csv`, a row for each kind.

    python examples/census/make_people.py FOLDER

They are the population of `populace demo`, with every household in a block. Nobody in it is real. `spine.csv`, the list
of all blocks, is written as well: every fifth block is water, where nobody lives.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from populace.simulation.households import AREAS
from populace.simulation.population import simulate_population

LEVELS = ["state", "county", "tract", "block_group", "block"]
COLUMNS = ["tenure", "relationship", "sex", "age", "health"]
GROUPS, BLOCKS = 2, 5


def make_spine() -> pa.Table:
    """Return all blocks: two groups of five in every tract."""
    units = [
        (area[:1], area[:2], area, str(group), f"{group}{block:03}")
        for area in AREAS
        for group in range(1, GROUPS + 1)
        for block in range(1, BLOCKS + 1)
    ]
    return pa.table(dict(zip(LEVELS, map(list, zip(*units, strict=True)), strict=True)))


def make_people() -> pa.Table:
    """Return everybody, with the block of their household; nobody lives in the last block of a group."""
    people, _ = simulate_population()
    households = people["household_id"].to_numpy()
    groups = 1 + households % GROUPS
    blocks = 1 + households // GROUPS % (BLOCKS - 1)
    areas = {"state": people["region"], "county": people["county"], "tract": people["area"]}
    areas["block_group"] = [str(group) for group in groups]
    areas["block"] = [f"{group}{block:03}" for group, block in zip(groups, blocks, strict=True)]
    return pa.table(areas | {name: people[name] for name in COLUMNS})


def count_people(people: pa.Table) -> pa.Table:
    """Return a row for each kind of people who share a block, with their number `n`."""
    ages = pc.if_else(pc.greater_equal(people["age"], 18), "18 or older", "under 18")
    kinds = people.append_column("voting_age", ages)
    names = [*LEVELS, "tenure", "voting_age", "sex", "health"]
    counted = kinds.group_by(names).aggregate([([], "count_all")])
    return counted.rename_columns([*names, "n"]).sort_by([(name, "ascending") for name in names])


def main() -> None:
    """Write the three files."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    people = make_people()
    tables = {"spine": make_spine(), "people": people, "counts": count_people(people)}
    for name, table in tables.items():
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")


if __name__ == "__main__":
    main()
