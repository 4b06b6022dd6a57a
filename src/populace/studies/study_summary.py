"""Bias, variance, mean squared error and coverage of repeated runs, each with its Monte-Carlo interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats

RESAMPLES, LEVEL = 400, 0.95
_TAILS = [100 * (1 - LEVEL) / 2, 100 * (1 + LEVEL) / 2]
# The 97.5 % point of a normal distribution, for intervals of shares.
_Z = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunSeries:
    """The runs of one method at one ε for one number, in the order of their seeds; NaN stands for none."""

    method: str
    epsilon: float
    query: str
    group: str
    truth: float
    seeds: Floats
    estimate: Floats
    low: Floats
    high: Floats
    sampling_only: Floats
    cpu_seconds: Floats
    peak_mb: Floats

    @property
    def name(self) -> tuple[str, str, str]:
        """Which method, query and group it is of."""
        return self.method, self.query, self.group

    @property
    def error(self) -> Floats:
        """Estimates less the truth, where there is an estimate."""
        return (self.estimate - self.truth)[~np.isnan(self.estimate)]

    @property
    def noise(self) -> Floats:
        """What the noise changed in each run; NaN where either number is missing."""
        return self.estimate - self.sampling_only


def list_series(table: pa.Table) -> list[RunSeries]:
    """Return the runs of a table of results, by method, query, group and ε."""
    names = ("method", "query", "group", "epsilon")
    rows = table.sort_by([(name, "ascending") for name in (*names, "seed")]).to_pylist()
    found = []
    for (method, query, group, epsilon), own in groupby(
        rows, key=lambda row: tuple(row[name] for name in names)
    ):
        runs = list(own)
        numbers = {
            name: np.array([math.nan if row[name] is None else row[name] for row in runs], dtype=np.float64)
            for name in ("estimate", "low", "high", "sampling_only", "cpu_seconds", "peak_mb")
        }
        truth = runs[0]["truth"]
        seeds = np.array([row["seed"] for row in runs], dtype=np.float64)
        found.append(
            RunSeries(
                method=method,
                epsilon=epsilon,
                query=query,
                group=group,
                truth=math.nan if truth is None else truth,
                seeds=seeds,
                **numbers,
            )
        )
    return found


def summarize_series(series: RunSeries) -> dict[str, Any]:
    """Return what the runs of one number show, as plain values; intervals are [low, high]."""
    error, noise = series.error, series.noise[~np.isnan(series.noise)]
    alone = series.sampling_only[~np.isnan(series.sampling_only)]
    held = _list_held(series)
    found: dict[str, Any] = {
        "method": series.method,
        "epsilon": series.epsilon,
        "query": series.query,
        "group": series.group,
        "truth": _keep_finite(series.truth),
        "runs": len(series.seeds),
        "suppressed": int(np.isnan(series.estimate).sum()),
    }
    for name, statistic in (
        ("bias", _mean),
        ("variance", _variance),
        ("mse", _mean_square),
    ):
        found[name], found[f"{name}_interval"] = bootstrap(error, statistic)
    found["coverage"], found["coverage_interval"] = share_interval(int(held.sum()), held.size)
    found["privacy_error"], found["privacy_error_interval"] = bootstrap(noise, _root_mean_square)
    found["sampling_error"], found["sampling_error_interval"] = bootstrap(alone, _deviation)
    found["sampling_bias"] = _keep_finite(float(alone.mean() - series.truth)) if alone.size else None
    found["asymmetry"] = one_sidedness(error)
    found["cpu_seconds"], found["cpu_seconds_interval"] = bootstrap(series.cpu_seconds, _mean)
    found["peak_mb"], found["peak_mb_interval"] = bootstrap(series.peak_mb, _mean)
    return found


def one_sidedness(error: Floats) -> float | None:
    """Return B = (σ₊² − σ₋²)/(σ₊² + σ₋²) of errors: 1 where all are above 0, −1 where all are below.

    >>> one_sidedness(np.array([3.0, -1.0]))
    0.8
    """
    above, below = float((np.maximum(error, 0) ** 2).sum()), float((np.minimum(error, 0) ** 2).sum())
    return (above - below) / (above + below) if above + below else None


def bootstrap(
    values: Floats, statistic: Callable[[Floats], Floats]
) -> tuple[float | None, list[float] | None]:
    """Return a statistic of runs, and the interval of its Monte-Carlo error by the bootstrap over runs.

    >>> bootstrap(np.array([2.0, 2.0, 2.0]), _mean)
    (2.0, [2.0, 2.0])
    """
    if values.size == 0:
        return None, None
    value = float(statistic(values[None])[0])
    if not math.isfinite(value):
        return None, None
    draws = np.random.default_rng(values.size).integers(values.size, size=(RESAMPLES, values.size))
    low, high = np.nanpercentile(statistic(values[draws]), _TAILS)
    return value, [float(low), float(high)]


def share_interval(count: int, runs: int) -> tuple[float | None, list[float] | None]:
    """Return a share of runs and its interval, by Wilson's score.

    >>> share, (low, high) = share_interval(95, 100)
    >>> share, round(low, 3), round(high, 3)
    (0.95, 0.888, 0.978)
    """
    if not runs:
        return None, None
    share, square = count / runs, _Z**2 / runs
    middle = (share + square / 2) / (1 + square)
    half = _Z * math.sqrt(share * (1 - share) / runs + square / (4 * runs)) / (1 + square)
    return share, [max(0.0, middle - half), min(1.0, middle + half)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """The ε from which on privacy noise is below sampling error, and its interval; ends of the ε run are bounds.

    `bound` is "at most" where noise is below at every ε, and "above" where it never is.
    """

    epsilon: float
    bound: str
    low: float
    high: float


def find_crossover(series: Sequence[RunSeries]) -> Crossover | None:
    """Return the ε at which privacy noise falls below sampling error, for the runs of one number at several ε.

    The ratio of the two errors is interpolated on a logarithmic scale of both; its interval is that of the bootstrap
    over seeds, which every ε shares.
    """
    ordered = sorted(series, key=lambda each: each.epsilon)
    seeds = sorted(set.intersection(*(set(each.seeds.tolist()) for each in ordered)))
    places = [np.searchsorted(each.seeds, seeds) for each in ordered]
    noise = np.stack([each.noise[place] for each, place in zip(ordered, places, strict=True)])
    alone = ordered[0].sampling_only[places[0]]
    usable = ~np.isnan(alone)
    noise, alone = noise[:, usable], alone[usable]
    if alone.size < 2 or len(ordered) < 2:
        return None
    epsilons = np.array([each.epsilon for each in ordered])

    def cross(chosen: Any) -> tuple[float, str]:
        sampling = float(alone[chosen].std(ddof=1))
        own = noise[:, chosen]
        # A suppressed estimate is lost in noise, whatever the others are.
        lost = np.isnan(own).mean(axis=1) > 0.5
        squares = np.array([np.nanmean(row**2) if not np.isnan(row).all() else np.inf for row in own])
        ratio = np.where(lost, np.inf, np.sqrt(squares) / max(sampling, 1e-300))
        return interpolate_crossing(epsilons, ratio)

    value, bound = cross(slice(None))
    rng = np.random.default_rng(alone.size)
    drawn = [cross(rng.integers(alone.size, size=alone.size))[0] for _ in range(RESAMPLES)]
    low, high = np.percentile(drawn, _TAILS)
    return Crossover(epsilon=value, bound=bound, low=float(low), high=float(high))


def interpolate_crossing(epsilons: Floats, ratio: Floats) -> tuple[float, str]:
    """Return the last ε at which a ratio crosses 1 downwards, between two by logarithms, and which bound it is.

    >>> interpolate_crossing(np.array([0.1, 1.0, 10.0]), np.array([10.0, 2.0, 0.5]))
    (3.1622776601683795, '')
    >>> interpolate_crossing(np.array([0.1, 1.0]), np.array([0.9, 0.5]))
    (0.1, 'at most')
    """
    above = np.flatnonzero(ratio >= 1)
    if above.size == 0:
        return float(epsilons[0]), "at most"
    last = int(above[-1])
    if last == len(epsilons) - 1:
        return float(epsilons[-1]), "above"
    first, second = (max(float(each), 1e-12) for each in ratio[last : last + 2])
    if math.isinf(first):
        return float(epsilons[last + 1]), "at most"
    part = math.log(first) / (math.log(first) - math.log(second))
    left, right = (math.log(float(each)) for each in epsilons[last : last + 2])
    return math.exp(left + part * (right - left)), ""


def _list_held(series: RunSeries) -> Any:
    known = ~np.isnan(series.low) & ~np.isnan(series.high)
    return ((series.low <= series.truth) & (series.truth <= series.high))[known]


def _mean(values: Floats) -> Floats:
    return np.asarray(values.mean(axis=1))


def _variance(values: Floats) -> Floats:
    return values.var(axis=1, ddof=1) if values.shape[1] > 1 else np.full(len(values), np.nan)


def _deviation(values: Floats) -> Floats:
    return np.sqrt(_variance(values))


def _mean_square(values: Floats) -> Floats:
    return np.asarray((values**2).mean(axis=1))


def _root_mean_square(values: Floats) -> Floats:
    return np.sqrt(_mean_square(values))


def _keep_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
