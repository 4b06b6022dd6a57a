"""What a chart of one column shows: at most two dozen bars with short names, whatever the size of its domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from populace.core.marginals import Counts, Grouping, Marginal
from populace.inference.gls.count_intervals import CountIntervals
from populace.schema.codec.decoder import code_labels
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.exact_numbers import format_decimal

MAX_BARS = 24
# From here on, numbers that end in noughts are written in thousands.
MIN_THOUSANDS = 10_000
DASH = "–"

BinEnds = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: the share of the rows in some codes, as estimated from all measurements and as synthesized.

    `margin` is the 95 % margin of error of the estimate.
    `special` bars stand for a code of missing values or for empty cells.
    """

    label: str
    special: bool
    measured: float
    margin: float
    synthetic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BarCodes:
    """The codes that one bar stands for."""

    label: str
    codes: tuple[int, ...]
    special: bool = False


def group_ordered_codes(
    ends: Sequence[BinEnds], *, values: int, most: int = MAX_BARS
) -> tuple[BarCodes, ...]:
    """Return groups of ordered codes: runs of neighbours where there are many, special codes on their own.

    The first `values` codes are ordered; the rest are codes for missing and for everything else.

    >>> ages = [(str(age), str(age)) for age in range(100)] + [("refused", "refused")]
    >>> slots = group_ordered_codes(ages, values=100)
    >>> [slot.label for slot in slots][:2], slots[-1].label, len(slots)
    (['0–4', '5–9'], 'refused', 21)
    """
    special = len(ends) - values
    width = max(1, math.ceil(values / max(most - special, 1)))
    runs = [tuple(range(low, min(low + width, values))) for low in range(0, values, width)]
    return (
        *(BarCodes(label=join_labels(ends[run[0]], ends[run[-1]]), codes=run) for run in runs),
        *_special_codes(ends, values=values),
    )


def group_largest_codes(
    ends: Sequence[BinEnds], *, values: int, counts: Counts, most: int = MAX_BARS
) -> tuple[BarCodes, ...]:
    """Return groups of unordered codes: the largest in their own order, one for the others together, special codes."""
    special = _special_codes(ends, values=values)
    max_shown = max(most - len(special), 2)
    if values <= max_shown:
        return (*(_single_code(ends, code) for code in range(values)), *special)
    by_size = np.argsort(-counts[:values], kind="stable")
    kept, rest = np.sort(by_size[: max_shown - 1]), np.sort(by_size[max_shown - 1 :])
    return (
        *(_single_code(ends, int(code)) for code in kept),
        BarCodes(label=f"{len(rest)} others", codes=tuple(int(code) for code in rest)),
        *special,
    )


def _single_code(ends: Sequence[BinEnds], code: int, *, special: bool = False) -> BarCodes:
    return BarCodes(label=join_labels(ends[code], ends[code]), codes=(code,), special=special)


def _special_codes(ends: Sequence[BinEnds], *, values: int) -> tuple[BarCodes, ...]:
    return tuple(_single_code(ends, code, special=True) for code in range(values, len(ends)))


def make_bars(
    found: CountIntervals, name: str, *, slots: Sequence[BarCodes], synthetic: Counts, total: float
) -> tuple[Bar, ...]:
    """Return one bar per group of codes; those of a group are estimated together, with the interval of their sum."""
    rows = max(int(synthetic.sum()), 1)
    places = [(code, place) for place, slot in enumerate(slots) for code in slot.codes]
    grouping = Grouping(name, tuple(place for _, place in sorted(places)))
    interval = found.at(Marginal((name,), (grouping,)))
    return tuple(
        Bar(
            label=slot.label,
            special=slot.special,
            measured=float(interval.estimate[place]) / total,
            margin=float(interval.half_width[place]) / total,
            synthetic=float(synthetic[list(slot.codes)].sum()) / rows,
        )
        for place, slot in enumerate(slots)
    )


def label_bins(column: Column) -> tuple[BinEnds, ...]:
    """Return the name of the first and of the last value of every code; they are the same where it stands for one.

    Numbers have one style, whole or not: both ends of the bin.

    >>> label_bins(IntegerColumn(name="income", min=0, max=100_000, starts=(0, 5_000, 60_000)))[:3]
    (('0', '5k'), ('5k', '60k'), ('60k', '100k'))
    >>> label_bins(IntegerColumn(name="age", min=0, max=30, starts=(0, 18), labels={"18": "adult"}))[:2]
    (('0', '17'), ('adult', 'adult'))
    """
    names = [(label, label) for label in code_labels(column)]
    if isinstance(column, DecimalColumn) or (isinstance(column, IntegerColumn) and column.binned):
        named = {column.level(text) for text in column.labels}
        named |= {level for level, end in ((0, column.ends[0]), (column.levels - 1, column.ends[1])) if end}
        for level, ends in enumerate(_label_number_bins(column)):
            if level not in named:
                names[level] = ends
    return tuple(names)


def join_labels(first: BinEnds, last: BinEnds) -> str:
    """Return one name for everything from one code to another.

    >>> join_labels(("0", "4"), ("5", "9")), join_labels(("a", "a"), ("c", "c")), join_labels(("-5", "0"), ("-5", "0"))
    ('0–9', 'a – c', '-5 – 0')
    """
    low, high = first[0], last[1]
    if low == high:
        return low
    plain = low[:1].isdigit() and high[:1].isdigit()
    return f"{low}{DASH}{high}" if plain else f"{low} {DASH} {high}"


def _label_number_bins(column: IntegerColumn | DecimalColumn) -> list[BinEnds]:
    if isinstance(column, DecimalColumn):
        edges = [column.bounds(level) for level in range(column.levels)]
        return [(abbreviate(low), abbreviate(high)) for low, high in edges]
    numbers = [column.bounds(level) for level in range(column.levels)]
    # A bin after one for a single round number begins with 1: the first incomes above none.
    if column.max >= MIN_THOUSANDS and all(start % 100 in (0, 1) for start in column.starts):
        # 60000 to 74999 reads best as 60k–75k.
        names = [abbreviate(Fraction(edge)) for edge in (*column.starts, column.max)]
        return [
            (names[level], names[level] if first == last else names[level + 1])
            for level, (first, last) in enumerate(numbers)
        ]
    return [(str(first), str(last)) for first, last in numbers]


def abbreviate(value: Fraction) -> str:
    """Return a number as short as it can be without becoming another.

    >>> [abbreviate(Fraction(text)) for text in ("60000", "2.5", "12345", "-1500000", "5000")]
    ['60k', '2.5', '12345', '-1.5M', '5k']
    """
    for unit, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(value) >= unit and (value * 10 / unit).denominator == 1:
            return f"{format_decimal(value / unit)}{letter}"
    return format_decimal(value) or str(value)
