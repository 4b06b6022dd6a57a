"""Columns of numbers: whole ones, and decimals in bins."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, TypeVar

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.schema.columns.bin_density import BinDensity
from populace.schema.columns.bins import add_end_bins, check_range, is_increasing, to_range
from populace.schema.columns.column import Column, Origin, find_repeated
from populace.schema.exact_numbers import MAX_EXACT_INTEGER, format_decimal, parse_number, to_fraction
from populace.schema.hints import quote_names

if TYPE_CHECKING:
    from populace.schema.columns.date_columns import TemporalColumn


RangeT = TypeVar("RangeT", bound="RangeColumn")


class OutOfRange(StrEnum):
    """Where a number outside [min, max] goes: to the nearest end, or to the code for everything else."""

    NEAREST = "nearest"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeColumn(Column):
    """A column whose domain runs from one end to another."""

    beyond: OutOfRange = OutOfRange.NEAREST
    within: BinDensity | None = None
    """How values lie inside bins, learnt or to be learnt; without it they are drawn evenly."""

    @property
    def open(self) -> bool:
        """Whether bins, or how values lie inside them, still have to be learnt from the rows, with budget."""
        return self.unknown or (self.within is not None and not self.within.known)

    def value(self, text: str) -> Fraction | None:
        """Return the number that a text stands for in this column, or None."""
        return parse_number(text)

    @property
    def clamped_ends(self) -> tuple[bool, bool]:
        """Whether what lies below goes to the first code, and what lies above to the last one."""
        nearest = self.beyond is OutOfRange.NEAREST
        return nearest, nearest

    def _check_specials(self) -> None:
        values = [str(value) for value in numeric_special_codes(self).values()]
        if duplicate := find_repeated(values):
            raise SchemaError(
                f"column {self.name!r}: the number {quote_names(duplicate)} has two special codes.",
                hint="write each number once in `missing`, `outside` and `other`",
            )
        Column._check_specials(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn(RangeColumn):
    """A range of numbers with, at choice, one code for all from `top` up and one for all from `bottom` down.

    `decimals` says how many decimals numbers have where the column is written as text.
    """

    learnable: ClassVar[bool] = True

    decimals: int | None = None

    @property
    @abstractmethod
    def ends(self) -> tuple[bool, bool]:
        """Whether the first code is a bottom code, and the last one a top code."""

    @property
    def clamped_ends(self) -> tuple[bool, bool]:
        """Whether what lies below goes to the first code, and what lies above to the last one."""
        nearest = self.beyond is OutOfRange.NEAREST
        bottom, top = self.ends
        return nearest or bottom, nearest or top

    def _check_decimals(self) -> None:
        if self.decimals is not None and not 0 <= self.decimals <= LIMITS.max_decimals:
            raise SchemaError(
                f"column {self.name!r} has {self.decimals} decimals.", hint=f"give 0 … {LIMITS.max_decimals}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerColumn(NumberColumn):
    """A column of whole numbers from min to max, one code for each or one for each bin.

    `starts` holds the first number of each bin; the last bin ends at max. With `split`, number and remainder of
    a division are counted and modelled apart.

    >>> IntegerColumn(name="AGEP", min=0, max=99, other="0").size
    100
    >>> IntegerColumn(name="AGEP", min=0, max=99, starts=(0, 18, 65)).bounds(1)
    (18, 64)
    >>> wage = IntegerColumn(name="WAGE", min=0, max=4999, top=5000, split=100)
    >>> wage.levels, wage.bounds(5000), [part.name for part in wage.variables]
    (5001, (5000, 5000), ['WAGE // 100', 'WAGE % 100'])
    """

    kind: ClassVar[str] = "integer"

    min: int
    max: int
    starts: Sequence[int] = ()
    top: int | None = None
    bottom: int | None = None
    split: int | None = None

    @property
    def levels(self) -> int:
        """The number of bins, or of whole numbers."""
        return len(self.starts)

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the first code is a bottom code, and the last one a top code."""
        return self.bottom is not None, self.top is not None

    @property
    def binned(self) -> bool:
        """Whether some code stands for more than one number."""
        return self.levels != self.max - self.min + 1

    @property
    def variables(self) -> tuple[Column, ...]:
        """The column itself, or the two that it is split into."""
        if self.split is None:
            return (self,)
        from populace.schema.columns.split_columns import quotient_column, remainder_column

        return quotient_column(self), remainder_column(self)

    @property
    def draft(self) -> Column:
        """The column of unknown bins that this one was learnt from, or itself."""
        return _draft(self, low=Fraction(self.min), high=Fraction(self.max))

    def level(self, text: str) -> int | None:
        """Return the bin of a number in [min, max], or None."""
        value = parse_number(text)
        if value is None or value.denominator != 1 or not self.min <= value <= self.max:
            return None
        return bisect_right(self.starts, int(value)) - 1

    def bounds(self, level: int) -> tuple[int, int]:
        """Return the first and the last number of a bin; both are the code's own number at top and bottom."""
        last = self.starts[level + 1] - 1 if level + 1 < self.levels else self.max
        return self.starts[level], last

    def _reach(self) -> Iterable[Fraction | None]:
        return Fraction(self.min), Fraction(self.max)

    def _check_domain(self) -> None:
        self._check_decimals()
        check_range(self.name, self.min, self.max)
        given = self.starts if len(self.starts) > 0 else range(self.min, self.max + 1)
        if given[0] != self.min or given[-1] > self.max or not is_increasing(given):
            raise SchemaError(
                f"column {self.name!r}: its bins do not climb from {self.min} to {self.max}.",
                hint="give increasing edges, the first equal to min and the last to max",
            )
        self._place_ends()
        if max(abs(self.min), abs(self.max)) >= MAX_EXACT_INTEGER:
            raise SchemaError(
                f"column {self.name!r} reaches beyond 2**53, where numbers are no longer exact.",
                hint="declare such long numbers as categorical, or leave the column out",
            )
        bins = add_end_bins(self.name, given, low=self.min, high=self.max, bottom=self.bottom, top=self.top)
        object.__setattr__(self, "starts", to_range(bins, stop=self.max + 1))
        self._check_split()
        check_density(self, binned=self.binned and self.split is None)
        if self.origin is Origin.LEARNT and (any(self.ends) or self.split is not None):
            raise SchemaError(
                f"column {self.name!r} is learnt and has top, bottom or split.",
                hint="learnt bins go from min to max without them",
            )

    def _place_ends(self) -> None:
        """Let the range end where top and bottom codes are."""
        low, high = self.min, self.max
        if self.top is not None:
            _check_end(self.name, "top", self.top, gap=self.top - 1 > high)
            high = self.top
        if self.bottom is not None:
            _check_end(self.name, "bottom", self.bottom, gap=self.bottom + 1 < low)
            low = self.bottom
        if low > high or (low == high and all(self.ends)):
            raise SchemaError(
                f"column {self.name!r}: no number lies between {low} and {high}.",
                hint="min, bottom, top and max must climb",
            )
        object.__setattr__(self, "min", low)
        object.__setattr__(self, "max", high)

    def _check_split(self) -> None:
        if self.split is None:
            return
        if self.split < 2:
            raise SchemaError(f"column {self.name!r} has split {self.split}.", hint="give 2 or more")
        if self.binned:
            raise SchemaError(
                f"column {self.name!r} is split and has bins.",
                hint="a split column has one code for each number: leave width and edges out",
            )
        if self.split > self.max - self.min:
            raise SchemaError(
                f"column {self.name!r} has split {self.split}, as large as its range.",
                hint="give a smaller split, or none",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalColumn(NumberColumn):
    """A column of numbers in bins: each holds its lower edge, the last one also its upper edge.

    A top code takes over the last edge, a bottom code the first.

    >>> DecimalColumn(name="DENSITY", edges=(Fraction(0), Fraction(1, 2), Fraction(10))).level("0.5")
    1
    """

    kind: ClassVar[str] = "numeric"

    edges: tuple[Fraction, ...]
    top: Fraction | None = None
    bottom: Fraction | None = None

    @property
    def levels(self) -> int:
        """The number of bins, top and bottom codes included."""
        return len(self.edges) - 1 + sum(self.ends)

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the first code is a bottom code, and the last one a top code."""
        return self.bottom is not None, self.top is not None

    @property
    def draft(self) -> Column:
        """The column of unknown bins that this one was learnt from, or itself."""
        return _draft(self, low=self.edges[0], high=self.edges[-1])

    def level(self, text: str) -> int | None:
        """Return the bin of a number between the outer edges, or None."""
        value = parse_number(text)
        low, high = float(self.edges[0]), float(self.edges[-1])
        if value is None or not low <= float(value) <= high:
            return None
        # Compared as floats, as the rows are.
        if float(value) == high:
            return self.levels - 1
        if float(value) == low:
            return 0
        return bisect_right(self.edges, float(value), key=float) - 1 + int(self.ends[0])

    def bounds(self, level: int) -> tuple[Fraction, Fraction]:
        """Return the edges of a bin; both are the code's own number at top and bottom."""
        place = level - int(self.ends[0])
        edges = self.edges
        return edges[max(place, 0)], edges[min(place + 1, len(edges) - 1)]

    def _reach(self) -> Iterable[Fraction | None]:
        # A number that is not whole: only floats can hold all values.
        return (Fraction(1, 2),)

    def _check_domain(self) -> None:
        self._check_decimals()
        edges = tuple(to_fraction(edge) for edge in self.edges)
        finite = tuple(edge for edge in edges if edge is not None)
        if len(finite) < len(edges) or any(format_decimal(edge) is None for edge in finite):
            raise SchemaError(
                f"column {self.name!r} has an edge that is not a finite decimal number.",
                hint="write edges as decimals, such as 0.5",
            )
        if len(finite) < 2:
            raise SchemaError(
                f"column {self.name!r} has {len(finite)} edges.",
                hint="give at least two: one bin lies between",
            )
        if len(finite) - 1 > LIMITS.max_decimal_bins:
            raise SchemaError(
                f"column {self.name!r} has {len(finite) - 1} bins; {LIMITS.max_decimal_bins} is the most.",
                hint='give a larger width, or kind = "integer" for whole numbers',
            )
        if any(float(b) <= float(a) for a, b in pairwise(finite)):
            raise SchemaError(
                f"column {self.name!r}: its edges do not increase.",
                hint="sort them, write each once, and keep them further apart than floats can tell",
            )
        object.__setattr__(self, "edges", finite)
        self._check_ends()
        self._check_steps()
        check_density(self, binned=True)

    def _check_ends(self) -> None:
        for key, end, edge in (("top", self.top, self.edges[-1]), ("bottom", self.bottom, self.edges[0])):
            if end is None:
                continue
            if to_fraction(end) != edge:
                raise SchemaError(
                    f"column {self.name!r}: {key} is {end}, but the bins end at {format_decimal(edge)}.",
                    hint=f"let the bins end at {key}",
                )
            object.__setattr__(self, key, edge)
        if self.origin is Origin.LEARNT and any(self.ends):
            raise SchemaError(
                f"column {self.name!r} is learnt and has top or bottom.",
                hint="learnt bins go from min to max without them",
            )

    def _check_steps(self) -> None:
        """Refuse decimals with which some bin would hold no number."""
        if self.decimals is None:
            return
        scale = 10**self.decimals
        if max(abs(edge) for edge in self.edges) * scale > 10**15:
            raise SchemaError(
                f"column {self.name!r}: {self.decimals} decimals are more than floats can tell apart.",
                hint="give fewer decimals, or none",
            )
        narrow = self.bottom is not None and (self.edges[1] - self.edges[0]) * scale < 2
        if narrow or any((edge * scale).denominator > 1 for edge in self.edges):
            raise SchemaError(
                f"column {self.name!r}: an edge has more than {self.decimals} decimals, or a bin no number.",
                hint="give edges with so many decimals at most, or more decimals",
            )


def numeric_special_codes(column: Column) -> dict[str, Fraction]:
    """Return those special codes of a column that are numbers (days, seconds), with their values."""
    if not isinstance(column, RangeColumn):
        return {}
    numbers = {text: column.value(text) for text in column.specials}
    return {text: value for text, value in numbers.items() if value is not None}


def check_density(column: IntegerColumn | DecimalColumn | TemporalColumn, *, binned: bool) -> None:
    """Refuse to learn, or to believe, what lies inside bins where there are none, or none that are drawn."""
    if column.within is None:
        return
    if not binned or column.function_of:
        raise SchemaError(
            f"column {column.name!r} has inside, and no bins whose values are drawn.",
            hint="leave inside out: every value has a code of its own, or follows from other columns",
        )
    if column.within.known:
        column.within.check(column)


def _check_end(name: str, key: str, end: int, *, gap: bool) -> None:
    if gap:
        raise SchemaError(
            f"column {name!r}: numbers are missing between its bins and {key} {end}.",
            hint=f"let the bins reach {key}",
        )


def forget_density(column: RangeT) -> RangeT:
    """Return the column as it was before it was learnt how values lie inside its bins."""
    return column if column.within is None or column.open else replace(column, within=BinDensity())


def _draft(column: IntegerColumn | DecimalColumn, *, low: Fraction, high: Fraction) -> Column:
    if column.origin is not Origin.LEARNT:
        return forget_density(column)
    from populace.schema.columns.unknown_columns import UnknownBins

    return UnknownBins(
        min=low,
        max=high,
        whole=isinstance(column, IntegerColumn),
        decimals=column.decimals,
        beyond=column.beyond,
        **column.shared() | {"origin": Origin.DECLARED},
    )
