"""What estimates of a survey will give for a budget: privacy errors and intervals, from public facts alone.

Rows are invented from what is public (`invented_rows`) and asked what the queries ask, with noise of the kinds that the
budget buys, a few times over. Each stands for so many rows that design effects are those of the design, or sampling
errors those that an earlier round published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Counts
from populace.planning.invented_rows import invent_rows, read_column_shares
from populace.planning.published_errors import ErrorsSource, read_published_errors
from populace.planning.simulated.column_shares import SharesSource
from populace.privacy.accounting.budget import Number, parse_delta, parse_epsilon
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.private.dry_run import EmptyTableOracle, check_answerable
from populace.private.public_table import read_public_rows
from populace.private.survey.exact_sums import add_up
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.exact_numbers import MAX_EXACT_INTEGER
from populace.survey.answer_queries import answer_sum_plan
from populace.survey.design.design import Design
from populace.survey.estimate_notes import VARIANCE_NOT_ESTIMABLE
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.survey_oracle import SumBatch

# More invented rows than these add nothing: sums are scaled up.
MAX_SIMULATED_ROWS = 100_000
# So often noise is drawn; the median is told, and the least and the greatest. Advice needs fewer draws.
DRAWN_RUNS, ADVICE_RUNS = 9, 3
# With this, noise is too small to matter: what is left is the sampling error.
_NO_NOISE = Fraction(10**9)
# Rows stand for at most this many, and at least for this part of one.
_MIN_ALIKE, _MAX_ALIKE = 0.05, 50.0
# Advice that helps less is not worth reading.
MIN_GAIN = 0.05
_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """What to expect of one query: of its median group and of its worst; None if all are suppressed."""

    query: str
    groups: int
    suppressed: int
    """Groups that are indistinguishable from noise."""
    privacy_error: float | None
    worst_privacy_error: float | None
    margin: float | None
    """Half of the interval's width, sampling error and noise together."""
    worst_margin: float | None
    low: float | None = None
    """The least margin of the median group that noise left in a few runs, and the greatest."""
    high: float | None = None
    by_design_effect: int = 0
    """Groups whose sampling variance noise hides: their intervals rest on the design effect that is declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFacts:
    """What else is public of a survey: a table like it, shares of columns, and errors of the same queries."""

    like: Any | None = None
    shares: SharesSource | None = None
    published: ErrorsSource | None = None


def predict_errors(
    *,
    design: Design,
    queries: Queries,
    rows: int,
    epsilon: Number,
    delta: Number = 0,
    facts: PublicFacts = PublicFacts(),
    draws: int = DRAWN_RUNS,
) -> tuple[ExpectedError, ...]:
    """Return what to expect of estimates of a sample of about so many rows; nothing private is read or spent.

    `facts.like` is a **public** table with the schema's columns, such as an earlier round or a synthetic release: rows
    are drawn from it then, and not invented. `facts.shares` are published shares of columns, `facts.published` standard
    errors of the same queries: rows are invented so that both hold.

    >>> from populace.schema.schema import Schema
    >>> schema = Schema.from_sizes({"SEX": 2, "AGE": 100})
    >>> queries = Queries.parse('[[query]]\\nstatistic = "mean"\\ncolumn = "AGE"', schema=schema)
    >>> (found,) = predict_errors(design=Design(schema=schema), queries=queries, rows=10_000, epsilon=1)
    >>> 0.005 < found.worst_privacy_error < found.worst_margin < 2
    True
    """
    if not 1 <= rows <= MAX_EXACT_INTEGER:
        raise UsageError(
            f"a sample of {rows} rows says nothing.",
            hint=f"give about how many rows there are, from 1 to {MAX_EXACT_INTEGER}",
        )
    plan, _ = QueryPlan.narrowest(design, queries, epsilon=parse_epsilon(epsilon), delta=parse_delta(delta))
    check_answerable(plan)
    usual = float(design.design_effect.median) if design.clustered else 1.0
    alike = dict.fromkeys((query.name for query in queries), usual)
    if facts.published is not None:
        alike |= _match_published_errors(design, queries, rows=rows, usual=usual, facts=facts)
    runs: dict[float, list[tuple[Estimate, ...]]] = {}
    if plan.sums is not None:
        for each in sorted(set(alike.values())):
            oracle = SimulatedSurveyOracle.of(design, rows=rows, alike=each, facts=facts)
            runs[each] = [answer_sum_plan(oracle, plan=plan.sums, budget=plan.budget) for _ in range(draws)]
    return tuple(
        _summarize(
            query.name,
            [[row for row in run if row.query == query.name] for run in runs.get(alike[query.name], ())],
        )
        for query in queries
    )


def _match_published_errors(
    design: Design, queries: Queries, *, rows: int, usual: float, facts: PublicFacts
) -> dict[str, float]:
    """Return for how many rows an invented one must stand, so that queries have the errors that are published."""
    if facts.published is None or facts.like is not None or not design.clustered:
        raise UsageError(
            "published errors go with PSUs in the design, and without a public table.",
            hint="of a sample of rows, shares of columns tell the errors; a public table tells them itself",
        )
    known = read_published_errors(facts.published, queries=[query.name for query in queries], rows=rows)
    plan, _ = QueryPlan.narrowest(design, queries, epsilon=_NO_NOISE, delta=Fraction(0))
    found: dict[str, float] = {}
    if plan.sums is not None:
        oracle = SimulatedSurveyOracle.of(design, rows=rows, alike=usual, facts=facts)
        exact = answer_sum_plan(oracle, plan=plan.sums, budget=plan.budget)
        for name, error in known.items():
            own = [row.sampling_error for row in exact if row.query == name and row.sampling_error]
            if own:
                times = usual * (error / float(np.median(own))) ** 2
                found[name] = float(f"{min(max(times, _MIN_ALIKE), _MAX_ALIKE):.2g}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedSurveyOracle(EmptyTableOracle):
    """An oracle about invented rows that answers with noise as large as that of a real run, drawn in floating point."""

    rows: SurveyRows
    times: float
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        design: Design,
        *,
        rows: int,
        alike: float = 1.0,
        facts: PublicFacts = PublicFacts(),
    ) -> SimulatedSurveyOracle:
        """Return rows as they are assumed to be, each for `alike` rows of its PSU, or as a public table has them."""
        schema, rng = design.schema, np.random.default_rng(_SEED)
        if facts.like is not None:
            count = min(rows, MAX_SIMULATED_ROWS)
            public = read_public_rows(facts.like, schema=schema)
            size = len(next(iter(public.codes.values())))
            if not size:
                raise UsageError(
                    "the public table has no rows, so no sample can be like it.",
                    hint="give a public table with rows, or leave it out: rows are then invented",
                )
            # All of them as often as they go, and some once more.
            drawn = np.concatenate(
                [np.tile(np.arange(size), count // size), rng.permutation(size)[: count % size]]
            )
            found = SurveyRows(
                codes={name: own[drawn] for name, own in public.codes.items()},
                numbers={name: own[drawn] for name, own in public.numbers.items()},
            )
        else:
            count = max(1, min(round(rows / alike), MAX_SIMULATED_ROWS))
            shares = read_column_shares(facts.shares, schema=schema)
            found = invent_rows(design, count=count, rows=rows, shares=shares, rng=rng)
        return cls(schema=schema, rows=found, times=rows / count, rng=rng)

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums of the invented rows, with noise."""
        found = []
        for sums, noise in batches:
            for each in sums:
                if each not in self.rows.kept:
                    self.rows.kept[each] = add_up(self.rows, each, schema=self.schema) * self.times
                exact = self.rows.kept[each]
                laplace = isinstance(noise, DiscreteLaplace)
                draw = self.rng.laplace if laplace else self.rng.normal
                moved = draw(0.0, math.sqrt(float(noise.variance) / (2 if laplace else 1)), exact.shape)
                found.append(np.rint(exact + moved).astype(np.int64))
        return tuple(found)


