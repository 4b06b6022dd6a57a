"""Answers about rows whose missing values are filled from their nearest neighbours, with their smooth bounds.

For the barrier alone. Numbers are put on a public lattice first, so that every answer is exact.
Proof: docs/proofs/nearest.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import multimode

import numpy as np
from flint import arb

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import cell_indices
from populace.privacy.accounting.interval_arithmetic import ball
from populace.privacy.sensitivity.nn_imputation import (
    DonorValue,
    MatchedRows,
    MatchingSpace,
    NearestNeighbours,
)
from populace.private.survey.hot_deck import check_match, fillable_column, find_incomplete
from populace.private.survey.row_labels import label_rows
from populace.private.survey.survey_rows import SurveyRows, find_rows, read_where
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.schema import Schema
from populace.survey.smooth_questions import Donors, ImputedQuestion, ImputedStatistic, imputed_bound

# The largest number of a range takes up to so many bits on the lattice, and never less than so many.
_BITS, _FINE_BITS = 40, 20
_HALF = 32
# Numbers beyond, and ranges nearer to 0 than its inverse, are not told apart well by floats.
_MAX_MAGNITUDE = 2**200


def check(question: ImputedQuestion, schema: Schema) -> None:
    """Refuse, from public facts alone, what has no answer."""
    donors = question.donors
    column = fillable_column(donors.column, schema)
    own = {part.name for part in column.variables}
    check_match(column, donors.match.clique)
    places = math.prod(donors.match.shape(schema.domain))
    if places > LIMITS.max_matching_places:
        raise UsageError(
            f"{donors.match} has {places} places to match; {LIMITS.max_matching_places} is the most.",
            hint="match by fewer columns, or group their codes",
        )
    if question.where is not None and own & set(read_where(question.where, schema=schema).variables):
        raise UsageError(
            f"{question.where!r} asks for {donors.column!r}, which is filled.",
            hint="give a range of its values as `between`",
        )
    numbers = (
        donors.low,
        donors.high,
        donors.default,
        question.size,
        question.centre,
        *(question.between or ()),
    )
    if max(map(abs, numbers)) > _MAX_MAGNITUDE:
        raise UsageError(
            f"a number about {donors.column!r} is too large to be released.",
            hint="give ends of a reasonable size",
        )
    if max(abs(donors.low), abs(donors.high)) * _MAX_MAGNITUDE < 1:
        raise UsageError(
            f"the range of {donors.column!r} is too small to be released.",
            hint="give its values in smaller units",
        )
    grid = _Grid.of(donors)
    if grid.low > grid.high or not donors.low <= donors.default <= donors.high:
        raise UsageError(
            f"values of {donors.column!r} from {donors.low} to {donors.high}, {donors.default} by default, "
            "cannot be filled.",
            hint="give the lower end first, some room, and a default within",
        )
    if not 1 <= donors.k <= LIMITS.max_donors or (donors.take is DonorValue.COPY and donors.k != 1):
        raise UsageError(
            f"the {donors.take.value} of {donors.k} donors cannot be taken.",
            hint=f"copy with k = 1, or take the mean or majority of up to {LIMITS.max_donors}",
        )
    imputed_bound(question, 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImputedRows:
    """Rows whose missing values of one column are filled: all questions with the same donors share it."""

    rows: SurveyRows
    donors: Donors
    schema: Schema
    key: str = ""
    """Public, the same for all questions of a run: it decides which of equally near donors are taken."""

    def answer(self, question: ImputedQuestion) -> tuple[Fraction, Callable[[], arb]]:
        """Return the exact answer to a question about these donors, and its ln 2-smooth bound.

        Proof: docs/proofs/nearest.md
        """
        bound = imputed_bound(question, self.max_changed)
        return self._value(question), lambda: ball(bound)

    @cached_property
    def max_changed(self) -> int:
        """L₁: how many filled rows can change when one row comes or leaves."""
        scheme, complete, incomplete = self._sides
        return scheme.max_changed(complete, incomplete=incomplete)

    def _value(self, question: ImputedQuestion) -> Fraction:
        members, unit = self._members(question), self._grid.unit / self._fine
        if question.statistic is ImputedStatistic.FREQUENCY:
            return Fraction(len(members))
        if question.statistic is ImputedStatistic.SUM:
            # In two halves, whose sums stay far below 2^63.
            high, low = int((members >> _HALF).sum()), int((members & ((1 << _HALF) - 1)).sum())
            return Fraction((high << _HALF) + low) * unit / question.size
        values, counts = np.unique(members, return_counts=True)
        squares = (
            (value * unit - question.centre) ** 2 * count
            for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        )
        return sum(squares, Fraction(0)) / (question.size - 1)

    def _members(self, question: ImputedQuestion) -> Ints:
        """Return the values of the rows that a question is about, in parts of the lattice's unit."""
        where = find_rows(question.where, rows=self.rows, schema=self.schema)
        known, wanting, values = self._rows
        found = np.concatenate([values[known & where] * self._fine, self._filled[where[wanting]]])
        if question.between is None:
            return found
        low, high = (round(end / self._grid.unit) * self._fine for end in question.between)
        return found[(found >= low) & (found <= high)]

    @property
    def _fine(self) -> int:
        """In so many parts of the lattice's unit all means of up to k values are whole numbers."""
        return math.lcm(*range(1, self.donors.k + 1)) if self.donors.take is DonorValue.MEAN else 1

    @cached_property
    def _filled(self) -> Ints:
        """The values of incomplete rows, in parts of the lattice's unit."""
        scheme, complete, incomplete = self._sides
        donors = scheme.donors(complete, incomplete=incomplete)
        default, held = self._grid.default, donors >= 0
        if self.donors.take is DonorValue.MAJORITY:
            taken = (complete.values[row[own]].tolist() for row, own in zip(donors, held, strict=True))
            return np.array([min(multimode(values), default=default) for values in taken], dtype=np.int64)
        count = held.sum(axis=1)
        values = np.append(complete.values, 0)
        total = np.where(held, values[donors], 0).sum(axis=1) * (self._fine // np.maximum(count, 1))
        return np.where(count > 0, total, default * self._fine)

    @cached_property
    def _sides(self) -> tuple[NearestNeighbours, MatchedRows, MatchedRows]:
        """How rows are matched, the complete ones and the incomplete ones."""
        donors, domain = self.donors, self.schema.domain
        known, wanting, values = self._rows
        space = MatchingSpace(
            sizes=donors.match.shape(domain),
            ordered=tuple(
                self.schema.variables[name].ordered and name not in donors.one_hot
                for name in donors.match.clique
            ),
        )
        places = cell_indices(donors.match, codes=self.rows.codes, domain=domain)
        labels = label_rows(self.rows, key=self.key)
        complete, incomplete = (
            MatchedRows(places=places[side], labels=labels[side], values=values[side])
            for side in (known, wanting)
        )
        return NearestNeighbours(space=space, k=donors.k, ties=donors.ties), complete, incomplete

    @cached_property
    def _rows(self) -> tuple[Truth, Truth, Ints]:
        """Which rows have a value, which have none and should, and the values of all on the lattice.

        Those outside the column's universe should have none.
        """
        column = fillable_column(self.donors.column, self.schema)
        known, wanting = find_incomplete(self.rows, column)
        ranged = isinstance(column, RangeColumn)
        numbers = self.rows.numbers[column.name] if ranged else self.rows.codes[column.name]
        return known, wanting, self._grid.to_steps(np.where(known, numbers, np.nan))

    @cached_property
    def _grid(self) -> _Grid:
        return _Grid.of(self.donors)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """The public lattice of values: whole numbers of `unit` from `low` to `high`."""

    unit: Fraction
    low: int
    high: int
    default: int

    @classmethod
    def of(cls, donors: Donors) -> _Grid:
        """Return the lattice of a range: whole numbers and short binary fractions lie on it.

        Its unit is a power of two, and the largest number of the range at least 2^20 units, however small it is.
        """
        most, unit = max(abs(donors.low), abs(donors.high)), Fraction(1, 2**_FINE_BITS)
        if most < 1:
            unit /= 2 ** (math.ceil(1 / most) - 1).bit_length()
        else:
            unit = max(unit, Fraction(2) ** (math.ceil(most).bit_length() - _BITS))
        low, high = math.ceil(donors.low / unit), math.floor(donors.high / unit)
        default = min(max(round(donors.default / unit), low), high)
        return cls(unit=unit, low=low, high=high, default=default)

    def to_steps(self, numbers: Floats) -> Ints:
        """Return numbers, held to the range, as whole numbers; what is none as the lowest."""
        # Held to the range first, in which a power of two divides without rounding or overflow.
        held = np.clip(numbers, float(self.low * self.unit), float(self.high * self.unit))
        steps = np.rint(held / float(self.unit))
        return np.nan_to_num(steps, nan=self.low).astype(np.int64)
