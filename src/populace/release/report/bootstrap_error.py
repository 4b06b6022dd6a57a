"""How far off a release likely is: what noise and fitting would do to its own rows, if these were the real ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from populace.core.errors import PopulaceError
from populace.core.marginals import Counts, Marginal, tabulate
from populace.inference.factor import Table
from populace.measurements.measurements import Measurement, Measurements
from populace.measurements.pooled_counts import combine_repeats, group_repeats
from populace.methods.fit_measurements import fit
from populace.methods.registry import find_method
from populace.release.report.comparison import LAPLACE, CodeColumns, NoiseShape, find_noise_shape
from populace.sampling.draw_rows import draw_rows

# So many standard deviations above what a rehearsal has, a squared distance is no chance; what is added grows from
# there.
_CRITICAL_VALUE = 3.0
# More rows would take long to draw and say little more: from a model, and of stand-ins.
MAX_ROWS_DRAWN, MAX_ROWS_RESAMPLED = 2**18, 2**20


def bootstrap_errors(
    measurements: Measurements, *, codes: CodeColumns, total: float, gradual: bool
) -> Mapping[Marginal, float]:
    """Return, for every measured marginal, a likely total variation between synthetic and real shares.

    Drawn again, the synthetic rows stand in for the real ones (a bootstrap, Efron 1979): they are counted, as many as
    the real `total`, noise of the same distribution is added, a model fitted and rows drawn from it, up to a limit.
    How far these are from their stand-ins is about how far the synthetic rows are from the real ones, but for what
    the model cannot hold: it is missing from the synthetic rows already. That shows in measured counts, which are then
    farther from the synthetic ones than in the rehearsal. Both squared distances have the same noise in them, so where
    they differ by more than chance, the difference is added to the square of the error.
    Dependence that noise has hidden shows nowhere: where most of a table is noise the truth may be farther away.
    Nothing private is read, and the random numbers are the same every time. Methods that copy what was released, or
    define their own model, are not rehearsed.
    """
    rows = len(next(iter(codes.values()), ()))
    if not rows or find_method(measurements.record.method).own_model:
        return {}
    domain, shape = measurements.schema.domain, find_noise_shape(measurements)
    some = min(rows, MAX_ROWS_DRAWN)
    released = release_again(
        measurements, codes=codes, total=total, gradual=gradual, rows=some, rng=np.random.default_rng(0)
    )
    if released is None:
        return {}
    have, again, drawn = released.counts, released.items, released.drawn
    found = {}
    for same, anew in zip(group_repeats(measurements.items), group_repeats(again), strict=True):
        real, rehearsed = combine_repeats(same), combine_repeats(anew)
        marginal = real.marginal
        counts = tabulate(marginal, codes=drawn, domain=domain) * np.float64(total / some)
        synthetic = tabulate(marginal, codes=codes, domain=domain) * np.float64(total / rows)
        found[marginal] = _bootstrap_error(
            real, rehearsed, synthetic=synthetic, stand_in=have[marginal], drawn=counts, shape=shape
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedRelease:
    """A release made of stand-ins: their codes and counts, these with noise, and the rows drawn from a model of it."""

    stand_ins: CodeColumns
    counts: Mapping[Marginal, Table]
    items: tuple[Measurement, ...]
    drawn: CodeColumns


def release_again(
    measurements: Measurements,
    *,
    codes: CodeColumns,
    total: float,
    gradual: bool,
    rows: int,
    rng: np.random.Generator,
) -> SimulatedRelease | None:
    """Return a release of synthetic rows, as if they were the real ones: measured with the same noise, fitted, drawn.

    Which marginals were measured is taken as it is. None where noise asks for what no rows can be.
    """
    domain, shape = measurements.schema.domain, find_noise_shape(measurements)
    people = _resample(len(next(iter(codes.values()))), round(total), rng=rng)
    stand_ins = {name: column[people] for name, column in codes.items()}
    have = {
        marginal: tabulate(marginal, codes=stand_ins, domain=domain) * np.float64(total / len(people))
        for marginal in dict.fromkeys(item.marginal for item in measurements.items)
    }
    again = tuple(
        replace(item, counts=add_simulated_noise(have[item.marginal], float(item.variance), shape, rng=rng))
        for item in measurements.items
    )
    try:
        model = fit(replace(measurements, items=again), inference="gum" if gradual else "tree")
        drawn = next(draw_rows(model, rows=rows, rng=rng, rules=measurements.schema.rules, chunk=rows))
    except PopulaceError:
        # The release is there, and its own noise did not.
        return None
    return SimulatedRelease(stand_ins=stand_ins, counts=have, items=again, drawn=drawn)


def _resample(rows: int, total: int, *, rng: np.random.Generator) -> Counts:
    """Return which synthetic rows stand in for real ones: as many as these, drawn one by one, if they are not too many.

    Counts of people lie about what is smooth as drawn ones do, and noise hides it; synthetic rows have it only as far
    as it was measured. Of very many rows it is little.
    """
    return rng.integers(rows, size=total) if total <= MAX_ROWS_RESAMPLED else np.arange(rows)


def _bootstrap_error(
    real: Measurement,
    rehearsed: Measurement,
    *,
    synthetic: Table,
    stand_in: Table,
    drawn: Table,
    shape: NoiseShape,
) -> float:
    """Return the likely error of one table from its counts, all of the same total: measured and of rows, each twice."""
    error = 0.5 * float(np.abs(drawn - stand_in).sum()) / max(float(stand_in.sum()), 1.0)
    square = float(((drawn - stand_in) ** 2).sum())
    beyond = float(((real.counts - synthetic) ** 2).sum() - ((rehearsed.counts - drawn) ** 2).sum())
    # A sum of few squares is far from normal; the second term is that of Laurent and Massart (2000).
    spread = math.sqrt(2 * (shape.fourth - 1) * real.counts.size)
    chance = float(real.variance) * (_CRITICAL_VALUE * spread + _CRITICAL_VALUE**2 * (shape.fourth - 1) / 2)
    if square <= 0 or beyond <= chance:
        return error
    return error * math.sqrt(1 + beyond * (1 - (chance / beyond) ** 2) / square)


def add_simulated_noise(
    counts: Table | Counts, variance: float, shape: NoiseShape, *, rng: np.random.Generator
) -> Counts:
    """Return counts with noise of a variance, for rehearsals on rows that nobody has to protect."""
    deviation = variance**0.5
    if shape is LAPLACE:
        return np.rint(counts + rng.laplace(0.0, deviation / 2**0.5, counts.shape)).astype(np.int64)
    return np.rint(counts + rng.normal(0.0, deviation, counts.shape)).astype(np.int64)
