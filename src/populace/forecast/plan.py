"""Plans: what a run will give for its budget, from public quantities alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from populace.errors import UsageError
from populace.forecast.effort import Effort, effort
from populace.forecast.lesson import taught
from populace.forecast.pairs import PairError, pair_errors, suppose
from populace.forecast.population import Population, invent, public
from populace.forecast.rehearsal import Rehearsal, Terms, Whole, finish, rehearse, settled
from populace.forecast.smaller import owners, restricted, smaller
from populace.forecast.spread import COLUMNS_BETWEEN, NUMBERS_BETWEEN, PAIR_BETWEEN, PAIRS_BETWEEN, Spread
from populace.forecast.verdict import Advice, Predict, Verdict, advise
from populace.marginals import MOST_ROWS, Clique
from populace.pipeline import as_schema
from populace.privacy.budget import Number, parse_delta, parse_epsilon
from populace.progress import Progress, silent
from populace.schema.schema import Schema
from populace.strategy.methods import method_named
from populace.strategy.workload import Workload, asked_workload

# Rehearsals on invented populations, and whole ones on a public table.
REHEARSALS, WHOLE_REHEARSALS = 3, 2
# Where an epsilon is looked for, and how exactly.
LEAST, MOST, STEPS = 0.001, 100.0, 10
# Means over more columns than so many hardly differ between rehearsals: advice then needs only one of each change.
FEW = 30
Wanted = Callable[[Schema], Workload]


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """What whole rehearsals on a public table came to: errors of released rows, and the part that is not noise.

    `learnt` says how many values or bins they learnt for columns whose domain the schema leaves open.
    """

    name: str
    pairs: Spread
    unmodelled: Spread
    columns: Spread
    learnt: Mapping[str, Spread]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to expect of a run: errors are shares of rows in the wrong place (total variation), from noise alone.

    `pairs` and `columns` are means over columns and over the pairs that rehearsals measured; `afforded` is how many of
    the `possible` pairs these are. A run may measure others: `by_pair` tells of every pair what it errs by if it is
    measured. `open` are the columns whose domains the run will learn. Brackets reach from the least to the most of the
    rehearsals, made wider by the factors by which predictions were off on real tables.
    """

    schema: Schema
    open: tuple[str, ...]
    population: int
    epsilon: Fraction
    delta: Fraction
    method: str
    workload: str
    columns: Spread
    by_column: Mapping[str, Spread]
    pairs: Spread | None
    by_pair: Mapping[Clique, PairError]
    afforded: Spread
    possible: int
    shares: Mapping[str, float]
    effort: Effort
    verdict: Verdict
    advice: Advice | None
    target: float | None
    needed: Fraction | None
    like: Like | None

    def to_json(self) -> dict[str, Any]:
        """Return the plan for a machine."""
        like, advice = self.like, self.advice
        return {
            "population": self.population,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "method": self.method,
            "workload": self.workload,
            "spent": 0,
            "domains_to_learn": list(self.open),
            "bracket_factors": {
                "column_error": COLUMNS_BETWEEN,
                "pair_error": PAIRS_BETWEEN,
                "one_pair": PAIR_BETWEEN,
                "pairs_measured": NUMBERS_BETWEEN,
            },
            "column_error": self.columns.to_json(),
            "columns": [
                {"column": name, "codes": self.schema.domain[name], **error.to_json()}
                for name, error in self.by_column.items()
            ],
            "pairs_measured": self.afforded.to_json() | {"of": self.possible},
            "pair_error": None if self.pairs is None else self.pairs.to_json(),
            "rehearsals": REHEARSALS,
            "pairs": [{"columns": list(pair), **told.to_json()} for pair, told in self.by_pair.items()],
            "budget": {label: round(share, 4) for label, share in self.shares.items()},
            "cpu_seconds": round(self.effort.seconds, 1),
            "peak_megabytes": round(self.effort.memory / 1e6),
            "verdict": self.verdict.value,
            "advice": None
            if advice is None
            else {
                "coarsen": dict(advice.coarsen),
                "column_error_coarsened": round(advice.coarsened, 4),
                "drop": list(advice.drop),
                "column_error_dropped": round(advice.dropped, 4),
                "enough": advice.enough,
                "verdict": advice.verdict.value,
            },
            "target_error": self.target,
            "epsilon_for_target": None if self.needed is None else float(self.needed),
            "like": None
            if like is None
            else {
                "treated_as_public": like.name,
                "pair_error": like.pairs.to_json(),
                "of_it_unmodelled": like.unmodelled.to_json(),
                "column_error": like.columns.to_json(),
                "learnt": {name: levels.to_json() for name, levels in like.learnt.items()},
            },
        }


