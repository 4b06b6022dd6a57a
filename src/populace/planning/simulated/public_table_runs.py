"""Whole runs simulated on a public table: its domains learnt as a run would learn them, down to released rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from populace._native.kernels import count_columns
from populace.core.marginals import Clique, Counts, Marginal
from populace.core.progress import Progress, silent
from populace.measurements.measurements import Measurement
from populace.methods.discovery.domain_discovery import build_grids, discover_domains, discovery_delta_share
from populace.methods.method import FitInput
from populace.methods.workload import Workload
from populace.planning.prediction_range import PredictionRange
from populace.planning.simulated.populations import SimulatedPopulation, read_public_population
from populace.planning.simulated.simulated_oracle import SimulatedOracle, draw_noisy_counts
from populace.planning.simulated.simulated_run import RunTerms, simulate_run
from populace.planning.simulated.total_variation import total_variation
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise, PartitionSelection
from populace.private.read.rows_to_codes import open_source
from populace.private.read.value_counts import read_tallies
from populace.sampling.draw_rows import draw_rows
from populace.schema.schema import Schema

PUBLIC_TABLE_RUNS = 2
# Pairs that a simulated release is scored on: all up to here, then as many drawn at random.
MAX_SCORED_PAIRS = 2000


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
    errors: list[tuple[float, float, float]] = []
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
        errors.append(_simulate_release(own, population, run.items, rng=rng, progress=progress))
    pairs, unmodelled, columns = map(PredictionRange.of, zip(*errors, strict=True))
    return PublicTableResult(
        name=Path(data).name if isinstance(data, str | Path) else "the table",
        pairs=pairs,
        unmodelled=unmodelled,
        columns=columns,
        learnt={name: PredictionRange.of(levels) for name, levels in learnt.items()},
    )


def _simulate_release(
    terms: RunTerms,
    population: SimulatedPopulation,
    items: Sequence[Measurement],
    *,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[float, float, float]:
    """Go on to released rows, and return the mean errors of all their pairs and of their columns.

    Between them stands what the error of pairs is if the same tables are measured without noise.
    """
    schema = terms.schema
    pairs = list(combinations(schema.domain, 2))
    if len(pairs) > MAX_SCORED_PAIRS:
        chosen = np.random.default_rng(0).permutation(len(pairs))[:MAX_SCORED_PAIRS]
        pairs = [pairs[number] for number in chosen.tolist()]

    def errors_of_release(items: Sequence[Measurement]) -> tuple[float, float]:
        model = terms.method.fit(FitInput(schema=schema, items=items, progress=progress))
        drawn = len(next(iter(population.codes.values())))
        parts = list(draw_rows(model, rows=drawn, rng=rng, rules=schema.rules))
        codes = {name: np.concatenate([part[name] for part in parts]) for name in schema.domain}

        def error(clique: Clique) -> float:
            counted = count_columns([codes[name] for name in clique], sizes=schema.domain.shape(clique))
            return total_variation(counted, population.exact(Marginal(clique)))

        columns = [error((name,)) for name in schema.domain]
        return float(np.mean([error(pair) for pair in pairs] or columns)), float(np.mean(columns))

    noisy, columns = errors_of_release(items)
    exact = [Measurement(item.marginal, population.exact(item.marginal), item.variance) for item in items]
    clean, _ = errors_of_release(exact)
    return noisy, min(clean, noisy), columns


@dataclass(slots=True, kw_only=True)
class DiscoveryOracle(SimulatedOracle):
    """Answers questions about open domains as well, from rows that are public."""

    data: Any

    def discover_values(self, column: str, *, mechanism: PartitionSelection) -> Mapping[str, int]:
        """Return the values whose noisy counts exceed the threshold, for as many rows as the whole has."""
        tally = read_tallies(open_source(self.data), self.population.schema)[column]
        counts = np.rint(tally.counts * (self.population.rows / self.population.read)).astype(np.int64)
        noisy = draw_noisy_counts(counts, mechanism.noise, rng=self.rng)
        kept = np.flatnonzero((counts > 0) & (noisy > mechanism.threshold)).tolist()
        return {str(tally.keys[place]): int(noisy[place]) for place in kept}

    def discover_bins(self, column: str, *, groups: Counts, noise: Noise) -> Counts:
        """Return noisy counts of groups of a column's codes."""
        exact = np.zeros(int(groups.max()) + 1, dtype=np.int64)
        np.add.at(exact, groups, self.population.exact(Marginal((column,))))
        return draw_noisy_counts(exact, noise, rng=self.rng)


def simulate_discovery(
    terms: RunTerms, schema: Schema, data: Any, *, rows: int, seed: list[int]
) -> tuple[Schema, tuple[Measurement, ...]]:
    """Return the schema with its open domains learnt from a public table, without totals, and what was measured."""
    bare = replace(schema, totals=())
    if not schema.columns_to_learn:
        return bare, ()
    keys = discovery_delta_share(schema, delta=terms.delta)
    budget = replace(Budget.of(terms.epsilon, terms.delta - keys, unit=schema.unit), keys=keys)
    rng = np.random.default_rng([*seed, 1])

    def open_oracle(draft: Schema) -> DiscoveryOracle:
        # The same rows each time, whatever is asked about them.
        population = read_public_population(data, schema=draft, rows=rows, rng=np.random.default_rng(seed))
        return DiscoveryOracle(data=data, population=population, budget=budget, rng=rng)

    return discover_domains(open_oracle, bare, grids=build_grids(bare), progress=silent)
