"""How wide the intervals of `populace estimate` are beside those without privacy: the examples and NHANES.

    python bench/interval_widths.py [SEEDS]

The queries of examples/survey on the invented survey of the demo, and on NHANES 2009–2012 (data/nhanes), at ε = 1 and
2, each with δ = 0, the default, and δ = 1e-9. Runs go the whole way behind the barrier with rehearsed noise. A line is
the median, over estimates and seeds, of the width over that of the design-based interval of the same rows without
privacy (R's svymean and others, by `estimate_public_rows`); a suppressed estimate counts as infinitely wide.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from populace.api.estimate import estimate
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema
from populace.simulation.sample_survey import simulate_survey
from populace.survey.design.design import Design
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Queries
from populace.survey.variance.public_estimates import estimate_public_rows

ROOT = Path(__file__).parents[1]
NHANES = ROOT.parent / "shared/data/nhanes/NHANESraw.parquet"
EXAMPLES = ROOT / "examples/survey"


def surveys() -> Iterator[tuple[str, pa.Table]]:
    yield "people", simulate_survey()[0]
    yield "nhanes", pq.read_table(NHANES)


def load(name: str) -> tuple[Schema, Design, Queries]:
    schema = Schema.load(EXAMPLES / f"{name}-schema.toml")
    return (
        schema,
        Design.load(EXAMPLES / f"{name}-design.toml", schema=schema),
        Queries.load(EXAMPLES / f"{name}-queries.toml", schema=schema),
    )


def width(row: Estimate) -> float:
    return float("inf") if row.low is None or row.high is None else row.high - row.low


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(
        f"{datetime.now(UTC).date()}; {seeds} seeds; median width over that without privacy, by query and of all"
    )
    every: dict[str, list[float]] = {}
    for name, table in surveys():
        schema, design, queries = load(name)
        # Groups that no row can be in are told there, and not asked for.
        exact = [
            width(row)
            for row in estimate_public_rows(table, design=design, queries=queries)
            if row.estimate is not None
        ]
        for epsilon in ("1", "2"):
            for delta in ("0", "1e-9"):
                found: dict[str, list[float]] = {}
                for seed in range(seeds):
                    with tempfile.TemporaryDirectory() as folder:
                        rows = estimate(
                            table,
                            schema=schema,
                            design=design,
                            queries=queries,
                            epsilon=epsilon,
                            delta=Fraction(delta),
                            ledger=Path(folder) / "ledger.db",
                            noise=ExactNoise(RehearsalEntropy(seed)),
                        ).rows
                    for row, plain in zip(rows, exact, strict=True):
                        found.setdefault(row.query, []).append(width(row) / plain)
                ratios = [ratio for own in found.values() for ratio in own]
                every.setdefault(f"δ = {delta}", []).extend(ratios)
                print(
                    f"{name}, ε = {epsilon}, δ = {delta}: {np.median(ratios):.2f} of {len(ratios) // seeds}"
                )
                for query, own in found.items():
                    print(f"    {query:42} {np.median(own):8.2f}")
                sys.stdout.flush()
    for label, ratios in every.items():
        print(f"all, {label}: {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
