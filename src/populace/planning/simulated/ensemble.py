"""Several simulations together: the method against invented populations of different kinds, and what they agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from populace.core.marginals import Clique
from populace.core.progress import Progress, silent
from populace.planning.prediction_range import PredictionRange, compute_noise_cv, compute_selection_cv
from populace.planning.simulated.column_shares import keep_matching_shares
from populace.planning.simulated.pair_errors import (
    PairError,
    SimulatedPairError,
    predict_pair_errors,
    simulate_pair_errors,
)
from populace.planning.simulated.populations import Floats, Scenario, invent_population
from populace.planning.simulated.simulated_run import RunTerms, Simulation, simulate_run
from populace.planning.simulated.total_variation import compare_with_independence
from populace.planning.verdict import PlanOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleConfig:
    """Three points that stand for a normal distribution of tables: usual ones, and both ends two deviations out."""

    extreme_evenness: float = 1.2
    extreme_weight: float = 1 / 8
    usual_dependence: tuple[float, ...] = (0.0, -1.0, 1.0)
    """Usual tables, too, are more or less dependent, whatever their columns are like."""
    usual_scenarios: tuple[tuple[int, int], ...] = ((20, 6), (40, 3))
    """How many usual tables there are with up to so many columns; above, one shows enough kinds of columns."""


ENSEMBLE = EnsembleConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCostConfig:
    """CPU seconds and bytes, fitted to runs of bench/plan.py on one machine.

    Seconds are those of the start, of a column and its report, of a value that is read and written, of a table of the
    model, of which many take less each, and of a row in the fit to a table.
    """

    start_seconds: float = 0.4
    column_seconds: float = 0.071
    value_seconds: float = 2e-7
    table_seconds: float = 0.041
    table_power: float = 0.8
    fit_seconds: float = 5.1e-8
    start_bytes: float = 174e6
    column_bytes: float = 0.77e6
    value_bytes: float = 13.6


COST = RunCostConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """CPU seconds, and bytes of memory at their peak."""

    seconds: float
    memory: float


def choose_scenarios(columns: int) -> tuple[Scenario, ...]:
    """Return the scenarios for a table of so many columns."""
    count = next((count for most, count in ENSEMBLE.usual_scenarios if columns <= most), 1)
    rare, far = ENSEMBLE.extreme_weight, ENSEMBLE.extreme_evenness
    several = ENSEMBLE.usual_dependence
    dependence = several if count % len(several) == 0 else (0.0,)
    usual = (
        Scenario(
            evenness=0,
            rotation=number / count,
            weight=(1 - 2 * rare) / count,
            dependence=dependence[number % len(dependence)],
        )
        for number in range(count)
    )
    return (
        *usual,
        Scenario(evenness=-far, rotation=1 / 3, weight=rare),
        Scenario(evenness=far, rotation=2 / 3, weight=rare),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationEnsemble:
    """The simulations of all scenarios, and the errors that pairs would have in each."""

    terms: RunTerms
    known_shares: Mapping[str, Floats]
    scenarios: tuple[Scenario, ...]
    runs: tuple[Simulation, ...]
    simulated_pairs: tuple[Mapping[Clique, SimulatedPairError], ...]
    comparisons: tuple[tuple[float, float], ...]

    @property
    def weights(self) -> list[float]:
        """The weight of each simulation."""
        return [scenario.weight for scenario in self.scenarios]

    @property
    def outcome(self) -> PlanOutcome:
        """The mean error of columns, and the relative error of pairs in usual tables, if the method measures any.

        Each of the `comparisons` has the error of pairs in a release, and that of independent exact columns.
        """
        chooses = self.terms.method.adapts_pair_count or any(run.pairs for run in self.runs)
        both = zip(self.comparisons, self.scenarios, strict=True)
        usual = [each for each, scenario in both if not scenario.evenness]
        released, alone = (sum(errors) for errors in zip(*usual, strict=True))
        relative = released / alone if chooses and alone else 0.0
        return PlanOutcome(error=self.columns.mean, relative_pair_error=relative)

    @property
    def columns(self) -> PredictionRange:
        """The mean error of columns."""
        sizes = list(self.terms.schema.domain.values())
        chance = max(compute_noise_cv(run.columns.values(), cells=sizes) for run in self.runs)
        means = [_mean_error(run.columns) for run in self.runs]
        return PredictionRange.of(means, weights=self.weights, chance=chance, most=1.0)

    @property
    def by_column(self) -> dict[str, PredictionRange]:
        """The error of each column."""
        return {
            name: PredictionRange.of(
                [run.columns[name] for run in self.runs],
                weights=self.weights,
                chance=compute_noise_cv([1.0], cells=[codes]),
                most=1.0,
            )
            for name, codes in self.terms.schema.domain.items()
        }

    @property
    def pairs(self) -> PredictionRange | None:
        """The mean error of the pairs that were measured, or None where none were."""
        some = [(run.pairs, weight) for run, weight in zip(self.runs, self.weights, strict=True) if run.pairs]
        if not some:
            return None
        # By noise, and by which pairs were chosen.
        cells, possible = self.terms.schema.domain.cells, self._pairs_possible
        chance = max(
            math.hypot(
                compute_noise_cv(errors.values(), cells=map(cells, errors)),
                compute_selection_cv(errors.values(), possible=possible),
            )
            for errors, _ in some
        )
        means = [_mean_error(errors) for errors, _ in some]
        return PredictionRange.of(means, weights=[weight for _, weight in some], chance=chance, most=1.0)

    @property
    def _pairs_possible(self) -> float:
        return float(math.comb(len(self.terms.schema.domain), 2))

    @property
    def by_pair(self) -> dict[Clique, PairError]:
        """The error of each pair if it is measured."""
        return predict_pair_errors(
            self.simulated_pairs,
            measured=[run.pairs for run in self.runs],
            weights=self.weights,
            schema=self.terms.schema,
            known_shares=self.known_shares,
            columns={name: error.mean for name, error in self.by_column.items()},
        )

    @property
    def pairs_measured(self) -> PredictionRange:
        """How many pairs were measured: by chance more or fewer where the method chooses how many."""
        numbers = [float(len(run.pairs)) for run in self.runs]
        if not self.terms.method.adapts_pair_count:
            return PredictionRange.of(numbers, weights=self.weights)
        return PredictionRange.of_counts(numbers, weights=self.weights, most=self._pairs_possible)

    @property
    def budget(self) -> dict[str, float]:
        """The share of the budget that each kind of question took."""
        labels = dict.fromkeys(label for run in self.runs for label in run.budget)
        shares = {label: [run.budget.get(label, 0.0) for run in self.runs] for label in labels}
        return {label: float(np.average(each, weights=self.weights)) for label, each in shares.items()}

    def estimate_cost(self, *, rows: int) -> RunCost:
        """Return the cost of a run, from public quantities and what simulations asked and took for it."""
        columns = len(self.terms.schema.domain)
        costs = []
        for run in self.runs:
            tables = len({item.marginal for item in run.items if len(item.marginal.clique) > 1})
            spent = COST.start_seconds + run.seconds + COST.column_seconds * columns
            spent += COST.table_seconds * tables**COST.table_power
            spent += COST.value_seconds * rows * columns + COST.fit_seconds * rows * tables
            costs.append(spent)
        memory = COST.start_bytes + COST.column_bytes * columns + COST.value_bytes * rows * columns
        return RunCost(seconds=float(np.average(costs, weights=self.weights)), memory=memory)


def simulate_ensemble(
    terms: RunTerms,
    *,
    rows: int,
    seed: int,
    pairs: bool = False,
    known_shares: Mapping[str, Floats] = MappingProxyType({}),
    progress: Progress = silent,
) -> SimulationEnsemble:
    """Simulate a run on invented populations of so many rows; with `pairs`, also the error that each pair would have.

    `known_shares` are public shares of the codes of columns.
    """
    known_shares = keep_matching_shares(known_shares, terms.schema)
    scenarios = choose_scenarios(len(terms.schema.domain))
    runs, simulated, comparisons = [], [], []
    for number, scenario in enumerate(scenarios):
        progress("simulating", number / len(scenarios))
        rng = np.random.default_rng([seed, number])
        population = invent_population(
            terms.schema, rows=rows, rng=rng, scenario=scenario, known_shares=known_shares
        )
        run = simulate_run(terms, population, rng=rng)
        runs.append(run)
        # Other methods that measured no pair never do, or choose in ways that single columns say nothing about.
        asked = pairs and (run.pairs or terms.method.adapts_pair_count)
        simulated.append(
            simulate_pair_errors(run.items, population=population, measured=run.pairs, rng=rng)
            if asked
            else {}
        )
        comparisons.append(
            compare_with_independence(run.items, population=population, columns=run.columns, pairs=run.pairs)
        )
    return SimulationEnsemble(
        terms=terms,
        known_shares=known_shares,
        scenarios=scenarios,
        runs=tuple(runs),
        simulated_pairs=tuple(simulated),
        comparisons=tuple(comparisons),
    )


def _mean_error(errors: Mapping[Any, float]) -> float:
    return float(np.mean(list(errors.values())))
