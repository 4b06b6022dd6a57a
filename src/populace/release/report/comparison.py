"""Noisy counts against synthetic counts, and the distance that noise alone would put between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Counts, Marginal, tabulate
from populace.measurements.measurements import Measurement, Measurements
from populace.measurements.pooled_counts import combine_repeats, group_repeats
from populace.privacy.accounting.mechanisms import DiscreteLaplace, ExponentialCount
from populace.release.statement.domain_fit import find_out_of_domain

CodeColumns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class NoiseShape:
    """A noise distribution in units of its standard deviation: mean absolute value and fourth moment."""

    mean: float
    fourth: float


GAUSSIAN = NoiseShape(mean=math.sqrt(2 / math.pi), fourth=3.0)
LAPLACE = NoiseShape(mean=math.sqrt(1 / 2), fourth=6.0)


class Quality(StrEnum):
    """The class of an error bound, in a word or two."""

    CLOSE = "close"
    ROUGH = "rough"
    WEAK = "weak"
    LOST = "dominated by noise"
    FAR = "poor fit"
    OUTSIDE = "outside its domain"


# The shares of rows from which a table is no longer close, no longer rough, and no longer of any use.
MIN_ROUGH_ERROR = 0.10
MIN_WEAK_ERROR = 0.25
MIN_LOST_ERROR = 0.50


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measured marginal beside the synthetic rows, as shares of all rows.

    `distance` is the total variation between noisy and synthetic shares, half the sum of absolute differences;
    `noise_alone` is its expectation if the synthetic rows were the real ones. `beyond_noise` says that noise and the
    drawing of a finite number of rows do not suffice to explain the distance: the model does not fit. `likely` is the
    bootstrap estimate of the error, where there is one. `outside` says that many rows lie outside the domain of one of
    the columns: the shares may agree, and yet say little about the real values.
    """

    distance: float
    noise_alone: float
    beyond_noise: bool
    likely: float | None = None
    outside: bool = False

    derived: ClassVar = ("error_bound", "quality")

    @property
    def error_bound(self) -> float:
        """A bound on the total variation between synthetic and real shares, by the triangle inequality.

        It holds on average over the noise.
        """
        return self.distance + self.noise_alone

    def with_likely(self, error: float | None) -> Comparison:
        """Return the same with a bootstrap estimate; there is none where noise, or the model, hides the table."""
        hidden = self.quality in (Quality.LOST, Quality.FAR)
        return self if error is None or hidden else replace(self, likely=min(error, self.error_bound))

    @property
    def quality(self) -> Quality:
        """The class of the error bound."""
        for start, quality in (
            (MIN_ROUGH_ERROR, Quality.CLOSE),
            (MIN_WEAK_ERROR, Quality.ROUGH),
            (MIN_LOST_ERROR, Quality.WEAK),
        ):
            if self.error_bound < start:
                return Quality.OUTSIDE if self.outside else quality
        return Quality.FAR if self.beyond_noise else Quality.LOST


def compare_marginal(item: Measurement, *, synthetic: Counts, total: float, shape: NoiseShape) -> Comparison:
    """Return how far the synthetic shares of a marginal are from its noisy ones.

    With independent noise of standard deviation σ in each of c cells of a table of N rows, noise alone gives a
    total variation of ½·c·E|Z|/N, with standard deviation ½·√(c·Var|Z|)/N. Drawing n rows moves a share p by about
    √(p/n) more.
    """
    rows = max(int(synthetic.sum()), 1)
    drawn = synthetic / rows
    distance = 0.5 * float(np.abs(item.counts / total - drawn).sum())
    noise_alone, spread = _noise_total_variation(item, total=total, shape=shape)
    drawing = 0.5 * GAUSSIAN.mean * float(np.sqrt(drawn / rows).sum())
    return Comparison(
        distance=distance,
        noise_alone=noise_alone,
        beyond_noise=distance > noise_alone + 3 * spread + drawing,
    )


def _noise_total_variation(item: Measurement, *, total: float, shape: NoiseShape) -> tuple[float, float]:
    """Return the mean and the standard deviation of the total variation that noise alone makes."""
    cells, deviation = item.counts.size, math.sqrt(item.variance)
    return (
        0.5 * cells * shape.mean * deviation / total,
        0.5 * math.sqrt(cells * (1 - shape.mean**2)) * deviation / total,
    )


def compare_all(
    measurements: Measurements,
    *,
    codes: CodeColumns,
    total: float,
    likely: Mapping[Marginal, float] = MappingProxyType({}),
) -> list[tuple[Measurement, Counts, Comparison]]:
    """Return every marginal of one column or more as it was measured, its synthetic counts, and how these compare.

    Columns in groups of their codes are left out: there are finer tables of the same column.
    """
    shape, found = find_noise_shape(measurements), []
    # A value that most rows truly have may be what others become: that is shown, and no reason to call noise an error.
    lost = [each.column for each in find_out_of_domain(measurements) if each.has_own_code]
    outside = {part.name for column in lost for part in column.variables}
    for item in _comparable_items(measurements):
        synthetic = tabulate(item.marginal, codes=codes, domain=measurements.schema.domain)
        comparison = compare_marginal(item, synthetic=synthetic, total=total, shape=shape)
        comparison = replace(comparison, outside=not outside.isdisjoint(item.marginal.clique))
        found.append((item, synthetic, comparison.with_likely(likely.get(item.marginal))))
    return found


def can_lose_most_tables(measurements: Measurements, *, total: float, rows: int) -> bool:
    """Say whether more than half of what would be compared could be dominated by noise, whatever the rows are.

    Such a table is `MIN_LOST_ERROR` away or more, and no farther than noise and drawing explain; what
    drawing can do
    is most where all cells are equal.
    """
    shape, shown = find_noise_shape(measurements), _comparable_items(measurements)
    lost = 0
    for item in shown:
        noise_alone, spread = _noise_total_variation(item, total=total, shape=shape)
        drawing = 0.5 * GAUSSIAN.mean * math.sqrt(item.counts.size / max(rows, 1))
        lost += 2 * noise_alone + 3 * spread + drawing >= MIN_LOST_ERROR
    return 2 * lost > len(shown)


def _comparable_items(measurements: Measurements) -> list[Measurement]:
    same = (combine_repeats(items) for items in group_repeats(measurements.items))
    return [
        item
        for item in same
        if len(item.marginal.clique) > 1 or (item.marginal.clique and not item.marginal.groupings)
    ]


def find_noise_shape(measurements: Measurements) -> NoiseShape:
    """Return the shape of the noise in a run's counts."""
    mechanisms = measurements.mechanisms
    return (
        LAPLACE
        if any(isinstance(mechanism, DiscreteLaplace | ExponentialCount) for mechanism in mechanisms)
        else GAUSSIAN
    )


def cramers_v(counts: Counts) -> float:
    """Return Cramér's V of a table of two or more columns, the first against the rest: 0 independent, 1 determined.

    >>> cramers_v(np.array([[5, 0], [0, 5]])), cramers_v(np.array([[4, 4], [4, 4]]))
    (1.0, 0.0)
    """
    table = counts.reshape(counts.shape[0], -1).astype(np.float64)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape, default=0) < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    chi_squared = float(((table - expected) ** 2 / expected).sum())
    return math.sqrt(chi_squared / (table.sum() * (min(table.shape) - 1)))
