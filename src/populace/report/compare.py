"""Noisy counts against synthetic counts, and how far apart noise alone would put them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.marginals import Counts, Marginal, tabulate
from populace.measurements import Measurement, Measurements, combined, repeats
from populace.privacy.mechanisms import DiscreteLaplace, ExponentialCount
from populace.records import dataclass
from populace.release.domain_fit import out_of_domain

Codes = Mapping[str, npt.NDArray[Any]]
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NoiseShape:
    """A law of noise in units of its standard deviation: its mean absolute value, 95 % reach and fourth moment."""

    mean: float
    reach: float
    fourth: float


GAUSSIAN = NoiseShape(mean=math.sqrt(2 / math.pi), reach=1.96, fourth=3.0)
LAPLACE = NoiseShape(mean=math.sqrt(1 / 2), reach=math.log(20) * math.sqrt(1 / 2), fourth=6.0)


class Reading(StrEnum):
    """How far the truth may be, in a word or two."""

    CLOSE = "close"
    ROUGH = "rough"
    WEAK = "weak"
    LOST = "lost in noise"
    FAR = "far off"
    OUTSIDE = "outside its domain"


# The shares of rows from which a table is no longer close, no longer rough, and no longer of any use.
ROUGH_FROM = 0.10
WEAK_FROM = 0.25
LOST_FROM = 0.50


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measured marginal beside the synthetic rows, as shares of all rows.

    `distance` is the total variation between noisy and synthetic shares, half the sum of absolute differences;
    `noise_alone` is its expectation if the synthetic rows were the real ones. `beyond_noise` says that noise and the
    drawing of a finite number of rows do not suffice to explain the distance: the model misses something. `likely` is
    how far the truth probably is, where that could be rehearsed. `outside` says that many rows lie outside the domain
    of one of the columns: the shares may agree, and yet say little about the real values.
    """

    distance: float
    noise_alone: float
    beyond_noise: bool
    deviation: float
    likely: float | None = None
    outside: bool = False

    @property
    def truth_within(self) -> float:
        """About how far the synthetic shares may be from the real ones, by the triangle inequality."""
        return self.distance + self.noise_alone

    def with_likely(self, error: float | None) -> Comparison:
        """Return the same with a rehearsed error; there is none where noise, or the model, hides the table."""
        hidden = self.reading in (Reading.LOST, Reading.FAR)
        return self if error is None or hidden else replace(self, likely=min(error, self.truth_within))

    @property
    def reading(self) -> Reading:
        """The truth within, in a word."""
        for start, reading in (
            (ROUGH_FROM, Reading.CLOSE),
            (WEAK_FROM, Reading.ROUGH),
            (LOST_FROM, Reading.WEAK),
        ):
            if self.truth_within < start:
                return Reading.OUTSIDE if self.outside else reading
        return Reading.FAR if self.beyond_noise else Reading.LOST


def compare(item: Measurement, *, synthetic: Counts, total: float, shape: NoiseShape) -> Comparison:
    """Return how far the synthetic shares of a marginal are from its noisy ones.

    With independent noise of standard deviation σ in each of c cells of a table of N rows, noise alone gives a
    total variation of ½·c·E|Z|/N, with standard deviation ½·√(c·Var|Z|)/N. Drawing n rows moves a share p by about
    √(p/n) more.
    """
    rows = max(int(synthetic.sum()), 1)
    drawn = synthetic / rows
    distance = 0.5 * float(np.abs(item.counts / total - drawn).sum())
    noise_alone, spread = _by_noise(item, total=total, shape=shape)
    drawing = 0.5 * GAUSSIAN.mean * float(np.sqrt(drawn / rows).sum())
    return Comparison(
        distance=distance,
        noise_alone=noise_alone,
        beyond_noise=distance > noise_alone + 3 * spread + drawing,
        deviation=math.sqrt(item.variance),
    )


def _by_noise(item: Measurement, *, total: float, shape: NoiseShape) -> tuple[float, float]:
    """Return the mean and the standard deviation of the total variation that noise alone makes."""
    cells, deviation = item.counts.size, math.sqrt(item.variance)
    return (
        0.5 * cells * shape.mean * deviation / total,
        0.5 * math.sqrt(cells * (1 - shape.mean**2)) * deviation / total,
    )


def compared(
    measurements: Measurements,
    *,
    codes: Codes,
    total: float,
    likely: Mapping[Marginal, float] = MappingProxyType({}),
) -> list[tuple[Measurement, Counts, Comparison]]:
    """Return every marginal of one column or more as it was measured, its synthetic counts, and how these compare.

    Columns in groups of their codes are left out: there are finer tables of the same column.
    """
    shape, found = noise_shape(measurements), []
    outside = {part.name for each in out_of_domain(measurements) for part in each.column.variables}
    for item in _shown(measurements):
        synthetic = tabulate(item.marginal, codes=codes, domain=measurements.schema.domain)
        comparison = compare(item, synthetic=synthetic, total=total, shape=shape)
        comparison = replace(comparison, outside=not outside.isdisjoint(item.marginal.clique))
        found.append((item, synthetic, comparison.with_likely(likely.get(item.marginal))))
    return found


def most_may_be_lost(measurements: Measurements, *, total: float, rows: int) -> bool:
    """Say whether more than half of what would be compared could read as lost, whatever the synthetic rows are.

    A table that is lost is `LOST_FROM` away or more, and no farther than noise and drawing explain; what drawing can do
    is most where all cells are equal.
    """
    shape, shown = noise_shape(measurements), _shown(measurements)
    lost = 0
    for item in shown:
        noise_alone, spread = _by_noise(item, total=total, shape=shape)
        drawing = 0.5 * GAUSSIAN.mean * math.sqrt(item.counts.size / max(rows, 1))
        lost += 2 * noise_alone + 3 * spread + drawing >= LOST_FROM
    return 2 * lost > len(shown)


def _shown(measurements: Measurements) -> list[Measurement]:
    same = (combined(items) for items in repeats(measurements.items))
    return [
        item
        for item in same
        if len(item.marginal.clique) > 1 or (item.marginal.clique and not item.marginal.groupings)
    ]


def noise_shape(measurements: Measurements) -> NoiseShape:
    """Return the law of noise in a run's counts."""
    laws = (charged.spend.law for charged in measurements.record.spends)
    return LAPLACE if any(isinstance(law, DiscreteLaplace | ExponentialCount) for law in laws) else GAUSSIAN


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
