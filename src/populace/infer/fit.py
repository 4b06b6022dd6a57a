"""From noisy measurements to a model: the distribution that explains them best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from populace.errors import UsageError
from populace.infer.consistency import consistent_tables
from populace.infer.effects import estimate
from populace.infer.mirror_descent import descend
from populace.infer.model import Model
from populace.infer.objective import Objective
from populace.infer.observations import Observation, observe, shared_groupings
from populace.infer.propagation import Table
from populace.infer.scaling import fit_tables
from populace.infer.within import share_codes
from populace.marginals import Domain, Grouping
from populace.measurements import Measurement

Progress = Callable[[str, float], None]

_SWEEPS = 3


def fit(
    measurements: Sequence[Measurement],
    *,
    domain: Domain,
    start: Model | None = None,
    steps: int = 3000,
    tolerance: float = 1e-6,
    progress: Progress | None = None,
) -> Model:
    """Return the graphical model of least weighted squared error against the measurements.

    The loss is ½ Σ (marginal − count)² / variance over every measured cell, on the domain in which each grouped
    column is seen through its grouping; the number of rows is its least-squares estimate, at least 1.
    Closed-form least squares with non-negativity gives a start (or an earlier model does, if that is better), and
    accelerated mirror descent ends within `tolerance` × loss, or after so many steps; 0 steps keeps the start.

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
    first = _first_potentials(objective, even, start=start, groupings=groupings, total=total)

    def told(done: float) -> None:
        if progress is not None:
            progress("fitting the model", done)

    end = descend(objective, start=first, steps=steps, tolerance=tolerance, progress=told).point
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


def _first_potentials(
    objective: Objective,
    observations: Sequence[Observation],
    *,
    start: Model | None,
    groupings: Mapping[str, Grouping],
    total: float,
) -> Table:
    """Return the better of two starts: the earlier model, and closed-form tables scaled into potentials."""
    targets = consistent_tables(observations, cliques=objective.factors, domain=objective.domain, total=total)
    scaled = fit_tables(objective, start=objective.zeros(), targets=targets, sweeps=_SWEEPS)
    # An earlier model that groups columns otherwise says nothing in this domain.
    if start is None or start.groupings != groupings:
        return scaled
    earlier = objective.flatten(start.potentials)
    return min(scaled, earlier, key=lambda potentials: objective.at(potentials).loss)


def _even(observation: Observation) -> Observation:
    """Return what closed-form least squares can use of an observation: all of it, or its sum.

    Several columns together with unequal variances do not separate into effects; the descent still uses every cell.
    """
    if len(observation.clique) < 2 or observation.uniform is not None:
        return observation
    return Observation((), np.asarray(observation.values.sum()), np.asarray(observation.variance.sum()))
