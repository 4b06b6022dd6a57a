"""What is wished for about a column with missing values: all public, known before a row is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from functools import cached_property

from populace.errors import SchemaError, UsageError
from populace.marginals import Marginal
from populace.privacy.budget import Budget
from populace.privacy.mechanisms import Noise
from populace.privacy.smooth_noise import LN_2, SmoothNoise
from populace.records import dataclass
from populace.schema.expressions import parse
from populace.schema.hints import listing
from populace.schema.numbers import decimal_text
from populace.schema.schema import Schema
from populace.schema.syntax import And, Comparison, Expression, Literal, Name, Operator
from populace.survey.design_parts import Handling
from populace.survey.matching import Truth, cells_where
from populace.survey.questions import Donors, ImputedQuestion, Statistic
from populace.survey.result import Group
from populace.survey.sums import Factor, Sum

Between = tuple[Fraction, Fraction]

MOST_CELLS = 2**12
# What is set aside of a budget for the errors of imputed answers: one part of so many and the number of estimates.
_PARTS_BESIDE, _MOST_PARTS = 3, 9


class Part(Enum):
    """What is added up in every cell."""

    SIZE = "size"
    ALL = "all"
    KNOWN = "known"
    VALUE = "value"
    SQUARE = "square"
    WITHIN = "within"


Key = tuple[Part, Between | None]

# How ε is shared among sums, by what their noise does to estimates and to their errors.
_WEIGHTS = {
    Handling.IGNORE: {Part.KNOWN: 2, Part.VALUE: 2, Part.SQUARE: 1, Part.WITHIN: 2},
    Handling.MODEL: {Part.ALL: 2, Part.KNOWN: 2, Part.VALUE: 2, Part.SQUARE: 1, Part.WITHIN: 2},
    Handling.IMPUTE: {
        Part.SIZE: 2,
        Part.ALL: 2,
        Part.KNOWN: 3,
        Part.VALUE: 4,
        Part.SQUARE: 6,
        Part.WITHIN: 1,
    },
}
_BOUND_WEIGHT = 3
# A little more than ln 2 is needed: the last digits of ε would buy noise without end.
_ROOM = Fraction(1, 2**15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One estimate: the mean of the column or, with `between`, the share of rows whose value lies there.

    `that` are the query's own words for it, in which an end may be the first value that lies outside.
    """

    query: str
    group: Group = ()
    where: str | None = None
    between: Between | None = None
    that: str | None = None


