"""Codes of a column that is split by a divisor: those of its quotient and its remainder, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import IntegerColumn, quotient_column

Codes = npt.NDArray[Any]


def join_variables(column: Column, codes: Mapping[str, Codes]) -> Codes:
    """Return the codes of a column from those of its variables."""
    parts = [codes[part.name] for part in column.variables]
    return join_codes(column, *parts) if isinstance(column, IntegerColumn) and len(parts) == 2 else parts[0]


def split_variables(column: Column, codes: Codes) -> dict[str, Codes]:
    """Return the codes of a column's variables, by name."""
    if not isinstance(column, IntegerColumn) or column.split is None:
        return {column.name: codes}
    return dict(zip((part.name for part in column.variables), split_codes(column, codes), strict=True))


def split_codes(column: IntegerColumn, codes: Codes) -> tuple[Codes, Codes]:
    """Return the codes of the two variables of a split column.

    >>> age = IntegerColumn(name="AGE", min=0, max=99, split=10)
    >>> [part.tolist() for part in split_codes(age, np.array([47, 100]))]       # 100: everything else
    [[4, 10], [7, 0]]
    """
    whole = codes.astype(np.int64)
    part, divisor = quotient_column(column), column.split or 1
    plain = _plain(column, whole)
    ends = np.where(whole == column.levels - 1, part.levels - 1, 0)
    special = np.where(whole < column.levels, ends, whole - column.levels + part.levels)
    coarse = np.where(plain, (whole + column.min) // divisor - part.min, special)
    fine = np.where(plain, (whole + column.min) % divisor, 0)
    return coarse.astype(np.min_scalar_type(part.size - 1)), fine.astype(np.min_scalar_type(divisor - 1))


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


def _plain(column: IntegerColumn, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Say which codes are single numbers: neither special nor those of top and bottom."""
    bottom, top = column.ends
    return np.asarray((codes >= int(bottom)) & (codes < column.levels - int(top)))
