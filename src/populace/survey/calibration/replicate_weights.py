"""Weights for synthetic survey files: weights that meet public totals, and replicate weights that hold every error.

A synthetic row stands for many people. Its weight is raked so that public totals are met. In each replicate rows are
weighted a part of the way as another sample might have weighted them, tables that were measured are moved the same part
of the way as other noise might have moved them, and everything is raked to the totals again. As with Fay's method the
squares are scaled up by that part: weights stay near those of the file, and the spread of a statistic over replicates
is its sampling variance and its privacy noise together, with any software that knows replicate weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints
from populace.core.errors import UsageError
from populace.core.marginals import Domain, Marginal, cell_indices
from populace.inference.gls.coarse_tables import split_coarse_tables
from populace.inference.gls.gls import estimate_gls
from populace.inference.gls.observations import common_groupings, observe
from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema
from populace.survey.calibration.bounded_raking import rake_within_limits
from populace.survey.calibration.contingency_table import ContingencyTable
from populace.survey.design.design_parts import ControlTotals

Codes = Mapping[str, npt.NDArray[Any]]

# Noise is a whole number of these parts of a row on its way through least squares.
_NOISE_STEPS = 2**10
_RAKING_ROUNDS = 12
# What drawing rows adds to the variance where they are fitted to their model, beside independent rows.
FITTED_DRAWING_VARIANCE = 0.1
# No weight is above its base weight by more than this factor, or below by it, unless totals force it.
WEIGHT_LIMIT = 10.0
# How far replicates go of the way to another sample and other noise; a row's factor of sampling moves no further.
_WAY = 0.25
# By this factor noise moves a row in a replicate at most, and a cell by this part of what it holds.
_NOISE_LIMIT, _CELL_LIMIT = 2.5, 0.6
# What is left to raking of replicates, so that rows stay within the limit.
_RAKING_LIMIT = WEIGHT_LIMIT * (1 - _WAY) / _NOISE_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplicateWeights:
    """Weights of rows, and replicates of them in columns: V = `scale`·Σ (θ_r − mean of all θ_r)²."""

    base: Floats
    weights: Floats
    replicates: Floats
    way: float = 1.0
    """How far replicates go of the way to another sample and other noise."""

    @property
    def scale(self) -> float:
        """The factor of the squares."""
        return 1 / (self.way**2 * (int(self.replicates.shape[1]) - 1))

    @property
    def effective_rows(self) -> float:
        """So many rows of equal weight would tell as much: (Σw)²/Σw² (Kish)."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    def count_beyond(self, limit: float = WEIGHT_LIMIT) -> int:
        """Return how many rows have a weight or a replicate further than a factor from their base weight or weight."""
        near = 1 + 1e-6
        beyond = (self.weights > limit * near * self.base) | (self.weights * limit * near < self.base)
        own = self.weights[:, None]
        beyond |= ((self.replicates > limit * near * own) | (self.replicates * limit * near < own)).any(
            axis=1
        )
        return int((beyond & (self.weights > 0)).sum())

    def columns(self, *, weight: str = "weight", prefix: str = "rep") -> dict[str, Floats]:
        """Return them as columns for a file."""
        count = self.replicates.shape[1]
        digits = len(str(count))
        return {
            weight: self.weights,
            **{f"{prefix}{r + 1:0{digits}}": self.replicates[:, r] for r in range(count)},
        }


