"""Columns of numbers: whole ones, and decimals in bins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from populace.core.limits import LIMITS
from populace.schema.columns.bins import add_end_bins, check_range
from populace.schema.columns.column import Column, Origin
from populace.schema.columns.heaping_classes import Integers
from populace.schema.columns.range_columns import RangeColumn, StepColumn
from populace.schema.exact_numbers import MAX_EXACT_INTEGER, format_decimal, parse_number, to_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerColumn(StepColumn):
    """A column of whole numbers from min to max, one code for each or one for each bin.

    `top` and `bottom` are codes for all numbers from there on. With `split`, quotient and remainder of a division are
    counted and modelled apart. `decimals` says how many decimals numbers have where the column is written as text.

    >>> IntegerColumn(name="AGEP", min=0, max=99, other="0").size
    100
    >>> IntegerColumn(name="AGEP", min=0, max=99, starts=(0, 18, 65)).bounds(1)
    (18, 64)
    >>> wage = IntegerColumn(name="WAGE", min=0, max=4999, top=5000, split=100)
    >>> wage.levels, wage.bounds(5000), [part.name for part in wage.variables]
    (5001, (5000, 5000), ['WAGE // 100', 'WAGE % 100'])
    """

    kind: ClassVar[str] = "integer"

    decimals: int | None = None
    top: int | None = None
    bottom: int | None = None
    split: int | None = None

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the first code is a bottom code, and the last one a top code."""
        return self.bottom is not None, self.top is not None

    @property
    def variables(self) -> tuple[Column, ...]:
        """The column itself, or the two that it is split into."""
        return (self,) if self.split is None else (quotient_column(self), remainder_column(self))

    def _value_range(self) -> Iterable[Fraction | None]:
        return Fraction(self.min), Fraction(self.max)

    def _check_domain(self) -> None:
        _check_decimals(self, self.decimals)
        check_range(self.name, self.min, self.max)
        starts = self._declared_starts()
        self._place_ends()
        if max(abs(self.min), abs(self.max)) >= MAX_EXACT_INTEGER:
            raise self.error(
                "reaches beyond 2**53, where numbers are no longer exact.",
                hint="declare such long numbers as categorical, or leave the column out",
            )
        self._place_starts(
            add_end_bins(self.name, starts, low=self.min, high=self.max, bottom=self.bottom, top=self.top)
        )
        self._check_split()
        self._check_density(binned=self.binned and self.split is None)
        if self.origin is Origin.LEARNT and (any(self.ends) or self.split is not None):
            raise self.error(
                "is learnt and has top, bottom or split.", hint="learnt bins go from min to max without them"
            )

    def _place_ends(self) -> None:
        """Let the range end where top and bottom codes are."""
        low = self.min if self.bottom is None else self.bottom
        high = self.max if self.top is None else self.top
        for key, end, gap in (("top", high, high - 1 > self.max), ("bottom", low, low + 1 < self.min)):
            if gap:
                raise self.error(
                    f": numbers are missing between its bins and {key} {end}.",
                    hint=f"let the bins reach {key}",
                )
        if low > high or (low == high and all(self.ends)):
            raise self.error(
                f": no number lies between {low} and {high}.", hint="min, bottom, top and max must increase"
            )
        object.__setattr__(self, "min", low)
        object.__setattr__(self, "max", high)

    def _check_split(self) -> None:
        if self.split is None:
            return
        if self.split < 2:
            raise self.error(f"has split {self.split}.", hint="give 2 or more")
        if self.binned:
            raise self.error(
                "is split and has bins.",
                hint="a split column has one code for each number: leave width and edges out",
            )
        if self.split > self.max - self.min:
            raise self.error(
                f"has split {self.split}, as large as its range.", hint="give a smaller split, or none"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalColumn(RangeColumn):
    """A column of numbers in bins: each holds its lower edge, the last one also its upper edge.

    A top code takes over the last edge, a bottom code the first. `decimals` says how many decimals numbers have.

    >>> DecimalColumn(name="DENSITY", edges=(Fraction(0), Fraction(1, 2), Fraction(10))).level("0.5")
    1
    """

    kind: ClassVar[str] = "numeric"
    learnable: ClassVar[bool] = True

    decimals: int | None = None
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

    def starts_in_units(self, unit: Fraction) -> Integers:
        """Return where the codes begin, in units, and where the last one stops."""
        edges = [int(edge / unit) for edge in self.edges]
        bottom, top = self.ends
        inner = [edges[0] + int(bottom), *edges[1:-1]]
        return np.array(
            [*edges[: int(bottom)], *inner, *(edges[-1:] if top else []), edges[-1] + 1], dtype=np.int64
        )

    def _value_range(self) -> Iterable[Fraction | None]:
        # A number that is not whole: only floats can hold all values.
        return (Fraction(1, 2),)

    def _check_domain(self) -> None:
        _check_decimals(self, self.decimals)
        edges = tuple(to_fraction(edge) for edge in self.edges)
        finite = tuple(edge for edge in edges if edge is not None)
        if len(finite) < len(edges) or any(format_decimal(edge) is None for edge in finite):
            raise self.error(
                "has an edge that is not a finite decimal number.",
                hint="write edges as decimals, such as 0.5",
            )
        if len(finite) < 2:
            raise self.error(f"has {len(finite)} edges.", hint="give at least two: one bin lies between")
        if len(finite) - 1 > LIMITS.max_decimal_bins:
            raise self.error(
                f"has {len(finite) - 1} bins; {LIMITS.max_decimal_bins} is the most.",
                hint='give a larger width, or kind = "integer" for whole numbers',
            )
        if any(float(b) <= float(a) for a, b in pairwise(finite)):
            raise self.error(
                ": its edges do not increase.",
                hint="sort them, write each once, and keep them further apart than the precision of floats",
            )
        object.__setattr__(self, "edges", finite)
        self._check_ends()
        self._check_steps()
        self._check_density(binned=True)

    def _check_ends(self) -> None:
        for key, end, edge in (("top", self.top, self.edges[-1]), ("bottom", self.bottom, self.edges[0])):
            if end is None:
                continue
            if to_fraction(end) != edge:
                raise self.error(
                    f": {key} is {end}, but the bins end at {format_decimal(edge)}.",
                    hint=f"let the bins end at {key}",
                )
            object.__setattr__(self, key, edge)
        if self.origin is Origin.LEARNT and any(self.ends):
            raise self.error(
                "is learnt and has top or bottom.", hint="learnt bins go from min to max without them"
            )

    def _check_steps(self) -> None:
        """Refuse decimals with which some bin would hold no number."""
        if self.decimals is None:
            return
        scale = 10**self.decimals
        if max(abs(edge) for edge in self.edges) * scale > 10**15:
            raise self.error(
                f": {self.decimals} decimals exceed the precision of floats.",
                hint="give fewer decimals, or none",
            )
        narrow = self.bottom is not None and (self.edges[1] - self.edges[0]) * scale < 2
        if narrow or any((edge * scale).denominator > 1 for edge in self.edges):
            raise self.error(
                f": an edge has more than {self.decimals} decimals, or a bin no number.",
                hint="give edges with so many decimals at most, or more decimals",
            )


def quotient_column(column: IntegerColumn) -> IntegerColumn:
    """Return the coarse variable of a split column; it has all its special codes, and those of top and bottom.

    >>> quotient_column(IntegerColumn(name="WAGE", min=0, max=4999, top=5000, split=100, missing=("-1",))).size
    53
    """
    divisor = column.split or 1
    bottom, top = column.ends
    low, high = (column.min + bottom) // divisor, (column.max - top) // divisor
    bare = IntegerColumn(
        name=f"{column.name} // {divisor}",
        min=low,
        max=high,
        bottom=low - 1 if bottom else None,
        top=high + 1 if top else None,
        origin=column.origin,
    )
    # A special number that is no value may be a quotient; it gets a name that is no number.
    names = {text: text if bare.level(text) is None else f"= {text}" for text in column.specials}
    if column.other_code < column.levels:
        value = column.starts[column.other_code]
        at_top, at_bottom = top and value == column.max, bottom and value == column.min
        other = str(bare.max if at_top else bare.min if at_bottom else value // divisor)
    else:
        other = names[column.specials[column.other_code - column.levels]]
    return replace(
        bare,
        missing=tuple(names[text] for text in column.missing),
        universe=column.universe,
        outside=None if column.outside is None else names[column.outside],
        other=other,
        labels={names[text]: label for text, label in column.labels.items() if text in names},
    )


def remainder_column(column: IntegerColumn) -> IntegerColumn:
    """Return the fine variable of a split column: 0 … divisor − 1."""
    divisor = column.split or 1
    return IntegerColumn(
        name=f"{column.name} % {divisor}", min=0, max=divisor - 1, other="0", origin=column.origin
    )


def _check_decimals(column: Column, decimals: int | None) -> None:
    if decimals is not None and not 0 <= decimals <= LIMITS.max_decimals:
        raise column.error(f"has {decimals} decimals.", hint=f"give 0 … {LIMITS.max_decimals}")
