"""What a claim is made of: statistics of subpopulations, compared with each other, with numbers, or ranked.

::

    claim      =  sum ("<" | "<=" | ">" | ">=") sum     one statistic, or several, against a threshold
               |  ("largest" | "smallest") "(" column ["|" condition] ")" "==" 'value'
               |  sum                                   an estimate: the file says within which distance
    sum        =  term { ("+" | "-") term }
    term       =  number  |  [number "*"] statistic
    statistic  =  "count" "(" [condition] ")"
               |  ("share" | "mean" | "total" | "median" | "min" | "max") "(" variable ["|" condition] ")"
               |  "correlation" "(" variable "," variable ["|" condition] ")"
               |  "coefficient" "(" variable "~" variable { "+" variable } ["|" condition] ")"
    variable   =  column  |  condition                  a condition is 1 where it holds, else 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

from populace.schema.conditions.syntax_tree import Name, Operator
from populace.schema.exact_numbers import format_decimal


class Statistic(StrEnum):
    """What is said of the rows that meet a condition."""

    COUNT = "count"
    SHARE = "share"
    MEAN = "mean"
    TOTAL = "total"
    MEDIAN = "median"
    MINIMUM = "min"
    MAXIMUM = "max"
    CORRELATION = "correlation"
    COEFFICIENT = "coefficient"

    @property
    def bounded(self) -> bool:
        """Whether one row moves it, or the sums that it follows from, by a public amount at most."""
        return self not in (Statistic.MEDIAN, Statistic.MINIMUM, Statistic.MAXIMUM)

    @property
    def additive(self) -> bool:
        """Whether it is itself a sum over rows."""
        return self in (Statistic.COUNT, Statistic.TOTAL)

    @property
    def averaged(self) -> bool:
        """Whether it is a mean, of a number or of a condition."""
        return self in (Statistic.MEAN, Statistic.SHARE)

    def list_products(self, variables: int) -> list[tuple[int, int]]:
        """Return the pairs of variables whose products it follows from, besides the count and the means.

        >>> Statistic.COEFFICIENT.list_products(2), Statistic.MEAN.list_products(1)
        ([(0, 1), (1, 1)], [])
        """
        if self.additive or self.averaged:
            return []
        # The variance of an outcome says nothing about its slope.
        first = 1 if self is Statistic.COEFFICIENT else 0
        return [(i, j) for i in range(variables) for j in range(max(i, first), variables)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A number of each row: that of a column, or 1 where a condition holds and 0 where it does not."""

    column: str | None = None
    that: str | None = None

    def __str__(self) -> str:
        return self.that or str(Name(self.column or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A statistic of variables among the rows that meet a condition and have all these variables.

    >>> str(Quantity(statistic=Statistic.MEAN, variables=(Variable(column="AGE"),), where="SEX == '1'"))
    "mean(AGE | SEX == '1')"
    """

    statistic: Statistic
    variables: tuple[Variable, ...] = ()
    where: str | None = None

    def __str__(self) -> str:
        named = list(map(str, self.variables))
        if self.statistic is Statistic.COEFFICIENT:
            named = [f"({each})" if each.that else str(each) for each in self.variables]
        if self.statistic is Statistic.COUNT:
            return f"count({self.where or ''})"
        if self.statistic is Statistic.COEFFICIENT:
            inner = f"{named[0]} ~ {' + '.join(named[1:])}"
        else:
            inner = ", ".join(named)
        return f"{self.statistic}({inner}{f' | {self.where}' if self.where else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A weighted sum of quantities, and a number.

    >>> count = Quantity(statistic=Statistic.COUNT)
    >>> str(Combination(terms=((Fraction(1), count), (Fraction(-2), count)), constant=Fraction(3)))
    'count() - 2 * count() + 3'
    """

    terms: tuple[tuple[Fraction, Quantity], ...] = ()
    constant: Fraction = Fraction(0)

    def __sub__(self, other: Combination) -> Combination:
        turned = tuple((-weight, quantity) for weight, quantity in other.terms)
        return Combination(terms=self.terms + turned, constant=self.constant - other.constant)

    def __str__(self) -> str:
        parts = [(weight, f"{_format_weight(weight)}{quantity}") for weight, quantity in self.terms]
        if self.constant or not parts:
            parts.append((self.constant, _format_number(abs(self.constant))))
        (first, text), *rest = parts
        signs = (f" {'-' if weight < 0 else '+'} {each}" for weight, each in rest)
        return f"{'-' if first < 0 else ''}{text}{''.join(signs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inequality:
    """Two combinations that are compared."""

    left: Combination
    operator: Operator
    right: Combination

    @property
    def excess(self) -> Combination:
        """What is above 0 where the inequality holds, and below 0 where it does not."""
        if self.operator in (Operator.BELOW, Operator.AT_MOST):
            return self.right - self.left
        return self.left - self.right

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A value that is the most frequent one of its column, or the rarest, among rows that meet a condition."""

    column: str
    value: str
    largest: bool = True
    where: str | None = None

    def __str__(self) -> str:
        word, given = "largest" if self.largest else "smallest", f" | {self.where}" if self.where else ""
        quoted = "'" + self.value.replace("'", "''") + "'"
        return f"{word}({Name(self.column)}{given}) == {quoted}"


Assertion: TypeAlias = Combination | Inequality | Rank


def list_quantities(assertion: Assertion) -> Iterator[Quantity]:
    """Yield the quantities of a claim, each time they are named; a rank has none."""
    if isinstance(assertion, Inequality):
        yield from (quantity for _, quantity in assertion.excess.terms)
    elif isinstance(assertion, Combination):
        yield from (quantity for _, quantity in assertion.terms)


def _format_weight(weight: Fraction) -> str:
    return "" if abs(weight) == 1 else f"{_format_number(abs(weight))} * "


def _format_number(value: Fraction) -> str:
    return format_decimal(value) or f"{float(value):.17g}"
