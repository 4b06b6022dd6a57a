"""What the codes of a column stand for, so that conditions and maps can be decided on codes alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import RangeColumn, StepColumn, numeric_special_codes
from populace.schema.columns.unknown_columns import UnknownBins
from populace.schema.conditions.syntax_tree import Literal, Operator
from populace.schema.exact_numbers import format_decimal, parse_number
from populace.schema.hints import did_you_mean, quote_names

Truth = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]

# Further out than every whole number of a column, and still a number that NumPy compares exactly.
_FAR = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIntervals:
    """For each value or bin of an ordered column, from where to where it goes; an open end does not belong to it."""

    first: Numbers
    last: Numbers
    open_first: Truth
    open_last: Truth

    @property
    def single(self) -> Truth:
        """Which bins hold a single value."""
        return np.asarray(self.first == self.last)

    def below(self, limit: Fraction) -> tuple[Truth, Truth]:
        """Say which bins lie wholly below a limit, and which wholly at or above it."""
        edge = self._at(math.ceil(limit), limit)
        return (self.last < edge) | ((self.last == edge) & self.open_last), self.first >= edge

    def at_most(self, limit: Fraction) -> tuple[Truth, Truth]:
        """Say which bins lie wholly at or below a limit, and which wholly above it."""
        edge = self._at(math.floor(limit), limit)
        return self.last <= edge, (self.first > edge) | ((self.first == edge) & self.open_first)

    def _at(self, whole: int, limit: Fraction) -> int | float:
        if self.first.dtype.kind == "i":
            return max(-_FAR, min(whole, _FAR))
        # Compared as floats, as the rows are.
        return float(limit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeSemantics:
    """The codes of one variable, read as values of the column that conditions name.

    The variable is the column itself or, where it is split, its coarse part: a bin of whole numbers.
    """

    column: Column
    variable: Column
    intervals: ValueIntervals | None

    @classmethod
    def of(cls, column: Column) -> CodeSemantics:
        """Return the scale of a column.

        >>> CodeSemantics.of(IntegerColumn(name="AGE", min=0, max=99, split=10)).describe(9)
        '90 … 99'
        """
        variable = column.variables[0]
        if variable.size > LIMITS.max_rule_codes:
            raise column.error(
                f"has {variable.size} codes; rules and maps take {LIMITS.max_rule_codes}.",
                hint="give it a width",
            )
        return cls(column=column, variable=variable, intervals=_value_intervals(column))

    @property
    def levels(self) -> int:
        """The number of codes that stand for values."""
        return self.variable.levels

    @property
    def size(self) -> int:
        """The number of codes."""
        return self.variable.size

    @property
    def bounded(self) -> bool:
        """Whether the values run from one end to another."""
        return isinstance(self.column, RangeColumn)

    @property
    def single(self) -> Truth:
        """Which values are known by their codes: all but those of bins."""
        if self.intervals is None or not self.bounded:
            return np.ones(self.levels, dtype=np.bool_)
        return self.intervals.single

    @property
    def missing(self) -> Truth:
        """Which codes are missing: user-missing, or everything else where that is no value."""
        codes = np.arange(self.size)
        return np.asarray((codes >= self.levels) & (codes != self.variable.outside_code))

    def code(self, text: str) -> int | None:
        """Return the code of a text, or None where it is not a value of the column."""
        if text in self.column.specials:
            return self.levels + self.column.specials.index(text)
        value = self.value(text)
        for special, known in numeric_special_codes(self.column).items():
            if known == value:
                return self.levels + self.column.specials.index(special)
        level = self.column.level(text)
        split = isinstance(self.column, IntegerColumn) and self.column.split is not None
        if level is None or not split or self.intervals is None or not isinstance(value, Fraction):
            return level
        # The first quotient whose numbers reach so far; a bottom code reaches below all of them.
        return int(np.argmax(self.intervals.last >= int(value)))

    def value(self, text: str) -> Fraction | str:
        """Return the number that a text is in this column, or else the text."""
        found = self.column.value(text) if isinstance(self.column, RangeColumn) else None
        return text if found is None else found

    def text(self, code: int) -> str:
        """Return the text of a code: its value, or one of the values that it stands for, which `code` gives back."""
        if code >= self.levels:
            return self.column.specials[code - self.levels]
        if isinstance(self.column, CategoricalColumn):
            return self.column.values[code]
        if self.intervals is None:
            return ""
        first, last = self.intervals.first[code], self.intervals.last[code]
        if self.intervals.open_first[code]:
            return self._format_value(first / 2 + last / 2)
        # A bottom code has no first value.
        return self._format_value(first) or self._format_value(last)

    def count(self, code: int) -> float:
        """Return how many values a code stands for; infinitely many in bins of decimals."""
        if code >= self.levels or self.intervals is None or self.single[code]:
            return 1
        first, last = self.intervals.first[code], self.intervals.last[code]
        whole = self.intervals.first.dtype.kind == "i" and first > -_FAR and last < _FAR
        return int(last - first + 1) if whole else math.inf

    def published_count(self, code: int) -> float:
        """Return how many values rows with a code are published with: one, the end itself, at top and bottom."""
        if code >= self.levels or self.intervals is None:
            return 1
        ends = (-_FAR, -math.inf), (_FAR, math.inf)
        end = self.intervals.first[code] in ends[0] or self.intervals.last[code] in ends[1]
        return 1 if end else self.count(code)

    def describe(self, code: int) -> str:
        """Return a bin for a message."""
        if self.intervals is None or code >= self.levels:
            return repr(self.text(code)) if self.text(code) else "empty cells"
        ends = self.intervals.first, self.intervals.last
        first, last = (self._format_value(values[code]) for values in ends)
        return first if first == last else f"{first} … {last}".strip()

    def _format_value(self, value: Any) -> str:
        if value in (-_FAR, _FAR, -math.inf, math.inf):
            return ""
        if isinstance(self.column, TemporalColumn):
            return self.column.iso_text(int(value))
        return str(int(value)) if value == int(value) else repr(float(value))

    def equal(self, literal: Literal) -> Truth:
        """Say for each code whether it is a value."""
        code = self.code(literal.text)
        if code is None and not literal.quoted:
            plain = parse_number(literal.text)
            code = None if plain is None else self.code(format_decimal(plain) or "")
        if code is None:
            raise self._no_value_error(literal)
        if self.count(code) != 1:
            raise self.column.error(
                f"cannot be compared with {literal}: "
                f"its code for {self.describe(code)} stands for other values too.",
                hint=f"give {literal.text} a bin of its own, or compare with < and >= at the edges of bins",
            )
        return np.asarray(np.arange(self.size) == code)

    def ordered(self, operator: Operator, literal: Literal) -> Truth:
        """Say for each code whether its values lie on one side of a literal; special codes lie on none."""
        intervals = self.intervals
        if intervals is None:
            raise self.column.error(
                "is categorical: its values have no order.",
                hint='compare with == or in, or declare it as kind = "ordinal"',
            )
        limit = self._compared_value(literal)
        if operator in (Operator.BELOW, Operator.AT_LEAST):
            lower, upper = intervals.below(limit)
        else:
            lower, upper = intervals.at_most(limit)
        torn = np.flatnonzero(~lower & ~upper)
        if len(torn):
            raise self._cut_bin_error(int(torn[0]), operator, literal)
        truth = lower if operator in (Operator.BELOW, Operator.AT_MOST) else upper
        return np.append(truth, np.zeros(self.size - self.levels, dtype=np.bool_))

    def _compared_value(self, literal: Literal) -> Fraction:
        if isinstance(self.column, CategoricalColumn):
            place = self.column.level(literal.text)
            if place is None and literal.text not in self.column.specials:
                raise self._no_value_error(literal)
            value, lack = None if place is None else Fraction(place), "has no place in its order"
        else:
            found = self.column.value(literal.text) if isinstance(self.column, RangeColumn) else None
            value, lack = found, f"is no {self._kind}"
        if value is None:
            raise self.column.error(
                f"cannot be compared with {literal}, which {lack}.",
                hint=f"compare with a {self._kind}, or with == where it is a special code",
            )
        return value

    @property
    def _kind(self) -> str:
        if isinstance(self.column, CategoricalColumn):
            return "value"
        return self.column.kind if isinstance(self.column, TemporalColumn) else "number"

    def _cut_bin_error(self, code: int, operator: Operator, literal: Literal) -> SchemaError:
        if self.column.unknown:
            hint = "its bins are learnt: conditions may only compare it with its special codes"
        elif operator in (Operator.BELOW, Operator.AT_LEAST) or isinstance(self.column, StepColumn):
            hint = (
                f"give it an edge there, or compare at one of the edges it has (now in {self.describe(code)})"
            )
        else:
            hint = "bins hold their lower edge: write < or >=, with an edge of the column"
        return SchemaError(
            f"{self.column.name} {operator} {literal} cuts through a bin of column {self.column.name!r}: "
            f"{self.describe(code)} lies on both sides.",
            hint=hint,
        )

    def _no_value_error(self, literal: Literal) -> SchemaError:
        values = self.column.values if isinstance(self.column, CategoricalColumn) else ()
        near = did_you_mean(literal.text, [*values, *self.column.specials])
        hint = f"did you mean '{near}'?" if near else "compare with a value, a missing code, outside or other"
        if values and not near:
            hint += f"; its values are {quote_names(values)}"
        if self.column.unknown:
            hint = "its values are learnt: conditions may only compare it with its special codes"
        return SchemaError(f"{literal} is not a value of column {self.column.name!r}.", hint=hint)


def _value_intervals(column: Column) -> ValueIntervals | None:
    if isinstance(column, CategoricalColumn):
        place = np.arange(column.levels)
        return _closed_intervals(place, place) if column.ordered else None
    if isinstance(column, DecimalColumn):
        return _decimal_intervals(column)
    if isinstance(column, IntegerColumn) and column.split is not None:
        return _quotient_intervals(column, column.split)
    if isinstance(column, StepColumn):
        starts = column.starts_in_units(Fraction(1))
        return _closed_intervals(starts[:-1], starts[1:] - 1, ends=column.ends)
    if isinstance(column, UnknownBins):
        return _closed_intervals(np.array([float(column.min)]), np.array([float(column.max)]))
    return None


def _quotient_intervals(column: IntegerColumn, divisor: int) -> ValueIntervals:
    bottom, top = column.ends
    coarse = column.variables[0]
    places = np.arange(coarse.levels) + (column.min + bottom) // divisor - bottom
    low, high = column.min + bottom, column.max - top
    first, last = np.maximum(places * divisor, low), np.minimum(places * divisor + divisor - 1, high)
    last[:bottom] = column.min
    if top:
        first[-1] = column.max
    return _closed_intervals(first, last, ends=column.ends)


def _decimal_intervals(column: DecimalColumn) -> ValueIntervals:
    bottom, top = column.ends
    bounds = [column.bounds(level) for level in range(column.levels)]
    first, last = (np.array([float(pair[side]) for pair in bounds]) for side in (0, 1))
    open_last = np.ones(column.levels, dtype=np.bool_)
    open_last[-1] = False
    open_first = np.zeros(column.levels, dtype=np.bool_)
    if bottom:
        first[0], open_last[0] = -math.inf, False
        open_first[1:2] = True
    if top:
        last[-1] = math.inf
    return ValueIntervals(first=first, last=last, open_first=open_first, open_last=open_last)


def _closed_intervals(
    first: Numbers, last: Numbers, *, ends: tuple[bool, bool] = (False, False)
) -> ValueIntervals:
    """Return intervals of which the first and the last may stand for everything beyond them, too."""
    bottom, top = ends
    first[:bottom] = -_FAR
    if top:
        last[-1] = _FAR
    none = np.zeros(len(first), dtype=np.bool_)
    return ValueIntervals(first=first, last=last, open_first=none, open_last=none)
