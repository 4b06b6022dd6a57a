"""Sums that can be asked about private rows: each row adds a whole number of steps, never more than is public.

A row's product of numbers, each held to its public range, is expressed in steps of 1/`STEPS` of the most it can be, and
added to the one cell of a marginal that the row lies in, or split over a few cells that share it out. So one row moves
the cells by at most `STEPS` in L1 and in L2, whatever it holds. Proof: docs/proofs/sums.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, prod

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Domain, Marginal
from populace.privacy.accounting.fixed_point import STEPS as STEPS
from populace.privacy.sensitivity.donor_limit import sensitivity_factor

ALL_ROWS = Marginal(())
MAX_SPLIT_DEGREE = 8


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
class MomentSplit:
    """How a row is shared out over `degree` + 1 cells, by where its number lies in its public range.

    With f the place of the number in the range, from 0 to 1 (of a condition: whether it holds), cell k takes the part
    C(d, k)·f^k·(1 − f)^(d − k). The parts are never below 0 and add up to 1, so all moments of the number up to the
    degree follow from one sum, whose cells a row moves no further than if it lay in one of them.

    >>> age = SumFactor(column="AGE", low=Fraction(0), high=Fraction(100))
    >>> MomentSplit(of=age, degree=2).parts(np.array([0.25])).tolist()
    [[0.5625, 0.375, 0.0625]]
    """

    of: SumFactor | Indicator
    degree: int = 1

    def __post_init__(self) -> None:
        empty = isinstance(self.of, SumFactor) and self.of.low == self.of.high
        if not 1 <= self.degree <= MAX_SPLIT_DEGREE or empty:
            raise UsageError(
                f"rows cannot be split by {self.of} to degree {self.degree}.",
                hint=f"give a range with some room, and a degree from 1 to {MAX_SPLIT_DEGREE}",
            )

    @property
    def squared(self) -> MomentSplit:
        """The split whose cells hold the products of two parts; a condition is its own square."""
        return self if isinstance(self.of, Indicator) else MomentSplit(of=self.of, degree=2 * self.degree)

    def parts(self, places: Floats) -> Floats:
        """Return the part of each cell for places from 0 to 1: places × cells."""
        powers = np.arange(self.degree + 1)
        times = np.array([comb(self.degree, k) for k in powers], dtype=np.float64)
        whole: Floats = times * places[:, None] ** powers * (1 - places[:, None]) ** (self.degree - powers)
        return whole

    def moment(self, power: int) -> Floats:
        """Return by how much each cell counts in the sum of f^power.

        >>> MomentSplit(of=Indicator(that="AGE >= 65")).moment(1).tolist()
        [0.0, 1.0]
        """
        return np.array([comb(k, power) / comb(self.degree, power) for k in range(self.degree + 1)])


@dataclass(frozen=True, kw_only=True)
class CellWeights:
    """What a row counts for: a public number for each cell of a marginal, in order; below 0 where it is subtracted.

    >>> CellWeights(by=Marginal(("SEX",)), values=(Fraction(12), Fraction(-17))).most
    Fraction(17, 1)
    """

    by: Marginal
    values: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not self.values or not self.most:
            raise UsageError(f"the weights by {self.by} are all 0.", hint="give some that are not")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.by, self.values))

    @cached_property
    def most(self) -> Fraction:
        """The greatest distance of any of them from 0."""
        return max(map(abs, self.values))


def multiply_weights(one: CellWeights, other: CellWeights, *, domain: Domain) -> CellWeights:
    """Return the products of two weights, by the columns of both.

    >>> one, other = (CellWeights(by=Marginal((name,)), values=(Fraction(1), Fraction(3))) for name in "AB")
    >>> [int(each) for each in multiply_weights(one, other, domain=Domain({"A": 2, "B": 2})).values]
    [1, 3, 3, 9]
    """
    names = tuple(dict.fromkeys([*other.by.clique, *one.by.clique]))
    apart = {
        name
        for name in set(one.by.clique) & set(other.by.clique)
        if one.by.grouping(name) != other.by.grouping(name)
    }
    groupings = {
        each.column: each for each in (*one.by.groupings, *other.by.groupings) if each.column not in apart
    }
    by = Marginal.with_groupings(names, groupings)
    shape = by.shape(domain)
    if prod(shape) > LIMITS.max_weight_cells:
        raise UsageError(
            f"weights by {by} have {prod(shape)} cells; {LIMITS.max_weight_cells} is the most.",
            hint="ask for fewer groups, match by fewer columns, or number PSUs within strata, 1, 2, 3 and so on",
        )
    grids = []
    for each in (one, other):
        own = np.array(each.values, dtype=object).reshape(each.by.shape(domain))
        for axis, name in enumerate(each.by.clique):
            # Of two groupings of one column, each code has its own product.
            if name in apart and (grouping := each.by.grouping(name)) is not None:
                own = own.take(grouping.lookup, axis=axis)
        order = sorted(range(own.ndim), key=[names.index(name) for name in each.by.clique].__getitem__)
        sizes = [size if name in each.by.clique else 1 for name, size in zip(names, shape, strict=True)]
        grids.append(own.transpose(order).reshape(sizes))
    values = np.broadcast_to(grids[0] * grids[1], shape)
    return CellWeights(by=by, values=tuple(values.ravel().tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class HotDeck:
    """Missing values of one column, filled before rows are added up: by donors alike in `match`, of limited use.

    An incomplete row takes the value of the next complete row of its cell, by label; one that would be the donor of
    more than `max_uses` rows is that of the nearest ones, and the others stay incomplete.
    Proof: docs/proofs/donor-limit.md
    """

    column: str
    match: Marginal
    max_uses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What each row adds, and to which cell: the product of its weight and its factors, 1 where there are none.

    A row counts only where `where` holds (a condition in the schema's language), and where every factor and every
    column of `known` has a value, neither missing nor outside its universe, and where every column of `positive` has a
    number above 0. `splits` share it out over several cells, one axis for each. With `filled`, missing values of a
    column are filled first: rows then add fewer steps, so that one row moves a sum no further than without it.

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
    splits: tuple[MomentSplit, ...] = ()
    filled: HotDeck | None = None

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the shape of its cells: those of the marginal, and within each one axis for every split."""
        return (*self.by.shape(domain), *(split.degree + 1 for split in self.splits))

    @property
    def most(self) -> Fraction:
        """The most that one row can add or take away."""
        heaviest = Fraction(1) if self.weights is None else self.weights.most
        return prod((factor.most for factor in self.factors), start=heaviest)

    @property
    def step(self) -> Fraction:
        """What one step of an answer is worth."""
        return self.most / self.row_steps

    @property
    def row_steps(self) -> int:
        """The most steps that one row adds: of filled rows fewer, since one row changes what others hold.

        Proof: docs/proofs/donor-limit.md

        >>> deck = HotDeck(column="INCOME", match=Marginal(("SEX",)), max_uses=2)
        >>> STEPS // Sum(where="INCOME >= 10", filled=deck).row_steps
        3
        """
        return (
            STEPS
            if self.filled is None
            else STEPS // sensitivity_factor(self.filled.max_uses, moved=self._moved)
        )

    @property
    def _moved(self) -> int:
        """By how many times the most that it adds a row moves the sum when its filled value changes: once or twice."""
        column = "" if self.filled is None else self.filled.column
        weights = () if self.weights is None else self.weights.values
        ends = [
            (f.low - f.centre, f.high - f.centre) if isinstance(f, SumFactor) else (-f.centre, 1 - f.centre)
            for f in self.factors
        ]
        one_sign = all(low >= 0 or high <= 0 for low, high in ends) and all(each >= 0 for each in weights)
        return 1 if one_sign and not self.splits and column not in self.by.clique else 2

    def __str__(self) -> str:
        what = " · ".join(map(str, self.factors)) or "rows"
        if self.splits:
            what += f", split by {', '.join(str(split.of) for split in self.splits)}"
        by = f" by {', '.join(self.by.clique)}" if self.by.clique else ""
        weighted = f", weighted by {self.weights.by}" if self.weights else ""
        filled = f", {self.filled.column} filled" if self.filled else ""
        return f"sum of {what}{weighted}{by}{f' where {self.where}' if self.where else ''}{filled}"
