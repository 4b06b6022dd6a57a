"""The likely mistake behind cells that do not fit a column: labels for codes, another format, a code not declared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.exact_numbers import parse_number
from populace.schema.hints import quote_names

# A mistake explains the cells if it explains this much of them.
_MIN_EXPLAINED = 0.9
_MAX_SHOWN = 5
# So few different texts beside numbers are taken for codes of missing values.
_MAX_MISSING_CODES = 4
# Numbers that codebooks give to missing values: negative ones, nines that may end in 7 or 8, and 77 or 888.
_MISSING_CODE = re.compile(r"(?:-\d+|9*[789]|7+|8+)(?:\.0*)?")
_TOO_NARROW = "the range is too narrow, in another unit, or needs a top or bottom code"
_UNIT = re.compile(r"[^\d\s]{0,3}\s*-?\d+(?:[.,]\d+)?\s*[^\d\s].*")


def guess_mistake(column: Column, texts: Counter[str], *, others: Mapping[str, Column]) -> str:
    """Return the likely mistake behind texts that do not fit; `others` are columns that do not fit either.

    >>> sex = CategoricalColumn(name="SEX", values=("1", "2"), labels={"1": "male", "2": "female"})
    >>> guess_mistake(sex, Counter({"male": 3, "female": 4}), others={})
    'the file holds labels where the schema lists codes'
    """
    filled = Counter({text: count for text, count in texts.items() if text})
    if texts[""] > _MIN_EXPLAINED * texts.total():
        return 'empty cells are not declared: missing = [""] expects them'
    for name, other in others.items():
        if _explains(filled, partial(_has_code, other)):
            return f"its cells fit {name!r}: are the two columns swapped?"
    if isinstance(column, CategoricalColumn):
        return _guess_listed(column, filled)
    if isinstance(column, TemporalColumn):
        return _guess_dated(filled)
    if isinstance(column, RangeColumn):
        return _guess_numeric(column, filled)
    return "look at the codebook again"


def _has_code(column: Column, text: str) -> bool:
    return column.code(text) is not None


def _explains(texts: Counter[str], fits: Callable[[str], bool]) -> bool:
    explained = sum(count for text, count in texts.items() if fits(text))
    return bool(texts) and explained >= _MIN_EXPLAINED * texts.total()


def _guess_listed(column: CategoricalColumn, texts: Counter[str]) -> str:
    labels = {label.casefold() for label in column.labels.values()}
    values = {value.casefold().strip() for value in column.values}
    numbers = {number for value in column.values if (number := parse_number(value)) is not None}
    if _explains(texts, lambda text: text.casefold().strip() in labels):
        return "the file holds labels where the schema lists codes"
    if _explains(texts, lambda text: text.casefold().strip() in values):
        return "the file writes the same values with other capitals or blanks"
    if _explains(texts, lambda text: parse_number(text) in numbers):
        return (
            'the file writes the same numbers otherwise, such as 1.0 or 01 for 1; type = "integer" reads both'
        )
    if numbers and _explains(texts, lambda text: parse_number(text) is None):
        return "the file holds words where the schema lists codes"
    if values and not numbers and _explains(texts, lambda text: parse_number(text) is not None):
        return "the file holds codes where the schema lists labels"
    shown = quote_names([text for text, _ in texts.most_common(_MAX_SHOWN)])
    return f"not declared: {shown}; a missing code, or a value of a newer codebook"


def _guess_dated(texts: Counter[str]) -> str:
    if _explains(texts, lambda text: re.search(r"\d", text) is not None):
        return (
            'the dates lie elsewhere or are written otherwise: declare a format, such as format = "%d.%m.%Y"'
        )
    return f"not dates: {quote_names([text for text, _ in texts.most_common(_MAX_SHOWN)])}; declare them as missing"


def _guess_numeric(column: RangeColumn, texts: Counter[str]) -> str:
    numbers = {text: number for text in texts if (number := parse_number(text)) is not None}
    if not numbers:
        if _explains(texts, lambda text: _UNIT.fullmatch(text) is not None):
            return "the numbers are written with units or marks: write plain numbers"
        return f"not numbers: {quote_names([t for t, _ in texts.most_common(_MAX_SHOWN)])}; declare them as missing"
    low, high = _ends(column)
    if isinstance(column, IntegerColumn) and set(numbers.values()) <= {low - 1, high + 1}:
        return "the range begins or ends one off"
    far = {text: number for text, number in numbers.items() if number < low or number > high}
    if not far:
        return f"numbers that lie between those of the schema: {quote_names(sorted(numbers)[:_MAX_SHOWN])}"
    if high <= 1 and max(far.values()) <= 100 and min(far.values()) >= 0:
        return "percentages where the schema has shares?"
    codes = [text for text in sorted(far) if _MISSING_CODE.fullmatch(text.strip())]
    if codes and len({far[text] for text in codes}) <= _MAX_MISSING_CODES:
        hint = f"missing codes that are not declared? {quote_names(codes[:_MAX_SHOWN])}"
        return hint if len(codes) == len(far) else f"{hint}; for other values {_TOO_NARROW}"
    if low > 0 and max(far.values()) <= 1:
        return "shares where the schema has percentages?"
    return _TOO_NARROW


def _ends(column: RangeColumn) -> tuple[Fraction, Fraction]:
    if isinstance(column, DecimalColumn):
        return column.edges[0], column.edges[-1]
    if isinstance(column, IntegerColumn):
        return Fraction(column.min), Fraction(column.max)
    return Fraction(0), Fraction(0)
