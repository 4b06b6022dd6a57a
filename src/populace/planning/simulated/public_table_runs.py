"""Whole runs simulated on a public table, down to released rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from populace.core.progress import Progress, silent
from populace.methods.workload import Workload
from populace.planning.prediction_range import PredictionRange
from populace.planning.simulated.discovery_simulation import simulate_discovery
from populace.planning.simulated.populations import read_public_population
from populace.planning.simulated.simulated_run import ReleaseErrors, RunTerms, simulate_release, simulate_run
from populace.schema.schema import Schema

PUBLIC_TABLE_RUNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTableResult:
    """Errors of rows released from a public table, and the part of them that is not noise.

    `learnt` says how many values or bins were learnt for columns whose domain the schema leaves open.
    """

    name: str
    pairs: PredictionRange
    unmodelled: PredictionRange
    columns: PredictionRange
    learnt: Mapping[str, PredictionRange]

    def to_json(self) -> dict[str, Any]:
        """Return it for a machine."""
        return {
            "treated_as_public": self.name,
            "pair_error": self.pairs.to_json(),
            "of_it_unmodelled": self.unmodelled.to_json(),
            "column_error": self.columns.to_json(),
            "learnt": {name: levels.to_json() for name, levels in self.learnt.items()},
        }


def simulate_on_public_table(
    terms: RunTerms,
    schema: Schema,
    data: Any,
    *,
    workload: Callable[[Schema], Workload],
    rows: int,
    seed: int,
    progress: Progress = silent,
) -> PublicTableResult:
    """Return what whole runs on a public table come to."""
    errors: list[ReleaseErrors] = []
    learnt: dict[str, list[float]] = {name: [] for name in schema.unknown}
    for number in range(PUBLIC_TABLE_RUNS):
        progress("simulating whole runs", number / PUBLIC_TABLE_RUNS)
        place = [seed, 100 + number]
        closed, tables = simulate_discovery(terms, schema, data, rows=rows, seed=place)
        for name, levels in learnt.items():
            levels.append(float(closed.columns[name].levels))
        rng = np.random.default_rng(place)
        population = read_public_population(data, schema=closed, rows=rows, rng=rng)
        own = replace(terms, schema=closed, workload=workload(closed))
        run = simulate_run(own, population, rng=rng, learnt=tables)
        errors.append(simulate_release(own, population, run.items, rng=rng, progress=progress))
    return PublicTableResult(
        name=Path(data).name if isinstance(data, str | Path) else "the table",
        pairs=PredictionRange.of([run.pairs for run in errors]),
        unmodelled=PredictionRange.of([run.without_noise for run in errors]),
        columns=PredictionRange.of([run.columns for run in errors]),
        learnt={name: PredictionRange.of(levels) for name, levels in learnt.items()},
    )
