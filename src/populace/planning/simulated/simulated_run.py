"""One simulation: a method runs on a population without private rows, and its answers are compared with the truth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np

from populace.core.marginals import Clique
from populace.core.progress import silent
from populace.measurements.measurements import Measurement
from populace.methods.discovery.domain_discovery import discovery_delta_share, discovery_share
from populace.methods.method import Method
from populace.methods.request_checks import check_method, check_query_rounds
from populace.methods.workload import Workload
from populace.planning.prediction_range import compute_noise_cv
from populace.planning.simulated.populations import SimulatedPopulation
from populace.planning.simulated.simulated_oracle import SimulatedOracle
from populace.planning.simulated.total_variation import compute_noise_errors
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.accounting.privacy_loss import Currency
from populace.release.report.bootstrap_error import add_simulated_noise
from populace.release.report.comparison import GAUSSIAN, LAPLACE
from populace.release.statement.membership_power import bound_planned_power, round_power
from populace.schema.columns.column import Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """What simulations assume, and how often they draw noise."""

    assumed_values: int = 20  # domains of values that the run will learn are taken to become this long
    assumed_bins: int = 32  # domains of bins likewise
    max_noise_cv: float = 0.1
    """Noise is drawn again where the mean error of columns varies more by chance: that of two codes is one number."""
    more_noise_draws: int = 3  # how often it is drawn again


SIMULATION = SimulationConfig()
SPEND_LABELS = {
    ("measure", 0): "measure the number of rows",
    ("measure", 1): "measure columns",
    ("measure", 2): "measure pairs",
    ("measure", 3): "measure triples",
    ("score", 2): "score pairs",
    ("score", 3): "score triples",
    ("choose", 2): "choose pairs",
}
DISCOVERY_LABEL = "learn domains"
RULES_LABEL = "rows that break rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """What a run is asked to do: how it may spend, by which method, and for which tables."""

    schema: Schema
    budget: Budget
    learning: Fraction
    method: Method
    workload: Workload
    epsilon: Fraction
    delta: Fraction
    rule_share: Fraction = Fraction(0)
    """The share of the budget that counts broken rules."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        *,
        epsilon: Fraction,
        delta: Fraction,
        method: Method,
        workload: Workload,
        rule_share: Fraction = Fraction(0),
    ) -> RunTerms:
        """Return the terms of a run; what open domains and checks of rules cost is taken off first."""
        delta = method.usable_delta(delta, epsilon=epsilon, unit=schema.unit)
        check_method(method, schema, epsilon=epsilon, delta=delta)
        check_query_rounds(method, workload, domain=close_domains(schema).domain)
        keys = discovery_delta_share(schema, delta=delta)
        held = method.reserved_delta(delta, discovery=keys)
        whole = replace(Budget.of(epsilon, delta - held, unit=schema.unit), keys=held)
        learning = discovery_share(schema, budget=whole)
        rule_share *= 1 - learning
        before = learning + rule_share
        budget = replace(whole, cap=whole.cap * (1 - before), promise=None if before else whole.promise)
        return cls(
            schema=close_domains(schema),
            budget=budget,
            learning=learning,
            method=method,
            workload=workload,
            epsilon=epsilon,
            delta=delta,
            rule_share=rule_share,
        )

    @property
    def membership_power(self) -> float:
        """The largest power of a membership test that the guarantee leaves, as a statement gives it."""
        return round_power(bound_planned_power(self.epsilon, self.delta, keys=self.budget.keys))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """What one simulation measured, the shares of the budget that it spent, and the errors that noise left."""

    items: tuple[Measurement, ...]
    budget: Mapping[str, float]
    columns: Mapping[str, float]
    pairs: Mapping[Clique, float]
    seconds: float


def close_domains(schema: Schema) -> Schema:
    """Return a schema whose open domains are closed as a run might close them, and without public totals.

    An invented population cannot be made to have declared totals; without them errors come out a little larger.
    """
    closed: dict[str, Column] = {}
    for name in schema.unknown:
        column = schema.columns[name]
        if isinstance(column, UnknownValues):
            names = [f"value {number}" for number in range(1, SIMULATION.assumed_values + 1)]
            closed[name] = column.with_domain(names)
        elif isinstance(column, UnknownBins):
            closed[name] = column.with_domain(_equal_width_edges(column))
    return replace(schema.replace_columns(closed) if closed else schema, totals=())


def _equal_width_edges(column: UnknownBins) -> list[Fraction]:
    """Return edges at equal distances, where texts of the column's format can tell them apart."""
    step = (column.max - column.min) / SIMULATION.assumed_bins
    even = [column.min + number * step for number in range(1, SIMULATION.assumed_bins)]
    closed = column.with_domain(())
    resolution = closed.resolution if isinstance(closed, TemporalColumn) else None
    return even if resolution is None else [Fraction(edge // resolution * resolution) for edge in even]


def simulate_run(
    terms: RunTerms,
    population: SimulatedPopulation,
    *,
    rng: np.random.Generator,
    learnt: tuple[Measurement, ...] = (),
) -> Simulation:
    """Run a method up to its measurements, and compare them with the population.

    `learnt` are tables that were measured while domains were learnt.
    """
    oracle = SimulatedOracle(population=population, budget=terms.budget, rng=rng)
    begun = time.process_time()
    answers = terms.method.measure(oracle, terms.workload, silent)
    items = learnt + tuple(answer for answer in answers if isinstance(answer, Measurement))
    seconds = time.process_time() - begun
    schema, exact = terms.schema, cache(population.exact)
    distribution = LAPLACE if terms.budget.currency is Currency.PURE else GAUSSIAN
    draws = [compute_noise_errors(items, schema=schema, exact=exact)]
    first, pairs = draws[0]
    # Errors are those of tables as they were measured; the mean with other noise as well where chance is large.
    chance = compute_noise_cv(first.values(), cells=schema.domain.values())
    for _ in range(SIMULATION.more_noise_draws if not learnt and chance > SIMULATION.max_noise_cv else 0):
        other = [
            replace(
                item,
                counts=add_simulated_noise(exact(item.marginal), float(item.variance), distribution, rng=rng),
            )
            for item in items
        ]
        draws.append(compute_noise_errors(other, schema=schema, exact=exact))
    return Simulation(
        items=items,
        budget=_budget_shares(oracle.bill, terms),
        columns={name: float(np.mean([columns[name] for columns, _ in draws])) for name in first},
        pairs={pair: float(np.mean([errors[pair] for _, errors in draws])) for pair in pairs},
        seconds=seconds,
    )


def _budget_shares(bill: Sequence[tuple[Spend, int]], terms: RunTerms) -> dict[str, float]:
    """Return the share of the whole budget that each kind of question took, in the order of asking."""
    found: dict[str, float] = {DISCOVERY_LABEL: float(terms.learning)} if terms.learning else {}
    found |= {RULES_LABEL: float(terms.rule_share)} if terms.rule_share else {}
    for spend, columns in bill:
        label = SPEND_LABELS.get((spend.verb, columns), f"{spend.verb} tables of {columns} columns")
        share = float(terms.budget.share(spend)) * float(1 - terms.learning - terms.rule_share)
        found[label] = found.get(label, 0.0) + share
    return found
