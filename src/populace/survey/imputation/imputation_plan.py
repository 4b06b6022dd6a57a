"""What is wished for about a column with missing values: all public, known before a row is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property

from populace.core.array_types import Truth
from populace.core.errors import SchemaError, UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise
from populace.privacy.smooth.smooth_noise import LN_2, SmoothNoise
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.syntax_tree import And, Comparison, Expression, Literal, Name, Operator
from populace.schema.exact_numbers import format_decimal
from populace.schema.hints import quote_names
from populace.schema.schema import Schema
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_result import Estimand, ValueRange
from populace.survey.imputation.matching_cells import cells_where
from populace.survey.smooth_questions import Donors, ImputedQuestion, ImputedStatistic
from populace.survey.sums import Sum, SumFactor

# What is set aside of a budget for the errors of imputed answers: one part of so many and the number of estimates.
_ERROR_PARTS, _MAX_ERROR_PARTS = 3, 9


class CellSum(Enum):
    """What is added up in every cell."""

    SIZE = "size"
    ALL = "all"
    KNOWN = "known"
    VALUE = "value"
    SQUARE = "square"
    WITHIN = "within"


CellSumKey = tuple[CellSum, ValueRange | None]

# How ε is shared among sums, by what their noise does to estimates and to their errors.
_SUM_WEIGHTS = dict(zip(CellSum, (0, 2, 2, 2, 1, 2), strict=True))
_SUM_WEIGHTS_TO_IMPUTE = dict(zip(CellSum, (2, 2, 3, 4, 6, 1), strict=True))
_BOUND_WEIGHT = 3
# A little more than ln 2 is needed: the last digits of ε would buy noise without end.
_EPSILON_MARGIN = Fraction(1, 2**15)


@dataclass(frozen=True, kw_only=True)
class ImputationPlan:
    """The estimands of one column with missing values; all share what is asked about its cells.

    A subpopulation must be made of whole cells of the matching columns. `population` is the public number of persons
    that the rows were drawn from, if they are a notable part of them.
    """

    donors: Donors
    estimands: tuple[Estimand, ...]
    how: MissingHandling
    schema: Schema
    population: Fraction | None = None

    def __post_init__(self) -> None:
        cells = math.prod(self.by.shape(self.schema.domain))
        if cells > LIMITS.max_matching_cells:
            raise UsageError(
                f"{self.by} has {cells} cells; {LIMITS.max_matching_cells} is the most to match missing values by.",
                hint="match by fewer columns, or group their codes",
            )
        for estimand, inside in zip(self.estimands, self.inside, strict=True):
            if not inside.any():
                raise UsageError(
                    f"no row can meet {estimand.where!r}.",
                    hint="ask for a subpopulation that can have members",
                )
        for between, condition in self._within.items():
            if condition is None and self.how is not MissingHandling.IMPUTE:
                low, high = (format_decimal(end) or str(end) for end in between)
                raise UsageError(
                    f"codes of {self.donors.column!r} do not tell what lies from {low} to {high}.",
                    hint="let bins of the column begin and end there, or impute",
                )

    @cached_property
    def by(self) -> Marginal:
        """The cells that are asked about: of all matching columns, where missing values are matched."""
        return self.frame if self.how is MissingHandling.IGNORE else self.donors.match

    @cached_property
    def frame(self) -> Marginal:
        """The cells of those matching columns that make the subpopulations."""
        match = self.donors.match
        layout, named = self.schema.layout, set[str]()
        for estimand in self.estimands:
            if estimand.where is not None:
                named |= set(layout.condition(parse_condition(estimand.where), place="where").variables)
        return Marginal.with_groupings(
            tuple(name for name in match.clique if name in named),
            {grouping.column: grouping for grouping in match.groupings},
        )

    @cached_property
    def inside(self) -> tuple[Truth, ...]:
        """The cells of each estimand."""
        return tuple(
            cells_where(estimand.where, by=self.by, schema=self.schema) for estimand in self.estimands
        )

    @cached_property
    def _within(self) -> dict[ValueRange, str | None]:
        """Conditions on codes for each range of values that a share is asked of; None where bins do not tell."""
        words: dict[ValueRange, list[Expression]] = {}
        for estimand in self.estimands:
            if estimand.between is not None:
                words.setdefault(estimand.between, []).extend(
                    [] if estimand.that is None else [parse_condition(estimand.that)]
                )
        return {between: self._condition_within(between, own) for between, own in words.items()}

    def _condition_within(self, between: ValueRange, words: Sequence[Expression]) -> str | None:
        """Return a condition on codes that holds within a range: one in a query's words, or from end to end."""
        low, high = between
        name, line = Name(self.donors.column), (self.donors.low, self.donors.high)
        ends = [] if low <= line[0] else [(Operator.AT_LEAST, format_decimal(low))]
        ends += [] if high >= line[1] else [(Operator.AT_MOST, format_decimal(high))]
        if not ends:
            return ""
        parts = [Comparison(name, sign, Literal(text, quoted=False)) for sign, text in ends if text]
        # An end that no decimal names is the edge of no bin.
        whole = [And(tuple(parts))] if len(parts) == len(ends) else []
        for condition in (*words, *whole):
            try:
                self.schema.layout.condition(condition, place="between")
            except SchemaError:
                continue
            return str(condition)
        return None

    @cached_property
    def sums(self) -> dict[CellSumKey, Sum]:
        """The sums over cells that estimates and their errors are made of."""
        column = self.schema.columns[self.donors.column]
        known, value = (
            (column.name,),
            SumFactor(column=column.name, low=self.donors.low, high=self.donors.high),
        )
        found: dict[CellSumKey, Sum] = {}
        if self.how is not MissingHandling.IGNORE:
            found[CellSum.ALL, None] = Sum(by=self.by, where=column.universe)
        if self.how is MissingHandling.IMPUTE:
            found[CellSum.SIZE, None] = Sum(by=self.frame, where=column.universe)
        found[CellSum.KNOWN, None] = Sum(by=self.by, known=known)
        if any(estimand.between is None for estimand in self.estimands):
            found[CellSum.VALUE, None] = Sum(by=self.by, factors=(value,))
            found[CellSum.SQUARE, None] = Sum(by=self.by, factors=(value, value))
        for between, condition in self._within.items():
            if condition is not None:
                found[CellSum.WITHIN, between] = Sum(by=self.by, where=condition or None, known=known)
        return found

    def question(self, estimand: Estimand) -> ImputedQuestion:
        """Return what is asked about filled rows for one estimand: a sum, or how many there are."""
        return ImputedQuestion(
            statistic=ImputedStatistic.SUM if estimand.between is None else ImputedStatistic.FREQUENCY,
            donors=self.donors,
            where=estimand.where,
            between=estimand.between,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImputationNoise:
    """The noise of everything that is asked: of each sum, of the size of the bound, and of each imputed answer."""

    sums: tuple[Noise, ...]
    size: Noise | None = None
    answers: tuple[SmoothNoise, ...] = ()

    @classmethod
    def of(cls, filling: ImputationPlan, *, budget: Budget, share: Fraction = Fraction(1)) -> ImputationNoise:
        """Share out a part of a budget among all that is asked; too small a one is refused.

        Imputed answers take what is left when errors have their part: a quarter for one estimate, less of more,
        and never less than a ninth.
        """
        imputed = filling.how is MissingHandling.IMPUTE
        weights = [(_SUM_WEIGHTS_TO_IMPUTE if imputed else _SUM_WEIGHTS)[part] for part, _ in filling.sums]
        estimands = len(filling.estimands)
        if not imputed:
            step = share / sum(weights)
            return cls(sums=tuple(budget.sum_noise(step * weight, sums=1) for weight in weights))
        errors = share / min(_ERROR_PARTS + estimands, _MAX_ERROR_PARTS)
        step = errors / (sum(weights) + _BOUND_WEIGHT)
        _refuse_small_epsilon(filling, budget=budget, share=share - errors)
        answer = budget.smooth_noise(share - errors, t=LN_2, answers=estimands)
        return cls(
            sums=tuple(budget.sum_noise(step * weight, sums=1) for weight in weights),
            size=budget.bound_noise(step * _BOUND_WEIGHT),
            answers=(answer,) * estimands,
        )


def _refuse_small_epsilon(filling: ImputationPlan, *, budget: Budget, share: Fraction) -> None:
    """Refuse to impute for less than ln 2 an answer, in words of whole runs: what ε they take."""
    estimands = len(filling.estimands)
    each = budget.smooth_epsilon(share, answers=estimands)
    if each * (1 - _EPSILON_MARGIN) > LN_2:
        return
    # Rounded up in the third digit, so that it is enough.
    least = float(LN_2 * estimands * budget.unit.marginal_l1 / share)
    scale = 10.0 ** (2 - math.floor(math.log10(least)))
    shown = (math.floor(least * scale) + 1) / scale
    names = list(dict.fromkeys(estimand.query for estimand in filling.estimands))
    raise UsageError(
        f"{'queries' if len(names) > 1 else 'query'} {quote_names(names)}: each of {estimands} imputed "
        "answers would have an "
        f"epsilon of {float(each):.3g}, and needs more than {float(LN_2):.3g}.",
        hint=f"these queries together need an epsilon of {shown:g} with --delta 0 (more with a delta above 0), or "
        f'write max_uses = 2 or how = "model" under [missing.{filling.donors.column}], which need no such epsilon',
    )
