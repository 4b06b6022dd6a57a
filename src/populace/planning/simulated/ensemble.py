"""Several rehearsals together: the method against invented populations of different kinds, and what they agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from populace.core.marginals import Clique
from populace.core.progress import Progress, silent
from populace.planning.independence_comparison import IndependenceComparison, compare_with_independence
from populace.planning.prediction_range import PredictionRange, compute_noise_cv, compute_selection_cv
from populace.planning.run_cost import RunCost, estimate_run_cost
from populace.planning.simulated.column_shares import keep_matching_shares
from populace.planning.simulated.pair_errors import (
    PairError,
    SimulatedPairError,
    predict_pair_errors,
    simulate_pair_errors,
)
from populace.planning.simulated.populations import Floats, invent_population
from populace.planning.simulated.simulated_run import RunTerms, Simulation, simulate_run
from populace.planning.verdict import PlanOutcome

# How often usual tables are rehearsed where there are up to so many columns; above, each kind shows enough of them.
USUAL_SCENARIOS = {20: 6, 40: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One rehearsal: to which side its population leans, where its columns begin, and how much it counts.

    `tied` is how much more closely columns go together than they usually do in such a table.
    """

    lean: float
    turn: float
    weight: float
    tied: float = 0.0


# Three points that stand for a normal law, those at the ends two deviations out: tables of uneven columns that hardly
# go together, usual ones, and tables of even columns that do.
EXTREME_LEAN, EXTREME_WEIGHT = 1.2, 1 / 8
# Usual tables as well go together more or less closely, whatever their columns are like.
USUAL_DEPENDENCE = (0.0, -1.0, 1.0)
EXTREME_SCENARIOS = (
    Scenario(lean=-EXTREME_LEAN, turn=1 / 3, weight=EXTREME_WEIGHT),
    Scenario(lean=EXTREME_LEAN, turn=2 / 3, weight=EXTREME_WEIGHT),
)


