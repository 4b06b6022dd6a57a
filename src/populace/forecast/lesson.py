"""Learning rehearsed on a public table: its own values and bins, found as a run would find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from populace.forecast.population import Population, public
from populace.forecast.rehearsal import Terms
from populace.forecast.standin import noisy_counts
from populace.marginals import Counts, Marginal
from populace.measurements import Measurement
from populace.privacy.budget import Budget
from populace.privacy.mechanisms import Noise, Stability
from populace.private.read import open_source
from populace.private.values import read_tallies
from populace.progress import silent
from populace.records import dataclass
from populace.schema.schema import Schema
from populace.strategy.learn import learn, open_grids, set_aside


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lesson:
    """Answers questions about open domains as the barrier would, from rows that are public."""

    data: Any
    population: Population
    budget: Budget
    rng: np.random.Generator

    def discover_values(self, column: str, *, law: Stability) -> Mapping[str, int]:
        """Return the values whose noisy counts exceed the threshold, for as many rows as the whole has."""
        tally = read_tallies(open_source(self.data), self.population.schema)[column]
        counts = np.rint(tally.counts * (self.population.rows / self.population.read)).astype(np.int64)
        noisy = noisy_counts(counts, law.noise, rng=self.rng)
        told = np.flatnonzero((counts > 0) & (noisy > law.threshold)).tolist()
        return {str(tally.keys[place]): int(noisy[place]) for place in told}

    def discover_bins(self, column: str, *, groups: Counts, noise: Noise) -> Counts:
        """Return noisy counts of groups of a column's codes."""
        exact = np.zeros(int(groups.max()) + 1, dtype=np.int64)
        np.add.at(exact, groups, self.population.exact(Marginal((column,))))
        return noisy_counts(exact, noise, rng=self.rng)


def taught(
    terms: Terms, schema: Schema, data: Any, *, rows: int, seed: list[int]
) -> tuple[Schema, tuple[Measurement, ...]]:
    """Return the schema with its open domains learnt from a public table, without totals, and what was measured."""
    bare = replace(schema, totals=())
    if not schema.open:
        return bare, ()
    keys = set_aside(schema, delta=terms.delta)
    budget = replace(Budget.of(terms.epsilon, terms.delta - keys, unit=schema.unit), keys=keys)
    rng = np.random.default_rng([*seed, 1])

    def opened(draft: Schema) -> Lesson:
        # The same rows each time, whatever is asked about them.
        population = public(data, schema=draft, rows=rows, rng=np.random.default_rng(seed))
        return Lesson(data=data, population=population, budget=budget, rng=rng)

    return learn(opened, bare, grids=open_grids(bare), progress=silent)
