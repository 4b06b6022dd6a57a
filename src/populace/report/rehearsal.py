"""How far off a release likely is: what noise and fitting would do to its own rows, if these were the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from populace.errors import PopulaceError
from populace.generate import generate
from populace.infer.run import OWN, fit_run
from populace.marginals import Counts, Marginal, tabulate
from populace.measurements import Measurements
from populace.report.compare import LAPLACE, Codes, NoiseShape, noise_shape


def likely_errors(measurements: Measurements, *, codes: Codes, gradual: bool) -> Mapping[Marginal, float]:
    """Return, for every measured marginal, a likely total variation between synthetic and real shares.

    The synthetic rows stand in for the real ones (a parametric bootstrap, Efron 1979): they are counted, noise of the
    same law is added, a model is fitted, and as many rows are drawn from it. How far these are from the synthetic ones
    is about how far the synthetic ones are from the real ones. Dependence that noise has hidden is missing from both,
    so where most of a table is noise the truth may be farther away. Nothing private is read, and the random numbers are
    the same every time.
    Methods that copy what they were told, or define their own model, are not rehearsed.
    """
    rows = len(next(iter(codes.values()), ()))
    if not rows or measurements.record.method in OWN:
        return {}
    domain, shape = measurements.schema.domain, noise_shape(measurements)
    rng = np.random.default_rng(0)
    have = {
        marginal: tabulate(marginal, codes=codes, domain=domain)
        for marginal in dict.fromkeys(item.marginal for item in measurements.items)
    }
    again = tuple(
        replace(
            item, counts=have[item.marginal] + _noise(item.counts.shape, float(item.variance), shape, rng=rng)
        )
        for item in measurements.items
    )
    try:
        model = fit_run(replace(measurements, items=again), inference="gum" if gradual else "tree")
        drawn = next(generate(model, rows=rows, rng=rng, rules=measurements.schema.rules, chunk=rows))
    except PopulaceError:
        # Noise may ask for what no rows can be; the release is there, and its own noise did not.
        return {}
    return {
        marginal: 0.5 * float(np.abs(tabulate(marginal, codes=drawn, domain=domain) - counts).sum()) / rows
        for marginal, counts in have.items()
    }


def _noise(shape: tuple[int, ...], variance: float, law: NoiseShape, *, rng: np.random.Generator) -> Counts:
    deviation = variance**0.5
    noise = (
        rng.laplace(0.0, deviation / 2**0.5, shape) if law is LAPLACE else rng.normal(0.0, deviation, shape)
    )
    return np.rint(noise).astype(np.int64)
