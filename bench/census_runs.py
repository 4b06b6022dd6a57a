"""Whole hierarchical releases through the command line, on real populations: constraints met, time, memory and sizes.

    python bench/census_runs.py [--only vtd]

Six populations (shared/data beside the checkout; one is simulated), at the budget of the 2020 census (ε = 16.464,
δ = 1e-10):

    vtd        voting districts of 46 states: 4 levels with the root, counted rows, state totals exact
    ri_blocks  the blocks of Rhode Island: 6 levels with the root (nation, state, county, tract, block group, block),
               counted rows, state totals exact
    ri_people  the same with one row per person, in and out: more rows than are drawn at once, so block by block
    maryland   the block groups of a county: 3 levels with the root, one row per person, the total exact, no minors
               with a hospital stay of sex 2 (a structural zero)
    sample     the embedded sample: 50 areas, 4 levels with the root, households and their persons in two linked files,
               numbers of households by region exact, every rule of households
    households a survey of 27,980 households and their persons: 4 levels with the root, two linked files, numbers of
               households by cluster exact

Each is planned first, released by `populace synth` with its report, and checked by `populace verify --ledger`. Counted
as violations: published numbers below 0, cells of parents that children do not add up to, exact totals missed,
structural zeros with somebody in them, and cells in which the released rows differ from the published tables. Of linked
files also rules, sizes and householders that are not right, and both files are compared with their tables: persons by
the area of the household that their key names. The ε of the statement stands beside that of the privacy loss
distribution of the noise.
Claim: no violation, verify finds nothing wrong, the nation below 60 CPU seconds and 2 GiB, every variance that the plan
foretold is that of the release, and the statement's ε is not below the distribution's and within 0.001 of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from error import SHARED
from linked_hierarchy import SURVEY, Case, count_wrong, read_true, sample_case, survey_case

import populace as pp
from populace.privacy.accounting.privacy_loss_distribution import composed_epsilon

EPSILON, DELTA = "16.464", "1e-10"
RACES = ["white", "black", "hisp", "aian", "asian", "nhpi", "other", "two"]
BLOCK_LEVELS = ["state", "county", "tract", "block_group", "block"]
MOST_SECONDS, MOST_GIB = 60, 2


@dataclass(frozen=True, kw_only=True)
class Population:
    """What is released: rows, units, schema, and the structural zero if there is one."""

    levels: list[str]
    columns: list[str]
    rows: pd.DataFrame
    units: pd.DataFrame
    schema: str
    invariant: str
    frequency: str | None = None
    zero: dict[str, str] | None = None

    @property
    def people(self) -> int:
        return int(self.rows[self.frequency].sum()) if self.frequency else len(self.rows)


def categorical(name: str, values: list[str]) -> str:
    listed = ", ".join(f'"{value}"' for value in values)
    return f'[columns.{name}]\nkind = "categorical"\nvalues = [{listed}]\nother = "{values[0]}"\n'


def head(name: str, levels: list[str], *, invariant: str, frequency: str | None) -> str:
    listed = ", ".join(f'"{level}"' for level in levels)
    return (
        f'[table]\ndataset = "{name}"\nunit = "person"\n'
        + (f'frequency = "{frequency}"\n' if frequency else "")
        + f'[geography]\nlevels = [{listed}]\nunits = "units.parquet"\n'
        + f"[[invariants]]\nby = [{'' if invariant == 'all' else repr(invariant)}]\n"
    )


def read_counts(name: str, levels: list[str], *, counted: bool = True) -> Population:
    wide = pd.read_parquet(SHARED / "data" / "us-2010-redistricting" / f"{name}.parquet")
    wide[levels] = wide[levels].fillna("").astype(str)
    long = wide.melt(id_vars=levels, var_name="cell", value_name="n")
    long[["race", "age"]] = long["cell"].str.split("_", expand=True)
    rows = long.loc[long["n"] > 0, [*levels, "race", "age", "n"]]
    if not counted:
        rows = rows.loc[rows.index.repeat(rows["n"])].drop(columns="n")
    frequency = "n" if counted else None
    schema = head(name, levels, invariant="state", frequency=frequency)
    schema += categorical("race", RACES) + categorical("age", ["18plus", "under18"])
    return Population(
        levels=levels,
        columns=["race", "age"],
        rows=rows,
        units=wide[levels],
        schema=schema,
        invariant="state",
        frequency=frequency,
    )


def read_maryland() -> Population:
    whole = pd.read_parquet(SHARED / "data" / "maryland-area" / "MDarea.pop.parquet")
    levels = ["tract", "block_group"]
    rows = pd.DataFrame(
        {
            "tract": whole["TRACT"].astype(int).astype(str),
            "block_group": whole["BLKGROUP"].astype(int).astype(str),
            "hispanic": whole["Hispanic"].astype(str),
            "sex": whole["Gender"].astype(str),
            "age": np.where(whole["Age"] < 5, "minor", "adult"),
            "stay": whole["hosp.stay"].astype(int).astype(str),
        }
    )
    schema = head("maryland", levels, invariant="all", frequency=None)
    for name in ("hispanic", "sex", "age", "stay"):
        schema += categorical(name, sorted(rows[name].unique()))
    schema += "[[zeros]]\nwhen = \"age == 'minor' and stay == '1' and sex == '2'\"\nelse = { stay = '0' }\n"
    return Population(
        levels=levels,
        columns=["hispanic", "sex", "age", "stay"],
        rows=rows,
        units=rows[levels].drop_duplicates(),
        schema=schema,
        invariant="all",
        zero={"age": "minor", "stay": "1", "sex": "2"},
    )


READERS: dict[str, Callable[[], Population]] = {
    "vtd": lambda: read_counts("vtd", ["state", "county", "vtd"]),
    "ri_blocks": lambda: read_counts("ri_blocks", BLOCK_LEVELS),
    "ri_people": lambda: read_counts("ri_blocks", BLOCK_LEVELS, counted=False),
    "maryland": read_maryland,
}


def call(*words: str, folder: Path) -> tuple[str, float, float]:
    """Run populace in a folder; return what it printed, its CPU seconds and its peak memory in GiB."""
    command = [str(Path(sys.executable).with_name("populace")), *words]
    own = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    measured = f"import resource, subprocess, sys; done = subprocess.run({command!r}); " + (
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, file=sys.stderr); sys.exit(done.returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", measured], cwd=folder, env=own, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    seconds, gib = map(float, done.stderr.strip().splitlines()[-1].split())
    return done.stdout, seconds, gib


def count_violations(population: Population, release: Path) -> dict[str, int]:
    tables = pd.read_parquet(release / "tables.parquet")
    levels, columns = population.levels, population.columns
    found = {"negative": int((tables["published"] < 0).sum()), "sums": 0}
    above = ["all", *levels]
    parts = {name: tables[tables["level"] == name] for name in above}
    for depth, name in enumerate(levels, 1):
        keys = [*levels[: depth - 1], *columns]
        summed = parts[name].groupby(keys, observed=True)["published"].sum()
        parent = parts[above[depth - 1]].groupby(keys, observed=True)["published"].sum()
        found["sums"] += int((summed != parent.reindex(summed.index)).sum())
    exact = population.invariant
    weights = population.rows[population.frequency] if population.frequency else 1
    real = population.rows.assign(weight=weights)
    if exact == "all":
        found["exact totals"] = int(parts["all"]["published"].sum() != population.people)
    else:
        truth = real.groupby(exact)["weight"].sum()
        published = parts[exact].groupby(exact, observed=True)["published"].sum()
        found["exact totals"] = int((published != truth.reindex(published.index)).sum())
    if population.zero:
        held = np.logical_and.reduce([tables[name] == value for name, value in population.zero.items()])
        found["zeros"] = int((tables.loc[held, "published"] != 0).sum())
    file = next(release.glob("synthetic.*"))
    drawn = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file, dtype=str)
    drawn[levels] = drawn[levels].fillna("")
    drawn["weight"] = pd.to_numeric(drawn[population.frequency]) if population.frequency else 1
    keys = [*levels, *columns]
    rows = drawn.groupby(keys, observed=True)["weight"].sum()
    smallest = parts[levels[-1]].groupby(keys, observed=True)["published"].sum()
    aligned = rows.reindex(smallest.index, fill_value=0)
    found["rows"] = int((aligned != smallest).sum()) + int(rows.sum() != smallest.sum())
    return found


def compare_variances(plan: dict, release: Path) -> float:
    """Return the largest difference, relative, of the noise that was planned and that was drawn, by level and query."""
    noisy = pd.read_parquet(release / "noisy_measurements.parquet", columns=["level", "query", "variance"])
    drawn = noisy.groupby(["level", "query"], observed=True)["variance"].agg(["min", "max"])
    worst = 0.0
    for level in plan["levels"]:
        for query in level["queries"]:
            if query["variance"] is not None:
                low, high = drawn.loc[(level["level"], query["query"])]
                worst = max(worst, *(abs(found / query["variance"] - 1) for found in (low, high)))
    return worst


LINKED: dict[str, Callable[[], Case]] = {
    "sample": sample_case,
    "households": lambda: survey_case(SURVEY),
}


def run(name: str, folder: Path) -> int:
    """Write the files of a population, release it by the command line, and print what is wrong in the release."""
    if name in LINKED:
        case = LINKED[name]()
        (folder / "schema.toml").write_text(case.schema.to_toml())
        for table, frame in case.tables.items():
            pq.write_table(frame, folder / f"{table}.parquet")
        homes, people = (frame.num_rows for frame in case.tables.values())
        files = [f"{table}={table}.parquet" for table in case.tables]
        spine = case.schema.geography.spine
        what = (
            f"{spine.leaves} smallest units, {spine.depth} levels, {homes:,} households, {people:,} persons"
        )
        return release(
            f"{name}: {what}",
            files,
            folder=folder,
            size=homes,
            count=lambda made: count_wrong(pp.Release.load(made), case, read_true(case)),
        )
    population = READERS[name]()
    (folder / "schema.toml").write_text(population.schema)
    population.units.to_parquet(folder / "units.parquet", index=False)
    population.rows.to_parquet(folder / "rows.parquet", index=False)
    depth, people = len(population.levels) + 1, population.people
    return release(
        f"{name}: {len(population.units):,} smallest units, {depth} levels, {people:,} people",
        ["rows.parquet"],
        folder=folder,
        size=people,
        count=lambda made: count_violations(population, made),
    )


def release(
    name: str, files: list[str], *, folder: Path, size: int, count: Callable[[Path], dict[str, int]]
) -> int:
    budget = ["--epsilon", EPSILON, "--delta", DELTA]
    printed, plan_seconds, plan_gib = call(
        "plan", "--schema", "schema.toml", "--population", str(size), *budget, "--json", folder=folder
    )
    plan = json.loads(printed)
    _, seconds, gib = call(
        "synth", *files, "--schema", "schema.toml", *budget, "--out", "release", "--ledger", "ledger.db",
        folder=folder,
    )  # fmt: skip
    checked, verify_seconds, _ = call("verify", "release", "--ledger", "ledger.db", folder=folder)
    wrong = [line for line in checked.splitlines() if "ok" not in line and line.strip()]
    made = folder / "release"
    violations = count(made)
    sizes = {path.name: path.stat().st_size / 1e6 for path in sorted(made.iterdir()) if path.is_file()}
    print(f"\n{name}")
    print(f"  violations: {', '.join(f'{found} {what}' for what, found in violations.items())}")
    print(f"  verify --ledger: {len(checked.splitlines())} lines, {len(wrong)} without “ok”")
    gap = compare_variances(plan, made)
    print(f"  noise variances, planned and drawn: largest relative difference {gap:.2g}")
    stated, needed = compare_epsilon(made)
    print(f"  ε of the statement {float(stated):.5f}, of the privacy loss distribution {float(needed):.5f}")
    print(
        f"  synth: {seconds:.1f} CPU s, {gib:.2f} GiB (planned {plan['cpu_seconds']} s, "
        f"{plan['peak_megabytes'] / 1024:.2f} GiB); verify {verify_seconds:.1f} CPU s; plan {plan_seconds:.1f} CPU s, "
        f"{plan_gib:.2f} GiB"
    )
    print("  files: " + ", ".join(f"{file} {size:.1f} MB" for file, size in sizes.items() if size >= 0.05))
    print("  planned: " + ", ".join(f"{file} {size:.1f} MB" for file, size in plan["megabytes"].items()))
    missed = [*violations.values(), len(wrong)]
    missed += [gap > 1e-9, not needed <= stated <= needed + Fraction("0.001")]
    return sum(missed) + (seconds > MOST_SECONDS or gib > MOST_GIB)


def compare_epsilon(folder: Path) -> tuple[Fraction, Fraction]:
    """Return ε as a release states it, and as its noise needs it: a unit moves as many cells as it has rows there."""
    statement = json.loads((folder / "statement.json").read_text(), parse_float=Fraction)
    measured = pp.Release.load(folder).measurements
    variances = [item.variance for item in measured.items if item.variance]
    needed = composed_epsilon(variances * measured.schema.unit.marginal_l2_squared, delta=Fraction(DELTA))
    return Fraction(statement["epsilon"]), needed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=[*READERS, *LINKED])
    only = parser.parse_args().only
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, Python {platform.python_version()}, "
        f"NumPy {version('numpy')}, ε = {EPSILON}, δ = {DELTA}"
    )
    missed = 0
    for name in [only] if only else [*READERS, *LINKED]:
        with tempfile.TemporaryDirectory() as folder:
            missed += run(name, Path(folder))
    print(f"\n{missed or 'no'} bars missed; peak of this script {_peak():.2f} GiB")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
