"""Rows as survey statistics see them: codes of all variables, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


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
