"""Sums that can be asked about private rows: each row adds a whole number of steps, never more than is public.

A row's product of numbers, each held to its public range, is expressed in steps of 1/`STEPS` of the most it can be, and
added to the one cell of a marginal that the row lies in. So one row moves the cells by at most `STEPS` in L1 and in
L2, whatever it holds. Proof: docs/proofs/sums.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.privacy.accounting.fixed_point import STEPS as STEPS

ALL_ROWS = Marginal(())


@dataclass(frozen=True, slots=True, kw_only=True)
class SumFactor:
    """A number of each row: a column's value held to a public range, less a public centre.

    >>> SumFactor(column="AGE", low=Fraction(0), high=Fraction(99), centre=Fraction(40)).most
    Fraction(59, 1)
    """

    column: str
    low: Fraction
    high: Fraction
    centre: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not self.low <= self.high or not self.most:
            raise UsageError(
                f"numbers of {self.column!r} from {self.low} to {self.high} cannot be added up.",
                hint="give the lower end of the range first, and some room",
            )

    @property
    def most(self) -> Fraction:
        """The greatest distance from 0 that the number can have."""
        return max(abs(self.low - self.centre), abs(self.high - self.centre))

    def __str__(self) -> str:
        return self.column


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicator:
    """A number of each row: 1 where a condition holds and 0 where it does not, less a public centre.

    >>> Indicator(that="AGE >= 65", centre=Fraction(1, 5)).most
    Fraction(4, 5)
    """

    that: str
    centre: Fraction = Fraction(0)

    @property
    def most(self) -> Fraction:
        """The greatest distance from 0 that the number can have."""
        return max(abs(self.centre), abs(1 - self.centre))

    def __str__(self) -> str:
        return f"[{self.that}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellWeights:
    """What a row counts for: a public number for each cell of a marginal, in order, 0 or more.

    >>> CellWeights(by=Marginal(("SEX",)), values=(Fraction(12), Fraction(7))).most
    Fraction(12, 1)
    """

    by: Marginal
    values: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not self.values or min(self.values) < 0 or not self.most:
            raise UsageError(
                f"the weights by {self.by} are below 0, or all are 0.", hint="give numbers of 0 or more"
            )

    @property
    def most(self) -> Fraction:
        """The greatest of them."""
        return max(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What each row adds, and to which cell: the product of its weight and its factors, 1 where there are none.

    A row counts only where `where` holds (a condition in the schema's language), and where every factor and every
    column of `known` has a value, neither missing nor outside its universe, and where every column of `positive` has a
    number above 0.

    >>> income = SumFactor(column="INCOME", low=Fraction(0), high=Fraction(50_000))
    >>> Sum(by=Marginal(("SEX",)), factors=(income, income)).most
    Fraction(2500000000, 1)
    """

    by: Marginal = ALL_ROWS
    where: str | None = None
    factors: tuple[SumFactor | Indicator, ...] = ()
    known: tuple[str, ...] = ()
    weights: CellWeights | None = None
    positive: tuple[str, ...] = ()

    @property
    def most(self) -> Fraction:
        """The most that one row can add or take away."""
        heaviest = Fraction(1) if self.weights is None else self.weights.most
        return prod((factor.most for factor in self.factors), start=heaviest)

    @property
    def step(self) -> Fraction:
        """What one step of an answer is worth."""
        return self.most / STEPS

    def __str__(self) -> str:
        what = " · ".join(map(str, self.factors)) or "rows"
        by = f" by {', '.join(self.by.clique)}" if self.by.clique else ""
        weighted = f", weighted by {self.weights.by}" if self.weights else ""
        return f"sum of {what}{weighted}{by}{f' where {self.where}' if self.where else ''}"