@dataclass(frozen=True, kw_only=True)
class Filling:
    """What is wished for about one column with missing values; all wishes share what is asked about its cells.

    A subpopulation must be made of whole cells of the matching columns. `population` is the public number of persons
    that the rows were drawn from, if they are a notable part of them.
    """

    donors: Donors
    wishes: tuple[Wish, ...]
    how: Handling
    schema: Schema
    population: Fraction | None = None

    def __post_init__(self) -> None:
        cells = math.prod(self.by.shape(self.schema.domain))
        if cells > MOST_CELLS:
            raise UsageError(
                f"{self.by} has {cells} cells; {MOST_CELLS} is the most for estimates with missing values.",
                hint="match by fewer columns, or group their codes",
            )
        for wish, inside in zip(self.wishes, self.inside, strict=True):
            if not inside.any():
                raise UsageError(
                    f"no row can meet {wish.where!r}.", hint="ask for a subpopulation that can have members"
                )
        for between, condition in self._within.items():
            if condition is None and self.how is not Handling.IMPUTE:
                low, high = (decimal_text(end) or str(end) for end in between)
                raise UsageError(
                    f"codes of {self.donors.column!r} do not tell what lies from {low} to {high}.",
                    hint="let bins of the column begin and end there, or impute",
                )

    @cached_property
    def by(self) -> Marginal:
        """The cells that are asked about: of all matching columns, where missing values are matched."""
        return self.frame if self.how is Handling.IGNORE else self.donors.match

    @cached_property
    def frame(self) -> Marginal:
        """The cells of those matching columns that make the subpopulations."""
        match = self.donors.match
        layout, named = self.schema.layout, set[str]()
        for wish in self.wishes:
            if wish.where is not None:
                named |= set(layout.condition(parse(wish.where), place="where").variables)
        return Marginal.grouped(
            tuple(name for name in match.clique if name in named),
            {grouping.column: grouping for grouping in match.groupings},
        )

    @cached_property
    def inside(self) -> tuple[Truth, ...]:
        """The cells of each wish."""
        return tuple(cells_where(wish.where, by=self.by, schema=self.schema) for wish in self.wishes)

    @cached_property
    def _within(self) -> dict[Between, str | None]:
        """Conditions on codes for each range of values that a share is asked of; None where bins do not tell."""
        words: dict[Between, list[Expression]] = {}
        for wish in self.wishes:
            if wish.between is not None:
                words.setdefault(wish.between, []).extend([] if wish.that is None else [parse(wish.that)])
        return {between: self._told(between, own) for between, own in words.items()}

    def _told(self, between: Between, words: Sequence[Expression]) -> str | None:
        """Return a condition on codes that holds within a range: one in a query's words, or from end to end."""
        low, high = between
        name, line = Name(self.donors.column), (self.donors.low, self.donors.high)
        ends = [] if low <= line[0] else [(Operator.AT_LEAST, decimal_text(low))]
        ends += [] if high >= line[1] else [(Operator.AT_MOST, decimal_text(high))]
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
    def sums(self) -> dict[Key, Sum]:
        """The sums over cells that estimates and their errors are made of."""
        column = self.schema.columns[self.donors.column]
        known, value = (column.name,), Factor(column=column.name, low=self.donors.low, high=self.donors.high)
        found: dict[Key, Sum] = {}
        if self.how is not Handling.IGNORE:
            found[Part.ALL, None] = Sum(by=self.by, where=column.universe)
        if self.how is Handling.IMPUTE:
            found[Part.SIZE, None] = Sum(by=self.frame, where=column.universe)
        found[Part.KNOWN, None] = Sum(by=self.by, known=known)
        if any(wish.between is None for wish in self.wishes):
            found[Part.VALUE, None] = Sum(by=self.by, factors=(value,))
            found[Part.SQUARE, None] = Sum(by=self.by, factors=(value, value))
        for between, condition in self._within.items():
            if condition is not None:
                found[Part.WITHIN, between] = Sum(by=self.by, where=condition or None, known=known)
        return found

    def question(self, wish: Wish) -> ImputedQuestion:
        """Return what is asked about filled rows for one wish: a sum, or how many there are."""
        return ImputedQuestion(
            statistic=Statistic.SUM if wish.between is None else Statistic.FREQUENCY,
            donors=self.donors,
            where=wish.where,
            between=wish.between,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """The noise of everything that is asked: of each sum, of the size of the bound, and of each imputed answer."""

    sums: tuple[Noise, ...]
    size: Noise | None = None
    answers: tuple[SmoothNoise, ...] = ()

    @classmethod
    def of(cls, filling: Filling, *, budget: Budget, share: Fraction = Fraction(1)) -> Laws:
        """Share out a part of a budget among all that is asked; too small a one is refused.

        Imputed answers take what is left when errors have their part: a quarter for one estimate, less of more,
        and never less than a ninth.
        """
        weights = [_WEIGHTS[filling.how][part] for part, _ in filling.sums]
        wishes = len(filling.wishes)
        if filling.how is not Handling.IMPUTE:
            step = share / sum(weights)
            return cls(sums=tuple(budget.sum_noise(step * weight, sums=1) for weight in weights))
        errors = share / min(_PARTS_BESIDE + wishes, _MOST_PARTS)
        step = errors / (sum(weights) + _BOUND_WEIGHT)
        _refuse_few(filling, budget=budget, share=share - errors)
        answer = budget.smooth_noise(share - errors, t=LN_2, answers=wishes)
        return cls(
            sums=tuple(budget.sum_noise(step * weight, sums=1) for weight in weights),
            size=budget.bound_noise(step * _BOUND_WEIGHT),
            answers=(answer,) * wishes,
        )


def _refuse_few(filling: Filling, *, budget: Budget, share: Fraction) -> None:
    """Refuse to impute for less than ln 2 an answer, in words of whole runs: what ε they take."""
    wishes = len(filling.wishes)
    each = budget.smooth_epsilon(share, answers=wishes)
    if each * (1 - _ROOM) > LN_2:
        return
    # Rounded up in the third digit, so that it is enough.
    least = float(LN_2 * wishes * budget.unit.marginal_l1 / share)
    scale = 10.0 ** (2 - math.floor(math.log10(least)))
    shown = (math.floor(least * scale) + 1) / scale
    names = list(dict.fromkeys(wish.query for wish in filling.wishes))
    raise UsageError(
        f"{'queries' if len(names) > 1 else 'query'} {listing(names)}: each of {wishes} imputed answers would have an "
        f"epsilon of {float(each):.3g}, and needs more than {float(LN_2):.3g}.",
        hint=f"these queries together need an epsilon of {shown:g} with --delta 0 (more with a delta above 0), or "
        f'write how = "model" under [missing.{filling.donors.column}], which needs no such epsilon',
    )
