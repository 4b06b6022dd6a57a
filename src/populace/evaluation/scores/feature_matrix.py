"""Columns of codes and numbers as features of a regression, chosen from the real file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.core.marginals import Domain
from populace.evaluation.scores.marginal_distance import CodeArrays

MAX_STANDARDIZED = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature: the indicator of a code of a column, or its number, centred and scaled, to a power."""

    column: str
    code: int | None = None
    power: int = 1
    centre: float = 0.0
    scale: float = 1.0

    def build(self, codes: CodeArrays, numbers: Mapping[str, Floats], rows: npt.NDArray[Any]) -> Floats:
        """Return its values in some rows; a row without a number has the mean."""
        if self.code is not None:
            indicator: Floats = (codes[self.column][rows] == self.code).astype(np.float64)
            return indicator
        values = (numbers[self.column][rows] - self.centre) / self.scale
        power: Floats = np.clip(np.nan_to_num(values), -MAX_STANDARDIZED, MAX_STANDARDIZED) ** self.power
        return power


def choose_features(
    codes: CodeArrays,
    numbers: Mapping[str, Floats],
    domain: Domain,
    *,
    max_codes: int,
    min_share: float = 0.0,
    powers: int = 1,
) -> tuple[Feature, ...]:
    """Return features for all columns: the most frequent codes but the first, and the numbers.

    A column of numbers has indicators for rows without a number alone: those with one are described by it.
    """
    found: list[Feature] = []
    for name, size in domain.items():
        column = codes[name]
        if name in numbers:
            held = numbers[name][~np.isnan(numbers[name])]
            if len(held) and held.std() > 0:
                centre, scale = float(held.mean()), float(held.std())
                found += [
                    Feature(column=name, power=k + 1, centre=centre, scale=scale) for k in range(powers)
                ]
            column = column[np.isnan(numbers[name])]
        counts = np.bincount(column, minlength=size)
        order = np.argsort(-counts, kind="stable")
        # With numbers beside them no code is the one that the others are compared with.
        shown = order[: max_codes - 1] if name in numbers else order[1:max_codes]
        least = max(1.0, min_share * len(codes[name]))
        found += [Feature(column=name, code=int(code)) for code in shown if counts[code] >= least]
    return tuple(found)


def build_features(
    features: tuple[Feature, ...],
    codes: CodeArrays,
    numbers: Mapping[str, Floats],
    rows: npt.NDArray[Any],
) -> Floats:
    """Return a matrix with a row for each of some rows and a column for each feature."""
    found = np.empty((len(rows), len(features)), order="F")
    for place, feature in enumerate(features):
        found[:, place] = feature.build(codes, numbers, rows)
    return found


def choose_rows(rows: int, most: int, *, seed: int) -> npt.NDArray[np.int64]:
    """Return all rows, or so many without replacement: the same for every file of as many rows.

    >>> len(choose_rows(5, 3, seed=0)), choose_rows(2, 3, seed=0).tolist()
    (3, [0, 1])
    """
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, size=most, replace=False))
