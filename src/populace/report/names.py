"""Short names for what the bars of a chart stand for."""

from __future__ import annotations

from fractions import Fraction

from populace.schema.codec import labels
from populace.schema.columns import Column
from populace.schema.numbers import decimal_text
from populace.schema.ranges import Integer, Numeric

# From here on, numbers that end in noughts are written in thousands.
LONG = 10_000
DASH = "–"

Ends = tuple[str, str]


def bin_ends(column: Column) -> tuple[Ends, ...]:
    """Return the name of the first and of the last value of every code; they are the same where it stands for one.

    Numbers have one style, whole or not: both ends of the bin.

    >>> bin_ends(Integer(name="income", min=0, max=100_000, starts=(0, 5_000, 60_000)))[:3]
    (('0', '5k'), ('5k', '60k'), ('60k', '100k'))
    >>> bin_ends(Integer(name="age", min=0, max=30, starts=(0, 18), labels={"18": "adult"}))[:2]
    (('0', '17'), ('adult', 'adult'))
    """
    names = [(label, label) for label in labels(column)]
    if isinstance(column, Numeric) or (isinstance(column, Integer) and column.binned):
        named = {column.level(text) for text in column.labels}
        named |= {level for level, end in ((0, column.ends[0]), (column.levels - 1, column.ends[1])) if end}
        for level, ends in enumerate(_number_ends(column)):
            if level not in named:
                names[level] = ends
    return tuple(names)


def span(first: Ends, last: Ends) -> str:
    """Return one name for everything from one code to another.

    >>> span(("0", "4"), ("5", "9")), span(("a", "a"), ("c", "c")), span(("-5", "0"), ("-5", "0"))
    ('0–9', 'a – c', '-5 – 0')
    """
    low, high = first[0], last[1]
    if low == high:
        return low
    plain = low[:1].isdigit() and high[:1].isdigit()
    return f"{low}{DASH}{high}" if plain else f"{low} {DASH} {high}"


def _number_ends(column: Integer | Numeric) -> list[Ends]:
    if isinstance(column, Numeric):
        edges = [column.bounds(level) for level in range(column.levels)]
        return [(short(low), short(high)) for low, high in edges]
    numbers = [column.bounds(level) for level in range(column.levels)]
    # A bin after one for a single round number begins with 1: the first incomes above none.
    if column.max >= LONG and all(start % 100 in (0, 1) for start in column.starts):
        # 60000 to 74999 reads best as 60k–75k.
        names = [short(Fraction(edge)) for edge in (*column.starts, column.max)]
        return [
            (names[level], names[level] if first == last else names[level + 1])
            for level, (first, last) in enumerate(numbers)
        ]
    return [(str(first), str(last)) for first, last in numbers]


def short(value: Fraction) -> str:
    """Return a number as short as it can be without becoming another.

    >>> [short(Fraction(text)) for text in ("60000", "2.5", "12345", "-1500000", "5000")]
    ['60k', '2.5', '12345', '-1.5M', '5k']
    """
    for unit, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(value) >= unit and (value * 10 / unit).denominator == 1:
            return f"{decimal_text(value / unit)}{letter}"
    return decimal_text(value) or str(value)
