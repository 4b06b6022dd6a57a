"""Columns whose domain runs from one end to another, and those of them that go in whole steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from populace.schema.columns.bins import to_range
from populace.schema.columns.column import Column, find_repeated
from populace.schema.columns.heaping_classes import HeapingClasses, Integers, StepClasses
from populace.schema.exact_numbers import MAX_EXACT_INTEGER, parse_number
from populace.schema.hints import quote_names


class OutOfRange(StrEnum):
    """Where a number outside [min, max] goes: to the nearest end, or to the code for everything else."""

    NEAREST = "nearest"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class BinDensity:
    """The density of values inside bins or, where it is empty, that there is one still to be learnt.

    Everything is counted in units, of which all values are whole multiples. `starts` cuts the bins into stretches with
    a weight each; `class_weights` gives for every bin a weight to each class of values: those divided by the same one
    of `steps` (days have classes of their own, and no steps). Weights compare within one bin only.
    """

    starts: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    class_weights: tuple[tuple[int, ...], ...] = ()
    unit: Fraction = Fraction(1)

    @property
    def known(self) -> bool:
        """Whether the density was learnt."""
        return bool(self.starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeColumn(Column):
    """A column whose domain runs from one end to another."""

    beyond: OutOfRange = OutOfRange.NEAREST
    density: BinDensity | None = None
    """How values lie inside bins, learnt or to be learnt; without it they are drawn uniformly."""

    @property
    def needs_learning(self) -> bool:
        """Whether bins, or the density inside them, still have to be learnt from the rows, with budget."""
        return self.unknown or (self.density is not None and not self.density.known)

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the first code is a bottom code, and the last one a top code."""
        return False, False

    def value(self, text: str) -> Fraction | None:
        """Return the number that a text stands for in this column, or None."""
        return parse_number(text)

    def heaping_classes(self, steps: tuple[int, ...]) -> HeapingClasses:
        """Return the classes of round values, by steps in units of the column."""
        return StepClasses(steps or (1,))

    def starts_in_units(self, unit: Fraction) -> Integers:
        """Return where the codes of the domain begin, in units, and where the last one stops."""
        raise TypeError(f"the bins of column {self.name!r} are not known in units of {unit}")

    def _check_specials(self) -> None:
        values = [str(value) for value in numeric_special_codes(self).values()]
        if duplicate := find_repeated(values):
            raise self.error(
                f": the number {quote_names(duplicate)} has two special codes.",
                hint="write each number once in `missing`, `outside` and `other`",
            )
        Column._check_specials(self)

    def _check_density(self, *, binned: bool) -> None:
        """Refuse to learn, or to believe, a density inside bins where there are none, or none that are drawn."""
        if self.density is not None and (not binned or self.function_of):
            raise self.error(
                "has inside, and no bins whose values are drawn.",
                hint="leave inside out: every value has a code of its own, or follows from other columns",
            )
        if self.density is not None and self.density.known and not self._fits_bins(self.density):
            # Files could have been altered.
            raise self.error(
                ": what is said of values inside its bins does not fit them.",
                hint='write inside = "learn", or use the file as populace wrote it',
            )

    def _fits_bins(self, density: BinDensity) -> bool:
        bins = self.starts_in_units(density.unit)
        starts, steps = density.starts, density.steps or (1,)
        classes = self.heaping_classes(density.steps).size
        return (
            {*starts} >= {*bins[:-1].tolist()}
            and starts[0] == bins[0]
            and starts[-1] < bins[-1]
            and all(a < b for a, b in pairwise(starts))
            and len(density.weights) == len(starts)
            and steps[0] == 1
            and all(a < b and b % a == 0 for a, b in pairwise(steps))
            and len(density.class_weights) == self.levels
            and all(len(row) == classes for row in density.class_weights)
            and all(
                0 <= w < MAX_EXACT_INTEGER for row in (density.weights, *density.class_weights) for w in row
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepColumn(RangeColumn):
    """A column of whole steps (numbers, days, seconds) from min to max; `starts` holds the first step of each bin."""

    learnable: ClassVar[bool] = True

    min: int
    max: int
    starts: Sequence[int] = ()

    @property
    def levels(self) -> int:
        """The number of bins."""
        return len(self.starts)

    @property
    def binned(self) -> bool:
        """Whether some code stands for more than one step."""
        return self.levels != self.max - self.min + 1

    def level(self, text: str) -> int | None:
        """Return the bin of a step from min to max, or None."""
        value = self.value(text)
        if value is None or value.denominator != 1 or not self.min <= value <= self.max:
            return None
        return bisect_right(self.starts, int(value)) - 1

    def bounds(self, level: int) -> tuple[int, int]:
        """Return the first and the last step of a bin; both are the code's own number at top and bottom."""
        last = self.starts[level + 1] - 1 if level + 1 < self.levels else self.max
        return self.starts[level], last

    def starts_in_units(self, unit: Fraction) -> Integers:
        """Return where the bins begin, in units, and where the last one stops."""
        step, starts = int(unit), self.starts
        if isinstance(starts, range):
            first = np.arange(starts.start, starts.stop, starts.step, dtype=np.int64)
        else:
            first = np.array(starts, dtype=np.int64)
        return np.append(first // step, self.max // step + 1)

    def _declared_starts(self) -> Sequence[int]:
        """Return the starts as declared, or one for each step, after making sure that they lead from min to max."""
        starts = self.starts if len(self.starts) > 0 else range(self.min, self.max + 1)
        increasing = starts.step > 0 if isinstance(starts, range) else all(a < b for a, b in pairwise(starts))
        if starts[0] != self.min or starts[-1] > self.max or not increasing:
            raise self.error(
                f": its bins do not increase from {self._step_text(self.min)} to {self._step_text(self.max)}.",
                hint="give increasing edges, the first equal to min and the last to max",
            )
        return starts

    def _place_starts(self, starts: Sequence[int]) -> None:
        object.__setattr__(self, "starts", to_range(starts, stop=self.max + 1))

    def _step_text(self, value: int) -> str:
        return str(value)


def numeric_special_codes(column: Column) -> dict[str, Fraction]:
    """Return those special codes of a column that are numbers (days, seconds), with their values."""
    if not isinstance(column, RangeColumn):
        return {}
    numbers = {text: column.value(text) for text in column.specials}
    return {text: value for text, value in numbers.items() if value is not None}
