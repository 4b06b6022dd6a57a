"""Plans: what a run will give for its budget, from public quantities alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from populace.api.request import as_schema, list_private_datasets, resolve_ledger
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import MAX_ESTIMATE_ROWS, Clique
from populace.core.progress import Progress, silent
from populace.methods.method import MAX_COLUMNS, Method
from populace.methods.registry import find_method
from populace.methods.workload import Workload, resolve_workload
from populace.planning.coarser_columns import can_be_coarser, describe_coarsening
from populace.planning.prediction_range import PredictionRange
from populace.planning.reduced_schema import map_variables_to_columns, reduce_schema, restrict_workload
from populace.planning.run_cost import RunCost
from populace.planning.simulated.column_shares import compute_declared_shares, read_shares
from populace.planning.simulated.discovery_simulation import simulate_discovery
from populace.planning.simulated.ensemble import simulate_ensemble
from populace.planning.simulated.pair_errors import PairError
from populace.planning.simulated.populations import Floats, SimulatedPopulation, read_public_population
from populace.planning.simulated.shares_file import SharesSource
from populace.planning.simulated.simulated_run import (
    ReleaseErrors,
    RunTerms,
    close_domains,
    simulate_release,
    simulate_run,
)
from populace.planning.verdict import Advice, PlanOutcome, PredictChange, Verdict, advise
from populace.privacy.accounting.budget import Number, parse_delta, parse_epsilon
from populace.private.public_table import check_not_private
from populace.private.read.rows_to_codes import check_header, open_source
from populace.release.statement.statement import round_up_to_float
from populace.schema.schema import Schema

# Whole rehearsals on a public table.
PUBLIC_TABLE_RUNS = 2
# Where an epsilon is looked for, in how many steps at most, and to which part of itself.
MIN_EPSILON, MAX_EPSILON, MAX_STEPS, EPSILON_TOLERANCE = 0.001, 100.0, 12, 0.02
WorkloadOf = Callable[[Schema], Workload]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTableResult:
    """What whole rehearsals on a public table came to: errors of released rows, and the part that is not noise.

    `learnt` says how many values or bins they learnt for columns whose domain the schema leaves open.
    """

    name: str
    pairs: PredictionRange
    unmodelled: PredictionRange
    columns: PredictionRange
    learnt: Mapping[str, PredictionRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to expect of a run: errors are shares of rows in the wrong place (total variation), from noise alone.

    `pairs` and `columns` are means over columns and over the pairs that rehearsals measured; `afforded` is how many of
    the `possible` pairs these are. A run may measure others: `by_pair` tells of every pair what it errs by if it is
    measured. `open` are the columns whose domains the run will learn, `known` the shares that are public. Brackets
    reach from the least to the most of the rehearsals, of which some are on uneven and some on even tables, and a
    little beyond, as far as chance goes. `describe_coarsening` says what to write into the schema for columns
    that are to be coarser.
    `balance` is the mean error of all pairs to expect, as a multiple of that of exact columns without dependence.
    """

    schema: Schema
    open: tuple[str, ...]
    known: Mapping[str, float]
    population: int
    epsilon: Fraction
    delta: Fraction
    method: str
    workload: str
    columns: PredictionRange
    by_column: Mapping[str, PredictionRange]
    pairs: PredictionRange | None
    by_pair: Mapping[Clique, PairError]
    afforded: PredictionRange
    possible: int
    rehearsals: int
    balance: float
    shares: Mapping[str, float]
    effort: RunCost
    verdict: Verdict
    advice: Advice | None
    how: Mapping[str, str]
    target: float | None
    needed: Fraction | None
    like: PublicTableResult | None

    def to_json(self) -> dict[str, Any]:
        """Return the plan for a machine."""
        like, advice = self.like, self.advice
        return {
            "population": self.population,
            "epsilon": round_up_to_float(self.epsilon),
            "delta": round_up_to_float(self.delta),
            "method": self.method,
            "workload": self.workload,
            "spent": 0,
            "domains_to_learn": list(self.open),
            "shares_told": {name: float(f"{share:.4g}") for name, share in self.known.items()},
            "column_error": self.columns.to_json(),
            "columns": [
                {"column": name, "codes": self.schema.domain[name], **error.to_json()}
                for name, error in self.by_column.items()
            ],
            "pairs_measured": self.afforded.to_json() | {"of": self.possible},
            "pair_error": None if self.pairs is None else self.pairs.to_json(),
            "rehearsals": self.rehearsals,
            "pair_error_of_all_beside_exact_columns": float(f"{self.balance:.4g}"),
            "pairs": [{"columns": list(pair), **told.to_json()} for pair, told in self.by_pair.items()],
            "budget": {label: round(share, 4) for label, share in self.shares.items()},
            "cpu_seconds": round(self.effort.seconds, 1),
            "peak_megabytes": round(self.effort.memory / 1e6),
            "verdict": self.verdict.value,
            "advice": None
            if advice is None
            else {
                "coarsen": dict(advice.coarsen),
                "how": dict(self.how),
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
    shares: SharesSource | None = None,
    like: Any = None,
    method: str = "auto",
    workload: Workload | Path | str | None = None,
    ledger: Path | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Return what a run will give, from its schema, an approximate number of rows and its budget.

    Nothing private is read and nothing is booked: the method runs against populations that are invented from the
    schema, with as much noise as the budget buys. With `target_error` the least ε is looked for with which columns
    err by no more on average; without `epsilon`, the plan is for that ε. `shares` say how often values of columns
    occur, as far as that is public: a CSV file, or `{"sex": {"f": 0.51}}`; what is left open is invented. `like` is a
    table of the same schema that you declare public: whole runs are rehearsed on it, down to released rows. A file
    that has an account in the ledger is private, and refused.

    >>> from populace.schema.schema import Schema
    >>> found = plan(Schema.from_sizes({"sex": 2, "age": 9}), population=5000, epsilon=1, delta="1e-9")
    >>> found.verdict.value, found.columns.mean < 0.02, found.possible
    ('enough rows', True, 1)
    """
    told = progress or silent
    if isinstance(like, str | os.PathLike):
        check_not_private(like, accounts=list_private_datasets(resolve_ledger(ledger)))
    schema, rows = as_schema(schema), _check_population(population)
    if like is not None:
        # Whatever is wrong with it is told before the work begins.
        check_header(open_source(like), schema)
    chosen, wanted = find_method(method), resolve_workload(workload)
    _check_predictable(chosen)
    offered = parse_delta(delta)
    closed = close_domains(schema)
    _check_size(closed)
    wish = wanted(closed)
    known = compute_declared_shares(schema)
    if shares is not None:
        known |= read_shares(shares, schema=schema, closed=closed)
    if epsilon is None and target_error is None:
        raise UsageError("neither epsilon nor a target error is given.", hint="give one of them")

    def terms(spent: Fraction) -> RunTerms:
        return RunTerms.of(schema, epsilon=spent, delta=offered, method=chosen, workload=wish)

    def error(spent: Fraction) -> float:
        return simulate_ensemble(terms(spent), rows=rows, seed=seed, known=known).outcome.error

    needed = None if target_error is None else find_epsilon(error, target=target_error, progress=told)
    if epsilon is not None:
        spent = parse_epsilon(epsilon)
    elif needed is not None:
        spent = needed
    else:
        raise UsageError(
            f"no epsilon up to {MAX_EPSILON:g} brings the error of columns down to {target_error}.",
            hint="ask for less, for fewer or coarser columns, or for a larger population",
        )
    asked = terms(spent)
    found = simulate_ensemble(asked, rows=rows, seed=seed, pairs=True, known=known, progress=told)
    columns, verdict = found.by_column, found.outcome.verdict

    def changed(coarse: Mapping[str, int], drop: Sequence[str]) -> PlanOutcome:
        told("looking for columns to coarsen or drop", 0.5)
        return _predict_change(asked, schema, rows=rows, seed=seed, known=known, coarse=coarse, drop=drop)

    fixed = {name for name, column in schema.columns.items() if not can_be_coarser(column)}
    advice = (
        None
        if verdict is Verdict.ENOUGH
        else _advise_columns(closed, columns, now=found.outcome, predict=changed, fixed=fixed)
    )
    return Plan(
        schema=closed,
        open=schema.unknown,
        known={name: float(np.nansum(known[name])) for name in closed.domain if name in known},
        population=rows,
        epsilon=spent,
        delta=asked.delta,
        method=chosen.name,
        workload=wish.label,
        columns=found.columns,
        by_column=columns,
        pairs=found.pairs,
        by_pair=found.by_pair,
        afforded=found.afforded,
        possible=len(list(combinations(closed.domain, 2))),
        rehearsals=len(found.runs),
        balance=found.outcome.balance,
        shares=found.shares,
        effort=found.effort(rows=rows),
        verdict=verdict,
        advice=advice,
        how={
            name: describe_coarsening(schema.columns[name], codes=codes)
            for name, codes in advice.coarsen.items()
        }
        if advice
        else {},
        target=target_error,
        needed=needed,
        like=None
        if like is None
        else simulate_on_public_table(
            asked, schema, like, wanted=wanted, rows=rows, seed=seed, progress=told
        ),
    )


def find_epsilon(
    error: Callable[[Fraction], float], *, target: float, progress: Progress = silent
) -> Fraction | None:
    """Return the least ε, to two digits, at which an error that falls with it meets a target; None if there is none.

    >>> find_epsilon(lambda epsilon: 0.01 / float(epsilon), target=0.05)
    Fraction(1, 5)
    """
    if not 0 < target < 1:
        raise UsageError(f"the target error is {target}.", hint="give a share between 0 and 1, such as 0.02")
    if error(Fraction(MAX_EPSILON)) > target:
        return None
    best, low = Fraction(MAX_EPSILON), math.log(MIN_EPSILON)
    slope, tried = -1.0, 0.0
    for step in range(MAX_STEPS):
        progress("looking for an epsilon", step / MAX_STEPS)
        # Near where a straight line leads that was right so far, but never close to an end of what is left.
        high = math.log(best)
        margin = 0.1 * (high - low)
        spent = _round_up(min(max(tried, low + margin), high - margin))
        if spent >= best:
            break
        found = error(spent)
        tried = math.log(spent) + math.log(target / max(found, 1e-12)) / slope
        if found <= target:
            best = spent
            if found > target * (1 - EPSILON_TOLERANCE):
                break
        else:
            low = math.log(spent)
            tried += EPSILON_TOLERANCE / 2
    return best


def _round_up(log: float) -> Fraction:
    """Return e to a power, rounded up to two digits.

    >>> _round_up(math.log(0.1234))
    Fraction(13, 100)
    """
    value = math.exp(log) * (1 - 1e-9)
    digits = 1 - math.floor(math.log10(value))
    return Fraction(math.ceil(value * 10**digits)) / Fraction(10) ** digits


def _advise_columns(
    schema: Schema,
    columns: Mapping[str, PredictionRange],
    *,
    now: PlanOutcome,
    predict: PredictChange,
    fixed: Collection[str],
) -> Advice:
    """Return what to do about the columns of a schema; the error of a split one is the larger of its parts'."""
    errors: dict[str, float] = {}
    for variable, name in map_variables_to_columns(schema).items():
        errors[name] = max(errors.get(name, 0.0), columns[variable].mean)
    sizes = {name: schema.columns[name].size for name in errors}
    return advise(sizes, errors, now=now, predict=predict, fixed=fixed)


def _predict_change(
    terms: RunTerms,
    schema: Schema,
    *,
    rows: int,
    seed: int,
    known: Mapping[str, Floats],
    coarse: Mapping[str, int],
    drop: Sequence[str],
) -> PlanOutcome:
    """Return what comes of a change, for the same unit, budget, method and wishes."""
    draft = reduce_schema(schema, coarse=coarse, drop=drop)
    fewer = terms.under(
        draft, workload=restrict_workload(terms.workload, whole=terms.schema, part=close_domains(draft))
    )
    return simulate_ensemble(fewer, rows=rows, seed=seed, known=known).outcome


def _check_predictable(method: Method) -> None:
    """Refuse methods whose results hang on what no schema tells."""
    if method.unplannable:
        raise UsageError(
            f"there is no plan for the method {method.name!r}: it {method.unplannable}.",
            hint=f"plan --method auto for comparison; docs/methods/{method.name}.md says what {method.name} gives",
        )


def _check_size(schema: Schema) -> None:
    """Refuse a schema that no plan could be made for in minutes: populations are invented code by code, many times."""
    codes = sum(schema.domain.values())
    for count, what, most in (
        (len(schema.domain), "columns", MAX_COLUMNS),
        (codes, "codes", LIMITS.max_planned_codes),
    ):
        if count > most:
            raise UsageError(
                f"the schema has {count} {what}; a plan can be made for {most} at most.",
                hint="plan without the columns that matter least, or with coarser ones",
            )


def _check_population(population: int) -> int:
    if isinstance(population, bool) or not 1 <= population <= MAX_ESTIMATE_ROWS:
        raise UsageError(
            f"the population is {population}.", hint="give about how many rows there are, 1 or more"
        )
    return population


def simulate_on_public_table(
    terms: RunTerms,
    schema: Schema,
    data: Any,
    *,
    wanted: WorkloadOf,
    rows: int,
    seed: int,
    progress: Progress = silent,
) -> PublicTableResult:
    """Return what whole rehearsals on a public table come to."""
    whole: list[ReleaseErrors] = []
    learnt: dict[str, list[float]] = {name: [] for name in schema.unknown}
    for number in range(PUBLIC_TABLE_RUNS):
        progress("rehearsing whole runs", number / PUBLIC_TABLE_RUNS)
        place = [seed, 100 + number]
        closed, tables = simulate_discovery(terms, schema, data, rows=rows, seed=place)
        for name, levels in learnt.items():
            levels.append(float(closed.columns[name].levels))
        rng = np.random.default_rng(place)
        population: SimulatedPopulation = read_public_population(data, schema=closed, rows=rows, rng=rng)
        known = replace(terms, schema=closed, workload=wanted(closed))
        run = simulate_run(known, population, rng=rng, learnt=tables)
        whole.append(simulate_release(known, population, run.items, rng=rng, progress=progress))
    return PublicTableResult(
        name=Path(data).name if isinstance(data, str | Path) else "the table",
        pairs=PredictionRange.of([run.pairs for run in whole]),
        unmodelled=PredictionRange.of([run.without_noise for run in whole]),
        columns=PredictionRange.of([run.columns for run in whole]),
        learnt={name: PredictionRange.of(levels) for name, levels in learnt.items()},
    )
