"""Releases beside a public table: last year's excerpt, and ones that mislead.

    python bench/public_tables.py                    three runs each, the default
    python bench/public_tables.py --steps            what recoding and rows by area do in `dpsyn`

ma2019 of the excerpts of the American Community Survey (24 columns, imported with the shipped overlay) at epsilon 1 and
delta 1e-5: by `auto` without a public table, beside ma2018, beside ma2018 with every column shuffled by itself, and
beside ma2018 with the values of every column in reverse; and by `dpsyn` beside ma2018. The last line scores ma2018
itself, as if it were the release. Errors are mean total variations over columns, pairs and 100 triples (tools/score.py
beside the shared data).

With --steps, `dpsyn` with and without its steps: on ma2019 beside ma2018 at epsilon 1, PUMA being the areas; and on the
years 2016 to 2018 of nist2020-acs beside 2012 to 2015, PUMA × YEAR being the areas, at four epsilon. Columns are
recoded in groups or not; rows by area are as the noisy counts are, as they are without any choice in the schema, or
raised to 300 and rounded to 100 whatever it moves. All cases have the same repeatable noise: it decides by chance what
is measured at all, as the noisy number of rows does, and would hide what the steps do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet
from codebooks import imported
from error import SHARED, here, score
from league import GROUPS, tables

from populace.api.synthesize import synthesize
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema


def misleading(file: Path, *, how: str, out: Path) -> Path:
    """Write a public table whose columns say nothing true of each other, or of themselves."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    rng = np.random.default_rng(0)
    for name in table.columns:
        if how == "shuffled":
            table[name] = rng.permutation(table[name].to_numpy())
        else:
            values = sorted(table[name].unique())
            table[name] = table[name].map(dict(zip(values, reversed(values), strict=True)))
    table.to_csv(out, index=False)
    return out


def scored(real: Path, made: Path) -> dict[str, float]:
    words = [sys.executable, str(SHARED / "tools" / "score.py"), str(real), str(made)]
    return dict(json.loads(subprocess.run(words, check=True, capture_output=True).stdout))


MA_GROUPS = (
    ("SEX", "MSP"),
    ("HOUSING_TYPE", "OWN_RENT"),
    ("PINCP", "PINCP_DECILE"),
    ("DREM", "DPHY", "DEYE", "DEAR"),
)
AREAS: dict[str, dict[str, int]] = {
    "as counted": {"partition_least": 0, "partition_step": 1},
    "default": {},
    "300, 100": {"partition_least": 300, "partition_step": 100},
}


def steps(place: Path, *, runs: int, data: list[str], epsilon: list[str]) -> None:
    """Print the error of `dpsyn` with and without its steps."""
    known = tables(data, place=place)
    print(
        "data           eps  groups  rows by area  runs  columns  pairs (sd)        triples   cpu s    rows"
    )
    asked = [(name, each) for name in data for each in (["1"] if name == "ma2019" else epsilon)]
    for name, each in asked:
        table, declared = known[name], MA_GROUPS if name == "ma2019" else GROUPS
        plain = Schema.load(table.schema)
        plain = replace(plain, partition=plain.partition or ("PUMA",))
        for groups in ((), declared):
            for label, options in AREAS.items():
                schema = replace(plain, groups=groups, **options)
                found, spent, rows = [], [], 0
                for run in range(runs):
                    begun = time.process_time()
                    release = synthesize(
                        table.rows, schema=schema, epsilon=each, delta=table.delta, method="dpsyn", seed=run,
                        public=table.public, ledger=place / f"{time.time_ns()}.db", dataset="bench",
                        noise=ExactNoise(RehearsalEntropy(run)),
                    )  # fmt: skip
                    spent.append(time.process_time() - begun)
                    rows = release.synthetic.num_rows
                    made = place / f"made{table.rows.suffix}"
                    write = pyarrow.csv.write_csv if made.suffix == ".csv" else pyarrow.parquet.write_table
                    write(release.synthetic, made)
                    found.append(score(table.rows, made, domain=table.domain))
                tv = {key: [run[key] for run in found] for key in ("tv1", "tv2", "tv3")}
                spread = statistics.stdev(tv["tv2"]) if runs > 1 else 0.0
                print(
                    f"{name:13} {each:>4}  {'yes' if groups else 'no':6}  {label:12}  {runs:4}  "
                    f"{statistics.mean(tv['tv1']):.4f}   {statistics.mean(tv['tv2']):.4f} ({spread:.4f})   "
                    f"{statistics.mean(tv['tv3']):.4f}  {statistics.mean(spent):6.1f}  {rows:6}",
                    flush=True,
                )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--runs", type=int, default=3)
    ask.add_argument("--steps", action="store_true")
    ask.add_argument("--data", nargs="+", default=["ma2019", "nist2020-acs"], help="tables for --steps")
    ask.add_argument("--epsilon", nargs="+", default=["0.02", "0.1", "1", "10"], help="of nist2020-acs")
    told = ask.parse_args()
    runs = told.runs
    if told.steps:
        print(here())
        with tempfile.TemporaryDirectory() as name:
            steps(Path(name), runs=runs, data=told.data, epsilon=told.epsilon)
        return
    folder = SHARED / "data" / "nist-acs"
    real, before = folder / "ma2019.csv", folder / "ma2018.csv"
    print(here())
    print("method  public             runs  columns  pairs (sd)        triples  wall s")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        words = [str(folder / "ma2019.json"), "--dictionary", str(folder / "data_dictionary.json")]
        schema = Schema.load(imported(*words, "--overlay", "nist-acs", out=place / "schema.toml"))
        cases: list[tuple[str, str, Path | None]] = [
            ("auto", "none", None),
            ("auto", "ma2018", before),
            *(
                ("auto", how, misleading(before, how=how, out=place / f"{how}.csv"))
                for how in ("shuffled", "reversed")
            ),
            ("dpsyn", "ma2018", before),
        ]
        for number, (method, label, public) in enumerate(cases):
            found, walls = [], []
            for run in range(runs):
                begun = time.perf_counter()
                release = synthesize(
                    real, schema=schema, epsilon=1, delta="1e-5", method=method, public=public, seed=run,
                    ledger=place / f"{number}-{run}.db", dataset="bench",
                )  # fmt: skip
                walls.append(time.perf_counter() - begun)
                pyarrow.csv.write_csv(release.synthetic, place / "made.csv")
                found.append(scored(real, place / "made.csv"))
            mean = {key: statistics.mean(run[key] for run in found) for key in ("tv1", "tv2", "tv3")}
            spread = statistics.stdev([run["tv2"] for run in found]) if runs > 1 else 0.0
            print(
                f"{method:7} {label:18} {runs:4}  {mean['tv1']:.4f}   {mean['tv2']:.4f} ({spread:.4f})   "
                f"{mean['tv3']:.4f}   {statistics.mean(walls):6.1f}",
                flush=True,
            )
    own = scored(real, before)
    print(
        f"{'-':7} {'ma2018 itself':18} {1:4}  {own['tv1']:.4f}   {own['tv2']:.4f}            {own['tv3']:.4f}"
    )


if __name__ == "__main__":
    sys.exit(main())
