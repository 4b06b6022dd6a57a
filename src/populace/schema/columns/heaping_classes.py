"""How round a number or a date is: public classes of values, from the commonest to the roundest.

Numbers are whole multiples of a column's unit here. A class holds the multiples of its step that no larger step
divides; since every step divides the next, values of a class are counted and found by arithmetic, never listed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

# Weekdays, weekends, the middle of a month, its first day, and the first day of a year.
DAY_CLASSES = ("weekday", "weekend", "15th", "first of a month", "first of a year")
# The seconds in a minute, and so on up to a day.
CLOCK_STEPS = (1, 60, 300, 900, 1800, 3600, 43_200, 86_400)


class HeapingClasses(ABC):
    """Classes of values, numbered from the commonest, that share out every stretch of units."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of classes."""

    @abstractmethod
    def classes(self, units: Integers) -> Integers:
        """Return the class of each value."""

    def sizes(self, first: Integers, stop: Integers) -> Integers:
        """Return how many values of each class the stretches first … stop − 1 hold: one row for each stretch."""
        return np.stack(
            [self._below(kind, stop) - self._below(kind, first) for kind in range(self.size)], axis=-1
        )

    def values(self, kinds: Integers, first: Integers, places: Integers) -> Integers:
        """Return the value at a place among those of a class that are not below `first`."""
        found = np.empty(kinds.shape, dtype=np.int64)
        for kind in range(self.size):
            here = kinds == kind
            found[here] = self._at(kind, self._below(kind, first[here]) + places[here])
        return found

    @abstractmethod
    def _below(self, kind: int, units: Integers) -> Integers:
        """Return the number of values of a class below some units, counted from one and the same value."""

    @abstractmethod
    def _at(self, kind: int, numbers: Integers) -> Integers:
        """Return the values of a class by their numbers, from 0."""


@dataclass(frozen=True)
class StepClasses(HeapingClasses):
    """Multiples of steps, each of which divides the next; the first step is 1.

    >>> tens = StepClasses((1, 5, 10))
    >>> tens.classes(np.array([7, 15, 20])).tolist(), tens.sizes(np.array([0]), np.array([21])).tolist()
    ([0, 1, 2], [[16, 2, 3]])
    >>> tens.values(np.array([0, 1, 2]), np.array([4, 4, 4]), np.array([1, 1, 1])).tolist()
    [6, 15, 20]
    """

    steps: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.steps)

    def classes(self, units: Integers) -> Integers:
        """Return the class of each value: the largest step that divides it."""
        found = np.zeros(units.shape, dtype=np.int64)
        for place, step in enumerate(self.steps):
            found[units % step == 0] = place
        return found

    def _below(self, kind: int, units: Integers) -> Integers:
        """Return the number of values of a class from 0 up to some units; those below 0 count as less than none."""
        step = self.steps[kind]
        multiples = -(-units // step)
        if kind + 1 == self.size:
            return multiples
        rounder = self.steps[kind + 1] // step
        return multiples // rounder * (rounder - 1) + np.maximum(multiples % rounder - 1, 0)

    def _at(self, kind: int, numbers: Integers) -> Integers:
        step = self.steps[kind]
        if kind + 1 < self.size:
            left = self.steps[kind + 1] // step - 1
            numbers = numbers // left * (left + 1) + numbers % left + 1
        return numbers * step


@dataclass(frozen=True)
class DayClasses(HeapingClasses):
    """Classes of days since 1970, from `first` to before `stop`.

    >>> days = DayClasses(0, 31)
    >>> days.classes(np.array([0, 1, 2, 14])).tolist(), days.sizes(np.array([0]), np.array([31])).tolist()
    ([4, 0, 1, 2], [[20, 9, 1, 0, 1]])
    """

    first: int
    stop: int

    @property
    def size(self) -> int:
        return len(DAY_CLASSES)

    def classes(self, units: Integers) -> Integers:
        days = units.astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        number = (days - months).astype(np.int64)
        # The first day of 1970 was a Thursday.
        found = ((units + 3) % 7 >= 5).astype(np.int64)
        found[number == 14] = 2
        found[number == 0] = 3
        found[(number == 0) & (months == days.astype("datetime64[Y]").astype("datetime64[M]"))] = 4
        return found

    def _below(self, kind: int, units: Integers) -> Integers:
        return np.searchsorted(self._days[kind], units)

    def _at(self, kind: int, numbers: Integers) -> Integers:
        return self._days[kind][numbers]

    @cached_property
    def _days(self) -> tuple[Integers, ...]:
        every = np.arange(self.first, self.stop, dtype=np.int64)
        kinds = self.classes(every)
        return tuple(every[kinds == kind] for kind in range(self.size))


def heaping_steps(*, finest: int, furthest: int) -> tuple[int, ...]:
    """Return the steps of round numbers: 1, the finest that is told apart, then 1 and 5 times powers of ten.

    >>> heaping_steps(finest=1, furthest=700), heaping_steps(finest=20, furthest=700)
    ((1, 5, 10, 50, 100, 500), (1, 20, 100, 500))
    """
    steps = [1] if finest == 1 else [1, finest]
    power = 1
    while power <= furthest:
        steps += [
            step for step in (power, 5 * power) if step % steps[-1] == 0 and steps[-1] < step <= furthest
        ]
        power *= 10
    return tuple(steps)
