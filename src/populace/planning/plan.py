"""Plans: what a run will give for its budget, from public quantities alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from populace.api.request import as_schema, list_private_datasets, resolve_ledger
from populace.api.rule_measurement import RULE_CHECK_SHARE
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import MAX_ESTIMATE_ROWS, Clique
from populace.core.notebook_html import Bar, render_card
from populace.core.progress import Progress, silent
from populace.methods.registry import find_method
from populace.methods.workload import Workload, resolve_workload
from populace.planning.level_plan import GeographyPlan
from populace.planning.prediction_range import PredictionRange
from populace.planning.reduced_schema import (
    describe_coarsening,
    reduce_schema,
    restrict_workload,
)
from populace.planning.simulated.column_shares import SharesSource, compute_declared_shares, read_shares
from populace.planning.simulated.ensemble import RunCost, SimulationEnsemble, simulate_ensemble
from populace.planning.simulated.pair_errors import PairError
from populace.planning.simulated.public_table_runs import PublicTableResult, simulate_on_public_table
from populace.planning.simulated.simulated_run import RunTerms, close_domains
from populace.planning.verdict import Advice, PlanOutcome, Verdict, advise
from populace.privacy.accounting.budget import Number, parse_delta, parse_epsilon
from populace.private.public_table import check_not_private
from populace.private.read.rows_to_codes import check_header, open_source
from populace.private.rule_table import rule_schema
from populace.release.statement.membership_power import Protection
from populace.release.statement.statement import round_to_float
from populace.schema.columns.unknown_columns import UnknownValues
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """Where ε is searched for, in how many steps at most, and to which part of the target."""

    min_epsilon: float = 0.001
    max_epsilon: float = 100.0
    max_steps: int = 12
    tolerance: float = 0.02


SEARCH = SearchConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to expect of a run. Errors are total variation (shares of rows in the wrong cell), from noise alone.

    Each is the mean of simulations on invented tables, some uneven and some even, with a range from the smallest to the
    largest of them, widened by chance.

    `columns` and `pairs` are means over columns and over the pairs that simulations measured: `pairs_measured` of
    `pairs_possible`. A run may measure others: `by_pair` has the error of every pair if it is measured.
    `relative_pair_error` is the mean error of all pairs over that of independent exact columns. `domains_to_learn` are
    columns whose domains the run will learn, `known_shares` how much of each column's distribution is public.
    `coarsening` says what to write into the schema for columns that are to be coarser.
    """

    schema: Schema
    domains_to_learn: tuple[str, ...]
    known_shares: Mapping[str, float]
    population: int
    epsilon: Fraction
    delta: Fraction
    membership_power: float
    method: str
    workload: str
    columns: PredictionRange
    by_column: Mapping[str, PredictionRange]
    pairs: PredictionRange | None
    by_pair: Mapping[Clique, PairError]
    pairs_measured: PredictionRange
    pairs_possible: int
    simulations: int
    relative_pair_error: float
    budget: Mapping[str, float]
    cost: RunCost
    verdict: Verdict
    advice: Advice | None
    coarsening: Mapping[str, str]
    target_error: float | None
    epsilon_for_target: Fraction | None
    like: PublicTableResult | None

    def __repr__(self) -> str:
        return f"Plan for {self.population:,} rows at ε = {self.epsilon}: {self.verdict.value}"

    def _repr_html_(self) -> str:
        facts = {
            "rows:": f"{self.population:,}",
            "ε =": self.epsilon,
            "method": self.method,
            "verdict:": self.verdict.value,
        }
        worst = sorted(self.by_column.items(), key=lambda entry: -entry[1].mean)[:10]
        rows = [[name, f"{100 * error.mean:.2g} %", Bar(error.mean)] for name, error in worst]
        header = ("column", "expected error", "")
        return render_card(
            "Plan", facts, header=header, rows=rows, note="error: total variation, from noise alone"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan for a machine."""
        advice, needed = self.advice, self.epsilon_for_target
        return {
            "population": self.population,
            "epsilon": round_to_float(self.epsilon),
            "delta": round_to_float(self.delta),
            "membership_power": self.membership_power,
            "protection": Protection.of(self.membership_power).value,
            "method": self.method,
            "workload": self.workload,
            "spent": 0,
            "domains_to_learn": list(self.domains_to_learn),
            "known_shares": {name: float(f"{share:.4g}") for name, share in self.known_shares.items()},
            "column_error": self.columns.to_json(),
            "columns": [
                {"column": name, "codes": self.schema.domain[name], **error.to_json()}
                for name, error in self.by_column.items()
            ],
            "pairs_measured": self.pairs_measured.to_json() | {"of": self.pairs_possible},
            "pair_error": None if self.pairs is None else self.pairs.to_json(),
            "simulations": self.simulations,
            "relative_pair_error": float(f"{self.relative_pair_error:.4g}"),
            "pairs": [{"columns": list(pair), **error.to_json()} for pair, error in self.by_pair.items()],
            "budget": {label: round(share, 4) for label, share in self.budget.items()},
            "cpu_seconds": round(self.cost.seconds, 1),
            "peak_megabytes": round(self.cost.memory / 1e6),
            "verdict": self.verdict.value,
            "advice": None if advice is None else advice.to_json() | {"schema": dict(self.coarsening)},
            "target_error": self.target_error,
            "epsilon_for_target": None if needed is None else float(needed),
            "like": None if self.like is None else self.like.to_json(),
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
    check_rules: bool = False,
    progress: Progress | None = None,
) -> Plan | GeographyPlan:
    """Return what a run will give, from its schema, an approximate number of rows and its budget.

    Nothing private is read and nothing is booked: the method runs on populations that are invented from the schema,
    with as much noise as the budget buys. With `target_error` the plan finds the smallest ε with which columns err by
    no more on average; without `epsilon`, the plan is for that ε. `shares` are public shares of values: a CSV file,
    or `{"sex": {"f": 0.51}}`; what is not given is invented. `like` is a table of the same schema that you declare
    public: whole runs are simulated on it, down to released rows. A file with an account in the ledger is private, and
    refused. Of a geography the plan has the margins of error of every level and table, which are exact.

    >>> from populace.schema.schema import Schema
    >>> found = plan(Schema.from_sizes({"sex": 2, "age": 9}), population=5000, epsilon=1, delta="1e-9")
    >>> found.verdict.value, found.columns.mean < 0.02, found.pairs_possible
    ('enough rows', True, 1)
    """
    progress = progress or silent
    if isinstance(like, str | os.PathLike):
        check_not_private(like, accounts=list_private_datasets(resolve_ledger(ledger)))
    schema = as_schema(schema)
    if isinstance(population, bool) or not 1 <= population <= MAX_ESTIMATE_ROWS:
        hint = "give about how many rows there are, 1 or more"
        raise UsageError(f"the population is {population}.", hint=hint)
    if like is not None:
        # Whatever is wrong with it is reported before the work begins.
        check_header(open_source(like), schema)
    share = RULE_CHECK_SHARE if check_rules and rule_schema(schema) else Fraction(0)
    chosen, resolve = find_method(method, schema=schema), resolve_workload(workload)
    if chosen.unplannable:
        raise UsageError(
            f"there is no plan for the method {chosen.name!r}: it {chosen.unplannable}.",
            hint=f"plan --method auto for comparison; docs/methods/{chosen.name}.md says what {chosen.name} gives",
        )
    bind = partial(RunTerms.of, delta=parse_delta(delta), method=chosen, rule_share=share)
    if chosen.plan_questions is not None:
        if shares is not None or like is not None:
            raise UsageError(
                f"a plan for the method {chosen.name!r} takes neither shares of values nor a public table.",
                hint="leave them out: margins of error follow from schema, units and budget alone",
            )
        return plan_levels(
            lambda spent: bind(schema, epsilon=spent, workload=resolve(schema)),
            population=population,
            epsilon=epsilon,
            target_error=target_error,
            progress=progress,
        )
    closed = close_domains(schema)
    _check_size(closed)
    own_workload = resolve(closed)
    known = compute_declared_shares(schema)
    if shares is not None:
        known |= read_shares(shares, schema=schema, closed=closed)

    def terms(spent: Fraction, draft: Schema = schema, wanted: Workload = own_workload) -> RunTerms:
        return bind(draft, epsilon=spent, workload=wanted)

    def simulate(terms: RunTerms, *, pairs: bool = False) -> SimulationEnsemble:
        steps = progress if pairs else silent
        return simulate_ensemble(
            terms, rows=population, seed=seed, pairs=pairs, known_shares=known, progress=steps
        )

    needed = None
    if target_error is not None:
        needed = find_epsilon(
            lambda spent: simulate(terms(spent)).outcome.error, target=target_error, progress=progress
        )
    spent = _require_epsilon(
        needed if epsilon is None else parse_epsilon(epsilon), target_error, what="the error of columns"
    )
    asked = terms(spent)
    found = simulate(asked, pairs=True)
    by_column, outcome = found.by_column, found.outcome

    def predict(coarse: Mapping[str, int], drop: Sequence[str]) -> PlanOutcome:
        progress("searching for columns to coarsen or drop", 0.5)
        draft = reduce_schema(schema, coarse=coarse, drop=drop)
        part = restrict_workload(own_workload, whole=asked.schema, part=close_domains(draft))
        return simulate(terms(asked.epsilon, draft, part)).outcome

    advice = None
    if outcome.verdict is not Verdict.ENOUGH:
        # The error of a column that is split is the larger of its parts'.
        errors: dict[str, float] = {}
        for variable, name in closed.layout.owners.items():
            errors[name] = max(errors.get(name, 0.0), by_column[variable].mean)
        sizes = {name: closed.columns[name].size for name in errors}
        # Nobody can make a column coarser whose values nobody knows.
        fixed = {name for name, column in schema.columns.items() if isinstance(column, UnknownValues)}
        advice = advise(sizes, errors, now=outcome, predict=predict, fixed=fixed)
    return Plan(
        schema=closed,
        domains_to_learn=schema.unknown,
        known_shares={name: float(np.nansum(known[name])) for name in closed.domain if name in known},
        population=population,
        epsilon=spent,
        delta=asked.delta,
        membership_power=asked.membership_power,
        method=chosen.name,
        workload=own_workload.label,
        columns=found.columns,
        by_column=by_column,
        pairs=found.pairs,
        by_pair=found.by_pair,
        pairs_measured=found.pairs_measured,
        pairs_possible=len(list(combinations(closed.domain, 2))),
        simulations=len(found.runs),
        relative_pair_error=outcome.relative_pair_error,
        budget=found.budget,
        cost=found.estimate_cost(rows=population),
        verdict=outcome.verdict,
        advice=advice,
        coarsening={
            name: describe_coarsening(schema.columns[name], codes=codes)
            for name, codes in (advice.coarsen if advice else {}).items()
        },
        target_error=target_error,
        epsilon_for_target=needed,
        like=None
        if like is None
        else simulate_on_public_table(
            asked, schema, like, workload=resolve, rows=population, seed=seed, progress=progress
        ),
    )


def plan_levels(
    terms: Callable[[Fraction], RunTerms],
    *,
    population: int,
    epsilon: Number | None,
    target_error: float | None,
    progress: Progress,
) -> GeographyPlan:
    """Return the plan of a method whose questions are fixed; the target is the margin of the smallest units' totals."""
    needed = None
    if target_error is not None:

        def relative_margin(spent: Fraction) -> float:
            found = GeographyPlan.of(terms(spent), population=population)
            return found.forecast((), level=found.spine.depth - 1).relative

        if relative_margin(Fraction(1)) == 0:
            raise UsageError(
                "totals of the smallest units are known exactly: there is no ε to search for.",
                hint="give --epsilon; margins of other tables are in the plan",
            )
        needed = find_epsilon(relative_margin, target=target_error, progress=progress)
    spent = _require_epsilon(
        needed if epsilon is None else parse_epsilon(epsilon),
        target_error,
        what="the margin of totals of the smallest units",
    )
    found = GeographyPlan.of(terms(spent), population=population)
    return replace(found, target_error=target_error, epsilon_for_target=needed)


def _require_epsilon(spent: Fraction | None, target_error: float | None, *, what: str) -> Fraction:
    """Return the ε to plan for; refuse a target that none meets, and neither ε nor a target."""
    if spent is not None:
        return spent
    if target_error is None:
        raise UsageError("neither epsilon nor a target error is given.", hint="give one of them")
    raise UsageError(
        f"no epsilon up to {SEARCH.max_epsilon:g} brings {what} down to {target_error}.",
        hint="ask for less, for fewer or coarser columns, or for a larger population",
    )


def _check_size(schema: Schema) -> None:
    """Refuse a schema that no plan could be made for in minutes: populations are invented code by code, many times."""
    codes = sum(schema.domain.values())
    for count, what, most in (
        (len(schema.domain), "columns", LIMITS.max_paired_columns),
        (codes, "codes", LIMITS.max_planned_codes),
    ):
        if count > most:
            raise UsageError(
                f"the schema has {count} {what}; a plan can be made for {most} at most.",
                hint="plan without the columns that matter least, or with coarser ones",
            )


def find_epsilon(
    error: Callable[[Fraction], float], *, target: float, progress: Progress = silent
) -> Fraction | None:
    """Return the smallest ε, to two digits, at which an error that falls with it meets a target; None if none does.

    >>> find_epsilon(lambda epsilon: 0.01 / float(epsilon), target=0.05)
    Fraction(1, 5)
    """
    if not 0 < target < 1:
        raise UsageError(f"the target error is {target}.", hint="give a share between 0 and 1, such as 0.02")
    if error(Fraction(SEARCH.max_epsilon)) > target:
        return None
    best, low = Fraction(SEARCH.max_epsilon), math.log(SEARCH.min_epsilon)
    slope, tried = -1.0, 0.0
    for step in range(SEARCH.max_steps):
        progress("searching for an epsilon", step / SEARCH.max_steps)
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
            if found > target * (1 - SEARCH.tolerance):
                break
        else:
            low = math.log(spent)
            tried += SEARCH.tolerance / 2
    return best


def _round_up(log: float) -> Fraction:
    """Return e to a power, rounded up to two digits.

    >>> _round_up(math.log(0.1234))
    Fraction(13, 100)
    """
    value = math.exp(log) * (1 - 1e-9)
    digits = 1 - math.floor(math.log10(value))
    return Fraction(math.ceil(value * 10**digits)) / Fraction(10) ** digits
