"""Columns whose domain is not public: it is learnt from the rows, with budget, before anything is counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from populace.schema.columns.bins import check_range
from populace.schema.columns.column import CategoricalColumn, Column, Origin
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import BinDensity, RangeColumn, StepColumn
from populace.schema.exact_numbers import format_decimal, to_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownValues(Column):
    """A categorical column whose values nobody knows yet: until they are learnt, every value is `other`.

    >>> city = UnknownValues(name="CITY", missing=("R",))
    >>> city.size, city.with_domain(["Ulm", "R"]).values
    (2, ('Ulm',))
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False
    unknown: ClassVar[bool] = True

    @property
    def levels(self) -> int:
        """None: no value is known."""
        return 0

    def level(self, text: str) -> int | None:  # noqa: ARG002
        """Return None: no value is known."""
        return None

    def with_domain(self, values: Sequence[str]) -> CategoricalColumn:
        """Return the column with the values that were learnt; special codes stay what they are."""
        own = tuple(value for value in dict.fromkeys(values) if value not in self.specials)
        return CategoricalColumn(values=own, **self.common_fields() | {"origin": Origin.LEARNT})

    def _check_domain(self) -> None:
        _check_origin(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownBins(RangeColumn):
    """A column of numbers, days or seconds from min to max whose bins nobody knows yet: until they are, there is one.

    >>> income = UnknownBins(name="INCOME", min=Fraction(0), max=Fraction(100), of=IntegerColumn)
    >>> income.with_domain([Fraction(10), Fraction(50)])          # doctest: +ELLIPSIS
    IntegerColumn(name='INCOME', ..., min=0, max=100, starts=(0, 10, 50), ...)
    """

    unknown: ClassVar[bool] = True

    min: Fraction
    max: Fraction
    of: type[IntegerColumn | DecimalColumn | TemporalColumn] = DecimalColumn
    """What it is once its bins are known."""
    decimals: int | None = None
    format: str | None = None

    @property
    def kind(self) -> str:
        """The kind of column that it will be."""
        return self.of.kind

    @property
    def levels(self) -> int:
        """One bin."""
        return 1

    def value(self, text: str) -> Fraction | None:
        """Return the number, days or seconds that a text stands for, or None."""
        return self.with_domain(()).value(text)

    def level(self, text: str) -> int | None:
        """Return 0 for a value in [min, max], else None."""
        return self.with_domain(()).level(text)

    def with_domain(self, edges: Sequence[Fraction]) -> StepColumn | DecimalColumn:
        """Return the column with the edges that were learnt; those not between min and max are left out."""
        # Edges that floats cannot tell apart are one: nothing may be refused after it was paid for.
        apart = {float(edge): edge for edge in sorted(self._edge(edge) for edge in edges)}
        low, high = float(self.min), float(self.max)
        shared = self.common_fields() | {"origin": Origin.LEARNT, "beyond": self.beyond}
        if issubclass(self.of, DecimalColumn):
            inner = [edge for at, edge in apart.items() if low < at < high]
            return DecimalColumn(edges=(self.min, *inner, self.max), decimals=self.decimals, **shared)
        shared |= (
            {"format": self.format} if issubclass(self.of, TemporalColumn) else {"decimals": self.decimals}
        )
        # A bin of whole numbers may be the greatest one alone; one of decimals ends above where it begins.
        starts = [int(self.min), *(int(edge) for at, edge in apart.items() if low < at <= high)]
        return self.of(min=int(self.min), max=int(self.max), starts=starts, **shared)

    def _edge(self, edge: Fraction) -> Fraction:
        """Return an edge that can be written: whole, or with the column's decimals."""
        if not issubclass(self.of, DecimalColumn):
            return Fraction(math.ceil(edge))
        if self.decimals is not None:
            return Fraction(round(edge * 10**self.decimals), 10**self.decimals)
        written = edge if format_decimal(edge) is not None else to_fraction(float(edge))
        return self.min if written is None else written

    def _value_range(self) -> Iterable[Fraction | None]:
        return self.with_domain(())._value_range()

    def _check_domain(self) -> None:
        _check_origin(self)
        check_range(self.name, self.min, self.max)
        if self.min == self.max:
            raise self.error(
                "has bins to be learnt, and min and max are the same.",
                hint='a bin needs min < max; leave bins = "learn" out',
            )
        plain = self.with_domain(())
        if isinstance(plain, TemporalColumn) and plain.resolution is None:
            raise self.error(
                f"has bins to be learnt, and its format {self.format!r} does not include the day.",
                hint="declare the bins with a width, or give a format with %d",
            )


def as_declared(column: Column) -> Column:
    """Return a column as it was before anything was learnt about it; itself where nothing was.

    >>> as_declared(UnknownValues(name="CITY").with_domain(["Ulm"])).unknown
    True
    """
    if column.origin is not Origin.LEARNT:
        if isinstance(column, RangeColumn) and column.density is not None and not column.needs_learning:
            return replace(column, density=BinDensity())
        return column
    shared = column.common_fields() | {"origin": Origin.DECLARED}
    if not isinstance(column, RangeColumn):
        return UnknownValues(**shared)
    shared |= {"beyond": column.beyond, "of": type(column)}
    if isinstance(column, DecimalColumn):
        return UnknownBins(min=column.edges[0], max=column.edges[-1], decimals=column.decimals, **shared)
    if not isinstance(column, IntegerColumn | TemporalColumn):
        raise TypeError(f"a {column.kind} column is never learnt")
    shared |= (
        {"format": column.format} if isinstance(column, TemporalColumn) else {"decimals": column.decimals}
    )
    return UnknownBins(min=Fraction(column.min), max=Fraction(column.max), **shared)


def fill_unknown_domain(column: Column) -> Column:
    """Return a column as it codes cells: one whose domain is still unknown has none, or one bin."""
    return column.with_domain(()) if isinstance(column, UnknownValues | UnknownBins) else column


def _check_origin(column: Column) -> None:
    if column.origin is not Origin.DECLARED:
        raise column.error(
            f"is to be learnt and has origin {column.origin.value!r}.",
            hint="leave origin out: learnt domains are marked when they are paid for",
        )
