"""Households and persons in every unit of a geography: what is wrong in a release, and how far off its tables are.

    python bench/linked_hierarchy.py [--seeds N] [--survey FOLDER]

Two populations at ε = 1 and 4, δ = 1e-9: a survey of 27,980 households (read from --survey; clusters, groups,
subregions; the number of households of each cluster is invariant), and the simulated one of 50 areas (that of each
region is). Every release is checked from its own files: rules, sizes, householders, invariants, sums over children,
structural zeros, and that both files tabulate to exactly what is published of every unit.

Then mean absolute errors of persons and of households at every level, over units and cells, for the total, for single
columns, and for all columns together:

    measured   the noise of the query itself at this level: √(2/π) σ
    unbiased   estimates from all levels
    published  the integer tables, to which both files tabulate

Claim: nothing is wrong, and on the simulated population `published` is nowhere above `measured`. In the survey it is,
at the two widest levels, for numbers of persons and about level for columns of households: numbers of persons follow
from integer tables of households by size, whose many small cells are biased by non-negativity. Stars mark it. Noise is
never seeded, so two calls differ.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import populace as pp
from populace.inference.factor import sum_onto
from populace.private.read.household_source import open_tables
from populace.private.read.rows_to_codes import read_codes
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.schema.codec.table_codec import TableCodec
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.linked.table_cells import MemberCells
from populace.simulation.linked_population import simulate_households_by_area

HERE = Path(__file__).resolve().parent
SURVEY = HERE.parents[1] / "shared" / "data" / "households"
LEVELS = ("SUBREGCluster", "SUBREG_GRP", "SUBREG")
DELTA = "1e-9"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two linked tables with a geography."""

    name: str
    tables: dict[str, pa.Table]
    schema: pp.Schema


def survey_case(folder: Path) -> Case:
    tables = {name: pd.read_parquet(folder / f"{name}s.parquet") for name in ("household", "person")}
    spine = pd.read_csv(folder / "geo_cross_walk.csv")[list(LEVELS)].drop_duplicates()
    for frame in (tables["household"], spine):
        frame[list(LEVELS)] = frame[list(LEVELS)].astype(float).astype(str)
    flat = pp.Schema.load(HERE.parent / "examples" / "schemas" / "household-survey.toml")
    schema = pp.Schema(
        columns={name: column for name, column in flat.columns.items() if name not in LEVELS},
        unit=flat.unit,
        dataset="survey-areas",
        zeros=flat.zeros,
        linked=flat.linked,
        geography=Geography.of_paths(list(spine.itertuples(index=False, name=None)), levels=LEVELS),
        invariants=(LEVELS[0],),
    )
    frames = {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in tables.items()}
    return Case(name="household survey", tables=frames, schema=schema)


def sample_case() -> Case:
    tables, schema = simulate_households_by_area()
    return Case(name="simulated population", tables=tables, schema=schema)


def read_true(case: Case) -> dict[str, np.ndarray]:
    return read_codes(open_tables(case.tables, schema=case.schema), case.schema)


def count_wrong(loaded: pp.Release, case: Case, true: dict[str, np.ndarray]) -> dict[str, int]:
    """Return how often something is wrong in the files of a release, as they were read again."""
    schema, spine = case.schema, loaded.hierarchy.geography.spine
    linked = schema.linked
    assert linked is not None
    homes, people = loaded.table[linked.units], loaded.table[linked.members]
    sizes = np.bincount(people[linked.member_key].to_numpy() - 1, minlength=homes.num_rows)
    counted = loaded.codes[linked.count]
    found = {
        "rules": sum(TableCodec(schema).count_violations(loaded.synthetic).values()),
        "sizes": int((sizes != counted).sum()),
        "householders": 0,
        "invariants": 0,
        "sums of children": 0,
        "structural zeros": 0,
        "negative": 0,
        "households ≠ tables": 0,
        "persons ≠ tables": 0,
    }
    if linked.householder is not None:
        heads = people["relationship"].to_numpy(zero_copy_only=False) == "householder"
        owner = people[linked.member_key].to_numpy()[heads]
        found["householders"] = int((np.bincount(owner - 1, minlength=homes.num_rows) != 1).sum())
    for name in schema.invariants:
        level = spine.levels.index(name)
        totals = [
            np.bincount(spine.ancestors(level)[codes[GEOCODE]], minlength=spine.units(level))
            for codes in (true, loaded.codes)
        ]
        found["invariants"] += int((totals[0] != totals[1]).sum())
    households, persons = loaded.hierarchies
    for each in (households, persons):
        for level in range(1, spine.depth):
            above = spine.sum_children(each.published[level], level=level)
            found["sums of children"] += int((above != each.published[level - 1]).sum())
        found["negative"] += int((each.smallest < 0).sum())
        zeros = each.measured.constraints.zeros
        found["structural zeros"] += 0 if zeros is None else int(each.smallest[:, zeros].sum())
    found["households ≠ tables"] = int((count_units(loaded.codes, households) != households.smallest).sum())
    # Persons are counted from their own file, by the household's area, without the wide rows.
    found["persons ≠ tables"] = int((count_file(loaded, persons) != persons.smallest).sum())
    return found