def plan(
    schema: Schema | Path | str,
    *,
    population: int,
    delta: Number,
    epsilon: Number | None = None,
    target_error: float | None = None,
    like: Any = None,
    method: str = "auto",
    workload: Workload | Path | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Return what a run will give, from its schema, an approximate number of rows and its budget.

    Nothing private is read and no ledger is touched: the method runs against populations that are invented from the
    schema, with as much noise as the budget buys. With `target_error` the least ε is looked for with which columns
    err by no more on average; without `epsilon`, the plan is for that ε. `like` is a table of the same schema that
    you declare public: whole runs are rehearsed on it, down to released rows.

    >>> from populace.schema.schema import Schema
    >>> found = plan(Schema.from_sizes({"sex": 2, "age": 9}), population=5000, epsilon=1, delta="1e-9")
    >>> found.verdict.value, found.columns.mean < 0.02, found.possible
    ('enough rows', True, 1)
    """
    told = progress or silent
    schema, rows = as_schema(schema), _rows(population)
    chosen, wanted = method_named(method), asked_workload(workload)
    offered = parse_delta(delta)
    closed = settled(schema)
    wish = wanted(closed)
    if epsilon is None and target_error is None:
        raise UsageError("neither epsilon nor a target error is given.", hint="give one of them")

    def terms(spent: Fraction) -> Terms:
        return Terms.of(schema, epsilon=spent, delta=offered, method=chosen, workload=wish)

    def error(spent: Fraction) -> float:
        rng = np.random.default_rng(seed)
        return _mean(rehearse(terms(spent), invent(closed, rows=rows, rng=rng), rng=rng).columns)

    needed = None if target_error is None else solve(error, target=target_error, progress=told)
    if epsilon is not None:
        spent = parse_epsilon(epsilon)
    elif needed is not None:
        spent = needed
    else:
        raise UsageError(
            f"no epsilon up to {MOST:g} brings the error of columns down to {target_error}.",
            hint="ask for less, for fewer or coarser columns, or for a larger population",
        )
    asked = terms(spent)
    found, supposed = [], []
    for number in range(REHEARSALS):
        told("rehearsing", number / REHEARSALS)
        rng = np.random.default_rng([seed, number])
        invented = invent(closed, rows=rows, rng=rng)
        run = rehearse(asked, invented, rng=rng)
        found.append(run)
        supposed.append(suppose(run.items, population=invented, measured=run.pairs, rng=rng))
    columns = {
        name: Spread.of([run.columns[name] for run in found]).between(COLUMNS_BETWEEN)
        for name in closed.domain
    }
    possible = len(list(combinations(closed.domain, 2)))
    verdict = Verdict.of(float(np.mean([_mean(run.columns) for run in found])))

    def changed(coarse: Mapping[str, int], drop: Sequence[str]) -> float:
        told("looking for columns to coarsen or drop", 0.5)
        return _changed_error(asked, schema, rows=rows, seed=seed, coarse=coarse, drop=drop)

    return Plan(
        schema=closed,
        open=schema.unknown,
        population=rows,
        epsilon=spent,
        delta=asked.delta,
        method=chosen,
        workload=wish.label,
        columns=Spread.of([_mean(run.columns) for run in found]).between(COLUMNS_BETWEEN),
        by_column=columns,
        pairs=_pair_error(found),
        by_pair=pair_errors(supposed, measured=[run.pairs for run in found], domain=closed.domain),
        afforded=Spread.of([float(len(run.pairs)) for run in found]).between(NUMBERS_BETWEEN, most=possible),
        possible=possible,
        shares=_shares(found),
        effort=_effort(closed, found, rows=rows),
        verdict=verdict,
        advice=None
        if verdict is Verdict.ENOUGH
        else _advice(closed, columns, verdict=verdict, predict=changed),
        target=target_error,
        needed=needed,
        like=None
        if like is None
        else _like(asked, schema, like, wanted=wanted, rows=rows, seed=seed, progress=told),
    )


def solve(
    error: Callable[[Fraction], float], *, target: float, progress: Progress = silent
) -> Fraction | None:
    """Return the least ε, to two digits, at which an error that falls with it meets a target; None if there is none.

    >>> solve(lambda epsilon: 0.01 / float(epsilon), target=0.05)
    Fraction(1, 5)
    """
    if not 0 < target < 1:
        raise UsageError(f"the target error is {target}.", hint="give a share between 0 and 1, such as 0.02")
    low, high = math.log(LEAST), math.log(MOST)
    if error(Fraction(MOST)) > target:
        return None
    for step in range(STEPS):
        progress("looking for an epsilon", step / STEPS)
        middle = (low + high) / 2
        low, high = (low, middle) if error(_short(middle)) <= target else (middle, high)
    return _short(high)


def _short(log: float) -> Fraction:
    """Return e to a power, rounded up to two digits.

    >>> _short(math.log(0.1234))
    Fraction(13, 100)
    """
    value = math.exp(log) * (1 - 1e-9)
    digits = 1 - math.floor(math.log10(value))
    return Fraction(math.ceil(value * 10**digits)) / Fraction(10) ** digits


def _advice(schema: Schema, columns: Mapping[str, Spread], *, verdict: Verdict, predict: Predict) -> Advice:
    """Return what to do about the columns of a schema; the error of a split one is the larger of its parts'."""
    errors: dict[str, float] = {}
    for variable, name in owners(schema).items():
        errors[name] = max(errors.get(name, 0.0), columns[variable].mean)
    sizes = {name: schema.columns[name].size for name in errors}
    return advise(sizes, errors, goal=verdict.goal, predict=predict)


def _changed_error(
    terms: Terms, schema: Schema, *, rows: int, seed: int, coarse: Mapping[str, int], drop: Sequence[str]
) -> float:
    """Return the mean error of columns after a change, for the same unit, budget, method and wishes."""
    draft = smaller(schema, coarse=coarse, drop=drop)
    closed = settled(draft)
    fewer = terms.under(draft, workload=restricted(terms.workload, whole=terms.schema, part=closed))
    found = []
    for number in range(REHEARSALS if len(closed.domain) <= FEW else 1):
        rng = np.random.default_rng([seed, number])
        found.append(_mean(rehearse(fewer, invent(closed, rows=rows, rng=rng), rng=rng).columns))
    return float(np.mean(found))


def _rows(population: int) -> int:
    if isinstance(population, bool) or not 1 <= population <= MOST_ROWS:
        raise UsageError(
            f"the population is {population}.", hint="give about how many rows there are, 1 or more"
        )
    return population


def _like(
    terms: Terms, schema: Schema, data: Any, *, wanted: Wanted, rows: int, seed: int, progress: Progress
) -> Like:
    whole: list[Whole] = []
    learnt: dict[str, list[float]] = {name: [] for name in schema.unknown}
    for number in range(WHOLE_REHEARSALS):
        progress("rehearsing whole runs", number / WHOLE_REHEARSALS)
        place = [seed, 100 + number]
        closed, tables = taught(terms, schema, data, rows=rows, seed=place)
        for name, levels in learnt.items():
            levels.append(float(closed.columns[name].levels))
        rng = np.random.default_rng(place)
        population: Population = public(data, schema=closed, rows=rows, rng=rng)
        known = replace(terms, schema=closed, workload=wanted(closed))
        run = rehearse(known, population, rng=rng, learnt=tables)
        whole.append(finish(known, population, run.items, rng=rng, progress=progress))
    return Like(
        name=Path(data).name if isinstance(data, str | Path) else "the table",
        pairs=Spread.of([run.pairs for run in whole]),
        unmodelled=Spread.of([run.without_noise for run in whole]),
        columns=Spread.of([run.columns for run in whole]),
        learnt={name: Spread.of(levels) for name, levels in learnt.items()},
    )


def _pair_error(found: Sequence[Rehearsal]) -> Spread | None:
    means = [_mean(run.pairs) for run in found if run.pairs]
    return Spread.of(means).between(PAIRS_BETWEEN) if means else None


def _shares(found: Sequence[Rehearsal]) -> dict[str, float]:
    labels = dict.fromkeys(label for run in found for label in run.shares)
    return {label: sum(run.shares.get(label, 0.0) for run in found) / len(found) for label in labels}


def _effort(schema: Schema, found: Sequence[Rehearsal], *, rows: int) -> Effort:
    each = [effort(schema, rows=rows, items=run.items, seconds=run.seconds) for run in found]
    return Effort(
        seconds=float(np.mean([one.seconds for one in each])), memory=max(one.memory for one in each)
    )


def _mean(errors: Mapping[Any, float]) -> float:
    return float(np.mean(list(errors.values())))
