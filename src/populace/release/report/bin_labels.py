"""Short names for what the bars of a chart stand for."""

from __future__ import annotations

from fractions import Fraction

from populace.schema.codec.decoder import code_labels
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.exact_numbers import format_decimal

# From here on, numbers that end in noughts are written in thousands.
MIN_THOUSANDS = 10_000
DASH = "–"

BinEnds = tuple[str, str]


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
