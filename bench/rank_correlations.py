"""Rank correlations of pairs of numbers: `auto` beside the `copula` and `mst`, on invented and real pairs.

    python bench/rank_correlations.py [--seeds 3]     the table, and whether the aim is reached

Every table has 20,000 rows of two numbers, at ε = 1, δ = 1e-9. Invented pairs are 40 equally likely classes of a
bivariate normal distribution; real ones have 40 bins of equal width between public bounds. Spearman's correlation is
that of the rows that have both numbers, in bins. `tv` is the total variation between the pair's tables.

Aim: `auto` is within .03 of the truth in the mean over the seeds, on all ten pairs. The last lines put eight columns of
NHANES into one table, whose budget all of them share: no aim.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from error import here
from scipy.stats import norm, spearmanr

import populace as pp

DATA = Path(__file__).parents[2] / "shared" / "data"
ROWS, BINS = 20_000, 40
NHANES = {
    "Age": (0, 80),
    "Weight": (0, 200),
    "Height": (80, 200),
    "BMI": (12, 52),
    "BPSysAve": (70, 190),
    "Pulse": (40, 120),
    "TotChol": (2, 10),
    "HHIncomeMid": (0, 100_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    print(here())
    worst = 0.0
    for name, table in pairs():
        found = {method: [score(table, method) for _ in range(seeds)] for method in ("auto", "copula", "mst")}
        truth = correlate(table)
        line = "; ".join(
            f"{method} {statistics.fmean(rho for rho, _ in runs):+.3f} "
            f"({min(rho for rho, _ in runs):+.3f} to {max(rho for rho, _ in runs):+.3f}), "
            f"tv {statistics.fmean(tv for _, tv in runs):.3f}"
            for method, runs in found.items()
        )
        print(f"{name:28} truth {truth:+.3f}; {line}", flush=True)
        worst = max(worst, abs(statistics.fmean(rho for rho, _ in found["auto"]) - truth))
    print(f"farthest of auto: {worst:.3f} (aim: .030), {'reached' if worst <= 0.03 else 'MISSED'}")
    wide = nhanes(list(NHANES))
    drawn = release(wide, "auto")
    gaps = [
        abs(correlate({a: wide[a], b: wide[b]}) - correlate({a: drawn[a], b: drawn[b]}))
        for a, b in combinations(wide, 2)
    ]
    print(
        f"NHANES, eight columns in one table: mean gap of pairs {statistics.fmean(gaps):.3f}, largest {max(gaps):.3f}"
    )


def pairs() -> Iterator[tuple[str, dict[str, Any]]]:
    for rho in (-0.95, -0.5, 0.2, 0.7, 0.9):
        drawn = np.random.default_rng(7).multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=ROWS)
        classes = np.minimum((norm.cdf(drawn) * BINS).astype(int), BINS - 1).astype(float)
        yield f"invented {rho:+.2f}", {"a": classes[:, 0], "b": classes[:, 1]}
    if not DATA.is_dir():
        return
    for two in (["Height", "Weight"], ["Age", "BPSysAve"], ["BMI", "Pulse"]):
        yield "nhanes " + " × ".join(two), nhanes(two)
    census = pd.read_parquet(DATA / "census-1980" / "ipums.parquet").sample(ROWS, random_state=1)
    yield "census-1980 age × inctot", cut(census, {"age": (0, 90), "inctot": (0, 76_000)})
    adult = pd.read_csv(DATA / "adult-raw" / "adult_raw.csv.gz").sample(ROWS, random_state=1)
    yield "adult-raw age × hours", cut(adult, {"age": (17, 91), "hours-per-week": (1, 100)})


def nhanes(names: list[str]) -> dict[str, Any]:
    rows = pd.read_parquet(DATA / "nhanes" / "NHANESraw.parquet").sample(ROWS, random_state=1)
    return cut(rows, {name: NHANES[name] for name in names})


def cut(rows: pd.DataFrame, bounds: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Return columns as the numbers of 40 bins between public bounds, empty where there is no number."""
    found = {}
    for name, (low, high) in bounds.items():
        values = pd.to_numeric(rows[name], errors="coerce").to_numpy(dtype=float)
        found[name] = np.clip(np.floor((values - low) / (high - low) * BINS), 0, BINS - 1)
    return found


def score(table: Mapping[str, Any], method: str) -> tuple[float, float]:
    """Return the rank correlation of a release, and its total variation from the table."""
    drawn = release(table, method)
    return correlate(drawn), float(np.abs(shares(table) - shares(drawn)).sum() / 2)


def release(table: Mapping[str, Any], method: str) -> dict[str, Any]:
    schema = pp.Schema.parse(
        "".join(f'[columns."{name}"]\nkind = "integer"\nmin = 0\nmax = {BINS - 1}\n' for name in table)
    )
    frame = pa.table({name: pa.array(values, from_pandas=True) for name, values in table.items()})
    with tempfile.TemporaryDirectory() as folder:
        made = pp.synthesize(
            frame,
            schema=schema,
            epsilon=1,
            delta="1e-9",
            method=method,
            ledger=Path(folder) / "ledger.db",
            dataset="pair",
        )
    return {name: np.array(made.table[name].to_pandas(), dtype=float) for name in table}


def correlate(table: Mapping[str, Any]) -> float:
    first, second = table.values()
    both = ~(np.isnan(first) | np.isnan(second))
    return float(spearmanr(first[both], second[both]).statistic)


def shares(table: Mapping[str, Any]) -> np.ndarray:
    """Return the pair's table as shares; an empty cell is a class of its own."""
    first, second = (np.where(np.isnan(values), BINS, values).astype(int) for values in table.values())
    counts = np.zeros((BINS + 1, BINS + 1))
    np.add.at(counts, (first, second), 1)
    return counts / counts.sum()


if __name__ == "__main__":
    main()
