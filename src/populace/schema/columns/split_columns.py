"""One column of whole numbers as two: how many times the divisor, and what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.schema.columns.numeric_columns import IntegerColumn

Codes = npt.NDArray[Any]


def quotient_column(column: IntegerColumn) -> IntegerColumn:
    """Return the coarse variable of a split column; it has all its special codes, and those of top and bottom.

    >>> quotient_column(IntegerColumn(name="WAGE", min=0, max=4999, top=5000, split=100, missing=("-1",))).size
    53
    """
    divisor = column.split or 1
    bottom, top = column.ends
    low, high = (column.min + bottom) // divisor, (column.max - top) // divisor
    name = f"{column.name} // {divisor}"
    bare = IntegerColumn(
        name=name,
        min=low,
        max=high,
        bottom=low - 1 if bottom else None,
        top=high + 1 if top else None,
        origin=column.origin,
    )
    # A special number that is no value may be a quotient; it gets a name that is no number.
    names = {text: text if bare.level(text) is None else f"= {text}" for text in column.specials}
    if column.other_code < column.levels:
        other = str(bare.starts[_coarse(column, bare, np.array([column.other_code]))[0]])
    else:
        other = names[column.specials[column.other_code - column.levels]]
    return replace(
        bare,
        missing=tuple(names[text] for text in column.missing),
        universe=column.universe,
        outside=None if column.outside is None else names[column.outside],
        other=other,
        labels={names[text]: label for text, label in column.labels.items() if text in names},
    )


def remainder_column(column: IntegerColumn) -> IntegerColumn:
    """Return the fine variable of a split column: 0 … divisor − 1."""
    divisor = column.split or 1
    return IntegerColumn(
        name=f"{column.name} % {divisor}", min=0, max=divisor - 1, other="0", origin=column.origin
    )


def split_codes(column: IntegerColumn, codes: Codes) -> tuple[Codes, Codes]:
    """Return the codes of the two variables of a split column.

    >>> age = IntegerColumn(name="AGE", min=0, max=99, split=10)
    >>> [part.tolist() for part in split_codes(age, np.array([47, 100]))]       # 100: everything else
    [[4, 10], [7, 0]]
    """
    whole = codes.astype(np.int64)
    coarse = quotient_column(column)
    divisor = column.split or 1
    fine = np.where(_plain(column, whole), (whole + column.min) % divisor, 0)
    return (
        _coarse(column, coarse, whole).astype(np.min_scalar_type(coarse.size - 1)),
        fine.astype(np.min_scalar_type(divisor - 1)),
    )


def join_codes(column: IntegerColumn, coarse: Codes, fine: Codes) -> Codes:
    """Return the codes of a split column from those of its two variables.

    The remainder is ignored at special, top and bottom codes; a pair beyond the ends of the column is its end.

    >>> age = IntegerColumn(name="AGE", min=0, max=99, split=10)
    >>> join_codes(age, np.array([4, 10]), np.array([7, 3])).tolist()
    [47, 100]
    """
    part, divisor = quotient_column(column), column.split or 1
    whole = coarse.astype(np.int64)
    bottom, top = column.ends
    values = (whole + part.min) * divisor + fine.astype(np.int64)
    inside = np.clip(values - column.min, int(bottom), column.levels - 1 - int(top))
    ends = np.where(whole == part.levels - 1, column.levels - 1, 0)
    codes = np.where(
        _plain(part, whole), inside, np.where(whole < part.levels, ends, whole - part.levels + column.levels)
    )
    return codes.astype(np.min_scalar_type(column.size - 1))


def _coarse(
    column: IntegerColumn, coarse: IntegerColumn, codes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    inside = (codes + column.min) // (column.split or 1) - coarse.min
    ends = np.where(codes == column.levels - 1, coarse.levels - 1, 0)
    special = codes - column.levels + coarse.levels
    return np.where(_plain(column, codes), inside, np.where(codes < column.levels, ends, special))


def _plain(column: IntegerColumn, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Say which codes are single numbers: neither special nor those of top and bottom."""
    bottom, top = column.ends
    return np.asarray((codes >= int(bottom)) & (codes < column.levels - int(top)))
