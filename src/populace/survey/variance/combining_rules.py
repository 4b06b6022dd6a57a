"""Estimates from several synthetic tables, put together so that privacy noise is part of their error.

Rubin's rules are made for tables that differ by all that is not known. Synthetic tables of one run come from one noisy
model: they differ by how rows were drawn and by nothing else, and neither the noise nor the sample shows in how far
they are apart. So the noise is either added as a variance of its own, or put into the tables: each is drawn from
answers to which noise of the same distribution was added once more, and then Rubin's rules hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from populace.core.errors import UsageError
from populace.survey.variance.confidence_intervals import errors_in_margin


class ImplicateOrigin(Enum):
    """What implicates differ by."""

    ONE_MODEL = "rows drawn from one model"
    NOISE_AGAIN = "models of the same answers with noise added once more"


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedEstimate:
    """One estimate from several implicates: the variances within and between them, of noise, and of all together."""

    estimate: float
    within: float
    between: float
    noise: float
    total: float
    degrees: float

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(self.total)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds the truth about 95 % of the time."""
        wide = errors_in_margin(self.degrees) * self.error
        return self.estimate - wide, self.estimate + wide


def combine_implicates(
    estimates: Sequence[float],
    variances: Sequence[float],
    *,
    origin: ImplicateOrigin = ImplicateOrigin.ONE_MODEL,
    noise: float = 0.0,
    size: float = 1.0,
) -> CombinedEstimate:
    """Put the estimates of m implicates together, each with the variance that ordinary software gives it.

    A synthetic table stands for the sample, so the variance within it, ū, is the sampling variance if it has as many
    rows; `size` is how many times as many it has. With b the variance between implicates, the total is

    - ONE_MODEL: size·ū + b/m + `noise`, the variance that noise brings into the statistic;
    - NOISE_AGAIN: size·ū + (1 + 1/m)·b, where b holds the noise: once as it was when the answers were given, and its
      m-th part for what was added. It also holds the drawing of rows, so that it is a little too large.

    Source: Rubin 1987, chapter 3; for one noisy model Räisä and others 2023, Noise-aware statistical inference.

    >>> found = combine_implicates([10.0, 12.0, 11.0], [4.0, 4.0, 4.0], noise=2.0)
    >>> found.estimate, round(found.total, 3)
    (11.0, 6.333)
    """
    count = len(estimates)
    if count != len(variances) or not count or (count < 2 and origin is ImplicateOrigin.NOISE_AGAIN):
        raise UsageError(
            f"{count} estimates with {len(variances)} variances cannot be put together.",
            hint="give one variance for each, and at least two implicates where they hold the noise",
        )
    if min(variances) < 0 or noise < 0 or size <= 0:
        raise UsageError("a variance is below 0.", hint="give variances of 0 or more, and a size above 0")
    if origin is ImplicateOrigin.NOISE_AGAIN and noise:
        raise UsageError("noise would be counted twice.", hint="leave it out: the implicates hold it")
    within = size * float(np.mean(variances))
    between = float(np.var(estimates, ddof=1)) if count > 1 else 0.0
    part = between / count if origin is ImplicateOrigin.ONE_MODEL else (1 + 1 / count) * between
    total = within + part + noise
    return CombinedEstimate(
        estimate=float(np.mean(estimates)),
        within=within,
        between=between,
        noise=noise,
        total=total,
        degrees=(count - 1) * (total / part) ** 2 if part > 0 else math.inf,
    )