def choose_scenarios(columns: int) -> tuple[Scenario, ...]:
    """Return the rehearsals for a table of so many columns."""
    times = next((times for most, times in USUAL_SCENARIOS.items() if columns <= most), 1)
    weight = (1 - 2 * EXTREME_WEIGHT) / times
    ties = USUAL_DEPENDENCE if times % len(USUAL_DEPENDENCE) == 0 else (0.0,)
    usual = (
        Scenario(lean=0, turn=number / times, weight=weight, tied=ties[number % len(ties)])
        for number in range(times)
    )
    return (*usual, *EXTREME_SCENARIOS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationEnsemble:
    """What rehearsals came to, with their weights, and what pairs would err by in each."""

    terms: RunTerms
    known: Mapping[str, Floats]
    parts: tuple[Scenario, ...]
    runs: tuple[Simulation, ...]
    supposed: tuple[Mapping[Clique, SimulatedPairError], ...]
    worths: tuple[IndependenceComparison, ...]

    @property
    def weights(self) -> list[float]:
        """How much each rehearsal counts."""
        return [part.weight for part in self.parts]

    @property
    def outcome(self) -> PlanOutcome:
        """The mean error of columns, and the balance of pairs in usual tables, where the method measures any."""
        chooses = self.terms.method.adapts_pair_count or any(run.pairs for run in self.runs)
        usual = [each for each, part in zip(self.worths, self.parts, strict=True) if not part.lean]
        alone = sum(each.alone for each in usual)
        balance = sum(each.left for each in usual) / alone if chooses and alone else 0.0
        return PlanOutcome(error=self.columns.mean, balance=balance)

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
        found = {}
        for name, codes in self.terms.schema.domain.items():
            errors = [run.columns[name] for run in self.runs]
            chance = compute_noise_cv([1.0], cells=[codes])
            found[name] = PredictionRange.of(errors, weights=self.weights, chance=chance, most=1.0)
        return found

    @property
    def pairs(self) -> PredictionRange | None:
        """The mean error of the pairs that were measured, or None where none were."""
        told = [(run, part) for run, part in zip(self.runs, self.parts, strict=True) if run.pairs]
        if not told:
            return None
        chance = max(self._chance(run.pairs) for run, _ in told)
        means = [_mean_error(run.pairs) for run, _ in told]
        return PredictionRange.of(means, weights=[part.weight for _, part in told], chance=chance, most=1.0)

    def _chance(self, pairs: Mapping[Clique, float]) -> float:
        """Return how far the mean error of measured pairs lies off by chance: by noise, and by which pairs they are."""
        noise = compute_noise_cv(pairs.values(), cells=map(self.terms.schema.domain.cells, pairs))
        return math.hypot(noise, compute_selection_cv(pairs.values(), possible=self._possible))

    @property
    def _possible(self) -> float:
        columns = len(self.terms.schema.domain)
        return columns * (columns - 1) / 2

    @property
    def by_pair(self) -> dict[Clique, PairError]:
        """What each pair errs by if it is measured."""
        return predict_pair_errors(
            self.supposed,
            measured=[run.pairs for run in self.runs],
            weights=self.weights,
            schema=self.terms.schema,
            known=self.known,
            columns={name: error.mean for name, error in self.by_column.items()},
        )

    @property
    def afforded(self) -> PredictionRange:
        """How many pairs were measured: by chance more or fewer where the method chooses how many."""
        numbers = [float(len(run.pairs)) for run in self.runs]
        if not self.terms.method.adapts_pair_count:
            return PredictionRange.of(numbers, weights=self.weights)
        return PredictionRange.of_counts(numbers, weights=self.weights, most=self._possible)

    @property
    def shares(self) -> dict[str, float]:
        """The share of the budget that each kind of question took."""
        labels = dict.fromkeys(label for run in self.runs for label in run.shares)
        told = {label: [run.shares.get(label, 0.0) for run in self.runs] for label in labels}
        return {label: float(np.average(shares, weights=self.weights)) for label, shares in told.items()}

    def effort(self, *, rows: int) -> RunCost:
        """Return the effort of a run."""
        schema = self.terms.schema
        each = [
            estimate_run_cost(schema, rows=rows, items=run.items, seconds=run.seconds) for run in self.runs
        ]
        seconds = float(np.average([one.seconds for one in each], weights=self.weights))
        return RunCost(seconds=seconds, memory=max(one.memory for one in each))


def simulate_ensemble(
    terms: RunTerms,
    *,
    rows: int,
    seed: int,
    pairs: bool = False,
    known: Mapping[str, Floats] = MappingProxyType({}),
    progress: Progress = silent,
) -> SimulationEnsemble:
    """Rehearse a run on invented populations of so many rows; with `pairs`, say what each pair would err by.

    `known` are public shares of the codes of columns.
    """
    known = keep_matching_shares(known, terms.schema)
    parts = choose_scenarios(len(terms.schema.domain))
    runs, supposed, worths = [], [], []
    for number, part in enumerate(parts):
        progress("rehearsing", number / len(parts))
        rng = np.random.default_rng([seed, number])
        population = invent_population(
            terms.schema, rows=rows, rng=rng, lean=part.lean, turn=part.turn, tied=part.tied, known=known
        )
        run = simulate_run(terms, population, rng=rng)
        runs.append(run)
        # Other methods that measured no pair never do, or choose in ways that single columns say nothing about.
        asked = pairs and (run.pairs or terms.method.adapts_pair_count)
        told = (
            simulate_pair_errors(run.items, population=population, measured=run.pairs, rng=rng)
            if asked
            else {}
        )
        supposed.append(told)
        worths.append(
            compare_with_independence(run.items, population=population, columns=run.columns, pairs=run.pairs)
        )
    return SimulationEnsemble(
        terms=terms,
        known=known,
        parts=parts,
        runs=tuple(runs),
        supposed=tuple(supposed),
        worths=tuple(worths),
    )


def _mean_error(errors: Mapping[Any, float]) -> float:
    return float(np.mean(list(errors.values())))
