"""What `populace plan` predicts beside what happens: errors, time, memory, whole rehearsals, too small tables.

    python bench/plan.py                          everything, the default
    python bench/plan.py --data adult --epsilon 1
    python bench/plan.py --parts held-out --epsilon 1

The plan sees the schema, the number of rows, ε and δ. What happens is `populace synth` on the real rows, four times,
each in a process of its own: the mean error of columns and of the pairs that it measured, by least squares from its
noisy tables as the plan predicts them (noise alone); beside it the error of single columns in the rows it releases; CPU
seconds and peak memory of the process, report included. `--keep FILE` remembers finished runs.

Which pairs are measured depends on the rows. So "the pairs measured" compares like with like: over the very pairs
that the runs measured, the mean of what the plan says of each beside the mean of what happened; "inside" is the share
of these pairs that fell into their brackets. "Pairs the plan expects" is the mean over the pairs that its rehearsals
measured, beside the same happening, and "how many" are the numbers of pairs. A "!" says that what happened lies outside
the bracket of the plan.

How populations are invented was read off the columns and pairs of the tables of --data and of two others (nhanes and
adult-raw of examples/schemas, part "others"): how much of the largest entropy columns have, how far pairs are from
independence, and how many of their cells have rows. No constant was fitted to errors, but errors had a part in choosing
between ways. No constant was read off "held-out" tables; their errors were in sight, so that tables of one's own may
fare a little worse. Times and memory of all were known when these were fitted.

"shares" repeats all three with public shares of columns (`--shares`): of every column in percents of one decimal, as a
published table tells them, without values that round to 0.0. Here they are those of the private rows, which a published
table of the same population would come near, and for two tables those of the year before. What happened are the same
runs.

"shapes" prints what was read off: the mean part of the largest entropy and distances from independence.

Claims, for the former: with shares, errors of columns and of the pairs measured within a factor 1.3; without, most of
them (bench/twins.py shows why no plan can promise more); time within 2, memory within 1.5; with `--like`, the mean
error of all released pairs within 1.3; the verdict "too few rows" right on tables of 1,300 rows at ε = 0.1, where right
means that released pairs err by more than exact columns without any dependence would.
Where a claim does not hold, a star says so.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from codebooks import imported
from error import COMMAND, SHARED, files, here
from shapes import OTHERS, SCHEMAS, rows_of, shapes

from populace.core.marginals import Marginal
from populace.measurements.measurements import Measurements
from populace.methods.registry import find_method
from populace.methods.workload import resolve_workload
from populace.planning.prediction_range import PredictionRange
from populace.planning.simulated.ensemble import simulate_ensemble
from populace.planning.simulated.populations import SimulatedPopulation
from populace.planning.simulated.public_table_runs import simulate_on_public_table
from populace.planning.simulated.simulated_run import RunTerms, close_domains
from populace.planning.simulated.total_variation import compute_noise_errors, total_variation
from populace.planning.verdict import Verdict
from populace.release.report.vega_scripts import load_scripts
from populace.schema.schema import Schema

DATA = ["adult", "nltcs", "loans", "msnbc", "stroke", "nist2020-acs"]
DELTA = "1e-9"
SMALL = 1300
RUNS = 4
# The peak of a child counts that of the process that starts it, and this one reads tables: a small one stands between.
LAUNCHER = """
import json, resource, subprocess, sys
quiet = subprocess.DEVNULL
status = subprocess.call(sys.argv[1:], stdout=quiet, stderr=quiet)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([status, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
FACTORS = {"columns": 1.3, "pairs": 1.3, "expected": 1.3, "released": 1.3, "cpu_s": 2.0, "peak_mb": 1.5}


def happened(data: Path, schema: Path, *, epsilon: str) -> dict[str, Any]:
    """Run `synth` on a file and return what happened."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "release"
        words = ["synth", str(data), "--schema", str(schema), "--epsilon", epsilon, "--delta", DELTA]
        words += ["--ledger", f"{place}/ledger.db", "--out", str(out)]
        one_core = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        launch = [sys.executable, "-c", LAUNCHER, *COMMAND, *words]
        told = subprocess.run(launch, capture_output=True, text=True, env=one_core, check=True)
        status, seconds, kilobytes = json.loads(told.stdout)
        if status:
            raise SystemExit(f"synth failed on {data} at epsilon {epsilon}")
        effort = {"cpu_s": seconds, "peak_mb": kilobytes / 1024}
        return scored(data, out) | effort


def scored(data: Path, out: Path) -> dict[str, Any]:
    """Return the errors of a release, from its noisy tables and from its rows."""
    measurements = Measurements.load(out)
    (rows,) = out.glob("synthetic.*")
    known = measurements.schema
    # Released rows belong to nobody, so they have no id.
    nobody = replace(known, unit=replace(known.unit, id=None, rows=1))
    real, made = rows_of(data, known), rows_of(rows, nobody)
    columns, pairs = compute_noise_errors(measurements.items, schema=known, exact=real.exact)
    return {
        "columns": float(np.mean(list(columns.values()))),
        "pairs": float(np.mean(list(pairs.values()))) if pairs else 0.0,
        "measured": len(pairs),
        "by_pair": [[*pair, error] for pair, error in pairs.items()],
        "released": between(real, made, size=1),
        "released_pairs": between(real, made, size=2),
    }


def between(real: SimulatedPopulation, made: SimulatedPopulation, *, size: int) -> float:
    """Return the mean total variation between the tables of two populations over so many columns."""
    cliques = list(combinations(real.schema.domain, size))
    return float(
        np.mean([total_variation(made.exact(Marginal(c)), real.exact(Marginal(c))) for c in cliques])
    )


def published(real: SimulatedPopulation) -> dict[str, Any]:
    """Return the shares of all columns in percents of one decimal, without those that round to nothing."""
    shares = {}
    for name in real.schema.domain:
        rounded = np.round(real.exact(Marginal((name,))) / real.rows, 3)
        shares[name] = np.where(rounded > 0, rounded, np.nan) / max(1.0, rounded.sum())
    return shares


def predicted(
    schema: Path, *, rows: int, epsilon: str, known: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return what the plan says, in the names of `happened`; what it would advise is not asked."""
    asked = terms(Schema.load(schema), epsilon=epsilon)
    told = simulate_ensemble(asked, rows=rows, seed=0, pairs=True, known_shares=known)
    effort = told.estimate_cost(rows=rows)
    return {
        "columns": told.columns.mean,
        "released": told.columns.mean,
        "pairs": told.pairs.mean if told.pairs else 0.0,
        "by_pair": {frozenset(pair): told.error for pair, told in told.by_pair.items()},
        "measured": told.pairs_measured.mean,
        "brackets": {"columns": told.columns, "expected": told.pairs, "measured": told.pairs_measured},
        "cpu_s": effort.seconds,
        "peak_mb": effort.memory / 2**20,
        "too_small": told.outcome.verdict is Verdict.TOO_FEW,
    }


def predicted_like(schema: Path, *, rows: int, epsilon: str, like: Path) -> dict[str, Any]:
    """Return what the plan says of released pairs after whole rehearsals on a public table."""
    known = Schema.load(schema)
    asked = terms(known, epsilon=epsilon)
    found = simulate_on_public_table(asked, known, like, workload=resolve_workload(None), rows=rows, seed=0)
    return {"released_pairs": found.pairs.mean}


def terms(schema: Schema, *, epsilon: str) -> RunTerms:
    """Return the terms of a run as `populace synth` has them."""
    return RunTerms.of(
        schema,
        epsilon=Fraction(epsilon),
        delta=Fraction(DELTA),
        method=find_method("auto"),
        workload=resolve_workload(None)(close_domains(schema)),
    )


class Notes:
    """Remembers what was found, in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._found = {line["key"]: line["found"] for line in map(json.loads, lines)}

    def runs(self, key: str, work: Any) -> list[dict[str, Any]]:
        return [self.get(f"{key} {run}", work) for run in range(RUNS)]

    def get(self, key: str, work: Any) -> dict[str, Any]:
        if key not in self._found:
            self._found[key] = work()
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps({"key": key, "found": self._found[key]}) + "\n")
        found: dict[str, Any] = self._found[key]
        return found


def beside(name: str, one: dict[str, Any], two: dict[str, Any]) -> str:
    """Return a prediction beside what happened, their ratio, and marks beyond the claimed factor and the bracket."""
    spread = one.get("brackets", {}).get(name)
    out = "!" if spread is not None and two[name] and not spread.low <= two[name] <= spread.high else " "
    if not one[name] or not two[name]:
        return f"{one[name]:9.3g} {two[name]:9.3g}     – {out}"
    ratio = one[name] / two[name]
    factor = FACTORS.get(name, 1.3)
    mark = " " if 1 / factor <= ratio <= factor else "*"
    return f"{one[name]:9.3g} {two[name]:9.3g} {ratio:5.2f}{mark}{out}"


WITH = ", with public shares of columns"
HEADING = (
    "data          eps  columns (noise)            columns (released rows)    the pairs measured         "
    "inside  pairs the plan expects     how many      CPU seconds                peak MB"
)


def tables(names: list[str], epsilons: list[str], notes: Notes, *, shares: bool) -> None:
    """Compare plans with runs on the shared tables."""
    if shares:
        print(f"\nthe same with public shares of columns, in percents of one decimal\n{HEADING}")
        each = [(data, *files(data)) for data in names]
        summary([row(*table, epsilon, notes, shares=True) for table in each for epsilon in epsilons])
        return
    print(
        "predicted, happened and their ratio; * beyond the claimed factor, ! outside the bracket of the plan"
    )
    print(
        "the pairs measured: what the plan says of the very pairs that runs measured; inside: in their brackets"
    )
    print(
        "pairs the plan expects: the mean over the pairs that its rehearsals measured, beside the same happening"
    )
    print(
        "how populations are invented was read off the columns and pairs of these tables and of the others below"
    )
    print(HEADING)
    each = [(data, *files(data)) for data in names]
    summary([row(*table, epsilon, notes) for table in each for epsilon in epsilons])


def others(epsilons: list[str], notes: Notes, *, shares: bool) -> None:
    """Compare plans with runs on two more tables, behind schemas from their documentation."""
    print("\nothers: their columns and pairs had a part in how populations are invented", end="")
    print(f"{WITH if shares else ''}\n{HEADING}")
    with tempfile.TemporaryDirectory() as place:
        found = []
        for data, name in OTHERS.items():
            rows = SHARED / "data" / data / name
            if rows.suffix == ".gz":
                plain = Path(place) / rows.stem
                plain.write_bytes(gzip.decompress(rows.read_bytes()))
                rows = plain
            schema = SCHEMAS / f"{data}.toml"
            found += [row(data, rows, schema, epsilon, notes, shares=shares) for epsilon in epsilons]
        summary(found)


def held_out(epsilons: list[str], notes: Notes, *, shares: bool) -> None:
    """Compare plans with runs on tables that played no part in the choice of constants."""
    print("\nheld out: no constant was read off them; errors, times and memory were in sight", end="")
    print(f"{WITH if shares else ''}\n{HEADING}")
    folder = SHARED / "data" / "nist-acs"
    with tempfile.TemporaryDirectory() as place:
        words = [str(folder / "national2019.json"), "--dictionary", str(folder / "data_dictionary.json")]
        national = imported(*words, "--overlay", "nist-acs", out=Path(place) / "national.toml")
        each = [
            ("census-1980", SHARED / "data" / "census-1980" / "ipums.parquet", SCHEMAS / "census-1980.toml"),
            ("national2019", folder / "national2019.csv", national),
        ]
        summary([row(*table, epsilon, notes, shares=shares) for table in each for epsilon in epsilons])


def row(
    data: str,
    rows: Path,
    schema: Path,
    epsilon: str,
    notes: Notes,
    *,
    shares: bool = False,
    known: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, float]:
    """Print one plan beside what happened, and return the ratios; the plan knows shares of these rows, or others."""
    count = len(pd.read_parquet(rows) if rows.suffix == ".parquet" else pd.read_csv(rows, usecols=[0]))
    found = notes.runs(f"{data} {epsilon}", lambda: happened(rows, schema, epsilon=epsilon))
    names = ("columns", "released", "pairs", "measured", "cpu_s", "peak_mb")
    two = {name: float(np.mean([each[name] for each in found])) for name in names}
    # A run that measured no pair says nothing of their errors.
    some = [run for run in found if run["by_pair"]]
    two["pairs"] = float(np.mean([run["pairs"] for run in some])) if some else 0.0
    known = published(rows_of(rows, Schema.load(schema))) if shares else known
    one = predicted(schema, rows=count, epsilon=epsilon, known=known)
    one["expected"], two["expected"] = one["pairs"], two["pairs"]
    one["pairs"], inside = same_pairs(one["by_pair"], some)
    shown = "  ".join(beside(name, one, two) for name in ("columns", "released", "pairs"))
    expected = beside("expected", one, two)
    effort = "  ".join(beside(name, one, two) for name in ("cpu_s", "peak_mb"))
    spread = one["brackets"]["measured"]
    out = " " if spread.low <= two["measured"] <= spread.high else "!"
    pairs = f"{one['measured']:5.0f} {two['measured']:5.0f}{out}"
    print(f"{data:12} {epsilon:>4}  {shown}  {inside:5.0%}  {expected}  {pairs}  {effort}", flush=True)
    found = {name: one[name] / two[name] for name in FACTORS if one[name] and two[name]}
    inside = [
        float(spread.low <= two[name] <= spread.high) for name, spread in one["brackets"].items() if spread
    ]
    return found | {"brackets": float(np.mean(inside)), "all": float(len(inside))}


def same_pairs(
    told: dict[frozenset[str], PredictionRange], runs: list[dict[str, Any]]
) -> tuple[float, float]:
    """Return the mean that was foretold of the very pairs that runs measured, and the share inside their brackets."""
    if not told or not runs:
        return 0.0, 0.0
    each = [[(told[frozenset((a, b))], error) for a, b, error in run["by_pair"]] for run in runs]
    means = [np.mean([spread.mean for spread, _ in run]) for run in each]
    inside = [np.mean([spread.low <= error <= spread.high for spread, error in run]) for run in each]
    return float(np.mean(means)), float(np.mean(inside))


def last_year(epsilons: list[str], notes: Notes) -> None:
    """Compare plans that know the columns of the year before with runs."""
    print(f"\nwith shares of the year before, 2018 for 2019\n{HEADING}")
    folder = SHARED / "data" / "nist-acs"
    found = []
    with tempfile.TemporaryDirectory() as place:
        for area in ("ma", "national"):
            words = [str(folder / f"{area}2019.json"), "--dictionary", str(folder / "data_dictionary.json")]
            schema = imported(*words, "--overlay", "nist-acs", out=Path(place) / f"{area}.toml")
            known = published(rows_of(folder / f"{area}2018.csv", Schema.load(schema)))
            rows = folder / f"{area}2019.csv"
            found += [row(f"{area}2019", rows, schema, epsilon, notes, known=known) for epsilon in epsilons]
    summary(found)


def summary(found: list[dict[str, float]]) -> None:
    """Print how many predictions lie within the claimed factors, and the farthest of them."""
    for name, factor in FACTORS.items():
        off = [max(ratios[name], 1 / ratios[name]) for ratios in found if name in ratios]
        inside = sum(ratio <= factor for ratio in off)
        if off:
            print(f"{name:8} {inside} of {len(off)} within {factor}; the farthest is {max(off):.2f}")
    held = sum(ratios["brackets"] * ratios["all"] for ratios in found)
    print(
        f"brackets hold {held:.0f} of {sum(ratios['all'] for ratios in found):.0f} means and numbers of pairs"
    )


def alike(notes: Notes) -> None:
    """Compare whole rehearsals on a public table with runs on another one."""
    print("\n--like: mean error of all released pairs, predicted from another table")
    for name, schema, public_rows, private_rows, epsilon in cases():
        key = f"like {name} {epsilon}"
        two = notes.get(key, lambda: happened(private_rows, schema, epsilon=epsilon))  # noqa: B023
        count = rows_of(private_rows, Schema.load(schema)).rows
        one = predicted_like(schema, rows=count, epsilon=epsilon, like=public_rows)
        print(f"{name:24} {epsilon:>4}  {beside('released_pairs', one, two)}", flush=True)


def cases() -> Iterator[tuple[str, Path, Path, Path, str]]:
    """Yield pairs of tables: one that is public, and one of the same schema that stands for the private one."""
    folder = SHARED / "data" / "nist-acs"
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        for area in ("ma", "national"):
            words = [str(folder / f"{area}2019.json"), "--dictionary", str(folder / "data_dictionary.json")]
            schema = imported(*words, "--overlay", "nist-acs", out=place / f"{area}.toml")
            for epsilon in ("0.1", "1"):
                yield (
                    f"{area} 2018 for 2019",
                    schema,
                    folder / f"{area}2018.csv",
                    folder / f"{area}2019.csv",
                    epsilon,
                )
        for data in ("adult", "loans"):
            rows, domain = files(data)
            table = pd.read_parquet(rows).sample(frac=1, random_state=1)
            halves = [place / f"{data}-{half}.parquet" for half in (1, 2)]
            for half, path in enumerate(halves):
                table.iloc[half::2].to_parquet(path)
            for epsilon in ("0.1", "1"):
                yield f"{data}, half for half", domain, halves[0], halves[1], epsilon


def small(names: list[str], notes: Notes) -> None:
    """Hold the verdict on tables of a few rows to what happens to their pairs."""
    print(
        f"\ntables of {SMALL} rows: verdict from the predicted error of columns, and what happened in released rows;"
    )
    print("pairs beside those of exact columns without any dependence, which a release of use must beat")
    for data, epsilon in [(data, epsilon) for epsilon in ("0.1", "10") for data in names]:
        rows, domain = files(data)
        with tempfile.TemporaryDirectory() as place:
            few = Path(place) / "few.parquet"
            pd.read_parquet(rows).sample(SMALL, random_state=1).to_parquet(few)
            two = notes.get(f"small {data} {epsilon}", lambda: happened(few, domain, epsilon=epsilon))  # noqa: B023
            least = floor(rows_of(few, Schema.load(domain)))
        one = predicted(domain, rows=SMALL, epsilon=epsilon)
        right = one["too_small"] == (two["released_pairs"] > least)
        print(
            f"{data:12} {epsilon:>4} {'too few rows' if one['too_small'] else 'not too few':13} columns "
            f"{beside('released', one, two)}  pairs {two['released_pairs']:.3f} against {least:.3f}: "
            f"{'right' if right else 'WRONG'}",
            flush=True,
        )


def floor(real: SimulatedPopulation) -> float:
    """Return the mean error of all pairs when columns are exact and do not depend on each other."""
    alone = {name: real.exact(Marginal((name,))) for name in real.schema.domain}
    pairs = list(combinations(alone, 2))
    return float(
        np.mean(
            [total_variation(np.outer(alone[a], alone[b]), real.exact(Marginal((a, b)))) for a, b in pairs]
        )
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=DATA)
    ask.add_argument("--epsilon", nargs="+", default=["0.1", "1", "10"])
    parts = ["tables", "others", "held-out", "shares", "like", "small", "shapes"]
    ask.add_argument("--parts", nargs="+", default=parts, choices=parts)
    ask.add_argument("--keep", type=Path)
    told = ask.parse_args()
    notes = Notes(told.keep)
    print(f"{here()}, delta {DELTA}")
    # Put together now, the scripts of reports are no part of the first run.
    load_scripts()
    if "tables" in told.parts:
        tables(told.data, told.epsilon, notes, shares=False)
    if "others" in told.parts:
        others(told.epsilon, notes, shares=False)
    if "held-out" in told.parts:
        held_out(told.epsilon, notes, shares=False)
    if "shares" in told.parts:
        tables(told.data, told.epsilon, notes, shares=True)
        others(told.epsilon, notes, shares=True)
        held_out(told.epsilon, notes, shares=True)
        last_year(told.epsilon, notes)
    if "like" in told.parts:
        alike(notes)
    if "small" in told.parts:
        small(told.data, notes)
    if "shapes" in told.parts:
        shapes(told.data)


if __name__ == "__main__":
    main()
