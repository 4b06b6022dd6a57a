"""Income gaps by area: the third score of NIST's 2018 challenge, as the scorer of its competitors' pack computes it.

For each area of the real file the Gini index of incomes is compared, and the areas' ranks by their gender pay gap, the
difference between the mean incomes of two groups. With g the difference of an area's indices, r that of its ranks and k
areas, the score is ½·√mean (1 − |g|)² + ½·√mean (1 − |r| / (k − 1))², here from 0 to 1000. An area that the synthetic
file does not have adds nothing to either sum. Source: NIST Differential Privacy Synthetic Data Challenge, match 3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.evaluation.scores.score import Direction, Score

Codes = npt.NDArray[Any]


def gini(values: Floats, *, weights: Floats | None = None) -> float:
    """Return 1 − 2·Σ of cumulated shares / n, the challenge's Gini index: 1/n less than the usual one.

    Losses count as no income. Where nobody has any it is 1.

    >>> gini(np.array([1.0, 1, 1, 1])), gini(np.array([0.0, 0, 0, 1]))
    (-0.25, 0.5)
    """
    order = np.argsort(values, kind="stable")
    incomes = np.maximum(values[order], 0.0)
    shares = np.ones(len(incomes)) if weights is None else weights[order]
    total = float(shares @ incomes)
    if not total:
        return 1.0
    return 1 - 2 * float(shares @ np.cumsum(shares * incomes)) / (float(shares.sum()) * total)


def score_income_gap(
    incomes: tuple[Floats, Floats],
    groups: tuple[Codes, Codes],
    areas: tuple[Codes, Codes],
    *,
    codes: tuple[int, int],
    weights: tuple[Floats | None, Floats | None] = (None, None),
) -> list[Score]:
    """Return the score, from incomes, groups and areas of real and synthetic rows; `codes` are the groups compared."""
    found = [
        _describe_areas(*parts, codes=codes) for parts in zip(incomes, groups, areas, weights, strict=True)
    ]
    real, synthetic = found
    if not real:
        return []
    both = [area for area in real if area in synthetic]
    furthest = max(len(real) - 1, 1)
    inequality = [1 - abs(real[area][0] - synthetic[area][0]) for area in both]
    order = [max(0.0, 1 - abs(real[area][1] - synthetic[area][1]) / furthest) for area in both]
    parts = [500 * math.sqrt(math.fsum(each**2 for each in some) / len(real)) for some in (inequality, order)]
    return [
        Score(
            name="income_gap",
            title="Income gaps by area (NIST 2018)",
            value=min(sum(parts), 1000.0),
            direction=Direction.HIGHER,
            scale="0 to 1000 (the same Gini indices, and the same order of areas by their pay gap)",
            blind_to="everything but incomes by area and group; areas of few incomes count like large ones",
            note=f"{len(real)} areas, of which the synthetic file has {len(both)}; Gini indices give {parts[0]:.1f} "
            f"of 500, ranks {parts[1]:.1f} of 500",
        )
    ]


def _describe_areas(
    incomes: Floats, groups: Codes, areas: Codes, weights: Floats | None, *, codes: tuple[int, int]
) -> dict[int, tuple[float, int]]:
    """Return the Gini index of each area that has incomes, and its rank by pay gap, the largest first."""
    shares = np.ones(len(incomes)) if weights is None else weights
    held = ~np.isnan(incomes) & np.isin(groups, codes) & (shares > 0)
    indices, gaps = {}, {}
    for area in np.unique(areas[held]).tolist():
        inside = held & (areas == area)
        indices[area] = gini(incomes[inside], weights=None if weights is None else weights[inside])
        # A group without incomes earns nothing.
        means = [
            float(np.average(incomes[one], weights=shares[one])) if one.any() else 0.0
            for one in (inside & (groups == code) for code in codes)
        ]
        gaps[area] = means[0] - means[1]
    ranked = sorted(gaps, key=lambda area: (-gaps[area], area))
    return {area: (indices[area], rank) for rank, area in enumerate(ranked)}
