"""From noisy measurements to a model: the distribution that explains them best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from populace.errors import UsageError
from populace.infer.consistency import consistent_tables
from populace.infer.effects import estimate
from populace.infer.mirror_descent import descend
from populace.infer.model import Model
from populace.infer.objective import Objective
from populace.infer.observations import Observation, observe, shared_groupings
from populace.infer.scaling import fit_tables
from populace.infer.tables import Table
from populace.infer.within import share_codes
from populace.marginals import Domain
from populace.measurements import Measurement, Measurements
from populace.progress import Progress

_FLOOR = 1e-9


def fit(
    measurements: Sequence[Measurement],
    *,
    domain: Domain,
    start: Model | None = None,
    steps: int = 1000,
    tolerance: float = 1e-6,
    progress: Progress | None = None,
) -> Model:
    """Return the graphical model of least weighted squared error against the measurements.

    The loss is ½ Σ (marginal − count)² / variance over every measured cell, on the domain in which each grouped
    column is seen through its grouping; the number of rows is its least-squares estimate, at least 1.
    Least squares with non-negative cells gives tables and a lower bound of the loss; proportional fitting turns them
    into potentials, which is the answer when the junction tree adds no edges to the measured cliques. Otherwise, or
    if `start`, an earlier model, is better, mirror descent goes on from there until the loss is within `tolerance` of
    its minimum, or for so many steps at most.

    >>> from fractions import Fraction
    >>> from populace.marginals import Marginal
    >>> heads = Measurement(Marginal(("coin",)), np.array([30, 10]), Fraction(4))
    >>> model = fit([heads], domain=Domain({"coin": 2}))
    >>> model.total, model.marginal(("coin",)).round(3)
    (40.0, array([30., 10.]))
    """
    if not measurements:
        raise UsageError("there are no measurements to fit a model to.", hint="measure at least one marginal")
    groupings = shared_groupings(measurements)
    grouped = domain.grouped(groupings.values())
    observations = observe(measurements, domain=domain, groupings=groupings)
    even = tuple(_even(observation) for observation in observations)
    total = max(1.0, estimate(even, domain=grouped).total)
    objective = Objective(observations, domain=grouped, total=total)
    agreed = consistent_tables(even, domain=grouped, total=total, tolerance=tolerance / 10_000)
    first = fit_tables(objective, targets={clique: _raised(table) for clique, table in agreed.tables.items()})
    # An earlier model that groups columns otherwise says nothing in this domain.
    if start is not None and start.groupings == groupings:
        earlier = objective.flatten(start.potentials)
        first = min(first, earlier, key=lambda potentials: objective.at(potentials).loss)

    def told(done: float) -> None:
        if progress is not None:
            progress("fitting the model", done)

    end = descend(
        objective, start=first, steps=steps, tolerance=tolerance, bound=agreed.bound, progress=told
    ).point
    return Model(
        domain=domain,
        groupings=groupings,
        potentials=dict(zip(objective.factors, objective.tables(end.potentials), strict=True)),
        total=total,
        within={
            name: share_codes(measurements, grouping, totals=total * objective.column_shares(end, name))
            for name, grouping in groupings.items()
        },
    )


def fit_run(measurements: Measurements, *, progress: Progress | None = None) -> Model:
    """Return the model of one run's measurements; it names them by digest and repeats their stamp."""
    model = fit(measurements.items, domain=measurements.schema.domain, progress=progress)
    return replace(model, measurements=measurements.digest, rehearsal=measurements.record.rehearsal)


def _raised(table: Table) -> Table:
    """Return a table's shares with no cell emptier than a tiny part of an average one: potentials stay finite."""
    raised = np.maximum(table, _FLOOR * table.mean())
    return np.asarray(raised / raised.sum())


def _even(observation: Observation) -> Observation:
    """Return what closed-form least squares can use of an observation: all of it, or its sum.

    Several columns together with unequal variances do not separate into effects; the descent still uses every cell.
    """
    if len(observation.clique) < 2 or observation.uniform is not None:
        return observation
    return Observation((), np.asarray(observation.values.sum()), np.asarray(observation.variance.sum()))
