"""Quantiles, zeros and round numbers of a released income, with the law inside bins that was learnt and without it.

    python bench/number_columns.py                   national2019 at epsilon 10 and 1, five runs each, the default
    python bench/number_columns.py --data ma2019 --runs 3

The column PINCP of an excerpt of the American Community Survey (24 columns, delta 1e-5), its bins learnt: the schema is
the one imported with the shipped overlay, but for `bins = "learn"` between the codebook's ends. Every run is a fresh
release by `auto`. Told are the largest distance of the quantiles 1 … 99 % from those of the real rows, in per cent of
their inter-quartile distance, its mean over all quantiles, and shares of values. `even` draws from the same model,
evenly inside the same bins. Pairs are the mean total variation over all pairs of columns (tools/score.py).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from codebooks import imported
from error import SHARED, here

from populace.api.synthesize import synthesize
from populace.release.synthetic_rows import draw_table
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.schema import Schema

COLUMN = "PINCP"
MULTIPLES = (100, 1000, 5000, 10_000)
# The claim at epsilon 10 on national2019, in per cent of the inter-quartile distance.
BAR = 3.0


def learning(text: str) -> str:
    """Return a schema in which the income's bins are learnt between the ends that its codebook gives."""
    head, own = text.split(f"[columns.{COLUMN}]\n")
    edges = re.search(r"edges = \[(.*?)\]\n", own, flags=re.S)
    if edges is None:
        raise SystemExit(f"{COLUMN} has no edges in the imported schema")
    numbers = [int(edge) for edge in re.findall(r"-?[0-9]+", edges[1])]
    own = own.replace(edges[0], f'min = {numbers[0]}\nmax = {numbers[-1]}\nbins = "learn"\n', 1)
    return f"{head}[columns.{COLUMN}]\n" + own.replace('origin = "codebook"\n', "", 1)


def numbers_of(file: Path) -> np.ndarray:
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    return pd.to_numeric(table[COLUMN], errors="coerce").dropna().to_numpy()


def told(real: np.ndarray, made: np.ndarray) -> tuple[float, str]:
    places = np.arange(1, 100)
    quartiles = np.percentile(real, [25, 75])
    off = (
        np.abs(np.percentile(real, places) - np.percentile(made, places))
        * 100
        / (quartiles[1] - quartiles[0])
    )
    shares = "  ".join(f"{np.mean(made % step == 0):.3f}" for step in MULTIPLES)
    return float(off.max()), (
        f"{off.max():6.2f} at {places[off.argmax()]:2} %  {off.mean():5.2f}  {np.mean(made == 0):.4f}  {shares}"
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", default="national2019")
    ask.add_argument("--epsilon", nargs="+", default=["10", "1"])
    ask.add_argument("--runs", type=int, default=5)
    given = ask.parse_args()
    folder = SHARED / "data" / "nist-acs"
    data = folder / f"{given.data}.csv"
    real = numbers_of(data)
    print(here())
    print(
        f"{given.data}: {COLUMN} of {len(real)} people, quantiles in per cent of the inter-quartile distance"
    )
    heads = "  ".join(f"{step:>5}" for step in MULTIPLES)
    print(f"eps  run inside         worst      mean  zeros   {heads}  pairs")
    exact = "  ".join(f"{np.mean(real % step == 0):.3f}" for step in MULTIPLES)
    print(f"         real                            {np.mean(real == 0):.4f}  {exact}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        words = [str(folder / f"{given.data}.json"), "--dictionary", str(folder / "data_dictionary.json")]
        plain = imported(*words, "--overlay", "nist-acs", out=Path(place) / "plain.toml")
        schema = Schema.parse(learning(plain.read_text(encoding="utf-8")))
        for epsilon in given.epsilon:
            worst: dict[str, list[float]] = {"learnt": [], "even": []}
            for run in range(given.runs):
                release = synthesize(
                    data, schema=schema, epsilon=epsilon, delta="1e-5", seed=run,
                    ledger=Path(place) / f"{epsilon}-{run}.db", dataset="bench",
                )  # fmt: skip
                known = release.measurements.schema
                column = known.columns[COLUMN]
                if not isinstance(column, RangeColumn):
                    raise SystemExit("the income is no range")
                even = known.replace_columns({COLUMN: replace(column, density=None)})
                for name, way in (("learnt", known), ("even", even)):
                    rng = np.random.default_rng(run)
                    table = draw_table(way, release.model, rows=release.synthetic.num_rows, rng=rng).table
                    file = Path(place) / "made.csv"
                    pa.csv.write_csv(table, file)
                    words = [sys.executable, str(SHARED / "tools" / "score.py"), str(data), str(file)]
                    score = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
                    most, line = told(real, numbers_of(file))
                    worst[name].append(most)
                    print(f"{epsilon:>3}  {run:>3} {name:7} {line}  {score['tv2']:.4f}", flush=True)
            for name, found in worst.items():
                within = sum(each <= BAR for each in found)
                print(
                    f"{epsilon:>3}  all {name:7} worst of 99 quantiles: mean {np.mean(found):.2f}, median "
                    f"{np.median(found):.2f}; within {BAR:g}: {within} of {len(found)} runs",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
