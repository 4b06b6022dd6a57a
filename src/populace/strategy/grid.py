"""The finest look that learning takes at a column: a public grid of cells over its range, each with a class of values.

Where there are more values than cells, every other cell holds one round value alone, so that heaps are still seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from populace.errors import SchemaError
from populace.marginals import Counts
from populace.records import dataclass
from populace.schema.bins import MOST_BINS
from populace.schema.dates import Date, Dated
from populace.schema.inside import Inside, ladder, unit_starts
from populace.schema.ladders import CLOCK, Ladder, round_steps
from populace.schema.ranges import Integer, Numeric
from populace.schema.unknown import UnknownBins

# Whole numbers and moments get cells of their own up to here; decimals have as many as a column may have bins.
MOST_CELLS = 2**21
# A column that has more bins than this part of the cells is not cut any finer.
_OWN_PART = 4
# Decimals of which nothing is declared are told apart to this part of a cell.
_FINENESS = 1000
# Up to here every whole number of units and its quotient by a power of ten is a float of its own.
_TELLABLE = 10**15
# Up to here two numbers that are a unit apart are two floats, whatever the unit.
_APART = 2**52
# Smaller ranges end where floats lose their digits, and exact arithmetic on them is slow.
_LEAST_REACH = Fraction(1, 10**100)

Open = UnknownBins | Integer | Numeric | Dated
Stretch = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Grid:
    """A column in its cells: where they begin in units, where the last one stops, and the class of each."""

    column: Integer | Numeric | Dated
    unit: Fraction
    steps: tuple[int, ...]
    starts: Counts
    classes: Counts

    @classmethod
    def of(cls, column: Open) -> Grid:
        """Return the grid of a column whose bins, or what lies inside them, is to be learnt.

        >>> spent = UnknownBins(name="SPENT", min=Fraction(0), max=Fraction(10**9), whole=True)
        >>> Grid.of(spent).starts[:4].tolist()
        [0, 1, 1000, 1001]
        """
        fine, unit, step = _fine(column)
        starts = unit_starts(fine, unit)
        steps = () if isinstance(fine, Date) else _steps(fine, starts, step=step)
        classes = ladder(fine, Inside(steps=steps)).classes(starts[:-1])
        # Only cells of one value have a class other than the commonest; the last one ends at its roundest value.
        wide = np.diff(starts) > 1
        if isinstance(fine, Numeric) and not fine.ends[1]:
            wide[-1] = False
            classes[-1] = ladder(fine, Inside(steps=steps)).classes(starts[-1:] - 1)[0]
        classes[wide] = 0
        return cls(fine, unit, steps, starts, classes)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.classes)

    @property
    def ladder(self) -> Ladder:
        """The classes of its values."""
        return ladder(self.column, Inside(steps=self.steps))

    def places(self, column: Integer | Numeric | Dated) -> Counts:
        """Return the cells at which the codes of a column with coarser bins begin, and the number of cells."""
        return np.searchsorted(self.starts, unit_starts(column, self.unit))

    def check(self, column: Open) -> None:
        """Refuse a column with a bin that does not begin where a cell does."""
        if isinstance(column, UnknownBins):
            return
        wanted = unit_starts(column, self.unit)
        if not np.array_equal(self.starts[self.places(column)], wanted):
            raise SchemaError(
                f"column {column.name!r}: its bins are not made of whole cells, and what is inside cannot be learnt.",
                hint="leave inside out, or give rounder edges",
            )

    def value(self, cell: int) -> Fraction:
        """Return where a cell begins, as a number."""
        return int(self.starts[cell]) * self.unit

    def parted(self, stretch: Stretch, parts: int) -> list[Stretch]:
        """Return a stretch of cells in so many parts of about one width, cut at round numbers.

        >>> age = Grid.of(UnknownBins(name="AGE", min=Fraction(0), max=Fraction(99), whole=True))
        >>> age.parted((0, 100), 4), age.parted((7, 9), 4)
        ([(0, 20), (20, 50), (50, 80), (80, 100)], [(7, 8), (8, 9)])
        """
        low, high = int(self.starts[stretch[0]]), int(self.starts[stretch[1]])
        wanted = [low + (high - low) * number // parts for number in range(1, parts)]
        return self.cut(stretch, wanted, slack=(high - low) // (4 * parts))

    def cut(self, stretch: Stretch, wanted: Sequence[int], *, slack: int) -> list[Stretch]:
        """Return a stretch of cells cut near some units, at the roundest numbers that are so near."""
        first, last = stretch
        cuts = {first, last}
        for unit in wanted:
            low, high = max(unit - slack, int(self.starts[first])), min(unit + slack, int(self.starts[last]))
            near = self._roundest(low, high) if low <= high else unit
            cuts.add(max(first, min(last, bisect_left(self.starts, near))))
        return list(pairwise(sorted(cuts)))

    def _roundest(self, low: int, high: int) -> int:
        """Return the roundest number of units between two others: of days where a year or a month begins."""
        if not isinstance(self.column, Date):
            return int(roundest(Fraction(low), Fraction(high)))
        for period in ("datetime64[Y]", "datetime64[M]"):
            begin = int(np.datetime64(high, "D").astype(period).astype("datetime64[D]").astype(np.int64))
            if begin >= low:
                return begin
        return high


def most_cells(column: Open) -> int:
    """Return how many cells the grid of a column has at most, without building it.

    >>> most_cells(UnknownBins(name="AGE", min=Fraction(0), max=Fraction(99), whole=True))
    100
    """
    known = column.learnt(()) if isinstance(column, UnknownBins) else column
    if isinstance(known, Numeric):
        return max(known.levels, MOST_BINS)
    unit = (known.grain or 1) if isinstance(known, Dated) else 1
    values = known.max // unit - known.min // unit + 1
    step = _whole_step(known, values)
    if step == 1 or known.levels > MOST_CELLS // _OWN_PART:
        return values if step == 1 else known.levels
    return 2 * (values // step + 2 + known.levels)


def _fine(column: Open) -> tuple[Integer | Numeric | Dated, Fraction, int]:
    """Return the column in its cells, its unit, and the step of which cells hold multiples alone, in units, or 0."""
    known = column.learnt(()) if isinstance(column, UnknownBins) else replace(column, within=None)
    if isinstance(known, Numeric):
        return _fine_decimals(known)
    unit = 1
    if isinstance(known, Dated):
        unit = known.grain or 1
    low, high = known.min // unit, known.max // unit
    step = _whole_step(known, high - low + 1)
    starts: Sequence[int] = range(low * unit, high * unit + 1, unit)
    if step > 1:
        if isinstance(known, Integer) and any(known.ends):
            raise SchemaError(
                f"column {known.name!r} has inside, top or bottom, and more than {MOST_CELLS} numbers.",
                hint="leave one of them out",
            )
        if known.levels > MOST_CELLS // _OWN_PART:
            return known, Fraction(unit), 0
        own = [start // unit for start in known.starts]
        starts = [each * unit for each in _alternating(low, high, step, own=own)]
    elif known.min % unit:
        starts = [known.min, *starts[1:]]
    return replace(known, starts=starts), Fraction(unit), step


def _whole_step(column: Integer | Dated, values: int) -> int:
    """Return 1, or the least step of which so many values have few enough multiples."""
    if values <= MOST_CELLS:
        return 1
    most = MOST_CELLS - 4 - 2 * min(column.levels, MOST_CELLS // _OWN_PART)
    if isinstance(column, Integer):
        return int(_round_up(Fraction(2 * values, most)))
    clock = [step // max(1, column.grain or 1) for step in CLOCK if step % (column.grain or 1) == 0]
    step = next((step for step in clock if step > 1 and 2 * values <= step * most), clock[-1])
    return step * max(1, math.ceil(Fraction(2 * values, step * most)))


def _fine_decimals(column: Numeric) -> tuple[Numeric, Fraction, int]:
    low, high = column.edges[0], column.edges[-1]
    most = MOST_BINS - 6
    span = high - low
    if column.decimals is not None and span * 10**column.decimals <= most:
        unit = Fraction(1, 10**column.decimals)
        first, last = int(low / unit), int(high / unit)
        return replace(column, edges=_held(column, range(first, last + 1), unit=unit)), unit, 1
    # Edges closer than this could be one and the same float.
    furthest = max(abs(low), abs(high), span)
    if furthest < _LEAST_REACH:
        raise SchemaError(
            f"column {column.name!r}: nothing can be learnt about numbers that are all nearer to 0 than 1e-100.",
            hint="give them in another unit of measurement, or give edges and leave inside out",
        )
    few = min(len(column.edges), most // _OWN_PART)
    step = _round_up(max(2 * span / (most - 2 * few), furthest / 2**38))
    unit = step / _FINENESS if column.decimals is None else Fraction(1, 10**column.decimals)
    while any((edge / unit).denominator > 1 for edge in column.edges) and furthest / unit <= _TELLABLE:
        unit /= 10
    if furthest / unit > _TELLABLE:
        unit = _common_unit(column, furthest=furthest)
    count = math.ceil(step / unit)
    own = [int(edge / unit) for edge in column.edges]
    if len(own) > most // _OWN_PART:
        return column, unit, 0
    inner = _held(column, _alternating(own[0], own[-1], count, own=own), unit=unit)
    edges = tuple(dict.fromkeys(edge for edge in [*inner, high] if low <= edge <= high))
    return replace(column, edges=edges), unit, count


def _common_unit(column: Numeric, *, furthest: Fraction) -> Fraction:
    """Return a unit that divides all edges, though none of the round ones does, or refuse edges that have none."""
    scale = math.lcm(*(edge.denominator for edge in column.edges))
    unit = Fraction(math.gcd(*(int(edge * scale) for edge in column.edges)), scale)
    if furthest / unit > _APART:
        raise SchemaError(
            f"column {column.name!r}: between numbers as small and as large as its edges, nothing can be learnt.",
            hint="round its edges, such as min = 0, or give edges and leave inside out",
        )
    while furthest / unit <= _TELLABLE / 10:
        unit /= 10
    return unit


def _held(column: Numeric, places: Sequence[int], *, unit: Fraction) -> tuple[Fraction, ...]:
    """Return units as edges, without a first bin that a bottom code leaves no value."""
    kept = places if column.bottom is None else [n for n in places if n != places[0] + 1]
    return tuple(unit * place for place in kept)


def _alternating(low: int, high: int, step: int, *, own: Sequence[int]) -> list[int]:
    """Return the column's own starts and the multiples of a step, with the number after each: it begins what follows.

    All of them lie from low to high.
    """
    alone = np.concatenate([np.array(own, dtype=np.int64), np.arange(low // step * step, high + 1, step)])
    # NumPy's own `unique` puts numbers into a hash table, in which millions of multiples fall onto each other.
    found = np.sort(np.concatenate([alone, alone + 1]))
    first = np.append(True, found[1:] > found[:-1])
    return list(found[first & (low <= found) & (found <= high)].tolist())


def _steps(column: Integer | Numeric | Dated, starts: Counts, *, step: int) -> tuple[int, ...]:
    """Return the steps of the classes of a column, in units; one class where no cell holds a multiple alone."""
    if not step:
        return (1,)
    if isinstance(column, Dated):
        grain = column.grain or 1
        return (1, *dict.fromkeys(s // grain for s in CLOCK if s > grain and s // grain % step == 0))
    furthest = max(abs(int(starts[0])), abs(int(starts[-1])))
    return round_steps(finest=step, furthest=furthest)


def _round_up(least: Fraction) -> Fraction:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a number."""
    power = Fraction(10) ** math.floor(math.log10(least))
    return next(power * lead for lead in (Fraction(1, 2), 1, 2, 5, 10, 20) if power * lead >= least)


def roundest(low: Fraction, high: Fraction) -> Fraction:
    """Return the number between two others that is a multiple of the largest of 1, 2 and 5 times powers of ten.

    >>> [int(roundest(Fraction(low), Fraction(high))) for low, high in ((-3, 7), (1234, 1321), (48, 55), (7, 7))]
    [0, 1300, 50, 7]
    """
    if low == high or low <= 0 <= high:
        return low if low == high else Fraction(0)
    power = Fraction(10) ** math.ceil(math.log10(max(abs(low), abs(high))))
    while True:
        for lead in (10, 5, 2):
            step = power * lead / 10
            found = math.ceil(low / step) * step
            if found <= high:
                return found
        power /= 10
