"""Learning domains: the values and the bins of columns that the schema leaves open, before anything else is asked.

Values come from a stability threshold. Bins come from a tree over the public range: what holds many rows is cut
in four, level by level. Everything after a noisy answer is post-processing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

from populace.errors import UsageError
from populace.marginals import Counts, Grouping, Marginal
from populace.measurements import Measurement
from populace.privacy.budget import Budget
from populace.privacy.mechanisms import Noise, Stability
from populace.progress import Progress
from populace.schema.bins import MOST_BINS
from populace.schema.columns import Column
from populace.schema.ranges import Integer, Numeric
from populace.schema.schema import Schema
from populace.schema.unknown import UnknownBins, UnknownValues

# What one column takes, and all of them together at most. Why: docs/decisions/learnt-domains.md.
COLUMN_SHARE, MOST_SHARE = Fraction(6, 100), Fraction(1, 4)
# The part of δ that is set aside where values are learnt.
KEY_SHARE = Fraction(1, 10)
# A part is cut in so many, at most so often.
FAN_OUT, MOST_LEVELS = 4, 12
# It is cut when it stands out of its noise so far, and holds more than this part of all rows.
CERTAIN, PART = 4.0, Fraction(1, 32)
# Whole numbers get cells of their own up to here; decimals have as many as a column may have bins.
MOST_CELLS = 2**21

Stretch = tuple[int, int]
Edge = int | Fraction


class Finder(Protocol):
    """The questions of the barrier about columns whose domain is not public."""

    @property
    def budget(self) -> Budget: ...

    def discover_values(self, column: str, *, law: Stability) -> Mapping[str, int]:
        """Return the values that are told, with their noisy counts."""
        ...

    def discover_bins(self, column: str, *, parts: Sequence[Stretch], noise: Noise) -> Counts:
        """Return noisy counts of stretches of the column's codes, and of everything else at the end."""
        ...


def set_aside(schema: Schema, *, delta: Fraction) -> Fraction:
    """Return the part of δ that learning takes, or refuse before anything is spent what no budget can pay for."""
    learnt = [name for name, column in schema.columns.items() if not column.unknown and column.draft.unknown]
    if learnt:
        raise UsageError(
            f"the domain of column {learnt[0]!r} was learnt by another run.",
            hint='declare its values or edges in the schema, or let this run learn them again with "learn"',
        )
    values = [name for name, column in schema.columns.items() if isinstance(column, UnknownValues)]
    if values and not delta:
        raise UsageError(
            f"the values of column {values[0]!r} cannot be learnt with delta 0.",
            hint="give a delta above 0, or list the values in the schema",
        )
    return KEY_SHARE * delta if values else Fraction(0)


def gridded(schema: Schema) -> Schema:
    """Return the schema in which columns of unknown bins have the finest bins that learning looks at."""
    return schema.replaced(
        {name: grid(column) for name, column in schema.columns.items() if isinstance(column, UnknownBins)}
    )


def learn(
    opened: Callable[[Schema], Finder], schema: Schema, *, progress: Progress
) -> tuple[Schema, tuple[Measurement, ...]]:
    """Return the schema with every open domain learnt, and the noisy tables that were measured for it.

    `opened` gives the questions about the table under a schema. All values are learnt first, then bins on rows that
    are read with them: rules between the two hold while bins are learnt as they do later. What a tree does not need
    is left for later questions.
    """
    names = schema.unknown
    values = [name for name in names if isinstance(schema.columns[name], UnknownValues)]
    share = min(COLUMN_SHARE, MOST_SHARE / max(len(names), 1))
    finder = opened(gridded(schema))
    budget = finder.budget
    learnt: dict[str, Column] = {}
    for place, name in enumerate(values):
        progress("learning domains", place / len(names))
        column = schema.columns[name]
        if isinstance(column, UnknownValues):
            law = budget.key_law(share, delta=budget.keys / len(values))
            # Sorted by text: the order of the file is private.
            learnt[name] = column.learnt(sorted(finder.discover_values(name, law=law)))
    tables: list[Measurement] = []
    if values:
        schema = schema.replaced(learnt)
        finder = opened(gridded(schema))
    for place, name in enumerate(schema.unknown):
        progress("learning domains", (len(values) + place) / len(names))
        column = schema.columns[name]
        if isinstance(column, UnknownBins):
            learnt[name], levels = _learn_bins(finder, column, budget=budget, share=share)
            tables += levels
    return schema.replaced(learnt), tuple(tables)


def grid(column: UnknownBins) -> Integer | Numeric:
    """Return the column in the finest bins that learning looks at: one per number, or steps such as 0.5 or 20.

    >>> grid(UnknownBins(name="AGE", min=Fraction(0), max=Fraction(99), whole=True)).levels
    100
    >>> spent = UnknownBins(name="SPENT", min=Fraction(0), max=Fraction(10**9), whole=True)
    >>> list(grid(spent).starts[:3])
    [0, 500, 1000]
    """
    return _binned(column, _cells(column))


