"""Real files behind schemas from their codebooks: rules that hold in every row, and the error of the release.

    python bench/codebooks.py                    all parts, the default
    python bench/codebooks.py --part acs         acs, census1940 or others

acs: the Massachusetts excerpt of the American Community Survey with the schema imported from its codebook, with and
without the shipped overlay of rules; broken rules are counted here, by hand, not by populace.
census1940: the 98 columns of the 2018 NIST challenge, rows drawn from `tests.helpers.latent_class_model`.
others: the schemas of examples/schemas.
Errors are the mean total variation over all pairs and 100 triples (tools/score.py beside the shared data).
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from error import COMMAND, SHARED, here, once

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.helpers.latent_class_model import simulate_rows

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "schemas"
HEAD = (
    "data          schema          method       eps runs       pairs (sd)  triples  wall s   cpu s  peak MB"
)


def line(name: str, schema: str, method: str, epsilon: str, found: list[dict[str, float]]) -> None:
    mean = {key: statistics.mean(run[key] for run in found) for key in found[0]}
    spread = statistics.stdev([run["pairs"] for run in found]) if len(found) > 1 else 0.0
    print(
        f"{name:13} {schema:15} {method:11} {epsilon:>4} {len(found):>4}  {mean['pairs']:.4f} ({spread:.4f})  "
        f"{mean['triples']:.4f}  {mean['wall_s']:6.1f}  {mean['cpu_s']:6.1f}  {max(r['peak_mb'] for r in found):7.0f}",
        flush=True,
    )


def imported(*words: str, out: Path) -> Path:
    quiet = subprocess.DEVNULL
    subprocess.run([*COMMAND, "schema", "import", *words, "--out", str(out)], check=True, stdout=quiet)
    return out


def acs(runs: int, name: str = "ma2019") -> None:
    folder = SHARED / "data" / "nist-acs"
    real = pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False)
    with tempfile.TemporaryDirectory() as place:
        words = [str(folder / f"{name}.json"), "--dictionary", str(folder / "data_dictionary.json")]
        schemas = {
            "codebook": imported(*words, out=Path(place) / "plain.toml"),
            "with overlay": imported(*words, "--overlay", "nist-acs", out=Path(place) / "rules.toml"),
        }
        for label, schema in schemas.items():
            for method in ("independent", "mst"):
                kept = [Path(place) / f"{label}-{method}-{run}.csv" for run in range(runs)]
                found = [
                    once(
                        folder / f"{name}.csv",
                        schema=schema,
                        method=method,
                        epsilon="1",
                        delta="1e-5",
                        keep=rows,
                    )
                    for rows in kept
                ]
                line(name, label, method, "1", found)
                if method == "mst":
                    print(f"    broken: {acs_broken(kept, real)}", flush=True)


def acs_broken(files: list[Path], real: pd.DataFrame) -> str:
    """Count, by hand, rows that break what the excerpts' documentation says, over several releases."""
    table = pd.concat([pd.read_csv(file, dtype=str, keep_default_na=False) for file in files])
    age = table.AGEP.astype(int)
    quarters = table.HOUSING_TYPE != "1"
    number = {c: pd.to_numeric(table[c], errors="coerce") for c in ("NPF", "NOC")}
    ages = {"MSP": 15, "EDU": 3, "PINCP": 15, "PINCP_DECILE": 15, "DREM": 5, "DPHY": 5}
    density = dict(zip(real.PUMA, real.DENSITY.astype(float), strict=True))
    industry = dict(zip(real.INDP, real.INDP_CAT, strict=True))
    counts = {
        "universes": sum(int(((age >= least) == (table[c] == "N")).sum()) for c, least in ages.items()),
        "work of children": int(((age < 16) & (table.INDP != "N")).sum()),
        "tenure of group quarters": int((quarters != (table.OWN_RENT == "0")).sum()),
        "children not fewer than family": int((number["NPF"] <= number["NOC"]).sum()),
        "PUMA → DENSITY": int((table.PUMA.map(density) != table.DENSITY.astype(float)).sum()),
        "INDP → INDP_CAT": int((table.INDP.map(industry).fillna(table.INDP_CAT) != table.INDP_CAT).sum()),
        "codes the file does not have": sum(
            int((~table[c].isin(set(real[c]))).sum()) for c in real.columns if real[c].nunique() < 30
        ),
    }
    told = ", ".join(f"{what} {count}" for what, count in counts.items())
    same = list(table.columns) == list(real.columns)
    return f"{told}; of {len(table)} rows; {'all' if same else 'NOT all'} {len(real.columns)} columns"


