"""What sampling variances to expect beside the noise: rough, from public quantities, to plan by and not to publish."""

from __future__ import annotations

import math

from populace.survey.design.design import Design
from populace.survey.queries.queries import Query, Statistic

# The variance of a row's part in an estimate, where the most it can be is 1: values lie in a sixth of their range,
# shares near a quarter.
_ROW_VARIANCES = {
    Statistic.PROPORTION: 0.2,
    Statistic.QUANTILE: 0.2,
    Statistic.COUNT: 0.2,
    Statistic.FREQUENCY: 0.2,
    Statistic.TOTAL: 0.1,
    Statistic.RATIO: 0.05,
}
_OF_NUMBERS = 1 / 36
# By how much unequal weights raise the variance.
ASSUMED_WEIGHT_EFFECT = 1.4
# Where the population is not public, rows are taken to weigh this part of the most: few designs have less.
ASSUMED_WEIGHT_SHARE = 1 / 4
# Where the number of rows is not public either.
ASSUMED_ROWS = 5000


def expected_rows(design: Design) -> float:
    """Return about how many rows a sample has, as far as the design says."""
    if design.rows is not None:
        return float(design.rows)
    if design.population is not None:
        return float(design.population) / (expected_weight_share(design) * float(design.weight_bound))
    return float(ASSUMED_ROWS)


def expected_weight_share(design: Design) -> float:
    """Return the mean weight of rows, as a part of the most."""
    if design.weights is None:
        return 1.0
    if design.population is None or design.rows is None:
        return ASSUMED_WEIGHT_SHARE
    return min(1.0, float(design.population / design.rows / design.weight_bound))


def expected_weighting_effect(design: Design) -> float:
    """Return by how much unequal weights raise the variance: as declared, or as surveys have it."""
    if design.weights is None:
        return 1.0
    return ASSUMED_WEIGHT_EFFECT if design.weighting_effect is None else float(design.weighting_effect)


def expected_log_ratio(query: Query, design: Design, *, noise: float, groups: int) -> float:
    """Return ln of the expected sampling variance over a variance of noise, in units of what a row can add."""
    rows = expected_rows(design) / max(groups, 1)
    own = _ROW_VARIANCES.get(query.statistic, _OF_NUMBERS)
    row = own * expected_weighting_effect(design) * expected_weight_share(design) ** 2
    return math.log(float(design.design_effect.median) * rows * row / noise)
