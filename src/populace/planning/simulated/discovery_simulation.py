"""Domain discovery simulated on a public table: its own values and bins, found as a run would find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from populace.core.marginals import Counts, Marginal
from populace.core.progress import silent
from populace.measurements.measurements import Measurement
from populace.methods.discovery.domain_discovery import build_grids, discover_domains, discovery_delta_share
from populace.planning.simulated.populations import SimulatedPopulation, read_public_population
from populace.planning.simulated.simulated_oracle import draw_noisy_counts
from populace.planning.simulated.simulated_run import RunTerms
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise, PartitionSelection
from populace.private.read.rows_to_codes import open_source
from populace.private.read.value_counts import read_tallies
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiscoveryOracle:
    """Answers questions about open domains as the barrier would, from rows that are public."""

    data: Any
    population: SimulatedPopulation
    budget: Budget
    rng: np.random.Generator

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

    def opened(draft: Schema) -> DiscoveryOracle:
        # The same rows each time, whatever is asked about them.
        population = read_public_population(data, schema=draft, rows=rows, rng=np.random.default_rng(seed))
        return DiscoveryOracle(data=data, population=population, budget=budget, rng=rng)

    return discover_domains(opened, bare, grids=build_grids(bare), progress=silent)
