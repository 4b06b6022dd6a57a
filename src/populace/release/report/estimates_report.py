"""The report of a release of estimates: what was found, how sure it is, and where its error comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any

from populace.core.number_format import format_percent
from populace.release.estimates_bundle import Estimates
from populace.release.report import charts
from populace.release.report.html_templates import embed_json, make_environment
from populace.release.report.vega_scripts import load_scripts
from populace.release.statement.cost import BudgetStage
from populace.release.statement.statement import Statement, describe_guarantee
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.schema import Schema
from populace.survey.estimate_notes import PUBLIC_TOTAL, VARIANCE_NOT_ESTIMABLE
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Query, Statistic
from populace.survey.queries.sum_questions import SumQuestion
from populace.survey.sums import Sum

ESTIMATES_REPORT_FORMAT = "populace report of estimates 1"
# More intervals than these are not drawn at once.
MAX_INTERVALS_DRAWN = 60
# More stages than these are told in the table alone.
MAX_STAGES_DRAWN = 24
# Thousands apart as the tables have them.
THOUSANDS_EXPR = "replace(replace(format(datum.value, ',.12~r'), /,/g, '\u202f'), '-', '\u2212')"
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

    def to_json(self) -> dict[str, Any]:
        """Return the document as plain JSON values, floats to six significant digits."""
        return {part.name: _to_plain(getattr(self, part.name)) for part in fields(self)}


def build_estimates_report(found: Estimates) -> EstimatesDocument:
    """Return the report of a release of estimates."""
    statement = found.statement
    rows: dict[str, list[Estimate]] = {query.name: [] for query in found.queries}
    for row in found.rows:
        rows[row.query].append(row)
    answers = tuple(_summarize_query(query, rows[query.name], schema=found.schema) for query in found.queries)
    return EstimatesDocument(
        format=ESTIMATES_REPORT_FORMAT,
        promise=describe_guarantee(statement),
        summary=(
            *_summarize([line for answer in answers for line in answer.lines]),
            *_describe_population(found),
        ),
        statement=statement,
        design=_describe_design(found),
        answers=answers,
        stages=_budget_stages(found),
    )


def render_estimates_report(document: EstimatesDocument) -> str:
    """Return the report as one HTML file that opens offline. The same document gives the same bytes."""
    specs = {
        f"query-{place}": interval_chart(answer)
        for place, answer in enumerate(document.answers, start=1)
        if answer.drawn
    }
    specs["budget"] = charts.budget_chart(document.stages[:MAX_STAGES_DRAWN])
    page = make_environment({"told": format_with_error, "percent": format_percent}).get_template(
        "estimates.html"
    )
    return page.render(
        document=document,
        statement=document.statement,
        specs_json=embed_json(specs),
        document_json=embed_json(document.to_json()),
        script=load_scripts(),
        most_drawn=MAX_INTERVALS_DRAWN,
    )


def interval_chart(answer: QueryEstimates) -> charts.Spec:
    """Return a row for each estimate: a band for its interval, a darker one for sampling alone, and a dot."""
    values = []
    for place, line in enumerate(answer.drawn):
        if line.estimate is None or line.low is None or line.high is None:
            continue
        # Where noise hides the sampling error, nobody knows what the interval would be without it.
        share = 0.0 if line.note == VARIANCE_NOT_ESTIMABLE else math.sqrt(line.parts[0] + line.parts[1])
        values.append(
            {
                "place": f"{place:03d} {line.group}",
                "group": line.group,
                "estimate": _round_digits(line.estimate),
                "low": _round_digits(line.low),
                "high": _round_digits(line.high),
                "from": _round_digits(line.estimate - share * (line.estimate - line.low)),
                "to": _round_digits(line.estimate + share * (line.high - line.estimate)),
                "told": format_with_error(line.estimate, line.total),
                "interval": f"{format_with_error(line.low, line.total)} to {format_with_error(line.high, line.total)}",
            }
        )
    tooltip = [
        {"field": "group", "title": answer.name},
        {"field": "told", "title": "estimate"},
        {"field": "interval", "title": "interval, about 95 %"},
    ]
    parts: charts.Spec = {
        "height": 26 * len(values) + 6,
        "data": {"values": values},
        "encoding": {
            "y": {
                "field": "place",
                "type": "nominal",
                "sort": None,
                "title": None,
                "axis": {
                    "labelExpr": charts.NAME_ONLY,
                    "labelLimit": {"expr": "width < 420 ? 110 : 260"},
                    "ticks": False,
                    "domain": False,
                    "labelPadding": 8,
                    "grid": False,
                },
            },
            "tooltip": tooltip,
        },
        "layer": [
            {
                "mark": {
                    "type": "bar",
                    "color": charts.ERROR_BOUND_FILL,
                    "height": 14,
                    "stroke": "#b8c6d8",
                    "strokeWidth": 0.75,
                },
                "encoding": {
                    "x": {
                        "field": "low",
                        "type": "quantitative",
                        "title": answer.unit or None,
                        "scale": {"zero": False, "nice": True},
                        "axis": {"tickCount": 6, "labelExpr": THOUSANDS_EXPR},
                    },
                    "x2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "bar", "color": charts.SYNTHETIC, "height": 8},
                "encoding": {"x": {"field": "from", "type": "quantitative"}, "x2": {"field": "to"}},
            },
            {
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "filled": True,
                    "size": 46,
                    "color": charts.INK,
                    "opacity": 1,
                },
                "encoding": {"x": {"field": "estimate", "type": "quantitative"}},
            },
        ],
    }
    return charts.make_spec(f"Estimates of {answer.name} with their intervals.", parts)


def format_with_error(value: float | None, error: float | None) -> str:
    """Return a number to as many digits as its error leaves it, two of the error, thousands apart.

    >>> format_with_error(1234.5678, 0.123).split(), format_with_error(28734.2, 310.0).split()
    (['1', '234.57'], ['28', '730'])
    >>> format_with_error(None, None)
    '–'
    """
    if value is None:
        return "–"
    places = 2 if not error else 1 - math.floor(math.log10(error))
    rounded = round(value, max(places, -12))
    shown = f"{rounded:,.{max(0, min(places, 8))}f}"
    return shown.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "\N{MINUS SIGN}")


def _summarize_query(query: Query, rows: Sequence[Estimate], *, schema: Schema) -> QueryEstimates:
    percent = query.statistic is Statistic.PROPORTION
    times = 100.0 if percent else 1.0
    return QueryEstimates(
        name=query.name,
        unit="%" if percent else "",
        lines=tuple(_summarize_estimate(row, times=times, schema=schema) for row in rows),
    )


def _summarize_estimate(row: Estimate, *, times: float, schema: Schema) -> EstimateLine:
    def scaled(value: float | None) -> float | None:
        return None if value is None else times * value

    squares = [(part or 0.0) ** 2 for part in (row.sampling_error, row.imputation_error, row.privacy_error)]
    whole = sum(squares)
    first, second, third = (square / whole if whole else 0.0 for square in squares)
    return EstimateLine(
        group=" · ".join(_label_group(name, value, schema=schema) for name, value in row.group)
        or "everybody",
        estimate=scaled(row.estimate),
        sampling=scaled(row.sampling_error),
        imputation=scaled(row.imputation_error),
        privacy=scaled(row.privacy_error),
        total=scaled(row.total_error),
        low=scaled(row.low),
        high=scaled(row.high),
        note=row.note,
        parts=(first, second, third),
    )


def _label_group(name: str, value: str, *, schema: Schema) -> str:
    column = schema.columns.get(name)
    label = value if column is None else column.labels.get(value, value)
    # A text tells what it is; a number needs the name of its column.
    return f"{name} {label}" if column is None or isinstance(column, RangeColumn) else label


def _summarize(lines: Sequence[EstimateLine]) -> tuple[str, ...]:
    """Return how sure the estimates are in all, and where their errors come from."""
    known = [line for line in lines if line.estimate is not None]
    lost = len(lines) - len(known)
    sampled = [line for line in known if line.sampling is not None]
    found = []
    unknown = [line for line in sampled if line.note == VARIANCE_NOT_ESTIMABLE]
    sampled = [line for line in sampled if line.note != VARIANCE_NOT_ESTIMABLE]
    if sampled:
        less = sum(line.parts[2] <= 0.5 for line in sampled)
        clear = " whose sampling error stands out of the noise" if unknown else ""
        found.append(
            f"Of {len(sampled)} estimates about the population{clear}, {less} {'has' if less == 1 else 'have'} a "
            "smaller error from the privacy noise than from sampling and missing answers, "
            f"{len(sampled) - less} a larger one."
        )
        widest = max(line.parts[2] for line in sampled)
        typical = sorted(line.parts[2] for line in sampled)[len(sampled) // 2]
        found.append(
            f"Noise makes the typical standard error {_inflation(typical)} what it would be without "
            "protection, and the "
            f"worst {_inflation(widest)}."
        )
    if lost:
        found.append(
            f"{lost} {'is' if lost == 1 else 'are'} too small a group to say anything beside the noise."
        )
    if unknown:
        found.append(
            f"Of {len(unknown)}, noise hides the sampling error itself. Their intervals are wide enough for whatever "
            "it can hide: they hold the truth about 95 % of the time or more often, and would be shorter without "
            "protection, by how much nobody can tell."
        )
    return tuple(found) or ("All numbers are of the sample itself.",)


def _describe_population(found: Estimates) -> list[str]:
    """Return whom the rows stand for, beside what the design says: weights that are off show here first."""
    counted = found.people
    if counted is None:
        return []
    people, error = (format_with_error(each, counted[1]) for each in counted)
    known = found.design.population
    beside = (
        ""
        if known is None
        else f"; the design says {format_with_error(float(known), None).removesuffix('.00')}"
    )
    return [
        f"The rows that answered stand for about {people} of the population (± {error} by noise){beside}."
    ]


def _inflation(share: float) -> str:
    return f"{1 / math.sqrt(1 - share):.2f} times" if share < 0.999999 else "many times"


def _describe_design(found: Estimates) -> str:
    design = found.design
    if design.replicates is not None:
        return f"{len(design.replicates.columns)} replicate weights"
    strata = "" if design.strata is None else f"{len(design.strata_values)} strata"
    psus = f"{len(design.psu_list)} psus" if design.clustered else "rows"
    return f"{psus} in {strata}" if strata else f"{psus} drawn directly" if psus == "rows" else psus


def _budget_stages(found: Estimates) -> tuple[BudgetStage, ...]:
    """Return what each query took, where it can be told apart for the estimate and for its sampling error."""
    plan = found.plan.sums
    questions = {} if plan is None else {question.query.name: question for question in plan.questions}
    used = found.statement["used"]["share"]
    stages = []
    asked = {row.query for row in found.rows if row.note != PUBLIC_TOTAL}
    shares = {
        query: share
        for query, share in zip(found.queries, found.queries.shares, strict=True)
        if query.name in asked
    }
    for query, share in shares.items():
        uses = _split_by_use(questions[query.name]) if query.name in questions else {"": Fraction(1)}
        for use, part in uses.items():
            stages.append(
                BudgetStage(
                    label=f"{query.name}: {use}" if use else query.name,
                    noise="see estimates.json",
                    mechanism="all laws are there",
                    share=float(part * share / sum(shares.values())) * used,
                )
            )
    return tuple(stages)


def _split_by_use(question: SumQuestion) -> dict[str, Fraction]:
    found = {"estimate": Fraction(0), "sampling error": question.second_share}
    estimated: set[Sum] = set(question.sums)
    for asked, share in question.shares():
        found["estimate" if asked in estimated else "sampling error"] += share
    return {use: share for use, share in found.items() if share}


def _round_digits(value: float) -> float:
    return float(f"{value:.6g}")


def _to_plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: _to_plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, dict):
        return value  # the statement: its numbers are promises and stay as they are
    if isinstance(value, list | tuple):
        return [_to_plain(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
