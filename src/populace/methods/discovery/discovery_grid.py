"""The finest view that learning takes of a column: a public grid of cells over its range, each with a class of values.

Where there are more values than cells, every other cell holds one round value alone, so that heaps are still seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Counts
from populace.schema.columns.date_columns import DateColumn, TemporalColumn
from populace.schema.columns.heaping_classes import CLOCK_STEPS, heaping_steps
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import StepColumn
from populace.schema.columns.unknown_columns import UnknownBins

# A column that has more bins than this part of the cells is not cut any finer.
_OWN_BINS_PART = 4
# Decimals of which nothing is declared are told apart to this part of a cell.
_DECIMAL_FINENESS = 1000
# Up to here every whole number of units and its quotient by a power of ten is a float of its own.
_MAX_UNITS = 10**15
# Up to here two numbers that are a unit apart are two floats, whatever the unit.
_MAX_DISTINCT_UNITS = 2**52
# Smaller ranges end where floats lose their digits, and exact arithmetic on them is slow.
_MIN_MAGNITUDE = Fraction(1, 10**100)

OpenColumn = UnknownBins | StepColumn | DecimalColumn
CellRange = tuple[int, int]


@dataclass(frozen=True, eq=False)
class DiscoveryGrid:
    """A column in its cells: where they begin in units, where the last one stops, and the class of each."""

    column: StepColumn | DecimalColumn
    unit: Fraction
    steps: tuple[int, ...]
    starts: Counts
    classes: Counts

    @classmethod
    def of(cls, column: OpenColumn) -> DiscoveryGrid:
        """Return the grid of a column whose bins, or what lies inside them, is to be learnt.

        >>> spent = UnknownBins(name="SPENT", min=Fraction(0), max=Fraction(10**9), of=IntegerColumn)
        >>> DiscoveryGrid.of(spent).starts[:4].tolist()
        [0, 1, 1000, 1001]
        """
        fine, unit, step = _finest_column(column)
        starts = fine.starts_in_units(unit)
        steps = () if isinstance(fine, DateColumn) else _class_steps(fine, starts, step=step)
        classes = fine.heaping_classes(steps).classes(starts[:-1])
        # Only cells of one value have a class other than the commonest; the last one ends at its roundest value.
        wide = np.diff(starts) > 1
        if isinstance(fine, DecimalColumn) and not fine.ends[1]:
            wide[-1] = False
            classes[-1] = fine.heaping_classes(steps).classes(starts[-1:] - 1)[0]
        classes[wide] = 0
        return cls(fine, unit, steps, starts, classes)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.classes)

    def places(self, column: StepColumn | DecimalColumn) -> Counts:
        """Return the cells at which the codes of a column with coarser bins begin, and the number of cells."""
        return np.searchsorted(self.starts, column.starts_in_units(self.unit))

    def check(self, column: OpenColumn) -> None:
        """Refuse a column with a bin that does not begin where a cell does."""
        if isinstance(column, UnknownBins):
            return
        wanted = column.starts_in_units(self.unit)
        if not np.array_equal(self.starts[self.places(column)], wanted):
            raise SchemaError(
                f"column {column.name!r}: its bins are not made of whole cells, and what is inside cannot be learnt.",
                hint="leave inside out, or give rounder edges",
            )

    def value(self, cell: int) -> Fraction:
        """Return where a cell begins, as a number."""
        return int(self.starts[cell]) * self.unit

    def split_evenly(self, stretch: CellRange, parts: int) -> list[CellRange]:
        """Return a stretch of cells in so many parts of about one width, cut at round numbers.

        >>> age = DiscoveryGrid.of(UnknownBins(name="AGE", min=Fraction(0), max=Fraction(99), of=IntegerColumn))
        >>> age.split_evenly((0, 100), 4), age.split_evenly((7, 9), 4)
        ([(0, 20), (20, 50), (50, 80), (80, 100)], [(7, 8), (8, 9)])
        """
        low, high = int(self.starts[stretch[0]]), int(self.starts[stretch[1]])
        wanted = [low + (high - low) * number // parts for number in range(1, parts)]
        return self.cut(stretch, wanted, slack=(high - low) // (4 * parts))

    def cut(self, stretch: CellRange, wanted: Sequence[int], *, slack: int) -> list[CellRange]:
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
        if not isinstance(self.column, DateColumn):
            return int(find_roundest(Fraction(low), Fraction(high)))
        for period in ("datetime64[Y]", "datetime64[M]"):
            begin = int(np.datetime64(high, "D").astype(period).astype("datetime64[D]").astype(np.int64))
            if begin >= low:
                return begin
        return high


def max_grid_cells(column: OpenColumn) -> int:
    """Return how many cells the grid of a column has at most, without building it.

    >>> max_grid_cells(UnknownBins(name="AGE", min=Fraction(0), max=Fraction(99), of=IntegerColumn))
    100
    """
    known = column.with_domain(()) if isinstance(column, UnknownBins) else column
    if isinstance(known, DecimalColumn):
        return max(known.levels, LIMITS.max_decimal_bins)
    unit = _resolution(known)
    values = known.max // unit - known.min // unit + 1
    step = _integer_step(known, values)
    if step == 1:
        return values
    if known.levels > LIMITS.max_grid_cells // _OWN_BINS_PART:
        return known.levels
    return 2 * (values // step + 2 + known.levels)


def _finest_column(column: OpenColumn) -> tuple[StepColumn | DecimalColumn, Fraction, int]:
    """Return the column in its cells, its unit, and the step of which cells hold multiples alone, in units, or 0."""
    known = column.with_domain(()) if isinstance(column, UnknownBins) else replace(column, density=None)
    if isinstance(known, DecimalColumn):
        return _finest_decimals(known)
    unit = _resolution(known)
    low, high = known.min // unit, known.max // unit
    step = _integer_step(known, high - low + 1)
    starts: Sequence[int] = range(low * unit, high * unit + 1, unit)
    if step > 1:
        if isinstance(known, IntegerColumn) and any(known.ends):
            raise SchemaError(
                f"column {known.name!r} has inside, top or bottom, and more than {LIMITS.max_grid_cells} numbers.",
                hint="leave one of them out",
            )
        if known.levels > LIMITS.max_grid_cells // _OWN_BINS_PART:
            return known, Fraction(unit), 0
        own = [start // unit for start in known.starts]
        starts = [each * unit for each in _alternating_starts(low, high, step, own=own)]
    elif known.min % unit:
        starts = [known.min, *starts[1:]]
    return replace(known, starts=starts), Fraction(unit), step


def _resolution(column: StepColumn) -> int:
    """Return what texts of a column can tell apart: moments of some formats differ by minutes or hours."""
    return (column.resolution or 1) if isinstance(column, TemporalColumn) else 1


def _integer_step(column: StepColumn, values: int) -> int:
    """Return 1, or the least step of which so many values have few enough multiples."""
    if values <= LIMITS.max_grid_cells:
        return 1
    most = LIMITS.max_grid_cells - 4 - 2 * min(column.levels, LIMITS.max_grid_cells // _OWN_BINS_PART)
    if not isinstance(column, TemporalColumn):
        return int(_round_up_125(Fraction(2 * values, most)))
    unit = _resolution(column)
    clock = [step // unit for step in CLOCK_STEPS if step % unit == 0]
    step = next((step for step in clock if step > 1 and 2 * values <= step * most), clock[-1])
    return step * max(1, math.ceil(Fraction(2 * values, step * most)))


def _finest_decimals(column: DecimalColumn) -> tuple[DecimalColumn, Fraction, int]:
    low, high = column.edges[0], column.edges[-1]
    most = LIMITS.max_decimal_bins - 6
    span = high - low
    if column.decimals is not None and span * 10**column.decimals <= most:
        unit = Fraction(1, 10**column.decimals)
        first, last = int(low / unit), int(high / unit)
        return replace(column, edges=_cell_edges(column, range(first, last + 1), unit=unit)), unit, 1
    # Edges closer than this could be one and the same float.
    furthest = max(abs(low), abs(high), span)
    if furthest < _MIN_MAGNITUDE:
        raise SchemaError(
            f"column {column.name!r}: nothing can be learnt about numbers that are all nearer to 0 than 1e-100.",
            hint="give them in another unit of measurement, or give edges and leave inside out",
        )
    few = min(len(column.edges), most // _OWN_BINS_PART)
    step = _round_up_125(max(2 * span / (most - 2 * few), furthest / 2**38))
    unit = step / _DECIMAL_FINENESS if column.decimals is None else Fraction(1, 10**column.decimals)
    while any((edge / unit).denominator > 1 for edge in column.edges) and furthest / unit <= _MAX_UNITS:
        unit /= 10
    if furthest / unit > _MAX_UNITS:
        unit = _common_unit(column, furthest=furthest)
    count = math.ceil(step / unit)
    own = [int(edge / unit) for edge in column.edges]
    if len(own) > most // _OWN_BINS_PART:
        return column, unit, 0
    inner = _cell_edges(column, _alternating_starts(own[0], own[-1], count, own=own), unit=unit)
    edges = tuple(dict.fromkeys(edge for edge in [*inner, high] if low <= edge <= high))
    return replace(column, edges=edges), unit, count


def _common_unit(column: DecimalColumn, *, furthest: Fraction) -> Fraction:
    """Return a unit that divides all edges, though none of the round ones does, or refuse edges that have none."""
    scale = math.lcm(*(edge.denominator for edge in column.edges))
    unit = Fraction(math.gcd(*(int(edge * scale) for edge in column.edges)), scale)
    if furthest / unit > _MAX_DISTINCT_UNITS:
        raise SchemaError(
            f"column {column.name!r}: between numbers as small and as large as its edges, nothing can be learnt.",
            hint="round its edges, such as min = 0, or give edges and leave inside out",
        )
    while furthest / unit <= _MAX_UNITS / 10:
        unit /= 10
    return unit


def _cell_edges(column: DecimalColumn, places: Sequence[int], *, unit: Fraction) -> tuple[Fraction, ...]:
    """Return units as edges, without a first bin that a bottom code leaves no value."""
    kept = places if column.bottom is None else [n for n in places if n != places[0] + 1]
    return tuple(unit * place for place in kept)


def _alternating_starts(low: int, high: int, step: int, *, own: Sequence[int]) -> list[int]:
    """Return the column's own starts and the multiples of a step, with the number after each: it begins what follows.

    All of them lie from low to high.
    """
    alone = np.concatenate([np.array(own, dtype=np.int64), np.arange(low // step * step, high + 1, step)])
    # NumPy's own `unique` puts numbers into a hash table, in which millions of multiples fall onto each other.
    found = np.sort(np.concatenate([alone, alone + 1]))
    first = np.append(True, found[1:] > found[:-1])
    return list(found[first & (low <= found) & (found <= high)].tolist())


def _class_steps(column: StepColumn | DecimalColumn, starts: Counts, *, step: int) -> tuple[int, ...]:
    """Return the steps of the classes of a column, in units; one class where no cell holds a multiple alone."""
    if not step:
        return (1,)
    if isinstance(column, TemporalColumn):
        unit = _resolution(column)
        clock = (each // unit for each in CLOCK_STEPS if each > unit and each // unit % step == 0)
        return (1, *dict.fromkeys(clock))
    furthest = max(abs(int(starts[0])), abs(int(starts[-1])))
    return heaping_steps(finest=step, furthest=furthest)


def _round_up_125(least: Fraction) -> Fraction:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a number."""
    power = Fraction(10) ** math.floor(math.log10(least))
    return next(power * lead for lead in (Fraction(1, 2), 1, 2, 5, 10, 20) if power * lead >= least)


def find_roundest(low: Fraction, high: Fraction) -> Fraction:
    """Return the number between two others that is a multiple of the largest of 1, 2 and 5 times powers of ten.

    >>> [int(find_roundest(Fraction(low), Fraction(high))) for low, high in ((-3, 7), (1234, 1321), (48, 55), (7, 7))]
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
