"""The plan of a run: how each query is answered, and for which share of the budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from populace.core.errors import UsageError
from populace.privacy.accounting.budget import Budget
from populace.schema.codec.decoder import code_labels
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.syntax_tree import And, Comparison, Literal, Name, Operator
from populace.schema.exact_numbers import format_decimal, parse_number
from populace.schema.schema import Schema
from populace.survey.calibration.count_plan import Calibration, CountPlan
from populace.survey.design import survey_columns as columns
from populace.survey.design.design import Design
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_result import Estimand, ValueRange
from populace.survey.imputation.imputation_plan import ImputationNoise, ImputationPlan
from populace.survey.queries.adjusted_plan import AdjustedPlan
from populace.survey.queries.queries import NoiseKind, Queries, Query, Statistic
from populace.survey.queries.query_routes import Route, route_query
from populace.survey.queries.sum_plan import SumPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryPlan:
    """How every query of a run is answered, for which share of the budget: made once, from public facts alone.

    A query is answered by weighted sums, by imputing missing answers, or by counts that are calibrated to public
    totals. The run, its dry run, the statement, the report and verification all use the same plan.
    """

    design: Design
    queries: Queries
    budget: Budget
    sums: SumPlan | None
    adjusted: tuple[AdjustedPlan, ...]
    imputations: tuple[tuple[ImputationPlan, ImputationNoise], ...]
    counts: CountPlan | None

    @classmethod
    def of(cls, design: Design, queries: Queries, *, budget: Budget) -> QueryPlan:
        """Plan all queries; what cannot be answered is refused."""
        shares = dict(zip(queries, queries.shares, strict=True))
        imputed: dict[str, list[Query]] = {}
        adjusted: dict[tuple[tuple[str, ...], bool], list[Query]] = {}
        counted, summed = [], []
        for query in queries:
            match route_query(query, design):
                case Route.IMPUTED, (name,):
                    imputed.setdefault(name, []).append(query)
                case ((Route.ADJUSTED | Route.FILLED), filled):
                    counts_rows = query.statistic is Statistic.FREQUENCY
                    adjusted.setdefault((filled, counts_rows), []).append(query)
                case Route.COUNTED, _:
                    counted.append(query)
                case _:
                    summed.append(query)

        def share_of(some: Sequence[Query]) -> Fraction:
            return sum((shares[query] for query in some), Fraction(0))

        counts = _plan_counts(counted, design, budget=budget, share=share_of(counted)) if counted else None
        # What totals decide costs nothing: its share goes to what has to be asked.
        rest = 1 - counts.share if counts is not None and counts.decided else Fraction(1)
        if not rest:
            raise UsageError(
                "all that is asked for are public totals of the design.",
                hint="take them from there, for nothing; ask for what they do not decide",
            )
        plans = [(_plan_imputation(name, own, design), share_of(own) / rest) for name, own in imputed.items()]
        return cls(
            design=design,
            queries=queries,
            budget=budget,
            sums=SumPlan.of(
                design,
                Queries(schema=queries.schema, queries=tuple(summed)),
                budget=budget,
                share=share_of(summed),
            )
            if summed
            else None,
            adjusted=tuple(
                AdjustedPlan.of(own, design=design, filled=filled, budget=budget, share=share_of(own) / rest)
                for (filled, _), own in adjusted.items()
            ),
            imputations=tuple(
                (plan, ImputationNoise.of(plan, budget=budget, share=share)) for plan, share in plans
            ),
            counts=counts,
        )

    @classmethod
    def narrowest(
        cls, design: Design, queries: Queries, *, epsilon: Fraction, delta: Fraction
    ) -> tuple[QueryPlan, Fraction]:
        """Return the plan with the least expected widths and the δ that it uses: the one that is offered, or none.

        Gaussian noise is worth its δ where many sums share a budget. With few of them, and for answers with smooth
        noise, pure noise is smaller and promises more.
        """
        unit = design.schema.unit
        offered = cls.of(design, queries, budget=Budget.of(epsilon, delta, unit=unit))
        if not delta:
            return offered, delta
        imputed = any(plan.how is MissingHandling.IMPUTE for plan, _ in offered.imputations)
        pure = cls.of(design, queries, budget=Budget.of(epsilon, Fraction(0), unit=unit))
        widths = [0.0 if each.sums is None else each.sums.log_width for each in (pure, offered)]
        return (pure, Fraction(0)) if imputed or widths[0] < widths[1] else (offered, delta)

    @property
    def fixed(self) -> bool:
        """Whether all questions are settled before the first answer.

        Calibrated counts are asked by what the sample's table answers, quantiles of clusters by where they lie.
        """
        twice = (self.sums is not None and any(self.sums.second_shares)) or bool(self.adjusted)
        return not twice and (self.counts is None or self.counts.decided)


def list_estimands(query: Query, schema: Schema) -> Iterator[Estimand]:
    """Yield one estimand for each group of a query, with the condition that its rows meet, the query's own included.

    >>> schema = Schema.from_sizes({"SEX": 2, "AGE": 3})
    >>> [each.where for each in list_estimands(Query(statistic="count", by=("SEX",), where="AGE < 2"), schema)]
    ['(AGE < 2) and SEX >= 0 and SEX <= 0', '(AGE < 2) and SEX >= 1 and SEX <= 1']
    """
    texts = [list_group_labels(schema, name) for name in query.by]
    own = [] if query.where is None else [f"({query.where})"]
    for cell in product(*(range(len(each)) for each in texts)):
        group = tuple((name, held[code]) for name, held, code in zip(query.by, texts, cell, strict=True))
        parts = [
            *own,
            *(_condition_of_code(schema, name, code) for name, code in zip(query.by, cell, strict=True)),
        ]
        yield Estimand(query=query.name, group=group, where=" and ".join(parts) or None)


def list_group_labels(schema: Schema, name: str) -> tuple[str, ...]:
    """Return the values of a column; of numbers in bins, from where to where each bin goes."""
    column = schema.columns[name]
    if isinstance(column, RangeColumn):
        return code_labels(column)[: column.levels]
    return columns.values(columns.scale(schema, name, place="by"))


def _condition_of_code(schema: Schema, name: str, code: int) -> str:
    """Return the condition that a column has one value, or lies in one bin."""
    column, own = schema.columns[name], Name(name)
    if isinstance(column, IntegerColumn):
        first, last = column.bounds(code)
        return f"{own} >= {first} and {own} <= {last}"
    if isinstance(column, DecimalColumn):
        low, high = (format_decimal(edge) or str(float(edge)) for edge in column.bounds(code))
        return f"{own} >= {low}" + (f" and {own} < {high}" if code < column.levels - 1 else "")
    text = columns.values(columns.scale(schema, name, place="by"))[code]
    return str(Comparison(own, Operator.EQUAL, Literal(text)))


def _plan_imputation(name: str, queries: Sequence[Query], design: Design) -> ImputationPlan:
    schema, missing = design.schema, design.missing[name]
    estimands = []
    for query in queries:
        between = None if query.that is None else _parse_range(query, name, schema)
        own = list_estimands(query, schema)
        estimands += [replace(each, between=between, that=query.that) for each in own]
    # One number above 1 counts the population; a share says nothing about it.
    known = design.fpc if isinstance(design.fpc, Fraction) and design.fpc > 1 else None
    return ImputationPlan(
        donors=missing.donors(schema),
        estimands=tuple(estimands),
        how=missing.how,
        schema=schema,
        population=design.population or known,
    )


def _parse_range(query: Query, name: str, schema: Schema) -> ValueRange:
    """Return the range of a column that a condition names, both ends included."""
    whole = parse_condition(query.that or "")
    low, high = columns.span(schema, name, place=query.place)
    column = schema.columns[name]
    decimals = 0 if isinstance(column, IntegerColumn) else getattr(column, "decimals", None)
    for part in whole.parts if isinstance(whole, And) else (whole,):
        value = (
            parse_number(part.right.text)
            if isinstance(part, Comparison) and part.left.name == name and isinstance(part.right, Literal)
            else None
        )
        strict = isinstance(part, Comparison) and part.operator in (Operator.BELOW, Operator.ABOVE)
        unequal = isinstance(part, Comparison) and part.operator is Operator.UNEQUAL
        if not isinstance(part, Comparison) or value is None or unequal or (strict and decimals is None):
            raise UsageError(
                f"{query.place}: {query.that} is not one range of {name!r}.",
                hint=f"compare {Name(name)} with numbers: {Name(name)} >= 10 and {Name(name)} <= 20",
            )
        steps = 10 ** (decimals or 0)
        if part.operator in (Operator.BELOW, Operator.AT_MOST, Operator.EQUAL):
            high = min(high, Fraction(math.ceil(value * steps) - 1, steps) if strict else value)
        if part.operator in (Operator.ABOVE, Operator.AT_LEAST, Operator.EQUAL):
            low = max(low, Fraction(math.floor(value * steps) + 1, steps) if strict else value)
    if low > high:
        raise UsageError(f"{query.place}: no value of {name!r} meets {query.that}.", hint="give a range")
    return low, high


def _plan_counts(queries: Sequence[Query], design: Design, *, budget: Budget, share: Fraction) -> CountPlan:
    return CountPlan(
        counts=tuple(
            replace(each, smooth=query.noise is NoiseKind.SMOOTH)
            for query in queries
            for each in list_estimands(query, design.schema)
        ),
        calibration=Calibration.of(design),
        schema=design.schema,
        budget=budget,
        share=share,
    )
