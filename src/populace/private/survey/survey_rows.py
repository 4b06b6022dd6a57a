"""Rows as survey statistics see them: codes of all variables, the numbers behind them, and conditions on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Truth
from populace.schema.conditions.column_layout import Condition
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.schema import Schema

Codes = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class SurveyRows:
    """The same rows in codes and in numbers, NaN where a row has none. It prints nothing of either.

    `kept` is what was worked out about them and is asked for again: private as they are, and every use is charged.
    """

    codes: Mapping[str, Codes]
    numbers: Mapping[str, Floats]
    kept: dict[Any, Any] = field(default_factory=dict)

    def __reduce__(self) -> NoReturn:
        raise TypeError("private rows are never pickled")


def read_where(where: str, *, schema: Schema) -> Condition:
    """Return a condition on the codes of a row."""
    return schema.layout.condition(parse_condition(where), place="where")


def find_rows(where: str | None, *, rows: SurveyRows, schema: Schema) -> Truth:
    """Say which rows meet a condition: all of them where there is none."""
    count = len(next(iter(rows.codes.values())))
    holds = np.bool_(True) if where is None else read_where(where, schema=schema)(rows.codes)
    return np.broadcast_to(holds, (count,))
