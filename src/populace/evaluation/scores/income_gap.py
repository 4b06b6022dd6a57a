"""Income gaps by area: the third score of NIST's 2018 challenge.

For each area of the real file the Gini index of incomes is compared, and the areas' ranks by their gender pay gap, the
difference between the mean incomes of two groups. Both are root mean square deviations as shares of the largest there
can be: 1 for Gini indices, that of ranks in reverse order for ranks. The score is 1 less the mean of the two. The
challenge describes both parts and averages them; how it scaled them is not in its description, so the scales are ours.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.evaluation.scores.correlation_difference import rank_values
from populace.evaluation.scores.score import Direction, Score

Codes = npt.NDArray[Any]

# Areas with fewer real incomes of either group have no gap worth ranking.
MIN_ROWS = 10


def gini(values: Floats) -> float:
    """Return the Gini index of incomes; losses count as none. 0: all the same, 1: one has all.

    >>> gini(np.array([1.0, 1, 1, 1])), gini(np.array([0.0, 0, 0, 1]))
    (0.0, 0.75)
    """
    ordered = np.sort(np.maximum(values, 0.0))
    total = float(ordered.sum())
    if not total:
        return 0.0
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1) @ ordered) / (len(ordered) * total)


def score_income_gap(
    incomes: tuple[Floats, Floats],
    groups: tuple[Codes, Codes],
    areas: tuple[Codes, Codes],
    *,
    codes: tuple[int, int],
) -> list[Score]:
    """Return the score, from incomes, groups and areas of real and synthetic rows; `codes` are the groups compared."""
    kept, ginis, gaps = [], [], []
    for area in np.unique(areas[0]):
        parts = [
            [values[(place == area) & (group == code) & ~np.isnan(values)] for code in codes]
            for values, group, place in zip(incomes, groups, areas, strict=True)
        ]
        if min(map(len, parts[0])) < MIN_ROWS:
            continue
        kept.append(int(area))
        ginis.append([gini(np.concatenate(part)) for part in parts])
        gaps.append([_gap(part) for part in parts])
    if not kept:
        return []
    differences = np.array(ginis)
    first, second = (rank_values(column) for column in np.array(gaps).T)
    gini_error = math.sqrt(float(((differences[:, 0] - differences[:, 1]) ** 2).mean()))
    ranks = np.arange(1, len(kept) + 1)
    worst = math.sqrt(float(((ranks - ranks[::-1]) ** 2).mean())) or 1.0
    rank_error = math.sqrt(float(((first - second) ** 2).mean())) / worst
    return [
        Score(
            name="income_gap",
            title="Income gaps by area (NIST 2018)",
            value=1 - (gini_error + rank_error) / 2,
            direction=Direction.HIGHER,
            scale="0 (opposite) to 1 (the same Gini indices, and the same order of areas by their pay gap)",
            blind_to="everything but incomes by area and group",
            note=f"{len(kept)} areas with {MIN_ROWS} incomes of each group or more; Gini indices differ by "
            f"{gini_error:.3g}, ranks by {rank_error:.3g} of the most",
        )
    ]


def _gap(parts: list[Floats]) -> float:
    """Return the difference of mean incomes; a group without rows earns nothing."""
    first, second = (float(part.mean()) if len(part) else 0.0 for part in parts)
    return first - second