def _binned(column: UnknownBins, starts: Sequence[Edge]) -> Integer | Numeric:
    """Return the column with bins that begin at some numbers, the first of them its least."""
    plain = column.learnt(())
    if isinstance(plain, Integer):
        return replace(plain, starts=starts if isinstance(starts, range) else tuple(map(int, starts)))
    return replace(plain, edges=(*map(Fraction, starts), column.max))


def _cells(column: UnknownBins) -> Sequence[Edge]:
    """Return where the cells of the grid begin: at the least number and at the multiples of one step."""
    low, high = column.min, column.max
    step = _step(column)
    first, last = math.floor(low / step) + 1, math.ceil(high / step) - 1
    if not column.whole:
        return [low, *(place * step for place in range(first, last + 1))]
    # A range where one will do: of millions of numbers it takes no memory.
    if low % step == 0:
        return range(int(low), int(high) + 1, int(step))
    return [int(low), *range(first * int(step), int(high) + 1, int(step))]


def _step(column: UnknownBins) -> Fraction:
    """Return the least of 1, 2 and 5 times a power of ten that the range, the decimals and floats allow."""
    span = column.max - column.min
    if not span:
        return Fraction(1)
    # Edges closer than this could be one and the same float.
    furthest = max(abs(column.min), abs(column.max))
    least = max(span / (MOST_CELLS if column.whole else MOST_BINS - 2), furthest / 2**48)
    if column.whole:
        least = max(least, Fraction(1))
    elif column.decimals is not None:
        least = max(least, Fraction(1, 10**column.decimals))
    power = Fraction(10) ** math.floor(math.log10(least))
    return next(power * lead for lead in (Fraction(1, 2), 1, 2, 5, 10, 20) if power * lead >= least)


def _learn_bins(
    finder: Finder, column: UnknownBins, *, budget: Budget, share: Fraction
) -> tuple[Integer | Numeric, list[Measurement]]:
    """Return the column with learnt bins, the leaves of a tree over its grid, and every level of it as a table.

    Source: the tree of Zhang, Xiao and Xie 2016 (PrivTree), with noisy counts that are used again.
    """
    starts = _cells(column)
    levels = min(MOST_LEVELS, max(1, math.ceil(math.log(len(starts), FAN_OUT))))
    noise = budget.measure_noise(share, marginals=levels)
    tables: list[tuple[list[Stretch], Counts]] = []
    least = 0.0
    heavy: list[Stretch] = [(0, len(starts))]
    while heavy and len(tables) < levels:
        parts = [part for stretch in heavy for part in children(stretch, starts)]
        noisy = finder.discover_bins(column.name, parts=parts, noise=noise)
        counts = noisy[:-1].tolist()
        if not tables:
            least = max(CERTAIN * math.sqrt(noise.variance), float(PART) * sum(counts))
        tables.append((parts, noisy))
        heavy = [part for part, count in zip(parts, counts, strict=True) if _wide(part) and count > least]
    cuts = sorted({0, *(first for parts, _ in tables for first, _ in parts)})
    learnt = _binned(column, [starts[cut] for cut in cuts])
    return learnt, [_table(learnt, parts, noisy, cuts=cuts, noise=noise) for parts, noisy in tables]


def _table(
    column: Column, parts: Sequence[Stretch], counts: Counts, *, cuts: Sequence[int], noise: Noise
) -> Measurement:
    """Return a level of the tree as a table of the learnt column: each part is a group of bins.

    Everything else is the last group: the bins in no part and the special codes, if there are any of either.
    """
    ends = [last for _, last in parts]
    place = [bisect_right(ends, cut) for cut in cuts]
    inside = [at < len(parts) and parts[at][0] <= cut for at, cut in zip(place, cuts, strict=True)]
    groups = [at if within else len(parts) for at, within in zip(place, inside, strict=True)]
    grouping = Grouping(column.name, (*groups, *[len(parts)] * (column.size - column.levels)))
    return Measurement(Marginal((column.name,), (grouping,)), counts[: grouping.size], noise.variance)


def _wide(stretch: Stretch) -> bool:
    return stretch[1] - stretch[0] > 1


def children(stretch: Stretch, starts: Sequence[Edge]) -> Iterator[Stretch]:
    """Yield the parts of a stretch of cells: four of about one size, cut at round numbers.

    >>> list(children((0, 100), range(100))), list(children((7, 9), range(100)))
    ([(0, 20), (20, 50), (50, 80), (80, 100)], [(7, 8), (8, 9)])
    """
    first, last = stretch
    slack = (last - first) // (4 * FAN_OUT)
    cuts = {first, last}
    for number in range(1, FAN_OUT):
        ideal = first + (last - first) * number // FAN_OUT
        low, high = ideal - slack, ideal + slack
        wanted = roundest(Fraction(starts[low]), Fraction(starts[high]))
        cuts.add(max(low, min(high, bisect_left(starts, wanted))))
    yield from pairwise(sorted(cuts))


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