def count_units(codes: dict[str, np.ndarray], shown: ReleasedHierarchy) -> np.ndarray:
    counts = np.zeros(shown.smallest.shape, dtype=np.int64)
    np.add.at(counts, (codes[GEOCODE], *(codes[name] for name in shown.columns)), 1)
    return counts


def count_file(release: pp.Release, shown: ReleasedHierarchy) -> np.ndarray:
    """Return the counts of the person file alone, joined by the key to the areas of the household file."""
    linked = release.measurements.schema.linked
    assert linked is not None
    own = pp.Schema(columns=dict(linked.columns))
    people = release.table[linked.members]
    codes = TableCodec(own).encode_cells({name: people[name] for name in linked.columns})
    counts = np.zeros(shown.smallest.shape, dtype=np.int64)
    areas = release.codes[GEOCODE][people[linked.member_key].to_numpy() - 1]
    np.add.at(counts, (areas, *(codes[name] for name in shown.columns)), 1)
    return counts


def list_errors(shown: ReleasedHierarchy, true: np.ndarray) -> Iterator[tuple[str, str, list[float]]]:
    """Yield, by level and kind of table, the mean absolute errors of what was measured, estimated and published."""
    spine, columns = shown.geography.spine, shown.columns
    every = [true]
    for level in range(spine.depth - 1, 0, -1):
        every.insert(0, spine.sum_children(every[0], level=level))
    kinds = {"total": [()], "single columns": [(name,) for name in columns], "all columns": [columns]}
    for level in range(spine.depth):
        asked = {q.marginal.clique: float(q.variance) for q in shown.measured.plan.levels[level].queries}
        for kind, cliques in kinds.items():
            errors = defaultdict(list)
            for clique in cliques:
                truth, published = (
                    sum_onto(table, ("", *columns), ("", *clique))
                    for table in (every[level], shown.published[level])
                )
                unbiased = shown.estimates.marginal(clique, level=level)
                noise = math.sqrt(2 / math.pi * asked[clique]) if clique in asked else 0.0
                errors["measured"].append(noise)
                errors["unbiased"].append(float(np.abs(unbiased - truth).mean()))
                errors["published"].append(float(np.abs(published - truth).mean()))
            yield spine.levels[level], kind, [float(np.mean(each)) for each in errors.values()]


def show(case: Case, *, epsilon: str, seeds: int) -> None:
    true = read_true(case)
    members = MemberCells.of(case.schema)
    wrong: dict[str, int] = defaultdict(int)
    errors: dict[tuple[str, str, str], list[list[float]]] = defaultdict(list)
    seconds = []
    for _ in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            release = pp.synthesize(
                case.tables, schema=case.schema, epsilon=epsilon, delta=DELTA, ledger=Path(folder) / "ledger"
            )
            seconds.append(time.process_time() - start)
            release.save(Path(folder) / "release", report=False)
            loaded = pp.Release.load(Path(folder) / "release")
            for name, count in count_wrong(loaded, case, true).items():
                wrong[name] += count
        for shown in release.hierarchies:
            counts = (
                count_units(true, shown)
                if shown.table == case.schema.unit.name
                else members.tabulate(true, units=true[GEOCODE], count=len(shown.smallest))
            )
            for level, kind, found in list_errors(shown, counts):
                errors[str(shown.table), level, kind].append(found)
    print(f"\n{case.name}, ε = {epsilon}, {seeds} runs of {np.mean(seconds):.0f} CPU seconds")
    print("wrong: " + ", ".join(f"{name} {count}{' *' if count else ''}" for name, count in wrong.items()))
    print(f"{'table':<10} {'level':<14} {'':<15} {'measured':>9} {'unbiased':>9} {'published':>9}")
    for (table, level, kind), runs in errors.items():
        measured, unbiased, published = np.mean(runs, axis=0)
        star = " *" if 0 < measured < published else ""
        told = f"{measured:9.1f}" if measured else f"{'–':>9}"
        print(f"{table:<10} {level:<14} {kind:<15} {told} {unbiased:9.1f} {published:9.1f}{star}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--survey", type=Path, default=SURVEY)
    asked = parser.parse_args()
    cases = [sample_case()]
    if asked.survey.is_dir():
        cases.insert(0, survey_case(asked.survey))
    for case in cases:
        for epsilon in ("1", "4"):
            show(case, epsilon=epsilon, seeds=asked.seeds)


if __name__ == "__main__":
    main()
