"""One rehearsal: a method runs against a population without private rows, and its answers are held to the truth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np

from populace.forecast.errors import distance, noise_errors
from populace.forecast.population import Population
from populace.forecast.spread import by_chance
from populace.forecast.standin import Item, StandIn
from populace.generate import generate
from populace.infer.run import fit_items
from populace.kernels import count_columns
from populace.marginals import Clique, Marginal
from populace.measurements import Measurement
from populace.privacy.budget import Budget
from populace.privacy.loss import Currency
from populace.progress import Progress, silent
from populace.records import dataclass
from populace.report.compare import GAUSSIAN, LAPLACE
from populace.report.rehearsal import noisy
from populace.schema.columns import Column
from populace.schema.dates import Dated
from populace.schema.schema import Schema
from populace.schema.unknown import UnknownBins, UnknownValues
from populace.strategy.learn import learning_share, set_aside
from populace.strategy.methods import METHODS, check_method, check_rounds, spent_delta, spent_keys
from populace.strategy.workload import Workload

# Domains that the run will learn are taken to become this long.
LEARNT_VALUES, LEARNT_BINS = 20, 32
# Noise is drawn so many times more where the mean error of columns deviates by more than this part of it by chance: the
# error of a column of two codes is one number, and mostly chance.
AGAIN, UNSURE = 3, 0.1
# Pairs that a whole rehearsal is scored on: all of them up to here, then as many drawn at random.
MOST_SCORED = 2000

LABELS = {
    ("measure", 0): "measure the number of rows",
    ("measure", 1): "measure columns",
    ("measure", 2): "measure pairs",
    ("measure", 3): "measure triples",
    ("score", 2): "look at pairs",
    ("score", 3): "look at triples",
    ("choose", 2): "choose pairs",
}
LEARNING = "learn domains"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a run is asked to do: how it may spend, by which method, and for which tables."""

    schema: Schema
    budget: Budget
    learning: Fraction
    method: str
    workload: Workload
    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(
        cls, schema: Schema, *, epsilon: Fraction, delta: Fraction, method: str, workload: Workload
    ) -> Terms:
        """Return the terms of a run; what its open domains will cost is taken off before the method starts."""
        delta = spent_delta(method, epsilon=epsilon, delta=delta, unit=schema.unit)
        check_method(method, schema, epsilon=epsilon, delta=delta)
        check_rounds(method, workload, domain=settled(schema).domain)
        keys = set_aside(schema, delta=delta)
        held = spent_keys(method, delta=delta, learning=keys)
        whole = replace(Budget.of(epsilon, delta - held, unit=schema.unit), keys=held)
        learning = learning_share(schema, budget=whole)
        budget = replace(whole, cap=whole.cap * (1 - learning))
        return cls(
            schema=settled(schema),
            budget=budget,
            learning=learning,
            method=method,
            workload=workload,
            epsilon=epsilon,
            delta=delta,
        )

    def under(self, schema: Schema, *, workload: Workload) -> Terms:
        """Return the terms of the same run under another schema."""
        return Terms.of(schema, epsilon=self.epsilon, delta=self.delta, method=self.method, workload=workload)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsal:
    """What one rehearsal asked, what it cost, and how far noise put its tables from the truth."""

    items: tuple[Measurement, ...]
    shares: Mapping[str, float]
    columns: Mapping[str, float]
    pairs: Mapping[Clique, float]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The mean error of all pairs of released rows, and what it is when the same tables are known without noise."""

    pairs: float
    without_noise: float
    columns: float


def settled(schema: Schema) -> Schema:
    """Return a schema whose open domains are closed as a run might close them, and without public totals.

    An invented population cannot be made to have declared totals; without them errors come out a little larger.
    """
    closed: dict[str, Column] = {}
    for name in schema.unknown:
        column = schema.columns[name]
        if isinstance(column, UnknownValues):
            closed[name] = column.learnt([f"value {number}" for number in range(1, LEARNT_VALUES + 1)])
        elif isinstance(column, UnknownBins):
            closed[name] = column.learnt(_edges(column))
    return replace(schema.replaced(closed) if closed else schema, totals=())


def _edges(column: UnknownBins) -> list[Fraction]:
    """Return edges at equal distances, where texts of the column's format can tell them apart."""
    step = (column.max - column.min) / LEARNT_BINS
    even = [column.min + number * step for number in range(1, LEARNT_BINS)]
    known = column.learnt(())
    grain = known.grain if isinstance(known, Dated) else None
    return even if grain is None else [Fraction(edge // grain * grain) for edge in even]


def rehearse(
    terms: Terms,
    population: Population,
    *,
    rng: np.random.Generator,
    learnt: tuple[Measurement, ...] = (),
) -> Rehearsal:
    """Run a method up to its measurements, and compare them with the population.

    `learnt` are tables that were measured while domains were learnt.
    """
    oracle = StandIn(population=population, budget=terms.budget, rng=rng)
    begun = time.process_time()
    answers = METHODS[terms.method](oracle, workload=terms.workload, progress=silent)
    items = learnt + tuple(answer for answer in answers if isinstance(answer, Measurement))
    seconds = time.process_time() - begun
    columns, pairs = _mean_errors(items, terms, population, again=0 if learnt else AGAIN, rng=rng)
    return Rehearsal(
        items=items, shares=_shares(oracle.bill, terms), columns=columns, pairs=pairs, seconds=seconds
    )


def _mean_errors(
    items: Sequence[Measurement],
    terms: Terms,
    population: Population,
    *,
    again: int,
    rng: np.random.Generator,
) -> tuple[dict[str, float], dict[Clique, float]]:
    """Return the errors of tables as they were measured; the mean with other noise as well where chance is large."""
    schema, exact = terms.schema, cache(population.exact)
    law = LAPLACE if terms.budget.currency is Currency.PURE else GAUSSIAN
    told = [noise_errors(items, schema=schema, exact=exact)]
    chance = by_chance(told[0][0].values(), cells=schema.domain.values())
    for _ in range(again if chance > UNSURE else 0):
        other = [
            replace(item, counts=noisy(exact(item.marginal), float(item.variance), law, rng=rng))
            for item in items
        ]
        told.append(noise_errors(other, schema=schema, exact=exact))
    first, pairs = told[0]
    return (
        {name: float(np.mean([columns[name] for columns, _ in told])) for name in first},
        {pair: float(np.mean([errors[pair] for _, errors in told])) for pair in pairs},
    )


def finish(
    terms: Terms,
    population: Population,
    items: Sequence[Measurement],
    *,
    rng: np.random.Generator,
    progress: Progress,
) -> Whole:
    """Go on to released rows, once as measured and once with the same tables exact, and compare pairs and columns."""
    names = list(terms.schema.domain)
    pairs = list(combinations(names, 2))
    if len(pairs) > MOST_SCORED:
        chosen = np.random.default_rng(0).permutation(len(pairs))[:MOST_SCORED]
        pairs = [pairs[number] for number in chosen.tolist()]
    exact = [Measurement(item.marginal, population.exact(item.marginal), item.variance) for item in items]
    noisy = _released(terms, population, items, pairs=pairs, rng=rng, progress=progress)
    clean = _released(terms, population, exact, pairs=pairs, rng=rng, progress=progress)
    return Whole(pairs=noisy[0], without_noise=min(clean[0], noisy[0]), columns=noisy[1])


def _released(
    terms: Terms,
    population: Population,
    items: Sequence[Measurement],
    *,
    pairs: Sequence[Clique],
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[float, float]:
    schema = terms.schema
    model = fit_items(items, method=terms.method, domain=schema.domain, rules=schema.rules, progress=progress)
    drawn = len(next(iter(population.codes.values())))
    parts = list(generate(model, rows=drawn, rng=rng, rules=schema.rules))
    codes = {name: np.concatenate([part[name] for part in parts]) for name in schema.domain}

    def error(clique: Clique) -> float:
        counted = count_columns([codes[name] for name in clique], sizes=schema.domain.shape(clique))
        return distance(counted, population.exact(Marginal(clique)))

    columns = [error((name,)) for name in schema.domain]
    return float(np.mean([error(pair) for pair in pairs] or columns)), float(np.mean(columns))


def _shares(bill: Sequence[Item], terms: Terms) -> dict[str, float]:
    """Return the share of the whole budget that each kind of question took, in the order of asking."""
    found: dict[str, float] = {LEARNING: float(terms.learning)} if terms.learning else {}
    for item in bill:
        plain = f"{item.spend.verb} tables of {item.columns} columns"
        label = LABELS.get((item.spend.verb, item.columns), plain)
        share = float(terms.budget.share(item.spend)) * float(1 - terms.learning)
        found[label] = found.get(label, 0.0) + share
    return found