def census1940(rows: int) -> None:
    from populace.schema.schema import Schema

    folder = SHARED / "data" / "nist2018-colorado"
    with tempfile.TemporaryDirectory() as place:
        words = [str(folder / "colorado-specs.json"), "--dictionary", str(folder / "codebook.cbk")]
        schema = imported(*words, "--overlay", "nist2018", out=Path(place) / "schema.toml")
        data = Path(place) / "census1940.parquet"
        import pyarrow.parquet as pq

        table = simulate_rows(Schema.load(schema), rows=rows, rng=np.random.default_rng(1940))
        pq.write_table(table, data)
        print(
            f"census1940: {table.num_columns} columns, {rows} rows of the model; "
            f"mean distance of 200 pairs from independence, codes beyond the 15 commonest merged: "
            f"{from_independence(table.to_pandas()):.3f}"
        )
        for method in ("independent", "mst"):
            line(
                "census1940",
                "nist2018",
                method,
                "1",
                [once(data, schema=schema, method=method, epsilon="1", delta="1e-9")],
            )


def from_independence(table: pd.DataFrame, pairs: int = 200) -> float:
    """Return the mean total variation between pairs and the product of their columns."""
    rng = np.random.default_rng(0)
    codes = {}
    for name in table.columns:
        ranks = table[name].astype(str).value_counts()
        codes[name] = (
            table[name].astype(str).map(dict(zip(ranks.index, range(len(ranks)), strict=True))).clip(upper=15)
        )
    every = list(combinations(codes, 2))
    found = []
    for number in rng.choice(len(every), pairs, replace=False):
        a, b = every[number]
        joint = np.bincount(codes[a] * 16 + codes[b], minlength=256).reshape(16, 16) / len(table)
        found.append(0.5 * np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum())
    return float(np.mean(found))


def others(runs: int) -> None:
    files = {
        "adult-raw": "adult-raw/adult_raw.csv.gz",
        "nhanes": "nhanes/NHANESraw.parquet",
        "nist2020-acs": "nist2020-acs/temporal_match2.parquet",
        "census-1980": "census-1980/ipums.parquet",
    }
    for name, file in files.items():
        with tempfile.TemporaryDirectory() as place:
            data = SHARED / "data" / file
            if data.suffix == ".gz":
                plain = Path(place) / data.stem
                plain.write_bytes(gzip.decompress(data.read_bytes()))
                data = plain
            for method in ("independent", "mst"):
                schema = EXAMPLES / f"{name}.toml"
                found = [
                    once(data, schema=schema, method=method, epsilon="1", delta="1e-9") for _ in range(runs)
                ]
                line(name, schema.name, method, "1", found)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--part", choices=["all", "acs", "census1940", "others"], default="all")
    ask.add_argument("--runs", type=int, default=3)
    ask.add_argument("--rows", type=int, default=50_000)
    told = ask.parse_args()
    print(here())
    print(HEAD)
    if told.part in ("all", "acs"):
        acs(told.runs)
    if told.part in ("all", "census1940"):
        census1940(told.rows)
    if told.part in ("all", "others"):
        others(told.runs)


if __name__ == "__main__":
    sys.exit(main())
