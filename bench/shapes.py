"""The shapes of real tables and of invented ones: what populations of `populace plan` are invented after.

python bench/plan.py --parts shapes
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from error import SHARED, files

from populace.core.marginals import Marginal
from populace.planning.simulated.populations import (
    SimulatedPopulation,
    invent_population,
    read_public_population,
)
from populace.planning.simulated.total_variation import total_variation
from populace.schema.schema import Schema

SCHEMAS = Path(__file__).parents[1] / "examples" / "schemas"
OTHERS = {"nhanes": "NHANESraw.parquet", "adult-raw": "adult_raw.csv.gz"}
# Pairs of columns that leave less room for dependence than this say nothing about it.
ROOM = 0.001
# Cells that hold a larger share of the rows are live, smaller ones in part.
LIVE = 0.001


def rows_of(data: Path, schema: Schema) -> SimulatedPopulation:
    """Return all rows of a public file as they are."""
    count = len(pd.read_parquet(data) if data.suffix == ".parquet" else pd.read_csv(data, usecols=[0]))
    return read_public_population(data, schema=schema, rows=count, rng=np.random.default_rng(0))


def shapes(names: list[str]) -> None:
    """Print what populations are invented after: entropies of columns and distances of pairs from independence."""
    print(
        "\nshapes: columns' part of the largest entropy, and pairs' distance from independence as part of the room"
    )
    print("that columns leave it, sampling taken off; of real rows, and of usual invented ones")
    print("live: cells of the third of pairs that depend most, smaller ones than a row in a thousand in part")
    print("data          entropy        pairs: mean, quartiles and 97 %    live")
    tables = {data: files(data) for data in names} | {
        "nhanes": (SHARED / "data" / "nhanes" / OTHERS["nhanes"], SCHEMAS / "nhanes.toml")
    }
    for data, (rows, path) in tables.items():
        schema = Schema.load(path)
        invented = invent_population(schema, rows=15_000, rng=np.random.default_rng(1))
        for label, found in (("real", rows_of(rows, schema)), ("invented", invented)):
            entropy, away, live = shape(found)
            told = " ".join(
                f"{value:.2f}" for value in (away.mean(), *np.quantile(away, [0.25, 0.5, 0.75, 0.97]))
            )
            print(f"{data:12} {label:9} {entropy:.2f}   {told}   {live:.0f}", flush=True)


def shape(found: SimulatedPopulation, *, rows: int = 15_000, most: int = 300) -> tuple[float, Any, float]:
    """Return the mean part of entropy of columns, how far pairs are from independence, and their live cells."""
    rng = np.random.default_rng(0)
    domain = found.schema.domain
    first = next(iter(found.codes.values()))
    chosen = rng.permutation(len(first))[:rows]
    codes = {name: np.asarray(column)[chosen] for name, column in found.codes.items()}
    part = SimulatedPopulation(schema=found.schema, codes=codes, rows=len(chosen), times=1.0)
    shares = {name: part.exact(Marginal((name,))) / len(chosen) for name in domain if domain[name] > 1}
    entropies = [-float((p[p > 0] * np.log(p[p > 0])).sum() / np.log(len(p))) for p in shares.values()]
    pairs = list(combinations(shares, 2))
    away, lives = [], []
    for number in rng.permutation(len(pairs))[:most].tolist():
        a, b = pairs[number]
        mixed = SimulatedPopulation(
            schema=found.schema, codes=codes | {b: rng.permutation(codes[b])}, rows=len(chosen), times=1.0
        )
        alone = np.outer(shares[a], shares[b])
        room = min(1 - float((shares[name] ** 2).sum()) for name in (a, b))
        if room > ROOM:
            real, chance = (total_variation(each.exact(Marginal((a, b))), alone) for each in (part, mixed))
            away.append(max(real - chance, 0.0) / room)
            lives.append((real, np.minimum(part.exact(Marginal((a, b))) / (LIVE * len(chosen)), 1).sum()))
    most_dependent = sorted(lives, reverse=True)[: max(1, len(lives) // 3)]
    return float(np.mean(entropies)), np.array(away), float(np.mean([live for _, live in most_dependent]))
