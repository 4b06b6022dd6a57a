"""The report of a release of estimates: the numbers, their errors, and where these come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from populace.core.number_format import format_number, format_with_error
from populace.release.report import charts
from populace.release.report.render import render_page
from populace.release.statement.cost import BudgetStage
from populace.release.statement.statement import Statement, describe_guarantee
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.estimate_notes import PUBLIC_TOTAL, VARIANCE_NOT_ESTIMABLE
from populace.survey.estimate_result import NUMBER_COLUMNS, Estimate
from populace.survey.queries.queries import Query, Statistic
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.queries.sum_questions import SumQuestion

ESTIMATES_REPORT_FORMAT = "populace report of estimates 2"
# More intervals than these are not drawn at once.
MAX_INTERVALS_DRAWN = 60
# More stages than these are in the table alone.
MAX_STAGES_DRAWN = 24
# Thousands apart as the tables have them.
THOUSANDS_EXPR = "replace(replace(format(datum.value, ',.12~r'), /,/g, '\u202f'), '-', '\u2212')"
# Numbers of a line, in the order of those of an estimate.
LINE_NUMBERS = ("estimate", "sampling", "imputation", "privacy", "total", "low", "high")
NOTE_MARKS = ("†", "‡", "§", "¶", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateLine:
    """One estimate as it is shown: its group in words, numbers in the unit of the query, and shares of its variance."""

    group: str
    estimate: float | None
    sampling: float | None
    imputation: float | None
    privacy: float | None
    total: float | None
    low: float | None
    high: float | None
    note: str
    parts: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Which share of the squared error comes from sampling, from imputation and from noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEstimates:
    """The estimates of one query."""

    name: str
    unit: str
    lines: tuple[EstimateLine, ...]

    @property
    def marks(self) -> dict[str, str]:
        """A mark for each note that some estimate has."""
        notes = dict.fromkeys(line.note for line in self.lines if line.note)
        return dict(zip(notes, NOTE_MARKS, strict=False))

    @property
    def headline(self) -> EstimateLine | None:
        """The estimate of a query that has one alone."""
        return self.lines[0] if len(self.lines) == 1 and self.lines[0].estimate is not None else None

    @property
    def drawn(self) -> tuple[EstimateLine, ...]:
        """The estimates that have an interval to draw."""
        return tuple(line for line in self.lines if line.low is not None and line.high is not None)[
            :MAX_INTERVALS_DRAWN
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatesDocument:
    """Everything the report shows, computed from what is released and from nothing else."""

    format: str
    promise: str
    summary: tuple[str, ...]
    statement: Statement
    design: str
    answers: tuple[QueryEstimates, ...]
    stages: tuple[BudgetStage, ...]

    @property
    def count(self) -> int:
        """The number of estimates."""
        return sum(len(answer.lines) for answer in self.answers)


def build_estimates_report(
    statement: Statement,
    *,
    plan: QueryPlan,
    rows: Sequence[Estimate],
    people: tuple[float, float] | None,
) -> EstimatesDocument:
    """Return the report of a release of estimates: their statement, what was asked and answered.

    `people` is the estimated size of the population and the standard deviation of its noise, where a query gives it.
    """
    design, queries = plan.design, plan.queries
    found: dict[str, list[Estimate]] = {query.name: [] for query in queries}
    for row in rows:
        found[row.query].append(row)
    answers = tuple(_summarize_query(query, found[query.name], schema=design.schema) for query in queries)
    asked = {row.query for row in rows if row.note != PUBLIC_TOTAL}
    return EstimatesDocument(
        format=ESTIMATES_REPORT_FORMAT,
        promise=describe_guarantee(statement),
        summary=(
            *_summarize([line for answer in answers for line in answer.lines]),
            *_describe_population(people, design=design),
        ),
        statement=statement,
        design=_describe_design(design),
        answers=answers,
        stages=_budget_stages(statement, plan=plan, asked=asked),
    )


def render_estimates_report(document: EstimatesDocument) -> str:
    """Return the report of estimates as HTML."""
    specs = {
        f"query-{place}": interval_chart(answer)
        for place, answer in enumerate(document.answers, start=1)
        if answer.drawn
    }
    specs["budget"] = charts.budget_chart(document.stages[:MAX_STAGES_DRAWN])
    return render_page("estimates.html", document, charts=specs, more={"max_drawn": MAX_INTERVALS_DRAWN})


def interval_chart(answer: QueryEstimates) -> charts.Spec:
    """Return a row for each estimate: a band for its interval, a darker one for sampling alone, and a diamond."""
    values = []
    for place, line in zip(
        charts.label_rows([line.group for line in answer.drawn]), answer.drawn, strict=True
    ):
        if line.estimate is None or line.low is None or line.high is None:
            continue
        # Where the sampling variance is not estimable, nobody knows what the interval would be without noise.
        share = 0.0 if line.note == VARIANCE_NOT_ESTIMABLE else math.sqrt(line.parts[0] + line.parts[1])
        values.append(
            {
                "place": place,
                "group": line.group,
                "estimate": _round_digits(line.estimate),
                "low": _round_digits(line.low),
                "high": _round_digits(line.high),
                "from": _round_digits(line.estimate - share * (line.estimate - line.low)),
                "to": _round_digits(line.estimate + share * (line.high - line.estimate)),
                "text": format_with_error(line.estimate, line.total),
                "interval": f"{format_with_error(line.low, line.total)} to {format_with_error(line.high, line.total)}",
            }
        )
    titles = {"group": answer.name, "text": "estimate", "interval": "95 % confidence interval"}
    axis = {
        "title": answer.unit or None,
        "scale": {"zero": False, "nice": True},
        "axis": {"tickCount": {"expr": "width < 480 ? 3 : 6"}, "labelExpr": THOUSANDS_EXPR},
    }
    return charts.make_spec(
        f"Estimates of {answer.name} with their confidence intervals.",
        values,
        height=26 * len(values) + 6,
        encoding={"y": charts.row_axis(), "tooltip": charts.make_tooltip(titles)},
        layers=[
            {
                "mark": charts.interval_band(14),
                "encoding": {"x": charts.quantity("low") | axis, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "bar", "color": charts.BAR, "height": 8},
                "encoding": {"x": charts.quantity("from"), "x2": {"field": "to"}},
            },
            {"mark": charts.diamond(46), "encoding": {"x": charts.quantity("estimate")}},
        ],
    )


def _summarize_query(query: Query, rows: Sequence[Estimate], *, schema: Schema) -> QueryEstimates:
    percent = query.statistic is Statistic.PROPORTION
    lines = tuple(_summarize_estimate(row, times=100.0 if percent else 1.0, schema=schema) for row in rows)
    return QueryEstimates(name=query.name, unit="%" if percent else "", lines=lines)


def _summarize_estimate(row: Estimate, *, times: float, schema: Schema) -> EstimateLine:
    squares = [(part or 0.0) ** 2 for part in (row.sampling_error, row.imputation_error, row.privacy_error)]
    whole = sum(squares)
    first, second, third = (square / whole if whole else 0.0 for square in squares)
    numbers = {
        name: None if (value := getattr(row, own)) is None else times * value
        for name, own in zip(LINE_NUMBERS, NUMBER_COLUMNS, strict=False)
    }
    group = " · ".join(_label_group(name, value, schema=schema) for name, value in row.group)
    return EstimateLine(group=group or "everybody", note=row.note, parts=(first, second, third), **numbers)


def _label_group(name: str, value: str, *, schema: Schema) -> str:
    column = schema.columns.get(name)
    label = value if column is None else column.labels.get(value, value)
    # A text tells what it is; a number needs the name of its column.
    return f"{name} {label}" if column is None or isinstance(column, RangeColumn) else label


def _summarize(lines: Sequence[EstimateLine]) -> tuple[str, ...]:
    """Return how precise the estimates are in all, and where their errors come from."""
    known = [line for line in lines if line.estimate is not None]
    suppressed = len(lines) - len(known)
    sampled = [line for line in known if line.sampling is not None and line.note != VARIANCE_NOT_ESTIMABLE]
    hidden = sum(line.sampling is not None for line in known) - len(sampled)
    found = []
    if sampled:
        less = sum(line.parts[2] <= 0.5 for line in sampled)
        which = " whose sampling variance is estimable" if hidden else ""
        found.append(
            f"Of {len(sampled)} population estimates{which}, {less} {'has' if less == 1 else 'have'} a privacy error "
            f"below the error of sampling and imputation, {len(sampled) - less} a larger one."
        )
        shares = sorted(line.parts[2] for line in sampled)
        found.append(
            f"Privacy noise multiplies the standard error by {_inflation(shares[len(shares) // 2])} at the median, and "
            f"by {_inflation(shares[-1])} at most."
        )
    if suppressed:
        found.append(f"{suppressed} suppressed: indistinguishable from noise.")
    if hidden:
        found.append(
            f"For {hidden}, the sampling variance is not estimable at this ε. Their intervals cover the truth 95 % of "
            "the time on average over design effects as assumed: about 90 % where one is 10, more than 95 % where it "
            "is small."
        )
    return tuple(found) or ("All numbers are of the sample itself.",)


def _describe_population(people: tuple[float, float] | None, *, design: Design) -> list[str]:
    """Return the size of the population that the weights add up to, beside that of the design: an early check."""
    if people is None:
        return []
    total, error = (format_with_error(each, people[1]) for each in people)
    known = design.population
    beside = "" if known is None else f"; the design declares {format_number(float(known))}"
    return [f"The respondents represent about {total} of the population (± {error}, privacy noise){beside}."]


def _inflation(share: float) -> str:
    return f"{1 / math.sqrt(1 - share):.2f}" if share < 0.999999 else "far more"


def _describe_design(design: Design) -> str:
    if design.replicates is not None:
        return f"{len(design.replicates.columns)} replicate weights"
    strata = "" if design.strata is None else f"{len(design.strata_values)} strata"
    units = f"{len(design.psu_list)} PSUs" if design.clustered else "rows"
    return f"{units} in {strata}" if strata else f"{units} drawn directly" if units == "rows" else units


def _budget_stages(statement: Statement, *, plan: QueryPlan, asked: set[str]) -> tuple[BudgetStage, ...]:
    """Return what each query took, where it can be told apart for the estimate and for its sampling error."""
    questions = {} if plan.sums is None else {each.query.name: each for each in plan.sums.questions}
    every = zip(plan.queries, plan.queries.shares, strict=True)
    shares = {query: share for query, share in every if query.name in asked}
    stages = []
    for query, share in shares.items():
        uses = _split_by_use(questions[query.name]) if query.name in questions else {"": Fraction(1)}
        for use, part in uses.items():
            stages.append(
                BudgetStage(
                    label=f"{query.name}: {use}" if use else query.name,
                    noise="every sum with its noise distribution: estimates.json",
                    mechanism="",
                    share=float(part * share / sum(shares.values())) * statement["used"]["share"],
                )
            )
    return tuple(stages)


def _split_by_use(question: SumQuestion) -> dict[str, Fraction]:
    found = {"estimate": Fraction(0), "sampling error": question.second_share}
    for asked, share in question.shares():
        found["estimate" if asked == question.sum else "sampling error"] += share
    return {use: share for use, share in found.items() if share}


def _round_digits(value: float) -> float:
    return float(f"{value:.6g}")