def make_replicate_weights(
    codes: Codes,
    *,
    schema: Schema,
    controls: Sequence[ControlTotals],
    measurements: Sequence[Measurement],
    sample: float,
    rng: np.random.Generator,
    replicates: int = 80,
    drawing: float = 1.0,
    base: Floats | None = None,
    design_effect: float = 1.0,
) -> ReplicateWeights:
    """Return weights of synthetic rows that meet public totals, and replicates that hold sampling error and noise.

    `measurements` are the noisy answers behind the rows, `sample` the number of private rows, as far as it is known.
    `drawing` is what drawing the synthetic rows adds to the variance, beside independent rows: 1 for those, less for
    rows that were fitted to their model. `base` are weights that rows have before the totals, equal ones if None.
    `design_effect` is that of sampling, beside rows drawn one by one. All is post-processing.
    """
    if replicates < 2 or sample <= 0 or not 0 <= drawing <= 1:
        raise UsageError(
            f"{replicates} replicates of a sample of {sample:g} rows cannot be made.",
            hint="give at least 2 replicates, a sample of some rows, and a drawing from 0 to 1",
        )
    table = ContingencyTable.of(controls, schema=schema)
    cells = table.joined[cell_indices(table.by, codes=codes, domain=schema.domain)]
    rows = len(cells)
    start = np.ones(rows) if base is None else base
    start = start * (table.totals.people / max(float(start.sum()), 1e-9))
    weights = _rake_weights(start, cells, table=table, limit=WEIGHT_LIMIT)
    # The variance of one row's factor: another sample, and other rows drawn from the same model.
    left = max(0.0, 1 - sample / table.totals.people)
    deviation = math.sqrt(rows / sample * left * design_effect + drawing)
    way = _WAY / max(deviation, 1.0)
    draw = _make_perturbation(codes, measurements=measurements, domain=schema.domain, sample=sample, way=way)
    columns = []
    for _ in range(replicates):
        factors = 1 + way * deviation * rng.choice((-1.0, 1.0), size=rows)
        columns.append(_rake_weights(weights * factors * draw(rng), cells, table=table, limit=_RAKING_LIMIT))
    return ReplicateWeights(base=start, weights=weights, replicates=np.stack(columns, axis=1), way=way)


def _rake_weights(start: Floats, cells: Ints, *, table: ContingencyTable, limit: float) -> Floats:
    """Return weights in proportion to `start` inside each cell, with all totals, within a factor of it if they can."""
    totals = table.totals
    shape = totals.expected.shape
    held = np.bincount(cells, weights=start, minlength=totals.expected.size).reshape(shape)
    wanted = rake_within_limits(np.where(totals.possible, held, 0.0), totals=totals, limit=limit)
    if wanted is None:
        raise UsageError(
            "the synthetic rows cannot meet the totals: some bins have no rows.",
            hint="give totals by coarser bins, or draw more rows",
        )
    ratio = np.divide(wanted, held, out=np.zeros(shape), where=held > 0)
    return start * ratio.ravel()[cells]


def _make_perturbation(
    codes: Codes, *, measurements: Sequence[Measurement], domain: Domain, sample: float, way: float
) -> Callable[[np.random.Generator], Floats]:
    """Return what draws a factor for each row that moves all measured tables a part of the way that noise would.

    Least squares joins tables that overlap, as it did when the rows were made: what it makes of noise alone is a move
    that all tables agree on.
    """
    seen = common_groupings(measurements)
    plain, _ = split_coarse_tables(measurements, domain=domain, groupings=seen)
    order = {name: place for place, name in enumerate(domain)}
    cliques = {tuple(sorted(each.marginal.clique, key=order.__getitem__)) for each in plain} - {()}
    largest = [one for one in sorted(cliques) if not any(set(one) < set(two) for two in cliques)]
    grouped, rows = domain.group(seen.values()), len(next(iter(codes.values())))
    cells = {
        clique: cell_indices(Marginal.with_groupings(clique, seen), codes=codes, domain=domain)
        for clique in largest
    }
    tables = {
        clique: np.bincount(place, minlength=grouped.cells(clique)).astype(np.float64) * (sample / rows)
        for clique, place in cells.items()
    }

    def draw(rng: np.random.Generator) -> Floats:
        factors = np.ones(rows)
        if not cells:
            return factors
        noise = [
            replace(
                each,
                counts=np.rint(
                    rng.normal(scale=_NOISE_STEPS * float(each.variance) ** 0.5, size=each.counts.shape)
                ),
                variance=each.variance * _NOISE_STEPS**2,
            )
            for each in plain
        ]
        effects = estimate_gls(observe(noise, domain=domain, groupings=seen), domain=grouped)
        targets = {}
        for clique, table in tables.items():
            moved = way / _NOISE_STEPS * effects.marginal(clique).ravel()
            # Both ways alike, so that replicates lie around the weights of the file.
            targets[clique] = table + np.clip(moved, -_CELL_LIMIT * table, _CELL_LIMIT * table)
        for _ in range(_RAKING_ROUNDS):
            for clique, place in cells.items():
                held = np.bincount(place, weights=factors, minlength=len(targets[clique]))
                share = targets[clique] * (rows / max(targets[clique].sum(), 1e-9))
                factors = factors * np.divide(share, held, out=np.zeros(len(held)), where=held > 0)[place]
        return np.clip(factors, 1 / _NOISE_LIMIT, _NOISE_LIMIT)

    return draw