def _summarize(query: str, runs: Sequence[Sequence[Estimate]]) -> ExpectedError:
    """Return the median over runs of what the median and the worst group of a query have."""
    errors = [[row.privacy_error for row in run if row.privacy_error is not None] for run in runs]
    margins = [
        [(row.high - row.low) / 2 for row in run if row.low is not None and row.high is not None]
        for run in runs
    ]
    groups = max((len(run) for run in runs), default=0)
    suppressed = [len(run) - len(own) for run, own in zip(runs, errors, strict=True)]

    def middle(each: Sequence[Sequence[float]], pick: Callable[[Sequence[float]], float]) -> float | None:
        found = [pick(own) for own in each if own]
        return float(np.median(found)) if found else None

    medians = [float(np.median(own)) for own in margins if own]
    hidden = [sum(row.note == VARIANCE_NOT_ESTIMABLE for row in run) for run in runs]
    return ExpectedError(
        query=query,
        groups=groups,
        suppressed=int(np.median(suppressed)) if suppressed else 0,
        privacy_error=middle(errors, lambda own: float(np.median(own))),
        worst_privacy_error=middle(errors, max),
        margin=middle(margins, lambda own: float(np.median(own))),
        worst_margin=middle(margins, max),
        low=min(medians, default=None),
        high=max(medians, default=None),
        by_design_effect=int(np.median(hidden)) if hidden else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change of the public files, and the part by which it narrows the median margin of error."""

    change: str
    gain: float


def advise(
    *,
    design: Design,
    queries: Queries,
    rows: int,
    epsilon: Number,
    delta: Number = 0,
    facts: PublicFacts = PublicFacts(),
) -> tuple[Advice, ...]:
    """Return what would narrow intervals, the most helpful first; only changes of 5 % or more."""
    epsilon, delta = parse_epsilon(epsilon), parse_delta(delta)
    same: dict[str, Any] = {"rows": rows, "delta": delta, "facts": facts, "draws": ADVICE_RUNS}
    now = predict_errors(design=design, queries=queries, epsilon=epsilon, **same)

    def gain(other: Design, asked: Queries, spent: Fraction) -> float:
        found = predict_errors(design=other, queries=asked, epsilon=spent, **same)
        by_name = {each.query: each.margin for each in found}
        ratios = [
            math.log(own / each.margin) for each in now if each.margin and (own := by_name.get(each.query))
        ]
        return 1 - math.exp(float(np.median(ratios))) if ratios else 0.0

    tried = [("twice the epsilon", gain(design, queries, 2 * epsilon))]
    if design.clustered or design.replicates is not None:
        known = replace(design, design_effect=replace(design.design_effect, factor=Fraction(2)))
        tried.append(
            (
                "design_effect = { median = …, factor = 2 } in the design, if earlier rounds published design effects",
                gain(known, queries, epsilon),
            )
        )
    if design.weights is not None:
        half = replace(design, max_weight=design.weight_bound / 2)
        tried.append(("half the max_weight, if few rows weigh more", gain(half, queries, epsilon)))
    if len(queries) > 1:
        fewer = Queries(schema=design.schema, queries=queries.queries[: (len(queries) + 1) // 2])
        tried.append(("half as many queries", gain(design, fewer, epsilon)))
    found = [Advice(change=change, gain=own) for change, own in tried if own >= MIN_GAIN]
    return tuple(sorted(found, key=lambda each: -each.gain))
